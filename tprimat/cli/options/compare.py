"""The options of `compare`."""

from __future__ import annotations

import argparse
import sys

from tprimat.cli.options import _overrides
from tprimat.cli.options._parser import Parser, add_output_options

DEFAULT_FOLDER = "output"
EPILOG = """\
Without FILE_OR_FOLDER the results of the folder --results-dir are compared. Folders are read with
all that lies below them. A side is GPU, count, framework, stack, scale and label, in one setup;
models are never crossed. With --baseline and --candidate the question is whether the candidate is
slower than allowed. Exit status: 0 well, 1 slower than allowed for sure, 2 wrong usage or nothing
readable, 3 not comparable, 4 the verdict would rest on figures that can't be true.
"""


def parser() -> Parser:
    """Return the parser of `compare`."""
    parser = Parser(
        prog=program(),
        description="Sets results of trainings against each other: which side is faster, by how much, and what "
        "must be known to believe it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("results", nargs="*", metavar="FILE_OR_FOLDER", help="results, or folders that hold some")
    parser.add_argument(
        "--results-dir",
        default=DEFAULT_FOLDER,
        metavar="DIR",
        help="where the picture and the report go, and where the results are when none are named (default: output)",
    )
    parser.add_argument(
        "--output",
        default="comparison_plot.png",
        metavar="NAME",
        help="the picture's name, which ends in .png, .svg or .pdf (default: comparison_plot.png)",
    )
    parser.add_argument(
        "--reference",
        metavar="SIDE",
        help="the side that all others are set against: its name or a part of it (default: the first one)",
    )
    parser.add_argument("--model", metavar="MODEL", help="compare this model alone")
    parser.add_argument("--no-plot", action="store_true", help="draw no picture")
    parser.add_argument(
        "--mode",
        choices=("max", "identical"),
        default="max",
        help="max: each side at its best, differences are listed (default); identical: any difference of "
        "configuration is refused, with status 3",
    )
    parser.add_argument(
        "--enhanced", action="store_true", help="print MFU, memory, cost, energy and time to train of each side too"
    )
    add_output_options(
        parser,
        quiet="print the verdict alone",
        verbose="print every reason, setting and warning",
        json="print the comparison and the metrics for a program",
    )
    _overrides.add_options(parser)
    _add_gate_options(parser)
    return parser


def program() -> str:
    """Return what the usage line calls this program."""
    name = sys.argv[0].replace("\\", "/").rpartition("/")[2]
    return name if name.endswith(".py") and name != "__main__.py" else "tprimat compare"


def _add_gate_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the regression check."""
    group = parser.add_argument_group("regressions (for CI)")
    group.add_argument("--baseline", nargs="+", default=[], metavar="OLD", help="results of before")
    group.add_argument("--candidate", nargs="+", default=[], metavar="NEW", help="results of now")
    group.add_argument(
        "--allow-slower",
        metavar="PERCENT",
        help="how much less throughput is allowed, such as 3%% (default: nothing); only what the interval says for "
        "sure fails, with status 1",
    )
    group.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="METRIC=AMOUNT",
        help="the same for any metric, in percent or in its unit: peak_memory_reserved_gb=0.5; may be repeated",
    )
    group.add_argument("--summary", metavar="FILE", help="write the answer as Markdown, for a pull request")
