"""How a run ended, and at which steps it diverged, such as by a loss of NaN. Both decide whether it
can be a baseline.
"""

from __future__ import annotations

from typing import NamedTuple

from tprimat.results.ending import Ending, EndingKind
from tprimat.results.outcome import DIVERGED
from tprimat.results.run import Run, Status
from tprimat.text import plain

LONGEST_CAUSE = 100
"""Most characters of a cause in a sentence."""


class Divergence(NamedTuple):
    """How a training diverged (a code of DIVERGED), the first and the last such step, and whether
    it never recovered after the first one.
    """

    code: str
    first: int
    last: int
    is_lasting: bool


_KINDS: dict[Status, EndingKind] = {
    "complete": "finished",
    "failed": "failed",
    "incomplete": "cut_off",
}


def how_ended(run: Run) -> Ending:
    """Return how a run ended, by its ending or its status, whichever is worse; results of schema 1
    have only a status.
    """
    by_status = _KINDS[run.status]
    ending = run.ending or Ending(kind=by_status, cause=run.status_reason)
    is_denied = by_status == "failed" or (by_status == "cut_off" and ending.kind == "finished")
    if is_denied and ending.kind != by_status:
        return Ending(kind=by_status, cause=ending.cause or run.status_reason)
    return ending


def is_finished(run: Run) -> bool:
    """Return whether a run made all its steps, or reached a limit that the user set."""
    return how_ended(run).kind == "finished"


def cause_of(run: Run) -> str:
    """Return what ended a run, with the line of the log that says so, such as “out of memory, line
    812”; empty if unknown.
    """
    ending = how_ended(run)
    line = f"line {ending.line}" if ending.line else None
    return ", ".join(filter(None, (plain(ending.cause or "", LONGEST_CAUSE), line)))


def divergence(run: Run) -> Divergence | None:
    """Return how a training diverged; None if no note of the run says that it did."""
    for code in DIVERGED:
        fields = []
        for note in run.notes:
            if note.code == code:
                fields.append(note.fields)
        steps = []
        for field in fields:
            for step in (field.get("first"), field.get("last")):
                if isinstance(step, int):
                    steps.append(step)
        if steps:
            first = min(steps)
            last = max(steps)
            values = {
                "loss-not-finite": run.loss_values,
                "grad-norm-not-finite": run.grad_norms,
            }.get(code, ())
            later = (value for step, value in zip(run.steps, values, strict=False) if step > first)
            # Without a series, as for skipped steps, it depends on whether the last step is one.
            if values:
                is_lasting = all(value is None for value in later)
            else:
                is_lasting = last >= max(run.steps, default=0)
            return Divergence(code, first, last, is_lasting)
    return None
