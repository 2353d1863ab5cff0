"""How a run ended, and from which step on its loss is not a number: what decides whether it can be a baseline."""

from __future__ import annotations

from tprimat.results.ending import Ending, EndingKind
from tprimat.results.run import Run, Status
from tprimat.text import plain

LONGEST_CAUSE = 100
"""Characters of a cause in a sentence."""

_KINDS: dict[Status, EndingKind] = {"complete": "finished", "failed": "failed", "incomplete": "cut_off"}


def how_ended(run: Run) -> Ending:
    """Return how a run ended; of a result of schema 1, which doesn't say it, as its status tells."""
    return run.ending or Ending(kind=_KINDS[run.status], cause=run.status_reason)


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
