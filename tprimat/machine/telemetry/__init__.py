"""Device telemetry: readings of GPUs and CPUs once a second, in a process of its own, or from a
recorded trace.
"""
