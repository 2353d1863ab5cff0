"""Systems -> charts: what each one shows, however it is drawn. plot/ draws them with matplotlib,
the HTML page with its script.

A chart names systems, runs and their series; the code that draws it decides how a system looks.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from tprimat import units
from tprimat.analysis import stats
from tprimat.analysis.intervals import between_run_interval
from tprimat.analysis.token_rates import NO_RATE
from tprimat.compare import RunResult, SystemResult
from tprimat.notes.catalogue import words
from tprimat.report import tables
from tprimat.report.rates import (
    RATE,
    STEP_TIME,
    Bounds,
    Systems,
    bounds_of,
    counted_records,
    plus_minus,
    rate_of,
    rate_unit,
)
from tprimat.results.run import sentences
from tprimat.text import counted, join_names

LOG_FROM = 4.0
"""Ratio of the slowest to the fastest run from which on step times are on a logarithmic axis."""

LEAST_SPAN = 0.2
"""Least length of the axis, as a share of the slowest system's step time."""

SHOWN_SHARE = 0.995
"""Share of the steady steps that must fit the scale when outliers would flatten the rest."""

CUT_FROM = 2.0
"""The axis is cut if a step takes more than this multiple of the slowest run's median."""

FOOT, HEAD = 0.12, 0.1
"""Empty space below and above the steps, as a share of the axis."""

LOSS_LOG_FROM = 50.0
"""Ratio of the highest to the lowest loss from which on the axis is logarithmic."""

NOT_MEASURED = "not measured"
EXCLUDED = "excluded (warm-up, profiled steps, steps not in all runs)"


class Series(NamedTuple):
    """A run of a system."""

    system: SystemResult
    result: RunResult


class Line(NamedTuple):
    """The records of a run from index `start` up to `stop`; the averages leave out those that are
    excluded.
    """

    system: SystemResult
    result: RunResult
    start: int
    stop: int
    is_excluded: bool = False


@dataclasses.dataclass(frozen=True)
class LineChart:
    """Lines over steps, tokens or time.

    Attributes:
        xs: the horizontal series; tokens are step number × tokens per step / `scale`.
        ys: the field of Run that is drawn.
        limits: the ends of the vertical axis; None if it shows all values.
        beyond: values above the upper limit.
        floors: the lowest possible losses, from the entropy of the data.
    """

    title: str
    x_title: str
    y_title: str
    xs: Literal["steps", "tokens", "wall"]
    ys: Literal["step_times", "loss_values"]
    lines: tuple[Line, ...]
    scale: float = 1.0
    is_log: bool = False
    limits: tuple[float, float] | None = None
    beyond: tuple[float, ...] = ()
    floors: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True)
class Bar:
    """The value of a system, in the axis' unit; None if there is none, and `text` says why.

    Attributes:
        text: the value with its interval between runs.
        bounds: the interval between runs; None if it is unknown, by one run or by few that differ
            too much.
    """

    system: SystemResult
    value: float | None
    text: str
    bounds: Bounds | None = None


@dataclasses.dataclass(frozen=True)
class BarChart:
    """A bar for each system."""

    title: str
    bars: tuple[Bar, ...]
    is_rate: bool = False


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of memory: its title, the metrics of its average and peak, and the pattern of its
    bars.
    """

    title: str
    average: str | None
    peak: str
    hatch: str


KINDS = (
    Kind("allocated", "avg_memory_allocated_gb", "peak_memory_allocated_gb", ""),
    Kind("reserved", "avg_memory_reserved_gb", "peak_memory_reserved_gb", "////"),
    Kind("in use on the device", None, "peak_memory_device_used_gb", "...."),
    Kind("process", "avg_memory_process_gb", "peak_memory_process_gb", "xxxx"),
)


class MemoryBar(NamedTuple):
    """Memory of one kind of a system, GB; at least one of the two is known."""

    system: SystemResult
    kind: Kind
    average: float | None
    peak: float | None


MEMORY_TITLE = "Memory per GPU or CPU, GB (10⁹ bytes)"


def throughput(systems: Systems) -> BarChart:
    """Return the throughput of each system with its interval."""
    # With several models, some rates may be in samples/s or steps/s.
    mixed = len({system.unit for system in systems}) > 1
    bars = []
    for system in systems:
        text = (
            f"{rate_of(system)}{tables.between(system)}{f' {rate_unit([system])}' if mixed else ''}"
        )
        bars.append(_bar(system, system.value(RATE), text, bounds_of(system)))
    unit = "" if mixed else f", {rate_unit(systems)}"
    return BarChart(f"Throughput{unit} (higher is better)", tuple(bars), is_rate=True)


def average_step_times(systems: Systems) -> BarChart:
    """Return the average step time of each system with its interval, in s or, if all are below one
    second, in ms.
    """
    times = [system.value(STEP_TIME) for system in systems]
    in_ms = max(filter(None, times), default=1.0) < 1
    unit, scale = ("ms", 1e3) if in_ms else ("s", 1.0)
    bars = []
    for system, time in zip(systems, times, strict=True):
        value = scale * (time or 0.0) or None
        means = [run.value(STEP_TIME) for run in system.valid_runs]
        interval = between_run_interval(list(filter(None, means)))
        text = "" if value is None else _step_time(value, unit)
        bounds = None
        if interval is not None:
            bounds = Bounds(scale * interval.low, scale * interval.high)
            low = _step_time(bounds.low, unit)
            high = _step_time(bounds.high, unit)
            text += plus_minus(bounds.low, bounds.high) or f" [{low}–{high}]"
        bars.append(_bar(system, value, text, bounds))
    remark = "lower is better"
    if differing := _differing_work(systems):
        remark = f"not comparable: steps differ in {join_names(differing)}"
    return BarChart(f"Average step time, {unit} ({remark})", tuple(bars))


def _step_time(time: float, unit: str) -> str:
    if unit == "s":
        return f"{time:.3f} s"
    if time < 100:
        return f"{time:.1f} ms"
    return f"{time:.0f} ms"


def _differing_work(systems: Systems) -> list[str]:
    """Return the differences between the steps of systems that trained the same model.

    Steps of different models always differ, so only those of the same model are compared.
    """
    works = defaultdict(list)
    for system in systems:
        if system.value(STEP_TIME) is not None:
            config = system.run.training_config
            work = (config.global_batch_size, config.sequence_length, system.run.num_gpus)
            works[system.run.model].append(work)
    differing = []
    for index, name in enumerate(("batch", "sequence length", "number of GPUs")):
        if any(len({work[index] for work in own}) > 1 for own in works.values()):
            differing.append(name)
    return differing


def _bar(system: SystemResult, value: float | None, text: str, bounds: Bounds | None) -> Bar:
    if value is None or system.exclusion is not None:
        return Bar(system, None, why_no_rate(system))
    return Bar(system, value, text, bounds)


def why_no_rate(system: SystemResult) -> str:
    """Return why a system has no bar."""
    if system.value(STEP_TIME) is None:
        return words(system.why_untimed)
    if system.exclusion is not None:
        return f"excluded: {words(system.exclusion.note)}"
    return next(
        iter(sentences(note for note in system.value_notes if note.code in NO_RATE)), "unknown"
    )


def memory(systems: Systems) -> list[MemoryBar]:
    """Return each kind of memory that a system has a value of."""
    bars = []
    for system in systems:
        for kind in KINDS:
            average = system.value(kind.average) if kind.average else None
            peak = system.value(kind.peak)
            if average is not None or peak is not None:
                bars.append(MemoryBar(system, kind, average, peak))
    return bars


def step_times(runs: Sequence[Series]) -> LineChart | None:
    """Return step time over the steps; None without any. The axis shows the steady steps."""
    results = []
    times = array("d")
    lines: list[Line] = []
    for run in runs:
        measured = [time for time in run.result.run.step_times if time is not None]
        if measured:
            results.append(run.result)
            times.extend(measured)
            lines += _parts(run)
    if not lines:
        return None
    low, high, is_wide = _time_limits(results)
    return LineChart(
        title="Step time over the steps",
        x_title="optimizer step",
        y_title="s per step",
        xs="steps",
        ys="step_times",
        lines=tuple(lines),
        is_log=is_wide,
        limits=(low, high),
        beyond=tuple(time for time in times if time > high),
    )


def _parts(run: Series) -> Iterator[Line]:
    """Yield the lines of a run: its records in turn that count in the averages, and that don't."""
    stop = 0
    for is_counted, records in itertools.groupby(counted_records(run.result)):
        start = stop
        stop += len(list(records))
        if is_counted:
            yield Line(*run, start, stop)
        else:
            # One record of overlap, so that the line has no gap at a cut.
            last = min(stop + 1, len(run.result.run.steps))
            yield Line(*run, max(0, start - 1), last, is_excluded=True)


def _time_limits(results: Sequence[RunResult]) -> tuple[float, float, bool]:
    """Return the ends of an axis of step times, s, and whether it is logarithmic: some run is so
    much slower.

    It shows the steady steps without outliers that flatten the others, and at least LEAST_SPAN:
    noise of one percent must not fill the panel.
    """
    import numpy as np

    # Thousands of runs have millions of times, which take less memory in arrays.
    every = array("d")
    steady = array("d")
    medians = []
    for result in results:
        times = array("d")
        for time, is_counted in zip(result.run.step_times, counted_records(result), strict=False):
            if time is not None:
                every.append(time)
                if is_counted:
                    times.append(time)
        if times:
            steady.extend(times)
            medians.append(stats.median(times))
    ranked = np.sort(steady or every)
    low = float(ranked[0])
    high = float(ranked[-1])
    slowest = max(medians, default=high)
    if high > CUT_FROM * slowest:
        high = max(float(ranked[math.ceil(SHOWN_SHARE * len(ranked)) - 1]), 1.1 * slowest)
    if medians and slowest / min(medians) >= LOG_FROM:
        factor = high / low
        return low / factor**FOOT, high * factor**HEAD, True
    # An axis from 0.99 to 1.01 s shows at least 0.2 × 1.01 s: from 0.9 to 1.1.
    missing = max(0.0, LEAST_SPAN * high - (high - low)) / 2
    low = low - missing
    high = high + missing
    return max(0.0, low - FOOT * (high - low)), high + HEAD * (high - low), False


def loss(runs: Sequence[Series], over: Literal["tokens", "wall"]) -> LineChart | None:
    """Return loss over tokens or training time, with the entropy of the data if it is known; None
    without any.
    """
    lines = []
    values = array("d")
    floors = set()
    most = 0.0
    for system, result in runs:
        run = result.run
        losses = [value for value in run.loss_values if value is not None]
        if losses and why_no_loss(system, over) is None:
            values.extend(losses)
            lines.append(Line(system, result, 0, len(run.steps)))
            most = max(most, run.steps[-1] * (run.tokens_per_step or 0))
            if run.data.entropy:
                floors.add(run.data.entropy)
    if not lines:
        return None
    scale, x_title = _token_scale(most)
    title = "Loss over tokens"
    if over == "wall":
        x_title = "training time (s)"
        title = "Loss over training time"
    return LineChart(
        title=title,
        x_title=x_title,
        y_title="loss, nats/token",
        xs=over,
        ys="loss_values",
        lines=tuple(lines),
        scale=scale,
        is_log=min(values) > 0 and max(values) / min(values) > LOSS_LOG_FROM,
        floors=tuple(sorted(floors)),
    )


def _token_scale(most: float) -> tuple[float, str]:
    """Return the unit of an axis that extends to a number of tokens, and its title: for 3.2e9, 1e9
    and “10⁹ tokens”.
    """
    for scale, word in ((1e12, "10¹²"), (1e9, "10⁹"), (1e6, "10⁶"), (1e3, "10³")):
        if most >= scale:
            return scale, f"{word} tokens"
    return 1.0, "tokens"


def why_no_loss(system: SystemResult, over: Literal["tokens", "wall"]) -> str | None:
    """Return why a system has no line of its loss; None if it has one."""
    losses = itertools.chain(*(result.run.loss_values for result in system.valid_runs))
    if all(loss is None for loss in losses):
        return "no loss was recorded"
    if over == "tokens" and system.run.tokens_per_step is None:
        return "tokens per step are unknown"
    return None


def floor_note(floor: float) -> str:
    """Return a text that explains a dotted line."""
    return f"{floor:.3g} nats/token, data entropy (lowest achievable loss)"


def beyond_note(chart: LineChart) -> str:
    """Return a text on how many values are off the scale; empty if none is."""
    steps = counted(len(chart.beyond), "step")
    if chart.beyond:
        return f"{steps} off scale, up to {units.seconds(max(chart.beyond))}"
    return ""
