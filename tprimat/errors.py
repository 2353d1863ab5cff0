"""Errors that a person caused or must know of, and the exit statuses of every command.

    TensorPrimatError            a message meant for the user: one line, no traceback
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


class ExitStatus(enum.IntEnum):
    """What a command tells its caller."""

    WELL = 0
    SLOWER = 1
    USAGE = 2
    NOT_COMPARABLE = 3
    IMPOSSIBLE = 4
    TRAINING_FAILED = 5
    FAULT = 70


_GRAVEST_FIRST = (
    ExitStatus.FAULT,
    ExitStatus.USAGE,
    ExitStatus.TRAINING_FAILED,
    ExitStatus.IMPOSSIBLE,
    ExitStatus.NOT_COMPARABLE,
    ExitStatus.SLOWER,
)


def most_severe(statuses: Iterable[ExitStatus]) -> ExitStatus:
    """The status that a command ends with when several apply; WELL when none does."""
    seen = set(statuses)
    return next((status for status in _GRAVEST_FIRST if status in seen), ExitStatus.WELL)


class TensorPrimatError(Exception):
    """Base of all errors whose text is for the user.

    Args:
        message: what is wrong, then what to do, in one line.
        heading: the heading of docs/troubleshooting.md that says more, as its anchor.
    """

    status = ExitStatus.USAGE

    def __init__(self, message: str, *, heading: str) -> None:
        super().__init__(message)
        self.message = message
        self.heading = heading

    def line(self) -> str:
        """The one line that a command prints."""
        # Messages quote files and names that others wrote.
        text = plain(self.message)
        return f"error: {text} (docs/troubleshooting.md#{self.heading})"


class UsageError(TensorPrimatError):
    """A command was asked for something that it can't do as asked."""


class UnreadableError(TensorPrimatError):
    """A file doesn't hold what it should.

    Args:
        path: the file as the user named it.
        message: what is wrong: what to do.
        line: where in the file, from 1, or None where a line means nothing.
        heading: see TensorPrimatError.
    """

    def __init__(self, path: object, message: str, *, heading: str, line: int | None = None) -> None:
        place = f"{path}:{line}" if line is not None else f"{path}"
        super().__init__(f"{place}: {message}", heading=heading)
        self.path = path


class NotComparableError(TensorPrimatError):
    """The results given can't be set against each other."""

    status = ExitStatus.NOT_COMPARABLE


class TrainingFailedError(TensorPrimatError):
    """A training ended with an error, or was interrupted."""

    status = ExitStatus.TRAINING_FAILED


def missing_package(package: str, command: str, purpose: str) -> UsageError:
    """The error for an import that failed: one line with the command that brings the package."""
    return UsageError(
        f"{purpose} needs the package {package}, which is not installed: {command}",
        heading="missing-package",
    )
