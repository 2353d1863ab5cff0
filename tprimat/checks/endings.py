"""How a run ended, and from which step on its loss is not a number: what decides whether it can be a baseline."""

from __future__ import annotations

from tprimat.results.ending import Ending, EndingKind
from tprimat.results.run import Run, Status
from tprimat.text import plain

LONGEST_CAUSE = 100
"""Characters of a cause in a sentence."""

_KINDS: dict[Status, EndingKind] = {"complete": "finished", "failed": "failed", "incomplete": "cut_off"}


def how_ended(run: Run) -> Ending:
    """Return how a run ended: the worse of its ending, which results of schema 1 lack, and of its status."""
    by_status = _KINDS[run.status]
    ending = run.ending or Ending(kind=by_status, cause=run.status_reason)
    is_denied = by_status == "failed" or (by_status == "cut_off" and ending.kind == "finished")
    if is_denied and ending.kind != by_status:
        return Ending(kind=by_status, cause=ending.cause or run.status_reason)
    return ending


def is_finished(run: Run) -> bool:
    """Return whether a run has made all its steps, or reached a limit that the user asked for."""
    return how_ended(run).kind == "finished"


def cause_of(run: Run) -> str:
    """Return what ended a run, with the line that says so, such as “out of memory, line 812”; empty if unknown."""
    ending = how_ended(run)
    line = f"line {ending.line}" if ending.line else None
    return ", ".join(filter(None, (plain(ending.cause or "", LONGEST_CAUSE), line)))


def not_finite(run: Run) -> tuple[int, int] | None:
    """Return the first and the last step whose loss is NaN or infinite; None if all known losses are numbers."""
    fields = [note.fields for note in run.notes if note.code == "loss-not-finite"]
    steps = [step for each in fields for step in (each.get("first"), each.get("last")) if isinstance(step, int)]
    return (min(steps), max(steps)) if steps else None
