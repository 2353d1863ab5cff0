"""Ends a training early, in good order, when its time is up. Knows no framework."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable

from tprimat import units

CHECKED_EVERY = 10
"""Steps between the processes' agreeing whether to end early; each time costs a short wait."""

START_S = 300.0
"""What imports, weights and the first kernels may take if a limit counts from the program's start.
"""


def megatrons(limit_s: float | None, nodes: int) -> int | None:
    """Return Megatron's exit_duration_in_mins for a limit of the steps; None if it needs none.

    It counts from the import of megatron/training/training.py. On one machine the session reads the
    steps in the log and ends the training itself; with several machines, none can end the processes
    of the others.
    """
    if limit_s is None or nodes == 1:
        return None
    return math.ceil((START_S + limit_s) / 60)


@dataclasses.dataclass
class TimeLimit:
    """The time limit of one training: `limit_s` seconds for its requested steps; None for no limit.

    `any_rank` returns whether the time is up on any process, and every process calls it; `spent_s`
    is the time that earlier steps have taken.
    """

    steps: int
    limit_s: float | None
    world_size: int
    any_rank: Callable[[bool], bool]
    clock: Callable[[], float] = time.monotonic
    spent_s: float = 0.0
    _step: int = dataclasses.field(default=0, init=False)
    _first_step_s: float = dataclasses.field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._started = self.clock() - self.spent_s

    def reached(self, step: int) -> str | None:
        """Return why the training is to end after a step; None to continue.

        To be called by every process, after every batch; a step that was seen costs nothing.
        """
        if step == self._step or self.limit_s is None or step >= self.steps:
            return None
        self._step = step
        elapsed = self.clock() - self._started
        if step == 1:
            self._first_step_s = elapsed
        # A single process checks each step. Several check only some steps, and look ahead to the
        # next check.
        if self.world_size == 1:
            over = elapsed >= self.limit_s
        elif step <= 2 or step % CHECKED_EVERY == 0:
            pace = (elapsed - self._first_step_s) / (step - 1) if step > 1 else 0.0
            over = self.any_rank(
                elapsed + (CHECKED_EVERY - step % CHECKED_EVERY) * pace >= self.limit_s
            )
        else:
            return None
        if over:
            return self.reason(step)
        return None

    def reason(self, step: int) -> str:
        """Return why a training whose time was up ended after a step."""
        limit = units.duration(self.limit_s or 0.0)
        return f"{step} of max_steps={self.steps} steps: the time limit of {limit} was reached"
