"""The framework `automodel`: NVIDIA's NeMo Automodel, PyTorch's FSDP2 over models of
transformers.
"""

from tprimat.frameworks.framework import Framework

FRAMEWORK = Framework(
    "automodel",
    trains="NVIDIA's NeMo Automodel, FSDP2",
    use_when="you train with Automodel",
    precisions=("bf16", "fp8"),
    data="mock",
    recomputes="full",
)
