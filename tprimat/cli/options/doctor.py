"""The options of `doctor`."""

from __future__ import annotations

from tprimat.cli.options._parser import Parser, add_output_options, option

DESCRIPTION = """\
Says what this machine has (GPUs, driver, CUDA or ROCm, torch, frameworks, memory held by others,
power cap, clocks, disk), what can be run with it, and what is missing with the command that gets
it. Changes nothing.
"""

EPILOG = "Exit status: 0 whatever was found, 2 wrong usage."


def parser() -> Parser:
    """Return the parser of `doctor`."""
    parser = Parser("doctor", description=DESCRIPTION, epilog=EPILOG, allow_abbrev=True)
    option(parser, "--output-dir DIR", "where results would go (default: output)", default="output")
    add_output_options(
        parser,
        quiet="show only what is missing or doubtful",
        verbose="show every version and setting too",
        json="for programs",
    )
    return parser
