"""Run a command in a process of its own and measure it, for the benchmarks beside this file."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MB = 1_000_000


class Usage(NamedTuple):
    """What a process used: CPU time, user and system, in s; peak memory in MB; what it printed;
    wall time in s.
    """

    cpu_s: float
    memory_mb: float
    output: str
    wall_s: float


def measure(
    arguments: Sequence[str],
    *,
    python: str = sys.executable,
    environment: Mapping[str, str] | None = None,
    meanwhile: Callable[[], None] = lambda: None,
    statuses: Sequence[int] = (0,),
    stdin: int | None = None,
) -> Usage:
    """Run Python with some arguments, and call `meanwhile`. Raises SystemExit if its status is none
    of `statuses`.

    A file descriptor for its standard input is closed here, so that a pipe breaks with the process.
    """
    # Files, as nobody reads a pipe meanwhile.
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        begun = time.perf_counter()
        process = subprocess.Popen(
            [python, *arguments],
            env=environment,
            cwd=ROOT,
            stdin=stdin,
            stdout=output,
            stderr=errors,
        )
        if stdin is not None:
            os.close(stdin)
        meanwhile()
        # wait4 tells the usage of this one process.
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        said, complaint = output.read(), errors.read()[-500:]
    if process.returncode not in statuses:
        raise SystemExit(
            f"{' '.join(arguments)} ended with status {process.returncode}: {complaint}"
        )
    # Linux counts in KiB, macOS in bytes.
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Usage(usage.ru_utime + usage.ru_stime, peak / MB, said, wall)
