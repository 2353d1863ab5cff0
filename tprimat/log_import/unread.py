"""Files that aren't read, or whose runs are already counted from another file, and why."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

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
    """

    problem: str
    hint: str | None
    heading: str
    place: str
    is_lost: bool = False
    asked: tuple[Note, ...] = ()

    @property
    def reason(self) -> str:
        """The problem without the name of the file at its beginning."""
        return self.problem.removeprefix(f"{self.place}: ")


IS_ASKED = "its steps can be read with an assumption: tprimat read shows it, --as-read confirms it"
"""Why a log in a directory isn't read without asking."""

LOGS_UNREAD = "logs-unread"
"""The code of the note on skipped logs."""
