"""verify: recompute the values of a bundle from its logs, and say whether they are the same."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from tprimat import console
from tprimat.errors import ExitStatus, UnreadableError
from tprimat.files import unreadable
from tprimat.log_import import bundle
from tprimat.log_import.verify import Difference, Verification, verify
from tprimat.report import json_values
from tprimat.text import counted, plain

MOST_SHOWN = 10
"""Differences of a run that are listed without --verbose."""


def main(arguments: argparse.Namespace) -> int:
    """Verify a bundle."""
    path = Path(arguments.bundle)
    if not path.exists():
        raise unreadable(path, FileNotFoundError())
    if not bundle.is_packed(path):
        raise UnreadableError(
            path, f"not a bundle: its name ends in none of {', '.join(bundle.ENDINGS)}", heading="unreadable-file"
        )
    found = verify(path)
    status, answer = _answer(found)
    if arguments.json:
        console.echo(json_values.dumped({**dataclasses.asdict(found), "answer": answer, "status": int(status)}))
    elif arguments.quiet:
        console.echo(answer)
    else:
        for line in _lines(found, None if arguments.verbose else MOST_SHOWN):
            console.echo(line)
        console.echo(answer)
    return status


def _answer(found: Verification) -> tuple[ExitStatus, str]:
    different = sum(len(run.differences) for run in found.runs)
    if different or found.changed:
        parts = [f"{counted(different, 'value')} differ{'s' if different == 1 else ''}"] if different else []
        parts += [f"{counted(len(found.changed), 'file')} changed or missing"] if found.changed else []
        return ExitStatus.IMPLAUSIBLE, f"NOT the same: {', '.join(parts)}."
    values = counted(sum(run.values for run in found.runs), "value")
    without = [run for run in found.runs if run.log is None]
    if without:
        logs = f"{counted(len(without), 'run')} without a log in the bundle"
        return ExitStatus.INCONCLUSIVE, f"Verified in part: {values} recomputed; {logs}, so its steps can't be checked."
    return ExitStatus.OK, f"The same: {values} recomputed."


def _lines(found: Verification, most: int | None) -> list[str]:
    lines = [plain(each) for each in found.changed]
    for run in found.runs:
        source = f"from {plain(run.log)}" if run.log else "from its own steps; its log is not in the bundle"
        source += "" if run.original is not False else ", a copy that was decompressed, decoded or redacted"
        same = run.values - len(run.differences)
        lines.append(f"{plain(run.result)}, run {run.number}: {same:,} of {run.values:,} values are the same, {source}")
        shown = run.differences[:most]
        lines += [f"  {_described(each)}" for each in shown]
        if len(shown) < len(run.differences):
            lines.append(f"  and {len(run.differences) - len(shown)} more (--verbose lists them)")
    return lines


def _described(difference: Difference) -> str:
    return plain(
        f"{difference.field}: {_shown(difference.stored)} in the result, {_shown(difference.recomputed)} "
        f"from {difference.place}"
    )


def _shown(value: object) -> str:
    return "nothing" if value is None else plain(str(value), 60)
