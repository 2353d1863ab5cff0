"""Throughput over the number of GPUs: two forms with two parameters each, their backtest, and a
projection.

communication: step time = a · batch / GPUs + b · log2(GPUs), with a, b ≥ 0. The work of a step is
divided by the GPUs;
    the communication that no computation hides grows as the latency of a tree does: log2(GPUs)
    messages, each of the same cost (Thakur, Rabenseifner, Gropp: Optimization of Collective
    Communication Operations in MPICH, 2005). The bandwidth term of an all-reduce, 2 (GPUs − 1) /
    GPUs · bytes / bandwidth, hardly changes from eight GPUs on: it can't explain what weak scaling
    loses, and few sizes can't tell it from the work.
line: log(throughput per GPU) = a + b · log(GPUs), a straight line in log-log, in which the batch
doesn't occur.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Literal

from tprimat.analysis import intervals
from tprimat.analysis.intervals import Bounds

Form = Literal["communication", "line"]
FORMS: tuple[Form, ...] = ("communication", "line")

PARAMETERS = 2
LEAST = 3
"""Sizes that a projection needs: two determine a form exactly, and the third tests it."""

CREDIBLE = 0.10
"""Largest backtest error with which a model may widen the interval."""

FAR = 2.0
"""From this factor of the largest measured size on, a projection is far from the measurements."""


@dataclasses.dataclass(frozen=True)
class Size:
    """The measurement at one number of GPUs.

    Attributes:
        batch: sequences per step over all GPUs; None if it is unknown.
        rate: work per second and GPU, in tokens or samples.
        work: work of a sequence, in the same unit.
    """

    gpus: int
    batch: int | None
    rate: float
    work: float = 1.0

    @property
    def seconds(self) -> float:
        """Step time; NaN if the batch is unknown."""
        return (self.batch or math.nan) * self.work / (self.gpus * self.rate)


@dataclasses.dataclass(frozen=True)
class Fit:
    """A form with its parameters.

    Attributes:
        parameters: a and b of the form; of the communication form in seconds.
        variance: variance of one size's logarithm around the form; 0 with as many sizes as
            parameters.
    """

    form: Form
    parameters: tuple[float, float]
    variance: float
    _freedom: int
    _inverse: tuple[float, float, float]

    def rate(self, gpus: int, batch: int | None, work: float) -> float:
        """Return work per second and GPU."""
        first, second = _terms(self.form, gpus, batch)
        total = self.parameters[0] * first + self.parameters[1] * second
        if self.form == "line":
            return math.exp(total)
        return (batch or math.nan) * work / (gpus * total)

    def interval(self, gpus: int, batch: int | None, work: float) -> Bounds:
        """Return the 95 % prediction interval of the rate of another size, by Student's t on
        logarithms.

        It needs more sizes than parameters.
        """
        rate = self.rate(gpus, batch, work)
        # A small relative deviation of the step time is one of its logarithm.
        scale = 1.0
        if self.form != "line":
            scale = gpus * rate / ((batch or math.nan) * work)
        first, second = _terms(self.form, gpus, batch, scale)
        one, both, other = self._inverse
        leverage = one * first**2 + 2 * both * first * second + other * second**2
        half = intervals.t_quantile(self._freedom) * math.sqrt(self.variance * (1 + leverage))
        if half < 100:
            return (rate * math.exp(-half), rate * math.exp(half))
        return (0.0, math.inf)


@dataclasses.dataclass(frozen=True)
class Projection:
    """The throughput that measured sizes suggest for another one.

    Attributes:
        rate: work per second and GPU.
        low, high: its 95 % prediction interval, widened to the error of the backtest, and to the
            other form's rate if that form's backtest is CREDIBLE: it is unknown which of two good
            forms holds there.
        backtest: by form, how far the largest measured size is missed if it is projected from the
            others: projected / measured − 1.
    """

    gpus: int
    batch: int | None
    fit: Fit
    rate: float
    low: float
    high: float
    backtest: Mapping[Form, float]


def fit(sizes: Sequence[Size], form: Form) -> Fit | None:
    """Return a form fitted by least squares on relative deviations.

    None below two sizes; of the communication form also without a batch, or if no work would be
    divided. Each size counts once, however many runs it has: sizes differ from a form by more than
    runs do from each other.
    """
    if len(sizes) < PARAMETERS:
        return None
    firsts = []
    seconds = []
    values = []
    for size in sizes:
        if form == "communication" and size.batch is None:
            return None
        factor = 1.0 if form == "line" else 1 / size.seconds
        first, second = _terms(form, size.gpus, size.batch, factor)
        firsts.append(first)
        seconds.append(second)
        values.append(math.log(size.rate) if form == "line" else 1.0)
    one = _product(firsts, firsts)
    both = _product(firsts, seconds)
    other = _product(seconds, seconds)
    first = _product(firsts, values)
    second = _product(seconds, values)
    determinant = one * other - both**2
    if determinant <= 1e-12 * one * other:
        return None
    parameters = (
        (other * first - both * second) / determinant,
        (one * second - both * first) / determinant,
    )
    inverse = other / determinant, -both / determinant, one / determinant
    if form == "communication" and parameters[0] <= 0:
        # A step without work to divide is no training.
        return None
    if form == "communication" and parameters[1] < 0:
        # Time can't be negative: the work explains all of it.
        parameters = (first / one, 0.0)
        inverse = (1 / one, 0.0, 0.0)
    freedom = len(sizes) - PARAMETERS
    if not freedom:
        return Fit(form, parameters, 0.0, freedom, inverse)
    residuals = []
    for first, second, value in zip(firsts, seconds, values, strict=True):
        residuals.append(value - parameters[0] * first - parameters[1] * second)
    return Fit(form, parameters, _product(residuals, residuals) / freedom, freedom, inverse)


def _product(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(map(operator.mul, one, other))


def left_out(sizes: Sequence[Size], gpus: int, form: Form) -> float | None:
    """Return how far a form that is fitted to the other sizes misses this one: projected / measured
    − 1.
    """
    size = next(size for size in sizes if size.gpus == gpus)
    found = fit([each for each in sizes if each is not size], form)
    if found is None:
        return None
    return found.rate(size.gpus, size.batch, size.work) / size.rate - 1


def project(sizes: Sequence[Size], gpus: int, batch: int | None) -> Projection | None:
    """Return the throughput that measured sizes suggest for another one; None below LEAST, which
    leave nothing to test.

    The communication form is used if it projects the largest size from the others better than the
    straight line.
    """
    if len(sizes) < LEAST:
        return None
    largest = max(size.gpus for size in sizes)
    fits = {}
    tests = {}
    missed = {}
    bounds = []
    work = sizes[0].work
    for form in FORMS:
        fitted = fit(sizes, form)
        if fitted is None or (form != "line" and batch is None):
            continue
        fits[form] = fitted
        error = left_out(sizes, largest, form)
        if error is not None:
            tests[form] = error
            missed[form] = abs(math.log1p(error))
            if abs(error) <= CREDIBLE:
                bounds.append(fitted.rate(gpus, batch, work))
    best = min(missed, key=lambda form: (missed[form], form == "communication"))
    rate = fits[best].rate(gpus, batch, work)
    bounds += [rate * math.exp(-missed[best]), rate * math.exp(missed[best])]
    bounds += fits[best].interval(gpus, batch, work)
    return Projection(gpus, batch, fits[best], rate, min(bounds), max(bounds), tests)


def default_batch(sizes: Sequence[Size], gpus: int) -> int | None:
    """Return the batch of another size: the one that all sizes share, else with as many sequences
    per GPU as the nearest size.
    """
    nearest = min(sizes, key=lambda size: abs(math.log(size.gpus / gpus)))
    if nearest.batch is None or len({size.batch for size in sizes}) == 1:
        return nearest.batch
    return max(1, round(nearest.batch / nearest.gpus * gpus))


def _terms(form: Form, gpus: int, batch: int | None, factor: float = 1.0) -> tuple[float, float]:
    if form == "line":
        return factor, math.log(gpus) * factor
    return (batch or math.nan) / gpus * factor, math.log2(gpus) * factor
