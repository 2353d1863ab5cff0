"""Reads the middle of a Megatron log without its beginning, so that several processes can share a log.

Whether a line is a double, a restart or the first of a training depends on all lines before it. But
where iteration follows iteration that doesn't matter: such a part can be read by itself and be
joined to what comes before it, if its first iteration is a later one. All else is left unread, and
read by whoever joins the parts: around the beginning of the middle, where a process starts, and
where lines don't go on as expected.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tprimat.read.megatron import reader as megatron
from tprimat.read.megatron.fast_path import Quick
from tprimat.read.megatron.layout import Layouts, record_of
from tprimat.read.megatron.line import Record, records
from tprimat.read.megatron.training import ARGUMENT_DUMP, FIRST_RECORDS, Context, Stretch, Training
from tprimat.read.parsing.text import Line, Numbers, clean, keep_memory, lines_of, numpy_if_there

LINES_BEFORE, ITERATIONS_BEFORE = 64, FIRST_RECORDS + 3
"""Iteration lines, and new iterations among them, that are left unread before a part: what comes
late of the iterations before may still come."""

MOST_LATE = 10_000
"""Late lines of iterations before a part."""


@dataclasses.dataclass(frozen=True)
class Segment:
    """A stretch of a log.

    Attributes:
        start: of its first byte in the file.
        end: of the byte after it.
        lines: how many; 0 where it is left unread.
        part: what it holds, with lines counted from 1; None where it is left unread.
        late: records of iterations before it that come in it, with the iteration that it had come to.
    """

    start: int
    end: int
    lines: int = 0
    part: Training | None = None
    late: tuple[tuple[Record, int], ...] = ()


class _ApartError(Exception):
    """A line doesn't go on from what comes before it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Span(Stretch):
    """A stretch of which only the size is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0
        self.size = 0
        self._dump = False

    def hold(self, number: int, block: bytes) -> None:
        """Takes whole lines."""
        self.number = self.number if self.held else number
        self.held = True
        self.size += len(block)
        self._dump = self._dump or ARGUMENT_DUMP.encode() in block

    @property
    def dumped(self) -> bool:
        """Whether the bytes look as if a process dumped its arguments."""
        return self._dump

    def context(self) -> Context:
        """Nothing: what is in it is left unread."""
        return Context()


class _Part(megatron.Reader):
    """Reads on from a record, as long as iteration follows iteration."""

    def __init__(self, layouts: Layouts, raw: bytes, record: Record, text: str) -> None:
        super().__init__(_Span)
        # A part is of a log that is long.
        self._numpy = numpy_if_there()
        self._quick.layouts = layouts
        training = Training()
        training.add(record, text)
        training.since_start = FIRST_RECORDS + 1
        self._trainings.append(training)
        self._quick.learn(raw, record, training, last=True)
        self.late: list[tuple[Record, int]] = []
        self.place = 0

    @property
    def training(self) -> Training:
        """What was read."""
        return self._trainings[-1]

    @property
    def span(self) -> _Span:
        """What stands after the last record."""
        assert isinstance(self._stretch, _Span)
        return self._stretch

    def feed(self, line: Line) -> None:
        """Refuses a line that isn't a record, whole and alone."""
        raise _ApartError(line.number)

    def _take_slowly(self, block: bytes, unread: int, start: int, end: int, numbers: Numbers) -> bool:
        self.place = start
        return super()._take_slowly(block, unread, start, end, numbers)

    def _take(self, record: Record, text: str, *, whole: bool) -> bool:
        known = self.training.records.get(record.iteration)
        if self.span.dumped:
            raise _ApartError(record.line)
        if record.iteration < self.training.records.first and len(self.late) < MOST_LATE:
            self.late.append((record, self.training.records.last))
            self._stretch = _Span()
            return False
        if known is not None:
            goes_on = megatron.same_moment(known, record, self.training.records.last)
        else:
            last = self.training.records.record_of(self.training.records.last)
            onward = record.iteration > last.iteration
            apart = onward and megatron.signs_of_another(last, record) > 0
            goes_on = not apart if onward else megatron.is_late(record, self.training)
        if not goes_on:
            raise _ApartError(record.line)
        return super()._take(record, text, whole=whole)


class Parts:
    """Finds the parts of the middle of a log.

    Args:
        start: of the first byte in the file, where a line begins.
    """

    def __init__(self, start: int) -> None:
        self._at = start
        self._unread = start
        self._segments: list[Segment] = []
        self._quick = Quick()
        self._part: _Part | None = None
        self._first = 0
        self._number = 1
        self._forget()

    def feed(self, block: bytes) -> None:
        """Takes the next lines, whole ones."""
        at: int | None = 0
        while at is not None:
            at = self._before(block, at) if self._part is None else self._within(block, at)
        self._at += len(block)

    def finish(self, end: int) -> list[Segment]:
        """The segments, in the order of the file and without gaps, up to a byte that is no more fed."""
        if self._part is not None:
            span = self._part.span
            self._close(self._at - span.size, span.number if span.held else self._number)
        if self._unread < end:
            self._segments.append(Segment(self._unread, end))
        return self._segments

    def _forget(self) -> None:
        self._lines = self._new = self._back = 0
        self._highest = 0

    def _before(self, block: bytes, at: int) -> int | None:
        """Looks for the beginning of a part."""
        _, line = self._quick.take(None, block, at, 0, Numbers(0, b""))
        if line is None:
            return None
        start, end = line
        found = self._single(block[start:end].rstrip(b"\r"))
        if found is None:
            return end + 1
        record, text = found
        self._lines += 1
        if record.iteration <= self._highest:
            self._back += record.iteration < self._highest
            if self._back > LINES_BEFORE:
                self._forget()
                self._highest = record.iteration
            return end + 1
        self._highest = record.iteration
        self._new += 1
        self._back = 0
        if self._lines < LINES_BEFORE or self._new < ITERATIONS_BEFORE:
            return end + 1
        if self._at + start > self._unread:
            self._segments.append(Segment(self._unread, self._at + start))
        self._first = self._unread = self._at + start
        record.line = 1
        self._part = _Part(self._quick.layouts, block[start:end].rstrip(b"\r"), record, text)
        self._number = 2
        return end + 1

    def _within(self, block: bytes, at: int) -> int | None:
        """Reads on in a part."""
        assert self._part is not None
        rest = block[at:] if at else block
        try:
            self._number = self._part.feed_block(self._number, rest)
        except _ApartError as apart:
            span = self._part.span
            place = at + self._part.place
            self._close(self._at + place - span.size, span.number if span.held else apart.number)
            return place
        return None

    def _close(self, end: int, number: int) -> None:
        assert self._part is not None
        training = self._part.training
        training.records = training.records.settled()
        self._segments.append(Segment(self._first, end, number - 1, training, tuple(self._part.late)))
        self._part, self._unread = None, end
        self._forget()

    def _single(self, raw: bytes) -> tuple[Record, str] | None:
        """The record of a line that holds a single one and nothing else."""
        made = self._quick.layouts.of(raw)
        record = record_of(*made, 0) if made else None
        if record is not None and record.iteration >= 1:
            return record, clean(raw.decode("utf-8", "replace"))
        there = list(lines_of(raw + b"\n", 0))
        found = [each for line in there for each in records(line)]
        if len(there) != 1 or len(found) != 1:
            return None
        self._quick.layouts.learn(raw, found[0])
        return found[0], there[0].text


def blocks_of(chunks: Iterator[bytes], longest: int) -> Iterator[bytes]:
    """Whole lines of the bytes of a range; ends early before a line that is longer than longest."""
    keep_memory()
    rest = b""
    for chunk in chunks:
        end = chunk.rfind(b"\n") + 1
        if end:
            yield b"".join((rest, memoryview(chunk)[:end]))
            rest = chunk[end:]
        else:
            rest += chunk
        if len(rest) > longest:
            return
