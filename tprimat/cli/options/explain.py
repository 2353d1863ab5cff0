"""The options of `explain`."""

from __future__ import annotations

from tprimat.cli.options._parser import Parser

EPILOG = """\
A and B are profiler traces of PyTorch (.json, .json.gz), directories with one for each rank, or results with a trace.
The parts of a step don't overlap and add up to it, so their differences add up to the difference of the steps.

Exit status: {OK} success, {USAGE} wrong usage, or no trace in A or B, {NOT_COMPARABLE} different work.
"""


def parser() -> Parser:
    """Return the parser of `explain`."""
    parser = Parser(
        "explain",
        description="Explain the difference between two step times from two profiler traces.",
        epilog=EPILOG,
    )
    parser.add_argument("before", metavar="A", help="trace of the first system; NAME=PATH names it")
    parser.add_argument("after", metavar="B", help="trace of the second")
    parser.add_output_options(
        quiet="print only the difference and where to start",
        verbose="print all parts, and the operators behind them",
        json="print JSON: parts, operators, kernels",
    )
    return parser
