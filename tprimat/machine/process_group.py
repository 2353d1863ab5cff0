"""A started command with all that it starts itself, and the end of all of them.

Three things hold a family together, since each alone leaves a gap. A process group, which one call
reaches. A mark in the environment, by which Linux shows those that left the group: torchrun puts
each of its workers into a session of its own. And a guard, a small shell that does nothing until
this process is gone: whoever kills the command that started a training doesn't leave it running.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tprimat.errors import UsageError

MARK = "TPRIMAT_FAMILY"
"""The environment variable that every process of a family inherits."""

GONE_SECONDS = 15.0
"""How long a killed leader is waited for. One that a driver holds in the kernel can't be ended by anybody."""

_PROC = Path("/proc")

# The child itself tells the guard its number, before it becomes the command: there is no moment at
# which it runs unguarded.
_START = 'echo $$ >&0; exec "$@" </dev/null'

_GUARD = """
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
    """A command that has been started, and its descendants.

    Args:
        argv: program and arguments.
        env: its whole environment.
        cwd: its folder.
        grace_s: seconds between asking and killing, should this process be gone by then.

    Attributes:
        stdout, stderr: what it prints, as bytes.

    Raises UsageError when it can't be started.
    """

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, grace_s: float) -> None:
        self._mark = f"{MARK}={secrets.token_hex(8)}"
        self._reach: int | None = None
        try:
            _check(argv[0], env, cwd)
            self._process = self._started(argv, env, cwd, grace_s)
        except OSError as error:
            self._dismiss_guard()
            raise UsageError(
                f"{argv[0]} can't be started: {error.strerror or error}", heading="training-failed"
            ) from error

    @property
    def stdout(self) -> IO[bytes]:
        """Its standard output."""
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def stderr(self) -> IO[bytes]:
        """Its standard error."""
        assert self._process.stderr is not None
        return self._process.stderr

    def status(self) -> int | None:
        """The leader's exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def ask_leader(self) -> None:
        """Asks the leader alone to end: it ends its own workers in good order."""
        self._process.terminate()

    def ask_all(self) -> None:
        """Asks the whole group."""
        self._signal_group("SIGTERM")

    def kill(self) -> None:
        """Leaves nobody a choice, those who left the group neither."""
        self._signal_group("SIGKILL")
        for pid in self._strays():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def bury(self) -> int:
        """The exit status of the leader, who was killed at the latest now; its guard goes home."""
        self.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GONE_SECONDS)
        self._dismiss_guard()
        return -int(getattr(signal, "SIGKILL", 9)) if self._process.returncode is None else self._process.returncode

    def group_lives(self) -> bool:
        """Whether a process of the group is still running; one that nobody has waited for is not."""
        for file in _PROC.glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, _, group, *_ = file.read_text(errors="replace").rpartition(")")[2].split()
                if int(group) == self._process.pid and state not in "ZX":
                    return True
        return False

    def _started(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, grace_s: float
    ) -> subprocess.Popen[bytes]:
        shell = shutil.which("sh") if os.name == "posix" else None
        stdin: int = subprocess.DEVNULL
        if shell is not None:
            listening, self._reach = os.pipe()
            try:
                subprocess.Popen(
                    [shell, "-c", _GUARD, "tprimat-guard", self._mark, str(max(3, round(grace_s)))],
                    stdin=listening,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    start_new_session=True,
                )
            finally:
                os.close(listening)
            argv, stdin = [shell, "-c", _START, "sh", *argv], self._reach
        return subprocess.Popen(
            argv,
            env={**env, MARK: self._mark.partition("=")[2]},
            cwd=cwd,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C on the terminal then reaches this program alone, which decides.
            start_new_session=True,
        )

    def _dismiss_guard(self) -> None:
        reach, self._reach = self._reach, None
        if reach is not None:
            with contextlib.suppress(OSError):
                os.write(reach, b"end\n")
            os.close(reach)

    def _strays(self) -> list[int]:
        """Running processes with the family's mark, wherever they went; empty where the system shows none."""
        mark = self._mark.encode()
        strays = []
        for file in _PROC.glob("[0-9]*/environ"):
            # Others' environments can't be read, and they are none of ours.
            with contextlib.suppress(OSError):
                if mark in file.read_bytes().split(b"\0"):
                    strays.append(int(file.parent.name))
        return strays

    def _signal_group(self, name: str) -> None:
        if not hasattr(os, "killpg"):
            self._process.kill() if name == "SIGKILL" else self._process.terminate()
            return
        # macOS refuses permission where Linux says that nobody is left.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, getattr(signal, name))


def _check(program: str, env: Mapping[str, str], cwd: Path) -> None:
    """Raises OSError where the program can't be started; the shell in between would only print that."""
    named = str(cwd / program) if Path(program).name != program else program
    if shutil.which(named, path=env.get("PATH")) is None:
        there = Path(named).is_file()
        raise PermissionError(13, "Permission denied") if there else FileNotFoundError(2, "No such file or directory")
