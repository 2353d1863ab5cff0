"""What a judge says of a run."""

from __future__ import annotations

import dataclasses
from typing import Literal

Severity = Literal["impossible", "unjudged", "doubtful", "note"]


@dataclasses.dataclass(frozen=True)
class Finding:
    """A doubt, or something that a reader must know.

    Attributes:
        gravity: an impossible figure is left out of every ranking and headline, and so is one
            that can't be judged until the result says more; a doubtful one stays, with a
            footnote; a note explains.
        rule: the judgement's name, its heading in docs/metrics.md.
        text: one sentence, with the figures that it rests on.
        explanations: single corrections that would make the figure possible, the best supported
            first.
    """

    gravity: Severity
    rule: str
    text: str
    explanations: tuple[str, ...] = ()
