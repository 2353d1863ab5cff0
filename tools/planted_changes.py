"""Plant changes in tprimat, one at a time, and report which of them no test notices.

    python tools/planted_changes.py --list 40 --seed 1        the changes that are drawn
    python tools/planted_changes.py 40 --seed 1 --without 3,7 plant them, but others for two of them
    python tools/planted_changes.py 40 --seed 1 --only 12     one of them again

Changes are drawn over the syntax trees of all files, so that a large file has more of them. A
comparison, a number, an operator, a condition or a call becomes another. Those that change nothing
that anyone could see (equivalent ones) are found by reading the list, and given to --without
beforehand. For each change the tests nearest to its file run first (of its name, then of its
folder, then all others that name its module or its folder's), until one fails or the time is up.

The repository is copied: the checkout itself stays as it is.
"""

from __future__ import annotations

import argparse
import ast
import copy
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
TIME_LIMIT_S = 300.0
OTHER = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
"""What takes the place of an operator."""


class Change(NamedTuple):
    """A change: the file, the line, what is there and what is planted instead."""

    path: Path
    line: int
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        name = self.path.relative_to(REPOSITORY)
        return f"{name}:{self.line}  {self.before}  ->  {self.after}"


def changed(node: ast.AST) -> ast.AST | None:
    """Return another node for one that can be changed; None for others."""
    other = copy.deepcopy(node)
    if isinstance(other, ast.Compare) and type(other.ops[0]) in OTHER:
        other.ops[0] = OTHER[type(other.ops[0])]()
    elif isinstance(other, (ast.BinOp, ast.BoolOp)) and type(other.op) in OTHER:
        is_text = any(isinstance(part, ast.JoinedStr) for part in ast.walk(other))
        if is_text:
            return None
        other.op = OTHER[type(other.op)]()
    elif isinstance(other, ast.UnaryOp) and isinstance(other.op, ast.Not):
        return other.operand
    elif isinstance(other, ast.Constant) and isinstance(other.value, bool):
        other.value = not other.value
    elif isinstance(other, ast.Constant) and isinstance(other.value, (int, float)):
        is_small = isinstance(other.value, int) or other.value == 0
        other.value = other.value + 1 if is_small else other.value * 1.5
    elif isinstance(other, ast.If):
        other.test = ast.UnaryOp(ast.Not(), other.test)
    elif isinstance(other, ast.Expr) and isinstance(other.value, ast.Call):
        return ast.Pass()
    elif isinstance(other, ast.Return) and other.value is not None:
        other.value = ast.Constant(None)
    else:
        return None
    return other


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that can be changed, without those of annotations."""
    for node in ast.walk(tree):
        if hasattr(node, "lineno") and changed(node) is not None:
            yield node


def drawn(count: int, seed: int, without: frozenset[int]) -> dict[int, Change]:
    """Return so many changes by their numbers, drawn over all files, without those left out."""
    places = []
    for path in sorted((REPOSITORY / "tprimat").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for number, _ in enumerate(nodes(tree)):
            places.append((path, number))
    random.Random(seed).shuffle(places)
    chosen: dict[int, Change] = {}
    for number, (path, index) in enumerate(places):
        if len(chosen) == count:
            break
        if number not in without:
            chosen[number] = planted(path, index)
    return chosen


def planted(path: Path, index: int) -> Change:
    """Return the change of one node of a file."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    node = list(nodes(tree))[index]
    other = changed(node)
    assert other is not None
    start, end = span(text, node)
    before = text[start:end]
    if isinstance(node, ast.If):
        start, end = span(text, node.test)
        before = text[start:end]
        after = f"(not ({before}))"
    elif isinstance(node, (ast.Return, ast.Expr)):
        after = ast.unparse(other)
    else:
        after = f"({ast.unparse(other)})"
    return Change(path, node.lineno, before, after, text[:start] + after + text[end:])


def span(text: str, node: ast.AST) -> tuple[int, int]:
    """Return where a node begins and ends in a text, in characters."""
    lines = text.splitlines(keepends=True)
    ends = []
    for line, column in (
        (node.lineno, node.col_offset),
        (node.end_lineno, node.end_col_offset),
    ):
        in_line = lines[line - 1].encode()[:column].decode()
        ends.append(sum(map(len, lines[: line - 1])) + len(in_line))
    return ends[0], ends[1]


def tests_of(path: Path) -> list[Path]:
    """Return the test files that could notice a change of a file, the nearest first."""
    name = path.relative_to(REPOSITORY).with_suffix("")
    parts = [part for part in name.parts if part != "__init__"]
    module = ".".join(parts)
    stem = parts[-1].strip("_")
    ranked = []
    for test in sorted((REPOSITORY / "tests").rglob("test_*.py")):
        folder = test.relative_to(REPOSITORY / "tests").parts[:-1]
        if folder[:1] in (("with_nemo",), ("browser",), ("slurm",)) or "sweep_kills" in test.name:
            continue
        text = test.read_text(encoding="utf-8")
        package, _, last = module.rpartition(".")
        names_it = module in text or re.search(
            rf"from {re.escape(package)} import [^\n]*\b{re.escape(last)}\b", text
        )
        is_near = folder == tuple(parts[1 : 1 + len(folder)]) and folder != ()
        rank = 4
        is_named_like_its_folder = any(part in test.stem for part in parts[2:])
        if (names_it and stem in test.stem) or (is_near and is_named_like_its_folder):
            rank = 0
        elif names_it:
            rank = 1
        elif is_near:
            rank = 2
        elif package in text:
            rank = 3
        ranked.append((rank, test.stat().st_size if rank == 4 else 0, test))
    return [test for *_, test in sorted(ranked)]


def noticed_by(change: Change, copied: Path, time_limit_s: float) -> str | None:
    """Return the first test that fails with a change and passes without it, None if none does
    within the time.
    """
    target = copied / change.path.relative_to(REPOSITORY)
    original = target.read_text(encoding="utf-8")
    tests = [str(test.relative_to(REPOSITORY)) for test in tests_of(change.path)]
    ends = time.monotonic() + time_limit_s
    for first in range(0, len(tests), 4):
        chosen = tests[first : first + 4]
        excluded: list[str] = []
        while time.monotonic() < ends:
            target.write_text(change.source, encoding="utf-8")
            failed = first_failure(copied, chosen, excluded)
            target.write_text(original, encoding="utf-8")
            if failed is None:
                break
            if first_failure(copied, [failed], []) is None:
                return failed
            excluded.append(failed)
    return None


def first_failure(copied: Path, tests: list[str], excluded: list[str]) -> str | None:
    """Return the first test that fails, or the reason why pytest itself does."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    for test in excluded:
        command += ["--deselect", test]
    done = subprocess.run(
        [*command, "--timeout", "120", *tests], cwd=copied, capture_output=True, text=True
    )
    failed = re.search(r"^(?:FAILED|ERROR) (\S+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    if failed:
        return failed[1]
    # 5: no test was chosen. 4: one was given that isn't there. 1 without a failure: a test that
    # takes too long on a busy machine ended pytest, which shows nothing.
    return None if done.returncode in (0, 1, 4, 5) else tests[0]


def main() -> int:
    """Plant the changes that are asked for; return 1 if fewer than nine in ten are noticed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without", default="", help="numbers of changes to leave out")
    parser.add_argument("--only", default="", help="numbers of the changes to plant")
    parser.add_argument("--list", action="store_true", help="show the changes and plant none")
    parser.add_argument("--time-limit", type=float, default=TIME_LIMIT_S, help="seconds a change")
    options = parser.parse_args()
    without = frozenset(map(int, filter(None, options.without.split(","))))
    only = frozenset(map(int, filter(None, options.only.split(","))))
    changes = drawn(options.count, options.seed, without)
    if options.list:
        for number, change in changes.items():
            print(f"{number}: {change}")
        return 0
    missed = 0
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        copied = Path(folder) / "copy"
        shutil.copytree(
            REPOSITORY,
            copied,
            symlinks=True,
            ignore=shutil.ignore_patterns(".venv*", "build", ".git", "__pycache__"),
        )
        shared = REPOSITORY.parent / "shared"
        if shared.is_dir():
            (Path(folder) / "shared").symlink_to(shared)
        for number, change in changes.items():
            if only and number not in only:
                continue
            notice = noticed_by(change, copied, options.time_limit)
            missed += notice is None
            print(f"{number}: {change}\n    {notice or 'NOT NOTICED'}", flush=True)
    return int(missed > options.count / 10)


if __name__ == "__main__":
    sys.exit(main())
