"""NeMo's defaults: a row per configuration, each with its source."""

from __future__ import annotations

import dataclasses

PERFORMANCE, RECIPE, CLASSIC = "performance", "recipe", "classic"

CLASSIC_ROW = {
    "tensor": 4,
    "context": 1,
    "micro_batch_size": 1,
    "global_batch_size": 128,
    "sequence_length": 2048,
    "source": CLASSIC,
}
"""What the preset `classic` has in the place of the recipe's own."""

PRECISIONS = {PERFORMANCE: "bf16", RECIPE: "bf16", CLASSIC: "fp8"}
"""In which a preset trains if the user leaves it open."""

MICRO_BATCHES = 8
"""Micro-batches of a step at most if no preset is named. With NVIDIA's 32 a step of Llama takes 17
s on eight H100s at 40 % of the peak, with the 128 of Mistral's recipe 30 s: too few steps for a
steady state within ten minutes.
"""

PRESETS = {
    PERFORMANCE: "NVIDIA's settings for speed on the GPU, else the recipe",
    RECIPE: "NeMo's recipe, unchanged",
    CLASSIC: (
        f"global batch {CLASSIC_ROW['global_batch_size']}, sequence length"
        f" {CLASSIC_ROW['sequence_length']}, tensor parallelism {CLASSIC_ROW['tensor']},"
        f" {PRECISIONS[CLASSIC]}: as in earlier scripts"
    ),
}
"""What a user can type for the defaults."""

_PERFORMANCE = "https://github.com/NVIDIA/NeMo/blob/main/scripts/performance/recommended_model_configs/model_configs_"
_SHARDED = (
    "NVIDIA's settings for fp8 also shard the model with Megatron FSDP, which isn't done here"
)
_RECIPES = "https://github.com/NVIDIA-NeMo/NeMo/blob/v2.7.3/nemo/collections/llm/recipes/"


@dataclasses.dataclass(frozen=True)
class Defaults:
    """One configuration.

    Attributes:
        gpus, precisions: short names of the GPUs, none of them for all, and the precisions that it
            is for.
        num_gpus: on which the global batch was trained; on another number it grows or shrinks
            alike. None for a batch that stays.
        tensor, pipeline, context: parallelism.
        cuda_graphs: whether kernels are recorded and played back.
        source: where this is published.
        note: the original purpose of the row, if it is used for something else; or None.
    """

    model: str
    gpus: tuple[str, ...]
    precisions: tuple[str, ...]
    num_gpus: int | None
    tensor: int
    pipeline: int
    context: int
    micro_batch_size: int
    global_batch_size: int
    sequence_length: int
    cuda_graphs: bool
    source: str
    note: str | None = None


_BOTH = ("bf16", "fp8")
_ALL = (*_BOTH, "mxfp8")
LIKE_H100 = (
    "NVIDIA publishes no settings for this GPU; those of the H100, the same chip with less memory,"
    " are used"
)

PUBLISHED = (
    # Rows `pre_train,llama3,8b`, read in November 2026; the shape of Llama 3 and of 3.1 is one.
    Defaults(
        "llama", ("H100",), ("bf16",), 8, 1, 1, 2, 1, 128, 8192, False, _PERFORMANCE + "h100.csv"
    ),
    Defaults(
        "llama",
        ("H100",),
        ("fp8",),
        8,
        1,
        1,
        2,
        1,
        128,
        8192,
        False,
        _PERFORMANCE + "h100.csv",
        _SHARDED,
    ),
    Defaults(
        "llama",
        ("H200", "GH200"),
        _BOTH,
        8,
        1,
        1,
        2,
        1,
        128,
        8192,
        False,
        _PERFORMANCE + "h100.csv",
        LIKE_H100,
    ),
    Defaults("llama", ("B200",), _ALL, 8, 1, 1, 1, 2, 128, 8192, True, _PERFORMANCE + "b200.csv"),
    Defaults(
        "llama", ("GB200",), ("bf16",), 8, 1, 1, 1, 2, 128, 8192, True, _PERFORMANCE + "gb200.csv"
    ),
    Defaults(
        "llama", ("GB200",), _ALL[1:], 8, 1, 1, 1, 4, 128, 8192, True, _PERFORMANCE + "gb200.csv"
    ),
)

RECIPES = (
    Defaults("llama", (), _ALL, None, 1, 1, 2, 1, 512, 8192, False, _RECIPES + "llama31_8b.py"),
    Defaults("qwen", (), _ALL, None, 2, 1, 1, 2, 32, 4096, False, _RECIPES + "qwen25_7b.py"),
    Defaults("mistral", (), _ALL, None, 1, 1, 2, 1, 512, 4096, False, _RECIPES + "mistral_7b.py"),
)


def choose(model: str, preset: str, device_name: str | None, precision: str) -> Defaults:
    """Return the configuration for a model on a GPU of this short name, or None if it isn't
    known.
    """
    recipe = next(row for row in RECIPES if row.model == model)
    if preset == CLASSIC:
        return dataclasses.replace(recipe, **CLASSIC_ROW)  # type: ignore[arg-type]  # names and types of fields
    if preset == RECIPE:
        return recipe
    for row in PUBLISHED:
        if row.model == model and device_name in row.gpus and precision in row.precisions:
            return row
    why = "the GPU is unknown"
    if device_name is not None:
        why = f"NVIDIA publishes no configuration of this model for {device_name}"
    return dataclasses.replace(recipe, note=f"{why}: the recipe's own is used")
