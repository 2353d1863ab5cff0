"""The recipes of Megatron-Bridge, a row each; the source of a row is the name of its recipe.

Read in Megatron-Bridge 067f987 (2026-08-22): src/megatron/bridge/perf_recipes/llama/*/llama3.py,
and recipes/ for the general ones. Release 0.6.0 has all of them.
"""

from __future__ import annotations

from tprimat.frameworks.nemo.defaults import LIKE_H100, Defaults

HUB = {"llama": "meta-llama/Meta-Llama-3-8B", "qwen": "Qwen/Qwen2.5-7B"}
"""Models of the recipes, and whose configuration on the Hugging Face Hub each reads."""

NAMES = {"bf16": "bf16", "fp8": "fp8cs", "mxfp8": "fp8mx", "nvfp4": "nvfp4"}
"""Precisions in the names of recipes. FP8 has current scaling."""


def _llama(
    gpu: str, precision: str, micro_batch_size: int, context: int = 1, *, like: tuple[str, ...] = ()
) -> Defaults:
    name = f"llama3_8b_pretrain_8gpu_{gpu.lower()}_{NAMES[precision]}_config"
    gpus, note = (like, LIKE_H100) if like else ((gpu,), None)
    return Defaults(
        "llama",
        gpus,
        (precision,),
        8,
        1,
        1,
        context,
        micro_batch_size,
        128,
        8192,
        False,
        name,
        note,
    )


PERFORMANCE = (
    _llama("H100", "bf16", 1, 2),
    _llama("H100", "fp8", 1),
    _llama("H100", "bf16", 1, 2, like=("H200", "GH200")),
    _llama("H100", "fp8", 1, like=("H200", "GH200")),
    *(
        _llama(gpu, precision, 2)
        for gpu in ("B200", "GB200")
        for precision in ("bf16", "fp8", "mxfp8")
    ),
    *(
        _llama(gpu, precision, 4)
        for gpu in ("B300", "GB300")
        for precision in ("bf16", "fp8", "mxfp8")
    ),
    *(_llama(gpu, "nvfp4", 4) for gpu in ("B200", "B300", "GB200", "GB300")),
)
"""NVIDIA's settings for speed on eight GPUs. CUDA graphs, if a recipe has them, stay as they are.
"""

GENERAL = (
    Defaults(
        "llama",
        (),
        ("bf16",),
        None,
        1,
        1,
        2,
        1,
        512,
        8192,
        False,
        "llama3_8b_pretrain_2gpu_h100_bf16_config",
    ),
    Defaults(
        "qwen",
        (),
        ("bf16",),
        None,
        2,
        1,
        1,
        2,
        32,
        4096,
        False,
        "qwen25_7b_pretrain_2gpu_h100_bf16_config",
    ),
)
"""For all GPUs. There is none of Mistral 7B."""
