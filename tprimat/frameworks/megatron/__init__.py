"""Megatron-LM, measured by its log."""

from __future__ import annotations

from tprimat.frameworks.framework import Framework

ROWS = (
    Framework(
        "megatron",
        trains="Megatron-LM's `pretrain_gpt.py`, `$MEGATRON_PATH`",
        use_when="the upper end of what NVIDIA's cards reach",
        precisions=("fp32", "bf16", "fp16", "fp8", "mxfp8"),
        data="mock",
    ),
)
