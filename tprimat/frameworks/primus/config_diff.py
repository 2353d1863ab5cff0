"""Display of a Primus configuration, and its differences from a result."""

from __future__ import annotations

from collections.abc import Iterator

from tprimat.results.run import Run

SHOWN = (
    ("global batch size", "global_batch_size"),
    ("micro batch size", "micro_batch_size"),
    ("sequence length", "seq_length"),
    ("steps", "train_iters"),
    ("tensor parallel", "tensor_model_parallel_size"),
    ("pipeline parallel", "pipeline_model_parallel_size"),
    ("context parallel", "context_parallel_size"),
    ("expert parallel", "expert_model_parallel_size"),
    ("bf16", "bf16"),
    ("fp8", "fp8"),
    ("fp8 recipe", "fp8_recipe"),
    ("recomputation", "recompute_granularity"),
    ("recomputed layers", "recompute_num_layers"),
    ("optimizer", "optimizer"),
    ("learning rate", "lr"),
    ("made-up data", "mock_data"),
    ("tokenizer", "tokenizer_model"),
    ("log level", "stderr_sink_level"),
    ("log interval", "log_interval"),
)
"""What a person asks of a configuration, and Primus' parameter."""

_COMPARED = (
    ("model", "model"),
    ("global batch size", "training_config.global_batch_size"),
    ("micro batch size", "training_config.micro_batch_size"),
    ("sequence length", "training_config.sequence_length"),
    ("GPUs", "training_config.num_gpus"),
    ("precision", "training_config.precision"),
    ("recomputation", "training_config.recomputation"),
    ("tensor parallel", "parallelism_config.tensor_model_parallel_size"),
    ("pipeline parallel", "parallelism_config.pipeline_model_parallel_size"),
    ("context parallel", "parallelism_config.context_parallel_size"),
    ("expert parallel", "parallelism_config.expert_model_parallel_size"),
    ("optimizer", "optimizer.name"),
)


def differences(configured: Run, reference: Run) -> Iterator[tuple[str, object, object]]:
    """Yield what differs, or what the result doesn't state."""
    for label, path in _COMPARED:
        here, there = _at(configured, path), _at(reference, path)
        if path == "training_config.num_gpus":
            there = reference.num_gpus
        is_same = here == there
        if path == "optimizer.name" and here is not None and there is not None:
            is_same = _optimizer(here) == _optimizer(there)
        if not is_same:
            yield label, here, there


def _optimizer(name: object) -> str:
    # Megatron's "adam" is AdamW: its weight decay is decoupled.
    return str(name).lower().replace("adamw", "adam")


def _at(run: Run, path: str) -> object:
    value: object = run
    for name in path.split("."):
        value = getattr(value, name)
    return value
