"""torchtitan's console."""
