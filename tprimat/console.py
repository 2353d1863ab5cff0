"""Console output: as much as requested, as wide and colourful as the terminal allows.

--quiet, --verbose and --json mean the same in all commands because all of them print through this module: what
happens on the way (info, debug, note) and the outcome (summary, record, Output.finish).
"""

from __future__ import annotations

import contextlib
import enum
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol, TextIO

from tprimat.errors import ExitStatus, TensorPrimatError
from tprimat.text import for_encoding, plain

WIDEST = 200
"""Columns; beyond, even a table of many sides is only air."""

NOTE_WIDTH = 80
"""Columns of a line that is made of sentences."""


class Verbosity(enum.Enum):
    """How much a command prints on its standard output."""

    QUIET = "the outcome"
    NORMAL = "the outcome, and what a person should know of it"
    VERBOSE = "everything that is known"
    JSON = "the outcome, for a program"


class Encoder(Protocol):
    """Converter of runs and values to a JSON document; see report/json_values.py."""

    def run_values(self, run: Any, path: Path | str | None) -> dict[str, Any]:
        """Return a run by the names of the result file."""

    def dumped(self, values: dict[str, Any]) -> str:
        """Return values as JSON."""


class Output:
    """The output of one command.

    Attributes:
        verbosity: how much it prints.
        values: what a program is told, apart from notes and exit status.
        notes: what a program is told in sentences.
        is_main_process: whether this process is the one of several that prints the outcome.
    """

    def __init__(
        self, verbosity: Verbosity, stream: TextIO, encoder: Callable[[], Encoder] | None = None, **values: Any
    ) -> None:
        self.verbosity = verbosity
        self.values = values
        self.notes: list[str] = []
        self.is_main_process = True
        self._stream = stream
        self._encoder = encoder
        self._paths: list[str] = []

    @property
    def has_outcome(self) -> bool:
        """Whether a result was written, whatever happens next."""
        return bool(self._paths)

    def record(self, run: Any, path: Path | str | None) -> None:
        """Add a run and the file of its result; None where there is no file."""
        if path is not None:
            self._paths.append(str(path))
        if self.verbosity is Verbosity.JSON and self._encoder is not None:
            self.values.setdefault("results", []).append(self._encoder().run_values(run, path))

    def finish(self, status: int) -> int:
        """Print the outcome: the paths of the results, a line each, or the document for a program.

        Returns:
            The status.
        """
        if not self.is_main_process:
            return status
        if self.verbosity is Verbosity.QUIET:
            for path in dict.fromkeys(self._paths):
                self.put(plain(path))
        elif self.verbosity is Verbosity.JSON and self._encoder is not None:
            notes = list(dict.fromkeys(self.notes))
            self.put(self._encoder().dumped({**self.values, "notes": notes, "status": int(status)}))
        return status

    def put(self, text: str) -> None:
        """Print on the command's own standard output, at any verbosity."""
        print(for_encoding(text, self._stream.encoding), file=self._stream, flush=True)

    def standard_output(self) -> contextlib.AbstractContextManager[object]:
        """Give the standard output back for a while, to a command that prints an outcome of its own."""
        return contextlib.redirect_stdout(self._stream)


_CURRENT: ContextVar[Output | None] = ContextVar("output", default=None)


@contextlib.contextmanager
def capture_output(level: Verbosity, encoder: Callable[[], Encoder], **values: Any) -> Iterator[Output]:
    """Make everything that is printed follow the verbosity, until the block ends.

    What others print, such as a framework that runs in this process, leaves the outcome alone: it is dropped with
    --quiet, and goes to the standard error with --json.

    Args:
        level: how much is printed.
        encoder: gives what encodes the document for a program.
        values: initial contents of the JSON document.
    """
    output = Output(level, sys.stdout, encoder, **values)
    token = _CURRENT.set(output)
    try:
        with _redirect_others(level):
            yield output
    except (TensorPrimatError, KeyboardInterrupt) as error:
        # Results that were written are there, whatever ended the command after them.
        if output.has_outcome:
            output.finish(error.status if isinstance(error, TensorPrimatError) else ExitStatus.TRAINING_FAILED)
        raise
    finally:
        _CURRENT.reset(token)


@contextlib.contextmanager
def _redirect_others(level: Verbosity) -> Iterator[None]:
    if level is Verbosity.QUIET:
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
            yield
    elif level is Verbosity.JSON:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    else:
        yield


def current() -> Output:
    """Return the output of the command that runs; an ordinary one where none has begun."""
    return _CURRENT.get() or Output(Verbosity.NORMAL, sys.stdout)


def verbosity() -> Verbosity:
    """Return how much the command that runs prints."""
    return current().verbosity


def info(line: str = "") -> None:
    """Print a line at once, for people."""
    if verbosity() in (Verbosity.NORMAL, Verbosity.VERBOSE):
        print(for_encoding(line, sys.stdout.encoding), flush=True)


def debug(line: str) -> None:
    """Print a line with --verbose only."""
    if verbosity() is Verbosity.VERBOSE:
        info(line)


def error(line: str) -> None:
    """Print a line on the standard error, at any verbosity."""
    print(for_encoding(line, sys.stderr.encoding), file=sys.stderr, flush=True)


def note(text: str, *, weakens: bool = False) -> None:
    """Print a sentence in lines of NOTE_WIDTH, and put it among the notes for a program.

    Args:
        text: one sentence.
        weakens: whether it weakens what is measured, or loses some of it: --quiet prints it too, as a warning.
    """
    current().notes.append(plain(text))
    if weakens:
        warn(text)
    line = f"note: {plain(text)}"
    info(textwrap.fill(line, NOTE_WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))


def summary(line: str) -> None:
    """Print a line with --quiet only, where it stands for all that is left out."""
    if verbosity() is Verbosity.QUIET:
        current().put(line)


def warn(line: str) -> None:
    """Print a warning on the standard error with --quiet, where the account that has it is left out."""
    if verbosity() is Verbosity.QUIET:
        error(f"warning: {plain(line)}")


def record(run: Any, path: Path | str | None, title: str | None = None) -> None:
    """Add a training to the outcome.

    Args:
        run: the training's Run.
        path: the file of its result; None where there is none.
        title: its name in a warning where it is not complete; None where that was printed already.
    """
    current().record(run, path)
    if title is not None and run.status != "complete":
        warn(f"{title}: {run.status}{f': {run.status_reason}' if run.status_reason else ''}")


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines, each column as wide as its widest cell; the first row is the heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def has_progress_bar() -> bool:
    """Return whether a progress bar can be drawn in the place of a training's own lines."""
    return verbosity() is Verbosity.NORMAL and sys.stdout.isatty() and os.environ.get("TERM", "") != "dumb"


def terminal_size() -> tuple[int, bool]:
    """Return the columns, and whether colour may be used."""
    terminal = sys.stdout.isatty()
    color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return min(shutil.get_terminal_size().columns, WIDEST) if terminal else 80, color


def echo(text: str) -> None:
    """Print text at any verbosity, in whatever encoding the output has."""
    print(for_encoding(text, sys.stdout.encoding).rstrip("\n"), flush=True)
