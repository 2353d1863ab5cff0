"""Megatron-Bridge: NVIDIA's performance recipes, recorded live."""
