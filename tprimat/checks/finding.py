"""The findings of checks."""

from __future__ import annotations

import dataclasses
from typing import Literal

Severity = Literal["impossible", "unjudged", "doubtful", "note"]


@dataclasses.dataclass(frozen=True)
class Finding:
    """A result of a check that a reader must know.

    Attributes:
        gravity: an impossible value is excluded from every ranking and headline, and so is one
            that can't be checked until the result states more; a doubtful one stays, with a
            footnote; a note explains.
        rule: the check's name, its heading in docs/metrics.md.
        text: one sentence, with the values that it rests on.
        explanations: single corrections that would make the value possible, the best supported
            first.
    """

    gravity: Severity
    rule: str
    text: str
    explanations: tuple[str, ...] = ()
