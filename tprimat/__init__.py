"""TensorPrimat: measures and compares the training of language models on NVIDIA and AMD GPUs."""

__version__ = "0.1.0"
