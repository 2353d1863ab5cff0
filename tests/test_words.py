"""Plain English in what users read: README and --help of every command hold none of the expressions to avoid."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tprimat.cli import COMMANDS

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = [REPOSITORY / "README.md", *sorted(REPOSITORY.glob("docs/*.md"))]

AVOID = re.compile(
    r"""\b(?:
        (?:a|each|both|all|the\ other)\ sides? | (?:sets?|held|holds?|stands?)\ (?:\w+\ ){0,2}against | stands?\ in
        | (?:are|is)\ of | (?:passed|left)\ (?:over|out) | (?:is|was)\ said | said\ aloud | by\ level | what\ it\ is
        | can't\ be\ told | as\ many\ times | in\ turns? | (?:the\ )?figures? | no\ claim | known\ by\ heart | spikes?
        | graver | fault\ of | in\ possession | wishes | pictures? | processors?
    )\b""",
    re.VERBOSE | re.IGNORECASE,
)


def avoided(text: str) -> list[str]:
    """Return the expressions to avoid, each with what is around it."""
    flat = " ".join(text.split())
    return [flat[max(0, each.start() - 30) : each.end() + 30] for each in AVOID.finditer(flat)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page):
    assert avoided(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("command", [(name,) for name in COMMANDS] + [("benchmark", "--model", "encdec")], ids=" ".join)
def test_help(command):
    done = subprocess.run(
        [sys.executable, "-m", "tprimat", *command, "--help"],
        cwd=REPOSITORY,
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert avoided(done.stdout) == []
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("folder", ["tests/data/published", "docs/examples/published", "docs/examples/own"])
def test_comparisons(folder, tmp_path):
    done = subprocess.run(
        [sys.executable, "compare_results.py", folder, "--no-plot", "--results-dir", str(tmp_path)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert avoided(done.stdout) == []


@pytest.mark.parametrize("text", ["One run a side", "held against the peak", "the figures are rough", "left out"])
def test_what_is_found(text):
    assert avoided(text)
