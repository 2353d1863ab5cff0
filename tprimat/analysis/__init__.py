"""Numbers to a summary: warm-up, change points, intervals, metrics, FLOPs, cost."""
