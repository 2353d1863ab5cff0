"""Sends the steps of a training to its parent process, a few times a second."""

from __future__ import annotations

import time
from collections.abc import Callable

from tprimat.record import progress

INTERVAL_S = 0.25


def reporter(rank: int = 0) -> Callable[..., None] | None:
    """Return what to call with each step; None where no parent reads it, or another process reports."""
    return ProgressReporter() if rank == 0 and progress.is_enabled() else None


class ProgressReporter:
    """What a recorder calls with each step."""

    def __init__(self) -> None:
        self._last_s = 0.0

    def __call__(
        self,
        step: int,
        max_steps: int | None,
        step_time: float | None,
        average: float | None,
        loss: float | None,
        memory_gb: float | None,
    ) -> None:
        """Print a mark that the parent reads, unless the last one was just now."""
        now = time.monotonic()
        if now - self._last_s < INTERVAL_S and step != max_steps:
            return
        self._last_s = now
        progress.emit(progress.Step(step, max_steps or step, step_time, average, loss, memory_gb))
