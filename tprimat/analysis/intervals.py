"""The interval rules: how certain a value is within one run, between runs, between two systems.

Knows numbers, not benchmarks. What each interval covers, as simulated,
is in docs/statistics.md; benchmarks/coverage.py repeats it.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Literal

from tprimat.analysis.stats import deviation, mean

Bounds = tuple[float, float]
"""A low value and a high one."""

CONFIDENCE = 0.95
"""The level of every interval and p value; texts that name it ask level()."""

BATCHES = 10
FULL_COVERAGE_STEPS = 500
BATCH_MEANS_STEPS = 200
MEDIAN_STEPS = 20
WINDOWED_STEPS = 100
MISSED, MISSED_BY_FEW = 0.03, 0.07
"""By how much less than the level the intervals of fewer steps cover, as simulated at 95%."""

POWER = 0.8

WIDEST = 4.0
"""Times its lower bound that the upper bound of a useful interval is at most: from half to twice
the value.
"""

LEAST_INDEPENDENT = 8
"""Independent values below which the error of a series' mean is not known: so few hardly show their
autocorrelation.
"""

Method = Literal["welch", "paired", "prediction", "batches"]


def level() -> str:
    """Return the confidence level as texts name it, such as 95%."""
    return f"{100 * CONFIDENCE:g}%"


@dataclasses.dataclass(frozen=True)
class Interval:
    """An interval around a value of one run, in the unit of the values.

    Attributes:
        about: the quantity that it bounds; a range bounds none, it only states which values
            occurred.
        coverage: how often such an interval holds the true value, as simulated; None for a range.
    """

    low: float
    high: float
    about: Literal["mean", "median", "range"]
    coverage: float | None


def within_run_interval(
    values: Sequence[float], steps: Sequence[int] | None = None, resolution: float = 0.0
) -> Interval | None:
    """Return the interval of the mean of steady values of one run; None without values.

    It describes only this run; other runs of the configuration may differ by more.

    Args:
        values: shape (records,), steady ones, in order of time.
        steps: shape (records,), how many steps each record averages. The median of records that
            average several is no step's, so ten of them give batch means, and fewer nothing.
        resolution: resolution of the clock if the values are differences of its times: in whole
            seconds, the median of steps of 5.3 s is 5 s.
    """
    if not values:
        return None
    weights = steps if steps is not None and max(steps) > 1 else None
    count = len(values)
    covered = count if weights is None else sum(weights)
    if resolution and count >= BATCHES and (found := run_mean(values, steps, resolution)):
        return Interval(*found.interval(), "mean", round(CONFIDENCE - MISSED_BY_FEW, 4))
    if count >= (BATCH_MEANS_STEPS if weights is None else BATCHES) and covered >= WINDOWED_STEPS:
        # Outliers are rare, so it is the number of steps that decides whether the batches saw them.
        full = covered >= FULL_COVERAGE_STEPS
        fair = covered >= BATCH_MEANS_STEPS
        missed = 0.0 if full else MISSED if fair else MISSED_BY_FEW
        return _batch_means(values, weights, round(CONFIDENCE - missed, 4))
    if weights is None and count >= MEDIAN_STEPS:
        return _median_interval(values)
    return Interval(min(values), max(values), "range", None)


def _batch_means(
    values: Sequence[float], weights: Sequence[int] | None, coverage: float
) -> Interval:
    means = _means_of_batches(values, weights)
    # Around the mean of all values: batches differ by one in size.
    centre = mean(values, weights)
    half = t_quantile(BATCHES - 1) * (deviation(means) or 0.0) / math.sqrt(BATCHES)
    return Interval(centre - half, centre + half, "mean", coverage)


def _means_of_batches(values: Sequence[float], weights: Sequence[int] | None = None) -> list[float]:
    parts = itertools.pairwise(
        [round(index * len(values) / BATCHES) for index in range(BATCHES + 1)]
    )
    means = []
    for low, high in parts:
        own = None if weights is None else weights[low:high]
        means.append(mean(values[low:high], own))
    return means


def series_mean(values: Sequence[float]) -> Difference | None:
    """Return the mean of a series of at least BATCHES values with an error that respects its
    autocorrelation.

    It is that of batch means, which may still be correlated. None if the series never varies, or if
    its values are worth fewer than LEAST_INDEPENDENT independent ones.
    """
    count = len(values)
    found = run_mean(values)
    # Estimates of so few values are too low by about as much as is added.
    r = _autocorrelation(values)
    r = min(max(r + (1 + 4 * r) / count, 0.0), 0.99)
    worth = count * (1 - r) / (1 + r)
    if found is not None and found.error and worth >= LEAST_INDEPENDENT:
        return found
    return None


def run_mean(
    values: Sequence[float], weights: Sequence[int] | None = None, resolution: float = 0.0
) -> Difference | None:
    """Return the mean of one run's values in time, with its error within that run; None below two.

    The error is that of batch means, or of the values where they are fewer than BATCHES, which may
    be correlated; and that of both ends of the run's time, which are rounded if the values are
    differences of a clock of a resolution.
    """
    if len(values) < 2:
        return None
    if len(values) < BATCHES:
        parts = values
    else:
        parts = _means_of_batches(values, weights)
    left = min(max(_autocorrelation(parts) + 1 / len(parts), 0.0), 0.9)
    error = (deviation(parts) or 0.0) * math.sqrt((1 + left) / (1 - left) / len(parts))
    error = math.hypot(error, resolution / sum(weights or [1] * len(values)) / math.sqrt(6))
    return Difference(mean(values, weights), error, len(parts) - 1, "batches")


def _median_interval(values: Sequence[float]) -> Interval:
    """Return order statistics around the median, with only as many independent values as the
    autocorrelation leaves.
    """
    count = len(values)
    r = min(max(_side_autocorrelation(values), 0.0), 0.9)
    independent = count * (1 - r) / (1 + r)
    half = (
        statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * count / (2 * math.sqrt(independent))
    )
    # As many values lie below the interval as above it.
    outside = max(math.floor(count / 2 - half), 0)
    ordered = sorted(values)
    return Interval(
        ordered[outside], ordered[count - 1 - outside], "median", round(CONFIDENCE - MISSED, 4)
    )


def _side_autocorrelation(values: Sequence[float]) -> float:
    """Return the lag-1 autocorrelation of the side of the median that a value lies on.

    How sure a median is depends on how many values lie on either side, not on how far off they
    are: an outlier counts like any other slow step.
    """
    centre = statistics.median(values)
    return _autocorrelation(
        [int(value > centre) - int(value < centre) for value in values], centre=0.0
    )


def _autocorrelation(values: Sequence[float], centre: float | None = None) -> float:
    """Return the lag-1 autocorrelation around a center, by default the mean; 0 if values never
    vary.
    """
    centre = statistics.fmean(values) if centre is None else centre
    off = [value - centre for value in values]
    total = math.fsum(each * each for each in off)
    if total:
        return math.fsum(one * other for one, other in itertools.pairwise(off)) / total
    return 0.0


@dataclasses.dataclass(frozen=True)
class Difference:
    """An estimated difference of two means, with which Student's t gives intervals and p values.

    Attributes:
        value: the first mean minus the second; of logarithms, the logarithm of their ratio.
        error: its standard error.
        freedom: degrees of freedom of that.
        method: "welch" compares independent runs, "paired" the runs of each round of one session,
            "prediction" a single run with several, as if its own system varied as much as theirs
            does, "batches" parts of a series.
    """

    value: float
    error: float
    freedom: float
    method: Method = "welch"

    def interval(self, confidence: float | None = None) -> Bounds:
        """Return the bounds of the difference, with CONFIDENCE unless another level is given."""
        half = t_quantile(self.freedom, confidence) * self.error
        return self.value - half, self.value + half

    def p(self, expected: float = 0.0) -> float:
        """Return the two-sided p value of a true difference of `expected`."""
        from scipy import special

        return float(2 * special.stdtr(self.freedom, -abs(self.value - expected) / self.error))

    def spread(self, *runs: int) -> float:
        """Return the standard deviation of single runs that gives this error with these numbers of
        runs of each system.
        """
        return self.error / math.sqrt(
            2 / runs[0] if self.method == "paired" else sum(1 / count for count in runs)
        )

    @property
    def minimum_detectable_effect(self) -> float:
        """The smallest difference of logarithms that as many runs with this spread find with 80 %
        power.
        """
        return _detectable(self.error, self.freedom)


def between_run_interval(means: Sequence[float], floor: float = 0.0) -> Interval | None:
    """Return the interval of the mean over runs of one setup, by Student's t on logarithms.

    None for a single run, and if it is wider than WIDEST: a few runs that differ this much don't
    predict others.

    Args:
        means: shape (runs,), above zero.
        floor: variance of one run's logarithm that rounding alone gives.
    """
    if len(means) < 2:
        return None
    logs = [math.log(value) for value in means]
    spread = math.sqrt(max(statistics.variance(logs), floor))
    centre = statistics.fmean(logs)
    half = t_quantile(len(logs) - 1) * spread / math.sqrt(len(logs))
    if is_too_wide(2 * half):
        return None
    return Interval(math.exp(centre - half), math.exp(centre + half), "mean", CONFIDENCE)


def is_too_wide(width: float) -> bool:
    """Return whether an interval of this width, in logarithms, is wider than WIDEST."""
    return width > math.log(WIDEST)


def difference(
    first: Sequence[float],
    second: Sequence[float],
    *,
    floors: tuple[float, float] = (0.0, 0.0),
    within: float = 0.0,
) -> Difference | None:
    """Compare two systems by a value of each of their runs, usually the logarithm of its mean rate.

    Steps of one run are no independent samples of a machine: runs vary more than steps do. So each
        run counts once.
    Two runs of each give Welch's interval; one against three or more a prediction interval,
    √((t(n-1) · s)² · (1 + 1/n) + within²). None if there are fewer, or if nothing varies between
    runs.

    Args:
        first: shape (runs,).
        second: shape (runs,).
        floors: variance of one run's value that rounding alone gives, of either system. Equal
            rounded values don't make a system certain.
        within: half the interval within a single run, which its system's other runs don't share.
    """
    if len(first) > 1 and len(second) > 1:
        return welch(first, second, floors=floors)
    counts = len(first), len(second)
    if min(counts) != 1 or max(counts) < 3:
        return None
    many, count = (first, len(first)) if counts[1] == 1 else (second, len(second))
    variance = max(statistics.variance(many), *floors)
    if not variance:
        return None
    value = statistics.fmean(first) - statistics.fmean(second)
    own = within / t_quantile(count - 1) if within else 0.0
    return Difference(
        value, math.hypot(math.sqrt(variance * (1 + 1 / count)), own), count - 1, "prediction"
    )


def welch(
    first: Sequence[float], second: Sequence[float], *, floors: tuple[float, float] = (0.0, 0.0)
) -> Difference | None:
    """Return the difference of two means by Welch's t; None below two values of either, or if
    neither varies.
    """
    if min(len(first), len(second)) < 2:
        return None
    parts = []
    for values, floor in zip((first, second), floors, strict=True):
        parts.append(max(statistics.variance(values), floor) / len(values))
    variance = sum(parts)
    if variance == 0:
        return None
    freedom = variance**2 / sum(
        part**2 / (len(values) - 1) for part, values in zip(parts, (first, second), strict=True)
    )
    return Difference(
        statistics.fmean(first) - statistics.fmean(second), math.sqrt(variance), freedom
    )


def paired(first: Sequence[float], second: Sequence[float]) -> Difference | None:
    """Return the mean difference of pairs, shape (rounds,) each; None below two, or if it never
    varies.
    """
    differences = [one - other for one, other in zip(first, second, strict=True)]
    spread = 0.0
    if len(differences) > 1:
        spread = statistics.stdev(differences)
    if not spread:
        return None
    count = len(differences)
    return Difference(statistics.fmean(differences), spread / math.sqrt(count), count - 1, "paired")


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values, in their order, corrected by Holm for their number."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p_values[index]))
        corrected[index] = highest
    return corrected


def minimum_detectable_effect(spread: float, runs: int) -> float:
    """Return the smallest relative difference that `runs` runs of each system, two or more, find
    with 80 % power.

    The spread is the relative standard deviation of run means.
    """
    return _detectable(spread * math.sqrt(2 / runs), 2 * (runs - 1))


def runs_needed(difference: float, spread: float, *, most: int = 100) -> int | None:
    """Return how many runs of each find a relative difference with 80 % power; None when more than
    `most`.
    """
    # The more runs, the smaller the effect.
    fewer = bisect.bisect_left(
        range(2, most + 1),
        True,
        key=lambda runs: minimum_detectable_effect(spread, runs) <= difference,
    )
    if fewer == most - 1:
        return None
    return 2 + fewer


def _detectable(error: float, freedom: float) -> float:
    return math.expm1(_detectable_errors(freedom) * error)


@functools.lru_cache(maxsize=1024)
def _detectable_errors(freedom: float) -> float:
    """Return the difference, in standard errors, that is found with 80 % power; nothing is found on
    its other side.
    """
    from scipy import special

    return float(special.nctdtrinc(freedom, 1 - POWER, t_quantile(freedom)))


def t_quantile(freedom: float, confidence: float | None = None) -> float:
    """Return the value of Student's t that a two-sided interval reaches to; by default that of
    CONFIDENCE.
    """
    from scipy import special

    return float(
        special.stdtrit(freedom, (1 + (CONFIDENCE if confidence is None else confidence)) / 2)
    )
