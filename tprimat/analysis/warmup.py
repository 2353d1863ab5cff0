"""The warm-up rule: how many records a slow start takes, and whether a run gets over it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tprimat.analysis.changepoints import LEAST_CHANGE, LEAST_RECORDS, LEAST_SHARE, change_points
from tprimat.analysis.stats import alternates, median, robust_sigma

if TYPE_CHECKING:
    from tprimat.analysis.stats import Values

MINIMUM_RECORDS = 10
"""Fewer records show no warm-up: of the first ten steps of a run that warms up for eight, no rule
finds it.
"""

WARM_UP_SHARE, SHORTEST_LIMIT, LONGEST_WARM_UP = 0.4, 20, 80
"""A slow start of up to two fifths of the records is warm-up, but of 80 at most; or of 20, or of
LEAST_SHARE of a long run. What is too long for that is long enough for a change point: 20 records
and LEAST_SHARE.
"""

LEVEL_SIGMAS = 1.0
"""How far above the level of the rest the running median may lie if records belong to it. With
less, noise is cut; with more, the end of a slow start that fades stays.
"""

DISTURBED = 0.35
"""Share of the next LEAST_RECORDS before a cut that may be slow if the slow start is over:
disturbances.
"""

PAUSE_SIGMAS, PAUSE_QUANTILE = 15.0, 0.9
"""How far above its median, and above how many of its values, a record of the rest is one of a
pause.
"""

UNSETTLED_SIGMAS, UNSETTLED_FRACTION = 2.5, 0.03
"""How far above its end the middle of a run may lie: the larger of the two."""

FROM_THE_BEGINNING = 0.9
"""Share of the first half that lies above that level if a slow start lasts as long."""

LEAST_END = 5
"""Records that tell the level at the end of a run, or a tenth of a longer one."""

LEAST_STARTED, FAST_FRACTION, FAST_SIGMAS = 3, 0.02, 4.0
"""Fewest records of which the first is told as fast, and how far below the others it lies: the
larger of the two.
"""

EARLY, START_UP = 5, 10.0
"""Among the first so many records, one that takes so many times as long as any after it belongs to
the start-up: 5.4 s at step 3, which compiles again, before steps of 0.15 s. A pause that comes
again doesn't.
"""


@dataclasses.dataclass(frozen=True)
class SteadyState:
    """The index of the first steady value, the median of the steady ones, and their robust standard
    deviation.
    """

    start: int
    reference: float
    sigma: float


def detect_warmup(values: Sequence[float] | Values) -> SteadyState | None:
    """Find the slow start of a series; None if there are too few values, or if it isn't over by the
    middle.

    The cut is the one at or before the middle that minimizes variance / kept count (MSER) on a
    running median of three. What is no slower than the rest is taken back: neither noise nor a
    faster part is warm-up.
    """
    import numpy as np

    if len(values) < MINIMUM_RECORDS:
        return None
    series = np.asarray(values, dtype=np.float64)
    smooth = _running_median(series)
    if _settles(series, smooth):
        return _slow_start(series, smooth, len(series) // 2)
    return None


def _slow_start(series: Values, smooth: Values, last: int) -> SteadyState:
    """Return the steady state that begins at `last` or before."""
    import numpy as np

    cut = _least_variance(smooth, last)
    reference = median(series[cut:])
    sigma = robust_sigma(series[cut:])
    slow = smooth[: cut + 1] > reference + LEVEL_SIGMAS * sigma
    counts = np.concatenate([[0], np.cumsum(slow[:cut])])
    places = np.arange(cut)
    ends = np.minimum(places + LEAST_RECORDS, cut)
    # The slow start is over with two records at the level of the rest, and with most of those that
    # follow.
    over = ~slow[:cut] & ~slow[1:] & (counts[ends] - counts[places] <= DISTURBED * (ends - places))
    start = int(np.argmax(over)) if over.any() else cut
    # With an evaluation in every third record, 7.5 s before a median of 7.4 s and a mean of 14 s is
    # no slow start.
    usual = np.sort(series[start:])[: int(PAUSE_QUANTILE * len(series[start:]))]
    if not start or np.mean(series[:start]) < np.mean(usual):
        start = int(starts_fast(series))
    for place in range(start, EARLY):
        if series[place] > START_UP * max(series[place + 1 :]):
            start = place + 1
    return SteadyState(start, reference, sigma)


def first_steady_index(values: Sequence[float] | Values, longest: int | None = None) -> int | None:
    """Return the index of the first value after the warm-up; None if the series never gets over it.

    If more is slow than a warm-up takes, it is a segment of its own, so the warm-up is looked for
    in it.

    Args:
        values: shape (records,), in order of time.
        longest: how many records a warm-up may take: longest_warm_up() by default, and that of the
            whole run in a part.
    """
    import numpy as np

    series = np.asarray(values, dtype=np.float64)
    longest = longest or longest_warm_up(len(values))
    if len(series) > MINIMUM_RECORDS and alternates(series):
        # Means of two show a slow start that the alternation hides. As many fast records stay as
        # slow ones.
        start = first_steady_index((series[:-1] + series[1:]) / 2, longest)
        if start is None:
            return None
        return start + (len(series) - start) % 2
    state = detect_warmup(series)
    if state is None:
        if len(series) >= MINIMUM_RECORDS:
            changes = change_points(series)
        else:
            changes = []
        if changes:
            return first_steady_index(series[: changes[0]], longest)
        return None
    if state.start <= longest:
        return state.start
    # Slow noise after a warm-up may be cut with it: it is no segment.
    brief = _slow_start(series, _running_median(series), longest)
    if median(series[brief.start : state.start]) < state.reference * (1 + LEAST_CHANGE):
        return brief.start
    earlier = first_steady_index(series[: state.start], longest)
    if earlier is None:
        return brief.start
    return earlier


def starts_fast(values: Sequence[float] | Values) -> bool:
    """Return whether the first record lies far below all others: 1.7 s before 15 s, where a clock
    starts late.

    Of a faster part, the other records lie nearer to the first one than to the rest.
    """
    if len(values) < LEAST_STARTED:
        return False
    others = values[1:]
    usual = median(others)
    below = usual - values[0]
    return (
        below > max(FAST_FRACTION * usual, FAST_SIGMAS * robust_sigma(others))
        and min(others) > usual - below / 2
    )


def longest_warm_up(count: int) -> int:
    """Return how many records a warm-up may take in a run of so many."""
    return int(
        max(min(WARM_UP_SHARE * count, LONGEST_WARM_UP), SHORTEST_LIMIT, LEAST_SHARE * count)
    )


def _running_median(series: Values) -> Values:
    """Return the median of each value and its neighbors; the first value as it is, the last as the
    one before.
    """
    import numpy as np

    inner = np.median(np.stack([series[:-2], series[1:-1], series[2:]]), axis=0)
    return np.concatenate([series[:1], inner, inner[-1:]])


def _least_variance(smooth: Values, last: int) -> int:
    """Return the number of values to cut, up to `last`, that leaves the least variance / count."""
    import numpy as np

    rest = smooth[last:]
    # A pause of several records behind `last` says nothing of the cut, and would hide every slow
    # start.
    most = max(
        median(rest) + PAUSE_SIGMAS * robust_sigma(rest), float(np.quantile(rest, PAUSE_QUANTILE))
    )
    # Around a value in the middle of the rest, so that sums of squares lose no digits.
    shifted = np.concatenate([smooth[:last], np.minimum(rest, most)])[::-1] - median(rest)
    counts = np.arange(1, len(smooth) + 1)
    variances = np.cumsum(shifted**2) / counts - (np.cumsum(shifted) / counts) ** 2
    return int(np.argmin((variances / counts)[::-1][: last + 1]))


def _settles(series: Values, smooth: Values) -> bool:
    """Return whether a series gets over its slow start by its middle: down to the level of its end.

    A disturbance in the middle is no slow start: that lasts from the beginning.
    """
    import numpy as np

    middle = len(series) // 2
    end = series[-max(LEAST_END, len(series) // 10) :]
    reference = median(end)
    # Neighbors vary less than a slope does, and more than the few values at the end may.
    sigmas = robust_sigma(end), robust_sigma(np.diff(series[middle:])) / 2**0.5
    level = reference + max(UNSETTLED_SIGMAS * max(sigmas), UNSETTLED_FRACTION * reference)
    return bool(smooth[middle] <= level or np.mean(smooth[:middle] > level) < FROM_THE_BEGINNING)
