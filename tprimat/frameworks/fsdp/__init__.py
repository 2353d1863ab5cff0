"""PyTorch FSDP2 in a plain loop."""

from __future__ import annotations

from tprimat.frameworks.framework import Framework

ROWS = (
    Framework(
        "fsdp",
        trains="PyTorch's FSDP2, `fully_shard`",
        use_when="the states don't fit on each GPU, and no further package is wanted",
        # fp16 would take a gradient scaler that knows of sharded gradients.
        precisions=("fp32", "bf16"),
        packages=("torch", "transformers"),
    ),
)
