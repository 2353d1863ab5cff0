"""Ways in which others count the FLOPs of a token: what a printed TFLOP/s means, and which formula
explains it.

Each returns the FLOPs of forward and backward per token from the shape and the sequence length.
Some are choices, such as full attention; some are mistakes that were seen in formulas of
publishers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from tprimat.analysis.flops import ADAPTERS, flops_per_token
from tprimat.catalog import models
from tprimat.results.run import ModelConfig

TOLERANCE = 0.05
EXACT = 0.01
"""Relative distance up to which a printed figure follows a formula: with rounding and parts that
one of them omits, and without.
"""

RECOMPUTED = 4 / 3
"""FLOPs with a second forward pass over those without."""


PerToken = Callable[[ModelConfig, int], float | None]
"""FLOPs per token of a shape and a sequence length; None if they are unknown or don't apply."""


@dataclasses.dataclass(frozen=True)
class Convention:
    """A way of counting.

    Attributes:
        name: the part that it counts, a noun phrase.
        per_token: how it counts.
        is_mistake: whether its shape isn't the model's, so that it can't be intended.
    """

    name: str
    per_token: PerToken
    is_mistake: bool = False


def _full_attention(shape: ModelConfig, length: int) -> float | None:
    whole = shape.but(sliding_window=None)
    if length:
        return flops_per_token(whole, length, causal=False)
    return None


def _no_window(shape: ModelConfig, length: int) -> float | None:
    whole = shape.but(sliding_window=None)
    if (shape.sliding_window or length) < length:
        return flops_per_token(whole, length)
    return None


def _palm(shape: ModelConfig, length: int) -> float | None:
    whole = _full_attention(shape, length)
    weights = flops_per_token(shape, 0)
    count = models.parameters(shape)
    if count and whole and weights:
        return 6.0 * count + whole - weights
    return None


def _six_n(shape: ModelConfig, _: int) -> float | None:
    count = models.parameters(shape)
    if count:
        return 6.0 * count
    return None


def _recomputed(per_token: PerToken) -> PerToken:
    def counted(shape: ModelConfig, length: int) -> float | None:
        found = per_token(shape, length)
        return found and found * RECOMPUTED

    return counted


def _mamba_width(shape: ModelConfig, length: int) -> float | None:
    hidden = shape.hidden_size
    heads = shape.state_heads
    size = shape.state_head_dim
    if (
        "M" not in (shape.layer_pattern or "")
        or not hidden
        or not heads
        or not size
        or heads * size == 2 * hidden
    ):
        return None
    return flops_per_token(shape.but(state_heads=2 * hidden // size), length)


def _delta_as_attention(shape: ModelConfig, length: int) -> float | None:
    if "G" not in (pattern := shape.layer_pattern or ""):
        return None
    return flops_per_token(shape.but(layer_pattern=pattern.replace("G", "*")), length)


def _two_matrices(shape: ModelConfig, length: int) -> float | None:
    ungated = shape.but(gated_ffn=False, sliding_window=None)
    if shape.gated_ffn is False:
        return None
    return flops_per_token(ungated, length)


def _head_size(shape: ModelConfig, length: int) -> float | None:
    hidden = shape.hidden_size
    heads = shape.num_attention_heads
    size = shape.head_dim
    if (
        not hidden
        or not heads
        or size in (None, hidden // heads)
        or shape.key_value_lora_rank is not None
    ):
        return None
    return flops_per_token(shape.but(head_dim=hidden // heads), length)


VOCABULARY = 32_000


def _small_vocabulary(shape: ModelConfig, length: int) -> float | None:
    small = shape.but(vocab_size=VOCABULARY)
    if (shape.vocab_size or 0) > 2 * VOCABULARY:
        return flops_per_token(small, length)
    return None


def _further_tokens(per_token: PerToken, shape: ModelConfig, length: int) -> float:
    """Return the FLOPs per token of the layers for multi-token prediction; 0 without any.

    Each has an attention layer, an expert or dense layer, a projection of two embeddings and a
    head.
    """
    hidden = shape.hidden_size
    vocabulary = shape.vocab_size
    count = shape.num_mtp_layers or 0
    experts = "E" if shape.num_experts else "-"
    pattern = shape.layer_pattern and shape.layer_pattern + count * f"*{experts}"
    deeper = shape.but(
        layer_pattern=pattern,
        num_layers=(shape.num_layers or 0) + count,
        num_parameters=None,
    )
    more = per_token(deeper, length)
    own = per_token(shape, length)
    if not count or not hidden or not vocabulary or more is None or own is None:
        return 0.0
    return more - own + 6.0 * count * (2 * hidden * hidden + hidden * vocabulary)


OWN = Convention("causal attention", flops_per_token)
FULL = Convention("full attention, without the causal half", _full_attention)
CONVENTIONS = (
    OWN,
    FULL,
    Convention("causal attention without the windows", _no_window),
    Convention("PaLM's formula: 6 FLOPs for every parameter, and full attention", _palm),
    Convention("6 FLOPs for every parameter, no attention", _six_n),
    Convention("recomputed activations counted as model FLOPs", _recomputed(flops_per_token)),
    Convention(
        "full attention, and recomputed activations counted as model FLOPs",
        _recomputed(_full_attention),
    ),
    Convention("Mamba layers of width 2 x hidden size", _mamba_width, is_mistake=True),
    Convention("gated delta layers as attention", _delta_as_attention, is_mistake=True),
    Convention(
        "gated feed-forward layers as two matrices instead of three", _two_matrices, is_mistake=True
    ),
    Convention("heads of size hidden / heads", _head_size, is_mistake=True),
    Convention("a vocabulary of 32,000", _small_vocabulary),
)
"""The model's own first, then in the order in which they are met."""
PACKED = Convention(
    "the attention of short packed sequences", lambda shape, _: flops_per_token(shape, 0)
)


@dataclasses.dataclass(frozen=True)
class Match:
    """A convention and a figure.

    Attributes:
        per_token: FLOPs per token by the convention.
        deviation: relative deviation of the printed value from it.
        further: whether the layers for multi-token prediction are counted.
        trains_all: whether frozen weights are counted as trained ones.
    """

    convention: Convention
    per_token: float
    deviation: float
    further: bool = False
    trains_all: bool = False

    @property
    def name(self) -> str:
        """What is counted."""
        further = ""
        if self.further:
            further = ", with multi-token prediction"
        return (
            ("LoRA as full training, " if self.trains_all else "") + self.convention.name + further
        )

    @property
    def is_usual(self) -> bool:
        """Whether it is the count of analysis/flops.py, or that with less attention."""
        return self.convention in (OWN, PACKED) and not self.further and not self.trains_all

    @property
    def is_mistake(self) -> bool:
        """Whether it can't be intended."""
        return self.convention.is_mistake or self.trains_all


def adapted(shape: ModelConfig) -> ModelConfig:
    """Return a shape of which only adapters of an unstated size are trained."""
    return shape.but(trainable_parameters=shape.trainable_parameters or ADAPTERS)


def matches(per_token: float, shape: ModelConfig, length: int) -> list[Match]:
    """Return every convention that applies to a shape, the nearest to a number of FLOPs per token
    first.
    """
    found = list(_matches(per_token, shape, length))
    if shape.trainable_parameters is not None:
        whole = _matches(per_token, shape.but(trainable_parameters=None), length)
        for match in whole:
            found.append(dataclasses.replace(match, trains_all=True))
    return sorted(found, key=lambda match: abs(match.deviation))


def explanations(
    per_token: float,
    shape: ModelConfig,
    length: int,
    *,
    packed: bool = False,
    tolerance: float = TOLERANCE,
) -> list[Match]:
    """Return the conventions that explain FLOPs per token, the likeliest first: the model's own if
    it does, else the nearest.

    If packed, the attention may be that of shorter sequences that share a length; another
    convention is then as near as EXACT.
    """
    found = matches(per_token, shape, length)
    close = []
    for match in found:
        if abs(match.deviation) <= (EXACT if packed else tolerance):
            close.append(match)
    close.sort(key=lambda match: match.convention is not OWN or match.trains_all)
    for trains_all in (False, True) if packed else ():
        whole = shape
        if trains_all:
            whole = shape.but(trainable_parameters=None)
        weights = flops_per_token(whole, 0)
        counted = (FULL if trains_all or close == [] else OWN,)
        most = []
        for each in found:
            if each.convention in counted and each.trains_all is trains_all:
                most.append(each.per_token)
        # Full attention of shorter sequences is below that of a long one.
        above = tolerance
        if close == [] and not trains_all:
            above = EXACT
        if weights and most and weights * (1 - tolerance) <= per_token <= max(most) * (1 + above):
            return [Match(PACKED, weights, per_token / weights - 1, trains_all=trains_all), *close]
    return close


def _matches(per_token: float, shape: ModelConfig, length: int) -> Iterator[Match]:
    for convention in CONVENTIONS:
        if counted := convention.per_token(shape, length):
            yield Match(convention, counted, per_token / counted - 1)
            if more := _further_tokens(convention.per_token, shape, length):
                yield Match(
                    convention, counted + more, per_token / (counted + more) - 1, further=True
                )
