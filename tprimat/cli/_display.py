"""What a command prints: as much as was asked for, as wide and as colourful as the output can take.

--quiet, --verbose and --json mean the same in all commands because all of them print by what is here:
what is said on the way (tell, detail) and the outcome (essence, record, Output.finish).
"""

from __future__ import annotations

import contextlib
import enum
import os
import shutil
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from tprimat.errors import ExitStatus, TensorPrimatError
from tprimat.text import for_encoding, plain

if TYPE_CHECKING:
    from tprimat.results.run import Run

WIDEST = 200
"""Columns; beyond, even a table of many sides is only air."""


class Verbosity(enum.Enum):
    """How much a command prints on its standard output."""

    QUIET = "the outcome"
    NORMAL = "the outcome, and what a person should know of it"
    VERBOSE = "everything that is known"
    JSON = "the outcome, for a program"


class Output:
    """What a command says at its end.

    Attributes:
        verbosity: how much it prints.
        values: what a program is told, apart from notes and exit status.
        notes: what a program is told in sentences.
        speaks: whether this process is the one of several that says it.
    """

    def __init__(self, verbosity: Verbosity, stream: TextIO, **values: Any) -> None:
        self.verbosity = verbosity
        self.values = values
        self.notes: list[str] = []
        self.speaks = True
        self._stream = stream
        self._paths: list[str] = []

    @property
    def has_outcome(self) -> bool:
        """Whether there is a result to speak of, whatever happens next."""
        return bool(self._paths)

    def record(self, run: Run, path: Path | str | None) -> None:
        """Takes a training with the file of its result; None where there is no file."""
        if path is not None:
            self._paths.append(str(path))
        if self.verbosity is Verbosity.JSON:
            from tprimat.report import machine

            self.values.setdefault("results", []).append(machine.run_values(run, path))

    def finish(self, status: int) -> int:
        """Prints what was asked for: the paths of the results, a line each, or the document for a program.

        Returns:
            The status.
        """
        if not self.speaks:
            return status
        if self.verbosity is Verbosity.QUIET:
            for path in dict.fromkeys(self._paths):
                self.put(plain(path))
        elif self.verbosity is Verbosity.JSON:
            from tprimat.report import machine

            notes = list(dict.fromkeys(self.notes))
            self.put(machine.dumped({**self.values, "notes": notes, "status": int(status)}))
        return status

    def put(self, text: str) -> None:
        """Prints on the command's own standard output, at any verbosity."""
        print(for_encoding(text, self._stream.encoding), file=self._stream, flush=True)

    def standard_output(self) -> contextlib.AbstractContextManager[object]:
        """Gives the standard output back for a while, to a command that prints an outcome of its own."""
        return contextlib.redirect_stdout(self._stream)


_CURRENT: ContextVar[Output | None] = ContextVar("output", default=None)


@contextlib.contextmanager
def capture_output(level: Verbosity, **values: Any) -> Iterator[Output]:
    """Has everything that is printed follow the verbosity, until the block ends.

    What others print, such as a framework that is called in this process, leaves the outcome alone:
    it is dropped when it is to be quiet, and goes to the standard error beside JSON.

    Args:
        level: how much is printed.
        values: what a program is told at least.
    """
    output = Output(level, sys.stdout, **values)
    token = _CURRENT.set(output)
    try:
        with _others(level):
            yield output
    except (TensorPrimatError, KeyboardInterrupt) as error:
        # Results that were written are there, whatever ended the command after them.
        if output.has_outcome:
            output.finish(error.status if isinstance(error, TensorPrimatError) else ExitStatus.TRAINING_FAILED)
        raise
    finally:
        _CURRENT.reset(token)


@contextlib.contextmanager
def _others(level: Verbosity) -> Iterator[None]:
    if level is Verbosity.QUIET:
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
            yield
    elif level is Verbosity.JSON:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    else:
        yield


def current() -> Output:
    """The output of the command that runs; an ordinary one where none has begun."""
    return _CURRENT.get() or Output(Verbosity.NORMAL, sys.stdout)


def verbosity() -> Verbosity:
    """How much the command that runs prints."""
    return current().verbosity


def info(line: str = "") -> None:
    """Prints a line at once, for whoever watches."""
    if verbosity() in (Verbosity.NORMAL, Verbosity.VERBOSE):
        print(for_encoding(line, sys.stdout.encoding), flush=True)


def debug(line: str) -> None:
    """Prints a line that only whoever asks for everything wants."""
    if verbosity() is Verbosity.VERBOSE:
        info(line)


def summary(line: str) -> None:
    """Prints a line that stands for all that is left out when it is to be quiet."""
    if verbosity() is Verbosity.QUIET:
        current().put(line)


def warn(line: str) -> None:
    """Says on the standard error that something is wrong, where the account that would say so is left out."""
    if verbosity() is Verbosity.QUIET:
        print(for_encoding(f"warning: {plain(line)}", sys.stderr.encoding), file=sys.stderr, flush=True)


def record(run: Run, path: Path | str | None, title: str | None = None) -> None:
    """Takes a training for the outcome.

    Args:
        run: the training.
        path: the file of its result; None where there is none.
        title: what it is called when it is to be said that it didn't end well; None where that was said.
    """
    current().record(run, path)
    if title is not None and run.status != "complete":
        warn(f"{title}: {run.status}{f': {run.status_reason}' if run.status_reason else ''}")


def terminal_size() -> tuple[int, bool]:
    """Columns, and whether colour may be used."""
    terminal = sys.stdout.isatty()
    color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return min(shutil.get_terminal_size().columns, WIDEST) if terminal else 80, color


def echo(text: str) -> None:
    """Prints text at any verbosity, in whatever encoding the output has."""
    print(for_encoding(text, sys.stdout.encoding).rstrip("\n"), flush=True)
