"""Plausibility checks: values against the data sheet and the result's other values."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from tprimat.analysis import flops
from tprimat.analysis.summary import Summary
from tprimat.catalog import gpus
from tprimat.checks import explain
from tprimat.checks.finding import Finding
from tprimat.results.run import Run
from tprimat.units import GB, GIB

SAME = 0.01
NEAR = 0.05
"""How far the printed rate may lie from the one that batch, sequence and time give: up to 1 % is
rounding and windows, up to 5 % another window, beyond is another quantity."""

POWER_MARGIN = 1.1
POWER_SECONDS = 10.0
"""A card may exceed its cap for moments; a mean over ten seconds above 1.1 times the cap can't be."""


def findings(run: Run, summary: Summary) -> tuple[Finding, ...]:
    """Return the findings on impossible and implausible values of a run."""
    results = (_against_peak(run, summary), *_memory(run), _power(run), _own_rate(run, summary))
    return tuple(each for each in results if each is not None)


def printed_tokens_per_second(run: Run) -> float | None:
    """Return the tokens/s over all devices that the source itself printed; None where it printed none."""
    total = run.native_metrics.get("tokens_per_second")
    if isinstance(total, (int, float)):
        return float(total)
    per_gpu = run.native_metrics.get("tokens_per_second_per_gpu")
    if isinstance(per_gpu, tuple):
        # The first record holds initialisation, as in every other series.
        known = [rate for rate in per_gpu[1:] if rate]
        per_gpu = statistics.harmonic_mean(known) if known else None
    return per_gpu * run.num_gpus if per_gpu and run.num_gpus else None


def _against_peak(run: Run, summary: Summary) -> Finding | None:
    rate = _fastest(summary)
    shape, _ = flops.model_shape(run)
    length = run.training_config.sequence_length
    gpu = gpus.match(run.gpu_info).gpu
    if rate is None or shape is None or length is None or gpu is None:
        return None
    per_token, full = (flops.flops_per_token(shape, length, causal=causal) for causal in (True, False))
    if per_token is None or full is None:
        return None
    achieved = rate * per_token / 1e12
    precision = run.training_config.precision
    declared = gpu.peak_tflops(precision)
    peaks = {name: peak for name in ("bf16", "fp16", "fp8", "fp4") if (peak := gpu.peak_tflops(name))}
    need = f"{rate:,.1f} tokens/s/GPU are {achieved:,.0f} TFLOP/s per GPU"
    if declared and achieved > declared:
        return Finding(
            "impossible",
            "above-peak",
            f"{need}, {achieved / declared:.0%} of the dense {precision} peak of {gpu.title} ({declared:,.0f} TFLOP/s; "
            f"{rate * full / 1e12 / declared:.0%} when attention is counted in full)",
            explain.above_peak(run, achieved / declared),
        )
    if declared or not peaks:
        return None
    # A precision without a peak in the table is compared with the highest peak of the card.
    highest = max(peaks.values())
    if achieved > highest:
        text = f"{need}, more than {gpu.title} does in any precision ({highest:,.0f} TFLOP/s dense)"
        return Finding("impossible", "above-peak", text, explain.above_peak(run, achieved / highest))
    bf16 = peaks.get("bf16")
    if precision is None and bf16 and achieved > bf16:
        possible = " or ".join(name for name, peak in peaks.items() if peak >= achieved)
        return Finding(
            "unjudged",
            "precision-unstated",
            f"{rate:,.1f} tokens/s/GPU can't be judged: {achieved:,.0f} TFLOP/s per GPU are {achieved / bf16:.0%} of "
            f"{gpu.title}'s dense bf16 peak, possible only in {possible}: state the precision",
            explain.above_peak(run, achieved / bf16),
        )
    return None


def _fastest(summary: Summary) -> float | None:
    """Return the rate of the fastest segment, tokens/s/GPU: none may be above the peak."""
    rates = [summary.performance.tokens_per_second_per_gpu]
    rates += [segment.tokens_per_second_per_gpu for segment in summary.segments]
    return max((rate for rate in rates if rate is not None), default=None)


def _memory(run: Run) -> Iterator[Finding]:
    gpu = gpus.match(run.gpu_info).gpu
    total = run.gpu_info.total_memory_gb or (gpu.memory_gb * GIB / GB if gpu and gpu.memory_gb else None)
    if total is None or run.platform == "cpu":
        return
    for name, value in run.memory_metrics.known().items():
        # Whole-card figures are rounded to two decimals where logs print them.
        if value > total * 1.001:
            text = f"{name} is {value:.2f} GB on a device of {total:.2f} GB"
            unit = f"GiB written as GB: the card's total would be {total * GIB / GB:.2f} GB"
            explanations = (unit,) if value / total < GIB / GB * 1.001 else ()
            yield Finding("impossible", "beyond-memory", text, explanations)


def _power(run: Run) -> Finding | None:
    power = run.energy_metrics.get("mean_power_watts_per_gpu")
    seconds = run.energy_metrics.get("measured_seconds")
    gpu = gpus.match(run.gpu_info).gpu
    cap = run.energy_metrics.get("power_cap_watts") or (gpu.tdp_w if gpu else None)
    if power is None or seconds is None or cap is None or seconds < POWER_SECONDS or power <= POWER_MARGIN * cap:
        return None
    return Finding(
        "impossible",
        "above-power-cap",
        f"a mean power of {power:.0f} W per GPU over {seconds:.0f} s is {power / cap:.2f} times the cap of {cap:.0f} W",
    )


def _own_rate(run: Run, summary: Summary) -> Finding | None:
    """Compare the printed tokens/s with batch × sequence / step time, over every window that it may be of."""
    printed, tokens = printed_tokens_per_second(run), run.tokens_per_step
    if printed is None or tokens is None:
        return None
    times = [time for time in run.step_times if time is not None]
    windows = {
        "the steady steps": summary.performance.avg_step_time_seconds,
        "all steps after the first": statistics.fmean(times[1:]) if len(times) > 1 else None,
        "all steps": statistics.fmean(times) if times else None,
        "the median step": statistics.median(times) if times else None,
    }
    factors = {name: printed * time / tokens for name, time in windows.items() if time}
    if not factors:
        return None
    closest = min(factors, key=lambda name: abs(factors[name] - 1))
    if abs(factors[closest] - 1) > NEAR:
        # Which window the printed rate is of isn't known; one under which it has an explanation is likelier.
        closest = next((name for name in factors if explain.tokens_per_step(run, factors[name])), closest)
    factor = factors[closest]
    if abs(factor - 1) <= SAME:
        return None
    if abs(factor - 1) <= NEAR:
        return Finding(
            "doubtful",
            "own-rate",
            f"the source printed {printed:,.0f} tokens/s, {factor - 1:+.1%} from what batch, sequence and the time of "
            f"{closest} give",
        )
    return Finding(
        "impossible",
        "own-rate",
        f"the printed {printed:,.0f} tokens/s and the step times need {factor:.3f} times the declared "
        f"{run.training_config.global_batch_size} × {run.training_config.sequence_length} tokens per step",
        explain.tokens_per_step(run, factor),
    )
