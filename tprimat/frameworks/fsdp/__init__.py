"""PyTorch FSDP2 in a plain loop."""

from tprimat.frameworks.framework import Framework

FRAMEWORK = Framework(
    "fsdp",
    trains="PyTorch's FSDP2, `fully_shard`",
    use_when="the model states don't fit on one GPU, and you want no extra package",
    # fp16 would take a gradient scaler that knows of sharded gradients.
    precisions=("fp32", "bf16"),
    packages=("torch", "transformers"),
)
