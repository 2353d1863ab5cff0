"""The change-point rule: records at which the step time of a run changes abruptly and persistently.

A change counts only if it is large, long and certain: see change_points(). It is a note on a run.
Which noise it was tried on is in docs/statistics.md.
"""

from __future__ import annotations

import itertools
import math
from heapq import heappush, heappushpop
from typing import TYPE_CHECKING

from tprimat.analysis.intervals import welch
from tprimat.analysis.stats import median

if TYPE_CHECKING:
    from tprimat.analysis.stats import Values

LEAST_RECORDS = 20
LEAST_SHARE = 0.2
"""A segment has at least 20 records and a fifth of all; a shorter one is a disturbance."""

LEAST_CHANGE = 0.02
"""Minimum relative change; smaller changes are ignored."""

CERTAINTY = 0.001
"""Largest p value of a change or a drift, by a t test on the medians of batches, which neighbors
hardly share.
"""

ORDERED = 0.9
"""Share of the pairs of a record before and one after the change that are in the order of the
change.
"""

SEARCHED = 10_000
"""Longer series are searched for a change by the medians of blocks first."""

NEAR = LEAST_RECORDS // 2
"""Records on each side of a change whose step times are compared."""


def change_points(series: Values) -> list[int]:
    """Return the indices at which the values, shape (records,), change.

    A split is the one with the least sum of absolute deviations from the two medians. It counts if
    the medians differ by 2 %, the medians of batches (√n of them) differ with p < 0.001, nine in
    ten pairs of values across it are in the order of the change, at least half of the change
    happens within ten records of it, and a straight line describes the values less well: what takes
    longer is a drift.
    """
    import numpy as np

    least = max(LEAST_RECORDS, math.ceil(LEAST_SHARE * len(series)))
    if len(series) < 2 * least:
        return []
    # No segment's median lies beyond these: half of its records are on either side of it.
    low, high = np.partition(series, (least // 2 - 1, -(least // 2)))[
        [least // 2 - 1, -(least // 2)]
    ]
    if relative_change(low, high) < LEAST_CHANGE:
        return []
    return _splits(series, least)


def _splits(series: Values, least: int) -> list[int]:
    split = _best_split(series, least)
    if split is None or not _is_change(series, split):
        return []
    after = (split + each for each in _splits(series[split:], least))
    changes = [*_splits(series[:split], least), split, *after]
    parts = (series[low:high] for low, high in itertools.pairwise([0, *changes, len(series)]))
    if sum(map(_absolute_deviation, parts)) < _line_residual(series):
        return changes
    return []


def _is_change(series: Values, split: int) -> bool:
    import numpy as np

    before = series[:split]
    after = series[split:]
    first = median(before)
    second = median(after)
    if relative_change(first, second) < LEAST_CHANGE:
        return False
    jump = median(after[:NEAR]) - median(before[-NEAR:])
    if jump / (second - first) < 0.5 or _ordered_share(before, after) < ORDERED:
        return False
    # An outlier moves no batch's median far.
    test = welch(
        *(
            [median(batch) for batch in np.array_split(part, math.isqrt(len(part)))]
            for part in (before, after)
        )
    )
    return test is None or test.p() < CERTAINTY


def _absolute_deviation(series: Values) -> float:
    return float(abs(series - median(series)).sum())


def _line_residual(series: Values) -> float:
    """Return the sum of absolute deviations from a straight line, by Theil and Sen on the medians
    of blocks.
    """
    import numpy as np

    blocks = np.array_split(np.arange(len(series)), LEAST_RECORDS)
    places = np.array([block.mean() for block in blocks])
    medians = np.array([median(series[block]) for block in blocks])
    first, second = np.triu_indices(len(blocks), 1)
    slope = median((medians[second] - medians[first]) / (places[second] - places[first]))
    return _absolute_deviation(series - slope * np.arange(len(series)))


def relative_change(*medians: float) -> float:
    """Return the largest over the smallest, minus one."""
    low = min(medians)
    high = max(medians)
    if low:
        return high / low - 1
    if high:
        return math.inf
    return 0.0


def _ordered_share(before: Values, after: Values) -> float:
    """Return the share of all pairs of a value before and one after that are in the order of the
    two medians.
    """
    import numpy as np

    low, high = (before, after) if median(before) < median(after) else (after, before)
    return float(np.searchsorted(np.sort(low), high).mean()) / len(low)


def _best_split(series: Values, least: int) -> int | None:
    """Return the split with the least sum of absolute deviations from its two medians, at least
    `least` values from either end; None if the series is too short.

    In a series too long to try every split, the medians of blocks are split first. The medians
    on either side are known then, and the two blocks around are searched value by value.
    """
    import numpy as np

    low = least
    high = len(series) - least
    if low > high:
        return None
    block = math.ceil(len(series) / SEARCHED)
    if block == 1:
        return _least_split(series.tolist(), least)
    blocks = np.median(series[: len(series) // block * block].reshape(-1, block), axis=1)
    near = block * _least_split(blocks.tolist(), math.ceil(least / block))
    low = max(low, near - block)
    high = min(high, near + block)
    before = median(series[:near])
    after = median(series[near:])
    moved = np.abs(series[low:high] - before) - np.abs(series[low:high] - after)
    return low + int(np.argmin(np.concatenate([[0.0], np.cumsum(moved)])))


def _least_split(values: list[float], least: int) -> int:
    """Return the split with the least sum of absolute deviations, at least `least` values from
    either end.
    """
    import numpy as np

    before = np.array(_deviations(values))
    after = np.array(_deviations(values[::-1]))[::-1]
    return least + int(np.argmin((before + after)[least : len(values) - least + 1]))


def _deviations(values: list[float]) -> list[float]:
    """Return the sum of absolute deviations from their median of the first 0, 1, 2, … values.

    The lower half is kept in one heap and the upper half in another, so that each further value
    costs a logarithm and not a sort.
    """
    # heapq has the least on top, so the lower half is negated. It holds the median, the upper half
    # as many or one less.
    lower: list[float] = []
    upper: list[float] = []
    sums = [0.0]
    below = above = 0.0
    for index, value in enumerate(values):
        highest = -heappushpop(lower, -value)
        below += value - highest
        above += highest
        if index % 2:
            heappush(upper, highest)
            sums.append(above - below)
        else:
            lowest = heappushpop(upper, highest)
            below += lowest
            above -= lowest
            heappush(lower, -lowest)
            sums.append(above - below - lower[0])
    return sums
