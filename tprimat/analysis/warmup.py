"""The warm-up rule: the first record of the steady state."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

from tprimat.analysis.changepoints import LEAST_RECORDS, NEAR, change_points
from tprimat.analysis.stats import robust_sigma

MINIMUM_RECORDS = 20
"""Fewer than this and no steady state is looked for: on the first ten steps of a run whose
warm-up lasts eight, every rule that was tried finds a steady state in the warm-up."""

MINIMUM_WINDOWS = 10
"""So many records are enough where each averages several steps, of this many in all: a warm-up
of some steps is a part of the first one or two."""

MINIMUM_WINDOWED_STEPS = 100

BAND_SIGMAS = 4.0
BAND_FRACTION = 0.02
LOOK_AHEAD = 5
LOOK_AHEAD_WITHIN = 4
EARLIEST_CHANGE = 20
"""Warm-up by compilation and allocation is over by then; a later cut is a change point."""

LONGEST_WARM_UP = 60
WARM_UP_FRACTION = 0.1
"""A warm-up that fades away may take 60 records, or a tenth of a longer run. What takes longer is
how that run went, and isn't cut off."""


@dataclasses.dataclass(frozen=True)
class SteadyState:
    """The index of the first steady value, the median of the second half, and how far a steady value may lie off it."""

    start: int
    reference: float
    band: float


def minimum_records(windows: Sequence[int]) -> int:
    """Return how many records it takes to look for a steady state, by the steps that each averages."""
    several = bool(windows) and min(windows) > 1 and sum(windows) >= MINIMUM_WINDOWED_STEPS
    return MINIMUM_WINDOWS if several else MINIMUM_RECORDS


def detect_warmup(values: Sequence[float], *, minimum: int = MINIMUM_RECORDS) -> SteadyState | None:
    """Find where a series becomes steady, with its second half as the reference.

    The first value counts that lies, with four of the five values from it, within
    max(4 σ, 2 %) of the median of the second half, where σ is 1.4826 times the median absolute
    deviation of that half. An outlier doesn't end the steady state, and doesn't start it.
    None when there are too few values, or when none before the middle qualifies.
    """
    if len(values) < minimum:
        return None
    tail = values[len(values) // 2 :]
    reference = statistics.median(tail)
    band = max(BAND_SIGMAS * robust_sigma(tail), BAND_FRACTION * abs(reference))
    for start in range(len(values) // 2):
        within = [abs(value - reference) <= band for value in values[start : start + LOOK_AHEAD]]
        if within[0] and sum(within) >= LOOK_AHEAD_WITHIN:
            return SteadyState(start, reference, band)
    return None


def first_steady_index(values: Sequence[float], *, minimum: int = MINIMUM_RECORDS) -> int | None:
    """Return the index of the first value after the warm-up; None where no steady state is found.

    detect_warmup cuts all that doesn't resemble the second half. Where it cuts more than a
    warm-up takes, the part before may be a segment of its own, so its own warm-up is looked for.
    """
    state, values = _first_reference(values, minimum)
    if state is None:
        return None
    start = state.start
    while start > EARLIEST_CHANGE:
        brief = is_brief(start, len(values))
        earlier = detect_warmup(values[:start])
        if earlier is None:
            # The part before has no steady state of its own: a warm-up when it is brief, else a
            # drift, which is to be seen.
            return _end_of_slope(values, start, state.reference) if brief else EARLIEST_CHANGE
        if start - earlier.start < LEAST_RECORDS or (brief and fades(values[earlier.start : start], state.reference)):
            return _end_of_slope(values, start, state.reference)
        start = earlier.start
    return start


def _first_reference(values: Sequence[float], minimum: int) -> tuple[SteadyState | None, Sequence[float]]:
    """Return the steady state, and the values that it covers. A run that changes its speed in the second
    half has no steady first half; the steady state is looked for before the change then.
    """
    import numpy as np

    while (state := detect_warmup(values, minimum=minimum)) is None:
        changes = change_points(np.asarray(values[LOOK_AHEAD:], dtype=np.float64))
        if not changes:
            break
        values = values[: LOOK_AHEAD + changes[0]]
    return state, values


def _end_of_slope(values: Sequence[float], start: int, reference: float) -> int:
    """Return where a warm-up that faded away for so long has reached the reference: the band that
    detect_warmup leaves for noise still holds the end of its slope.
    """
    for index in range(start, len(values) // 2):
        if not is_brief(index, len(values)):
            break
        if statistics.median(values[index : index + NEAR]) <= reference:
            return index if index - start < NEAR or fades(values[start:index], reference) else start
    return start


def is_brief(stop: int, count: int) -> bool:
    """Return whether a warm-up may last so long in a run of so many records."""
    return stop <= max(LONGEST_WARM_UP, WARM_UP_FRACTION * count)


def fades(part: Sequence[float], reference: float) -> bool:
    """Return whether a part comes down to a reference on its own, as a warm-up does; a segment keeps its
    speed until it ends.
    """
    above, left = (statistics.median(near) - reference for near in (part[:NEAR], part[-NEAR:]))
    return above > 0 and left < 0.75 * above
