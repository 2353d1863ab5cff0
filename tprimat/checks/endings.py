"""How a run ended, and from which step on its loss is not a number: what decides whether it can be a baseline."""

from __future__ import annotations

from tprimat.results.ending import Ending, EndingKind
from tprimat.results.run import Run, Status
from tprimat.text import plain

LONGEST_CAUSE = 100
"""Characters of a cause in a sentence."""

_OF_STATUS: dict[Status, EndingKind] = {"complete": "finished", "failed": "failed", "incomplete": "cut_off"}


def ending_of(run: Run) -> Ending:
    """Return how a run ended; of a result of schema 1, which doesn't say it, as its status tells."""
    return run.ending or Ending(kind=_OF_STATUS[run.status], cause=run.status_reason)


def is_finished(run: Run) -> bool:
    """Return whether a run has made all its steps, or reached a limit that the user asked for."""
    return ending_of(run).kind == "finished"


def cause_of(run: Run) -> str:
    """Return what ended a run, with the line that says so, such as “out of memory, line 812”; empty if unknown."""
    ending = ending_of(run)
    line = f"line {ending.line}" if ending.line else None
    return ", ".join(filter(None, (plain(ending.cause or "", LONGEST_CAUSE), line)))


def diverged_at(run: Run) -> int | None:
    """Return the first step whose loss is NaN or infinite; None if all known losses are numbers."""
    steps = [note.fields.get("first") for note in run.notes if note.code == "loss-not-finite"]
    return min((step for step in steps if isinstance(step, int)), default=None)
