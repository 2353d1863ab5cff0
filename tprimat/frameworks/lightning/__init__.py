"""lightning.pytorch: its launch, its loop, the callback that records it."""
