"""Run the command of a launch, in a process group that never outlives it: its environment, its log,
its end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tprimat.files import unwritable
from tprimat.frameworks.request import Launch
from tprimat.machine.process_group import GONE_SECONDS, ProcessGroup
from tprimat.measure.output import OnLine, OnMessage, Output
from tprimat.record import progress

INTERRUPTED = 128 + signal.SIGINT
"""Exit status of a command that Ctrl-C ended, as shells report it."""

_POLL_SECONDS = 0.2
_DRAIN_SECONDS = 5.0


@dataclasses.dataclass(frozen=True)
class ProcessResult:
    """The outcome of a child process.

    Attributes:
        status: exit status; negative for a signal.
        interrupted: by Ctrl-C, SIGTERM or a hang-up of this process.
        overdue: it exceeded its time limit and was stopped.
        tail: the last lines that it printed.
        log_trouble: why the log doesn't hold all of it; None if it does.
    """

    status: int
    interrupted: bool
    overdue: bool
    tail: tuple[str, ...]
    log_trouble: str | None = None

    @property
    def shell_status(self) -> int:
        """Its exit status as shells report it: 128 + N for signal N."""
        if self.interrupted:
            return INTERRUPTED
        if self.status >= 0:
            return self.status
        return 128 - self.status


def run(
    launch: Launch,
    log: Path,
    *,
    on_line: OnLine,
    on_message: OnMessage,
    limit_s: float | None = None,
    grace_s: float = 20.0,
    variables: Mapping[str, str] | None = None,
    stops: Callable[[], bool] = lambda: False,
) -> ProcessResult:
    """Run a command to its end.

    All that it prints goes to the log; lines of its standard output and messages of progress are
    also handed on. Libraries warn on the standard error, if they can be left alone. When this
    process is interrupted the child is asked to end, and killed with its whole group after the
    grace, in which it can write its result, or at once on a second Ctrl-C. After limit_s it counts
    as hung; None means no limit. Raises UsageError when the program can't be started or the log
    can't be written; one that is there must be empty. The variables are set for the child and are
    no part of the command that the log shows. Once `stops` returns True, the child is asked to end
    too.
    """
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        file = log.open("ab", buffering=0)
        if file.tell():
            file.close()
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    except OSError as error:
        raise unwritable(log, error) from error
    env = {**os.environ, **launch.environment(), progress.VARIABLE: "1", **(variables or {})}
    with file, _count_signals() as signals:
        group = ProcessGroup(launch.argv, env, launch.cwd, grace_s)
        output = Output(((group.stdout, on_line), (group.stderr, None)), on_message, file)
        output.write(f"$ {launch.shell_line()}\n")
        return _Child(group, output, grace_s).follow(signals, limit_s, stops)


@contextlib.contextmanager
def _count_signals() -> Iterator[list[int]]:
    """Collect termination signals to this process instead of letting them kill it."""
    signals = []
    previous = {}
    if threading.current_thread() is threading.main_thread():
        for number in (getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP")):
            # A program started with nohup ignores the hang-up, and is to go on doing so.
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                previous[number] = signal.signal(number, lambda number, _: signals.append(number))
    try:
        yield signals
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class _Child:
    """A running command, its output, and its end."""

    def __init__(self, group: ProcessGroup, output: Output, grace_s: float) -> None:
        self._group = group
        self._output = output
        self._grace_s = grace_s
        self._terminated_at: float | None = None
        self._has_terminated_group = False
        self._killed_at: float | None = None

    def follow(
        self, signals: list[int], limit_s: float | None, stops: Callable[[], bool]
    ) -> ProcessResult:
        """Pass output on until the child and its group have ended."""
        started = time.monotonic()
        overdue = False
        try:
            while self._is_running():
                self._output.pass_on(_POLL_SECONDS)
                status = self._group.status()
                if status is None and limit_s is not None and time.monotonic() - started > limit_s:
                    overdue = True
                # A script dies of a signal and leaves torchrun, which alone can end its workers in
                # good order.
                if signals or overdue or (status or 0) < 0 or stops():
                    self._terminate(at_once=len(signals) > 1)
        finally:
            # What the child left behind goes with it; it may hold a GPU, and the pipes.
            status = self._group.reap()
        self._output.close(_DRAIN_SECONDS)
        return ProcessResult(
            status, bool(signals), overdue, self._output.tail, self._output.trouble
        )

    def _is_running(self) -> bool:
        """Return whether the child is to be waited for; or its group, where it was terminated or
        died of a signal.
        """
        if self._killed_at is not None and time.monotonic() - self._killed_at > GONE_SECONDS:
            return False  # It survived SIGKILL: stuck in the kernel, in a driver that hangs.
        status = self._group.status()
        return status is None or (
            (self._terminated_at is not None or status < 0) and self._group.is_group_running()
        )

    def _terminate(self, *, at_once: bool) -> None:
        """Terminate the child, then its group, then kill them."""
        now = time.monotonic()
        if self._terminated_at is None:
            self._terminated_at = now
            # The leader alone at first: one of its workers that is killed under it looks like a
            # failure.
            self._group.terminate_leader()
            return
        waited = now - self._terminated_at
        if at_once or waited > self._grace_s:
            self._killed_at = self._killed_at or now
            self._group.kill()
        elif not self._has_terminated_group and (
            self._group.status() is not None or waited > self._grace_s / 3
        ):
            self._has_terminated_group = True
            self._group.terminate_group()
