"""DeepSpeed ZeRO 1 to 3 in a plain loop."""
