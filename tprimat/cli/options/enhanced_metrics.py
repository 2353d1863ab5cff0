"""The options of `enhanced-metrics`."""

from __future__ import annotations

import sys

from tprimat.cli.options import _overrides
from tprimat.cli.options._parser import Parser, add_output_options

EPILOG = """\
Nothing is assumed: without --cost there is no money, without a stated precision no MFU, without
measured energy no energy. Each figure that can't be given is listed with the reason.
"""


def parser() -> Parser:
    """Return the parser of `enhanced-metrics`."""
    parser = Parser(
        "enhanced-metrics",
        prog="enhanced_metrics.py" if sys.argv[0].endswith("enhanced_metrics.py") else "tprimat enhanced-metrics",
        description="What the speed of results is worth: achieved TFLOP/s, MFU, memory, energy, cost, time to train.",
        epilog=EPILOG,
        allow_abbrev=True,
    )
    parser.add_argument("results", nargs="*", metavar="FILE_OR_FOLDER", help="default: output")
    _overrides.add_options(parser)
    add_output_options(
        parser,
        quiet="print a line for each side, with the figures that are known",
        verbose="print the files too, and every doubt about a run",
        json="for programs: every figure with interval and reason",
    )
    return parser
