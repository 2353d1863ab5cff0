"""Explain why a step takes longer on one system: the difference of two traces, split into parts
that add up.
"""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections.abc import Sequence
from typing import Literal

from tprimat.analysis import intervals
from tprimat.analysis.intervals import Bounds
from tprimat.analysis.traces import products
from tprimat.analysis.traces.breakdown import mean_parts, sums
from tprimat.analysis.traces.products import Product
from tprimat.catalog import gpus
from tprimat.catalog.gpus import Gpu
from tprimat.results.fields import SHORTEST_STEP
from tprimat.results.run import Run
from tprimat.results.trace import COMMUNICATION, COMPUTATION, KINDS, Trace, TracedStep, TracedWork

Limit = Literal[
    "gpu", "communication", "idle_host_launch", "idle_data", "idle_synchronisation", "idle_other"
]
"""The limiting factor of a step: GPU work, exposed communication, or idle time by cause."""

_CAUSES: tuple[Limit, ...] = ("idle_host_launch", "idle_data", "idle_synchronisation", "idle_other")

LIMITING_SHARE = 0.5
"""Share of the step from which idle time or communication, rather than GPU work, is its limiting
factor.
"""

UNEQUAL = 2 * products.UNKNOWN_SHARE
"""From this relative difference of the matrix products' FLOPs on, two traces don't do the same
work.
"""

HOST_SHARE = 0.8
"""Share of the step: if the GPU is idle for at least this share in both traces, hosts are compared
rather than GPUs.
"""

UNIFORM, LARGE = 0.25, 0.02
"""How far the change of one part of the computation may differ from the mean change, relative to
it, if all computation is uniformly slower; and share of the step from which a part is considered.
"""

PRESENT, ABSENT = 0.05, 0.1
"""Share of the computation from which a model has a kind of part; and the fraction of that share
below which the other model doesn't have it.
"""


_VENDORS = re.compile(
    r"(?<![a-z])(cudnn|miopen|mkldnn|thnn)_(?=conv)|(?<=_)(flash|efficient|cudnn|fused)_(?=attention)"
)
"""The vendor's part in the names of equivalent operators, such as miopen_ in
aten::miopen_convolution.
"""


@dataclasses.dataclass(frozen=True)
class Traced:
    """One of the two systems, with its trace.

    Attributes:
        name: the name in reports.
        gpu: its row in the catalog; None if it is unknown.
        ranks: number of ranks of the training, of which the trace may cover only one; None if it is
            unknown.
    """

    name: str
    trace: Trace
    gpu: Gpu | None
    ranks: int | None = None

    @property
    def seconds(self) -> float:
        """The mean step time, s."""
        return statistics.fmean([step.seconds for step in self.trace.steps])

    @property
    def overlapped_communication(self) -> float:
        """Mean seconds of communication per step that computation hides."""
        return statistics.fmean([step.overlapped_communication for step in self.trace.steps])

    @property
    def idle(self) -> float:
        """The share of the step in which the GPU is idle."""
        return sums(mean_parts(self.trace.steps))["idle"] / self.seconds

    @property
    def shares(self) -> dict[str, float]:
        """The share of each part of the computation in the whole computation."""
        parts = {}
        for part, value in mean_parts(self.trace.steps).items():
            if part in COMPUTATION:
                parts[part] = value
        return {part: value / sum(parts.values()) for part, value in parts.items() if value}

    @property
    def limit(self) -> Limit:
        """What limits the step: the largest cause of idle time, or communication, if either takes
        LIMITING_SHARE of the step; else GPU work.
        """
        parts = mean_parts(self.trace.steps)
        whole = sums(parts)
        if whole["idle"] >= LIMITING_SHARE * self.seconds:
            return max(_CAUSES, key=lambda cause: parts.get(cause, 0.0))
        if whole["exposed_communication"] >= LIMITING_SHARE * self.seconds:
            return "communication"
        return "gpu"


@dataclasses.dataclass(frozen=True)
class Achieved:
    """How fast matrix products of one size ran on one GPU.

    Attributes:
        tflops, terabytes_per_s: achieved; bytes count each matrix once.
        of_peak, of_bandwidth: shares of the card's dense peak in that precision, and of its memory
            bandwidth; None if these are unknown, as for fp32, which may have run as tf32.
    """

    tflops: float
    terabytes_per_s: float
    of_peak: float | None
    of_bandwidth: float | None


@dataclasses.dataclass(frozen=True)
class Operator:
    """An operator on inputs of one shape, in both traces.

    Attributes:
        name: such as aten::mm; the name of the kernel for GPU work without an operator.
        shapes: of its inputs; empty if they are unknown.
        before, after: its GPU work in each trace, the longest first; empty if it has none there.
        product: the matrix product that it computes; None if it computes none, or one of unknown
            size.
    """

    name: str
    shapes: tuple[tuple[int, ...], ...]
    before: tuple[TracedWork, ...]
    after: tuple[TracedWork, ...]
    product: Product | None

    @property
    def seconds(self) -> Bounds:
        """The seconds that it adds to the step in each trace."""
        before = sum(work.exposed_seconds for work in self.before)
        after = sum(work.exposed_seconds for work in self.after)
        return before, after

    @property
    def delta(self) -> float:
        """Seconds by which it takes longer in the second trace."""
        first, second = self.seconds
        return second - first

    def achieved(self, explanation: Explanation) -> tuple[Achieved | None, Achieved | None]:
        """Return the speed of its matrix products in each trace."""
        return (
            _achieved(self.product, self.before, explanation.before.gpu),
            _achieved(self.product, self.after, explanation.after.gpu),
        )


@dataclasses.dataclass(frozen=True)
class Bar:
    """A part of the step: what it contributes to the difference.

    Attributes:
        before, after: mean seconds in each trace.
        interval: 95 % interval of the difference over steps, or ranks; None with a single step or
            rank.
        operators: the operators that the part consists of, those that differ most first.
    """

    part: str
    before: float
    after: float
    interval: Bounds | None
    operators: tuple[Operator, ...] = ()

    @property
    def delta(self) -> float:
        """Seconds by which it takes longer in the second trace."""
        return self.after - self.before


@dataclasses.dataclass(frozen=True)
class Explanation:
    """The difference of two mean step times.

    Attributes:
        bars: the largest difference first; their differences add up to that of the step times.
        interval: 95 % interval of the difference, s; None with a single step or rank.
        products: FLOPs of all matrix products per step in each trace; None if sizes are missing.
    """

    before: Traced
    after: Traced
    bars: tuple[Bar, ...]
    interval: Bounds | None
    products: tuple[float | None, float | None]

    @property
    def delta(self) -> float:
        """Seconds by which the second system's step takes longer."""
        return self.after.seconds - self.before.seconds

    @property
    def limits(self) -> tuple[Limit, Limit]:
        """What limits the step of each system."""
        return self.before.limit, self.after.limit

    @property
    def unequal_work(self) -> float | None:
        """FLOPs of the second's matrix products over those of the first, if they differ; else
        None.
        """
        first, second = self.products
        if first and second and abs(second / first - 1) > UNEQUAL:
            return second / first
        return None

    @property
    def other_kind(self) -> tuple[str, tuple[float, float]] | None:
        """A kind of part that only one of the models has, with its shares of the computation in
        both traces; None if there is none.

        Unrecognized computation may belong to that kind, so it counts for the smaller share. If the
        sizes of all matrix products are known, unequal_work decides instead.
        """
        if None not in self.products:
            return None
        shares = [each.shares for each in (self.before, self.after)]
        for kind in KINDS:
            first, second = (sum(share.get(part, 0.0) for part in kind) for share in shares)
            least = min(first + shares[0].get("other", 0.0), second + shares[1].get("other", 0.0))
            if max(first, second) >= PRESENT and least < ABSENT * max(first, second):
                return kind[0], (first, second)
        return None

    @property
    def is_of_hosts(self) -> bool:
        """Whether the GPU waits for most of the step in both traces."""
        return min(self.before.idle, self.after.idle) >= HOST_SHARE

    @property
    def uniform(self) -> float | None:
        """The factor by which all computation takes longer in the second trace, if it is about the
        same for all parts and the GPUs are equal; else None.
        """
        large = []
        for bar in self.bars:
            if bar.part in COMPUTATION and bar.before >= LARGE * self.before.seconds:
                large.append(bar)
        if len(large) < 3 or self.before.gpu != self.after.gpu or self.limits != ("gpu", "gpu"):
            return None
        mean = sum(bar.after for bar in large) / sum(bar.before for bar in large)
        is_one = all(abs(bar.after / bar.before - mean) <= UNIFORM * abs(mean - 1) for bar in large)
        if is_one and abs(mean - 1) >= 0.01:
            return mean
        return None

    @property
    def is_comparable(self) -> bool:
        """Whether both may do the same work, and aren't the same trace."""
        return (
            self.unequal_work is None
            and self.other_kind is None
            and self.before.trace != self.after.trace
        )

    @property
    def first_look(self) -> Bar | None:
        """The part to look at first.

        That is the idle time or communication that limits a step, the slower system's first. If GPU
        work limits both steps, it is the part in which the slower system loses most time; if it
        loses none, the part that differs most. None if there is no such part.
        """
        slower, limit = (1, self.limits[1]) if self.delta >= 0 else (0, self.limits[0])
        for each in (limit, *self.limits):
            if each != "gpu":
                bars = [bar for bar in self.bars if is_limited(bar.part, each)]
                return max(bars, key=lambda bar: bar.after + bar.before, default=None)
        lost = []
        for bar in self.bars:
            if (bar.delta if slower else -bar.delta) > 0:
                lost.append(bar)
        if lost:
            return lost[0]
        if self.bars:
            return self.bars[0]
        return None


def traced(run: Run, name: str) -> Traced | None:
    """Return a run's trace as one of the two to compare; None if the run has none, or if its steps
    take no time, since it is damaged then.
    """
    if run.trace is None or sum(step.seconds for step in run.trace.steps) < SHORTEST_STEP * (
        len(run.trace.steps) or 1
    ):
        return None
    return Traced(name, run.trace, gpus.match(run.gpu_info).gpu, run.num_gpus)


def explain(before: Traced, after: Traced) -> Explanation:
    """Split the difference of two mean step times into parts without overlaps or gaps."""
    parts = mean_parts(before.trace.steps), mean_parts(after.trace.steps)
    names = dict.fromkeys([*parts[0], *parts[1]])
    bars = []
    for part in names:
        bars.append(
            Bar(
                part,
                parts[0].get(part, 0.0),
                parts[1].get(part, 0.0),
                _interval(_by_unit(before.trace.steps, part), _by_unit(after.trace.steps, part)),
                _operators(before.trace.work, after.trace.work, part),
            )
        )
    bars.sort(key=lambda bar: -abs(bar.delta))
    whole = _interval(_by_unit(before.trace.steps), _by_unit(after.trace.steps))
    flops = products.flops_of(before.trace), products.flops_of(after.trace)
    return Explanation(before, after, tuple(bars), whole, flops)


def is_limited(part: str, limit: Limit) -> bool:
    """Return whether a part of the step is, or belongs to, what limits it."""
    if limit == "communication":
        return part.startswith(COMMUNICATION)
    return part == limit


def _by_unit(steps: Sequence[TracedStep], part: str | None = None) -> list[float]:
    """Return the seconds of a part (None: of the whole step) for each step, as the mean over its
    ranks; if there is a single step, for each rank.

    The ranks of a step wait for each other, so they aren't independent values.
    """
    by_step: dict[object, list[float]] = {}
    single = len({step.name for step in steps}) == 1
    for step in steps:
        value = step.seconds
        if part is not None:
            value = step.parts.get(part, 0.0)
        by_step.setdefault(step.rank if single else step.name, []).append(value)
    return [statistics.fmean(values) for values in by_step.values()]


def _interval(before: Sequence[float], after: Sequence[float]) -> Bounds | None:
    difference = intervals.welch(after, before)
    if difference:
        return difference.interval()
    return None


def _operators(
    before: Sequence[TracedWork], after: Sequence[TracedWork], part: str
) -> tuple[Operator, ...]:
    found: dict[
        tuple[str, tuple[tuple[int, ...], ...]], tuple[list[TracedWork], list[TracedWork]]
    ] = {}
    for index, works in enumerate((before, after)):
        for work in works:
            if work.part == part:
                key = (_VENDORS.sub("", work.operator or work.kernel), work.shapes)
                found.setdefault(key, ([], []))[index].append(work)
    operators = []
    for (name, shapes), both in found.items():
        # If its names in the traces differ, the name without the vendor's part is used.
        names = {work.operator or work.kernel for work in (*both[0], *both[1])}
        first = (both[0] or both[1])[0]
        product = products.product_of(first.operator, shapes, first.types)
        one, other = (tuple(sorted(work, key=lambda each: -each.exposed_seconds)) for work in both)
        operators.append(
            Operator(names.pop() if len(names) == 1 else name, shapes, one, other, product)
        )
    return tuple(sorted(operators, key=lambda each: -abs(each.delta)))


def _achieved(
    product: Product | None, work: Sequence[TracedWork], gpu: Gpu | None
) -> Achieved | None:
    """Return the speed of a matrix product; None if it is unknown, or above what the GPU can do."""
    seconds = sum(each.seconds for each in work)
    if product is None or not seconds:
        return None
    calls = products.calls_of(work)
    tflops = product.flops * calls / seconds / 1e12
    terabytes = product.bytes * calls / seconds / 1e12
    peak = None
    if gpu and product.precision != "fp32":
        peak = gpu.peak_tflops(product.precision)
    if gpu and (ceiling := gpu.ceiling_tflops(product.precision)) and peak and tflops > ceiling:
        return None
    return Achieved(
        tflops,
        terabytes,
        tflops / peak if peak else None,
        terabytes / (gpu.bandwidth_gb_per_s / 1e3) if gpu else None,
    )
