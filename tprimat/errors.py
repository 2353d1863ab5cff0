"""Errors that a person caused or must know of, and the exit statuses of every command.

    TensorPrimatError            a message meant for the user: no traceback
    ├── UsageError               a wrong option or a missing package            status 2
    ├── UnreadableError          a file that can't be read, with file and line  status 2
    ├── NotComparableError       the results don't answer the question          status 3
    └── TrainingFailedError      a training failed or was interrupted           status 5

Knows neither results nor commands.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from tprimat.text import plain

INSTALL = "pip install -r requirements.txt"
"""Brings what measuring needs, torch included."""

INSTALL_ANALYSIS = "pip install -r requirements-analysis.txt"
"""Brings what reading and comparing need."""


class ExitStatus(enum.IntEnum):
    """What a command tells its caller."""

    WELL = 0
    SLOWER = 1
    USAGE = 2
    NOT_COMPARABLE = 3
    IMPOSSIBLE = 4
    TRAINING_FAILED = 5
    FAULT = 70


_MOST_SEVERE_FIRST = tuple(map(ExitStatus, (70, 2, 5, 4, 3, 1, 0)))


def most_severe(statuses: Iterable[ExitStatus]) -> ExitStatus:
    """Return the most severe of several exit statuses; WELL for none."""
    return min(statuses, key=_MOST_SEVERE_FIRST.index, default=ExitStatus.WELL)


class TensorPrimatError(Exception):
    """Base of all errors whose text is for the user.

    Args:
        problem: what is wrong, in one line; without a hint, followed by what to do.
        heading: the heading of docs/troubleshooting.md that says more, as its anchor.
        hint: one action that helps, which is printed on a line of its own.

    Attributes:
        message: problem and hint in one line.
    """

    status = ExitStatus.USAGE

    def __init__(self, problem: str, *, heading: str, hint: str | None = None) -> None:
        self.problem = problem
        self.hint = hint
        self.message = problem if hint is None else f"{problem}: {hint}"
        self.heading = heading
        super().__init__(self.message)

    def line(self) -> str:
        """Return what a command prints: one line, or two where there is a hint."""
        # Messages quote files and names that others wrote.
        text = f"error: {plain(self.problem)}" + (f"\nhint:  {plain(self.hint)}" if self.hint else "")
        return f"{text} (docs/troubleshooting.md#{self.heading})"


class UsageError(TensorPrimatError):
    """A command was asked for something that it can't do as asked."""


class UnreadableError(TensorPrimatError):
    """A file, as the user named it, doesn't hold what it should, on a line of it (from 1) where one can be named."""

    def __init__(self, path: object, message: str, *, heading: str, line: int | None = None) -> None:
        place = f"{path}:{line}" if line is not None else f"{path}"
        super().__init__(f"{place}: {message}", heading=heading)
        self.path = path


class NotComparableError(TensorPrimatError):
    """The results given can't be compared with each other."""

    status = ExitStatus.NOT_COMPARABLE


class TrainingFailedError(TensorPrimatError):
    """A training ended with an error, or was interrupted."""

    status = ExitStatus.TRAINING_FAILED


def missing_package(package: str, command: str, purpose: str) -> UsageError:
    """Return the error for an import that failed, with the command that brings the package as its hint."""
    return UsageError(
        f"{purpose} needs the package {package}, which is not installed", heading="missing-package", hint=command
    )
