"""Data-wait times of a training. Pure: the clock is an argument, as it is for the recorder.

Marks are set when the loop begins to wait and when the batch is there. On a GPU they are events in
the device's queue: while the device is still busy with the step before, both lie behind that work
and next to each other, and the wait is nothing. What is counted is thus what the device stood idle
for, not what the host slept.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from tprimat.record.recorder import Clock


class DataWait:
    """Sums up the waits.

    Args:
        clock: the time source.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: Any = None
        self._open: deque[tuple[Any, Any]] = deque()
        self._seconds = 0.0

    def begin(self) -> None:
        """Mark that the loop asks for a batch."""
        self._began = self._clock.mark()

    def end(self) -> None:
        """Mark that the host has the batch."""
        self._open.append((self._began, self._clock.mark()))
        self._resolve()

    def take(self) -> float:
        """Return the seconds waited since the last call, of the marks that the device has passed."""
        self._resolve()
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def _resolve(self) -> None:
        while self._open and self._clock.is_ready(self._open[0][1]):
            self._seconds += self._clock.seconds(*self._open.popleft())
