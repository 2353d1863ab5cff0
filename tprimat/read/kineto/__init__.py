"""Reader of PyTorch profiler traces: Kineto's JSON in Chrome's trace format."""
