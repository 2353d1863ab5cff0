"""The models whose shapes are known: a row of models.csv each, and the settings of those that
benchmark.py trains.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import re
from collections.abc import Sequence

from tprimat.catalog import layers
from tprimat.catalog.gpus import read_table
from tprimat.errors import UsageError
from tprimat.results.run import ModelConfig
from tprimat.settings.rows import NEEDED, SHAPE
from tprimat.text import join_names, letters_and_digits, suggestion


@dataclasses.dataclass(frozen=True)
class Model:
    """A decoder-only language model.

    Attributes:
        name: as a user types it; the last part of a result's name.
        other_names: names of the full-size model, separated by blanks, with hyphens between words
            and numbers; see `recognize`.
        shape: the full-size model.
        learned_positions: rows of a table of positions that is trained.
        tower_parameters: parameters of image and audio encoders, not in the shape.
        architecture: class of its configuration in transformers.
        settings: further fields of that configuration which change the work or the result.
        nemo_recipe: its recipe in NeMo 2's nemo.collections.llm.
        pretraining_tokens: tokens on which its makers trained it; None if they don't state it.
    """

    name: str
    title: str
    shape: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    other_names: str = ""
    learned_positions: int = 0
    tower_parameters: int = 0
    architecture: str = ""
    settings: dict[str, object] = dataclasses.field(default_factory=dict)
    nemo_recipe: str = ""
    pretraining_tokens: float | None = None

    @property
    def aliases(self) -> tuple[str, ...]:
        """Names of the full-size model; its own is one unless it is a family's, which means this
        model to us alone.
        """
        return (*(() if self.name in _TRAINED else (self.name,)), *self.other_names.split())

    @property
    def parameters(self) -> int:
        """Its parameters, as published to the last one, else those of its matrices; 0 if its shape
        has no formula.
        """
        tables = self.learned_positions * (self.shape.hidden_size or 0)
        return self.shape.num_parameters or (layers.parameters(self.shape) or -tables) + tables


_TRAINED: dict[str, dict[str, object]] = {
    "llama": {"rope_theta": 500000.0, "rms_norm_eps": 1e-5},
    "qwen": {"rope_theta": 1000000.0, "rms_norm_eps": 1e-6},
    "mistral": {"rope_theta": 1000000.0, "rms_norm_eps": 1e-5, "sliding_window": None},
}
"""The models that benchmark.py trains, the first rows of models.csv, with their settings."""


@functools.cache
def models() -> tuple[Model, ...]:
    """Return all rows, those that benchmark.py trains first."""
    rows = zip(read_table("models.csv", Model), read_table("models.csv", ModelConfig), strict=True)
    return tuple(
        dataclasses.replace(row, shape=shape, settings=_TRAINED.get(row.name, {}))
        for row, shape in rows
    )


def trained() -> tuple[Model, ...]:
    """Return the models that benchmark.py trains."""
    return models()[: len(_TRAINED)]


def names() -> tuple[str, ...]:
    """Return the names of the models that benchmark.py trains."""
    return tuple(_TRAINED)


def find(name: str | None) -> Model | None:
    """Return the row of a name in a result, or None; an alias without further words is such a name,
    too.
    """
    lowered = (name or "").lower()
    for model in models():
        if model.name == lowered:
            return model
    return next((model for pattern, model in _patterns() if pattern.fullmatch(lowered)), None)


def named(name: str | None) -> Model | None:
    """Return the model that a name in a result or a foreign one means; or None."""
    return find(name) or recognize(name or "")


def by_name(name: str) -> Model:
    """Return the row of a model to train, by the user's name for it. Raises UsageError if no row
    has it.
    """
    model = find(name)
    if model is not None and model.name in _TRAINED:
        return model
    hint = suggested(name, names(), f"choose from {', '.join(names())}")
    raise UsageError(f"unknown model {name!r}", hint=hint, heading="unknown-model")


def trained_name(text: str) -> str:
    """Return the name of the model that a user typed, such as llama for Llama-3.1-8B; else the text
    in lower case.
    """
    row = find(text.strip())
    if row:
        return row.name
    return text.strip().lower()


def suggested(name: str, known: Sequence[str], otherwise: str) -> str:
    """Return which of the known names may be meant by one that isn't known; another text if none
    may be.

    Those that begin with it come first: by llama2 llama-2-7b, llama-2-13b or llama-2-70b is meant.
    """
    key = letters_and_digits(name)
    longer = [other for other in known if letters_and_digits(other).startswith(key)]
    if longer:
        return f"did you mean {join_names(longer, word='or')}?"
    for family in known:
        # llama2 is no misspelt llama.
        if family in _TRAINED and key.startswith(family):
            return f"{otherwise}; {family} is {title(family)}"
    return suggestion(key, known, otherwise)


def advice(name: str) -> str:
    """Return advice on a name that no model has; an empty text for one that a model has."""
    if named(name):
        return ""
    # The first alias of llama is llama-3.1-8b.
    return suggested(name, [model.aliases[0] for model in models()], "")


def of_family(name: str | None) -> tuple[str, ...]:
    """Return the models of a family such as llama, the one that is trained here first; none for
    another name.
    """
    for own in trained():
        if own.name == (name or "").lower():
            others = (model.name for model in models() if model.name.startswith(f"{own.name}-"))
            return (own.aliases[0], *others)
    return ()


def recognize(text: str) -> Model | None:
    """Return the model that a foreign name, such as an experiment's, means by its longest alias; or
    None.

    Case and the signs between words and numbers don't count, nor does the point of a version:
    llama-3.1-8b is Llama31_8B and, as NeMo's class, Llama31Config8B. One with another size, version
    or number of layers means none.
    """
    lowered = text.lower().replace("config", "-")
    for pattern, model in _patterns():
        alias = pattern.search(lowered)
        if alias is None:
            continue
        after = lowered[alias.end() :]
        if stated_size(alias[0]) is None:
            size = stated_size(f"{lowered[: alias.start()]} {after}")
            if _VERSION.match(after) or not (size is None or _fits(size, model.parameters)):
                return None
        for part in _PART.finditer(lowered):
            if part[1] != str(model.shape.num_layers):
                return None
        return model
    return None


_VERSION = re.compile(r"[._]\d(?![a-z0-9])")
_PART = re.compile(r"debug_?model|(?<![a-z0-9])(\d{1,4})[ _-]?layers?(?![a-z])")
"""The end of another version's name, as in kimi_k2_5; what names a model with only some of the
layers.
"""


@functools.cache
def _patterns() -> tuple[tuple[re.Pattern[str], Model], ...]:
    """Return a pattern for each alias, the longest first."""
    pairs = [(alias, model) for model in models() for alias in model.aliases]
    pairs.sort(key=lambda pair: -len(pair[0]))
    return tuple((_pattern(alias), model) for alias, model in pairs)


def _pattern(alias: str) -> re.Pattern[str]:
    # The point of a size is needed: gpt3_13b is not GPT-3 1.3B.
    version = re.sub(r"\.(?=\d+(?:-|$))", "[._]?", re.sub(r"(?<=[a-z])(?=\d)", "-", alias))
    words = re.sub(r"(?<![\[])\.(?!_)", "[._]", version).replace("-", "[-_ /]?")
    return re.compile(rf"(?<![a-z0-9.]){words}(?![a-z0-9]|\.\d)")


def title(name: str | None) -> str:
    """Return a model's name for people; the name itself for a model without a row."""
    model = find(name)
    if model:
        return model.title
    return name or "unnamed model"


NAMED_SIZE = 2
"""Factor by which a model may have more or fewer parameters than its name, which rounds them."""

_SIZE = re.compile(r"(?:^|[\s_/-])(\d{1,4}(?:\.\d{1,3})?)(b|m)(\d?)(?![a-z0-9])")


def _fits(size: float, count: float) -> bool:
    """Return whether a model with this number of parameters may be called by a size: 7B for 3.5 to
    14 billion.
    """
    return count / NAMED_SIZE <= size <= count * NAMED_SIZE


def denies(name: str | None, shape: ModelConfig) -> bool:
    """Return whether a shape is known not to be that of the model that a name means, or of the size
    in the name.
    """
    row = named(name)
    count = parameters(shape)
    meant = stated_size(name or "") if row is None else row.parameters
    if row is not None:
        for field in NEEDED:
            stated = getattr(shape, field)
            own = getattr(row.shape, field)
            # Megatron pads vocabularies.
            leeway = 1024 if field == "vocab_size" else 1
            if stated is not None and own and abs(stated - own) >= leeway:
                return True
    return bool(count and meant and not _fits(meant, count))


def stated_size(text: str) -> float | None:
    """Return the parameters that a name states, as in 8B, 7b1 or 350m, or None."""
    size = _SIZE.search(text.lower())
    if size:
        return float(f"{size[1]}{size[3] and '.'}{size[3]}") * (1e9 if size[2] == "b" else 1e6)
    return None


def parameters(shape: ModelConfig) -> int | None:
    """Return the parameters of a shape: as stated, else those of its matrices; None if its parts
    are unknown.
    """
    return shape.num_parameters or layers.parameters(shape)


_STATED = ("num_layers", "hidden_size", "num_attention_heads", "ffn_hidden_size")
_KINDS = (
    "num_experts",
    "experts_per_token",
    "expert_ffn_hidden_size",
    "key_value_lora_rank",
    "layer_pattern",
)
_REST = tuple(
    name
    for name in SHAPE
    if name not in (*_STATED, *_KINDS, "vocab_size", "sliding_window", "full_attention_layers")
)
"""Parts that a source has to state, parts of other kinds of layers, and parts that it may leave
out.
"""


def with_shape(config: ModelConfig) -> Model | None:
    """Return the full-size model with this shape, or None."""
    kinds = operator.attrgetter(*_KINDS)
    for model in models():
        shape = model.shape
        # torchtitan's logs state the number of parameters alone, to the last one.
        if config.num_parameters == shape.num_parameters is not None and not any(
            getattr(config, n) for n in _STATED
        ):
            return model
        same = kinds(config) == kinds(shape) and all(
            getattr(config, name) == value
            for name in _STATED
            # Whose layers all have experts may state a width that no layer has.
            if (value := getattr(shape, name)) is not None
        )
        same = same and all(
            None in (pair := (getattr(config, name), getattr(shape, name))) or pair[0] == pair[1]
            for name in _REST
        )
        # Llama 3.1 8B and Mistral 7B differ in the vocabulary alone. Megatron pads it, so a little
        # more than the row's is the same model.
        if (
            same
            and config.vocab_size
            and shape.vocab_size
            and 0 <= config.vocab_size - shape.vocab_size < 1024
        ):
            return model
    return None
