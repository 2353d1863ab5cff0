#!/usr/bin/env python3
"""How long the commands take to answer --help: CPU time, bytecode compiled, beside `python3 -c pass`."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = {
    "python3 -c pass": ["-c", "pass"],
    "benchmark.py --help": [str(ROOT / "benchmark.py"), "--help"],
    "compare_results.py --help": [str(ROOT / "compare_results.py"), "--help"],
}
NOTHING = "python3 -c pass"


def cpu_time(arguments: list[str], environment: dict[str, str]) -> float:
    """Of one process and its children, user and system. Units: s."""
    # wait4 tells the usage of this one process.
    process = subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with status {process.returncode}: {said.decode()[-200:]}")
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    """Prints the table."""
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
        middle = statistics.median(measured)
        print(
            f"{name:<26} {middle * 1e3:>7.1f} {min(measured) * 1e3:>7.1f} {max(measured) * 1e3:>8.1f} "
            f"{middle / nothing:>6.1f}"
        )
    print("wanted: below 150 ms where nothing takes 10 ms, that is a ratio below 15")
    return 0


if __name__ == "__main__":
    sys.exit(main())
