"""Files that aren't read, or whose runs are already counted from another file, and why."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from tprimat.errors import UsageError
from tprimat.notes import Note


@dataclasses.dataclass(frozen=True)
class SkippedFile:
    """A skipped file, and why; `kind` is one of those in tprimat.notes, or empty."""

    path: str
    reason: str
    kind: str = ""


class NotRead(NamedTuple):
    """Why a source has no runs.

    Attributes:
        problem: one sentence for the user.
        hint: one action that helps; None if none does.
        heading: the section of docs/troubleshooting.md on the problem.
        place: the file; `problem` may begin with it.
        is_lost: whether the source is a log, although no run could be read from it.
        asked: notes on what would be read, and what is assumed, if the user confirms it.
        details: what else is known of the problem, each in a line of its own.
    """

    problem: str
    hint: str | None
    heading: str
    place: str
    is_lost: bool = False
    asked: tuple[Note, ...] = ()
    details: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """The problem without the name of the file at its beginning."""
        problem = "; ".join((self.problem, *self.details))
        return problem.removeprefix(f"{self.place}: ")

    def error(self) -> UsageError:
        """Return the error to show."""
        return UsageError(self.problem, hint=self.hint, heading=self.heading, details=self.details)


IS_ASKED = "its steps can be read with an assumption: tprimat read shows it, --as-read confirms it"
"""Why a log in a directory isn't read without asking."""

LOGS_UNREAD = "logs-unread"
"""The code of the note on skipped logs."""
