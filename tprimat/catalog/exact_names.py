"""What a metric's exact name means: the rows of the table of meanings for names that a program or a
tracker fixes, and that its words alone don't settle.

torchtitan's `wps` is a GPU's, and `throughput` is Megatron's TFLOP/s. A name that no row here has is
decided by its words, see `meanings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Names(NamedTuple):
    """A row: what a program calls a value.

    Attributes:
        source: the program, or who else gives the names.
        kind: name of the value in a record, with its unit and, for a rate, its scope.
        names: in the order in which they count, if a file has several.
    """

    source: str
    kind: str
    names: tuple[str, ...]


LIGHTNING, TRACKERS = "Lightning", "W&B and MLflow"
LIGHTNING_EVENTS = "Lightning's events"
MEGATRON, NEMO, TORCHTITAN, TRANSFORMERS, MAXTEXT = (
    "Megatron", "NeMo", "torchtitan", "Transformers", "MaxText"
)  # fmt: skip
EVENTS = (MEGATRON, NEMO, TORCHTITAN, TRANSFORMERS, MAXTEXT, LIGHTNING_EVENTS)
"""What writes the events of TensorBoard."""

STEPS, CLOCKS = "steps of trackers", "clocks of trackers"
WHOLE_RUN = "whole trainings"
"""What counts steps, when a row was logged, and values of a whole training."""

ROWS = (
    Names(LIGHTNING, "loss", (
        "train_loss_step", "train/loss_step", "loss_step", "reduced_train_loss", "train_loss",
        "train/loss", "loss", "training_loss", "train_loss/step", "train/train_loss",
    )),
    Names(LIGHTNING, "grad_norm", (
        "grad_norm", "train/grad_norm", "grad_2.0_norm_total", "gradient_norm",
    )),
    Names(LIGHTNING, "seconds", ("train_step_timing in s", "step_time", "train/step_time")),
    Names(LIGHTNING, "epoch", ("epoch",)),
    Names(LIGHTNING, "perplexity", ("train_perplexity_step", "train_perplexity", "perplexity")),
    Names(LIGHTNING, "iteration_seconds", ("iter_time",)),
    Names(LIGHTNING, "total_tokens", ("total_tokens",)),
    Names(LIGHTNING, "tokens_per_second_per_gpu", (
        "throughput/device/tokens_per_sec", "device/items_per_sec",
    )),
    Names(LIGHTNING, "tokens_per_second", ("throughput/tokens_per_sec",)),
    Names(LIGHTNING, "samples_per_second", ("throughput/samples_per_sec",)),

    Names(TRACKERS, "loss", ("train/lm_loss",)),
    Names(TRACKERS, "learning_rate", (
        "train/learning_rate", "learning_rate", "lr", "train/lr", "actor/lr",
    )),
    Names(TRACKERS, "grad_norm", ("actor/grad_norm",)),
    Names(TRACKERS, "seconds", ("train/step_time_s",)),
    Names(TRACKERS, "tokens_per_second_per_gpu", ("perf/throughput", "tps_per_gpu")),
    Names(TRACKERS, "tokens_per_second", ("train/tokens_per_second", "tokens_per_second", "tps")),
    Names(TRACKERS, "policy_loss", ("actor/pg_loss", "actor/loss")),
    Names(STEPS, "step", (
        "train/global_step", "trainer/global_step", "global_step", "training/global_step", "Step",
        "_step",
    )),
    Names(CLOCKS, "elapsed_seconds", ("_runtime",)),
    Names(CLOCKS, "stamp", ("_timestamp",)),

    Names(MEGATRON, "loss", ("lm loss",)),
    Names(MEGATRON, "learning_rate", ("learning-rate",)),
    Names(MEGATRON, "grad_norm", ("grad-norm",)),
    Names(MEGATRON, "seconds", ("iteration-time",)),
    Names(MEGATRON, "tflops_per_gpu", ("throughput", "throughput/tflops/device")),
    Names(MEGATRON, "tokens_per_second_per_gpu", ("throughput/tokens/device",)),
    Names(MEGATRON, "loss_scale", ("loss-scale",)),
    Names(MEGATRON, "batch_size", ("batch-size",)),
    Names(MEGATRON, "memory_reserved_bytes", ("mem-reserved-bytes",)),
    Names(MEGATRON, "memory_allocated_bytes", ("mem-allocated-bytes",)),
    Names(MEGATRON, "memory_max_allocated_bytes", ("mem-max-allocated-bytes",)),

    Names(NEMO, "loss", ("reduced_train_loss", "train_loss", "loss")),
    Names(NEMO, "learning_rate", ("lr", "learning_rate")),
    Names(NEMO, "grad_norm", ("grad_norm", "gradient_norm")),
    Names(NEMO, "seconds", ("train_step_timing in s", "train_step_timing")),
    Names(NEMO, "tflops_per_gpu", ("TFLOPS_per_GPU",)),
    Names(NEMO, "tokens_per_second_per_gpu", ("tokens_per_sec_per_gpu",)),
    Names(NEMO, "batch_size", ("global_batch_size",)),
    Names(NEMO, "consumed_samples", ("consumed_samples",)),
    # Until June 2025 NeMo called these two memory_allocated and peak_memory_usage.
    Names(NEMO, "memory_allocated_bytes", ("max_memory_allocated", "memory_allocated")),
    Names(NEMO, "memory_reserved_bytes", ("max_memory_reserved", "peak_memory_usage")),

    Names(TORCHTITAN, "loss", ("loss_metrics/global_avg_loss",)),
    Names(TORCHTITAN, "grad_norm", ("grad_norm",)),
    Names(TORCHTITAN, "learning_rate", ("lr",)),
    Names(TORCHTITAN, "seconds", ("time_metrics/end_to_end(s)",)),
    Names(TORCHTITAN, "tokens_per_second_per_gpu", ("throughput(tps)", "wps")),
    Names(TORCHTITAN, "tflops_per_gpu", ("tflops",)),
    Names(TORCHTITAN, "mfu_percent", ("mfu(%)",)),
    Names(TORCHTITAN, "memory_max_reserved_gib", ("memory/max_reserved(GiB)",)),
    Names(TORCHTITAN, "memory_max_active_gib", ("memory/max_active(GiB)",)),

    Names(TRANSFORMERS, "loss", ("train/loss",)),
    Names(TRANSFORMERS, "learning_rate", ("train/learning_rate",)),
    Names(TRANSFORMERS, "grad_norm", ("train/grad_norm",)),
    Names(TRANSFORMERS, "epoch", ("train/epoch",)),

    Names(MAXTEXT, "loss", ("learning/loss",)),
    Names(MAXTEXT, "learning_rate", ("learning/current_learning_rate",)),
    Names(MAXTEXT, "grad_norm", ("learning/grad_norm",)),
    Names(MAXTEXT, "seconds", ("perf/step_time_seconds",)),
    Names(MAXTEXT, "tokens_per_second_per_gpu", ("perf/per_device_tokens_per_sec",)),
    Names(MAXTEXT, "tflops_per_gpu", ("perf/per_device_tflops_per_sec",)),

    Names(LIGHTNING_EVENTS, "seconds", ("perf/step_time", "perf/time_per_step", "timing_s/step")),
    Names(LIGHTNING_EVENTS, "learning_rate", (
        "lr", "learning_rate", "lr-AdamW", "lr-Adam", "lr-SGD", "lr-AdamW/pg1",
    )),

    Names(WHOLE_RUN, "last_validation_loss", ("val_loss", "lm loss validation")),
    Names(WHOLE_RUN, "train_runtime_seconds", ("train/train_runtime", "train_runtime")),
    Names(WHOLE_RUN, "train_samples_per_second", ("train/train_samples_per_second",)),
    Names(WHOLE_RUN, "train_steps_per_second", ("train/train_steps_per_second",)),
)  # fmt: skip


def names_of(*sources: str) -> Mapping[str, tuple[str, ...]]:
    """Return the names of each kind that these give it, the first one's first."""
    found: dict[str, tuple[str, ...]] = {}
    for source in sources:
        for row in ROWS:
            if row.source == source:
                found[row.kind] = tuple(dict.fromkeys((*found.get(row.kind, ()), *row.names)))
    return found


def rows_of(name: str) -> list[Names]:
    """Return the rows that have a name."""
    return [row for row in ROWS if name in row.names]
