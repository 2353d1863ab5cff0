"""Plain English in what users read: no page, --help, comparison or text in the code has an
expression to avoid.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tprimat.cli import COMMANDS, run

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = [*sorted(REPOSITORY.glob("*.md")), *sorted(REPOSITORY.glob("docs/*.md"))]

AVOID = re.compile(
    r"""\b(?:
        (?:a|each|both|all|the\ other)\ sides? | (?:sets?|held|holds?|stands?)\ (?:\w+\ ){0,2}against | stands?\ in
        | (?:are|is)\ of | (?:passed|left)\ (?:over|out) | (?:is|was)\ said | said\ aloud | by\ level | what\ it\ is
        | can't\ be\ told | as\ many\ times | in\ turns? | (?:the\ )?figures? | no\ claim | known\ by\ heart | spikes?
        | graver | fault\ of | in\ possession | wishes | pictures? | processors?
    )\b""",
    re.VERBOSE | re.IGNORECASE,
)


KEPT = {
    "CUDA cores or stream processors of one device",
    "host clock of torchtitan's metrics processor",
    "-Core Processor",
    "unknown: the file has the figure alone",
    "whole batches, data included, a mean of a window of them; the first ones are left out",
}
"""AMD's and torchtitan's own terms, and step timer scopes of result files, by which a comparison
knows equal timers, and names of CPUs.
"""


def avoided(text: str) -> list[str]:
    """Return the expressions to avoid, each with what is around it."""
    flat = " ".join(text.split())
    for kept in KEPT:
        flat = flat.replace(kept, "")
    return [flat[max(0, each.start() - 30) : each.end() + 30] for each in AVOID.finditer(flat)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page):
    assert avoided(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "command", [(name,) for name in COMMANDS] + [("benchmark", "--model", "encdec")], ids=" ".join
)
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


def texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string below a node that is no docstring, with {} for the values
    in it.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.lineno, child.value
        elif isinstance(child, ast.JoinedStr):
            parts = [
                part.value if isinstance(part, ast.Constant) else "{}" for part in child.values
            ]
            yield child.lineno, "".join(map(str, parts))
            yield from (
                each
                for part in child.values
                if not isinstance(part, ast.Constant)
                for each in texts(part)
            )
        elif not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
            yield from texts(child)


def test_texts_in_the_code():
    found = [
        f"{path.relative_to(REPOSITORY)}:{line}: {found}"
        for path in sorted((REPOSITORY / "tprimat").rglob("*.py"))
        for line, text in texts(ast.parse(path.read_text(encoding="utf-8")))
        if len(text.split()) > 2 and text not in KEPT
        for found in avoided(text)
    ]
    assert found == []


@pytest.fixture
def compared(tmp_path, monkeypatch, capsys):
    """What a comparison of a directory says, warnings and settings included.

    Of the details the report has the same text as --verbose, with names in one line.
    """
    monkeypatch.chdir(REPOSITORY)

    def compare(folder) -> str:
        capsys.readouterr()
        run("compare", [str(folder), "--no-plot", "--verbose", "--results-dir", str(tmp_path)])
        shown = capsys.readouterr()
        details = (tmp_path / "comparison_report.md").read_text(encoding="utf-8")
        return shown.out.partition("\nPerformance metrics\n")[0] + details + shown.err

    return compare


@pytest.mark.parametrize(
    "folder", ["tests/data/published", "docs/examples/published", "docs/examples/own"]
)
def test_comparisons(folder, compared):
    assert avoided(compared(folder)) == []


def test_comparisons_of_results(samples, compared):
    assert avoided(compared(samples / "results")) == []


SAMPLES = REPOSITORY.parent / "shared" / "samples"
LOGS = sorted(path.name for path in SAMPLES.glob("*/") if path.name not in ("results", "traces"))
"""Directories of logs by framework; results are compared above, and profiler traces take minutes to
reject.
"""


@pytest.mark.skipif(not LOGS, reason="the directory of real samples does not lie beside this clone")
@pytest.mark.parametrize("name", LOGS)
def test_comparisons_of_logs(name, samples, tmp_path, compared):
    """Of a directory eight logs, from the smallest to the largest: test_texts_in_the_code has the
    sentences of all.
    """
    logs = tmp_path / "logs"
    logs.mkdir()
    by_size = sorted((samples / name).iterdir(), key=lambda path: (path.stat().st_size, path.name))
    for path in by_size[:: max(1, len(by_size) // 8)]:
        (logs / path.name).symlink_to(path)
    assert run("read", [str(logs), "--output-dir", str(tmp_path / "results"), "--quiet"]) == 0
    assert avoided(compared(tmp_path / "results")) == []


@pytest.mark.parametrize(
    "text", ["One run a side", "held against the peak", "the figures are rough", "left out"]
)
def test_what_is_found(text):
    assert avoided(text)
