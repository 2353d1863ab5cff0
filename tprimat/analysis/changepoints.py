"""Whether a series keeps one level: where it becomes steady, where it changes, whether it drifts.

Knows numbers, not benchmarks. Built on stats.tail_reference, which finds the level that a series
ends on; a run that changes its level in the middle has more than that one.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tprimat.analysis import stats

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]

LEAST_RECORDS = 20
"""A level has at least this many records; fewer can't be told from a cluster of spikes."""

LEAST_CHANGE = 0.01
"""A change below 1 % is not called a level, however certain it is."""

CHANGE_SIGMAS = 4 * math.sqrt(2)
"""In standard errors of one median: four of a difference of two."""

LONGEST_WARM_UP = 60
WARM_UP_FRACTION = 0.1
"""A warm-up that fades away may take 60 records, or a tenth of a longer run. What takes longer is
how that run went, and isn't cut off."""

SEARCHED = 10_000
"""Longer series are searched for a change by the medians of blocks first."""

DEPTH = 12
"""How often a part is split again. A run of so many levels is at none."""

NEAR = LEAST_RECORDS // 2
"""Records next to a place that tell the level there."""


@dataclasses.dataclass(frozen=True)
class Segment:
    """A stretch of one level.

    Attributes:
        start, stop: indices into the series, stop excluded.
        median: of its values.
        drift: largest quarter median over the smallest, minus one, where that is more than noise;
            where only the first ten values are off, their median against that of all; None where
            the stretch is steady.
    """

    start: int
    stop: int
    median: float
    drift: float | None


def find(values: Sequence[float], *, minimum: int = stats.MINIMUM_RECORDS) -> tuple[Segment, ...]:
    """The levels of a series after its warm-up, in order of time.

    Args:
        values: shape (records,).
        minimum: records that it takes, see stats.minimum_records.

    Returns:
        One level for a steady series, several for one that changes; none where no steady state
        is found.
    """
    import numpy as np

    start = steady_from(values, minimum=minimum)
    if start is None:
        return ()
    series = np.asarray(values, dtype=np.float64)
    edges = [start, *(start + each for each in _changes(series[start:])), len(series)]
    if len(edges) > 2:
        second = float(np.median(series[edges[1] : edges[2]]))
        if _is_brief(edges[1], len(series)) and _fades(values[start : edges[1]], second):
            # What is left of the warm-up isn't a level.
            edges = edges[1:]
        else:
            # The warm-up leads to the first level, so that is what it is judged by.
            first = stats.detect_warmup(values[: edges[1]])
            if first is not None and first.start <= min(stats.LEVEL_SHIFT_AFTER, edges[1] - LEAST_RECORDS):
                edges[0] = first.start
    return tuple(
        Segment(low, high, float(np.median(series[low:high])), _drift(series[low:high]))
        for low, high in itertools.pairwise(edges)
    )


def steady_from(values: Sequence[float], *, minimum: int = stats.MINIMUM_RECORDS) -> int | None:
    """Index of the first value after the warm-up; None where no steady state is found.

    The tail-reference rule cuts all that isn't on the last level. Where it cuts more than a
    warm-up takes, the part before may be a level of its own, so its own warm-up is looked for.
    """
    state, values = _first_reference(values, minimum)
    if state is None:
        return None
    start = state.start
    while start > stats.LEVEL_SHIFT_AFTER:
        brief = _is_brief(start, len(values))
        earlier = stats.detect_warmup(values[:start])
        if earlier is None:
            # The part before has no steady state of its own: a warm-up when it is brief, else a
            # drift, which is to be seen.
            return _settled(values, start, state.reference) if brief else stats.LEVEL_SHIFT_AFTER
        fades = brief and _fades(values[earlier.start : start], state.reference)
        if fades or start - earlier.start < LEAST_RECORDS:
            return _settled(values, start, state.reference)
        start = earlier.start
    return start


def _first_reference(values: Sequence[float], minimum: int) -> tuple[stats.SteadyState | None, Sequence[float]]:
    """The tail reference, and the values that it is of. A run whose level changes in the second
    half isn't on its last one by the middle; it is looked for before the change then.
    """
    import numpy as np

    after = stats.LEVEL_SHIFT_AFTER
    for _ in range(DEPTH):
        state = stats.detect_warmup(values, minimum=minimum)
        if state is not None:
            return state, values
        changes = _changes(np.asarray(values[after:], dtype=np.float64))
        if not changes:
            break
        values = values[: after + changes[0]]
    return None, values


def _settled(values: Sequence[float], start: int, reference: float) -> int:
    """Where a warm-up that faded away for so long has reached the level: the band that the
    tail-reference rule leaves for noise still holds the end of its slope.
    """
    for index in range(start, len(values) // 2):
        if not _is_brief(index, len(values)):
            break
        if statistics.median(values[index : index + NEAR]) <= reference:
            return index if index - start < NEAR or _fades(values[start:index], reference) else start
    return start


def _is_brief(stop: int, count: int) -> bool:
    """Whether a warm-up may last so long."""
    return stop <= max(LONGEST_WARM_UP, WARM_UP_FRACTION * count)


def _fades(part: Sequence[float], reference: float) -> bool:
    """Whether a part comes down to a reference on its own, as a warm-up does; a level stays
    where it is until it ends.
    """
    above, left = (statistics.median(near) - reference for near in (part[:NEAR], part[-NEAR:]))
    return above > 0 and left < 0.75 * above


def _changes(series: Values, depth: int = DEPTH) -> list[int]:
    """Indices at which the level changes, by splitting again and again."""
    import numpy as np

    split = _best_split(series)
    if split is None:
        return []
    before, after = float(np.median(series[:split])), float(np.median(series[split:]))
    if _relative(before, after) <= _threshold(series, split) or not _is_abrupt(series, split, after - before):
        return []
    changes = [split]
    if depth > 1:
        rest = (split + each for each in _changes(series[split:], depth - 1))
        changes = [*_changes(series[:split], depth - 1), split, *rest]
    # What a line describes as well as levels do is a drift.
    left = sum(float(np.abs(part - np.median(part)).sum()) for part in np.split(series, changes))
    return changes if left < _least_line(series) else []


def _is_abrupt(series: Values, split: int, change: float) -> bool:
    """Whether at least half of a change happens at the split. A level changes at once; what takes
    many steps is a drift, and cutting it would make levels that no step was at.
    """
    import numpy as np

    jump = float(np.median(series[split : split + NEAR]) - np.median(series[split - NEAR : split]))
    return jump / change >= 0.5


def _least_line(series: Values) -> float:
    """Sum of absolute deviations from a straight line, by Theil and Sen on the medians of blocks."""
    import numpy as np

    blocks = np.array_split(np.arange(len(series)), LEAST_RECORDS)
    places = np.array([block.mean() for block in blocks])
    medians = np.array([np.median(series[block]) for block in blocks])
    first, second = np.triu_indices(len(blocks), 1)
    slope = np.median((medians[second] - medians[first]) / (places[second] - places[first]))
    rest = series - slope * np.arange(len(series))
    return float(np.abs(rest - np.median(rest)).sum())


def _best_split(series: Values) -> int | None:
    """The split with the least sum of absolute deviations from its two medians; None when the
    series is too short for two levels.

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
    before, after = np.median(series[:near]), np.median(series[near:])
    moved = np.abs(series[low:high] - before) - np.abs(series[low:high] - after)
    return low + int(np.argmin(np.concatenate([[0.0], np.cumsum(moved)])))


def _least_split(values: list[float], least: int) -> int:
    """The split with the least sum of absolute deviations, at least so many values from either end."""
    before, after = _deviations(values), _deviations(values[::-1])
    return min(range(least, len(values) - least + 1), key=lambda split: before[split] + after[len(values) - split])


def _deviations(values: list[float]) -> list[float]:
    """Sum of absolute deviations from their median of the first 0, 1, 2, … values.

    The lower half is kept in one heap and the upper half in another, so that each further value
    costs a logarithm and not a sort.
    """
    lower: list[float] = []
    upper: list[float] = []
    sums = [0.0]
    below = above = 0.0
    for value in values:
        # The lower half holds the median, and holds its values negated: heapq has the least on top.
        pushed = -heapq.heappushpop(lower, -value)
        heapq.heappush(upper, pushed)
        below += value - pushed
        above += pushed
        if len(upper) > len(lower):
            moved = heapq.heappop(upper)
            heapq.heappush(lower, -moved)
            below += moved
            above -= moved
        sums.append(above - below - lower[0] * (len(lower) - len(upper)))
    return sums


def _threshold(series: Values, split: int) -> float:
    """The relative difference of the medians on either side of a split that is more than noise.

    The standard error is that of the median of a quarter of the series, or that of the two parts
    themselves where one is so short that it is the larger. Step times depend on
    their neighbours, which makes a median less certain than its number of values says: the
    variance grows by (1 + r) / (1 - r) for a lag-1 autocorrelation r, here of what the two
    medians leave. Without this a slow ramp counts as several levels.
    """
    import numpy as np

    parts = (series[:split], series[split:])
    residuals = np.concatenate([part - np.median(part) for part in parts])
    sigma = 1.4826 * float(np.median(np.abs(residuals)))
    if sigma == 0:
        return LEAST_CHANGE
    clipped = np.clip(residuals, -3 * sigma, 3 * sigma)
    clipped = clipped - clipped.mean()
    autocorrelation = float((clipped[1:] * clipped[:-1]).sum() / (clipped * clipped).sum())
    r = min(max(autocorrelation, 0.0), 0.95)
    error = 1.2533 * sigma * math.sqrt((1 + r) / (1 - r)) / float(np.median(series))
    quarter = CHANGE_SIGMAS * error / math.sqrt(len(series) / 4)
    own = 4 * error * math.sqrt(1 / split + 1 / (len(series) - split))
    return max(LEAST_CHANGE, quarter, own)


def _drift(series: Values) -> float | None:
    """By how much the quarters of a stretch differ, or its first values from all, where that is
    more than noise.
    """
    import numpy as np

    if len(series) < LEAST_RECORDS:
        return None
    centre = float(np.median(series))
    sigma = 1.4826 * float(np.median(np.abs(series - centre)))
    quarters: list[Any] = np.array_split(series, 4)
    medians = [float(np.median(quarter)) for quarter in quarters]
    change = _relative(*medians)
    noise = CHANGE_SIGMAS * 1.2533 * sigma / math.sqrt(len(series) / 4) / centre if sigma else 0.0
    if change > max(LEAST_CHANGE, noise):
        return change
    # A ramp of less than half a quarter shows in no quarter's median.
    first = float(np.median(series[:NEAR]))
    if abs(first - centre) > max(stats.BAND_SIGMAS * sigma, stats.BAND_FRACTION * centre):
        return _relative(first, centre)
    return None


def _relative(*medians: float) -> float:
    """The largest over the smallest, minus one."""
    low, high = min(medians), max(medians)
    return high / low - 1 if low else (math.inf if high else 0.0)
