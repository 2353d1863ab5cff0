"""The options of `compare`."""

from __future__ import annotations

import argparse
import sys

from tprimat.cli.options import _overrides
from tprimat.cli.options._parser import Parser, add_output_options, option

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
        "compare",
        prog=program(),
        description="Sets results of trainings against each other: which side is faster, by how much, and what "
        "must be known to believe it.",
        epilog=EPILOG,
        allow_abbrev=True,
    )
    parser.add_argument("results", nargs="*", metavar="FILE_OR_FOLDER", help="results, or folders that hold some")
    text = "where the picture and the report go, and where the results are when none are named (default: output)"
    option(parser, "--results-dir DIR", text, default="output")
    text = "the picture's name, which ends in .png, .svg or .pdf (default: comparison_plot.png)"
    option(parser, "--output NAME", text, default="comparison_plot.png")
    text = "the side that all others are set against: its name or a part of it (default: the first one)"
    option(parser, "--reference SIDE", text)
    option(parser, "--model MODEL", "compare this model alone")
    option(parser, "--no-plot", "draw no picture")
    option(
        parser,
        "--mode",
        "max: each side at its best, differences are listed (default); identical: any difference of "
        "configuration is refused, with status 3",
        choices=("max", "identical"),
        default="max",
    )
    option(parser, "--enhanced", "print MFU, memory, cost, energy and time to train of each side too")
    add_output_options(
        parser,
        quiet="print the verdict alone",
        verbose="print every reason, setting and warning",
        json="print the comparison and the metrics for a program",
    )
    _overrides.add_options(parser)
    _add_gate_options(parser.add_argument_group("regressions (for CI)"))
    return parser


def program() -> str:
    """Return what the usage line calls this program, and what makes the same comparison again."""
    name = sys.argv[0].replace("\\", "/").rpartition("/")[2]
    # benchmark.py compares what it has measured; the script beside it does so again.
    name = "compare_results.py" if name == "benchmark.py" else name
    return name if name.endswith(".py") and name != "__main__.py" else "tprimat compare"


def _add_gate_options(group: argparse._ArgumentGroup) -> None:
    """Add the options of the regression check."""
    option(group, "--baseline OLD", "results of before", nargs="+", default=[])
    option(group, "--candidate NEW", "results of now", nargs="+", default=[])
    option(
        group,
        "--allow-slower PERCENT",
        "how much less throughput is allowed, such as 3%% (default: nothing); only what the interval says for "
        "sure fails, with status 1",
    )
    text = "the same for any metric, in percent or in its unit: peak_memory_reserved_gb=0.5; may be repeated"
    option(group, "--allow METRIC=AMOUNT", text, action="append", default=[])
    option(group, "--summary FILE", "write the answer as Markdown, for a pull request")
