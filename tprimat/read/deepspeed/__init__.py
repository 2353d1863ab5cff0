"""DeepSpeed's console."""
