"""The metrics: a row each, and how a run's figures come from its records."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from tprimat.analysis import changepoints as levels
from tprimat.analysis import intervals, stats
from tprimat.catalog import models
from tprimat.results.run import SERIES, ModelConfig, PerformanceMetrics, Run, Steady
from tprimat.units import round_figure

RATE_TOLERANCE = 0.05
"""How far the tokens/s that a source printed may lie from batch × sequence / step time."""


SPIKE_FRACTION = 0.10
SPIKE_SIGMAS = 4.0
"""A record is a spike when it lies above its level's median by both 10 % and four robust sigmas."""


WITHHELD = "no throughput"
"""How a warning begins that says why a rate is withheld."""


EMULATED = "an emulated device trained, whose times mean nothing: there are no speeds to give"


@dataclasses.dataclass(frozen=True)
class Metric:
    """A named quantity.

    Attributes:
        name: the field of PerformanceMetrics or MemoryMetrics that holds it.
        title, unit: what a table shows.
        better: which way is better; None where neither is.
        how: formula, in the words of the result file.
        reference: where the definition comes from; empty for a plain one.
    """

    name: str
    title: str
    unit: str
    better: Literal["higher", "lower"] | None
    how: str
    reference: str = ""


_TORCH = "https://docs.pytorch.org/docs/stable/notes/cuda.html, memory management"

METRICS = (
    Metric(
        "tokens_per_second_per_gpu",
        "Throughput per GPU",
        "tokens/s/GPU",
        "higher",
        "global_batch_size × sequence_length / avg_step_time_seconds / num_gpus",
        "NeMo tokens_per_sec_per_gpu, Primus tokens/s/GPU",
    ),
    Metric(
        "tokens_per_second",
        "Throughput",
        "tokens/s",
        "higher",
        "global_batch_size × sequence_length / avg_step_time_seconds",
    ),
    Metric(
        "avg_step_time_seconds",
        "Step time, mean",
        "s",
        "lower",
        "mean of the steady step_times, each weighted by its window_steps",
        "Megatron-LM, elapsed time per iteration; tokens over total time, so spikes count",
    ),
    Metric("median_step_time_seconds", "Step time, median", "s", "lower", "median of the steady step_times"),
    Metric("min_step_time_seconds", "Step time, lowest", "s", "lower", "least of the steady step_times"),
    Metric("max_step_time_seconds", "Step time, highest", "s", "lower", "largest of the steady step_times"),
    Metric(
        "std_step_time_seconds",
        "Step time, std. deviation",
        "s",
        "lower",
        "sample standard deviation of the steady step_times",
    ),
    Metric("steps_per_second", "Steps", "steps/s", None, "1 / avg_step_time_seconds"),
    Metric("warmup_time_seconds", "Warm-up", "s", "lower", "sum of the step_times before the steady ones"),
    Metric("final_loss", "Loss, last ten steps", "nats/token", None, "mean of the last ten known loss_values"),
    Metric("peak_memory_allocated_gb", "Memory allocated, peak", "GB", None, "torch.cuda.max_memory_allocated", _TORCH),
    Metric("avg_memory_allocated_gb", "Memory allocated, average", "GB", None, "torch.cuda.memory_allocated", _TORCH),
    Metric("peak_memory_reserved_gb", "Memory reserved, peak", "GB", None, "torch.cuda.max_memory_reserved", _TORCH),
    Metric("avg_memory_reserved_gb", "Memory reserved, average", "GB", None, "torch.cuda.memory_reserved", _TORCH),
    Metric(
        "peak_memory_device_used_gb", "Memory in use on the device", "GB", None, "total − free of mem_get_info", _TORCH
    ),
    Metric("peak_memory_process_gb", "Memory of the process, peak", "GB", None, "resident set size"),
    Metric("avg_memory_process_gb", "Memory of the process, average", "GB", None, "resident set size"),
)


def by_name(name: str) -> Metric:
    """The row of a metric. Raises KeyError for a name that no row has."""
    return {metric.name: metric for metric in METRICS}[name]


@dataclasses.dataclass(frozen=True)
class StepRange:
    """A part of a level that drifts.

    Attributes:
        first_step, last_step: numbers of its first and last optimizer step.
        mean: step time, s.
        tokens_per_second_per_gpu: from the mean; None where it is unknown or withheld.
    """

    first_step: int
    last_step: int
    mean: float
    tokens_per_second_per_gpu: float | None


@dataclasses.dataclass(frozen=True)
class SegmentMetrics:
    """The figures of a stretch of one level.

    Attributes:
        first_step, last_step: numbers of its first and last optimizer step.
        mean, median: step time, s; the mean weighted by the steps of each record.
        tokens_per_second_per_gpu: from the mean; None where it is unknown or withheld.
        interval: of the step time within this run, s.
        drift: by how much the quarter medians differ, where that is more than noise; else None.
        spikes: records that lie far above the level.
        spike_share: share of the level's time that they took beyond the median.
        extremes: where it drifts, its slowest and its fastest quarter in order of time; else none.
    """

    first_step: int
    last_step: int
    mean: float
    median: float
    tokens_per_second_per_gpu: float | None
    interval: intervals.Interval | None
    drift: float | None
    spikes: int
    spike_share: float
    extremes: tuple[StepRange, ...] = ()


@dataclasses.dataclass(frozen=True)
class Summary:
    """The figures of a run, and what is to be said of them.

    Attributes:
        steady: which steps the figures are of.
        performance: unrounded.
        warnings: what the reader of the figures must know; each declined figure has its reason.
        levels: one for a run that keeps its level; several, or one with a drift, for a run that
            has no single figure; none where no steady state was found.
    """

    steady: Steady
    performance: PerformanceMetrics
    warnings: tuple[str, ...]
    levels: tuple[SegmentMetrics, ...] = ()

    @property
    def one_level(self) -> bool:
        """Whether one figure describes the steady part of the run."""
        return len(self.levels) == 1 and self.levels[0].drift is None

    @property
    def stretches(self) -> tuple[SegmentMetrics | StepRange, ...]:
        """What has a figure of its own: each level, or of a single one that drifts its extremes."""
        return self.levels[0].extremes or self.levels if len(self.levels) == 1 else self.levels


def summarize(run: Run) -> Summary:
    """The figures of a run, computed from its records alone."""
    profiled = run.profiled_steps
    run = unprofiled(run)
    timed = [index for index, time in enumerate(run.step_times) if time is not None]
    times = [time for time in run.step_times if time is not None]
    windows = [run.window_steps[index] for index in timed]
    if run.environment.emulated:
        empty = PerformanceMetrics(total_steps=_recorded_steps(run), final_loss=_final_loss(run))
        return Summary(Steady(), empty, (EMULATED,))
    if not times:
        empty = PerformanceMetrics(total_steps=_recorded_steps(run), final_loss=_final_loss(run))
        return Summary(Steady(), empty, ("no step time was recorded: there are no speeds to give",))

    warnings = []
    if profiled:
        warnings.append(f"a profiler watched steps {profiled[0]} to {profiled[-1]}: no figure is of them")
    least = stats.minimum_records(windows)
    found = levels.find(times, minimum=least)
    # A run of several levels has no single figure; what older readers take for one is that of the
    # level that the run ended on. Where nothing steady is found, the first step is left out all
    # the same: it holds initialisation on every platform.
    start = found[-1].start if found else min(1, len(times) - 1)
    steady = Steady(
        first_step=run.steps[timed[start]],
        last_step=run.steps[timed[-1]],
        method="last_level" if len(found) > 1 else "tail_reference" if found else "all_after_first",
        found=bool(found),
    )
    if not found:
        why = (
            f"{len(times)} records are too few to find one (it takes {least})"
            if len(times) < least
            else "the step times of the first half never reach the level of the second"
        )
        if len(times) == 1:
            mean = f" is the mean of {windows[0]} steps, and" if windows[0] > 1 else ""
            warnings.append(f"the only record{mean} is all there is: no warm-up can be told from it")
        else:
            warnings.append(f"no steady state: {why}; the figures are of all steps after the first")
    sample = stats.summarize(times[start:], windows[start:])
    assert sample is not None
    rate, refusal = _tokens_per_second(run, sample.mean)
    total_time, gaps = _total_time(run)
    warnings += refusal + gaps
    gpus = run.num_gpus
    performance = PerformanceMetrics(
        total_steps=_recorded_steps(run),
        total_time_seconds=total_time,
        avg_step_time_seconds=sample.mean,
        median_step_time_seconds=sample.median,
        min_step_time_seconds=sample.low,
        max_step_time_seconds=sample.high,
        std_step_time_seconds=sample.std,
        steps_per_second=1 / sample.mean,
        tokens_per_second=rate,
        tokens_per_second_per_gpu=rate / gpus if rate and gpus else None,
        warmup_time_seconds=math.fsum(t * window for t, window in zip(times[:start], windows[:start], strict=True)),
        final_loss=_final_loss(run),
    )
    if rate and not gpus:
        warnings.append("the number of GPUs is unknown: no throughput per GPU")
    figures = _level_figures(run, found, rated=rate is not None)
    warnings += _said_of_levels(figures)
    return Summary(steady, performance, tuple(warnings), figures)


def unprofiled(run: Run) -> Run:
    """The run without the steps that a profiler watched, which slows them."""
    watched = set(run.profiled_steps)
    if not watched.intersection(run.steps):
        return run
    kept = [index for index, step in enumerate(run.steps) if step not in watched]

    def shortened(series: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(series[index] for index in kept)

    native = {
        name: shortened(value) if isinstance(value, tuple) else value for name, value in run.native_metrics.items()
    }
    series = {name: shortened(getattr(run, name)) for name in SERIES}
    return msgspec.structs.replace(run, **series, native_metrics=native, profiled_steps=())


def summarize_segments(run: Run, summary: Summary) -> Summary:
    """The figures over all levels of a run, instead of those of the level that it ended on.

    For one run among several: what it took on the whole is its figure, and the levels stay beside
    it. A run of one level stays as it is.
    """
    if len(summary.levels) < 2:
        return summary
    lengths = [level.last_step - level.first_step + 1 for level in summary.levels]
    mean = sum(level.mean * length for level, length in zip(summary.levels, lengths, strict=True)) / sum(lengths)
    figures, last = summary.performance, summary.levels[-1].mean
    first_step = summary.levels[0].first_step
    before = [
        time * window
        for step, window, time in zip(run.steps, run.window_steps, run.step_times, strict=True)
        if time is not None and step < first_step
    ]
    performance = msgspec.structs.replace(
        figures,
        avg_step_time_seconds=mean,
        steps_per_second=1 / mean,
        tokens_per_second=figures.tokens_per_second and figures.tokens_per_second * last / mean,
        tokens_per_second_per_gpu=(
            figures.tokens_per_second_per_gpu and figures.tokens_per_second_per_gpu * last / mean
        ),
        # These were of the last level alone.
        median_step_time_seconds=None,
        min_step_time_seconds=None,
        max_step_time_seconds=None,
        std_step_time_seconds=None,
        warmup_time_seconds=float(sum(before)),
    )
    steady = msgspec.structs.replace(summary.steady, first_step=first_step, method="all_levels")
    return dataclasses.replace(summary, steady=steady, performance=performance)


def _level_figures(run: Run, found: Sequence[levels.Segment], *, rated: bool) -> tuple[SegmentMetrics, ...]:
    timed = [index for index, time in enumerate(run.step_times) if time is not None]
    times = [time for time in run.step_times if time is not None]
    windows = [run.window_steps[index] for index in timed]
    figures = []
    for level in found:
        stretch = times[level.start : level.stop]
        sample = stats.summarize(stretch, windows[level.start : level.stop])
        assert sample is not None
        limit = level.median + max(SPIKE_FRACTION * level.median, SPIKE_SIGMAS * stats.robust_sigma(stretch))
        spikes = [time for time in stretch if time > limit]
        whole = _stretch(run, timed[level.start : level.stop], rated=rated)
        figures.append(
            SegmentMetrics(
                first_step=whole.first_step,
                last_step=whole.last_step,
                mean=whole.mean,
                median=sample.median,
                tokens_per_second_per_gpu=whole.tokens_per_second_per_gpu,
                interval=intervals.within_run_interval(stretch, steps=windows[level.start : level.stop]),
                drift=level.drift,
                spikes=len(spikes),
                spike_share=(sum(spikes) - len(spikes) * level.median) / sum(stretch),
                extremes=() if level.drift is None else _extremes(run, timed[level.start : level.stop], rated=rated),
            )
        )
    return tuple(figures)


def _stretch(run: Run, indices: Sequence[int], *, rated: bool) -> StepRange:
    sample = stats.summarize(
        [run.step_times[index] or 0.0 for index in indices], [run.window_steps[i] for i in indices]
    )
    assert sample is not None
    tokens, gpus = run.tokens_per_step, run.num_gpus
    rate = tokens / sample.mean / gpus if rated and tokens and gpus else None
    return StepRange(run.steps[indices[0]], run.steps[indices[-1]], sample.mean, rate)


def _extremes(run: Run, indices: Sequence[int], *, rated: bool) -> tuple[StepRange, ...]:
    """The slowest and the fastest quarter of some records, in order of time."""
    edges = [number * len(indices) // 4 for number in range(5)]
    quarters = [_stretch(run, indices[low:high], rated=rated) for low, high in itertools.pairwise(edges)]
    ends = min(quarters, key=lambda each: each.mean), max(quarters, key=lambda each: each.mean)
    return tuple(sorted(ends, key=lambda each: each.first_step))


def _said_of_levels(found: tuple[SegmentMetrics, ...]) -> list[str]:
    said = []
    if len(found) > 1:
        stretches = ", ".join(f"{level.mean:.4g} s in steps {level.first_step} to {level.last_step}" for level in found)
        said.append(f"the step time changes its level: {stretches}; no single figure describes the run")
    said += [
        f"the step time drifts by {level.drift:.1%} between steps {level.first_step} and {level.last_step}"
        for level in found
        if level.drift is not None
    ]
    return said


def model_shape(run: Run) -> tuple[ModelConfig | None, str | None]:
    """The shape that FLOPs are computed from, and what is to be said of it.

    Returns:
        The shape that the result states, and None; or, for a full-size model that is one of ours
        and whose result states no shape, the row's and a sentence that says so; or None and the
        reason.
    """
    if run.model_config.num_layers is not None:
        return run.model_config, None
    known = next((model for model in models.MODELS if model.name == run.model), None)
    if known is None:
        return None, f"the shape of {models.title(run.model)} is not stated: no FLOPs"
    if run.scale not in (None, "full"):
        return None, f"the shape of {known.title} at scale {run.scale} is not stated: no FLOPs"
    return known.shape, f"the result states no model shape; FLOPs are those of {known.title}"


def rounded(performance: PerformanceMetrics) -> PerformanceMetrics:
    """The figures as they are stored."""
    figures = {name: getattr(performance, name) for name in performance.__struct_fields__}
    return msgspec.structs.replace(
        performance,
        **{name: round_figure(value) for name, value in figures.items() if isinstance(value, float)},
    )


def _final_loss(run: Run) -> float | None:
    sample = stats.summarize([loss for loss in run.loss_values if loss is not None][-10:])
    return sample.mean if sample else None


def _recorded_steps(run: Run) -> int:
    """Steps that some record is of: one that stands within another's window counts once."""
    counted, reached = 0, 0
    for step, window in sorted(zip(run.steps, run.window_steps, strict=True), key=lambda record: record[0] - record[1]):
        counted += max(0, step - max(reached, step - window))
        reached = max(reached, step)
    return counted


def _total_time(run: Run) -> tuple[float | None, list[str]]:
    """Wall time of the whole run, or None with the reason."""
    timed = [
        (step, time, window)
        for step, time, window in zip(run.steps, run.step_times, run.window_steps, strict=True)
        if time is not None
    ]
    # A record without a time that stands within the window of one with a time takes nothing away.
    ends = [step for step, _, _ in timed]
    untimed = []
    for step, time in zip(run.steps, run.step_times, strict=True):
        following = bisect.bisect_left(ends, step)
        covered = following < len(ends) and ends[following] - timed[following][2] < step
        if time is None and not covered:
            untimed.append(step)
    if untimed:
        return None, [f"total time unknown: {len(untimed)} of {len(run.steps)} records have no time"]
    for (earlier, _, _), (step, _, window) in itertools.pairwise(timed):
        if step - earlier != window:
            return None, [f"total time unknown: not all steps between {earlier} and {step} are recorded"]
    return math.fsum(time * window for _, time, window in timed), []


def _tokens_per_second(run: Run, step_time: float) -> tuple[float | None, list[str]]:
    """Tokens/s, or None with the reason."""
    tokens = run.tokens_per_step
    if tokens is None:
        unknown = [
            name for name in ("global_batch_size", "sequence_length") if getattr(run.training_config, name) is None
        ]
        return None, [f"{' and '.join(unknown)} unknown: step times only, no throughput in tokens"]
    printed = run.native_metrics.get("tokens_per_second")
    all_after_first = [time for time in run.step_times[1:] if time is not None]
    if isinstance(printed, (int, float)) and all_after_first:
        # Older results print a rate over all steps after the first, so that is what it is held against.
        stated = tokens * len(all_after_first) / sum(all_after_first)
        if abs(printed / stated - 1) > RATE_TOLERANCE:
            return None, [
                f"{WITHHELD}: the source printed {printed:,.0f} tokens/s, which is {printed / stated:.3f} times "
                f"what its batch of {run.training_config.global_batch_size} × {run.training_config.sequence_length} "
                "tokens and its step times give; one of them is wrong"
            ]
    return tokens / step_time, []
