"""The metrics, a row each; summary.py computes them from a run's records."""

from __future__ import annotations

import dataclasses
from typing import Literal


@dataclasses.dataclass(frozen=True)
class Metric:
    """A named quantity.

    Attributes:
        name: the field of PerformanceMetrics or MemoryMetrics that holds it.
        title, unit: those in a table.
        better: which way is better; None if neither is.
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
        "global_batch_size × sequence_length / avg_step_time_seconds / num_gpus; without these as"
        " printed by the source",
        "NeMo tokens_per_sec_per_gpu, Primus tokens/s/GPU",
    ),
    Metric(
        "tokens_per_second",
        "Throughput",
        "tokens/s",
        "higher",
        "global_batch_size × sequence_length / avg_step_time_seconds; without these as printed by"
        " the source",
    ),
    Metric(
        "avg_step_time_seconds",
        "Step time, mean",
        "s",
        "lower",
        "mean of the steady-state step_times, each weighted by its window_steps",
        "Megatron-LM, elapsed time per iteration; total time over all steps, so outliers count",
    ),
    Metric(
        "median_step_time_seconds",
        "Step time, median",
        "s",
        "lower",
        "median of the steady-state step_times",
    ),
    Metric(
        "min_step_time_seconds",
        "Step time, lowest",
        "s",
        "lower",
        "minimum of the steady-state step_times",
    ),
    Metric(
        "max_step_time_seconds",
        "Step time, highest",
        "s",
        "lower",
        "largest of the steady-state step_times",
    ),
    Metric(
        "std_step_time_seconds",
        "Step time, std. deviation",
        "s",
        "lower",
        "sample standard deviation of the steady-state step_times",
    ),
    Metric("steps_per_second", "Steps per second", "steps/s", None, "1 / avg_step_time_seconds"),
    Metric(
        "warmup_time_seconds",
        "Warm-up time",
        "s",
        "lower",
        "sum of the step_times before the steady state",
    ),
    Metric(
        "final_loss",
        "Loss at the end",
        "nats/token",
        None,
        "mean of the last ten loss_values, a quarter at most",
    ),
    Metric(
        "peak_memory_allocated_gb",
        "Memory allocated, peak",
        "GB",
        None,
        "torch.cuda.max_memory_allocated",
        _TORCH,
    ),
    Metric(
        "avg_memory_allocated_gb",
        "Memory allocated, average",
        "GB",
        None,
        "torch.cuda.memory_allocated",
        _TORCH,
    ),
    Metric(
        "peak_memory_reserved_gb",
        "Memory reserved, peak",
        "GB",
        None,
        "torch.cuda.max_memory_reserved",
        _TORCH,
    ),
    Metric(
        "avg_memory_reserved_gb",
        "Memory reserved, average",
        "GB",
        None,
        "torch.cuda.memory_reserved",
        _TORCH,
    ),
    Metric(
        "peak_memory_device_used_gb",
        "Device memory used (driver)",
        "GB",
        None,
        "total − free of mem_get_info",
        _TORCH,
    ),
    Metric("peak_memory_process_gb", "Process memory (RSS), peak", "GB", None, "resident set size"),
    Metric(
        "avg_memory_process_gb", "Process memory (RSS), average", "GB", None, "resident set size"
    ),
)


def by_name(name: str) -> Metric:
    """Return the row of a metric. Raise KeyError for a name that no row has."""
    return {metric.name: metric for metric in METRICS}[name]
