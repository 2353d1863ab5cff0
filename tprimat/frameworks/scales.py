"""The sizes at which a model is trained: a row each. Knows shapes and memory, not frameworks.

Every scale keeps the ratios that give an architecture its character: query heads per key/value
head, feed-forward size, vocabulary and attention width per hidden size; and SwiGLU, biases and tied
weights, which are no sizes. What each doesn't keep is in its row.

Each division is exact for every model in models.py: 16 divides all widths and vocabularies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tprimat.catalog.models import Model
from tprimat.errors import UsageError
from tprimat.results.run import ModelConfig
from tprimat.settings.rows import SIZES
from tprimat.text import suggestion

FULL = "full"
OTHER = "other"
"""The scale of a matched result's shape that no row gives."""

BYTES_PER_PARAMETER = 16
"""fp32 weights and gradients and AdamW's two fp32 states; bf16-mixed keeps all four in fp32 too."""

SPARE = 0.2
"""Share of a device's memory that is left to activations, logits and the allocator."""

LEAST_SPARE = 0.1
"""What is enough of it if activations are recomputed if need be. Those of Llama at scale 1b, 2048
tokens, take 4.3 GB (autograd's saved tensors counted on a CPU), so a card of 24 GB recomputes them.
"""


@dataclasses.dataclass(frozen=True)
class Scale:
    """A size: the divisors of a full-size model's widths, and the defaults of a training of it.

    Attributes:
        depth: number of layers; None for the full-size model's, divided by depth_share.
        head_dim: size of one attention head; None for the full-size model's.
        gradient_accumulation_steps: the global batch of N processes is N times that of one.
        loses: what is not as in the full-size model.
    """

    name: str
    width: int
    depth: int | None
    depth_share: int
    head_dim: int | None
    sequence_length: int
    micro_batch_size: int
    gradient_accumulation_steps: int
    loses: str


SCALES = (
    Scale(
        "tiny",
        16,
        4,
        1,
        32,
        128,
        2,
        1,
        "width and vocabulary 1/16, 4 layers, head dimension 32 instead of 128",
    ),
    Scale(
        "small",
        8,
        8,
        1,
        64,
        256,
        4,
        1,
        "width and vocabulary 1/8, 8 layers, head dimension 64 instead of 128",
    ),
    Scale("medium", 4, 16, 1, None, 1024, 4, 1, "width and vocabulary 1/4, 16 layers"),
    Scale("1b", 2, None, 2, None, 2048, 1, 8, "width and vocabulary 1/2, half of the layers"),
    Scale("large", 2, None, 1, None, 2048, 1, 4, "width and vocabulary 1/2"),
    Scale("quarter", 1, None, 4, None, 2048, 1, 8, "a quarter of the layers, each full size"),
    Scale("half", 1, None, 2, None, 2048, 1, 8, "half of the layers, each full size"),
    Scale(FULL, 1, None, 1, None, 2048, 1, 8, "nothing"),
)
"""From the smallest to the largest. On a CPU of two cores a step of `tiny` takes some 0.1 s."""

COMMON = "1b"
"""The default on every GPU that can hold it, so that results can be compared: some 10⁹ parameters,
whose states take 17 to 20 GB, so that a card of 24 GB holds them, in layers wide enough for the
largest GPUs.
"""

LARGEST = "largest"
"""What a user types for the largest scale that fits."""


def names() -> tuple[str, ...]:
    """Return what a user can type for a scale."""
    return (*(scale.name for scale in SCALES), LARGEST)


def by_name(name: str) -> Scale:
    """Return the row of a name. Raises UsageError for a name that no row has."""
    for scale in SCALES:
        if scale.name == name:
            return scale
    hint = suggestion(name, names(), f"choose from {', '.join(names())}")
    raise UsageError(f"unknown scale {name!r}", hint=hint, heading="unknown-scale")


def shape(model: Model, scale: Scale) -> ModelConfig:
    """Return the model's shape at a scale, num_parameters included."""
    layers, hidden, heads, groups, width, vocabulary = _sizes(model.shape)
    head_dim = scale.head_dim or model.shape.head_dim or hidden // heads
    # Heads as wide as the hidden size together, as at full size; as many for each group.
    scaled_heads = heads * (model.shape.head_dim or hidden // heads) // scale.width // head_dim
    scaled = model.shape.but(
        num_layers=scale.depth or layers // scale.depth_share,
        hidden_size=hidden // scale.width,
        num_attention_heads=scaled_heads,
        num_query_groups=scaled_heads * groups // heads,
        head_dim=head_dim,
        ffn_hidden_size=width // scale.width,
        vocab_size=vocabulary // scale.width,
        source=model.shape.source
        if scale.name == FULL
        else f"{model.shape.source}, at the scale {scale.name}",
    )
    return scaled.but(num_parameters=parameters(model, scaled))


def parameters(model: Model, config: ModelConfig) -> int:
    """Return how many weights a shape of this model has.

    Per layer: queries and output h × n_q d each, keys and values h × n_kv d each (Qwen 2 with
        biases
    on queries, keys and values), three SwiGLU matrices h × f, two norms; and the embedding, the
    last norm, and the output matrix unless it is the embedding.
    """
    layers, hidden, heads, groups, width, vocabulary = _sizes(config)
    head_dim = config.head_dim or hidden // heads
    queries = heads * head_dim
    keys = groups * head_dim
    layer = 2 * hidden * queries + 2 * hidden * keys + 3 * hidden * width + 2 * hidden
    if model.architecture == "Qwen2Config":
        layer += queries + 2 * keys
    return layers * layer + vocabulary * hidden * (1 if config.tie_word_embeddings else 2) + hidden


def bytes_sharded(processes: int) -> float:
    """Return the bytes of a parameter on each GPU if FSDP2 shards weights and AdamW's states.

    Until the last micro-batch of a step, whose backward pass reduces them, it adds gradients up
    unsharded, in fp32. As much is in use before sharding: the model is built whole.
    """
    return 4 + 12 / processes


def largest_that_fits(
    model: Model, memory_bytes: float, needed: Callable[[ModelConfig], float]
) -> Scale:
    """Return the largest scale that leaves SPARE of a device's memory free; the smallest one if
    none does.

    `needed` returns the bytes that a shape takes of it.
    """
    room = memory_bytes * (1 - SPARE)
    return next(
        (scale for scale in reversed(SCALES) if needed(shape(model, scale)) <= room), SCALES[0]
    )


def of_shape(model: Model, config: ModelConfig) -> Scale | None:
    """Return the scale at which the model has this very shape; None if no row gives it."""
    for scale in SCALES:
        scaled = shape(model, scale)
        is_same = all(getattr(scaled, size) == getattr(config, size) for size in SIZES)
        if is_same and config.head_dim in (None, scaled.head_dim):
            return scale
    return None


def _sizes(config: ModelConfig) -> tuple[int, ...]:
    """Return SIZES of a shape. Raises ValueError if one is unknown."""
    sizes = tuple(getattr(config, size) for size in SIZES)
    if None in sizes:
        raise ValueError("a size of the model's shape is unknown")
    return sizes
