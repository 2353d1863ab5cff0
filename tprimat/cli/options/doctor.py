"""The options of `doctor`."""

from __future__ import annotations

from tprimat.cli.options._parser import Parser

DESCRIPTION = """\
Check this machine: hardware, software, available frameworks, and how to install
what is missing. Read-only.
"""

EPILOG = "Exit status: {OK} success, {USAGE} wrong usage."


def parser() -> Parser:
    """Return the parser of `doctor`."""
    parser = Parser("doctor", description=DESCRIPTION, epilog=EPILOG, allow_abbrev=True)
    parser.option(
        "--output-dir DIR",
        "check this results directory (default: output)",
        default="output",
    )
    parser.add_output_options(
        False,
        quiet="print only problems",
        verbose="print all versions and settings too",
        json="print JSON",
    )
    return parser
