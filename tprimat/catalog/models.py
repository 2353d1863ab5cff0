"""The models that are trained: a row each. Knows shapes, not frameworks."""

from __future__ import annotations

import dataclasses
import operator
import re

from tprimat.errors import UsageError
from tprimat.results.run import ModelConfig
from tprimat.settings.rows import NEEDED


@dataclasses.dataclass(frozen=True)
class Model:
    """A decoder-only language model.

    Attributes:
        name: what a user types, and the last part of a result's name.
        architecture: class of its configuration in transformers.
        shape: the full-size model.
        settings: further fields of that configuration which change the work or the result.
        patterns: substrings, lower case, by which other tools' names for the full-size model are
            known; the first match over all rows counts.
        nemo_recipe: its recipe in NeMo 2's nemo.collections.llm.
        pretraining_tokens: on how many its makers trained it; None where they don't say.
    """

    name: str
    title: str
    architecture: str
    shape: ModelConfig
    settings: dict[str, object]
    patterns: tuple[str, ...]
    nemo_recipe: str
    pretraining_tokens: float | None = None
    pretraining_source: str | None = None


MODELS = (
    Model(
        name="llama",
        title="Llama 3.1 8B",
        architecture="LlamaConfig",
        shape=ModelConfig(
            num_layers=32,
            hidden_size=4096,
            num_attention_heads=32,
            num_query_groups=8,
            head_dim=128,
            ffn_hidden_size=14336,
            vocab_size=128256,
            tie_word_embeddings=False,
            num_parameters=8_030_261_248,
            source="https://huggingface.co/meta-llama/Llama-3.1-8B/blob/main/config.json",
        ),
        settings={"rope_theta": 500000.0, "rms_norm_eps": 1e-5},
        patterns=("llama3.1_8b", "llama3.1-8b", "llama-3.1-8b", "llama31_8b", "llama3_1_8b", "meta-llama-3.1-8b"),
        nemo_recipe="llama31_8b",
        pretraining_tokens=15e12,
        pretraining_source="https://huggingface.co/meta-llama/Llama-3.1-8B: over 15 trillion tokens",
    ),
    Model(
        name="qwen",
        title="Qwen 2.5 7B",
        architecture="Qwen2Config",
        shape=ModelConfig(
            num_layers=28,
            hidden_size=3584,
            num_attention_heads=28,
            num_query_groups=4,
            head_dim=128,
            ffn_hidden_size=18944,
            vocab_size=152064,
            tie_word_embeddings=False,
            num_parameters=7_615_616_512,
            source="https://huggingface.co/Qwen/Qwen2.5-7B/blob/main/config.json",
        ),
        settings={"rope_theta": 1000000.0, "rms_norm_eps": 1e-6},
        patterns=("qwen2.5_7b", "qwen2.5-7b", "qwen25_7b"),
        nemo_recipe="qwen25_7b",
        pretraining_tokens=18e12,
        pretraining_source="Qwen2.5 Technical Report, arXiv 2412.15115: 18 trillion tokens",
    ),
    Model(
        name="mistral",
        title="Mistral 7B",
        architecture="MistralConfig",
        shape=ModelConfig(
            num_layers=32,
            hidden_size=4096,
            num_attention_heads=32,
            num_query_groups=8,
            head_dim=128,
            ffn_hidden_size=14336,
            vocab_size=32768,
            tie_word_embeddings=False,
            num_parameters=7_248_023_552,
            source="https://huggingface.co/mistralai/Mistral-7B-v0.3/blob/main/config.json",
        ),
        settings={"rope_theta": 1000000.0, "rms_norm_eps": 1e-5, "sliding_window": None},
        patterns=("mistral_7b", "mistral-7b"),
        nemo_recipe="mistral_7b",
    ),
)


def names() -> tuple[str, ...]:
    """Return what a user can type for a model."""
    return tuple(model.name for model in MODELS)


def find(name: str | None) -> Model | None:
    """Return the row of a name in a result, or None."""
    return next((model for model in MODELS if model.name == name), None)


def by_name(name: str) -> Model:
    """Return the row of a name that a user typed. Raises UsageError for one that no row has."""
    if model := find(name.lower()):
        return model
    raise UsageError(f"unknown model {name!r}", hint=f"choose from {', '.join(names())}", heading="unknown-model")


def recognize(text: str) -> Model | None:
    """Return the model that a foreign name, such as an experiment's, means; or None."""
    lowered = text.lower()
    return next((model for model in MODELS if any(pattern in lowered for pattern in model.patterns)), None)


def title(name: str | None) -> str:
    """Return a model's name for people; the name itself for a model without a row."""
    model = find(name)
    return model.title if model else name or "unnamed model"


NAMED_SIZE = 2
"""Times that a model may have more or fewer parameters than its name says, which rounds them."""

_SIZE = re.compile(r"(?:^|[\s_/-])(\d{1,4}(?:\.\d{1,3})?)(b|m)(?![a-z0-9])")


def denies(name: str | None, shape: ModelConfig) -> bool:
    """Return whether a shape is known not to be that of the model that a name means, or of the size that it says."""
    row = find(name) or recognize(name or "")
    count = parameters(shape)
    if row is None:
        size = _SIZE.search((name or "").lower())
        meant = float(size[1]) * (1e9 if size[2] == "b" else 1e6) if size else None
    else:
        meant = row.shape.num_parameters
        for field in NEEDED:
            stated, own = getattr(shape, field), getattr(row.shape, field)
            # Megatron pads vocabularies.
            if stated is not None and abs(stated - own) >= (1024 if field == "vocab_size" else 1):
                return True
    return bool(count and meant and not meant / NAMED_SIZE <= count <= meant * NAMED_SIZE)


def parameters(shape: ModelConfig) -> int | None:
    """Return the parameters of a shape: as stated, else those of its matrices; None where its parts are unknown."""
    layers, hidden, heads, width = shape.num_layers, shape.hidden_size, shape.num_attention_heads, shape.ffn_hidden_size
    other = shape.num_experts or shape.key_value_lora_rank or shape.num_encoder_layers
    if shape.num_parameters or other or not (layers and hidden and heads and width and shape.vocab_size):
        return shape.num_parameters
    attention = 2 * (shape.head_dim or hidden // heads) * (heads + (shape.num_query_groups or heads))
    matrices = 2 if shape.gated_ffn is False else 3
    tables = 1 if shape.tie_word_embeddings else 2
    return layers * hidden * (attention + matrices * width) + tables * shape.vocab_size * hidden


def with_shape(config: ModelConfig) -> Model | None:
    """Return the full-size model with this shape, or None."""
    sizes = operator.attrgetter("num_layers", "hidden_size", "num_attention_heads", "ffn_hidden_size")
    for model in MODELS:
        shape = model.shape
        # torchtitan's logs state the number of parameters alone, to the last one.
        if config.num_parameters == shape.num_parameters is not None and sizes(config) == (None,) * 4:
            return model
        same = sizes(config) == sizes(shape) and config.num_query_groups in (None, shape.num_query_groups)
        # Llama 3.1 8B and Mistral 7B differ in the vocabulary alone. Megatron pads it, so a little more than the
        # row's is the same model.
        if same and config.vocab_size and shape.vocab_size and 0 <= config.vocab_size - shape.vocab_size < 1024:
            return model
    return None
