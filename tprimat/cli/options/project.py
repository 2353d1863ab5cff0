"""The options of `project`."""

from __future__ import annotations

from tprimat.cli.options._log_values import add_log_values
from tprimat.cli.options._parser import Parser
from tprimat.cli.options._training import at_least
from tprimat.cli.options.compare import add_precision

EPILOG = """\
Two models are fitted to the measured GPU counts: step time = a * batch / GPUs + b * log2(GPUs), the sum of divided work
and growing communication; and a straight line in log-log. In a backtest, each projects the largest measured GPU count
from the smaller ones. The first model is used only if its error is smaller. docs/scaling.md lists the limits.

Exit status: {OK} projected, {USAGE} wrong usage or an unreadable file, {NOT_COMPARABLE} no system was measured at
two GPU counts.
"""


def parser() -> Parser:
    """Return the parser of `project`."""
    parser = Parser(
        "project",
        usage="%(prog)s --gpus N [PATH ...] [options]",
        description="Project the throughput of more GPUs from measured GPU counts.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "results",
        nargs="*",
        metavar="PATH",
        help="results, logs, bundles, directories, or globs (default: output)",
    )
    parser.option("--gpus N", "number of GPUs to project to", type=at_least(1), required=True)
    parser.option(
        "--batch N",
        "global batch at N GPUs (default: the common global batch, else the batch per GPU of the"
        " nearest GPU count)",
        type=at_least(1),
    )
    parser.option("--model MODEL", "project only this model")
    add_precision(parser)
    add_log_values(parser, precision=False)
    parser.add_output_options(
        quiet="print only the projection",
        verbose="also show every caveat and what is not covered",
        json="print JSON: projections, their sizes, exit status",
    )
    return parser
