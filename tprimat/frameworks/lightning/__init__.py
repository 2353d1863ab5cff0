"""lightning.pytorch: its launch, its loop, the callback that records it."""

from tprimat.frameworks.framework import Framework

FRAMEWORK = Framework(
    "lightning",
    trains="Lightning, DDP",
    use_when="the default; needs nothing beyond `requirements.txt`",
    packages=("torch", "lightning", "transformers"),
    automatic_on=("nvd", "amd", "cpu"),
)
