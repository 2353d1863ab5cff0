"""Ends a training early, in good order, when its time is up. Knows no framework."""

from __future__ import annotations

import time
from collections.abc import Callable

from tprimat import units

CHECKED_EVERY = 10
"""Steps between the processes' agreeing whether to end early; each time costs a short wait."""


class TimeLimit:
    """The time limit of one training: so many seconds for its requested steps; None for no limit.

    `agree` has all processes say whether the time is up, and returns whether any does.
    """

    def __init__(
        self,
        steps: int,
        limit_s: float | None,
        world_size: int,
        agree: Callable[[bool], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._steps = steps
        self._limit_s = limit_s
        self._world_size = world_size
        self._agree = agree
        self._clock = clock
        self._started = clock()
        self._step = 0
        self._first_step_s = 0.0

    def reached(self, step: int) -> str | None:
        """Return why the training is to end after a step; None to go on.

        To be called by every process, after every batch; a step that was seen costs nothing.
        """
        limit = self._limit_s
        if step == self._step or limit is None or step >= self._steps:
            return None
        self._step = step
        elapsed = self._clock() - self._started
        if step == 1:
            self._first_step_s = elapsed
        # One process alone looks at each step; several now and then, ahead to when they next agree.
        if self._world_size == 1:
            over = elapsed >= limit
        elif step <= 2 or step % CHECKED_EVERY == 0:
            pace = (elapsed - self._first_step_s) / (step - 1) if step > 1 else 0.0
            over = self._agree(elapsed + (CHECKED_EVERY - step % CHECKED_EVERY) * pace >= limit)
        else:
            return None
        return self.reason(step) if over else None

    def reason(self, step: int) -> str:
        """Return why a training whose time was up ended after a step."""
        limit = units.duration(self._limit_s or 0.0)
        return f"{step} of max_steps={self._steps} steps: the time limit of {limit} was reached"
