"""Follow a training while it runs: its log grows, is read again, and what is new is told."""
