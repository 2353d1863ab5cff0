#!/usr/bin/env python3
"""Runs the tests on the oldest and the newest Python of this machine, without PyTorch.

Each gets an environment with the analysis tier alone (`.venv-3.10` and so on). Tests that need
PyTorch skip themselves there; a run in which most tests were skipped counts as failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parent))

import interpreters

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Run them one after the other; return the first status that isn't 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--oldest", action="store_true", help="the oldest Python alone")
    arguments = parser.parse_args()
    found = interpreters.find()
    if not found:
        print(
            "error: no Python 3.10 to 3.13 was found: put one on the PATH as python3.10 to python3.13", file=sys.stderr
        )
        return 2
    versions = list(found)
    for version in dict.fromkeys([versions[0], *([] if arguments.oldest else [versions[-1]])]):
        status = _test(version, found[version])
        if status != 0:
            return status
    return 0


def _test(version: str, python: str) -> int:
    folder = ROOT / f".venv-{version}"
    print(f"the analysis tier on Python {version}", flush=True)
    requirements = ["--requirements", "requirements-analysis.txt", "--groups", "test"]
    made = subprocess.run([python, str(ROOT / "tools" / "make_venv.py"), "--venv", str(folder), *requirements])
    if made.returncode != 0:
        return made.returncode
    inner = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.xml")
        # What is marked slow builds environments of its own; once, with the main one, is enough.
        options = [
            "-q",
            "-n",
            "auto",
            "--maxprocesses",
            "4",
            "--dist",
            "loadfile",
            "-r",
            "fE",
            "-m",
            "not slow and not reliability",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
        ]
        done = subprocess.run([str(inner), "-m", "pytest", *options], cwd=ROOT)
        if done.returncode != 0:
            return done.returncode
        return enough(ElementTree.parse(report).getroot())


def enough(report: ElementTree.Element) -> int:
    """Return 0 when most tests of a JUnit report ran, else 1 after a line that says so."""
    total = sum(int(suite.get("tests", 0)) for suite in report.iter("testsuite"))
    skipped = sum(int(suite.get("skipped", 0)) for suite in report.iter("testsuite"))
    if skipped * 2 > total or total == 0:
        print(f"error: {skipped} of {total} tests were skipped without PyTorch; most must run", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
