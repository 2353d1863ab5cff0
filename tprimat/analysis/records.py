"""Coverage of a run's records: profiled steps, total steps, wall time."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from typing import Any

import msgspec

from tprimat.results.run import SERIES, Run


def unprofiled(run: Run) -> Run:
    """Return the run without the steps that a profiler watched, which slows them."""
    watched = set(run.profiled_steps)
    if not watched.intersection(run.steps):
        return run
    kept = [index for index, step in enumerate(run.steps) if step not in watched]

    def shortened(series: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(series[index] for index in kept)

    native = {
        name: shortened(value) if isinstance(value, tuple) else value for name, value in run.native_metrics.items()
    }
    series = {name: shortened(getattr(run, name)) for name in SERIES}
    return msgspec.structs.replace(run, **series, native_metrics=native, profiled_steps=())


def recorded_steps(run: Run) -> int:
    """Return the number of steps that the records cover: a step within two windows counts once."""
    if max(run.window_steps, default=1) == 1:
        return len(run.steps)
    counted, reached = 0, 0
    for step, window in sorted(zip(run.steps, run.window_steps, strict=True), key=lambda record: record[0] - record[1]):
        counted += max(0, step - max(reached, step - window))
        reached = max(reached, step)
    return counted


def total_time(run: Run) -> tuple[float | None, list[str]]:
    """Return the wall time of the whole run, or None with the reason."""
    timed = [
        (step, time, window)
        for step, time, window in zip(run.steps, run.step_times, run.window_steps, strict=True)
        if time is not None
    ]
    if len(timed) < len(run.steps):
        # A record without a time within the window of one with a time takes nothing away.
        begins = [step - window for step, _, window in timed]
        ends = [step for step, _, _ in timed]
        untimed = 0
        for step, time in zip(run.steps, run.step_times, strict=True):
            following = bisect.bisect_left(ends, step)
            untimed += time is None and not (following < len(ends) and begins[following] < step)
        if untimed:
            return None, [f"total time unknown: {untimed} of {len(run.steps)} records have no time"]
    for (earlier, _, _), (step, _, window) in itertools.pairwise(timed):
        if step - earlier != window:
            return None, [f"total time unknown: not all steps between {earlier} and {step} are recorded"]
    return math.fsum([time * window for _, time, window in timed]), []
