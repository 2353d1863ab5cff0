"""Signals: write the result before SIGTERM ends the process; note in which steps it was
suspended.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any


class _Watch:
    """Watches for a signal while a training runs; without a number for none, as on Windows."""

    def __init__(self, number: int | None) -> None:
        self._number = number
        self._previous: Any = None
        self._installed = False

    def install(self) -> None:
        """Start watching. Does nothing outside the main thread, where Python allows no handlers."""
        if (
            self._installed
            or self._number is None
            or threading.current_thread() is not threading.main_thread()
        ):
            return
        previous = signal.getsignal(self._number)
        if previous is None:
            return  # set by something that isn't Python, which couldn't be put back
        self._previous = previous
        signal.signal(self._number, self._handle)
        self._installed = True

    def remove(self) -> None:
        """Restore the earlier handler, unless another one was installed since."""
        if (
            self._installed
            and self._number is not None
            and signal.getsignal(self._number) == self._handle
        ):
            if threading.current_thread() is not threading.main_thread():
                return
            signal.signal(self._number, self._previous)
            self._installed = False

    def _handle(self, signum: int, frame: Any) -> None:
        raise NotImplementedError


class SigcontWatch(_Watch):
    """Notes the step that is under way when a suspended process goes on: after SIGSTOP, or Ctrl-Z
    and fg.

    Args:
        step: returns its number.

    Attributes:
        steps: those.
    """

    def __init__(self, step: Callable[[], int]) -> None:
        super().__init__(getattr(signal, "SIGCONT", None))
        self.steps: list[int] = []
        self._step = step

    def _handle(self, signum: int, frame: Any) -> None:
        self.steps.append(self._step())
        if callable(self._previous):
            self._previous(signum, frame)


class SigtermWatch(_Watch):
    """Watches for SIGTERM while a training runs, and passes it on to an earlier handler.

    Args:
        write_result: called if the signal would end the process at once; returns False if the
            result is being written already, and release() follows.

    Attributes:
        received: whether the signal came.
    """

    def __init__(self, write_result: Callable[[], bool]) -> None:
        super().__init__(signal.SIGTERM)
        self.received = False
        self._pending = False
        self._write_result = write_result

    def release(self) -> None:
        """Let a signal that was held back end the process."""
        if self._pending:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)

    def _handle(self, signum: int, frame: Any) -> None:
        if self._previous == signal.SIG_IGN:
            return
        self.received = True
        if callable(self._previous):
            self._previous(signum, frame)
        elif signal.getsignal(signal.SIGTERM) == self._handle:
            self._pending = True
            if self._write_result():
                self.release()
        # Otherwise another handler has called this one and knows itself what to do.
