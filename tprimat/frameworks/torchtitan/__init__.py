"""torchtitan, measured by its log."""

from tprimat.frameworks.framework import Framework

FRAMEWORK = Framework(
    "torchtitan",
    trains="torchtitan, `$TORCHTITAN_PATH`; Llama at full size",
    use_when="PyTorch's own reference",
    models=("llama",),
    precisions=("bf16",),
    data="c4_test",
)
