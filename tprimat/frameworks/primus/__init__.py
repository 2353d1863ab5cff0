"""AMD Primus, measured by its log."""

LAUNCHERS = ("primus-cli", "run_pretrain.sh")
"""Its launchers, the newer one first."""

DEFAULT_PRECISION = "bf16"
