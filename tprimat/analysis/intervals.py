"""How sure a figure is: intervals within one run, between runs, between two sides.

Knows numbers, not benchmarks. What each interval covers, and in which simulation that was found,
stands in docs/statistics.md; benchmarks/coverage.py repeats it.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Sequence
from typing import Literal

CONFIDENCE = 0.95
BATCHES = 10
FULL_COVERAGE_STEPS = 500
BATCH_MEANS_STEPS = 200
MEDIAN_STEPS = 20
WINDOWED_STEPS = 100
RUNS_FOR_SIGNIFICANCE = 3
"""Log-Welch on two runs a side covers well but its intervals are some ±6 % wide at a spread of
1 %, and one odd run decides; from three on it is a statement."""

POWER = 0.8
EXACT_RUNS = 40
"""Up to here Kendall's distribution is counted; beyond, the normal one is as good."""

ORDER_RUNS = 6
"""Fewer runs than this have orders too few to tell a trend from chance at 1 %."""


@dataclasses.dataclass(frozen=True)
class Interval:
    """An interval around a figure of one run.

    Attributes:
        low, high: in the unit of the values.
        about: the figure that it is of; a range is of nothing, it only says what was seen.
        coverage: how often such an interval holds the true value, as simulated; None for a range.
    """

    low: float
    high: float
    about: Literal["mean", "median", "range"]
    coverage: float | None


def within_run_interval(
    values: Sequence[float], *, windowed: bool = False, steps: Sequence[int] | None = None
) -> Interval | None:
    """The interval that so many steady values of one run bear; None for no values.

    It speaks of this run alone: another run of the same setup may lie outside.

    Args:
        values: shape (records,), steady ones, in order of time.
        windowed: each record averages several steps. Their median is no step's, so ten of them
            give batch means, and fewer nothing; where it isn't said how many steps they average,
            ten each are assumed.
        steps: shape (records,), how many steps each record averages, where that is known. More
            than one anywhere is windowed.
    """
    if not values:
        return None
    if steps is not None:
        windowed = windowed or max(steps) > 1
    weights = steps if windowed else None
    count = len(values)
    covered = count
    if windowed:
        covered = sum(steps) if steps is not None else 10 * count
        bears_mean = count >= BATCHES and covered >= WINDOWED_STEPS
    else:
        bears_mean = count >= BATCH_MEANS_STEPS
    if bears_mean:
        # Spikes are rare, so it is the number of steps that decides whether the batches saw them.
        full, fair = covered >= FULL_COVERAGE_STEPS, covered >= BATCH_MEANS_STEPS
        return _batch_means(values, weights, CONFIDENCE if full else 0.92 if fair else 0.88)
    if not windowed and count >= MEDIAN_STEPS:
        return _median_interval(values)
    return Interval(min(values), max(values), "range", None)


def _batch_means(values: Sequence[float], weights: Sequence[int] | None, coverage: float) -> Interval:
    edges = [round(index * len(values) / BATCHES) for index in range(BATCHES + 1)]
    means = [_mean(values, weights, low, high) for low, high in itertools.pairwise(edges)]
    # Around the mean of all values: batches differ by one in size.
    centre = _mean(values, weights, 0, len(values))
    half = _t_quantile(BATCHES - 1) * statistics.stdev(means) / math.sqrt(BATCHES)
    return Interval(centre - half, centre + half, "mean", coverage)


def _mean(values: Sequence[float], weights: Sequence[int] | None, low: int, high: int) -> float:
    part = values[low:high]
    if weights is None:
        return statistics.fmean(part)
    shares = weights[low:high]
    return math.fsum(value * share for value, share in zip(part, shares, strict=True)) / sum(shares)


def _median_interval(values: Sequence[float]) -> Interval:
    """Order statistics around the median, as if there were only so many independent values as
    the autocorrelation leaves.
    """
    count = len(values)
    r = min(max(_side_autocorrelation(values), 0.0), 0.9)
    independent = count * (1 - r) / (1 + r)
    half = 1.959964 * count / (2 * math.sqrt(independent))
    # As many values lie below the interval as above it.
    outside = max(math.floor(count / 2 - half), 0)
    ordered = sorted(values)
    return Interval(ordered[outside], ordered[count - 1 - outside], "median", 0.92)


def _side_autocorrelation(values: Sequence[float]) -> float:
    """Lag-1 autocorrelation of the side of the median that a value lies on.

    How sure a median is depends on how many values lie on either side, not on how far off they
    are: a spike counts like any other slow step.
    """
    centre = statistics.median(values)
    sides = [int(value > centre) - int(value < centre) for value in values]
    total = sum(map(abs, sides))
    return sum(first * second for first, second in itertools.pairwise(sides)) / total if total else 0.0


@dataclasses.dataclass(frozen=True)
class RatioInterval:
    """One side over the other, by run means.

    Attributes:
        ratio: of the geometric means.
        low, high: the 95 % interval of the ratio.
        p: two-sided, of no difference.
        smallest: the smallest relative difference that so many runs with this spread find in 80 %
            of the cases.
    """

    ratio: float
    low: float
    high: float
    p: float
    smallest: float

    @property
    def shown(self) -> bool:
        """Whether a difference is shown at all."""
        return not self.low <= 1 <= self.high


def between_run_interval(means: Sequence[float]) -> Interval | None:
    """The interval of what runs of one setup do on average, by Student's t on logarithms.

    Args:
        means: shape (runs,), positive.

    Returns:
        None below three runs.
    """
    if len(means) < RUNS_FOR_SIGNIFICANCE:
        return None
    logs = [math.log(value) for value in means]
    centre, half = statistics.fmean(logs), _t_quantile(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Interval(math.exp(centre - half), math.exp(centre + half), "mean", CONFIDENCE)


def log_welch(first: Sequence[float], second: Sequence[float]) -> RatioInterval | None:
    """The ratio of two sides from the means of their runs, by Welch's t on logarithms.

    Steps of one run are no independent samples of a machine: between runs lies more than between
    steps. So each run counts once.

    Args:
        first: shape (runs,), positive.
        second: shape (runs,), positive.

    Returns:
        None below three runs on either side, or where neither side varies at all.
    """
    from scipy import special

    found = _welch(*([math.log(value) for value in side] for side in (first, second)))
    if found is None:
        return None
    difference, error, freedom = found
    half = _t_quantile(freedom) * error
    return RatioInterval(
        ratio=math.exp(difference),
        low=math.exp(difference - half),
        high=math.exp(difference + half),
        p=float(2 * special.stdtr(freedom, -abs(difference) / error)),
        smallest=_smallest(error, freedom),
    )


def welch_difference(first: Sequence[float], second: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the first side's mean minus the second's, in the unit of the values.

    Args:
        first: shape (runs,).
        second: shape (runs,).

    Returns:
        Its bounds; None as for log_welch.
    """
    found = _welch(first, second)
    if found is None:
        return None
    difference, error, freedom = found
    half = _t_quantile(freedom) * error
    return difference - half, difference + half


def _welch(first: Sequence[float], second: Sequence[float]) -> tuple[float, float, float] | None:
    """Difference of the means, its standard error, and the degrees of freedom."""
    if min(len(first), len(second)) < RUNS_FOR_SIGNIFICANCE:
        return None
    variances = [statistics.variance(side) / len(side) for side in (first, second)]
    error = math.sqrt(sum(variances))
    if error == 0:
        return None
    shares = (v * v / (len(side) - 1) for v, side in zip(variances, (first, second), strict=True))
    return statistics.fmean(first) - statistics.fmean(second), error, sum(variances) ** 2 / sum(shares)


def minimum_detectable_effect(spread: float, runs: int) -> float:
    """The smallest relative difference that two sides of so many runs find with 80 % power.

    Args:
        spread: standard deviation of run means, relative.
        runs: on each side, at least two.
    """
    return _smallest(spread * math.sqrt(2 / runs), 2 * (runs - 1))


def runs_needed(difference: float, spread: float, *, most: int = 100) -> int | None:
    """Runs a side that find a relative difference with 80 % power; None when more than `most`."""
    candidates = range(RUNS_FOR_SIGNIFICANCE, most + 1)
    return next((runs for runs in candidates if minimum_detectable_effect(spread, runs) <= difference), None)


def _smallest(error: float, freedom: float) -> float:
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


@dataclasses.dataclass(frozen=True)
class Order:
    """What the order of runs shows.

    Attributes:
        kind: rises or falls from first to last, or alternates between odd and even.
        size: relative: the second half's mean over the first's, or odd runs' over even runs',
            minus one.
    """

    kind: Literal["rises", "falls", "alternates"]
    size: float


def run_order_trend(means: Sequence[float]) -> Order | None:
    """Whether runs follow their order, so that their spread is not the machine's; None if not.

    A trend by Mann and Kendall's exact test at 1 %, an alternation by Welch's t of odd against
    even runs at 0.1 %.
    """
    count = len(means)
    if count < ORDER_RUNS:
        return None
    odd, even = means[0::2], means[1::2]
    if _alternates(odd, even):
        return Order("alternates", statistics.fmean(odd) / statistics.fmean(even) - 1)
    rising = sum((later > earlier) - (later < earlier) for i, earlier in enumerate(means) for later in means[i + 1 :])
    if _kendall_p(abs(rising), count) >= 0.01:
        return None
    halves = means[: count // 2], means[(count + 1) // 2 :]
    size = statistics.fmean(halves[1]) / statistics.fmean(halves[0]) - 1
    if size * rising < 0:
        # One odd run moves a mean against what all the others do.
        size = statistics.median(halves[1]) / statistics.median(halves[0]) - 1
    return Order("rises" if rising > 0 else "falls", size)


def _alternates(odd: Sequence[float], even: Sequence[float]) -> bool:
    """Whether odd and even runs differ."""
    welch = log_welch(odd, even)
    if welch is not None:
        return welch.p < 0.001
    # Means that were rounded may not vary on either side. By chance alone two values fall so
    # into place in 2 of all the ways to choose the odd runs.
    return odd[0] != even[0] and 2 / math.comb(len(odd) + len(even), len(odd)) < 0.01


def _kendall_p(score: int, count: int) -> float:
    """Probability that Kendall's score of so many values in random order is at least this far from zero."""
    if count > EXACT_RUNS:
        deviation = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
        return math.erfc(max(score - 1, 0) / deviation / math.sqrt(2))
    inversions = [1]
    for size in range(2, count + 1):
        grown = [0] * (len(inversions) + size - 1)
        for index, ways in enumerate(inversions):
            for shift in range(size):
                grown[index + shift] += ways
        inversions = grown
    pairs = count * (count - 1) // 2
    extreme = sum(ways for index, ways in enumerate(inversions) if abs(pairs - 2 * index) >= score)
    return extreme / math.factorial(count)


def _t_quantile(freedom: float) -> float:
    from scipy import special

    return float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2))
