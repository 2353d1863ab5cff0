"""The change-point rule: records at which the step time of a run changes abruptly and persistently."""

from __future__ import annotations

import math
from heapq import heappush, heappushpop
from typing import TYPE_CHECKING

from tprimat.analysis.stats import MAD_TO_SIGMA, median

if TYPE_CHECKING:
    from tprimat.analysis.stats import Values

LEAST_RECORDS = 20
"""A segment has at least this many records; fewer can't be distinguished from a cluster of outliers."""

LEAST_CHANGE = 0.01
"""A change below 1 % is none, however certain it is."""

CHANGE_SIGMAS = 4 * math.sqrt(2)
"""In standard errors of one median: four of a difference of two."""

MEDIAN_ERROR = 1.2533
"""Standard error of a median over that of a mean, of normal values: √(π/2)."""

SEARCHED = 10_000
"""Longer series are searched for a change by the medians of blocks first."""

DEPTH = 12
"""How often a part is split again."""

NEAR = LEAST_RECORDS // 2
"""Records next to a place that tell the step time there."""


def change_points(series: Values, depth: int = DEPTH) -> list[int]:
    """Return the indices at which the values change, by splitting again and again.

    A split is the one with the least sum of absolute deviations from the two medians. It counts where
    the medians differ by more than noise (_threshold), at least half of the change happens there, and a
    straight line describes the series less well than the segments do.
    """
    import numpy as np

    split = _best_split(series)
    if split is None:
        return []
    before, after = median(series[:split]), median(series[split:])
    if relative_change(before, after) <= _threshold(series, split):
        return []
    # What takes many steps is a drift, and cutting it would make segments whose speed no step had.
    jump = median(series[split : split + NEAR]) - median(series[split - NEAR : split])
    if jump / (after - before) < 0.5:
        return []
    changes = [split]
    if depth > 1:
        rest = (split + each for each in change_points(series[split:], depth - 1))
        changes = [*change_points(series[:split], depth - 1), split, *rest]
    residual = sum(_absolute_deviation(part) for part in np.split(series, changes))
    return changes if residual < _line_residual(series) else []


def relative_change(*medians: float) -> float:
    """Return the largest over the smallest, minus one."""
    low, high = min(medians), max(medians)
    return high / low - 1 if low else (math.inf if high else 0.0)


def _absolute_deviation(series: Values) -> float:
    return float(abs(series - median(series)).sum())


def _line_residual(series: Values) -> float:
    """Return the sum of absolute deviations from a straight line, by Theil and Sen on the medians of blocks."""
    import numpy as np

    blocks = np.array_split(np.arange(len(series)), LEAST_RECORDS)
    places = np.array([block.mean() for block in blocks])
    medians = np.array([median(series[block]) for block in blocks])
    first, second = np.triu_indices(len(blocks), 1)
    slope = median((medians[second] - medians[first]) / (places[second] - places[first]))
    return _absolute_deviation(series - slope * np.arange(len(series)))


def _best_split(series: Values) -> int | None:
    """Return the split with the least sum of absolute deviations from its two medians; None when the
    series is too short for two segments.

    In a series too long to try every split, the medians of blocks are split first. The medians
    on either side are known then, and the two blocks around are searched value by value.
    """
    import numpy as np

    low, high = LEAST_RECORDS, len(series) - LEAST_RECORDS
    if low > high:
        return None
    block = math.ceil(len(series) / SEARCHED)
    if block == 1:
        return _least_split(series.tolist(), LEAST_RECORDS)
    blocks = np.median(series[: len(series) // block * block].reshape(-1, block), axis=1)
    near = block * _least_split(blocks.tolist(), math.ceil(LEAST_RECORDS / block))
    low, high = max(low, near - block), min(high, near + block)
    before, after = median(series[:near]), median(series[near:])
    moved = np.abs(series[low:high] - before) - np.abs(series[low:high] - after)
    return low + int(np.argmin(np.concatenate([[0.0], np.cumsum(moved)])))


def _least_split(values: list[float], least: int) -> int:
    """Return the split with the least sum of absolute deviations, at least so many values from either end."""
    import numpy as np

    before, after = np.array(_deviations(values)), np.array(_deviations(values[::-1]))[::-1]
    return least + int(np.argmin((before + after)[least : len(values) - least + 1]))


def _deviations(values: list[float]) -> list[float]:
    """Return the sum of absolute deviations from their median of the first 0, 1, 2, … values.

    The lower half is kept in one heap and the upper half in another, so that each further value
    costs a logarithm and not a sort.
    """
    # heapq has the least on top, so the lower half is negated. It holds the median, the upper half as many or one less.
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


def _threshold(series: Values, split: int) -> float:
    """Return the relative difference of the medians on either side of a split that is more than noise.

    The standard error is that of the median of a quarter of the series, or that of the two parts
    themselves where one is so short that it is the larger. Step times depend on
    their neighbours, which makes a median less certain than its number of values says: the
    variance grows by (1 + r) / (1 - r) for a lag-1 autocorrelation r, here of what the two
    medians leave. Without this a slow ramp counts as several segments.
    """
    import numpy as np

    residuals = np.concatenate([part - median(part) for part in (series[:split], series[split:])])
    sigma = MAD_TO_SIGMA * median(abs(residuals))
    if sigma == 0:
        return LEAST_CHANGE
    clipped = np.clip(residuals, -3 * sigma, 3 * sigma)
    clipped = clipped - clipped.mean()
    autocorrelation = float((clipped[1:] * clipped[:-1]).sum() / (clipped * clipped).sum())
    r = min(max(autocorrelation, 0.0), 0.95)
    error = MEDIAN_ERROR * sigma * math.sqrt((1 + r) / (1 - r)) / median(series)
    quarter = CHANGE_SIGMAS * error / math.sqrt(len(series) / 4)
    own = 4 * error * math.sqrt(1 / split + 1 / (len(series) - split))
    return max(LEAST_CHANGE, quarter, own)
