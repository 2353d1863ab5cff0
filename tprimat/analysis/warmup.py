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
"""With fewer records, no warm-up is looked for: too few of them are steady to compare with."""

WARM_UP_SHARE, SHORTEST_LIMIT, LONGEST_WARM_UP = 0.4, 20, 80
"""A warm-up takes at most WARM_UP_SHARE of the records, and at most LONGEST_WARM_UP of them. This
limit is never below SHORTEST_LIMIT records or LEAST_SHARE of the run, so a slow part beyond it is
long enough for change_points() to find it as a segment.
"""

LEVEL_SIGMAS = 1.0
"""Records whose running median is at most this many robust standard deviations above the median of
the rest are steady. A smaller value cuts noise; a larger one keeps the tail of a slow start that
fades out.
"""

DISTURBED = 0.35
"""Once a slow start is over, at most this share of the next LEAST_RECORDS records (fewer near the
cut) may still be slow; these are disturbances.
"""

PAUSE_SIGMAS, PAUSE_QUANTILE = 15.0, 0.9
"""From the latest cut on, values are clipped to the larger of their median plus PAUSE_SIGMAS robust
standard deviations and their PAUSE_QUANTILE quantile, so that pauses don't move the cut.
"""

UNSETTLED_SIGMAS, UNSETTLED_FRACTION = 2.5, 0.03
"""The middle of a run is settled if it exceeds the median of the run's end by at most the larger of
UNSETTLED_SIGMAS standard deviations and UNSETTLED_FRACTION of that median.
"""

FROM_THE_BEGINNING = 0.9
"""A slow start that lasts beyond the middle has not only the middle but also at least this share of
the first half above the level of UNSETTLED_SIGMAS and UNSETTLED_FRACTION.
"""

LEAST_END = 5
"""The last records, whose median is the level of a run's end; of a longer run, the last tenth."""

MINIMUM_FOR_FAST_START, FAST_FRACTION, FAST_SIGMAS = 3, 0.02, 4.0
"""starts_fast() needs this many records. The first one must lie below the median of the others by
more than the larger of FAST_FRACTION of that median and FAST_SIGMAS robust standard deviations.
"""

EARLY, START_UP = 5, 10.0
"""A record among the first EARLY ones that takes more than START_UP times as long as any later one
belongs to the start-up: 5.4 s at step 3, where a second compilation runs, before steps of 0.15 s.
A pause that recurs doesn't.
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
    running median of three. Records before the cut that are no slower than the rest are kept:
    neither noise nor a faster part is warm-up.
    """
    import numpy as np

    if len(values) < MINIMUM_RECORDS:
        return None
    series = np.asarray(values, dtype=np.float64)
    smooth = _running_median(series)
    if _settles(series, smooth):
        return _slow_start(series, smooth, len(series) // 2)
    return None


def _slow_start(series: Values, smooth: Values, latest_cut: int) -> SteadyState:
    """Return the steady state that begins at `latest_cut` or before."""
    import numpy as np

    cut = _least_variance(smooth, latest_cut)
    reference = median(series[cut:])
    sigma = robust_sigma(series[cut:])
    slow = smooth[: cut + 1] > reference + LEVEL_SIGMAS * sigma
    start = _end_of_slow_start(slow.tolist(), cut)
    # Means are compared, not medians: if every third record includes an evaluation, the rest may
    # have a median of 7.4 s but a mean of 14 s, so 7.5 s at the beginning isn't slow. The slowest
    # tenth is omitted, as it may hold a long pause.
    lower_values = np.sort(series[start:])[: int(PAUSE_QUANTILE * len(series[start:]))]
    if not start or np.mean(series[:start]) < np.mean(lower_values):
        start = int(starts_fast(series))
    for index in range(start, EARLY):
        if series[index] > START_UP * max(series[index + 1 :]):
            start = index + 1
    return SteadyState(start, reference, sigma)


def _end_of_slow_start(slow: Sequence[bool], cut: int) -> int:
    """Return the first of two steady records in a row that are followed by mostly steady ones, up
    to the cut; the cut if there are none.
    """
    for index in range(cut):
        if slow[index] or slow[index + 1]:
            continue
        ahead = slow[index : min(index + LEAST_RECORDS, cut)]
        if sum(ahead) <= DISTURBED * len(ahead):
            return index
    return cut


def first_steady_index(values: Sequence[float] | Values, longest: int | None = None) -> int | None:
    """Return the index of the first value after the warm-up; None if the series never gets over it.

    If the slow part is longer than a warm-up may be, it is a segment of its own, and the warm-up is
    looked for inside that segment.

    Args:
        values: shape (records,), in order of time.
        longest: how many records a warm-up may take; longest_warm_up() of these values by default.
            In a part of a run, the limit of the whole run holds.
    """
    import numpy as np

    series = np.asarray(values, dtype=np.float64)
    longest = longest or longest_warm_up(len(values))
    if len(series) > MINIMUM_RECORDS and alternates(series):
        # Neighbors are averaged, since the alternation hides a slow start. One more record may be
        # dropped, so that as many fast records as slow ones remain.
        start = first_steady_index((series[:-1] + series[1:]) / 2, longest)
        if start is None:
            return None
        return start + (len(series) - start) % 2
    state = detect_warmup(series)
    if state is None:
        if len(series) >= MINIMUM_RECORDS and (changes := change_points(series)):
            return first_steady_index(series[: changes[0]], longest)
        return None
    if state.start <= longest:
        return state.start
    # The cut may include slow noise after the warm-up. If the records that the shorter cut keeps
    # aren't LEAST_CHANGE slower than the steady state, they are no segment: the shorter cut counts.
    limited = _slow_start(series, _running_median(series), longest)
    if median(series[limited.start : state.start]) < state.reference * (1 + LEAST_CHANGE):
        return limited.start
    earlier = first_steady_index(series[: state.start], longest)
    if earlier is None:
        return limited.start
    return earlier


def starts_fast(values: Sequence[float] | Values) -> bool:
    """Return whether the first record lies far below all others: 1.7 s before 15 s, where a clock
    starts late.

    If a whole first part is faster, other records of it lie nearer to the first one than to the
    rest, and the answer is no.
    """
    if len(values) < MINIMUM_FOR_FAST_START:
        return False
    others = values[1:]
    median_of_others = median(others)
    below = median_of_others - values[0]
    return (
        below > max(FAST_FRACTION * median_of_others, FAST_SIGMAS * robust_sigma(others))
        and min(others) > median_of_others - below / 2
    )


def longest_warm_up(count: int) -> int:
    """Return how many records a warm-up may take in a run of `count` records."""
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


def _least_variance(smooth: Values, latest_cut: int) -> int:
    """Return the number of values to cut, up to `latest_cut`, that minimizes variance / count of
    the rest.
    """
    import numpy as np

    rest = smooth[latest_cut:]
    # A pause of several records after the latest cut is no evidence for a cut, and would hide every
    # slow start.
    ceiling = max(
        median(rest) + PAUSE_SIGMAS * robust_sigma(rest), float(np.quantile(rest, PAUSE_QUANTILE))
    )
    # Differences from a value in the middle of the rest, so that sums of squares lose no digits.
    shifted = np.concatenate([smooth[:latest_cut], np.minimum(rest, ceiling)]) - median(rest)
    # From the end: element k of the cumulative sums covers the last k + 1 values, which remain
    # after a cut.
    from_end = shifted[::-1]
    kept_counts = np.arange(1, len(smooth) + 1)
    kept_variances = np.cumsum(from_end**2) / kept_counts - (np.cumsum(from_end) / kept_counts) ** 2
    by_cut = (kept_variances / kept_counts)[::-1]
    return int(np.argmin(by_cut[: latest_cut + 1]))


def _settles(series: Values, smooth: Values) -> bool:
    """Return whether a series gets over its slow start by its middle: down to the level of its end.

    A disturbance in the middle is no slow start: that lasts from the beginning.
    """
    import numpy as np

    middle = len(series) // 2
    end = series[-max(LEAST_END, len(series) // 10) :]
    reference = median(end)
    # The differences of neighbors show the noise even on a slope; the few values at the end may
    # vary less by chance.
    sigmas = robust_sigma(end), robust_sigma(np.diff(series[middle:])) / 2**0.5
    level = reference + max(UNSETTLED_SIGMAS * max(sigmas), UNSETTLED_FRACTION * reference)
    return bool(smooth[middle] <= level or np.mean(smooth[:middle] > level) < FROM_THE_BEGINNING)
