"""Megatron-LM, measured by its log."""
