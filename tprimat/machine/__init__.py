"""This machine: platform, GPUs, processes, host."""
