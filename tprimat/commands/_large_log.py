"""Reads a log, and one that is large by several processes: each reads a range of the file.

A range is cut at line ends. What a process can read without knowing what comes before comes back as
records; the rest, such as restarts, is read here. Either way the same is found as by one process.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tprimat import plain_files, read
from tprimat.commands import _inputs
from tprimat.errors import TensorPrimatError
from tprimat.read import megatron
from tprimat.read.text import LONGEST_LINE, Blocks

if TYPE_CHECKING:
    from tprimat.read.intake import Intake
    from tprimat.read.megatron_parts import Segment
    from tprimat.read.reading import Reading

LEAST = 256 << 20
"""Bytes of a file that is worth several processes."""

RANGE = 32 << 20
"""Bytes that a process reads at a time."""

MOST_WORKERS = 4
"""More would wait for the hash, which one thread works out."""


def readings(
    log: _inputs.Log,
    chunks: Iterator[bytes] | None = None,
    *,
    workers: int | None = None,
    least: int = LEAST,
    size: int = RANGE,
    start_method: str | None = None,
) -> list[Reading]:
    """The trainings that a log holds. See read.readings().

    Args:
        log: is read to its end, so that its hash is that of all of it.
        chunks: its content, if reading has begun.
        workers: processes beside this one; 1 for none; as many as there are processors when left out.
        least: bytes of a file that is worth them.
        size: bytes of a range.
        start_method: of multiprocessing; the quickest safe one when left out.

    Raises:
        UnreadableError: it can't be read, or holds no training.
    """
    intake = read.intake()
    blocks = Blocks()
    chunks = log.chunks() if chunks is None else chunks
    workers = _workers() if workers is None else workers
    whole = _size_of(log) if workers > 1 else 0
    fed = 0
    for chunk in chunks:
        fed += len(chunk)
        for block in blocks.feed(chunk):
            intake.feed(block)
        if intake.alone is not None and whole - fed >= least:
            _Division(log, intake, blocks, fed, whole, size).read(chunks, workers, start_method or _start_method())
            break
    for block, ended in blocks.finish():
        intake.feed(block, whole=ended)
    if whole and log.source_file().bytes != whole:
        # It grew meanwhile, so that the last range may have ended within what belongs together.
        return readings(_inputs.Log(log.path), workers=1)
    return read.readings_in(intake, log.name)


def _workers() -> int:
    import multiprocessing

    # A process of a pool can't have one of its own.
    if multiprocessing.parent_process() is not None:
        return 1
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MOST_WORKERS, there)


def _start_method() -> str:
    # A fork takes milliseconds, but not all of a process that has other threads.
    return "fork" if sys.platform == "linux" and threading.active_count() == 1 else "spawn"


def _size_of(log: _inputs.Log) -> int:
    """Bytes of a file that can be read from any line on; 0 for any other."""
    path = Path(log.path)
    if log.path == _inputs.STANDARD_INPUT:
        return 0
    try:
        with plain_files.opened(path) as stream:
            head = stream.read(8)
            size = os.fstat(stream.fileno()).st_size
    except OSError:
        return 0  # a pipe; or it is gone, which its reader says
    return size if _inputs.is_plain(head) and Blocks.is_utf8(head) else 0


class _Division:
    """Reads the rest of a log by several processes.

    Args:
        log: the log.
        intake: what took its beginning in.
        blocks: of the beginning.
        fed: bytes of the file that went into them.
        whole: bytes of the file.
        size: bytes of a range.
    """

    def __init__(self, log: _inputs.Log, intake: Intake, blocks: Blocks, fed: int, whole: int, size: int) -> None:
        self._path = log.path
        self._intake = intake
        self._blocks = blocks
        self._at = fed
        """Of the file's bytes, how many were taken in or are held by the blocks."""
        self._fed = fed
        self._whole = whole
        self._size = size
        self._grown: list[bytes] = []
        self._fault: TensorPrimatError | None = None

    def read(self, chunks: Iterator[bytes], workers: int, start_method: str) -> None:
        """Reads it.

        Args:
            chunks: the rest of the file; they are what is hashed.
            workers: processes.
            start_method: of multiprocessing.
        """
        import concurrent.futures
        import multiprocessing
        from concurrent.futures.process import BrokenProcessPool

        context = multiprocessing.get_context(start_method)
        first = self._fed - self._blocks.held
        ranges = [(at, min(at + self._size, self._whole)) for at in range(first, self._whole, self._size)]
        rest = threading.Thread(target=self._exhaust, args=(chunks,), daemon=True)
        try:
            with concurrent.futures.ProcessPoolExecutor(workers, mp_context=context) as pool:
                found = [pool.submit(segments_of, self._path, at, end, first) for at, end in ranges]
                rest.start()
                while found:
                    # Each is let go as soon as it is joined.
                    for segment in found.pop(0).result():
                        self._join(segment)
        except (BrokenProcessPool, OSError):
            # No processes to be had here, or one was killed: one reads on where they ended.
            if not rest.ident:
                rest.start()
        self._read_to(self._whole)
        rest.join()
        if self._fault is not None:
            raise self._fault
        for chunk in self._grown:
            self._feed(chunk)

    def _exhaust(self, chunks: Iterator[bytes]) -> None:
        """Reads the file to its end, which is where its hash comes from; keeps what was added since it was begun."""
        at = self._fed
        try:
            for chunk in chunks:
                if at + len(chunk) > self._whole:
                    self._grown.append(chunk[max(0, self._whole - at) :])
                at += len(chunk)
        except TensorPrimatError as fault:
            self._fault = fault

    def _join(self, segment: Segment) -> None:
        reader = self._intake.alone
        if segment.end <= self._at - self._blocks.held:
            return
        if segment.part is not None and isinstance(reader, megatron.Reader):
            self._read_to(segment.start)
            here = segment.start == self._at and not self._blocks.held
            if here and reader.join(segment.part, segment.late, self._intake.number):
                self._at = segment.end
                self._intake.number += segment.lines
                return
        self._read_to(segment.end)

    def _read_to(self, end: int) -> None:
        """Reads on in this process."""
        if end <= self._at:
            return
        with Path(self._path).open("rb") as stream:
            stream.seek(self._at)
            while self._at < end and (chunk := stream.read(min(_inputs.CHUNK, end - self._at))):
                self._at += len(chunk)
                self._feed(chunk)

    def _feed(self, chunk: bytes) -> None:
        for block in self._blocks.feed(chunk):
            self._intake.feed(block)


def segments_of(path: str, start: int, end: int, first: int) -> list[Segment]:
    """What a process finds in a range of a log.

    Args:
        path: of the log.
        start: of the range; the line in which it lies is of the range before.
        end: of the range; the line in which it lies is of this range.
        first: place in the file where a line begins, though none ends before it.
    """
    from tprimat.read.megatron_parts import Parts, blocks_of

    with Path(path).open("rb") as stream:
        begin = start if start == first else _line_end(stream, start - 1)
        stop = _line_end(stream, end - 1) if begin < end else begin
        parts = Parts(begin)
        stream.seek(begin)
        left = [stop - begin]

        def chunks() -> Iterator[bytes]:
            while chunk := stream.read(min(_inputs.CHUNK, left[0])):
                left[0] -= len(chunk)
                yield chunk

        for block in blocks_of(chunks(), LONGEST_LINE):
            parts.feed(block)
        return parts.finish(stop)


def _line_end(stream: BinaryIO, at: int) -> int:
    """Where the line ends that holds a byte; the end of the file where it doesn't."""
    stream.seek(at)
    while chunk := stream.read(_inputs.CHUNK):
        end = chunk.find(b"\n")
        if end >= 0:
            return at + end + 1
        at += len(chunk)
    return at
