"""transformers.Trainer: its launch, its loop, the callback that records it."""

from tprimat.frameworks.framework import Framework

FRAMEWORK = Framework(
    "transformers",
    trains="`transformers.Trainer`, DDP",
    use_when="you train with the Trainer",
    packages=("torch", "transformers", "accelerate"),
)
