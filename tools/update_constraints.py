#!/usr/bin/env python3
"""Writes constraints.txt: the newest version of everything, for each supported Python.

Asks pip of each Python for what it would install (nothing is installed but pip itself, into a
temporary environment), and writes one line a version, with the marker of the Pythons it is for.
torch stays as it is pinned; change that line by hand, then run this.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import interpreters
from make_venv import group, pinned

ROOT = Path(__file__).resolve().parent.parent
HEAD = """\
# Exact versions for `make venv`, `make run` and `make test`, written by tools/update_constraints.py.
# A line without a marker holds for every Python; pip passes over a line for a package that nothing
# asks for, so that one file serves every system. What torch's CUDA build brings is left to torch,
# which pins it itself. A GPU container doesn't use this file: there what it has stays.
"""
# Which of these is asked for depends on the system, and the one that writes the file may not be it.
ELSEWHERE = ("colorama",)
GROUPS = ("dev", "docs", "browser", "sbom")


def main() -> int:
    """Resolve for every supported Python; return 2 when one of them is missing."""
    found = interpreters.find()
    missing = [version for version in interpreters.SUPPORTED if version not in found]
    if missing:
        print(
            f"error: Python {', '.join(missing)} is missing: all supported ones are needed",
            file=sys.stderr,
        )
        return 2
    resolved = {version: _resolve(python) for version, python in found.items()}
    names = sorted({name for packages in resolved.values() for name in packages})
    lines = [
        line
        for name in names
        for line in _lines(name, [resolved[version].get(name) for version in found])
    ]
    (ROOT / "constraints.txt").write_text(
        HEAD + "".join(line + "\n" for line in lines), encoding="utf-8"
    )
    print(f"constraints.txt: {len(lines)} lines for {len(names)} packages")
    return 0


def _resolve(python: str) -> dict[str, str]:
    """Return what pip would install for everything that the repository asks for: name ->
    version.
    """
    with tempfile.TemporaryDirectory() as folder:
        inner = Path(folder, "Scripts/python.exe" if os.name == "nt" else "bin/python")
        subprocess.run([python, "-m", "venv", folder], check=True)
        subprocess.run([str(inner), "-m", "pip", "install", "-qq", "--upgrade", "pip"], check=True)
        report = Path(folder, "report.json")
        options = [
            "-qq",
            "--dry-run",
            "--ignore-installed",
            "--report",
            str(report),
            "--only-binary=:all:",
        ]
        # pip and setuptools are what environments and builds start from.
        names = [
            pinned("torch"),
            "pip",
            "setuptools",
            *ELSEWHERE,
            *(one for name in GROUPS for one in group(name)),
        ]
        subprocess.run(
            [
                str(inner),
                "-m",
                "pip",
                "install",
                *options,
                *names,
                "-r",
                str(ROOT / "requirements.txt"),
            ],
            check=True,
        )
        packages = json.loads(report.read_text(encoding="utf-8"))["install"]
    versions = {}
    for package in packages:
        name = re.sub(r"[-_.]+", "-", package["metadata"]["name"]).lower()
        if not re.match(r"(nvidia-(?!ml-py)|cuda-|triton)", name):
            versions[name] = package["metadata"]["version"].split("+")[0]
    return versions


def _lines(name: str, versions: list[str | None]) -> list[str]:
    """Return one line for each run of Pythons with the same version; None if a Python needs no such
    package.
    """
    lines = []
    start = 0
    for end in range(1, len(versions) + 1):
        if end < len(versions) and versions[end] == versions[start]:
            continue
        if versions[start] is not None:
            lines.append(f"{name}=={versions[start]}{_marker(start, end)}")
        start = end
    return lines


def _marker(start: int, end: int) -> str:
    """Return the marker of SUPPORTED[start:end]; the newest also stands for those that come after
    it.
    """
    conditions = []
    if start > 0:
        conditions.append(f'python_version >= "{interpreters.SUPPORTED[start]}"')
    if end < len(interpreters.SUPPORTED):
        conditions.append(f'python_version < "{interpreters.SUPPORTED[end]}"')
    return f" ; {' and '.join(conditions)}" if conditions else ""


if __name__ == "__main__":
    sys.exit(main())
