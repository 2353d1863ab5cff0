"""The options of `primus-config`."""

from __future__ import annotations

from pathlib import Path

from tprimat.cli.options._parser import Parser
from tprimat.frameworks import by_name
from tprimat.frameworks.primus import DEFAULT_PRECISION

PRIMUS = by_name("primus")

DESCRIPTION = """\
Resolve a Primus configuration: its file, the presets it includes, the environment
and the command line, merged as Primus merges them. With --against, also show how it
differs from the configuration of a result.
"""

EPILOG = """\
Arguments after -- are passed to Primus. Exit status: {OK} success (with --against: same
configuration), {USAGE} wrong usage or nothing readable, {NOT_COMPARABLE} a setting that affects speed differs.
"""


def parser() -> Parser:
    """Return the parser of `primus-config`."""
    parser = Parser("primus-config", description=DESCRIPTION, epilog=EPILOG, passes=True)
    parser.add_argument(
        "config", nargs="?", type=Path, metavar="FILE", help="configuration file (PRIMUS_CONFIG)"
    )
    parser.option(
        "--model NAME",
        f"use Primus' own file: {', '.join(PRIMUS.models)} (default: {PRIMUS.models[0]})",
    )
    parser.option(
        "--precision NAME",
        f"use {', '.join(PRIMUS.precisions)} (default: {DEFAULT_PRECISION})",
        choices=PRIMUS.precisions,
    )
    parser.option("--gpus N", "use N GPUs (GPUS_PER_NODE; default: all)", type=int)
    parser.option("--primus-path DIR", "set the Primus directory (PRIMUS_PATH)", type=Path)
    parser.option("--against RESULT", "show differences from this result", type=Path)
    parser.add_output_options(
        False,
        quiet="print only the values, or the differences",
        verbose="print all parameters and the command line too",
        json="print JSON: parameters, differences, notes, exit status",
    )
    return parser
