"""Prices, precision and peak that the user states, for the comparison and the metrics."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from tprimat.analysis.efficiency import Options
from tprimat.catalog import prices
from tprimat.compare import Comparison, money
from tprimat.errors import UsageError


def files_apart(arguments: argparse.Namespace) -> list[str]:
    """Take the files out of what follows --cost, which takes all words up to the next option.

    Returns:
        What is there under its name and is no price.
    """
    files = [word for word in arguments.cost if not prices.is_price(word) and Path(word).exists()]
    arguments.cost = [word for word in arguments.cost if word not in files]
    return files


def options(arguments: argparse.Namespace) -> Options:
    """Return what the user knows beyond the results, except the prices.

    Raises:
        UsageError: a peak that is none, or where prices come from without any price.
    """
    peak = arguments.peak_tflops
    if peak is not None and not 0 < peak < math.inf:
        raise UsageError("--peak-tflops must be above zero", heading="wrong-usage")
    if (arguments.cost_source or arguments.cost_date) and not arguments.cost:
        raise UsageError("--cost-source and --cost-date say where the prices of --cost come from", heading="wrong-cost")
    return Options(precision=arguments.precision, peak_tflops=peak, tdp_energy=arguments.energy_from_tdp)


def priced(comparison: Comparison, arguments: argparse.Namespace) -> Comparison:
    """Return the comparison with the prices, if any are given."""
    if not arguments.cost:
        return comparison
    return money.with_prices(comparison, arguments.cost, source=arguments.cost_source, date=arguments.cost_date)
