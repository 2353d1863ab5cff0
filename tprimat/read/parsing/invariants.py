"""What must hold of every run that a reader makes. Where it doesn't, the reader is at fault, and a
note says so.
"""

from __future__ import annotations

import math
import statistics

import msgspec

from tprimat.notes import Note
from tprimat.read.parsing.stamps import AT_ONCE, CONTRADICT, OWN_CLOCK, TOO_LONG
from tprimat.results.run import Run

TOLERANCE, RESOLUTION_S = 0.01, 1.0
"""What rounding may add to a sum: a share of it, and the resolution of a log's stamps."""

FULL, PEAK = 95.0, {"mfu_percent": 100.0, "mfu": 1.0, "mfu_actor": 1.0}
"""Percent of a GPU's memory that leave the allocator no room; printed utilizations, with what
nothing exceeds.
"""


def checked(run: Run) -> Run:
    """Return a run with a note for each sum of times that can't be, and for printed values that
    nothing can reach.
    """
    inside = [entry for entry in run.timeline if entry.start >= 0]
    training = [entry for entry in inside if entry.kind == "training" and entry.steps]
    # Of the first record a part may lie in the start-up.
    timed = [
        (time * steps, steps)
        for time, steps in zip(run.step_times[1:], run.window_steps[1:], strict=True)
        if time
    ]
    seconds, steps = map(math.fsum, zip(*timed, strict=True)) if timed else (0.0, 1.0)
    wall = max((entry.start + entry.duration for entry in inside), default=0.0)
    notes = [
        Note(code, {"seconds": round(total, 3), "whole": round(whole, 3)})
        for code, total, whole in (
            ("parts-exceed-wall-time", math.fsum(entry.duration for entry in inside), wall),
            (
                "steps-exceed-training",
                seconds / steps * sum(entry.steps for entry in training),
                math.fsum(entry.duration for entry in training) if training else math.inf,
            ),
        )
        # Lines that were written at once have no times.
        if AT_ONCE * total < whole
        and whole * (1 + TOLERANCE) + RESOLUTION_S < total
        and not any(map(run.told, (CONTRADICT, TOO_LONG, OWN_CLOCK)))
    ]
    used = (
        100
        * max(run.memory_metrics.known().values(), default=0.0)
        / (run.gpu_info.total_memory_gb or math.inf)
    )
    if used >= FULL and run.platform != "cpu":
        notes.append(Note("memory-nearly-full", {"value": round(used, 2)}))
    for name, most in PEAK.items():
        printed = run.native_metrics.get(name)
        # A record that asynchronous dispatch makes too short is no fault of the formula.
        if (
            isinstance(printed, tuple)
            and (typical := statistics.median([each or 0.0 for each in printed])) > most
        ):
            notes.append(
                Note("utilization-above-peak", {"percent": round(100 * typical / most, 2)})
            )
    if notes:
        return msgspec.structs.replace(run, notes=(*run.notes, *notes))
    return run
