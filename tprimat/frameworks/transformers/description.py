"""Description of a transformers.Trainer training from its TrainingArguments, model and optimizer."""

from __future__ import annotations

from typing import Any

import msgspec

from tprimat.record import shapes
from tprimat.record.describe import Description, Sizes, of_fp32, optimizer_settings, recomputation
from tprimat.results.run import ModelConfig, ParallelismConfig, TrainingConfig

NAME = "TrainerBenchmarkCallback"


def sizes_of(args: Any, stated: Sizes) -> Sizes:
    """Return the sizes that the caller states, else those of the TrainingArguments."""
    micro = stated.micro_batch_size or args.per_device_train_batch_size
    whole = stated.global_batch_size or micro * args.world_size * args.gradient_accumulation_steps
    return Sizes(whole, micro, stated.sequence_length)


def describe(args: Any, model: Any, optimizer: Any, stated: Sizes, platform: Any, max_steps: int) -> Description:
    """Return all that can be known of a training before its first step."""
    warnings = []
    sizes = sizes_of(args, stated)
    if sizes.sequence_length is None:
        warnings.append(f"sequence_length unknown: no TrainingArguments say it; pass sequence_length= to {NAME}")
    divided = getattr(args, "parallelism_config", None) is not None or (getattr(model, "tp_size", None) or 1) > 1
    if divided:
        # Then these processes are no replicas, and what was multiplied above isn't the global batch.
        sizes = Sizes(stated.global_batch_size, sizes.micro_batch_size, sizes.sequence_length)
        warnings.append(f"how the model is divided is unknown: state it with setup= of {NAME}")
    one = None if divided else 1
    precision, detail = _precision(args, model, platform)
    if precision is None:
        warnings.append(f"precision of the matrix products unknown: {detail or 'nothing says it'}")
    shape = (shapes.of_module(model) if model is not None else None) or ModelConfig()
    strategy = _strategy(args)
    if model is not None and not divided and strategy in ("single process", "DDP"):
        shape = shapes.with_parameters(shape, model)
    inner = getattr(optimizer, "optimizer", optimizer)
    return Description(
        framework="transformers",
        model_config=shape,
        training_config=TrainingConfig(
            max_steps=max_steps,
            global_batch_size=sizes.global_batch_size,
            micro_batch_size=sizes.micro_batch_size,
            sequence_length=sizes.sequence_length,
            num_gpus=args.world_size,
            precision=precision,
            precision_detail=detail,
            recomputation="full" if args.gradient_checkpointing else recomputation(model),
            seed=args.seed,
        ),
        parallelism_config=ParallelismConfig(
            strategy_name=strategy,
            tensor_model_parallel_size=one,
            pipeline_model_parallel_size=one,
            context_parallel_size=one,
            expert_model_parallel_size=one,
            data_parallel_size=None if divided else args.world_size,
            gradient_accumulation_steps=args.gradient_accumulation_steps,
        ),
        optimizer=msgspec.structs.replace(
            optimizer_settings(inner),
            schedule=str(getattr(args.lr_scheduler_type, "value", args.lr_scheduler_type)),
            gradient_clipping=float(args.max_grad_norm) if args.max_grad_norm else None,
        ),
        warnings=tuple(warnings),
    )


def _strategy(args: Any) -> str:
    if getattr(args, "deepspeed", None):
        return "DeepSpeed"
    if getattr(args, "fsdp", None):
        return "FSDP"
    return "DDP" if args.world_size > 1 else "single process"


def _precision(args: Any, model: Any, platform: Any) -> tuple[str | None, str | None]:
    """Return the precision of the matrix products, in Lightning's words where the meaning is the same."""
    parameters = model.parameters() if model is not None else ()
    dtypes = sorted({str(each.dtype).rpartition(".")[2] for each in parameters if each.is_floating_point()})
    whole = dtypes == ["float32"]
    for flag, words in (("bf16", "bf16-mixed"), ("fp16", "16-mixed")):
        if getattr(args, flag, False):
            return flag, words if whole else f"{flag}=True, parameters {', '.join(dtypes)}"
    if whole:
        return of_fp32("32-true", platform)
    true = {"bfloat16": ("bf16", "bf16-true"), "float16": ("fp16", "16-true")}
    return true.get(dtypes[0], (None, None)) if len(dtypes) == 1 else (None, ", ".join(dtypes) or None)
