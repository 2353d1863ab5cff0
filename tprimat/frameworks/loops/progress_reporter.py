"""Tells the parent of a training about its steps, a few times a second."""

from __future__ import annotations

import time

from tprimat.record import progress

TOLD_EVERY_S = 0.25


class ProgressReporter:
    """What BenchmarkCallback calls with each step."""

    def __init__(self) -> None:
        self._told = 0.0

    def __call__(
        self,
        step: int,
        max_steps: int | None,
        step_time: float | None,
        average: float | None,
        loss: float | None,
        memory_gb: float | None,
    ) -> None:
        """Prints a mark that the parent reads, unless the last one was just now."""
        now = time.monotonic()
        if now - self._told < TOLD_EVERY_S and step != max_steps:
            return
        self._told = now
        progress.emit(progress.Step(step, max_steps or step, step_time, average, loss, memory_gb))
