"""From repeated measurements to a steady state and its summary. Knows numbers, not benchmarks."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence

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
LEVEL_SHIFT_AFTER = 20
"""Warm-up by compilation and allocation is over by then; a later cut is a change of level."""


@dataclasses.dataclass(frozen=True)
class SteadyState:
    """Where a series becomes steady.

    Attributes:
        start: index of the first steady value.
        reference: median of the second half of the series, in the series' unit.
        band: how far from the reference a value may lie and still count as steady.
    """

    start: int
    reference: float
    band: float


def minimum_records(windows: Sequence[int]) -> int:
    """How many records it takes to look for a steady state.

    Args:
        windows: shape (records,), steps that each record averages.
    """
    several = bool(windows) and min(windows) > 1 and sum(windows) >= MINIMUM_WINDOWED_STEPS
    return MINIMUM_WINDOWS if several else MINIMUM_RECORDS


def detect_warmup(values: Sequence[float], *, minimum: int = MINIMUM_RECORDS) -> SteadyState | None:
    """Finds where a series becomes steady, by the level of its second half.

    The first value counts that lies, with four of the five values from it, within
    max(4 σ, 2 %) of the median of the second half, where σ is 1.4826 times the median absolute
    deviation of that half. A spike doesn't end the steady state, and doesn't start it.

    Args:
        values: shape (records,), in order of time.
        minimum: see minimum_records.

    Returns:
        None when there are too few values, or when none before the middle qualifies.
    """
    if len(values) < minimum:
        return None
    tail = values[len(values) // 2 :]
    reference = statistics.median(tail)
    sigma = robust_sigma(tail)
    band = max(BAND_SIGMAS * sigma, BAND_FRACTION * abs(reference))
    within = [abs(value - reference) <= band for value in values]
    for start in range(len(values) // 2):
        if within[start] and sum(within[start : start + LOOK_AHEAD]) >= LOOK_AHEAD_WITHIN:
            return SteadyState(start, reference, band)
    return None


@dataclasses.dataclass(frozen=True)
class Sample:
    """Summary of values, each standing for a number of steps.

    Attributes:
        count: number of values.
        mean: weighted by the steps that each value stands for.
        median, low, high: of the values, unweighted.
        std: sample standard deviation of the values; None for a single one.
    """

    count: int
    mean: float
    median: float
    low: float
    high: float
    std: float | None


def summarize(values: Sequence[float], weights: Sequence[int] | None = None) -> Sample | None:
    """Summary of values; None when there are none.

    Args:
        values: shape (records,).
        weights: shape (records,), steps that each value averages; None when each is one step.
    """
    if not values:
        return None
    weights = weights or [1] * len(values)
    return Sample(
        count=len(values),
        mean=math.fsum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights),
        median=statistics.median(values),
        low=min(values),
        high=max(values),
        std=_deviation(values) if len(values) > 1 else None,
    )


def _deviation(values: Sequence[float]) -> float:
    # Python 3.10 squares before it takes the root, which overflows beyond 1e154.
    exponent = math.frexp(max(abs(value) for value in values))[1]
    return math.ldexp(statistics.stdev(math.ldexp(value, -exponent) for value in values), exponent)


def median_index(values: Sequence[float]) -> int:
    """Index of the value that is the median one; of an even number, the lower of the middle two.

    Raises ValueError for no values.
    """
    if not values:
        raise ValueError("no values")
    return sorted(range(len(values)), key=lambda index: values[index])[(len(values) - 1) // 2]


def median(values: Sequence[float]) -> float:
    """The median. Raises statistics.StatisticsError for no values."""
    return statistics.median(values)


def robust_sigma(values: Sequence[float]) -> float:
    """The standard deviation that normal values of this median absolute deviation have."""
    centre = statistics.median(values)
    return 1.4826 * statistics.median(abs(value - centre) for value in values)
