"""From the events of profiler traces to where the time of a step goes."""
