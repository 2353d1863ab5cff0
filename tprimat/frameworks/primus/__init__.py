"""AMD Primus, measured by its log."""

from tprimat.frameworks.framework import Framework

FRAMEWORK = Framework(
    "primus",
    trains="AMD's own configurations, `$PRIMUS_PATH`",
    use_when="what AMD recommends for its GPUs",
    precisions=("bf16", "fp16", "fp8", "mxfp8", "mxfp4"),
    automatic_on=("amd",),
    division="matched",
    data="mock",
    recomputes=None,
)

LAUNCHERS = ("primus-cli", "run_pretrain.sh")
"""Its launchers, the newer one first."""

DEFAULT_PRECISION = "bf16"
