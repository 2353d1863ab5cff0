"""Efficiency of a run: MFU, memory, energy, cost, time to train.

A row each in METRICS (table.py). Every figure is computed for each level of a run, or of several
runs together, with the interval of the speed carried through; what can't be given has its reason.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

from tprimat import units
from tprimat.analysis import flops, intervals
from tprimat.analysis.efficiency import epochs
from tprimat.analysis.efficiency.table import METRICS as METRICS
from tprimat.analysis.efficiency.value import Value as Value
from tprimat.analysis.flops import model_shape
from tprimat.analysis.metrics import Metric
from tprimat.analysis.summary import SegmentMetrics, Summary
from tprimat.catalog import gpus as hardware
from tprimat.catalog import models
from tprimat.catalog.prices import Price
from tprimat.results.run import Run

TRILLION = 1e12
ROOM_BELOW = 0.50
ROOM_ABOVE = 0.95
RECOMPUTED_FORWARD = 4 / 3
"""Full recomputation runs the forward pass a second time: 4 passes' worth instead of 3
(Korthikanti et al. 2022, Reducing Activation Recomputation in Large Transformer Models)."""


@dataclasses.dataclass(frozen=True)
class Options:
    """Values from the user that the result doesn't state.

    Attributes:
        precision: fills in a precision that the result leaves open.
        peak_tflops: dense peak of the device, TFLOP/s, instead of the table's.
        price: USD per GPU-hour.
        tdp_energy: whether to give energy as if the device drew its TDP.
    """

    precision: str | None = None
    peak_tflops: float | None = None
    price: Price | None = None
    tdp_energy: bool = False


@dataclasses.dataclass(frozen=True)
class Efficiency:
    """The values of one segment of a run, or of several runs.

    Attributes:
        steps: which steps they are of, or of how many runs.
        values: by the name of the row; a row that nobody asked for is absent.
        hints: what could be tried.
    """

    steps: str
    values: Mapping[str, Value]
    hints: tuple[str, ...]


def efficiencies(run: Run, summary: Summary, options: Options) -> tuple[Efficiency, ...]:
    """Return the values of a run: one set for each of its segments, or one of all steps after the first."""
    segments = summary.segments or (_unsteady(summary),)
    return tuple(
        _efficiency(run, f"steps {segment.first_step}–{segment.last_step}", _speed(segment), options)
        for segment in segments
        if segment is not None
    )


def of_runs(runs: Sequence[Run], summaries: Sequence[Summary], options: Options) -> tuple[Efficiency, ...]:
    """Return the values of several runs of one setup: of the mean of their speeds, with the interval between runs.

    A single run has the values of its segments, with the intervals within it.
    """
    if len(runs) == 1:
        return efficiencies(runs[0], summaries[0], options)
    rates = [summary.performance.tokens_per_second_per_gpu for summary in summaries]
    known = [rate for rate in rates if rate is not None]
    speed = Value(None)
    if len(known) == len(rates) and known:
        between = intervals.between_run_interval(known)
        low, high = (between.low, between.high) if between else (None, None)
        speed = Value(statistics.fmean(known), low, high)
    # What must fit is the run that took the most memory; energy is that of a run that measured it.
    fullest = max(runs, key=lambda run: ((memory := _memory(run)) and memory[0]) or 0.0)
    whole = _efficiency(fullest, f"{len(runs)} runs", speed, options)
    values = {**whole.values, **epochs.figures(runs, options.price)}
    energies = [value for run in runs if (value := _measured_energy(run)) is not None]
    if energies:
        values["joules_per_token"] = Value(statistics.fmean(energies))
    return (dataclasses.replace(whole, values=values),)


def largest_micro_batch(first: Run, second: Run) -> tuple[int | None, str]:
    """Return the largest micro batch that fits, on the line through two measured ones.

    Returns:
        The micro batch and what it rests on; or None and why it can't be told.
    """
    sizes = first.training_config.micro_batch_size, second.training_config.micro_batch_size
    if None in sizes or sizes[0] == sizes[1]:
        return None, "it takes two runs that differ in the micro batch"
    memory = [_memory(run) for run in (first, second)]
    total = first.gpu_info.total_memory_gb
    if memory[0] is None or memory[1] is None or memory[0][1] != memory[1][1] or total is None:
        return None, "it takes the same kind of memory measured in both runs"
    (low, low_memory), (high, high_memory) = sorted(
        ((size, each[0]) for size, each in zip(sizes, memory, strict=True) if size is not None and each is not None)
    )
    slope = (high_memory - low_memory) / (high - low)
    if slope <= 0:
        return None, "memory doesn't grow with the micro batch in these runs"
    fits = int(low + (total * ROOM_ABOVE - low_memory) / slope)
    return (
        fits,
        f"{low_memory:.1f} GB at {low} and {high_memory:.1f} GB at {high} sequences, up to 95 % of {total:.1f} GB",
    )


def _unsteady(summary: Summary) -> SegmentMetrics | None:
    figures, steady = summary.performance, summary.steady
    if figures.avg_step_time_seconds is None or steady.first_step is None or steady.last_step is None:
        return None
    return SegmentMetrics(
        first_step=steady.first_step,
        last_step=steady.last_step,
        mean=figures.avg_step_time_seconds,
        median=figures.median_step_time_seconds or figures.avg_step_time_seconds,
        tokens_per_second_per_gpu=figures.tokens_per_second_per_gpu,
        interval=None,
        drift=None,
        outliers=0,
        outlier_share=0.0,
    )


def _speed(segment: SegmentMetrics) -> Value:
    rate = segment.tokens_per_second_per_gpu
    return Value(None) if rate is None else Value(rate, *_bounds(rate, segment))


def _efficiency(run: Run, steps: str, speed: Value, options: Options) -> Efficiency:
    values: dict[str, Value] = {}
    if speed.value is None:
        reason = "no throughput: see the warnings"
        values = {name: Value(None, reason=reason) for name in ("model_tflops_per_gpu", "mfu")}
    else:
        values |= _of_compute(run, speed, options)
        values |= _of_money(speed, options)
        values |= _of_time(run, speed)
        values |= _of_energy(run, speed, options)
    values |= epochs.figures([run], options.price)
    values |= _of_memory(run)
    return Efficiency(steps, values, _hints(values))


def _bounds(rate: float, segment: SegmentMetrics) -> tuple[float | None, float | None]:
    """Return the interval of the rate: that of the mean step time, inverted. A median's is of another value."""
    interval = segment.interval
    if interval is None or interval.about != "mean":
        return None, None
    return rate * segment.mean / interval.high, rate * segment.mean / interval.low


def _scaled(speed: Value, factor: float) -> Value:
    value, low, high = (None if each is None else each * factor for each in (speed.value, speed.low, speed.high))
    return Value(value, low, high)


def _inverted(speed: Value, factor: float) -> Value:
    value, low, high = (None if each is None else factor / each for each in (speed.value, speed.high, speed.low))
    return Value(value, low, high)


def _of_compute(run: Run, speed: Value, options: Options) -> dict[str, Value]:
    shape, note = model_shape(run)
    length = run.training_config.sequence_length
    per_token = flops.flops_per_token(shape, length) if shape and length else None
    full = flops.flops_per_token(shape, length, causal=False) if shape and length else None
    if per_token is None or full is None:
        reason = note if shape is None else "the model's shape or the sequence length is not whole: no FLOPs"
        return {name: Value(None, reason=reason) for name in ("model_tflops_per_gpu", "mfu")}
    achieved = dataclasses.replace(_scaled(speed, per_token / 1e12), reason=note)
    values = {"model_tflops_per_gpu": achieved, "model_tflops_per_gpu_full": _scaled(speed, full / 1e12)}
    peak, reason = _peak(run, options)
    if peak is None:
        values["mfu"] = Value(None, reason=reason)
    else:
        mfu = _scaled(achieved, 100 / peak)
        if mfu.value is not None and mfu.value > 100:
            reason = f"{reason}; more than 100 % can't be: the peak or the speed is not what it is called"
        values["mfu"] = dataclasses.replace(mfu, reason=reason)
        values["mfu_full"] = _scaled(values["model_tflops_per_gpu_full"], 100 / peak)
        values["hfu"] = _hfu(run, values["mfu"])
    gpu = hardware.match(run.gpu_info).gpu
    if gpu is not None and gpu.sustained_bf16_tflops and _precision(run, options) == "bf16":
        values["share_of_sustained"] = dataclasses.replace(
            _scaled(achieved, 100 / gpu.sustained_bf16_tflops),
            reason=f"{gpu.sustained_bf16_tflops:g} TFLOP/s measured; the data sheet says {gpu.peak_tflops('bf16'):g}",
        )
    return values


def _precision(run: Run, options: Options) -> str | None:
    return run.training_config.precision or options.precision


def _peak(run: Run, options: Options) -> tuple[float | None, str | None]:
    """Return the dense peak, TFLOP/s, and where it is from; or None and why."""
    if options.peak_tflops is not None:
        return options.peak_tflops, f"peak of {options.peak_tflops:g} TFLOP/s as given on the command line"
    precision = _precision(run, options)
    if precision is None:
        return None, "the precision is not stated: give --precision if you know it"
    match = hardware.match(run.gpu_info)
    if match.gpu is None:
        return None, f"{match.reason}: give --peak-tflops if you know it"
    peak = match.gpu.peak_tflops(precision)
    if peak is None:
        return None, f"no dense {precision} peak is known of {match.gpu.title}: give --peak-tflops if you know it"
    stated = "" if run.training_config.precision else f"precision {precision} as given on the command line; "
    doubt = f"; {match.gpu.doubt}" if match.gpu.doubt else ""
    return peak, f"{stated}dense {precision} peak of {match.gpu.title}: {peak:g} TFLOP/s{doubt}"


def _hfu(run: Run, mfu: Value) -> Value:
    how = run.training_config.recomputation
    if how == "none":
        return dataclasses.replace(mfu, reason=None)
    if how == "full":
        return _scaled(mfu, RECOMPUTED_FORWARD)
    return Value(
        None, reason="recomputation is not stated" if how is None else f"recomputation is {how}: no closed form"
    )


def _of_money(speed: Value, options: Options) -> dict[str, Value]:
    price = options.price
    if price is None or speed.value is None:
        return {}
    low, high = speed.low or speed.value, speed.high or speed.value
    hour = 3600.0
    if low == high and price.low == price.high:
        rate = speed.value * hour / price.low
        return {"tokens_per_dollar": Value(rate), "dollars_per_trillion_tokens": Value(TRILLION / rate)}
    return {
        "tokens_per_dollar": Value(speed.value * hour / price.middle, low * hour / price.high, high * hour / price.low),
        "dollars_per_trillion_tokens": Value(
            TRILLION / speed.value / hour * price.middle,
            TRILLION / high / hour * price.low,
            TRILLION / low / hour * price.high,
        ),
    }


def _of_time(run: Run, speed: Value) -> dict[str, Value]:
    gpus = run.num_gpus
    if not gpus:
        return {}
    total = _scaled(speed, gpus)
    values = {"hours_per_trillion_tokens": _inverted(total, TRILLION / 3600)}
    model = next((model for model in models.MODELS if model.name == run.model), None)
    if model is None or run.scale not in (None, "full"):
        reason = "a scaled-down model is never pretrained" if model else "the model's pretraining is not in the table"
        values["days_to_pretrain"] = Value(None, reason=reason)
    elif model.pretraining_tokens is None:
        values["days_to_pretrain"] = Value(None, reason=f"the makers of {model.title} don't say on how many tokens")
    else:
        days = _inverted(total, model.pretraining_tokens / 86400)
        values["days_to_pretrain"] = dataclasses.replace(
            days, reason=f"{model.pretraining_tokens / TRILLION:g} × 10¹² tokens"
        )
    return values


def _of_energy(run: Run, speed: Value, options: Options) -> dict[str, Value]:
    values = {}
    measured = _measured_energy(run)
    if measured is not None:
        values["joules_per_token"] = Value(measured)
    if options.tdp_energy:
        gpu = hardware.match(run.gpu_info).gpu
        if gpu is None or gpu.tdp_w is None:
            values["tdp_joules_per_token"] = Value(None, reason="no single TDP is known of this device")
        else:
            values["tdp_joules_per_token"] = dataclasses.replace(
                _inverted(speed, gpu.tdp_w), reason=f"TDP {gpu.tdp_w:g} W; nothing was measured"
            )
    return values


def _measured_energy(run: Run) -> float | None:
    """Return J/token; None where it wasn't measured."""
    energy, tokens = run.energy_metrics.get("energy_joules"), run.energy_metrics.get("measured_tokens")
    return energy / tokens if energy and tokens else None


def _memory(run: Run) -> tuple[float, Literal["in use on the device", "reserved", "allocated"]] | None:
    """Return the highest memory of the kind that comes nearest to what the card must hold, GB."""
    memory = run.memory_metrics
    if memory.peak_memory_device_used_gb is not None:
        return memory.peak_memory_device_used_gb, "in use on the device"
    if memory.peak_memory_reserved_gb is not None:
        return memory.peak_memory_reserved_gb, "reserved"
    if memory.peak_memory_allocated_gb is not None:
        return memory.peak_memory_allocated_gb, "allocated"
    return None


def _of_memory(run: Run) -> dict[str, Value]:
    memory, total = _memory(run), run.gpu_info.total_memory_gb
    if memory is None or run.platform == "cpu":
        return {"memory_used_share": Value(None, reason="no device memory was measured")}
    highest, kind = memory
    values = {}
    if total is None:
        values["memory_used_share"] = Value(None, reason="the device's memory is not stated")
    else:
        values["memory_used_share"] = Value(100 * highest / total, reason=f"{kind}, highest")
        values["memory_headroom_gb"] = Value(total - highest, reason=f"{kind}, highest")
    config = run.training_config
    if config.micro_batch_size and config.sequence_length:
        tokens = config.micro_batch_size * config.sequence_length
        values["memory_per_token_kb"] = Value(highest * units.GB / 1e3 / tokens, reason=f"{kind}, highest")
    return values


def _hints(values: Mapping[str, Value]) -> tuple[str, ...]:
    used = values.get("memory_used_share")
    if used is None or used.value is None:
        return ()
    if used.value < 100 * ROOM_BELOW:
        return (f"only {used.value:.0f} % of the memory is used ({used.reason}): a larger micro batch may be faster",)
    if used.value > 100 * ROOM_ABOVE:
        return (
            f"{used.value:.0f} % of the memory is used ({used.reason}): the allocator may have to retry; "
            "a smaller micro batch, or expandable segments, may be faster",
        )
    return ()


def rows(sets: Sequence[Efficiency]) -> list[Metric]:
    """Return the rows that at least one set of values has."""
    return [metric for metric in METRICS if any(metric.name in each.values for each in sets)]
