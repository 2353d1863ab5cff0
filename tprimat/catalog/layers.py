"""Weights and products of each kind of layer of a model, from which its parameters and its FLOPs
follow.

With hidden size h, n_q query and n_kv key/value heads of size d, feed-forward width f, m = 3
matrices (2 without gate):

    attention, *   2 h d (n_q + n_kv), and h d n_q for an output gate
    latent (MLA)   the projections of its compressions instead
    global, F      h d (2 n_q + n_kv), with heads of its own size, whose values are the keys (Gemma 4)
    dense, -       m h f
    experts, E     m w f_e each, of width w = h or the latent one (with 2 h w around them), m h f_s shared, h E router
    Mamba-2, M     h (2 n d + 2 g s + n) + n d h, with n heads of size d, g groups, state s
    gated delta, G h (2 n d + 2 g s + 2 n) + n d h, with n value heads of size d, g key heads of size s

Not counted: norms, biases, convolutions of a few taps, positions. Sources: Megatron-LM
num_floating_point_operations and its mamba and gated-delta parts; the papers of each kind.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable

from tprimat.results.run import ModelConfig

KINDS = frozenset("*-EMG")
"""Letters of a layer pattern, in the order of the table above; those of Megatron's hybrid patterns,
which have no F.
"""


@dataclasses.dataclass(frozen=True)
class Layers:
    """All layers of one kind.

    Attributes:
        count: how many.
        weights: parameters of one.
        active: multiply-adds of its weights for one token.
        attended: sizes of query/key and value, of all heads together, that meet each token in its
            context; 0 without.
        state: multiply-adds of a recurrent state for one token.
    """

    count: int
    weights: int
    active: int
    attended: int = 0
    state: float = 0.0


def layers(shape: ModelConfig) -> dict[str, Layers] | None:
    """Return the layers of the decoder by kind, a letter of KINDS; None if a part that they need is
    unknown.
    """
    counts = _counts(shape)
    if counts is None or shape.hidden_size is None:
        return None
    try:
        return {
            kind: dataclasses.replace(_OF_KIND[kind](shape, shape.hidden_size), count=count)
            for kind, count in counts.items()
        }
    except _UnknownError:
        return None


def parameters(shape: ModelConfig) -> int | None:
    """Return the parameters of a shape's matrices and embeddings; None if a part is unknown."""
    kinds = layers(shape)
    if (
        kinds is None
        or shape.hidden_size is None
        or shape.vocab_size is None
        or shape.num_encoder_layers is not None
    ):
        return None
    tables = 1 if shape.tie_word_embeddings else 2
    return (
        sum(layer.count * layer.weights for layer in kinds.values())
        + tables * shape.vocab_size * shape.hidden_size
    )


def _counts(shape: ModelConfig) -> dict[str, int] | None:
    if shape.layer_pattern is not None:
        counts = collections.Counter(shape.layer_pattern)
        if set(counts) <= KINDS:
            return dict(counts)
        return None
    if shape.num_layers is None:
        return None
    if shape.num_experts is None:
        dense = shape.num_layers
    else:
        dense = min(shape.num_dense_layers or 0, shape.num_layers)
    whole = min(shape.full_attention_layers or 0, shape.num_layers) if shape.global_head_dim else 0
    numbers = {"*": shape.num_layers - whole, "F": whole, "-": dense, "E": shape.num_layers - dense}
    return {kind: count for kind, count in numbers.items() if count}


class _UnknownError(Exception):
    """A layer's weights don't follow from the known values of a shape."""


def _sizes(shape: ModelConfig, *fields: str) -> list[int]:
    """Return sizes of a shape. Raises _UnknownError if one is unknown."""
    sizes = [getattr(shape, field) for field in fields]
    if None in sizes:
        raise _UnknownError
    return sizes


def _attention(shape: ModelConfig, hidden: int) -> Layers:
    (heads,) = _sizes(shape, "num_attention_heads")
    size = shape.head_dim or hidden // heads
    if shape.key_value_lora_rank is not None:
        return _latent_attention(shape, hidden, heads, size, shape.key_value_lora_rank)
    weights = 2 * hidden * size * (heads + (shape.num_query_groups or heads))
    weights += heads * size * hidden if shape.attention_output_gate else 0
    return Layers(1, weights, weights, 2 * heads * size)


def _global_attention(shape: ModelConfig, hidden: int) -> Layers:
    heads, size, groups = _sizes(
        shape, "num_attention_heads", "global_head_dim", "global_query_groups"
    )
    weights = hidden * size * (2 * heads + groups)
    return Layers(1, weights, weights, 2 * heads * size)


def _latent_attention(shape: ModelConfig, hidden: int, heads: int, size: int, rank: int) -> Layers:
    """Return a layer of latent attention; `size` is the part of a query or key head without rotary
    embedding.
    """
    rotary, value = _sizes(shape, "rope_head_dim", "value_head_dim")
    query = heads * (size + rotary)
    if shape.query_lora_rank is None:
        queries = hidden * query
    else:
        queries = shape.query_lora_rank * (hidden + query)
    weights = (
        queries + hidden * (rank + rotary) + rank * heads * (size + value) + heads * value * hidden
    )
    return Layers(1, weights, weights, heads * (size + rotary + value))


def _dense(shape: ModelConfig, hidden: int) -> Layers:
    (width,) = _sizes(shape, "ffn_hidden_size")
    weights = _matrices(shape) * hidden * width
    return Layers(1, weights, weights)


def _experts(shape: ModelConfig, hidden: int) -> Layers:
    experts, routed, size = _sizes(
        shape, "num_experts", "experts_per_token", "expert_ffn_hidden_size"
    )
    width = shape.expert_latent_size or hidden
    always = hidden * experts + _matrices(shape) * hidden * (
        shape.shared_expert_ffn_hidden_size or 0
    )
    always += 2 * hidden * width if width != hidden else 0
    one = _matrices(shape) * width * size
    return Layers(1, always + experts * one, always + routed * one)


def _recurrent(shape: ModelConfig, hidden: int, gates: int, products: float) -> Layers:
    heads, size, groups, state = _sizes(
        shape, "state_heads", "state_head_dim", "state_groups", "state_size"
    )
    weights = (
        hidden * (2 * heads * size + 2 * groups * state + gates * heads) + heads * size * hidden
    )
    return Layers(1, weights, weights, state=products * heads * size * state)


def _matrices(shape: ModelConfig) -> int:
    if shape.gated_ffn is False:
        return 2
    return 3


_OF_KIND: dict[str, Callable[[ModelConfig, int], Layers]] = {
    "*": _attention,
    "F": _global_attention,
    "-": _dense,
    "E": _experts,
    # Per value of the state: Megatron-LM counts 7 FLOPs of a scan, and 4 products of the delta
    # rule.
    "M": functools.partial(_recurrent, gates=1, products=3.5),
    "G": functools.partial(_recurrent, gates=2, products=4.0),
}
