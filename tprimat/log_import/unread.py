"""Files that are left unread or count once, and why."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple


@dataclasses.dataclass(frozen=True)
class SkippedFile:
    """A skipped file, and why, with the kind that tprimat.notes has for it."""

    path: str
    reason: str
    kind: str = ""


class NotRead(NamedTuple):
    """Why a source has no runs.

    Attributes:
        hint: one action that helps; None if none does.
        heading: of docs/troubleshooting.md.
        place: the file, with which the problem begins if it names one.
        is_lost: whether it is a log all the same.
    """

    problem: str
    hint: str | None
    heading: str
    place: str
    is_lost: bool = False

    @property
    def reason(self) -> str:
        """The problem without the place."""
        return self.problem.removeprefix(f"{self.place}: ")


LOGS_UNREAD = "logs-unread"
"""The code of the note on skipped logs."""
