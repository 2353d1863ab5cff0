"""The options of `compare`."""

from __future__ import annotations

import argparse

from tprimat.cli.options import _parser
from tprimat.cli.options._log_values import add_as_read, add_log_values, add_mapping
from tprimat.cli.options._parser import Group, Options, Parser
from tprimat.errors import ExitStatus

PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp4")

PLOT = "comparison_plot.png"

_OLDER_MODES = {"max": "best", "identical": "same"}

DESCRIPTION = """\
Compare training benchmark results: which system is faster, by how much, and how certain that is.

examples:
  %(prog)s                            compare the results in output/
  %(prog)s nvidia.log amd.log         logs, without importing them
  %(prog)s old=yesterday/ new=today/  name the systems
  %(prog)s runs/ --scaling            efficiency over GPU counts
  %(prog)s b200/ mi355x/ --cost B200=5.50 MI355X=3.95
  %(prog)s a.json bundle.tar.gz --precision MI355X=fp8 --verbose
  %(prog)s --baseline main/ --candidate branch/ --max-slowdown 3%%
"""

EPILOG = """\
Directories are read with their subdirectories and links: all results, and all logs that are not the source of a result.
Logs next to results of a training script are skipped, as it may have written them; the last line then shows the command
that includes them. Results for different models are compared separately. If a file that you pass cannot be read, that
is an error; the others are still compared.

exit status: {OK} success, {SLOWER} regression, {USAGE} wrong usage or an unreadable file, {NOT_COMPARABLE} not
comparable, {IMPLAUSIBLE} implausible results, {INCONCLUSIVE} inconclusive check (with --fail-on-inconclusive)
"""


def parser() -> Parser:
    """Return the parser of `compare`."""
    parser = Parser(
        "compare",
        prog=program(),
        usage="%(prog)s [PATH ...] [options]",
        description=DESCRIPTION,
        epilog=EPILOG,
        allow_abbrev=True,
    )
    most_used = parser.most_used()
    most_used.add_argument(
        "results",
        nargs="*",
        metavar="PATH",
        help=(
            "results, logs, bundles, directories, globs, or - for stdin; NAME=PATH names a system,"
            " FILE#2 is one training of a text (default: output)"
        ),
    )
    add_overrides(most_used)
    most_used.option(
        "--reference NAME",
        "baseline (default: the fastest of another vendor, or the second fastest)",
    )
    most_used.option("--efficiency", "print MFU, memory, cost, energy and time to train")
    parser.option("--model MODEL", "compare only this model")
    parser.option("--scaling", "show throughput and efficiency over the number of GPUs")
    parser.option(
        "--time",
        "show where the wall time goes, and why a system reaches the target sooner",
    )
    parser.add_output_options(
        quiet="print only the verdict",
        verbose="show all caveats, settings and warnings",
        json="print JSON",
    )
    parser.option(
        "--all",
        "show all caveats, systems, next steps and other results, without further details",
    )
    _add_reports(parser.add_argument_group("reports and details"))
    add_mapping(parser)
    add_as_read(parser)
    add_log_values(parser, precision=False)
    _add_regression_check(parser.add_argument_group("regression check (for CI)"))
    return parser


def _add_reports(group: Group) -> None:
    group.option(
        "--results-dir DIR",
        "directory of the report and the plot, and of the results if no PATH is given (default:"
        " output)",
    )
    group.option(
        "--output FILE",
        "plot file, .png, .svg or .pdf; a bare name lies in --results-dir (default:"
        " comparison_plot.png)",
        default=PLOT,
    )
    group.option("--no-plot", "write no plot")
    group.option(
        "--mode",
        "best: settings may differ (default); same: fail if any differ",
        type=lambda word: _OLDER_MODES.get(word, word),
        choices=tuple(_OLDER_MODES.values()),
        default="best",
    )
    group.option(
        "--target-loss LOSS",
        "steps, tokens and time until the training loss is LOSS or less",
        type=float,
    )
    group.option("--enhanced", argparse.SUPPRESS, dest="efficiency")
    add_details(group)


def program() -> str:
    """Return the name of this program in the usage line, and the command that repeats the same
    comparison.
    """
    name = _parser.program("compare")
    # benchmark.py compares what it measured; the comparing script next to it can repeat that.
    if name == "benchmark.py":
        return "compare_results.py"
    return name


def add_overrides(parser: Options) -> None:
    """Add the options for what results don't state: prices and precision."""
    parser.option(
        "--cost NAME=USD",
        "price per GPU-hour, or a range 2.20:3.10; plain numbers apply in the order of the files",
        nargs="+",
        default=[],
    )
    add_precision(parser)


def add_precision(parser: Options) -> None:
    """Add the option for a precision that results don't state."""
    parser.option(
        "--precision NAME=PRECISION",
        f"precision of results that don't state it: {', '.join(PRECISIONS)}; without NAME= for all"
        " of them",
        nargs="+",
        default=[],
    )


def add_details(group: Options) -> None:
    """Add the options for the source of the prices, the hardware peak and energy."""
    group.option("--cost-source TEXT", "where the prices come from, for the report")
    group.option("--cost-date DATE", "date of the prices, for the report")
    group.option(
        "--peak-tflops TFLOPS",
        "dense peak of the device (default: from its data sheet)",
        type=float,
    )
    group.option(
        "--electricity USD", "price per kWh, for the cost of the measured energy", type=float
    )
    group.option(
        "--pue RATIO",
        "power usage effectiveness of the data center (default: 1)",
        type=float,
    )
    group.option("--energy-from-tdp", "estimate energy from TDP (upper bound)")


def _add_regression_check(group: Group) -> None:
    group.option(
        "--baseline PATH",
        "older results, the reference of the check; none if there are none yet",
        nargs="+",
        default=[],
    )
    group.option("--candidate PATH", "results to check", nargs="+", default=[])
    group.option(
        "--max-slowdown PCT",
        "fail if throughput drops by more than PCT (default: 0%%, if there is no --threshold)",
    )
    group.option("--allow-slower PCT", argparse.SUPPRESS, dest="max_slowdown")
    group.option(
        "--threshold METRIC=AMOUNT",
        "fail if METRIC worsens by more, e.g. peak_memory_reserved_gb=0.5 or =3%% (repeatable)",
        action="append",
        default=[],
    )
    group.option("--allow METRIC=AMOUNT", argparse.SUPPRESS, dest="threshold", action="append")
    group.option(
        "--fail-on-inconclusive",
        f"exit with status {ExitStatus.INCONCLUSIVE:d} if more runs are needed (default:"
        f" {ExitStatus.OK:d})",
    )
    group.option("--summary FILE", "write the result of the check as Markdown, for a pull request")
    group.option(
        "--format FORMAT",
        "github: print annotations for GitHub Actions, and append the result to the job summary",
        choices=("text", "github"),
        default="text",
    )
