#!/usr/bin/env python3
"""How long each command takes to answer --help: CPU time, bytecode compiled, compared with `python3 -c pass`."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tprimat.cli import COMMANDS as NAMES

COMMANDS = {
    "python3 -c pass": ["-c", "pass"],
    **{f"{name} --help": ["-m", "tprimat", name, "--help"] for name in NAMES},
}
NOTHING = "python3 -c pass"
LIMIT = 8
"""Times the CPU time of `python3 -c pass` that a command's --help may take."""


def cpu_time(arguments: list[str], environment: dict[str, str]) -> float:
    """Return the CPU time of a command and its children, user and system, s."""
    # wait4 tells the usage of this one process.
    process = subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=ROOT
    )
    assert process.stderr is not None
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} exited with status {process.returncode}: {errors.decode()[-200:]}")
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
    parser.add_argument("--rounds", type=int, default=15, help="calls of each (%(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = cache
        times: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for number in range(arguments.rounds + 1):
            for name, command in COMMANDS.items():
                took = cpu_time(command, environment)
                if number:  # the first round compiles
                    times[name].append(took)
    nothing = statistics.median(times[NOTHING])
    print(f"CPU time in ms, of {arguments.rounds} calls each")
    print(f"{'':<26} {'median':>7} {'lowest':>7} {'highest':>8} {'ratio':>6}")
    for name, measured in times.items():
        median = statistics.median(measured)
        print(
            f"{name:<26} {median * 1e3:>7.1f} {min(measured) * 1e3:>7.1f} {max(measured) * 1e3:>8.1f} "
            f"{median / nothing:>6.1f}"
        )
    slow = [name for name, measured in times.items() if statistics.median(measured) > LIMIT * nothing]
    print(f"limit: {LIMIT}; above it: {', '.join(slow) or 'none'}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
