"""verify: recompute the values of a bundle from its logs, and report whether it can be accepted."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from tprimat import console
from tprimat.checks import CONTRADICTION
from tprimat.errors import ExitStatus, UnreadableError
from tprimat.files import unreadable
from tprimat.log_import import bundle
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
        problem = f"not a bundle: the name must end in one of {', '.join(bundle.ENDINGS)}"
        raise UnreadableError(path, problem, heading="unreadable-file")
    found = verify(path)
    status, answer = _answer(found)
    if arguments.json:
        console.echo(
            json_values.dumped(
                {**dataclasses.asdict(found), "answer": answer, "status": int(status)}
            )
        )
    elif arguments.quiet:
        console.echo(answer)
    else:
        for line in _lines(found, None if arguments.verbose else MOST_SHOWN):
            console.echo(line)
        console.echo(answer)
    return status


def _answer(found: Verification) -> tuple[ExitStatus, str]:
    different = sum(len(run.differences) for run in found.runs)
    findings = [finding for run in found.runs for finding in run.findings]
    rules = [finding.rule for finding in findings]
    fates = {"changed after packing": CHANGED, "missing": MISSING, "added": ADDED}
    numbers = {}
    for what, ending in fates.items():
        numbers[what] = sum(each.endswith(ending) for each in found.changed)
    wrong = {
        f"{counted(different, 'value')} differ{'s' if different == 1 else ''}": different,
        **{f"{counted(number, 'file')} {what}": number for what, number in numbers.items()},
        "implausible": "error" in [finding.severity for finding in findings],
        "private data": found.private,
        f"{counted(len(found.foreign), 'file')} other than data": found.foreign,
    }
    if any(wrong.values()):
        return (
            ExitStatus.IMPLAUSIBLE,
            f"Not acceptable: {', '.join(text for text, is_so in wrong.items() if is_so)}.",
        )
    values = counted(sum(run.values for run in found.runs), "value")
    without = sum(run.log is None for run in found.runs)
    speedless = rules.count(NO_SPEED)
    inconsistent = rules.count(CONTRADICTION)
    claimed = rules.count(CLAIMED)
    unchecked = len(rules) - speedless - inconsistent - claimed
    open_ = {
        f"steps unchecked for {counted(without, 'run')} without a log in the bundle": without,
        f"{counted(len(found.extra), 'log')} without a result": found.extra,
        f"{counted(speedless, 'run')} without a speed": speedless,
        f"{counted(inconsistent, 'inconsistent value')}": inconsistent,
        f"step times only claimed for {counted(claimed, 'run')}": claimed,
        f"{counted(unchecked, 'value')} that can't be checked": unchecked,
    }
    if any(open_.values()):
        reasons = ", ".join(text for text, is_so in open_.items() if is_so)
        return ExitStatus.INCONCLUSIVE, f"Undecided: {reasons} ({values} recomputed)."
    unstamped = sum(UNSTAMPED in run.unchecked for run in found.runs)
    if unstamped:
        but = f" Step times are only claimed for {counted(unstamped, 'run')} without time stamps."
    else:
        but = ""
    return (
        ExitStatus.OK,
        (
            f"Can be accepted: {values} recomputed; plausible, no private data, no executable"
            f" files.{but}"
        ),
    )


def _lines(found: Verification, most: int | None) -> list[str]:
    lines = [plain(each) for each in found.changed]
    for run in found.runs:
        source = plain(run.log) if run.log else "its own steps; its log is not in the bundle"
        source += " (decompressed or redacted copy)" if run.original is False else ""
        same = run.values - len(run.differences)
        lines.append(
            f"{plain(run.result)}, run {run.number}: {same:,} of {run.values:,} values match"
            f" {source}"
        )
        shown = run.differences[:most]
        for each in shown:
            stored, recomputed = map(_shown, (each.stored, each.recomputed))
            lines.append(
                f"  {plain(f'{each.field}: {stored} in the result, {recomputed} from {each.place}')}"
            )
        if len(shown) < len(run.differences):
            lines.append(f"  and {len(run.differences) - len(shown)} more with --verbose")
        lines += [
            f"  {'implausible' if finding.severity == 'error' else 'unclear'}: {finding.text}"
            for finding in run.findings
        ]
        lines += [f"  not checked: {text}" for text in run.unchecked]
        lines += (
            [f"  only claimed, not in the log: {', '.join(run.unsupported)}"]
            if run.unsupported
            else []
        )
    for title, found_in in (
        ("private", found.private),
        ("not data", found.foreign),
        ("without a result", found.extra),
    ):
        lines += [f"{title}: {plain(each)}" for each in found_in]
    kinds = ", ".join(counted(number, kind) for kind, number in found.files.items() if number)
    return [*lines, f"files: {kinds}; none was executed"]


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    return plain(str(value), 60)
