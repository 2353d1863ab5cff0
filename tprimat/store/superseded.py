"""Results that were read from a log by rules that have changed since.

A result has the values that the reader found when it was written, but not the reader's version.
Only files of schema 1 are surely older than these rules; which of them the rules change shows in
the result itself.
"""

from __future__ import annotations

import math
import statistics

from tprimat.notes import Note
from tprimat.results.run import Run

CHANGED = 0.005
"""Share by which a step time must differ to be reported."""

UNREAD = 0.05
"""Share of the training that must belong to no part of a run, or to its start-up, such as one block
of twenty.

In MLPerf's logs it is 0.02% at most, in a run of seconds 3%.
"""


def with_doubt(run: Run) -> Run:
    """Return a run of a file of schema 1, with a note if its log would be read otherwise now."""
    dialect = (run.source.dialect or "") if run.source and run.source.kind == "log" else ""
    if dialect == "llama_factory":
        is_off = _rounds_to_seconds(run)
    else:
        is_off = dialect.startswith("mlperf") and _misses(run)
    if is_off:
        return run.but(notes=(Note("read-otherwise"),))
    return run


def _rounds_to_seconds(run: Run) -> bool:
    """Return whether steps of less than a second were read as such of one, and the others as steps
    without a time.
    """
    times = run.step_times
    return None in times[1:] and 1.0 in times and statistics.median(filter(None, times)) == 1.0


def _misses(run: Run) -> bool:
    """Return whether training without a block_start, early ends of blocks or printed tokens were
    not read.
    """
    if "grpo" in (run.model or "").lower():
        return run.training_config.sequence_length is not None
    parts = [entry for entry in run.timeline if entry.start >= 0 and entry.kind != "start-up"]
    blocks = [entry for entry in parts if entry.steps]
    seconds = math.fsum(entry.duration for entry in blocks)
    steps = sum(entry.steps for entry in blocks)
    end = max((entry.start + entry.duration for entry in parts), default=0.0)
    if end - math.fsum(entry.duration for entry in parts) > UNREAD * seconds:
        return True
    records = zip(run.step_times, run.window_steps, strict=True)
    timed = [(time * window, window) for time, window in records if time]
    mean = math.fsum(time for time, _ in timed) / (sum(window for _, window in timed) or 1)
    return mean * steps > (1 + CHANGED) * seconds
