"""Description of a Lightning training from its configuration: sizes, precision, parallelism,
optimizer.

Nothing here looks at a batch: NeMo's hooks see one micro-batch, or none. Values that the
configuration lacks stay unknown, with the reason. Trainer and module are taken as they come
(Lightning's or NeMo's), so their attributes are asked for and never relied on.
"""

from __future__ import annotations

import math
import os
from typing import Any

from tprimat.catalog import shapes
from tprimat.notes import Note, NoteValue, noted
from tprimat.record.describe import (
    number,
    of_fp32,
    optimizer_settings,
    parameter_dtypes,
    recomputation,
)
from tprimat.record.options import argument_missing, is_count
from tprimat.results.run import (
    Data,
    ModelConfig,
    Optimizer,
    ParallelismConfig,
    Platform,
    Run,
    TrainingConfig,
)
from tprimat.settings.rows import DIVISION

_PRECISIONS = {
    "64-true": "fp64",
    "32-true": "fp32",
    "16-true": "fp16",
    "16-mixed": "fp16",
    "bf16-true": "bf16",
    "bf16-mixed": "bf16",
    "transformer-engine": "fp8",
    "transformer-engine-float16": "fp8",
}
_DTYPES = {"float64": "fp64", "float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
_WHOLE_ON_EACH_RANK = ("SingleDeviceStrategy", "DDPStrategy")
"""Strategies, exactly, under which each process holds the whole model, so that its parameters can
be counted.
"""

_SPLITTING_NO_LAYER = ("SingleDeviceStrategy", "DDPStrategy", "FSDPStrategy", "DeepSpeedStrategy")
"""Strategies, and what derives from them, under which each process computes whole layers on its own
sequences.
"""


def describe(trainer: Any, module: Any, platform: Platform, stated: TrainingConfig) -> Run:
    """Return all that can be known of a training before its first step."""
    notes: list[Note] = []
    sizes, parallelism = _sizes(trainer, _parallelism(trainer), stated, notes)
    precision, detail = _precision(trainer, module, platform, notes)
    seed = os.environ.get("PL_GLOBAL_SEED", "")
    shape = shapes.of_module(module) or ModelConfig()
    if type(trainer.strategy).__name__ in _WHOLE_ON_EACH_RANK:
        shape = shapes.with_parameters(shape, module)
    is_nemo = type(module).__module__.split(".")[0] == "nemo"
    is_mock = "Mock" in type(getattr(trainer, "datamodule", None)).__name__
    return Run(
        framework="nemo" if is_nemo else "lightning",
        model_config=shape,
        training_config=sizes.but(
            max_steps=planned_steps(trainer),
            num_gpus=_count(trainer, "world_size"),
            precision=precision,
            precision_detail=detail,
            recomputation=recomputation(module),
            seed=int(seed) if seed.isdecimal() else None,
        ),
        parallelism_config=parallelism,
        optimizer=_optimizer(trainer),
        data=Data(kind="mock" if is_mock else None),
        notes=noted(notes),
    )


def planned_steps(trainer: Any) -> int | None:
    """Return the optimizer steps that were requested, by max_steps or by the epochs; None if
    neither bounds them.
    """
    steps = _count(trainer, "max_steps")
    epochs = _count(trainer, "max_epochs")
    batches = getattr(trainer, "num_training_batches", None)
    if not steps and epochs and isinstance(batches, int) and batches > 0:
        accumulation = _count(trainer, "accumulate_grad_batches") or 1
        return epochs * -(-batches // accumulation)
    return steps


def _parallelism(trainer: Any) -> ParallelismConfig:
    """Return the parallelism by Megatron's attributes (NeMo's strategy), else by the kind of
    strategy.
    """
    default = None
    if any(kind.__name__ in _SPLITTING_NO_LAYER for kind in type(trainer.strategy).__mro__):
        default = 1
    sizes = {}
    for name in (*DIVISION, "expert_model_parallel_size"):
        sizes[name] = _count(trainer.strategy, name) or default
    world = _count(trainer, "world_size")
    share = math.prod(sizes[name] or 0 for name in DIVISION)
    replicas = None
    if world and share and world % share == 0:
        replicas = world // share
    return ParallelismConfig(
        strategy_name=type(trainer.strategy).__name__,
        data_parallel_size=replicas,
        gradient_accumulation_steps=_count(trainer, "accumulate_grad_batches"),
        **sizes,
    )


def _sizes(
    trainer: Any, parallelism: ParallelismConfig, stated: TrainingConfig, notes: list[Note]
) -> tuple[TrainingConfig, ParallelismConfig]:
    """Return batch and sequence: those that the caller states, else those of the data module or the
    loader.
    """
    data = getattr(trainer, "datamodule", None)
    replicas = parallelism.data_parallel_size
    accumulation = parallelism.gradient_accumulation_steps
    configured = _count(data, "global_batch_size")
    micro = _count(data, "micro_batch_size") or stated.micro_batch_size
    if micro is None and configured is None:
        loader = getattr(trainer, "train_dataloader", None)
        for owner in (loader, getattr(loader, "batch_sampler", None), data):
            micro = micro or _count(owner, "batch_size")
    if configured is not None and micro and replicas and configured % (micro * replicas) == 0:
        # Such a data module's steps are split by its strategy, which the trainer doesn't know.
        accumulation = configured // (micro * replicas)
    if configured is None and micro and replicas and accumulation:
        configured = micro * replicas * accumulation
    whole = stated.global_batch_size or configured
    if stated.global_batch_size and configured and stated.global_batch_size != configured:
        seen = (
            f"the trainer is configured for {configured} (micro-batch {micro} × {replicas} replicas"
            f" × accumulation {accumulation})"
        )
        fields: dict[str, NoteValue] = {"name": "global_batch_size", "seen": seen}
        fields["stated"] = stated.global_batch_size
        notes.append(Note("stated-against-seen", fields))
    names = ("seq_length", "sequence_length", "seq_len")
    length = next((size for name in names if (size := _count(data, name))), stated.sequence_length)
    for name, size in (("global_batch_size", whole), ("sequence_length", length)):
        if size is None:
            why = "neither an argument nor in the trainer's configuration; "
            notes.append(argument_missing(name, name, "BenchmarkCallback", why))
    sizes = TrainingConfig(global_batch_size=whole, micro_batch_size=micro, sequence_length=length)
    return sizes, parallelism.but(gradient_accumulation_steps=accumulation)


def _precision(
    trainer: Any, module: Any, platform: Platform, notes: list[Note]
) -> tuple[str | None, str | None]:
    """Return the precision of the matrix products, and its name in the framework."""
    detail = str(getattr(trainer, "precision", None) or "") or None
    # NeMo's Megatron plug-in keeps fp8 separate from the precision.
    fp8 = getattr(
        getattr(getattr(trainer, "precision_plugin", None), "dtype_config", None), "fp8", None
    )
    if fp8:
        return "fp8", f"{detail}, fp8={fp8}"
    precision = _PRECISIONS.get(detail or "")
    if precision == "fp32":
        dtypes = parameter_dtypes(module)
        if dtypes not in ([], ["float32"]):
            precision = _DTYPES.get(dtypes[0]) if len(dtypes) == 1 else None
            detail = f"{detail}, parameters {', '.join(dtypes)}"
    if precision == "fp32":
        precision, detail = of_fp32(detail, platform)
    if precision is None:
        why = f"the trainer says {detail or 'nothing'}"
        notes.append(Note("precision-unknown", {"why": why}))
    return precision, detail


def _optimizer(trainer: Any) -> Optimizer:
    """Return the settings of the first optimizer; others of a manual optimization are ignored."""
    optimizers = getattr(trainer, "optimizers", None)
    if not optimizers:
        return Optimizer()
    schedules = getattr(trainer, "lr_scheduler_configs", None) or []
    return optimizer_settings(optimizers[0]).but(
        schedule=type(schedules[0].scheduler).__name__ if schedules else "constant",
        gradient_clipping=number(getattr(trainer, "gradient_clip_val", None)),
    )


def _count(owner: Any, name: str) -> int | None:
    """Return an attribute that is a whole number above zero; None for anything else (NeMo has
    "auto", Lightning -1).
    """
    value = getattr(owner, name, None)
    if is_count(value):
        return value
    return None
