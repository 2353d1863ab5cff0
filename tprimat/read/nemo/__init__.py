"""NeMo's console."""
