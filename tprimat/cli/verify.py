"""verify: recompute the values of a bundle from its logs, and report whether it can be accepted."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from pathlib import Path

from tprimat import console
from tprimat.checks import CONTRADICTION
from tprimat.errors import ExitStatus, UnreadableError
from tprimat.files import unreadable
from tprimat.log_import import bundle_names
from tprimat.log_import.verify import (
    ADDED,
    CHANGED,
    CLAIMED,
    MISSING,
    NO_SPEED,
    UNSTAMPED,
    Verification,
    verify,
)
from tprimat.notes import Note
from tprimat.notes.catalogue import words
from tprimat.report import json_values
from tprimat.results.fields import JsonObject
from tprimat.text import counted, plain

MOST_SHOWN = 10
"""Most differences of a run that are listed without --verbose."""


def main(arguments: argparse.Namespace) -> int:
    """Verify a bundle."""
    path = Path(arguments.bundle)
    if not path.exists():
        raise unreadable(path, FileNotFoundError())
    if not bundle_names.names_a_bundle(path):
        raise UnreadableError(
            path,
            f"not a bundle: the name must end in one of {', '.join(bundle_names.ENDINGS)}",
            heading="unreadable-file",
        )
    verification = verify(path)
    status, answer = _answer(verification)
    if arguments.json:
        values = {**_values(verification), "answer": answer, "status": int(status)}
        console.echo(json_values.dumped(values))
    elif arguments.quiet:
        console.echo(answer)
    else:
        for line in _lines(verification, None if arguments.verbose else MOST_SHOWN):
            console.echo(line)
        console.echo(answer)
    return status


def _values(verification: Verification) -> JsonObject:
    """Return the values for --json: sentences, and their codes."""
    values = dataclasses.asdict(verification)
    values |= json_values.note_values("changed", verification.changed)
    for shown, run in zip(values["runs"], verification.runs, strict=True):
        shown["findings"] = json_values.findings_values(run.findings)
        shown |= json_values.note_values("unchecked", run.unchecked)
    return values


def _answer(verification: Verification) -> tuple[ExitStatus, str]:
    runs = verification.runs
    different = sum(len(run.differences) for run in runs)
    findings = [finding for run in runs for finding in run.findings]
    wrong: dict[str, object] = {
        f"{counted(different, 'value')} differ{'s' if different == 1 else ''}": different
    }
    for what, code in (
        ("changed after packing", CHANGED),
        ("missing", MISSING),
        ("added", ADDED),
    ):
        number = sum(note.code == code for note in verification.changed)
        wrong[f"{counted(number, 'file')} {what}"] = number
    wrong["implausible"] = any(finding.severity == "error" for finding in findings)
    wrong["private data"] = verification.private
    foreign = verification.foreign
    wrong[f"{counted(len(foreign), 'file')} other than data"] = foreign
    if any(wrong.values()):
        return ExitStatus.IMPLAUSIBLE, f"Not acceptable: {_join_holding(wrong)}."
    values = counted(sum(run.values for run in runs), "value")
    unlogged = sum(run.log is None for run in runs)
    rules = [finding.rule for finding in findings]
    speedless = rules.count(NO_SPEED)
    inconsistent = rules.count(CONTRADICTION)
    claimed_steps = rules.count(CLAIMED)
    unchecked = len(rules) - speedless - inconsistent - claimed_steps
    undecided: dict[str, object] = {
        f"steps unchecked for {counted(unlogged, 'run')} without a log in the bundle": unlogged,
        f"{counted(len(verification.extra), 'log')} without a result": verification.extra,
        f"{counted(speedless, 'run')} without a speed": speedless,
        f"{counted(inconsistent, 'inconsistent value')}": inconsistent,
        f"step times only claimed for {counted(claimed_steps, 'run')}": claimed_steps,
        f"{counted(unchecked, 'value')} that can't be checked": unchecked,
    }
    if any(undecided.values()):
        return (
            ExitStatus.INCONCLUSIVE,
            f"Undecided: {_join_holding(undecided)} ({values} recomputed).",
        )
    answer = (
        f"Can be accepted: {values} recomputed; plausible, no private data, no executable files."
    )
    unstamped = sum(Note(UNSTAMPED) in run.unchecked for run in runs)
    if unstamped:
        without_stamps = f"{counted(unstamped, 'run')} without time stamps"
        answer += f" Step times are only claimed for {without_stamps}."
    return ExitStatus.OK, answer


def _join_holding(reasons: Mapping[str, object]) -> str:
    """Return the reasons whose values are true, as one text."""
    return ", ".join(text for text, is_so in reasons.items() if is_so)


def _lines(verification: Verification, most: int | None) -> list[str]:
    lines = [plain(words(note)) for note in verification.changed]
    for run in verification.runs:
        source = plain(run.log) if run.log else "its own steps; its log is not in the bundle"
        if run.original is False:
            source += " (decompressed or redacted copy)"
        same = run.values - len(run.differences)
        lines.append(
            f"{plain(run.result)}, run {run.number}: {same:,} of {run.values:,} values match"
            f" {source}"
        )
        for value in run.differences[:most]:
            stored, recomputed = _shown(value.stored), _shown(value.recomputed)
            text = f"{value.field}: {stored} in the result, {recomputed} from {value.place}"
            lines.append(f"  {plain(text)}")
        hidden = len(run.differences[most:]) if most is not None else 0
        if hidden:
            lines.append(f"  and {hidden} more with --verbose")
        for finding in run.findings:
            kind = "implausible" if finding.severity == "error" else "unclear"
            lines.append(f"  {kind}: {words(finding.note)}")
        lines += [f"  not checked: {words(note)}" for note in run.unchecked]
        if run.unsupported:
            lines.append(f"  only claimed, not in the log: {', '.join(run.unsupported)}")
    for title, names in (
        ("private", verification.private),
        ("not data", verification.foreign),
        ("without a result", verification.extra),
    ):
        lines += [f"{title}: {plain(name)}" for name in names]
    kinds = (counted(number, kind) for kind, number in verification.files.items() if number)
    return [*lines, f"files: {', '.join(kinds)}; none was executed"]


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    return plain(str(value), 60)
