"""The short form of tools/load.py: the memory of commands on inputs that are larger than usual."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tool_modules import load_tool


@pytest.mark.reliability
@pytest.mark.parametrize("case", ["results", "page", "steps", "log", "watch", "files", "trace"])
def test_a_case_keeps_its_bounds(case, tmp_path, repository):
    # By a small process of its own: what a command takes counts from the size of the process that
    # starts it.
    words = [
        sys.executable,
        str(repository / "tools" / "load.py"),
        case,
        "--small",
        "--folder",
        str(tmp_path),
    ]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert case in done.stdout
    assert "MISSED" not in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_every_case_is_tested():
    assert list(load_tool("load").CASES) == [
        "results",
        "page",
        "steps",
        "log",
        "watch",
        "files",
        "trace",
    ]
