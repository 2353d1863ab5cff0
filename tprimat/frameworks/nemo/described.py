"""What a Megatron training shows of itself once its model is built, for NeMo and
Megatron-Bridge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tprimat.catalog import models
from tprimat.frameworks import scales
from tprimat.frameworks.loops.recipe import shape_of
from tprimat.frameworks.request import Request
from tprimat.results.run import ModelConfig, Optimizer
from tprimat.settings.rows import SIZES

_COMPARED = (*SIZES, "head_dim", "tie_word_embeddings", "sliding_window")
"""Fields of a ModelConfig that make the shape of a model here."""

_SETTINGS = (
    (
        "apply_rope_fusion", "attention_backend", "bias_activation_fusion", "bias_dropout_fusion", "cp_comm_type",
        "cross_entropy_loss_fusion", "cross_entropy_fusion_impl", "cuda_graph_impl", "enable_cuda_graph", "fp4", "fp8",
        "fp8_recipe",
        "gradient_accumulation_fusion", "masked_softmax_fusion", "overlap_p2p_comm", "persist_layer_norm",
        "recompute_method", "recompute_num_layers", "sequence_parallel", "tp_comm_overlap", "use_te_rng_tracker",
        "use_transformer_engine_op_fuser", "window_size",
    ),
    (
        "average_in_collective", "bucket_size", "check_for_nan_in_grad", "fp8_param_gather", "grad_reduce_in_fp32",
        "overlap_grad_reduce", "overlap_param_gather", "use_distributed_optimizer",
    ),
)  # fmt: skip
"""Fields of Megatron's configurations of the model and of data parallelism that change speed or
memory.
"""


def shape_and_scale(config: ModelConfig, request: Request) -> tuple[ModelConfig, str]:
    """Return the shape that the recorder read, with its number of parameters, and its scale."""
    # There are no sizes if the model never came to be; --set may have changed those of the request.
    requested = shape_of(request)
    if config.num_layers is None or all(
        getattr(config, size) == getattr(requested, size) for size in _COMPARED
    ):
        return requested, request.scale
    is_complete = all(getattr(config, size) is not None for size in SIZES)
    counted = scales.parameters(models.by_name(request.model), config) if is_complete else None
    return config.but(num_parameters=counted), scales.OTHER


def optimizer_of(recorded: Optimizer, config: Any) -> Optimizer:
    """Return the optimizer that the recorder saw, with name and clipping, which only Megatron's own
    configuration states.
    """
    name = getattr(config, "optimizer", None)
    if name is None:
        return recorded
    if name == "adam" and getattr(config, "decoupled_weight_decay", True):
        name = "AdamW"
    clipping = getattr(config, "clip_grad", None)
    return recorded.but(name=name, gradient_clipping=float(clipping) if clipping else None)


def settings_of(
    paths: Sequence[str], owners: Sequence[Any]
) -> Iterator[tuple[str, bool | int | float | str | None]]:
    """Yield the settings of the model's and of data parallelism's configuration, by the paths of
    both.
    """
    for path, owner, names in zip(paths, owners, _SETTINGS, strict=True):
        for name in names:
            if hasattr(owner, name):
                value = getattr(owner, name)
                is_plain = value is None or isinstance(value, (bool, int, float, str))
                yield f"{path}.{name}", value if is_plain else str(value)
