"""NVIDIA NeMo: recipes, launch, submission, conversion."""

from __future__ import annotations

from tprimat.frameworks.framework import Framework

ROWS = (
    Framework(
        "nemo",
        trains="NVIDIA's own recipes",
        use_when="what NVIDIA recommended until 2025; all three models",
        precisions=("bf16", "fp8", "mxfp8"),
        automatic_on=("nvd",),
        division="requested",
        data="mock",
        recomputes=None,
    ),
)
