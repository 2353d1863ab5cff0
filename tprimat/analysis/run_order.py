"""Detect run-order effects: a trend, or an alternation of odd and even runs."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from typing import Literal

from tprimat.analysis.intervals import welch

EXACT_RUNS = 40
"""Up to here Kendall's distribution is counted; beyond, the normal one is as good."""

ORDER_RUNS = 6
"""Fewer runs than this have too few orders to distinguish a trend from chance at 1 %."""


@dataclasses.dataclass(frozen=True)
class Order:
    """What runs do from first to last, or between odd and even; and by how much, relative.

    The size is the second half's mean over the first's, or odd runs' over even runs', minus one.
    """

    kind: Literal["rises", "falls", "alternates"]
    size: float


def run_order_trend(means: Sequence[float]) -> Order | None:
    """Return how runs follow their order, so that their spread is not the machine's; None if they
    don't.

    A trend by Mann and Kendall's exact test at 1 %, an alternation by Welch's t of odd against
    even runs at 0.1 %.
    """
    count = len(means)
    if count < ORDER_RUNS:
        return None
    odd = means[0::2]
    even = means[1::2]
    if _alternates(odd, even):
        return Order("alternates", statistics.fmean(odd) / statistics.fmean(even) - 1)
    rising = sum(
        (later > earlier) - (later < earlier)
        for i, earlier in enumerate(means)
        for later in means[i + 1 :]
    )
    if _kendall_p(abs(rising), count) >= 0.01:
        return None
    halves = means[: count // 2], means[(count + 1) // 2 :]
    size = statistics.fmean(halves[1]) / statistics.fmean(halves[0]) - 1
    if size * rising < 0:
        # One odd run moves a mean against what all the others do.
        size = statistics.median(halves[1]) / statistics.median(halves[0]) - 1
    return Order("rises" if rising > 0 else "falls", size)


def _alternates(odd: Sequence[float], even: Sequence[float]) -> bool:
    """Return whether odd and even runs differ."""
    found = welch(odd, even)
    if found is not None:
        return found.p() < 0.001
    # Means that were rounded may not vary on either side. By chance alone two values fall so
    # into place in 2 of all the ways to choose the odd runs.
    return odd[0] != even[0] and 2 / math.comb(len(odd) + len(even), len(odd)) < 0.01


def _kendall_p(score: int, count: int) -> float:
    """Return the probability that Kendall's score of `count` values in random order is at least
    this far from zero.
    """
    if count > EXACT_RUNS:
        deviation = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
        return math.erfc(max(score - 1, 0) / deviation / math.sqrt(2))
    inversions = [1]
    for size in range(2, count + 1):
        places = range(1, len(inversions) + size)
        inversions = [sum(inversions[max(0, place - size) : place]) for place in places]
    pairs = count * (count - 1) // 2
    extreme = sum(ways for index, ways in enumerate(inversions) if abs(pairs - 2 * index) >= score)
    return extreme / math.factorial(count)
