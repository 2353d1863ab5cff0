"""The options of `primus-config`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from tprimat.cli.options._parser import Parser, PassingParser, add_output_options, program
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
    parser = PassingParser(
        prog=os.environ.get("TPRIMAT_SCRIPT") or program("primus-config"),
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("config", nargs="?", type=Path, metavar="FILE", help="a configuration (PRIMUS_CONFIG)")
    parser.add_argument(
        "--model",
        metavar="NAME",
        help=f"instead of FILE: Primus' own for this GPU; {PRIMUS.models[0]} (default) or {PRIMUS.models[1]}",
    )
    parser.add_argument(
        "--precision",
        choices=PRIMUS.precisions,
        metavar="NAME",
        help=f"{', '.join(PRIMUS.precisions)} (default: {DEFAULT_PRECISION})",
    )
    parser.add_argument("--gpus", type=int, metavar="N", help="GPUs of this machine (GPUS_PER_NODE; default: all)")
    parser.add_argument("--primus-path", type=Path, metavar="DIR", help="folder of Primus (PRIMUS_PATH)")
    parser.add_argument(
        "--against", type=Path, metavar="RESULT", help="say how it differs from the setup of this result"
    )
    add_output_options(
        parser,
        quiet="print what is in force, or with --against what differs, and nothing else",
        verbose="print every parameter in force, and the command line, too",
        json="print one document for a program: every parameter with what set it, differences, notes, exit status",
    )
    return parser
