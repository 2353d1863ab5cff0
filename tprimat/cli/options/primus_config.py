"""The options of `primus-config`."""

from __future__ import annotations

import os
from pathlib import Path

from tprimat.cli.options._parser import Parser, add_output_options, option
from tprimat.frameworks import by_name
from tprimat.frameworks.primus import DEFAULT_PRECISION

PRIMUS = by_name("primus")

DESCRIPTION = """\
Shows the configuration that Primus would train: its file, the presets that this
stands on, the environment and the command line, merged as Primus merges them.
With --against, also how it differs from the setup of a result.
"""

EPILOG = """\
What stands after -- is taken as Primus' command line. Exit status: 0 shown (and the same as the
result), 2 wrong usage or nothing readable, 3 it differs from the result in what decides the speed.
"""


def parser() -> Parser:
    """Return the parser of `primus-config`."""
    script = os.environ.get("TPRIMAT_SCRIPT")
    parser = Parser("primus-config", prog=script, description=DESCRIPTION, epilog=EPILOG, passes=True)
    parser.add_argument("config", nargs="?", type=Path, metavar="FILE", help="a configuration (PRIMUS_CONFIG)")
    default, other = PRIMUS.models
    option(parser, "--model NAME", f"instead of FILE: Primus' own for this GPU; {default} (default) or {other}")
    text = f"{', '.join(PRIMUS.precisions)} (default: {DEFAULT_PRECISION})"
    option(parser, "--precision NAME", text, choices=PRIMUS.precisions)
    option(parser, "--gpus N", "GPUs of this machine (GPUS_PER_NODE; default: all)", type=int)
    option(parser, "--primus-path DIR", "folder of Primus (PRIMUS_PATH)", type=Path)
    option(parser, "--against RESULT", "say how it differs from the setup of this result", type=Path)
    add_output_options(
        parser,
        quiet="print what is in force, or with --against what differs, and nothing else",
        verbose="print every parameter in force, and the command line, too",
        json="print one document for a program: every parameter with what set it, differences, notes, exit status",
    )
    return parser
