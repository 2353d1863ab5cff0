"""Run commands of TensorPrimat on an emulated machine, for tools/record_golden.py.

It knows the product by its entry points alone and patches none of its modules: Python's own search
for packages and its opening of files lead to the stand-ins that golden_machines.py has written.

A machine is one process: whatever the product remembers of a machine can't leak into the next one.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import importlib
import importlib.machinery
import io
import json
import os
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from golden_machines import ABSENT, DISTRIBUTIONS, HIDDEN, REPOSITORY, SYSTEM_FILES


class _Finder(importlib.machinery.PathFinder):
    """Find what Python always finds, but none of HIDDEN outside of the stand-ins."""

    only = ""

    @classmethod
    def find_spec(cls, fullname: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        """See importlib."""
        if path is None and fullname in HIDDEN:
            path = [cls.only]
        return super().find_spec(fullname, path, target)

    @classmethod
    def find_distributions(cls, *arguments: Any, **options: Any) -> Iterator[Any]:
        """See importlib.metadata."""
        hidden = {*(DISTRIBUTIONS.get(each, each) for each in HIDDEN), "numpy"}
        hidden |= {each.replace("_", "-") for each in hidden} | {
            each.replace("-", "_") for each in hidden
        }
        for each in super().find_distributions(*arguments, **options):
            place = str(each.locate_file(""))
            if place.startswith(cls.only) or each.metadata["Name"] not in hidden:
                yield each


def pretend(folder: Path) -> None:
    """Make this process see the machine's packages, device files and processor instead of the real
    ones.
    """
    sys.path.insert(0, str(folder / "packages"))
    sys.path.insert(0, str(REPOSITORY))
    _Finder.only = str(folder / "packages")
    sys.meta_path[:] = [
        _Finder if each is importlib.machinery.PathFinder else each for each in sys.meta_path
    ]
    emulated = {name: str(folder / "system") + name for name in (*SYSTEM_FILES, *ABSENT)}

    def redirect(function: Any) -> Any:
        def call(path: Any, *arguments: Any, **options: Any) -> Any:
            if isinstance(path, (str, os.PathLike)):
                path = emulated.get(os.fspath(path), path)
            return function(path, *arguments, **options)

        return call

    for module, names in ((builtins, ("open",)), (io, ("open",)), (os, ("stat", "access", "open"))):
        for name in names:
            setattr(module, name, redirect(getattr(module, name)))
    os.sched_getaffinity = lambda pid: set(range(8))  # type: ignore[attr-defined,unused-ignore]
    os.cpu_count = lambda: 8


def run(argv: Sequence[str]) -> dict[str, Any]:
    """Run one command line in this process, as a script of the repository or as `python -m
    tprimat`.

    Args:
        argv: a script's path from the repository's root, or "tprimat"; then its arguments.

    Returns:
        Exit status, and what it printed.
    """
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)
    )
    before = sys.argv
    sys.argv = list(argv)
    status: Any = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            if argv[0] == "tprimat":
                status = importlib.import_module("tprimat.__main__").main()
            else:
                runpy.run_path(str(REPOSITORY / argv[0]), run_name="__main__")
        except SystemExit as end:
            status = end.code
        except Exception:  # noqa: BLE001 - whatever escapes the product is part of what it does
            status = "traceback"
            traceback.print_exc(file=err)
        finally:
            sys.argv = before
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8", "replace"))  # type: ignore[attr-defined]
    return {"status": 0 if status is None else status, "out": texts[0], "err": texts[1]}


def parsers(argv: Sequence[str]) -> list[dict[str, Any]]:
    """Return the options of a command as argparse holds them when the command parses its
    arguments.
    """
    seen: list[argparse.ArgumentParser] = []
    original = argparse.ArgumentParser.parse_known_args

    def capture(self: argparse.ArgumentParser, *arguments: Any, **named: Any) -> Any:
        if not self.add_help:  # it only finds out which parser is meant
            return original(self, *arguments, **named)
        seen.append(self)
        raise SystemExit(0)

    argparse.ArgumentParser.parse_known_args = capture  # type: ignore[method-assign,assignment]
    try:
        run(argv)
    finally:
        argparse.ArgumentParser.parse_known_args = original  # type: ignore[method-assign]
    if not seen:
        return []
    rows = []
    for action in seen[0]._actions:
        row = {
            "default": None if action.default is None else str(action.default),
            "const": None if action.const is None else str(action.const),
            "choices": None if action.choices is None else [str(each) for each in action.choices],
            "nargs": None if action.nargs is None else str(action.nargs),
            "required": action.required or None,
            "metavar": action.metavar,
            "hidden": True if action.help == argparse.SUPPRESS else None,
        }
        name = ", ".join(action.option_strings) or str(action.metavar or action.dest).upper()
        rows.append(
            {"name": name, **{key: value for key, value in row.items() if value is not None}}
        )
    return rows


def main() -> None:
    """Read cases from standard input as JSON, run them, write what came of them to standard output
    as JSON.

    A case is a list of command lines that share a new directory. Its last line's outcome counts,
    and the JSON files below the directory `collect`; of the others the exit statuses alone.
    """
    work = json.load(sys.stdin)
    folder = Path(work["folder"])
    pretend(folder)
    outcomes = []
    for number, case in enumerate(work["cases"]):
        where = folder / "work" / f"{number:04d}"
        where.mkdir(parents=True)
        os.chdir(where)
        for name, target in work["links"].items():
            Path(name).symlink_to(target)
        for name, text in case.get("files", {}).items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text)
        changed = case.get("environment", {})
        os.environ.update(changed)
        if case.get("options"):
            outcome: dict[str, Any] = {"options": parsers(case["lines"][0])}
        else:
            done = [run(line) for line in case["lines"]]
            outcome = {**done[-1], "before": [each["status"] for each in done[:-1]]}
        for name in changed:
            del os.environ[name]
        if "collect" in case:
            below = Path(case["collect"])
            outcome["files"] = {
                str(path.relative_to(below)): path.read_text()
                for path in sorted(below.rglob("*.json"))
            }
        outcomes.append(outcome)
    os.chdir(folder)
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    main()
