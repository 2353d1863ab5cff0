"""Explain how each number of a text is read by its form, for `tprimat read --explain`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from tprimat.catalog import meanings
from tprimat.notes import Note
from tprimat.read.forms.fields import Field, Pieces, value_of
from tprimat.read.forms.mining import safe_label
from tprimat.read.forms.reader import Interpretation, interpretations
from tprimat.read.parsing.text import Line
from tprimat.redaction import REMOVED, redacted


@dataclasses.dataclass(frozen=True)
class Number:
    """A number of the example line of a form.

    Attributes:
        printed: as the line has it, without its unit; a secret isn't shown.
        value: in the unit of a result, s for times; None if it is not a number.
        label: as printed, without secrets; empty without one.
        kind: what it means, as a name of the result; empty if unknown.
        by: the words of its label that say so; empty if its label has none.
    """

    printed: str
    value: float | None
    label: str
    kind: str
    by: str


@dataclasses.dataclass(frozen=True)
class Explanation:
    """How one training is read.

    Attributes:
        line: number of the example line.
        text: the example line, without time stamps and secrets.
        numbers: those of the example line.
        counter: what counts the steps; None if the order of the lines does.
        time: what the times of the steps come from; None without times.
        quotients: these times divided by those of each clock, by the kind of the clock.
        notes: what is assumed, and why it isn't read.
    """

    line: int
    text: str
    numbers: tuple[Number, ...]
    counter: str | None
    time: str | None
    quotients: dict[str, float]
    notes: tuple[Note, ...]


def explanations(lines: Callable[[], Iterable[Line]]) -> list[Explanation]:
    """Return how each training of a text is read by the form of its lines; none if no form recurs.

    `lines` gives the lines from the start, each time that it is called.
    """
    return [_explained(found) for found in interpretations(lines)]


def _explained(found: Interpretation) -> Explanation:
    """Explain how a training is read, with the numbers of the example line."""
    line, text = found.form.example
    numbers = []
    for piece in Pieces().of(text):
        for field in piece.outline.fields:
            numbers.append(_number(field, piece.printed, found.form.counter, text))
    notes = (*found.doubts, *filter(None, [found.lacks]))
    return Explanation(
        line,
        redacted(text),
        tuple(numbers),
        found.form.counter_label,
        found.time_label,
        found.timed.quotients,
        notes,
    )


def _number(field: Field, printed: tuple[str, ...], counter: str, line: str) -> Number:
    by = redacted(meanings.words_of(field.label))
    kind = "step" if field.key == counter else field.kind or ""
    label = safe_label(field.label, line)
    shown = printed[field.place]
    if shown not in redacted(line):
        return Number(REMOVED, None, label, kind, by)
    return Number(shown, value_of(field, printed), label, kind, by)
