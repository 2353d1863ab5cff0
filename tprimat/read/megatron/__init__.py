"""Megatron-LM and its forks."""
