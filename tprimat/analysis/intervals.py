"""The interval rules: how certain a value is within one run, between runs, between two systems.

Knows numbers, not benchmarks. What each interval covers, as simulated,
stands in docs/statistics.md; benchmarks/coverage.py repeats it.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Literal

from tprimat.analysis.stats import mean

CONFIDENCE = 0.95
BATCHES = 10
FULL_COVERAGE_STEPS = 500
BATCH_MEANS_STEPS = 200
MEDIAN_STEPS = 20
WINDOWED_STEPS = 100
RUNS_FOR_SIGNIFICANCE = 3
"""Log-Welch on two runs each covers well but its intervals are some ±6 % wide at a spread of
1 %, and one odd run decides; from three on it is a statement."""

POWER = 0.8


@dataclasses.dataclass(frozen=True)
class Interval:
    """An interval around a value of one run, in the unit of the values.

    Attributes:
        about: the quantity that it bounds; a range bounds none, it only states which values occurred.
        coverage: how often such an interval holds the true value, as simulated; None for a range.
    """

    low: float
    high: float
    about: Literal["mean", "median", "range"]
    coverage: float | None


def within_run_interval(values: Sequence[float], steps: Sequence[int] | None = None) -> Interval | None:
    """Return the interval that so many steady values of one run support; None for no values.

    It speaks of this run alone: another run of the same setup may lie outside.

    Args:
        values: shape (records,), steady ones, in order of time.
        steps: shape (records,), how many steps each record averages. The median of records that average several is
            no step's, so ten of them give batch means, and fewer nothing.
    """
    if not values:
        return None
    weights = steps if steps is not None and max(steps) > 1 else None
    count = len(values)
    covered = count if weights is None else sum(weights)
    if count >= (BATCH_MEANS_STEPS if weights is None else BATCHES) and covered >= WINDOWED_STEPS:
        # Outliers are rare, so it is the number of steps that decides whether the batches saw them.
        full, fair = covered >= FULL_COVERAGE_STEPS, covered >= BATCH_MEANS_STEPS
        return _batch_means(values, weights, CONFIDENCE if full else 0.92 if fair else 0.88)
    if weights is None and count >= MEDIAN_STEPS:
        return _median_interval(values)
    return Interval(min(values), max(values), "range", None)


def _batch_means(values: Sequence[float], weights: Sequence[int] | None, coverage: float) -> Interval:
    edges = [round(index * len(values) / BATCHES) for index in range(BATCHES + 1)]
    means = [
        mean(values[low:high], None if weights is None else weights[low:high])
        for low, high in itertools.pairwise(edges)
    ]
    # Around the mean of all values: batches differ by one in size.
    centre = mean(values, weights)
    half = _t_quantile(BATCHES - 1) * statistics.stdev(means) / math.sqrt(BATCHES)
    return Interval(centre - half, centre + half, "mean", coverage)


def _median_interval(values: Sequence[float]) -> Interval:
    """Return order statistics around the median, with only as many independent values as the autocorrelation leaves."""
    count = len(values)
    r = min(max(_side_autocorrelation(values), 0.0), 0.9)
    independent = count * (1 - r) / (1 + r)
    half = 1.959964 * count / (2 * math.sqrt(independent))
    # As many values lie below the interval as above it.
    outside = max(math.floor(count / 2 - half), 0)
    ordered = sorted(values)
    return Interval(ordered[outside], ordered[count - 1 - outside], "median", 0.92)


def _side_autocorrelation(values: Sequence[float]) -> float:
    """Return the lag-1 autocorrelation of the side of the median that a value lies on.

    How sure a median is depends on how many values lie on either side, not on how far off they
    are: an outlier counts like any other slow step.
    """
    centre = statistics.median(values)
    sides = [int(value > centre) - int(value < centre) for value in values]
    total = sum(map(abs, sides))
    return sum(first * second for first, second in itertools.pairwise(sides)) / total if total else 0.0


@dataclasses.dataclass(frozen=True)
class RatioInterval:
    """One system over the other: the ratio of the geometric means of their runs, with its 95 % interval.

    Attributes:
        p: two-sided, of no difference.
        minimum_detectable_effect: the smallest relative difference that so many runs with this
            spread find in 80 % of the cases.
    """

    ratio: float
    low: float
    high: float
    p: float
    minimum_detectable_effect: float

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes that both are equal."""
        return not self.low <= 1 <= self.high


def between_run_interval(means: Sequence[float]) -> Interval | None:
    """Return the interval of the mean over runs of one setup, by Student's t on logarithms; None below three runs."""
    if len(means) < RUNS_FOR_SIGNIFICANCE:
        return None
    logs = [math.log(value) for value in means]
    centre, half = statistics.fmean(logs), _t_quantile(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Interval(math.exp(centre - half), math.exp(centre + half), "mean", CONFIDENCE)


def log_welch(first: Sequence[float], second: Sequence[float]) -> RatioInterval | None:
    """Return the ratio of two systems from the means of their runs, by Welch's t on logarithms.

    Steps of one run are no independent samples of a machine: runs vary more than steps do. So each run counts once.
    None below three runs of either, or where neither varies at all.
    """
    from scipy import special

    welch = _welch(*([math.log(value) for value in side] for side in (first, second)))
    if welch is None:
        return None
    difference, half, error, freedom = welch
    return RatioInterval(
        ratio=math.exp(difference),
        low=math.exp(difference - half),
        high=math.exp(difference + half),
        p=float(2 * special.stdtr(freedom, -abs(difference) / error)),
        minimum_detectable_effect=_detectable(error, freedom),
    )


def welch_difference(first: Sequence[float], second: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of the first mean minus the second, in the unit of the values; None as for log_welch."""
    welch = _welch(first, second)
    return None if welch is None else (welch[0] - welch[1], welch[0] + welch[1])


def _welch(first: Sequence[float], second: Sequence[float]) -> tuple[float, float, float, float] | None:
    """Return the difference of the means, half its interval, its standard error, and the degrees of freedom."""
    if min(len(first), len(second)) < RUNS_FOR_SIGNIFICANCE:
        return None
    variances = [statistics.variance(side) / len(side) for side in (first, second)]
    error = math.sqrt(sum(variances))
    if error == 0:
        return None
    shares = (v * v / (len(side) - 1) for v, side in zip(variances, (first, second), strict=True))
    freedom = sum(variances) ** 2 / sum(shares)
    return statistics.fmean(first) - statistics.fmean(second), _t_quantile(freedom) * error, error, freedom


def minimum_detectable_effect(spread: float, runs: int) -> float:
    """Return the smallest relative difference that so many runs of each system, two or more, find with 80 % power.

    The spread is the relative standard deviation of run means.
    """
    return _detectable(spread * math.sqrt(2 / runs), 2 * (runs - 1))


def runs_needed(difference: float, spread: float, *, most: int = 100) -> int | None:
    """Return how many runs of each find a relative difference with 80 % power; None when more than `most`."""
    candidates = range(RUNS_FOR_SIGNIFICANCE, most + 1)
    return next((runs for runs in candidates if minimum_detectable_effect(spread, runs) <= difference), None)


def _detectable(error: float, freedom: float) -> float:
    from scipy import special

    critical = _t_quantile(freedom)

    def power(shift: float) -> float:
        below = special.nctdtr(freedom, shift, critical) - special.nctdtr(freedom, shift, -critical)
        return 1 - float(below)

    low, high = 0.0, 60.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if power(middle) < POWER else (low, middle)
    return math.expm1(high * error)


def _t_quantile(freedom: float) -> float:
    from scipy import special

    return float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2))
