"""The options that say what results don't: prices, precision, peak. The comparison and the metrics take them."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from tprimat.errors import UsageError

if TYPE_CHECKING:
    from tprimat.analysis.efficiency import Options
    from tprimat.compare import Comparison

PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp4")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds them to a command."""
    parser.add_argument(
        "--cost",
        nargs="+",
        default=[],
        metavar="PRICE",
        help="USD per GPU-hour: one for each side in the order of the printed table, or NAME=PRICE; a price may be "
        "a range, 2.20:3.10",
    )
    parser.add_argument("--cost-source", metavar="TEXT", help="where the prices come from, printed beside them")
    parser.add_argument("--cost-date", metavar="DATE", help="when they were valid")
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        help="of the matrix products, where a result doesn't state it; the files stay as they are",
    )
    parser.add_argument(
        "--peak-tflops", type=float, metavar="TFLOPS", help="dense peak of the device, instead of the table's"
    )
    parser.add_argument(
        "--energy-from-tdp",
        action="store_true",
        help="give energy as if each GPU drew its TDP; it is a bound from a data sheet, and called so",
    )


def files_apart(arguments: argparse.Namespace) -> list[str]:
    """Takes the files out of what follows --cost, which takes all words up to the next option.

    Returns:
        What is there under its name and is no price.
    """
    from tprimat.catalog import prices

    files = [word for word in arguments.cost if not prices.is_price(word) and Path(word).exists()]
    arguments.cost = [word for word in arguments.cost if word not in files]
    return files


def options(arguments: argparse.Namespace) -> Options:
    """What the user knows, but for the prices.

    Raises:
        UsageError: a peak that is none, or where prices come from without any price.
    """
    from tprimat.analysis.efficiency import Options

    peak = arguments.peak_tflops
    if peak is not None and not 0 < peak < math.inf:
        raise UsageError("--peak-tflops must be above zero", heading="wrong-usage")
    if (arguments.cost_source or arguments.cost_date) and not arguments.cost:
        raise UsageError("--cost-source and --cost-date say where the prices of --cost come from", heading="wrong-cost")
    return Options(precision=arguments.precision, peak_tflops=peak, tdp_energy=arguments.energy_from_tdp)


def priced(comparison: Comparison, arguments: argparse.Namespace) -> Comparison:
    """The comparison with the prices, where any were given."""
    from tprimat.compare import money

    if not arguments.cost:
        return comparison
    return money.with_prices(comparison, arguments.cost, source=arguments.cost_source, date=arguments.cost_date)
