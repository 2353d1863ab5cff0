"""The shape of a model, from a training script's configuration objects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tprimat.catalog import models
from tprimat.errors import UsageError
from tprimat.notes import Note
from tprimat.results.fields import FieldValues
from tprimat.results.run import ModelConfig
from tprimat.settings.rows import NEEDED, names

_TRANSFORMERS = {field: name for name, field in names("transformers").items()}
_TRANSFORMERS["tie_word_embeddings"] = "tie_word_embeddings"
_MEGATRON = {
    field: path.rpartition(".")[2]
    for path, field in names("nemo").items()
    if field in ModelConfig.__struct_fields__
}
_GATED = (
    "llama qwen2 qwen3 mistral ministral gemma gemma2 gemma3_text phi3 olmo olmo2 cohere granite"
    " smollm3"
)
"""Model types of transformers that are dense and have three feed-forward matrices in each layer."""

_OF_EXPERTS = (
    "mixtral qwen2_moe qwen3_moe deepseek_v2 deepseek_v3 kimi_k2 gpt_oss qwen3_next qwen3_5_moe"
    " nemotron_h"
)
"""Those with experts whose layers are read here."""

_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "num_moe_experts")

_FURTHER = {
    "experts_per_token": ("num_experts_per_tok",),
    "expert_ffn_hidden_size": ("moe_intermediate_size", "intermediate_size"),
    "shared_expert_ffn_hidden_size": (
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
    ),
    "expert_latent_size": ("moe_latent_size",),
    "num_dense_layers": ("first_k_dense_replace",),
    "query_lora_rank": ("q_lora_rank",),
    "key_value_lora_rank": ("kv_lora_rank",),
    "rope_head_dim": ("qk_rope_head_dim",),
    "value_head_dim": ("v_head_dim",),
    "state_heads": ("mamba_num_heads", "linear_num_value_heads"),
    "state_head_dim": ("mamba_head_dim", "linear_value_head_dim"),
    "state_size": ("ssm_state_size", "linear_key_head_dim"),
    "state_groups": ("n_groups", "linear_num_key_heads"),
    "num_mtp_layers": ("num_nextn_predict_layers",),
}
"""Fields that only models with experts, latent attention or recurrent layers have, and
transformers' names for them.
"""


def model_config_of(config: Any) -> ModelConfig:
    """Return the shape that the argument model_config states: a ModelConfig, a transformers
    configuration, or a dict.

    Raises UsageError for anything else, and for a dict with an unknown field.
    """
    if isinstance(config, ModelConfig):
        return config
    if isinstance(config, Mapping):
        if "num_hidden_layers" in config:
            return _translated(dict(config).get, _TRANSFORMERS, "argument model_config")
        unknown = sorted(set(config) - set(ModelConfig.__struct_fields__))
        if unknown:
            raise _wrong(f"has no field {unknown[0]!r}")
        try:
            return msgspec.convert(dict(config), ModelConfig)
        except msgspec.ValidationError as error:
            raise _wrong(str(error)) from None
    shape = of_config(config)
    if shape is None:
        raise _wrong(f"is a {type(config).__name__}")
    return shape


def of_file(path: str | Path) -> ModelConfig:
    """Return the shape in a file: a configuration of transformers, or fields of a ModelConfig, as
    JSON.

    Raises UsageError for a file that can't be read or states no shape.
    """
    try:
        content = json.loads(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--model-shape {path}: {error}", heading="wrong-usage", hint=_SHAPE_HINT
        ) from None
    # In a model with images, the part that reads text.
    content = content.get("text_config", content) if isinstance(content, dict) else content
    try:
        shape = model_config_of(content)
    except UsageError as error:
        text = str(error).replace("BenchmarkCallback: model_config", f"--model-shape {path}:")
        raise UsageError(text, heading="wrong-usage", hint=_SHAPE_HINT) from None
    return shape.but(source=Path(path).name)


_SHAPE_HINT = (
    "give a config.json of transformers, or the fields of model_config in docs/result-file.md"
)


def of_module(module: Any) -> ModelConfig | None:
    """Return the shape that a module's own configuration states: its `config`, or that of a module
    in it.
    """
    children = module.children() if callable(getattr(module, "children", None)) else ()
    for owner in (module, *children):
        shape = of_config(getattr(owner, "config", None))
        if shape is not None:
            return shape
    return None


def of_config(config: Any) -> ModelConfig | None:
    """Return the shape that a transformers or Megatron configuration states; None for other
    objects.
    """
    if isinstance(getattr(config, "num_hidden_layers", None), int):
        fields = _TRANSFORMERS
    elif isinstance(getattr(config, "num_layers", None), int) and hasattr(
        config, "ffn_hidden_size"
    ):
        fields = _MEGATRON
    else:
        return None
    source = f"{type(config).__module__.split('.')[0]} {type(config).__name__}"
    return _translated(lambda name: getattr(config, name, None), fields, source)


def with_parameters(shape: ModelConfig | None, module: Any) -> ModelConfig:
    """Return a shape with the numbers of a module's parameters; for processes that hold the whole
    model each.
    """
    count = sum(parameter.numel() for parameter in module.parameters())
    frozen = sum(
        parameter.numel() for parameter in module.parameters() if not parameter.requires_grad
    )
    trainable = (count - frozen) or None if frozen else None
    return (shape or ModelConfig()).but(
        num_parameters=count or None, trainable_parameters=trainable
    )


def name_of(shape: ModelConfig, module: Any) -> str:
    """Return a name for a model without one: the full-size model of this very shape, or its
    class.
    """
    model = models.with_shape(shape)
    if model:
        return model.name
    return type(module).__name__


def missing(shape: ModelConfig) -> Note | None:
    """Return a note on why this shape has no FLOPs; None if nothing is missing."""
    unknown = [name for name in NEEDED if getattr(shape, name) is None]
    if not unknown or shape.num_experts is not None:
        return None
    if len(unknown) == len(NEEDED):
        return Note("shape-unknown")
    fields = {"names": " and ".join(unknown), "origin": shape.source or "model_config"}
    return Note("shape-incomplete", fields)


def _translated(value_of: Any, called: Mapping[str, str], source: str) -> ModelConfig:
    fields = {field: _plain(value_of(name)) for field, name in called.items()}
    heads = fields["num_attention_heads"]
    hidden = fields["hidden_size"]
    if fields["head_dim"] is None and heads and hidden and hidden % heads == 0:
        fields["head_dim"] = hidden // heads
    if fields["num_query_groups"] is None:
        # Both kinds of configuration mean by this that each head has its own keys and values.
        fields["num_query_groups"] = heads
    kind = value_of("model_type")
    layers = fields["num_layers"]
    window = _window(value_of("sliding_window") or value_of("window_size"))
    unbounded = _unbounded(value_of, kind, layers or 0)
    if window and value_of("use_sliding_window") is not False and unbounded != layers:
        fields |= {"sliding_window": window, "full_attention_layers": unbounded or 0}
    if kind in _GATED.split():
        fields["gated_ffn"] = True
    elif kind in _OF_EXPERTS.split():
        fields |= _with_experts(value_of, kind)
    # Rather no FLOPs than those of another model: experts, and layers whose matrices or windows
    # aren't known to be alike, are left to the argument model_config.
    elif kind is not None or any((_plain(value_of(name)) or 0) > 1 for name in _EXPERTS):
        fields["ffn_hidden_size"] = None
    if unbounded is None or (unbounded != layers and value_of("layer_types") and not window):
        fields |= {"ffn_hidden_size": None, "expert_ffn_hidden_size": None}
    try:
        return msgspec.convert({**fields, "source": source}, ModelConfig)
    except msgspec.ValidationError as error:
        raise _wrong(str(error)) from None


def _with_experts(value_of: Any, kind: str) -> FieldValues:
    """Return the fields of a model with experts, of one of the types that are known."""
    fields: FieldValues = {}
    for field, called in _FURTHER.items():
        values = [_plain(value_of(name)) for name in called]
        fields[field] = next((value for value in values if value is not None), None)
    counts = [_plain(value_of(name)) for name in _EXPERTS]
    fields["num_experts"] = next(filter(None, counts), None)
    shared = _plain(value_of("n_shared_experts"))
    if shared and fields["shared_expert_ffn_hidden_size"] is None:
        width = shared * (fields["expert_ffn_hidden_size"] or 0)
        fields["shared_expert_ffn_hidden_size"] = width or None
    if isinstance(dense := value_of("mlp_only_layers"), list):
        fields["num_dense_layers"] = len(dense)
    if fields["key_value_lora_rank"] is not None:
        fields |= {"head_dim": _plain(value_of("qk_nope_head_dim")), "num_query_groups": None}
    fields["gated_ffn"] = kind != "nemotron_h"
    types = value_of("layer_types")
    pattern = value_of("hybrid_override_pattern")
    if isinstance(pattern, str):
        fields["layer_pattern"] = pattern
    elif isinstance(types, (list, tuple)) and "linear_attention" in types:
        letters = {"linear_attention": "GE", "full_attention": "*E"}
        fields |= {
            "layer_pattern": "".join(letters.get(name, "?") for name in types),
            "attention_output_gate": True,
        }
    elif fields["state_heads"] is not None or (_plain(value_of("decoder_sparse_step")) or 1) != 1:
        # Layers of several kinds in an order that is not stated.
        fields["expert_ffn_hidden_size"] = None
    return fields


def _unbounded(value_of: Any, kind: Any, layers: int) -> int | None:
    """Return how many layers see the whole sequence if others have a window; None if that is
    unknown.
    """
    if types := value_of("layer_types"):
        if "sliding_attention" not in types:
            return layers
        are_supported = set(types) <= {"full_attention", "sliding_attention", "linear_attention"}
        if are_supported:
            return list(types).count("full_attention")
        return None
    if value_of("use_sliding_window") and (first := value_of("max_window_layers")) is not None:
        # Qwen's layers from this one on have the window.
        if isinstance(first, int):
            return min(first, layers)
        return None
    every = (
        value_of("window_attn_skip_freq")
        or value_of("sliding_window_pattern")
        or (2 if kind == "gemma2" else None)
    )
    if isinstance(every, (list, tuple)):
        return every.count(0)
    if every is None:
        return 0
    if isinstance(every, int):
        return layers // every
    return None


def _window(value: Any) -> int | None:
    """Return the attention window: Transformers has a number, Megatron a pair (left, right), -1 for
    unbounded.
    """
    size = value[0] if isinstance(value, (tuple, list)) and value else value
    if isinstance(size, int) and size > 0:
        return size
    return None


def _plain(value: Any) -> Any:
    if isinstance(value, (bool, int)):
        return value
    return None


def _wrong(what: str) -> UsageError:
    return UsageError(
        f"BenchmarkCallback: model_config {what}",
        heading="benchmark-callback",
        hint=(
            "give a transformers configuration or a dict of"
            f" {', '.join(ModelConfig.__struct_fields__[:8])}, …"
        ),
    )
