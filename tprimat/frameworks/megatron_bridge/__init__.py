"""Megatron-Bridge: NVIDIA's performance recipes, recorded live."""

from tprimat.frameworks.framework import Framework

FRAMEWORK = Framework(
    "megatron_bridge",
    trains="NVIDIA's Megatron-Bridge, its performance recipes",
    use_when="what NVIDIA recommends for its GPUs, in current containers",
    models=("llama", "qwen"),
    precisions=("bf16", "fp8", "mxfp8", "nvfp4"),
    automatic_on=("nvd",),
    division="requested",
    data="mock",
    recomputes=None,
)
