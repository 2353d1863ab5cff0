"""transformers.Trainer: its launch, its loop, the callback that records it."""
