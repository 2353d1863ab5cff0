"""Notice that the form of a training's lines changes.

Lines with values of a training that don't have its form are a summary if they are few; otherwise the
training goes on in another form, which isn't read.
"""

from __future__ import annotations

from tprimat.catalog import meanings
from tprimat.notes import Note
from tprimat.read.forms.fields import Field, Piece, value_of

ANOTHER_FORM = 5
"""Lines with values of a training after the last record that show that the form has changed: one
or two are a summary.
"""

COUNTED = 3
"""Lines that show that the form has changed if a number with another label counts their steps."""


class OtherLines:
    """Takes the lines between two records that have values of a training in another form."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self._lines: list[int] = []
        self._counted: dict[str, list[tuple[int, float]]] = {}

    def add(self, line: int, piece: Piece, counter: Field | None) -> None:
        """Take a line, and the number that counts its steps; None if none does."""
        self._lines.append(line)
        value = value_of(counter, piece.printed) if counter is not None else None
        if counter is not None and value is not None:
            self._counted.setdefault(counter.key, []).append((line, value))

    def close(self, *, is_end: bool = False) -> None:
        """Note that a record comes next, or the end. Before a record, only lines that count steps
        are of a training: others state settings, or are further lines of each step.
        """
        for counted in self._counted.values():
            values = [value for _, value in counted]
            if len(set(values)) >= COUNTED and values == sorted(values):
                self._tell(counted[0][0], counted[-1][0])
                break
        else:
            if is_end and len(self._lines) >= ANOTHER_FORM:
                self._tell(self._lines[0], self._lines[-1])
        self._lines.clear()
        self._counted.clear()

    def _tell(self, first: int, last: int) -> None:
        self.notes.append(Note("form-changes", {"line": first, "last": last}))


def other_counter(piece: Piece, counter: str, keys: frozenset[str]) -> Field | None:
    """Return the number that counts the steps of a line without the counter of a form, by a label
    that doesn't recur beside its records; None if none does.
    """
    field = piece.outline.kinds.get(meanings.STEP)
    if field is None or field.key in keys or field.key == counter:
        return None
    return field
