"""Description of a transformers.Trainer training from its TrainingArguments, model and
optimizer.
"""

from __future__ import annotations

from typing import Any

from tprimat.catalog import shapes
from tprimat.notes import Note, noted
from tprimat.record.describe import (
    of_fp32,
    optimizer_settings,
    parameter_dtypes,
    recomputation,
    undivided,
)
from tprimat.record.options import argument_missing
from tprimat.results.run import ModelConfig, ParallelismConfig, Run, TrainingConfig

NAME = "TrainerBenchmarkCallback"


def sizes_of(args: Any, stated: TrainingConfig) -> TrainingConfig:
    """Return the sizes that the caller states, else those of the TrainingArguments."""
    micro = stated.micro_batch_size or args.per_device_train_batch_size
    whole = stated.global_batch_size or micro * args.world_size * args.gradient_accumulation_steps
    return stated.but(global_batch_size=whole, micro_batch_size=micro)


def describe(
    args: Any, model: Any, optimizer: Any, stated: TrainingConfig, platform: Any, max_steps: int
) -> Run:
    """Return all that can be known of a training before its first step."""
    notes = []
    # Not the stated sizes, so that it is seen if they differ from these.
    sizes = sizes_of(args, TrainingConfig())
    strategy = _strategy(args)
    if stated.sequence_length is None:
        why = "not in TrainingArguments; "
        notes.append(argument_missing("sequence_length", "sequence_length", NAME, why))
    parallelism = undivided(strategy, args.world_size, args.gradient_accumulation_steps)
    shape = (shapes.of_module(model) if model is not None else None) or ModelConfig()
    if (
        getattr(args, "parallelism_config", None) is not None
        or (getattr(model, "tp_size", None) or 1) > 1
    ):
        # Then these processes are no replicas, and what was multiplied above isn't the global
        # batch.
        sizes = sizes.but(global_batch_size=stated.global_batch_size)
        parallelism = ParallelismConfig(
            strategy_name=strategy, gradient_accumulation_steps=args.gradient_accumulation_steps
        )
        notes.append(argument_missing("parallelism", "setup", NAME))
    elif model is not None and strategy in ("single process", "DDP"):
        shape = shapes.with_parameters(shape, model)
    precision, detail = _precision(args, model, platform)
    if precision is None:
        notes.append(Note("precision-unknown", {"why": detail or "nothing says it"}))
    return Run(
        framework="transformers",
        model_config=shape,
        training_config=sizes.but(
            max_steps=max_steps,
            num_gpus=args.world_size,
            precision=precision,
            precision_detail=detail,
            recomputation="full" if args.gradient_checkpointing else recomputation(model),
            seed=args.seed,
        ),
        parallelism_config=parallelism,
        optimizer=optimizer_settings(getattr(optimizer, "optimizer", optimizer)).but(
            schedule=str(getattr(args.lr_scheduler_type, "value", args.lr_scheduler_type)),
            gradient_clipping=float(args.max_grad_norm) if args.max_grad_norm else None,
        ),
        # The Trainer compiles what it has made of the model.
        framework_config={"torch_compile": True} if args.torch_compile else {},
        notes=noted(notes),
    )


def _strategy(args: Any) -> str:
    if getattr(args, "deepspeed", None):
        return "DeepSpeed"
    if getattr(args, "fsdp", None):
        return "FSDP"
    if args.world_size > 1:
        return "DDP"
    return "single process"


def _precision(args: Any, model: Any, platform: Any) -> tuple[str | None, str | None]:
    """Return the precision of the matrix products, in Lightning's words if the meaning is the
    same.
    """
    dtypes = parameter_dtypes(model) if model is not None else []
    whole = dtypes == ["float32"]
    for flag, words in (("bf16", "bf16-mixed"), ("fp16", "16-mixed")):
        if getattr(args, flag, False):
            return flag, words if whole else f"{flag}=True, parameters {', '.join(dtypes)}"
    if whole:
        return of_fp32("32-true", platform)
    true = {"bfloat16": ("bf16", "bf16-true"), "float16": ("fp16", "16-true")}
    if len(dtypes) == 1:
        return true.get(dtypes[0], (None, None))
    return (None, ", ".join(dtypes) or None)
