"""Checks of results: whether values are possible, and whether two runs did the same work and were
the same training.

physics.py checks first whether values are possible, and corrections.py finds what would explain an
impossible one. compute.py decides by the work of two runs whether their speeds may be compared, and
training.py by their training whether their quality may be.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from tprimat.notes import Note, NoteValue

CONTRADICTION = "contradiction"
"""The rule of findings that a source contradicts itself. The headline says so, since a ratio is
computed from one of the two contradictory values.
"""

Severity = Literal["error", "unverified", "warning", "info"]


@dataclasses.dataclass(frozen=True)
class Finding:
    """A result of a check that a reader must know.

    Attributes:
        severity: "error": the value is impossible, and its system is excluded from every ranking
            and headline; "unverified": the value can't be checked until the result states more, and
            its system is excluded, too; "warning": the value is shown, with a footnote; "info": an
            explanation.
        rule: the check's name, which is its heading in docs/metrics.md.
        note: what was found, with the values that show it.
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
    """Return a finding whose note has this code and these fields."""
    return Finding(severity, rule, Note(code, fields), explanations)
