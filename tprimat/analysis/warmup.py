"""The warm-up rule: how many records a slow start takes, and whether a run gets over it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tprimat.analysis.changepoints import LEAST_CHANGE, LEAST_SHARE, NEAR, change_points
from tprimat.analysis.stats import median, robust_sigma

if TYPE_CHECKING:
    from tprimat.analysis.stats import Values

MINIMUM_RECORDS = 10
"""Fewer records show no warm-up: of the first ten steps of a run that warms up for eight, no rule finds it."""

WARM_UP_SHARE, SHORTEST_LIMIT, LONGEST_WARM_UP = 0.4, 20, 80
"""A slow start of up to two fifths of the records is warm-up, but of 80 at most; or of 20, or of LEAST_SHARE of a long
run. What is too long for that is long enough for a change point: 20 records and LEAST_SHARE."""

LEVEL_SIGMAS, LEVEL_FRACTION = 2.0, 0.02
"""How far above the level of the rest the running median may lie where records belong to it: the larger of the two."""

DISTURBED = 0.2
"""Share of the records before a cut that may be slower, and all of them are taken back: disturbances, no slow start."""

SLOW_SIGMAS, SLOW_FRACTION = 4.0, 0.02
"""How far above that level two neighbours lie that are slow for certain: the sum of the two."""

UNSETTLED_SIGMAS, UNSETTLED_FRACTION = 2.5, 0.03
"""How far above its end the middle of a run may lie: the larger of the two."""

FROM_THE_BEGINNING = 0.9
"""Share of the first half that lies above that level where a slow start lasts as long."""

LEAST_END = 5
"""Records that tell the level at the end of a run, or a tenth of a longer one."""


@dataclasses.dataclass(frozen=True)
class SteadyState:
    """The index of the first steady value, the median of the steady ones, and their robust standard deviation."""

    start: int
    reference: float
    sigma: float


def detect_warmup(values: Sequence[float]) -> SteadyState | None:
    """Find the slow start of a series; None where there are too few values, or where it isn't over by the middle.

    The cut is the one at or before the middle that minimises variance / kept count (MSER) on a running median of
    three. Only a slow start is cut: from the cut, the records before that lie at the level of the rest are taken back.
    """
    import numpy as np

    if len(values) < MINIMUM_RECORDS:
        return None
    series = np.asarray(values, dtype=np.float64)
    smooth = _running_median(series)
    return _slow_start(series, smooth, len(series) // 2) if _settles(series, smooth) else None


def _slow_start(series: Values, smooth: Values, last: int) -> SteadyState:
    """Return the steady state that begins at `last` or before."""
    cut = _least_variance(smooth, last)
    reference, sigma = median(series[cut:]), robust_sigma(series[cut:].tolist())
    cut = _first_at_level(smooth[:cut], reference + max(LEVEL_SIGMAS * sigma, LEVEL_FRACTION * reference))
    while cut and series[cut - 1] <= reference + sigma:
        cut -= 1
    slow = reference * (1 + SLOW_FRACTION) + SLOW_SIGMAS * sigma
    while cut < last and series[cut] > slow and (not cut or series[cut + 1] > slow):
        cut += 1
    return SteadyState(cut, reference, sigma)


def first_steady_index(values: Sequence[float]) -> int | None:
    """Return the index of the first value after the warm-up; None where the series never gets over it.

    Where more is slow than a warm-up takes, it is a segment of its own, so the warm-up is looked for in it.
    """
    import numpy as np

    series, longest = np.asarray(values, dtype=np.float64), longest_warm_up(len(values))
    state = detect_warmup(values)
    if state is None:
        changes = change_points(series) if len(values) >= MINIMUM_RECORDS else []
        return first_steady_index(values[: changes[0]]) if changes else None
    if state.start <= longest:
        return state.start
    # Slow noise after a warm-up may be cut with it: it is no segment.
    brief = _slow_start(series, _running_median(series), longest)
    between = series[brief.start : state.start]
    noise = max(median(between), median(between[:NEAR])) - state.reference
    drop = median(series[: brief.start]) - median(between) if brief.start else 0.0
    if noise < max(LEAST_CHANGE * state.reference, drop):
        return brief.start
    earlier = first_steady_index(values[: state.start])
    return brief.start if earlier is None else earlier


def longest_warm_up(count: int) -> int:
    """Return how many records a warm-up may take in a run of so many."""
    return int(max(min(WARM_UP_SHARE * count, LONGEST_WARM_UP), SHORTEST_LIMIT, LEAST_SHARE * count))


def _running_median(series: Values) -> Values:
    """Return the median of each value and its neighbours; the first value as it is, the last as the one before."""
    import numpy as np

    inner = np.median(np.stack([series[:-2], series[1:-1], series[2:]]), axis=0)
    return np.concatenate([series[:1], inner, inner[-1:]])


def _least_variance(smooth: Values, last: int) -> int:
    """Return the number of values to cut, up to `last`, that leaves the least variance / count."""
    import numpy as np

    # Around a value in the middle of the rest, so that sums of squares lose no digits.
    shifted = (smooth - median(smooth[last:]))[::-1]
    counts = np.arange(1, len(smooth) + 1)
    variances = np.cumsum(shifted**2) / counts - (np.cumsum(shifted) / counts) ** 2
    return int(np.argmin((variances / counts)[::-1][: last + 1]))


def _first_at_level(cut: Values, level: float) -> int:
    """Return from which of the cut values on they lie at the level of the rest, but for a few; all of them else."""
    import numpy as np

    if not len(cut):
        return 0
    slow = cut > level
    share = np.cumsum(slow[::-1])[::-1] / np.arange(len(cut), 0, -1)
    fits = ~slow & ~np.append(slow[1:], False) & (share <= DISTURBED)
    return int(np.argmax(fits)) if fits.any() else len(cut)


def _settles(series: Values, smooth: Values) -> bool:
    """Return whether a series gets over its slow start by its middle: down to the level of its end.

    A disturbance in the middle is no slow start: that lasts from the beginning.
    """
    import numpy as np

    middle = len(series) // 2
    end = series[-max(LEAST_END, len(series) // 10) :]
    reference = median(end)
    # Neighbours vary less than a slope does, and more than the few values at the end may.
    sigmas = robust_sigma(end.tolist()), robust_sigma(np.diff(series[middle:]).tolist()) / 2**0.5
    level = reference + max(UNSETTLED_SIGMAS * max(sigmas), UNSETTLED_FRACTION * reference)
    return bool(smooth[middle] <= level or np.mean(smooth[:middle] > level) < FROM_THE_BEGINNING)
