"""torchtitan, measured by its log."""
