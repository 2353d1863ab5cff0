"""How a run ended, decided in one place for logs and for recordings, and the status that follows
from it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from tprimat.results.ending import Ending, EndingKind
from tprimat.results.run import Run, Status

STATUS: dict[EndingKind, Status] = {
    "finished": "complete",
    "failed": "failed",
    "stopped": "incomplete",
    "cut_off": "incomplete",
    "running": "incomplete",
}
"""The status that follows from an ending, unless steps are missing from its source for another
reason.
"""


DIVERGED = {
    "loss-not-finite": "loss is not a number",
    "loss-vanished": "no loss is printed",
    "grad-norm-not-finite": "gradient norm is not a number",
    "steps-skipped": "the optimizer skips steps",
}
"""Codes of notes on a training that diverged, each with its text; the first one that a run has is
shown.
"""


class Cause(NamedTuple):
    """What ended a training before its last step, or seems to.

    Attributes:
        kind: failed for an exception, a signal or an exit code; stopped for a limit of the
            scheduler or a request from outside; None if it is only the last message.
        text: in the words of its source.
        line: line of the log that states it, or None.
    """

    kind: Literal["failed", "stopped"] | None
    text: str
    line: int | None = None

    @property
    def sentence(self) -> str:
        """The cause with its line."""
        if self.line is None:
            return self.text
        return f"line {self.line}: {self.text}"


class Outcome(NamedTuple):
    """The end of a training; no reason for a complete one that ran as requested."""

    status: Status
    reason: str | None
    ending: Ending


def ending_of(
    done: int = 0,
    planned: int | None = None,
    *,
    ended: bool = False,
    asked: Cause | None = None,
    cause: Cause | None = None,
) -> Ending:
    """Return how a training ended.

    A training that has done its steps is finished, whatever happened afterwards: a process group
    that fails to shut down at step 120 of 120 has cost nothing.

    Args:
        done: its last step, counted from 1.
        planned: the steps that were asked for.
        ended: whether its source states that it ended normally.
        asked: a limit that the user asked for, or early stopping, that ended it.
        cause: another known cause of its end, or None.
    """
    if ended or (planned and done >= planned):
        return Ending(kind="finished", cause=asked and asked.text, line=asked and asked.line)
    if cause is not None and cause.kind is not None:
        return Ending(kind=cause.kind, cause=cause.text, line=cause.line)
    if asked is not None:
        return Ending(kind="finished", cause=asked.text, line=asked.line)
    return Ending(kind="cut_off", cause=cause and cause.text, line=cause and cause.line)


def going_on(run: Run) -> Run:
    """Return a run whose source is still written: what ends without a cause has not ended."""
    if run.ending is None or run.ending.kind != "cut_off":
        return run
    return run.but(ending=run.ending.but(kind="running"))


def outcome_of(ending: Ending, reason: str | None = None) -> Outcome:
    """Return an ending with the status that follows from it, and the reason in a sentence."""
    return Outcome(STATUS[ending.kind], reason, ending)
