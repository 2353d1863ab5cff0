"""The meaning of metrics by their exact names, for names that a program or a tracker defines and
whose words don't say enough.

torchtitan's `wps` is the rate of one GPU, and Megatron's `throughput` is in TFLOP/s. Names that are
in no row here are read by their words, see `meanings`.
"""

from __future__ import annotations

from collections.abc import Mapping

ROWS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "Lightning": {
        "loss": (
            "train_loss_step", "train/loss_step", "loss_step", "reduced_train_loss", "train_loss",
            "train/loss", "loss", "training_loss", "train_loss/step", "train/train_loss",
        ),
        "grad_norm": ("grad_norm", "train/grad_norm", "grad_2.0_norm_total", "gradient_norm"),
        "seconds": ("train_step_timing in s", "step_time", "train/step_time"),
        "epoch": ("epoch",),
        "perplexity": ("train_perplexity_step", "train_perplexity", "perplexity"),
        "iteration_seconds": ("iter_time",),
        "total_tokens": ("total_tokens",),
        "tokens_per_second_per_gpu": ("throughput/device/tokens_per_sec", "device/items_per_sec"),
        "tokens_per_second": ("throughput/tokens_per_sec",),
        "samples_per_second": ("throughput/samples_per_sec",),
    },
    "W&B and MLflow": {
        "loss": ("train/lm_loss",),
        "learning_rate": ("train/learning_rate", "learning_rate", "lr", "train/lr", "actor/lr"),
        "grad_norm": ("actor/grad_norm",),
        "seconds": ("train/step_time_s",),
        "tokens_per_second_per_gpu": ("perf/throughput", "tps_per_gpu"),
        "tokens_per_second": ("train/tokens_per_second", "tokens_per_second", "tps"),
        "policy_loss": ("actor/pg_loss", "actor/loss"),
    },
    "steps of trackers": {
        "step": (
            "train/global_step", "trainer/global_step", "global_step", "training/global_step",
            "Step", "_step",
        ),
    },
    "clocks of trackers": {
        "elapsed_seconds": ("_runtime",),
        "stamp": ("_timestamp",),
    },
    "Megatron": {
        "loss": ("lm loss",),
        "learning_rate": ("learning-rate",),
        "grad_norm": ("grad-norm",),
        "seconds": ("iteration-time",),
        "tflops_per_gpu": ("throughput", "throughput/tflops/device"),
        "tokens_per_second_per_gpu": ("throughput/tokens/device",),
        "loss_scale": ("loss-scale",),
        "batch_size": ("batch-size",),
        "memory_reserved_bytes": ("mem-reserved-bytes",),
        "memory_allocated_bytes": ("mem-allocated-bytes",),
        "memory_max_allocated_bytes": ("mem-max-allocated-bytes",),
    },
    "NeMo": {
        "loss": ("reduced_train_loss", "train_loss", "loss"),
        "learning_rate": ("lr", "learning_rate"),
        "grad_norm": ("grad_norm", "gradient_norm"),
        "seconds": ("train_step_timing in s", "train_step_timing"),
        "tflops_per_gpu": ("TFLOPS_per_GPU",),
        "tokens_per_second_per_gpu": ("tokens_per_sec_per_gpu",),
        "batch_size": ("global_batch_size",),
        "consumed_samples": ("consumed_samples",),
        # Until June 2025 NeMo called these two memory_allocated and peak_memory_usage.
        "memory_allocated_bytes": ("max_memory_allocated", "memory_allocated"),
        "memory_reserved_bytes": ("max_memory_reserved", "peak_memory_usage"),
    },
    "torchtitan": {
        "loss": ("loss_metrics/global_avg_loss",),
        "grad_norm": ("grad_norm",),
        "learning_rate": ("lr",),
        "seconds": ("time_metrics/end_to_end(s)",),
        "tokens_per_second_per_gpu": ("throughput(tps)", "wps"),
        "tflops_per_gpu": ("tflops",),
        "mfu_percent": ("mfu(%)",),
        "memory_max_reserved_gib": ("memory/max_reserved(GiB)",),
        "memory_max_active_gib": ("memory/max_active(GiB)",),
    },
    "Transformers": {
        "loss": ("train/loss",),
        "learning_rate": ("train/learning_rate",),
        "grad_norm": ("train/grad_norm",),
        "epoch": ("train/epoch",),
    },
    "MaxText": {
        "loss": ("learning/loss",),
        "learning_rate": ("learning/current_learning_rate",),
        "grad_norm": ("learning/grad_norm",),
        "seconds": ("perf/step_time_seconds",),
        "tokens_per_second_per_gpu": ("perf/per_device_tokens_per_sec",),
        "tflops_per_gpu": ("perf/per_device_tflops_per_sec",),
    },
    "Lightning's events": {
        "seconds": ("perf/step_time", "perf/time_per_step", "timing_s/step"),
        "learning_rate": ("lr", "learning_rate", "lr-AdamW", "lr-Adam", "lr-SGD", "lr-AdamW/pg1"),
    },
    "whole trainings": {
        "last_validation_loss": ("val_loss", "lm loss validation"),
        "train_runtime_seconds": ("train/train_runtime", "train_runtime"),
        "train_samples_per_second": ("train/train_samples_per_second",),
        "train_steps_per_second": ("train/train_steps_per_second",),
    },
}  # fmt: skip
"""Names by the program that writes them, or by their use, and by the value in a record that they
mean, with its unit and, for a rate, its scope. The first name that a file has counts.
"""

EVENTS = ("Megatron", "NeMo", "torchtitan", "Transformers", "MaxText", "Lightning's events")
"""Programs that write events of TensorBoard."""


def names_of(*sources: str) -> Mapping[str, tuple[str, ...]]:
    """Return the names of each kind of value in these groups of rows, those of the first group
    first.
    """
    found: dict[str, tuple[str, ...]] = {}
    for source in sources:
        for kind, names in ROWS[source].items():
            found[kind] = tuple(dict.fromkeys((*found.get(kind, ()), *names)))
    return found
