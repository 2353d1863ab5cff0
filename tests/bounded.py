"""Runs a command of the product in a process of its own with little memory, and measures what it
took.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

_RUN = """
import json, re, resource, sys, time
from pathlib import Path
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
from tprimat import cli
status = cli.run(sys.argv[2], sys.argv[3:])
sys.stdout.flush()
peak = re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]
Path("peak").write_text(json.dumps([status, int(peak) * 1024, time.process_time()]))
"""

LEAST = 150e6
"""Bytes that Python, numpy, scipy and msgspec take, more or less."""


class Done(NamedTuple):
    """Exit status, most bytes of memory, seconds of CPU, and what was printed."""

    status: int
    peak: int
    seconds: float
    output: str


def run(
    folder: Path, repository: Path, *arguments: str, limit: int = 1 << 30, timeout: float = 600
) -> Done:
    """Run a command in a directory within `limit` bytes of addresses."""
    done = subprocess.run(
        [sys.executable, "-c", _RUN, str(limit), *arguments],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(repository),
            "OPENBLAS_NUM_THREADS": "1",
            "TMPDIR": str(folder),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    output = done.stdout + done.stderr
    try:
        status, peak, seconds = json.loads((folder / "peak").read_text())
    except FileNotFoundError:
        raise AssertionError(f"the process died with {done.returncode}: {output[-2000:]}") from None
    return Done(status, peak, seconds, output)
