"""Output of `read --explain`: how each number of a log is read by the form of its lines."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from tprimat import console
from tprimat.console import info
from tprimat.errors import ExitStatus, TensorPrimatError
from tprimat.log_import import sources
from tprimat.notes.catalogue import words
from tprimat.read.forms.explaining import Explanation, explanations
from tprimat.report import json_values
from tprimat.results.fields import JsonObject
from tprimat.text import plain, shortened

WIDEST = 30
"""Most characters of the words of a label that are shown."""


def explain(paths: Sequence[str]) -> int:
    """Show how each text is read by the form of its lines; return the exit status."""
    values: list[JsonObject] = []
    status = ExitStatus.OK
    for path in paths:
        try:
            with contextlib.ExitStack() as stack:
                found = explanations(sources.printed_lines(path, stack))
        except TensorPrimatError as error:
            console.error(error.line())
            status = ExitStatus.USAGE
            continue
        if not found:
            info(f"{plain(path)}: no form of training lines recurs in it")
            status = ExitStatus.USAGE
        for each in found:
            _show(path, each)
            values.append(_values(path, each))
    console.current().values["explained"] = values
    return status


def _show(path: str, found: Explanation) -> None:
    info(f"{plain(path)}, line {found.line}: {shortened(plain(found.text.strip()), 78)}")
    rows = [("number", "value", "label", "means", "by")]
    for number in found.numbers:
        by = shortened(plain(number.by), WIDEST)
        value = "" if number.value is None else f"{number.value:g}"
        rows.append((plain(number.printed), value, plain(number.label, 30), number.kind or "–", by))
    for line in console.table(rows):
        info(f"  {line}")
    info(f"  steps by {plain(found.counter or 'the order of the lines')}")
    info(f"  times by {plain(found.time or 'nothing')}")
    for kind, quotient in found.quotients.items():
        info(f"  clock {kind}: its times × {quotient:.4g}")
    for note in found.notes:
        info(f"  {plain(words(note))}")


def _values(path: str, found: Explanation) -> JsonObject:
    numbers = []
    for number in found.numbers:
        names = ("printed", "value", "label", "kind", "by")
        numbers.append({name: getattr(number, name) for name in names})
    return {
        "file": path,
        "line": found.line,
        "text": found.text,
        "numbers": numbers,
        "counter": found.counter,
        "time": found.time,
        "clocks": found.quotients,
        **json_values.note_values("notes", found.notes),
    }
