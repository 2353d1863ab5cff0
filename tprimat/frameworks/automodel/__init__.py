"""The framework `automodel`: NVIDIA's NeMo Automodel, PyTorch's FSDP2 over models of transformers."""
