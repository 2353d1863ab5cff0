"""NVIDIA NeMo: recipes, launch, submission, conversion."""

from tprimat.frameworks.framework import Framework

FRAMEWORK = Framework(
    "nemo",
    trains="NVIDIA's own recipes",
    use_when="NVIDIA's framework until 2025; trains all three models",
    precisions=("bf16", "fp8", "mxfp8"),
    automatic_on=("nvd",),
    division="requested",
    data="mock",
    recomputes=None,
)
