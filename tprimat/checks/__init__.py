"""Checks of results: whether a value is possible, whether the work and whether the training were
the same.

The same compute decides whether speeds may be compared (compute.py), the same training whether
quality may be (training.py). Physics comes before both (physics.py), with what would explain an
impossible value (corrections.py).
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from tprimat.notes import Note, NoteValue

CONTRADICTION = "contradiction"
"""The rule of what a source says twice and differently; the headline says so, since a ratio rests
on one of the two.
"""

Severity = Literal["error", "unverified", "warning", "info"]


@dataclasses.dataclass(frozen=True)
class Finding:
    """A result of a check that a reader must know.

    Attributes:
        severity: "error": the value is impossible, and its system is excluded from every ranking
            and headline; "unverified": it can't be checked until the result states more, and is
            excluded too; "warning": it stays, with a footnote; "info": it explains.
        rule: the check's name, its heading in docs/metrics.md.
        note: what was found, with the values that it rests on.
        explanations: single corrections that would make the value possible, the best supported
            first.
    """

    severity: Severity
    rule: str
    note: Note
    explanations: tuple[Note, ...] = ()


def finding_of(
    severity: Severity,
    rule: str,
    code: str,
    explanations: tuple[Note, ...] = (),
    **fields: NoteValue,
) -> Finding:
    """Return a finding with the note of a code and these fields."""
    return Finding(severity, rule, Note(code, fields), explanations)
