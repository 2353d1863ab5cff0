"""The options of `watch`."""

from __future__ import annotations

import argparse
import re

from tprimat.cli.options._log_values import add_log_values, add_mapping
from tprimat.cli.options._parser import Parser
from tprimat.errors import ExitStatus

EPILOG = """\
In a terminal the display is updated in place; otherwise a line is printed every minute and at every event: the warm-up
ends, the speed changes, the training stalls.

The interval covers this run only: it is the uncertainty of this run's mean. Other runs of the same configuration may be
outside it.

Exit status: {OK} the training is complete or the interval is narrow enough, {SLOWER} slower than --max-slowdown
allows, {USAGE} wrong usage, {TRAINING_FAILED} the training failed, was stopped, or stalled longer than --max-stall
allows, {INCONCLUSIVE} the training ended, or Ctrl-C was pressed, before the interval was narrow enough.
"""


def parser() -> Parser:
    """Return the parser of `watch`."""
    parser = Parser(
        "watch",
        description="Follow a training while it runs: step, loss, throughput, MFU, time left.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "log", metavar="LOG", help="a log file that grows, a directory of logs, or - for stdin"
    )
    parser.option("--baseline PATH", "results or a log to compare with while it runs")
    parser.option(
        "--until-ci PCT",
        "stop once the within-run interval is at most ± PCT, e.g. 1%%",
        type=_percent,
    )
    parser.option(
        "--max-slowdown PCT",
        f"stop with status {ExitStatus.SLOWER:d} if more than PCT slower than --baseline, or than"
        " earlier in this run",
        type=_percent,
    )
    parser.option(
        "--max-stall SECONDS",
        f"stop with status {ExitStatus.TRAINING_FAILED:d} if no step is logged for this long",
        type=_seconds,
    )
    parser.option(
        "--interval SECONDS",
        "time between two readings of the log (default: 2)",
        type=_seconds,
        default=2.0,
    )
    add_mapping(parser)
    add_log_values(parser)
    parser.add_output_options(
        quiet="print only events and the final line",
        verbose="print a line for every step",
        json="print a JSON object every minute and at the end",
    )
    return parser


def _percent(text: str) -> float:
    percent = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+) ?%?", text.strip())
    if not percent or not 0 < float(percent[1]) < 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage between 0 and 100")
    return float(percent[1]) / 100


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.05 <= value <= 1e7:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0.05 or more")
    return value
