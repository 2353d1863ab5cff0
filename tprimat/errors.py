"""User-facing errors and exit statuses."""

from __future__ import annotations

import enum
import importlib.util
from collections.abc import Callable, Iterable, Sequence

from tprimat.redaction import redacted
from tprimat.text import plain, runnable

INSTALL = "pip install -r requirements.txt"
"""Installs everything for benchmarks, including torch."""

INSTALL_ANALYSIS = "pip install -r requirements-analysis.txt"
"""Brings what reading and comparing need."""


SELF_EVIDENT = "wrong-usage"
"""The heading of errors whose own lines say everything."""


class ExitStatus(enum.IntEnum):
    """How a command ended, for its caller; the most severe first. Helps name them by these rows,
    and the docs have their meanings from here.
    """

    meaning: str

    def __new__(cls, number: int, meaning: str) -> ExitStatus:
        """Return a row: its number, which it equals, and what it means in all commands."""
        status = int.__new__(cls, number)
        status._value_ = number
        status.meaning = meaning
        return status

    INTERNAL_ERROR = 70, "internal error: one line, and a file with the traceback"
    USAGE = 2, "wrong usage, or a named input could not be read"
    TRAINING_FAILED = 5, "a training failed or was interrupted"
    IMPLAUSIBLE = 4, "the comparison would rest on an implausible result"
    NOT_COMPARABLE = 3, "not comparable"
    SLOWER = (
        1,
        "slower than allowed (`--baseline`, `watch --max-slowdown`), or a device slower than the"
        " others (`preflight`)",
    )
    INCONCLUSIVE = (
        6,
        "inconclusive (only with `--fail-on-inconclusive` or `watch --until-ci`), or not over yet"
        " (`collect`)",
    )
    OK = 0, "success"


def most_severe(statuses: Iterable[ExitStatus]) -> ExitStatus:
    """Return the most severe of several exit statuses; OK for none."""
    return min(statuses, key=list(ExitStatus).index, default=ExitStatus.OK)


class TensorPrimatError(Exception):
    """Base of all errors whose text is for the user, without a traceback.

    Args:
        problem: what is wrong, in one line; without a hint, followed by what to do.
        heading: the heading of docs/troubleshooting.md that says more, as its anchor.
        hint: one action that helps, printed on its own line.
        details: what else belongs to the problem, each printed on a line of its own.

    Attributes:
        message: problem and hint in one line.
    """

    status = ExitStatus.USAGE

    def __init__(
        self, problem: str, *, heading: str, hint: str | None = None, details: Sequence[str] = ()
    ) -> None:
        super().__init__()
        self.problem = problem
        self.hint = hint
        self.details = tuple(details)
        self.heading = heading
        # Messages quote files, commands and what programs say.
        self.reword(redacted)

    def reword(self, change: Callable[[str], str]) -> None:
        """Change the texts, such as the name of a file in them."""
        self.problem, self.hint = change(self.problem), self.hint and change(self.hint)
        self.details = tuple(map(change, self.details))
        problem = "; ".join((self.problem, *self.details))
        self.message = ": ".join(filter(None, (problem, self.hint)))
        self.args = (self.message,)

    def line(self) -> str:
        """Return what a command prints: the problem and its details, the hint and the page that
        says more, each on its own line.
        """
        # Messages quote files and names that others wrote.
        lines = [f"error: {plain(self.problem)}", *map(plain, self.details)]
        if self.hint:
            lines.append(f"hint:  {plain(runnable(self.hint))}")
        if self.heading != SELF_EVIDENT:
            lines.append(f"see:   docs/troubleshooting.md#{self.heading}")
        return "\n".join(lines)


class UsageError(TensorPrimatError):
    """A wrong option, a missing package, or anything else that a command can't do as asked."""


class UnreadableError(TensorPrimatError):
    """A file, as the user named it, can't be read, or not from a line of it on (counted from 1).

    Attributes:
        place: the file, with the line if it has one.
        is_lost: whether the file is a result or a log all the same, whose values are lost.
    """

    def __init__(
        self,
        path: object,
        message: str,
        *,
        heading: str,
        line: int | None = None,
        hint: str | None = None,
        is_lost: bool = False,
    ) -> None:
        self.place = redacted(f"{path}:{line}" if line is not None else f"{path}")
        super().__init__(f"{self.place}: {message}", heading=heading, hint=hint)
        self.path = path
        self.is_lost = is_lost

    @property
    def reason(self) -> str:
        """The problem and the hint, without the place."""
        return self.message.removeprefix(f"{self.place}: ")


class NotComparableError(TensorPrimatError):
    """The results given can't be compared with each other."""

    status = ExitStatus.NOT_COMPARABLE


class TrainingFailedError(TensorPrimatError):
    """A training ended with an error, or was interrupted."""

    status = ExitStatus.TRAINING_FAILED


def lacking(*packages: str) -> list[str]:
    """Return which of these packages are not installed; none is imported."""
    return [package for package in packages if importlib.util.find_spec(package) is None]


def missing_package(package: str, command: str, purpose: str) -> UsageError:
    """Return the error for an import that failed, with the command that brings the package as its
    hint.
    """
    return UsageError(
        f"{purpose} needs the package {package}, which is not installed",
        heading="missing-package",
        hint=command,
    )
