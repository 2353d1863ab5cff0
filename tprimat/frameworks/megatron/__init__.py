"""Megatron-LM, measured by its log."""

from tprimat.frameworks.framework import Framework

FRAMEWORK = Framework(
    "megatron",
    trains="Megatron-LM's `pretrain_gpt.py`, `$MEGATRON_PATH`",
    use_when="upper bound of what NVIDIA GPUs reach",
    precisions=("fp32", "bf16", "fp16", "fp8", "mxfp8"),
    data="mock",
)
