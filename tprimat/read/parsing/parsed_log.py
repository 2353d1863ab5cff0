"""The types of readers of log formats and file formats, and of their result: ParsedLog.

A reader is fed lines and afterwards gives a ParsedLog for each training that it saw, which knows
what the log states and on which line; the command adds the values that the user gives, and asks for
the Run.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import IO, Any, AnyStr, BinaryIO, Protocol

from tprimat.read.parsing import invariants
from tprimat.read.parsing.events import Moment
from tprimat.read.parsing.text import LONGEST_LINE, Line
from tprimat.read.parsing.values import LoggedValue
from tprimat.results.run import Run

Beside = Mapping[str, bytes]
"""The contents of files next to a log, by name."""

Given = Mapping[str, Any]
"""What a user states of a run, by the options' names."""


@dataclasses.dataclass(frozen=True)
class ParsedLog:
    """One training that a log holds.

    Attributes:
        steps: records of steps that it has.
        stated: the setup as the log states it, by field.
        notes: actions of the reader that leave no doubt, such as skipping doubled lines.
        build: makes the Run; see run().
        resumed: the step that the training resumes from, if the log shows that it is another
            attempt; else None.
        began: the first time in the log outside of its records, or None.
        dated: the first time of all.
    """

    steps: int
    stated: Mapping[str, LoggedValue]
    notes: tuple[str, ...]
    build: Callable[[Given], Run]
    resumed: int | None = None
    began: Moment | None = None
    dated: Moment | None = None

    def run(self, given: Given | None = None) -> Run:
        """Return the training as a Run without source files; values that the user gives replace
        those of the log.
        """
        return invariants.checked(self.build(given or {}))


class Reader(Protocol):
    """A log format's reader, for one log. Every class of this name in `read` is one of
    log_formats().
    """

    name: str
    """Name of the log format."""

    @property
    def all_signs(self) -> Sequence[str]:
        """A line without any of these, a time, an event or a failure has no information for it.

        Unless it knows the log, or its attribute `within` is true: it has begun what goes on over
            several lines.
        """

    @property
    def recognized(self) -> bool:
        """Whether some line so far has this log format."""

    def feed(self, line: Line) -> bool | None:
        """Take the next line; return whether it is one of a step, where that is known."""

    def finish(self) -> list[ParsedLog]:
        """Return the runs of this log format, in the order of the log; none if there is none."""


class TakesBlocks(Reader, Protocol):
    """A reader that also takes many lines at once, and then needn't look at each of them."""

    @property
    def steps_found(self) -> int:
        """Steps of this log format found so far."""

    def feed_block(self, number: int, block: bytes) -> int:
        """Read whole lines, as text.Blocks gives them; `number` is that of the first, and that
        after them returned.
        """


@dataclasses.dataclass(frozen=True)
class InputFile:
    """A file to read: its name, for messages only, and a seekable stream at its start."""

    name: str
    stream: BinaryIO

    def lines(self) -> Iterator[bytes]:
        """Return the lines from the start of the file. One that is longer than LONGEST_LINE raises
        ValueError.
        """
        self.stream.seek(0)
        return _bounded(self.stream)

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows of a CSV file, the header first, with their lines.

        Columns are parted by commas, semicolons or tabs. Numbers come with a decimal point, also
        where the file has decimal commas. Raises ValueError, with the line, if it is no CSV file,
        or its numbers are ambiguous.
        """
        has_commas = any(map(_MAYBE_COMMA.search, self.lines())) and _has_commas(self._rows())
        for line, row, _ in self._rows():
            yield line, [*map(_with_point, row)] if has_commas else row

    def _rows(self) -> Iterator[tuple[int, list[str], str]]:
        """Yield line, cells as they are, and delimiter of the rows, from the start of the file."""
        self.stream.seek(0)
        text = io.TextIOWrapper(self.stream, encoding="utf-8-sig", errors="replace", newline="")
        lines = map(_without_cut_number, _bounded(text))
        number = 0
        try:
            delimiter, before, begin = _header(lines)
            reader = csv.reader(itertools.chain(begin, lines), delimiter=delimiter)
            for row in reader:
                number = before + reader.line_num
                yield number, row, delimiter
        except csv.Error as error:
            raise ValueError(f"line {number + 1}: {error}") from error
        finally:
            text.detach()

    def table(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield the rows below a header by column, with their lines; not those of another length.
        Raises as rows().
        """
        header = None
        for line, row in self.rows():
            if header is None:
                header = [name.strip() for name in row]
            elif len(row) == len(header):
                yield line, dict(zip(header, row, strict=True))


def _bounded(stream: IO[AnyStr]) -> Iterator[AnyStr]:
    while line := stream.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise ValueError(f"a line is longer than {LONGEST_LINE >> 20} MiB")
        yield line


ReadFiles = Callable[[Sequence[InputFile], Beside], list[ParsedLog]]


@dataclasses.dataclass(frozen=True)
class FileFormat:
    """How files of one kind are recognized and read.

    Attributes:
        looks_for: the features by which a file is recognized, for people.
        recognizes: whether a file that begins with these bytes is one.
        read: the runs of the files that belong together; gets small neighboring files by
            name. Raises ValueError, with the reason, for content that can't be read.
        together: maps a file's path to the directory, or another path, that all files of its
            training share; None if each file is a training.
        beside: patterns of helpful files, in that directory or in the file's own.
        is_streamed: whether `read` goes through each file once, from its start: such files may be
            large.
    """

    name: str
    looks_for: str
    recognizes: Callable[[bytes], bool]
    read: ReadFiles
    together: Callable[[str], str] | None = None
    beside: tuple[str, ...] = ()
    is_streamed: bool = False


def each_of(read: Callable[[InputFile, Beside], list[ParsedLog]]) -> ReadFiles:
    """Return what reads files one by one, from what reads one, given small neighboring files by
    name.
    """
    return lambda parts, beside: [parsed for part in parts for parsed in read(part, beside)]


def folder_of(path: str) -> str:
    """Return the directory of a file: for formats whose files in one directory are one training."""
    return str(PurePath(path).parent)


_RANK = re.compile(r"(?<![a-zA-Z])(rank[_-]?)\d{1,6}", re.IGNORECASE)


def without_rank(path: str) -> str:
    """Return the path of a file without the number of its rank, so that files of all ranks are
    alike.
    """
    return _RANK.sub(r"\1", path)


def columns_of(head: bytes) -> list[str]:
    """Return the names in the header of a CSV file that begins with these bytes; none if there is
    none.
    """
    try:
        delimiter, _, (first, *_) = _header(
            iter(head.decode("utf-8-sig", errors="replace").split("\n")[:100])
        )
    except csv.Error:
        return []
    if len(first) <= 20_000:
        return [name.strip().strip('"') for name in first.strip("\r\n ").split(delimiter)]
    return []


_LAST_NUMBER = re.compile(r"(?<![\w.])[+-]?\d[\d.eE+-]{0,60}$")
_SEPARATOR = re.compile(r"sep=([,;\t|])\s*", re.IGNORECASE)
_NO_VALUE = re.compile(r"[^-+\d.,;|\s\"nainfe]", re.IGNORECASE)


def _without_cut_number(line: str) -> str:
    """Return a line of a CSV file without zero bytes. One that ends within a number has a part of
    it: the cell is unknown.
    """
    if not line.endswith(("\n", "\r")):
        line = _LAST_NUMBER.sub("", line)
    return line.replace("\0", "")


def _header(lines: Iterator[str]) -> tuple[str, int, list[str]]:
    """Return the delimiter of a CSV file, how many lines lie before its header, and those that were
    read from there.

    Comments and Excel's “sep=;” may precede the header, or, as in files of numpy.savetxt(), the
    last comment is it.
    """
    delimiters = ",;\t"
    comment = ""
    line = ""
    before = 0
    for before, line in enumerate(lines):  # noqa: B007 - where it ends
        if separator := _SEPARATOR.fullmatch(line):
            delimiters = separator[1]
        elif line.startswith("#"):
            comment = line.lstrip("# ")
        elif line.strip():
            break
    is_header = bool(comment) and line != comment and _NO_VALUE.search(line) is None
    begin = [comment, line] if is_header else [line]

    def width(delimiter: str) -> int:
        return len(next(csv.reader([begin[0].replace("\r", "")], delimiter=delimiter), ()))

    return max(delimiters, key=width), before - is_header, begin


_MAYBE_COMMA = re.compile(rb'(?:^|[\t;"]) *[-+]?\d[\d.]*,\d+(?:[eE][-+]?\d+)? *(?:[\t;"\r\n]|$)')
_KINDS = {
    kind: re.compile(rf"[-+]?(?:{pattern})(?:[eE][-+]?\d+)?%?")
    for kind, pattern in {
        "point": r"\d*\.\d+|[1-9]\d{0,2}(?:(?:,\d{3})+\.\d*|(?:,\d{3}){2,})",
        "either": r"[1-9]\d{0,2},\d{3}",
        "comma": r"(?:\d+|\d{1,3}(?:\.\d{3})+),\d+",
    }.items()
}
"""Numbers by their decimal sign: 7.95 and 1,234.5 have a point, 7,95 has a comma, 2,351 neither."""


def _has_commas(rows: Iterable[tuple[int, list[str], str]]) -> bool:
    """Return whether a file has decimal commas, not commas between thousands. Raises ValueError for
    doubt.
    """
    seen: dict[str, tuple[int, str]] = {}
    mark = ""
    for line, row, mark in rows:  # noqa: B007 - the same for all
        for cell in map(str.strip, row):
            for kind, pattern in _KINDS.items():
                if pattern.fullmatch(cell):
                    seen.setdefault(kind, (line, cell))
                    break
    # Columns are parted by semicolons if commas have another use.
    if "comma" in seen:
        doubtful = "point"
    elif "point" not in seen and mark != ";":
        doubtful = "either"
    else:
        doubtful = ""
    if doubtful in seen:
        line, cell = seen[doubtful]
        raise ValueError(
            f"line {line}: {cell} can be read in two ways: write numbers with a decimal point alone"
        )
    return "point" not in seen


def _with_point(cell: str) -> str:
    if _KINDS["comma"].fullmatch(cell.strip()):
        return cell.replace(".", "").replace(",", ".")
    return cell
