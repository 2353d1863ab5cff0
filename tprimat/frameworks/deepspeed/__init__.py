"""DeepSpeed ZeRO 1 to 3 in a plain loop."""

from tprimat.frameworks.framework import Framework

ZERO_1, ZERO_2, ZERO_3 = (
    Framework(
        f"deepspeed-zero{stage}",
        trains=f"DeepSpeed, ZeRO stage {stage}",
        use_when="you train with DeepSpeed, or want to compare its stages",
        packages=("torch", "transformers", "deepspeed"),
    )
    for stage in (1, 2, 3)
)
