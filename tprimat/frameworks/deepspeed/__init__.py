"""DeepSpeed ZeRO 1 to 3 in a plain loop."""

from __future__ import annotations

from tprimat.frameworks.framework import Framework

ROWS = tuple(
    Framework(
        f"deepspeed-zero{stage}",
        trains=f"DeepSpeed, ZeRO stage {stage}",
        use_when="you train with DeepSpeed, or want to know which stage",
        packages=("torch", "transformers", "deepspeed"),
    )
    for stage in (1, 2, 3)
)
