"""A command with all its descendants, and how to stop them.

Three things hold them together, since each alone leaves a gap. A process group, which one call
reaches. A mark in the environment, which finds those that left the group: torchrun puts each of its
workers into a session of its own. And a watchdog, a small shell that does nothing until this
process is gone: whoever kills the command that started a training doesn't leave it running.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import psutil

from tprimat.errors import UsageError
from tprimat.machine import held_memory
from tprimat.machine.host import Environ

MARK = "TPRIMAT_FAMILY"
"""The environment variable that every process of a group inherits."""

_DEAD = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)

GONE_SECONDS = 15.0
"""How long to wait for a killed leader. Nothing stops one that a driver holds in the kernel."""

# The child itself sends the watchdog its number, before it becomes the command: there is no moment
# at which it runs unwatched.
_START = 'echo $$ >&0; exec "$@" </dev/null'

_WATCHDOG = """
read -r leader || exit 0
while read -r word; do [ "$word" = end ] && exit 0; done
kill -s TERM -- "$leader"
waited=0
while kill -s 0 -- "-$leader" && [ "$waited" -lt "$2" ]; do
    sleep 1
    waited=$((waited + 1))
    [ "$waited" -ne "$(($2 / 3))" ] || kill -s TERM -- "-$leader"
done
kill -s KILL -- "-$leader"
for file in /proc/[0-9]*/environ; do
    if grep -qs "$1" "$file"; then
        pid=${file#/proc/}
        kill -s KILL -- "${pid%/environ}"
    fi
done
"""


class ProcessGroup:
    """A command that has been started, and its descendants. Raises UsageError when it can't be
    started.

    Should this process be gone by then, the grace period lies between SIGTERM and SIGKILL.
    """

    def __init__(self, argv: Sequence[str], env: Environ, cwd: Path, grace_period_s: float) -> None:
        self._mark = secrets.token_hex(8)
        self._watchdog: int | None = None
        try:
            _check(argv[0], env, cwd)
            self._process = self._start(argv, env, cwd, grace_period_s)
        except OSError as error:
            self._stop_watchdog()
            raise UsageError(
                f"{argv[0]} cannot be started: {error.strerror or error}", heading="training-failed"
            ) from error
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self.stdout: IO[bytes] = self._process.stdout
        self.stderr: IO[bytes] = self._process.stderr

    def status(self) -> int | None:
        """Return the leader's exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def terminate_leader(self) -> None:
        """Send SIGTERM to the leader alone: it stops its own workers in good order."""
        self._process.terminate()

    def terminate_group(self) -> None:
        """Send SIGTERM to the whole group."""
        self._signal_group("SIGTERM")

    def kill(self) -> None:
        """Send SIGKILL to the group and to any process that left it."""
        self._signal_group("SIGKILL")
        for process in psutil.process_iter():
            # Others' environments can't be read, and theirs lack the mark; some systems show none.
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(MARK) == self._mark:
                    process.kill()

    def reap(self) -> int:
        """Kill the group, stop the watchdog, and return the leader's exit status."""
        self.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GONE_SECONDS)
        self._stop_watchdog()
        if self._process.returncode is None:
            return -int(getattr(signal, "SIGKILL", 9))
        return self._process.returncode

    def is_group_running(self) -> bool:
        """Return whether a process of the group is still running; a zombie is not."""
        for pid in psutil.pids() if hasattr(os, "getpgid") else ():
            with contextlib.suppress(OSError, psutil.Error):
                if (
                    os.getpgid(pid) == self._process.pid
                    and psutil.Process(pid).status() not in _DEAD
                ):
                    return True
        return False

    def _start(
        self, argv: Sequence[str], env: Environ, cwd: Path, grace_period_s: float
    ) -> subprocess.Popen[bytes]:
        shell = shutil.which("sh") if os.name == "posix" else None
        stdin = subprocess.DEVNULL
        if shell is not None:
            pipe, self._watchdog = os.pipe()
            try:
                seconds = str(max(3, round(grace_period_s)))
                subprocess.Popen(
                    [shell, "-c", _WATCHDOG, "tprimat-watchdog", f"{MARK}={self._mark}", seconds],
                    stdin=pipe,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    start_new_session=True,
                )
            finally:
                os.close(pipe)
            argv = [shell, "-c", _START, "sh", *argv]
            stdin = self._watchdog
        return subprocess.Popen(
            argv,
            env={**env, **held_memory.handed_over(), MARK: self._mark},
            cwd=cwd,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C on the terminal then reaches this program alone, which decides.
            start_new_session=True,
        )

    def _stop_watchdog(self) -> None:
        pipe = self._watchdog
        self._watchdog = None
        if pipe is not None:
            with contextlib.suppress(OSError):
                os.write(pipe, b"end\n")
            os.close(pipe)

    def _signal_group(self, name: str) -> None:
        if not hasattr(os, "killpg"):
            self._process.kill() if name == "SIGKILL" else self._process.terminate()
            return
        # macOS refuses permission where Linux reports that no process is left.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, getattr(signal, name))


def _check(program: str, env: Environ, cwd: Path) -> None:
    """Raise OSError if the program can't be started; the shell in between would only print that."""
    named = str(cwd / program) if Path(program).name != program else program
    if shutil.which(named, path=env.get("PATH")) is None:
        there = Path(named).is_file()
        raise (
            PermissionError(13, "Permission denied")
            if there
            else FileNotFoundError(2, "No such file or directory")
        )
