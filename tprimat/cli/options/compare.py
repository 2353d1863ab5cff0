"""The options of `compare`."""

from __future__ import annotations

import argparse

from tprimat.cli.options import _parser
from tprimat.cli.options._log_values import add_log_values
from tprimat.cli.options._parser import Parser, add_output_options, option

PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp4")

_OLDER_MODES = {"max": "best", "identical": "same"}

EPILOG = """\
examples:
  {0}                                   compare the results in output/
  {0} b200/ mi355x/ --cost B200=5.50 MI355X=3.95
  {0} nvidia.log amd.log             logs of any known format, without importing them
  {0} old=yesterday/ new=today/         name the systems
  {0} a.json bundle.tar.gz --precision MI355X=fp8 --verbose
  {0} runs/ --scaling                   sizes of one system: efficiency, and the first below 90%
  {0} --baseline main/ --candidate branch/ --max-slowdown 3%

Directories are read with their subdirectories: their results, or their logs where they hold no results. Results for
different models are compared separately. A named file that can't be read is an error; the others are compared.

exit status: 0 success, 1 regression, 2 wrong usage or an unreadable file, 3 not comparable,
4 implausible results, 6 inconclusive check (with --fail-on-inconclusive)
"""


def parser() -> Parser:
    """Return the parser of `compare`."""
    parser = Parser(
        "compare",
        prog=program(),
        usage="%(prog)s [PATH ...] [options]",
        description="Compare training benchmark results: which system is faster, by how much, and how certain that is.",
        epilog=EPILOG.format(program()),
        allow_abbrev=True,
    )
    text = "results, logs, bundles, directories, globs, or - for stdin; NAME=PATH names a system (default: output)"
    parser.add_argument("results", nargs="*", metavar="PATH", help=text)
    add_overrides(parser)
    option(parser, "--reference NAME", "system to compare with (default: the slowest)")
    option(parser, "--model MODEL", "compare only this model")
    option(parser, "--scaling", "show throughput and efficiency over the number of GPUs")
    add_output_options(
        parser,
        quiet="print only the verdict",
        verbose="show all caveats, settings and warnings",
        json="print JSON",
    )
    group = parser.add_argument_group("reports and details")
    text = "directory of the results, the report and the plot (default: output)"
    option(group, "--results-dir DIR", text, default="output")
    text = "plot file: .png, .svg or .pdf (default: comparison_plot.png)"
    option(group, "--output FILE", text, default="comparison_plot.png")
    option(group, "--no-plot", "write no plot")
    text = "best: settings may differ (default); same: fail if any differ"
    choices = tuple(_OLDER_MODES.values())
    option(group, "--mode", text, type=lambda word: _OLDER_MODES.get(word, word), choices=choices, default="best")
    option(group, "--efficiency", "print MFU, memory, cost, energy and time to train")
    option(group, "--target-loss LOSS", "steps, tokens and time until the training loss is LOSS or less", type=float)
    option(group, "--enhanced", argparse.SUPPRESS, dest="efficiency")
    add_details(group)
    add_log_values(parser, precision=False)
    _add_regression_check(parser.add_argument_group("regression check (for CI)"))
    return parser


def program() -> str:
    """Return what the usage line calls this program, and what makes the same comparison again."""
    name = _parser.program("compare")
    # benchmark.py compares what it has measured; the script beside it does so again.
    return "compare_results.py" if name == "benchmark.py" else name


def add_overrides(parser: Parser) -> None:
    """Add the options for what results don't state: prices and precision."""
    text = "price per GPU-hour, or a range 2.20:3.10; plain numbers apply in the order of the files"
    option(parser, "--cost NAME=USD", text, nargs="+", default=[])
    add_precision(parser)


def add_precision(parser: Parser) -> None:
    """Add the option for a precision that results don't state."""
    text = f"precision of results that don't state it: {', '.join(PRECISIONS)}; without NAME= for all of them"
    option(parser, "--precision NAME=PRECISION", text, nargs="+", default=[])


def add_details(group: argparse._ActionsContainer) -> None:
    """Add the options for the source of the prices, the hardware peak and energy."""
    option(group, "--cost-source TEXT", "where the prices come from, for the report")
    option(group, "--cost-date DATE", "date of the prices, for the report")
    option(group, "--peak-tflops TFLOPS", "dense peak of the device (default: from its data sheet)", type=float)
    option(group, "--electricity USD", "price per kWh, for the cost of the measured energy", type=float)
    text = "power usage effectiveness of the data center (default: 1)"
    option(group, "--pue RATIO", text, type=float)
    option(group, "--energy-from-tdp", "estimate energy from TDP (upper bound)")


def _add_regression_check(group: argparse._ArgumentGroup) -> None:
    """Add the options of the regression check."""
    option(group, "--baseline PATH", "results to compare with", nargs="+", default=[])
    option(group, "--candidate PATH", "results to check", nargs="+", default=[])
    text = "fail if throughput drops by more than PCT (default: 0%%)"
    option(group, "--max-slowdown PCT", text)
    option(group, "--allow-slower PCT", argparse.SUPPRESS, dest="max_slowdown")
    text = "fail if METRIC worsens by more, e.g. peak_memory_reserved_gb=0.5 or =3%% (repeatable)"
    option(group, "--threshold METRIC=AMOUNT", text, action="append", default=[])
    option(group, "--allow METRIC=AMOUNT", argparse.SUPPRESS, dest="threshold", action="append")
    option(group, "--fail-on-inconclusive", "exit with status 6 if more runs are needed (default: 0)")
    option(group, "--summary FILE", "write the answer as Markdown, for a pull request")
    text = "github: print annotations for GitHub Actions, and append the result to the job summary"
    option(group, "--format FORMAT", text, choices=("text", "github"), default="text")
