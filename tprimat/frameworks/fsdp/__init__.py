"""PyTorch FSDP2 in a plain loop."""
