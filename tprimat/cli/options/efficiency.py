"""The options of `efficiency`."""

from __future__ import annotations

from tprimat.cli.options._log_values import add_log_values
from tprimat.cli.options._parser import Parser
from tprimat.cli.options.compare import add_details, add_overrides

EPILOG = """\
Nothing is assumed: no cost without --cost, no MFU without a precision, no energy without measured
power. A value that is unknown is listed with the reason.
"""


def parser() -> Parser:
    """Return the parser of `efficiency`."""
    parser = Parser(
        "efficiency",
        description="Compute TFLOP/s, MFU, memory, energy, cost and time to train of results.",
        epilog=EPILOG,
        allow_abbrev=True,
    )
    parser.add_argument(
        "results", nargs="*", metavar="PATH", help="results, logs or directories (default: output)"
    )
    add_overrides(parser)
    add_details(parser)
    add_log_values(parser, precision=False)
    parser.add_output_options(
        quiet="print one line per system, with the values that are known",
        verbose="show files and all warnings",
        json="print JSON",
    )
    return parser
