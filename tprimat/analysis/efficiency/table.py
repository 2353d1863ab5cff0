"""The efficiency metrics: each is one function, which computes it, with the row that describes
it.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeVar

from tprimat.analysis import intervals
from tprimat.analysis.efficiency.subject import HIGH_MFU, ROOM_ABOVE, Subject, Value
from tprimat.analysis.metrics import Metric
from tprimat.catalog import models
from tprimat.results.fields import known_values
from tprimat.results.run import Run
from tprimat.units import GB

MILLION = 1e6
BILLION = 1e9
TRILLION = 1e12
HOUR_S = 3600.0
JOULES_PER_KWH = 3.6e6
DAY_S = 86400.0
RECOMPUTED_FORWARD = 4 / 3
"""Full recomputation runs the forward pass a second time: 4 passes' worth instead of 3
(Korthikanti et al. 2022, Reducing Activation Recomputation in Large Transformer Models)."""

_PALM = "Chowdhery et al. 2022, PaLM, appendix B"
_MEGATRON = "Megatron-LM, num_floating_point_operations"

METRICS: list[Metric] = []
"""The rows, in the order in which they are shown."""

_FUNCTIONS: list[Callable[[Subject], Value | None]] = []
_Function = TypeVar("_Function", bound=Callable[[Subject], Value | None])


def _metric(
    title: str, unit: str, better: Literal["higher", "lower"] | None, how: str, reference: str = ""
) -> Callable[[_Function], _Function]:
    """Make a function a metric of its own name; a row without value and reason is omitted."""

    def add(function: _Function) -> _Function:
        METRICS.append(
            Metric(function.__name__.removeprefix("_"), title, unit, better, how, reference)
        )
        _FUNCTIONS.append(function)
        return function

    return add


def values(subject: Subject) -> dict[str, Value]:
    """Return the metrics by the name of the row; a row that wasn't requested is absent."""
    computed = {}
    for metric, function in zip(METRICS, _FUNCTIONS, strict=True):
        computed[metric.name] = function(subject)
    known = {}
    for name, value in computed.items():
        if value is not None and value != Value(None):
            known[name] = value
    return known


def over_runs(figures: Sequence[float | None], floor: float = 0.0) -> Value:
    """Return the geometric mean of the runs' figures, shape (runs,), with its interval; no value if
    a run has none.

    For `floor` see intervals.between_run_interval.
    """
    known = known_values(figures)
    if not known or len(known) < len(figures):
        return Value(None)
    between = intervals.between_run_interval(known, floor)
    # Logarithms would cost a single value its last digit.
    if len(known) == 1:
        middle = known[0]
    else:
        middle = statistics.geometric_mean(known)
    return Value(middle, *((between.low, between.high) if between else (None, None)))


def _measured_epochs(run: Run) -> Iterator[tuple[float, float]]:
    """Yield samples and seconds of each epoch after the warm-up."""
    for epoch in run.epochs:
        samples = epoch.get("samples")
        seconds = epoch.get("wall_time_s")
        if not epoch.get("warmup") and samples and seconds:
            yield samples, seconds


@_metric(
    "Samples per second, all GPUs",
    "samples/s",
    "higher",
    "samples of the measured epochs / their wall time; global_batch_size / mean step time if"
    " samples are compared",
)
def _samples_per_second(subject: Subject) -> Value:
    if subject.samples is not None:
        return subject.samples.scaled(subject.gpus or 1)

    def rate(run: Run) -> float | None:
        # All samples over all time, not the mean of the rates.
        epochs = list(_measured_epochs(run))
        if epochs:
            return sum(samples for samples, _ in epochs) / sum(seconds for _, seconds in epochs)
        return None

    return over_runs([rate(run) for run in subject.runs])


@_metric(
    "Time per epoch", "s", "lower", "mean wall time of the measured epochs that were not cut short"
)
def _seconds_per_epoch(subject: Subject) -> Value:
    def seconds_of(run: Run) -> float | None:
        # The fullest epoch may itself be the only one, cut by a time limit: the result's own figure
        # knows.
        epochs = list(_measured_epochs(run))
        if not epochs or run.native_metrics.get("seconds_per_epoch") is None:
            return None
        fullest = max(samples for samples, _ in epochs)
        return statistics.fmean(seconds for samples, seconds in epochs if samples == fullest)

    return over_runs([seconds_of(run) for run in subject.runs])


@_metric(
    "Model FLOP/s, causal attention",
    "TFLOP/s/GPU",
    "higher",
    "tokens_per_second_per_gpu × FLOPs per token (causal attention) / 10¹²",
    _MEGATRON,
)
def _model_tflops_per_gpu(subject: Subject) -> Value:
    return subject.tflops(causal=True)


@_metric(
    "Achieved, full attention",
    "TFLOP/s/GPU",
    "higher",
    "tokens_per_second_per_gpu × FLOPs per token (full attention) / 10¹²",
    _PALM,
)
def _model_tflops_per_gpu_full(subject: Subject) -> Value:
    return subject.tflops(causal=False).scaled(1)


@_metric(
    "MFU (causal, dense peak)",
    "%",
    "higher",
    "model_tflops_per_gpu / dense peak of the precision used",
    f"{_PALM}; {_MEGATRON}",
)
def _mfu(subject: Subject) -> Value:
    mfu = subject.share_of_peak(subject.tflops(causal=True))
    gpu = subject.device.gpu
    # Some cards run faster than at the clock of their data sheet.
    boost = (gpu.boost if gpu else 1.0) * 100
    if mfu.value is None or mfu.value <= HIGH_MFU:
        return mfu
    if subject.precision == "fp32" and mfu.value > boost:
        return Value(None, reason="above the FP32 peak: only possible in TF32 or BF16")
    doubt = (
        f"above {HIGH_MFU:.0f}%, which hardly any training is: check batch, sequence length, step"
        " times and peak"
    )
    if mfu.value > boost:
        doubt = "above 100%: the peak or the speed is wrong"
    return dataclasses.replace(mfu, reason=f"{mfu.reason}; {doubt}")


@_metric("MFU (full attention)", "%", "higher", "model_tflops_per_gpu_full / dense peak", _PALM)
def _mfu_full(subject: Subject) -> Value:
    return subject.share_of_peak(subject.tflops(causal=False)).scaled(1)


@_metric(
    "HFU (recomputation counted)",
    "%",
    "higher",
    "mfu without recomputation; mfu × 4/3 with full recomputation; nothing if only parts are"
    " recomputed",
    "Korthikanti et al. 2022",
)
def _hfu(subject: Subject) -> Value | None:
    mfu = subject.share_of_peak(subject.tflops(causal=True))
    how = subject.run.training_config.recomputation
    if mfu.value is None:
        return None
    if how == "full" and subject.run.model_config.trainable_parameters:
        return Value(None, reason="some weights are frozen: no closed form")
    if how in ("none", "full"):
        return mfu.scaled(RECOMPUTED_FORWARD if how == "full" else 1)
    if how is None:
        reason = "recomputation is not stated"
    else:
        reason = f"recomputation is {how}: no closed form"
    return Value(None, reason=reason)


@_metric(
    "Share of best published matmul",
    "%",
    "higher",
    "model_tflops_per_gpu / the highest sustained bf16 matrix product measured on the GPU",
    "https://github.com/stas00/ml-engineering, compute/accelerator/README.md, 2026-08-22",
)
def _share_of_sustained(subject: Subject) -> Value | None:
    gpu = subject.device.gpu
    achieved = subject.tflops(causal=True)
    if (
        gpu is None
        or not gpu.sustained_bf16_tflops
        or subject.precision != "bf16"
        or achieved.value is None
    ):
        return None
    return achieved.scaled(
        100 / gpu.sustained_bf16_tflops,
        f"{gpu.sustained_bf16_tflops:g} TFLOP/s measured; the data sheet says"
        f" {gpu.peak_tflops('bf16'):g}",
    )


@_metric(
    "Share of sustained matmul (preflight)",
    "%",
    "higher",
    "model_tflops_per_gpu / sustained matrix product of the precision in the machine's own"
    " preflight",
    "tprimat preflight",
)
def _share_of_preflight(subject: Subject) -> Value | None:
    # Other programs may have slowed one preflight, so use the highest value of all runs.
    sustained = max(
        (run.preflight.matmul_tflops.get(subject.precision or "", 0.0) for run in subject.runs),
        default=0.0,
    )
    achieved = subject.tflops(causal=True)
    if not sustained or achieved.value is None:
        return None
    return achieved.scaled(100 / sustained, f"{sustained:.4g} TFLOP/s sustained in the preflight")


@_metric(
    "Memory used",
    "%",
    None,
    "highest, else average, of what was measured (device, reserved or allocated, as named) /"
    " total_memory_gb",
)
def _memory_used_share(subject: Subject) -> Value:
    total = subject.run.gpu_info.total_memory_gb
    average = subject.run.memory_metrics.avg_memory_allocated_gb
    share = subject.memory(100 / (total or 1))
    if share is None and average is not None and subject.run.platform != "cpu":
        share = Value(
            100 * average / (total or 1), reason="allocated on average; the peak is unknown"
        )
    if share is None:
        return Value(None, reason="no device memory was measured")
    if total:
        return share
    return Value(None, reason="the device's memory is not stated")


@_metric("Memory free", "GB", None, "total_memory_gb − highest memory")
def _memory_headroom_gb(subject: Subject) -> Value | None:
    return subject.memory(1, free=True)


@_metric(
    "Memory per token of the micro-batch",
    "kB",
    "lower",
    "highest memory / (micro_batch_size × sequence_length); weights and optimizer included",
)
def _memory_per_token_kb(subject: Subject) -> Value | None:
    config = subject.run.training_config
    if not config.micro_batch_size or not config.sequence_length:
        return None
    return subject.memory(GB / 1e3 / (config.micro_batch_size * config.sequence_length))


@_metric(
    "Largest micro-batch that fits (lower bound)",
    "sequences",
    None,
    "micro_batch_size × 95% of total_memory_gb / highest memory, rounded down; weights don't grow,"
    " so more fits",
)
def _micro_batch_that_fits(subject: Subject) -> Value | None:
    size = subject.run.training_config.micro_batch_size
    total = subject.run.gpu_info.total_memory_gb
    used = (highest := subject.memory(1)) and highest.value
    if not size or not total or not used:
        return None
    return Value(
        max(size, int(size * ROOM_ABOVE * total / used)), reason=f"from {used:.1f} GB at {size}"
    )


@_metric(
    "Energy per token, measured",
    "J/token",
    "lower",
    "energy_joules / measured_tokens; over runs with valid energy",
)
def _joules_per_token(subject: Subject) -> Value | None:
    joules = subject.joules_per_token
    if not joules:
        run = next((run for run in subject.runs if run.telemetry.energy_code), None)
        why = run and (run.telemetry.energy_reason or run.telemetry.energy_code)
        if why:
            return Value(None, reason=f"energy: {why}")
        return None
    some = ""
    if len(joules) != len(subject.runs):
        some = f"{len(joules)} of {len(subject.runs)} runs"
    covers = next(
        (run.telemetry.energy_covers for run in subject.runs if run.telemetry.energy_covers), None
    )
    return dataclasses.replace(
        over_runs(joules), reason="; ".join(filter(None, (covers, some))) or None
    )


@_metric("Tokens per joule, measured", "tokens/J", "higher", "measured_tokens / energy_joules")
def _tokens_per_joule(subject: Subject) -> Value | None:
    joules = over_runs(subject.joules_per_token)
    if joules.value is None:
        return None
    return joules.inverted(1)


@_metric(
    "Electricity per billion tokens",
    "USD",
    "lower",
    "10⁹ × joules_per_token / 3.6×10⁶ × PUE × price per kWh; for the measured energy only",
)
def _electricity_dollars_per_billion_tokens(subject: Subject) -> Value | None:
    price = subject.options.electricity
    joules = over_runs(subject.joules_per_token)
    if price is None:
        return None
    if joules.value is None:
        return Value(None, reason="no measured energy")
    pue = subject.options.pue
    return joules.scaled(BILLION / JOULES_PER_KWH * price * pue, f"${price:g} per kWh, PUE {pue:g}")


@_metric(
    "Energy per token from TDP (upper bound)",
    "J/token",
    "lower",
    "TDP / tokens_per_second_per_gpu; a bound from the data sheet, not measured",
)
def _tdp_joules_per_token(subject: Subject) -> Value | None:
    if not subject.options.tdp_energy or subject.speed.value is None:
        return None
    gpu = subject.device.gpu
    if gpu is None or gpu.tdp_w is None:
        return Value(None, reason="TDP of this device unknown")
    return subject.speed.inverted(gpu.tdp_w, f"TDP {gpu.tdp_w:g} W; not measured")


@_metric(
    "Tokens per watt-hour",
    "tokens/Wh",
    "higher",
    "3600 / energy per token, measured; with --energy-from-tdp and no measured energy, from TDP"
    " (lower bound)",
)
def _tokens_per_watt_hour(subject: Subject) -> Value | None:
    known = (_joules_per_token(subject), _tdp_joules_per_token(subject))
    energy = next((each for each in known if each is not None and each.value is not None), None)
    return energy and energy.inverted(HOUR_S, energy.reason)


@_metric(
    "Tokens per dollar",
    "tokens/$",
    "higher",
    "tokens_per_second_per_gpu × 3600 / price per GPU-hour",
)
def _tokens_per_dollar(subject: Subject) -> Value | None:
    cost = _dollars_per_billion_tokens(subject)
    return cost and cost.inverted(BILLION)


@_metric(
    "Cost per billion tokens",
    "USD",
    "lower",
    "10⁹ / tokens_per_second_per_gpu / 3600 × price per GPU-hour",
)
def _dollars_per_billion_tokens(subject: Subject) -> Value | None:
    price = subject.options.price
    speed = subject.speed
    if price is None or speed.value is None:
        return None
    return speed.inverted(BILLION / HOUR_S).priced(price)


def _cost_of(seconds: Value, subject: Subject) -> Value | None:
    """Return the cost of a time on all GPUs."""
    price = subject.options.price
    gpus = subject.runs[0].num_gpus
    if price is None or not gpus or seconds.value is None:
        return None
    return seconds.scaled(gpus / HOUR_S).priced(price)


@_metric("Cost per trillion tokens", "USD", "lower", "1000 × dollars_per_billion_tokens")
def _dollars_per_trillion_tokens(subject: Subject) -> Value | None:
    cost = _dollars_per_billion_tokens(subject)
    return cost and cost.scaled(TRILLION / BILLION)


@_metric("Cost per epoch", "$", "lower", "seconds_per_epoch / 3600 × GPUs × price per GPU-hour")
def _dollars_per_epoch(subject: Subject) -> Value | None:
    return _cost_of(_seconds_per_epoch(subject), subject)


@_metric(
    "Cost per million samples",
    "$",
    "lower",
    "10⁶ / samples_per_second / 3600 × GPUs × price per GPU-hour",
)
def _dollars_per_million_samples(subject: Subject) -> Value | None:
    return _cost_of(_samples_per_second(subject).inverted(MILLION), subject)


@_metric("Time per trillion tokens", "h", "lower", "10¹² / tokens_per_second / 3600")
def _hours_per_trillion_tokens(subject: Subject) -> Value:
    return subject.total.inverted(TRILLION / HOUR_S)


@_metric(
    "Time to repeat the original pretraining",
    "days",
    "lower",
    "tokens that the model was pretrained on / tokens_per_second / 86400, at this speed and without"
    " failures",
    "the models' reports, see models.py",
)
def _days_to_pretrain(subject: Subject) -> Value | None:
    if subject.total.value is None:
        return None
    model = models.find(subject.run.model)
    if model is None:
        return Value(None, reason="the model's pretraining is not in the table")
    if subject.run.scale not in (None, "full") or models.denies(
        subject.run.model, subject.run.model_config
    ):
        return Value(None, reason="a scaled-down model is never pretrained")
    if model.pretraining_tokens is None:
        return Value(None, reason=f"number of pretraining tokens of {model.title} not published")
    reason = f"{model.pretraining_tokens / TRILLION:g} × 10¹² tokens"
    return subject.total.inverted(model.pretraining_tokens / DAY_S, reason)
