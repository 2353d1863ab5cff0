#!/usr/bin/env python3
"""Runs the tests of further frameworks, in an environment of their own that has accelerate and DeepSpeed.

In `.venv` these tests skip themselves, or train a small part; here everything is trained: each model in
each framework that a CPU can run, with one and with two processes. What is missing is a failure here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv-frameworks"
TESTS = ("tests/frameworks/test_alike.py", "tests/record/test_trainer_callback.py")


def main() -> int:
    """Create the environment if missing, then test; return pytest's status."""
    maker = [sys.executable, str(ROOT / "tools" / "make_venv.py"), "--venv", str(FOLDER)]
    made = subprocess.run([*maker, "--requirements", "requirements.txt", "--groups", "frameworks", "test"])
    if made.returncode != 0:
        return made.returncode
    folder = FOLDER / ("Scripts" if os.name == "nt" else "bin")
    # ninja, which DeepSpeed builds with, may lie in this environment alone.
    path = os.pathsep.join([str(folder), os.environ.get("PATH", "")])
    # Two trainings at a time, each with a thread a process.
    environment = {**os.environ, "TPRIMAT_ALL_FRAMEWORKS": "1", "OMP_NUM_THREADS": "1", "PATH": path}
    python = str(folder / ("python.exe" if os.name == "nt" else "python"))
    command = [
        python,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-n",
        "2",
        # A training is long: each worker is given the next one when it is done.
        "--maxschedchunk",
        "1",
        *TESTS,
        *sys.argv[1:],
    ]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
