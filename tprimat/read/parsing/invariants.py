"""Conditions that every run of a reader must meet. If one isn't met, the reader is at fault, and a
note states it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

import msgspec

from tprimat.notes import Note
from tprimat.read.parsing.stamps import AT_ONCE, CONTRADICT, OWN_CLOCK, TOO_LONG
from tprimat.results.run import Run

TOLERANCE, RESOLUTION_S = 0.01, 1.0
"""What rounding may add to a sum: a share of it, and the resolution of a log's stamps."""

FULL, PEAK = 95.0, {"mfu_percent": 100.0, "mfu": 1.0, "mfu_actor": 1.0}
"""Percent of a GPU's memory that leave the allocator no room, as 77 GB of 80 do; printed
utilizations, with what nothing exceeds.
"""
"""Percent of a GPU's memory that leave the allocator no room; printed utilizations, with what
nothing exceeds.
"""


def checked(run: Run) -> Run:
    """Return a run with a note for each sum of times that can't be, and for printed values that
    nothing can reach.
    """
    notes = []
    # Lines that were written at once have no times.
    if not any(map(run.told, (CONTRADICT, TOO_LONG, OWN_CLOCK))):
        notes = [note for note in _sums_of_parts(run) if note]
    used = max(run.memory_metrics.known().values(), default=0.0)
    percent = 100 * used / (run.gpu_info.total_memory_gb or math.inf)
    if percent >= FULL and run.platform != "cpu":
        notes.append(Note("memory-nearly-full", {"value": round(percent, 2)}))
    for name, most in PEAK.items():
        printed = run.native_metrics.get(name)
        if not isinstance(printed, tuple):
            continue
        # A record that asynchronous dispatch makes too short is no fault of the formula.
        typical = statistics.median(value or 0.0 for value in printed)
        if typical > most:
            percent = round(100 * typical / most, 2)
            notes.append(Note("utilization-above-peak", {"percent": percent}))
    if notes:
        return msgspec.structs.replace(run, notes=(*run.notes, *notes))
    return run


def _sums_of_parts(run: Run) -> Iterator[Note | None]:
    """Yield what parts of the timeline against its end, and step times against the training, are:
    a note where they exceed them.
    """
    inside = [entry for entry in run.timeline if entry.start >= 0]
    wall = max((entry.start + entry.duration for entry in inside), default=0.0)
    parts = math.fsum(entry.duration for entry in inside)
    yield _exceeding("parts-exceed-wall-time", parts, wall)
    seconds = steps = 0.0
    # A part of the first record may lie in the start-up.
    for time, window in zip(run.step_times[1:], run.window_steps[1:], strict=True):
        if time:
            seconds += time * window
            steps += window
    training = [entry for entry in inside if entry.kind == "training" and entry.steps]
    if steps and training:
        printed = seconds / steps * sum(entry.steps for entry in training)
        whole = math.fsum(entry.duration for entry in training)
        yield _exceeding("steps-exceed-training", printed, whole)


def _exceeding(code: str, total: float, whole: float) -> Note | None:
    """Return a note if parts last longer in total than the whole, s, by more than rounding: 105 s
    of 100 s, not 102 s of them. Where they last twenty times as long, lines were written at once,
    and have no times.
    """
    if AT_ONCE * total < whole and whole * (1 + TOLERANCE) + RESOLUTION_S < total:
        return Note(code, {"seconds": round(total, 3), "whole": round(whole, 3)})
    return None
