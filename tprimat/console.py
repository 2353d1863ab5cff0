"""Console output: as much as requested, as wide and colorful as the terminal allows.

--quiet, --verbose and --json mean the same in all commands because all of them print through this
module: what happens on the way (info, debug, note) and the outcome (summary, record,
Output.finish).
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TextIO

from tprimat.errors import ExitStatus, TensorPrimatError
from tprimat.text import for_encoding, plain, runnable

WIDEST = 200
"""Columns; wider lines would only add white space."""

NOTE_WIDTH = 80
"""Columns of a line that is made of sentences."""


class Verbosity(enum.Enum):
    """How much a command prints on its standard output."""

    QUIET = "the outcome"
    NORMAL = "the outcome, and what a person should know of it"
    VERBOSE = "everything that is known"
    JSON = "the outcome, for a program"


@dataclasses.dataclass
class Output:
    """The output of one command.

    Attributes:
        encoder: gives report/json_values.py, which encodes the document for a program.
        values: what a program is told, apart from notes and exit status.
        notes: what a program is told in sentences.
        paths: of the results that were written.
        is_main_process: whether this process is the one of several that prints the outcome.
    """

    verbosity: Verbosity
    stream: TextIO
    encoder: Callable[[], Any] | None = None
    values: dict[str, Any] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)
    paths: list[str] = dataclasses.field(default_factory=list)
    is_main_process: bool = True

    def finish(self, status: int) -> int:
        """Print the outcome: the results' paths, a line each, or the document for a program. Return
        the status.
        """
        if self.is_main_process and self.verbosity is Verbosity.QUIET:
            for path in dict.fromkeys(self.paths):
                self.put(plain(path))
        elif self.is_main_process and self.verbosity is Verbosity.JSON and self.encoder is not None:
            notes = list(dict.fromkeys(self.notes))
            self.put(self.encoder().dumped({**self.values, "notes": notes, "status": int(status)}))
        return status

    def put(self, text: str) -> None:
        """Print on the command's own standard output, at any verbosity."""
        print(for_encoding(text, self.stream.encoding), file=self.stream, flush=True)

    def standard_output(self) -> contextlib.AbstractContextManager[object]:
        """Give the standard output back for a while, to a command that prints an outcome of its
        own.
        """
        return contextlib.redirect_stdout(self.stream)


_CURRENT: ContextVar[Output | None] = ContextVar("output", default=None)


@contextlib.contextmanager
def capture_output(level: Verbosity, encoder: Callable[[], Any], **values: Any) -> Iterator[Output]:
    """Make everything that is printed follow the verbosity, until the block ends.

    What others print, such as a framework that runs in this process, leaves the outcome alone: it
    is dropped with --quiet, and goes to the standard error with --json. The values begin the
    document for a program.
    """
    output = Output(level, sys.stdout, encoder, values)
    token = _CURRENT.set(output)
    try:
        with contextlib.ExitStack() as redirected:
            if level is Verbosity.QUIET:
                nowhere = redirected.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
                redirected.enter_context(contextlib.redirect_stdout(nowhere))
            elif level is Verbosity.JSON:
                redirected.enter_context(contextlib.redirect_stdout(sys.stderr))
            yield output
    except (TensorPrimatError, KeyboardInterrupt) as error:
        # Results that were written are there, whatever ended the command after them.
        if output.paths:
            output.finish(
                error.status if isinstance(error, TensorPrimatError) else ExitStatus.TRAINING_FAILED
            )
        raise
    finally:
        _CURRENT.reset(token)


def current() -> Output:
    """Return the output of the command that runs; an ordinary one if none has begun."""
    return _CURRENT.get() or Output(Verbosity.NORMAL, sys.stdout)


def verbosity() -> Verbosity:
    """Return how much the command that runs prints."""
    return current().verbosity


def leave_to_another() -> None:
    """From here on print only errors; another node prints the rest."""
    output = current()
    output.verbosity = Verbosity.QUIET
    output.is_main_process = False


def info(line: str = "") -> None:
    """Print a line at once, for people."""
    if verbosity() in (Verbosity.NORMAL, Verbosity.VERBOSE):
        print(for_encoding(line, sys.stdout.encoding), flush=True)


def debug(line: str) -> None:
    """Print a line with --verbose only."""
    if verbosity() is Verbosity.VERBOSE:
        info(line)


def error(line: str, *, see: str | None = None) -> None:
    """Print a line on the standard error, at any verbosity, and the heading in
    docs/troubleshooting.md to see.

    A terminal gets it in lines that end between words, but for a hint, whose command is copied as
    it is.
    """
    if see is not None:
        line += f"\nsee:   docs/troubleshooting.md#{see}"
    if sys.stderr.isatty():
        form = textwrap.TextWrapper(
            shutil.get_terminal_size().columns,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        line = "\n".join(
            part if part.startswith("hint:") else form.fill(part) for part in line.split("\n")
        )
    print(for_encoding(line, sys.stderr.encoding), file=sys.stderr, flush=True)


def note(text: str, *, weakens: bool = False) -> None:
    """Print a sentence in lines of NOTE_WIDTH, and put it among the notes for a program.

    One that weakens what is measured, or loses some of it, is printed as a warning with --quiet.
    """
    text = plain(runnable(text))
    current().notes.append(text)
    if weakens:
        warn(text)
    line = f"note: {text}"
    info(
        textwrap.fill(
            line, NOTE_WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
    )


def summary(line: str) -> None:
    """Print the summary line of quiet mode."""
    if verbosity() is Verbosity.QUIET:
        current().put(line)


def warn(line: str) -> None:
    """Print a warning on the standard error in quiet mode, which doesn't print the account that has
    it.
    """
    if verbosity() is Verbosity.QUIET and current().is_main_process:
        error(f"warning: {plain(line)}")


def record(
    run: Any, path: Path | str | None, title: str | None = None, notes: Sequence[str] = ()
) -> None:
    """Add a training, the file of its result, if there is one, and notes on it to the outcome.

    With its title, one that is not complete is a warning; without, that was printed already.
    """
    output = current()
    if path is not None:
        output.paths.append(str(path))
    if output.verbosity is Verbosity.JSON and output.encoder is not None:
        output.values.setdefault("results", []).append(output.encoder().run_values(run, path))
    if title is not None and run.status != "complete":
        warn(f"{title}: {run.status}{f': {run.status_reason}' if run.status_reason else ''}")
    output.notes.extend(f"{title}: {note}" for note in notes)


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines, each column as wide as its widest cell; the first row is the
    heading.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def has_progress_bar() -> bool:
    """Return whether a progress bar can be drawn in the place of a training's own lines."""
    return (
        verbosity() is Verbosity.NORMAL
        and sys.stdout.isatty()
        and os.environ.get("TERM", "") != "dumb"
    )


def terminal_size() -> tuple[int, bool]:
    """Return the columns, and whether color may be used."""
    terminal = sys.stdout.isatty()
    color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return min(shutil.get_terminal_size().columns, WIDEST) if terminal else 80, color


def echo(text: str) -> None:
    """Print text at any verbosity, in whatever encoding the output has."""
    print(for_encoding(text, sys.stdout.encoding).rstrip("\n"), flush=True)
