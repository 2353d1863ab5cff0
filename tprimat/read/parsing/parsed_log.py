"""What readers of log formats and file formats are, and what they give: ParsedLog.

A reader is fed lines and afterwards gives a ParsedLog for each training that it saw, which knows what
the log states and on which line; the command sets what the user says beside it, and asks for the Run.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, BinaryIO, Protocol

from tprimat.read.parsing.events import Moment
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.values import LoggedValue
from tprimat.results.run import Run


@dataclasses.dataclass(frozen=True)
class ParsedLog:
    """One training that a log holds.

    Attributes:
        steps: records of steps that it has.
        stated: what the log says of the setup, by field.
        notes: what the reader did that leaves no doubt, such as passing over doubled lines.
        build: makes the Run; see run().
        resumed: the step that the training goes on from, where the log says that it is another attempt.
        began: the first time in the log.
    """

    steps: int
    stated: Mapping[str, LoggedValue]
    notes: tuple[str, ...]
    build: Callable[[Mapping[str, Any]], Run]
    resumed: int | None = None
    began: Moment | None = None

    def run(self, given: Mapping[str, Any] | None = None) -> Run:
        """Return the training as a Run without source files; what the user gives replaces what the log states."""
        return self.build(given or {})


class Reader(Protocol):
    """A log format's reader, for one log. Every class of this name in `read` is one of LOG_FORMATS."""

    name: str
    """Of the log format."""

    @property
    def recognised(self) -> bool:
        """Whether some line so far has this log format."""

    def feed(self, line: Line) -> None:
        """Take the next line."""

    def finish(self) -> list[ParsedLog]:
        """Return the trainings of this log format, in the order of the log; none where there is none."""


class TakesBlocks(Reader, Protocol):
    """A reader that also takes many lines at once, and then needn't look at each of them."""

    @property
    def steps_found(self) -> int:
        """Steps of this log format found so far."""

    def feed_block(self, number: int, block: bytes) -> int:
        """Read whole lines, as text.Blocks gives them; `number` is that of the first, and that after them returned."""


@dataclasses.dataclass(frozen=True)
class InputFile:
    """A file to read: its name, for messages only, and a seekable stream at its start."""

    name: str
    stream: BinaryIO

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows of a CSV file with their lines. Raises ValueError, with the line, where it is none."""
        text = io.TextIOWrapper(self.stream, encoding="utf-8-sig", errors="replace", newline="")
        reader = csv.reader(line.replace("\0", "") for line in text)
        try:
            for row in reader:
                yield reader.line_num, row
        except csv.Error as error:
            raise ValueError(f"line {reader.line_num}: {error}") from error
        finally:
            text.detach()

    def table(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield the rows below a header by column, with their lines; not those of another length. Raises as rows()."""
        header: list[str] | None = None
        for line, row in self.rows():
            if header is None:
                header = [name.strip() for name in row]
            elif len(row) == len(header):
                yield line, dict(zip(header, row, strict=True))


@dataclasses.dataclass(frozen=True)
class FileFormat:
    """How files of one kind are recognised and read.

    Attributes:
        name: of the log format.
        looks_for: by what a file is recognised, for people.
        recognises: whether a file that begins with these bytes is one.
        read: the trainings of the files that belong together; gets small neighbouring files by
            name. Raises ValueError, with the reason, for content that can't be read.
        together: maps a file's path to the folder, or another path, that all files of its training
            share; None where each file is a training.
        beside: patterns of helpful files, in that folder or in the file's own.
        is_streamed: whether `read` goes through each file once, from its start: such files may be large.
    """

    name: str
    looks_for: str
    recognises: Callable[[bytes], bool]
    read: Callable[[Sequence[InputFile], Mapping[str, bytes]], list[ParsedLog]]
    together: Callable[[str], str] | None = None
    beside: tuple[str, ...] = ()
    is_streamed: bool = False


def folder_of(path: str) -> str:
    """Return the folder of a file: for formats whose files in one folder are one training."""
    return str(PurePath(path).parent)


_RANK = re.compile(r"(?<![a-zA-Z])(rank[_-]?)\d{1,6}", re.IGNORECASE)


def without_rank(path: str) -> str:
    """Return the path of a file without the number of its rank, so that files of all ranks are alike."""
    return _RANK.sub(r"\1", path)


def columns_of(head: bytes) -> list[str]:
    """Return the names in the first line of a CSV file that begins with these bytes; none where that is no header."""
    first = head.decode("utf-8-sig", errors="replace").partition("\n")[0]
    return [name.strip().strip('"') for name in first.strip().split(",")] if len(first) <= 20_000 else []
