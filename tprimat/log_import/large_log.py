"""Reads a log, and one that is large by several processes: each reads a range of the file.

A range is cut at line ends. What a process can read without knowing what comes before comes back as
records; the rest, such as restarts, is read here. Either way the same is found as by one process.
The hash is worked out meanwhile, by a thread that reads the file for itself.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tprimat import files, read
from tprimat.errors import TensorPrimatError, UnreadableError
from tprimat.log_import import inputs
from tprimat.read.megatron import reader as megatron
from tprimat.read.parsing.text import LONGEST_LINE, Blocks, numpy_if_there

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tprimat.read.megatron.parts import Segment
    from tprimat.read.parsing.feeder import LogFeeder
    from tprimat.read.parsing.parsed_log import ParsedLog

LEAST = 256 << 20
"""Bytes of a file that is worth several processes."""

RANGE = 32 << 20
"""Bytes that a process reads at a time."""

BEGINNING = 1 << 20
"""Bytes that are left to this process, which finds out in them whose log it is. Most logs show it sooner."""

AHEAD = 2
"""Ranges that each process reads before that is known: in vain, should no such reader have the log alone."""

MOST_WORKERS = 4
"""More would wait for the hash, which one thread works out."""


def readings(
    log: inputs.Log,
    chunks: Iterator[bytes] | None = None,
    *,
    workers: int | None = None,
    least: int = LEAST,
    size: int = RANGE,
    start_method: str | None = None,
) -> list[ParsedLog]:
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
    chunks = log.chunks() if chunks is None else chunks
    workers = _workers() if workers is None else workers
    whole = _size_of(log) if workers > 1 else 0
    if not whole or whole < least:
        return read.readings_of(chunks, log.name)
    with _pool(workers, start_method) as pool:
        # A process is not forked off from one that has threads already.
        hashing = _Hashing(log, chunks)
        try:
            intake = _Division(log, whole).read(pool, size, AHEAD * workers)
        finally:
            hashing.join()
    hashed = log.source_file().bytes or 0
    if hashed != whole:
        # It grew meanwhile, so that the last range may have ended within what belongs together.
        return read.readings_of(_first(hashed, inputs.Log(log.path).chunks()), log.name)
    return read.readings_in(intake, log.name)


def _first(size: int, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """So many bytes: a log that still grows has more than its hash is of."""
    for chunk in chunks:
        yield chunk[:size]
        size -= len(chunk)
        if size <= 0:
            return


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


def _size_of(log: inputs.Log) -> int:
    """Bytes of a file that can be read from any line on; 0 for any other."""
    path = Path(log.path)
    if log.path == inputs.STANDARD_INPUT:
        return 0
    try:
        with files.open_plain(path) as stream:
            head = stream.read(8)
            size = os.fstat(stream.fileno()).st_size
    except OSError:
        return 0  # a pipe; or it is gone, which its reader says
    return size if inputs.is_plain(head) and Blocks.is_utf8(head) else 0


@contextlib.contextmanager
def _pool(workers: int, start_method: str | None) -> Iterator[Executor | None]:
    """So many processes, started; None where none are to be had."""
    import concurrent.futures
    import multiprocessing

    start_method = start_method or _start_method()
    if start_method == "fork":
        # What is imported here they need not import.
        _prepare()
    context = multiprocessing.get_context(start_method)
    try:
        pool = concurrent.futures.ProcessPoolExecutor(workers, context, _prepare)
        with contextlib.suppress(concurrent.futures.BrokenExecutor):
            # The first thing to do starts them.
            pool.submit(int)
    except OSError:
        yield None
        return
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _prepare() -> None:
    """What a process does first, while it isn't known yet whose log it is."""
    from tprimat.read.megatron import parts as megatron_parts  # noqa: F401

    numpy_if_there()


class _Hashing:
    """Reads a log to its end for its hash, in a thread.

    Args:
        log: the log.
        chunks: the rest of it.
    """

    def __init__(self, log: inputs.Log, chunks: Iterator[bytes]) -> None:
        log.unread = True
        self._fault: TensorPrimatError | None = None
        self._thread = threading.Thread(target=self._exhaust, args=(chunks,), daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Waits for the end of the file. Raises UnreadableError where that couldn't be read."""
        self._thread.join()
        if self._fault is not None:
            raise self._fault

    def _exhaust(self, chunks: Iterator[bytes]) -> None:
        try:
            for _ in chunks:
                continue
        except TensorPrimatError as fault:
            self._fault = fault


class _Division:
    """Reads a log: its beginning here, the rest by several processes once it is known whose it is.

    Args:
        log: the log.
        whole: bytes of the file.
    """

    def __init__(self, log: inputs.Log, whole: int) -> None:
        self._log = log
        self._intake = read.intake()
        self._blocks = Blocks()
        self._at = 0
        """Of the file's bytes, how many were taken in or are held by the blocks."""
        self._whole = whole

    def read(self, pool: Executor | None, size: int, ahead: int) -> LogFeeder:
        """Reads all of it.

        Args:
            pool: processes that help; None where none are to be had.
            size: bytes of a range.
            ahead: ranges that they read before it is known whose log it is.

        Returns:
            What took the log in.
        """
        from concurrent.futures import BrokenExecutor

        try:
            with files.open_plain(Path(self._log.path)) as self._stream:
                if pool is not None:
                    with contextlib.suppress(BrokenExecutor, OSError):
                        self._share(pool, size, ahead)
                # All of it, where nobody helps, and the rest where somebody was killed.
                self._read_to(self._whole)
        except OSError as error:
            why = error.strerror or str(error)
            raise UnreadableError(
                self._log.name, f"can't be read: {why}: check the name", heading="unreadable-file"
            ) from error
        for block, ended in self._blocks.finish():
            self._intake.feed(block, whole=ended)
        return self._intake

    def _share(self, pool: Executor, size: int, ahead: int) -> None:
        """Has ranges read by a pool, and joins them to what is read here. Raises what submit() and result() do."""
        file = _file_of(self._stream)
        ranges = ((at, min(at + size, self._whole)) for at in range(BEGINNING, self._whole, size))
        found = [pool.submit(segments_of, self._log.path, file, *each) for each in itertools.islice(ranges, ahead)]
        while self._at < self._whole and self._intake.alone is None:
            if not self._read_on(self._whole):
                return
        found += [pool.submit(segments_of, self._log.path, file, *each) for each in ranges]
        while found:
            # Each is let go as soon as it is joined.
            for segment in found.pop(0).result():
                self._join(segment)

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
        while self._at < end and self._read_on(end):
            continue

    def _read_on(self, end: int) -> bool:
        """Reads a chunk in this process; False where the file has no more."""
        self._stream.seek(self._at)
        chunk = self._stream.read(min(inputs.CHUNK, end - self._at))
        self._at += len(chunk)
        for block in self._blocks.feed(chunk):
            self._intake.feed(block)
        return bool(chunk)


def _file_of(stream: BinaryIO) -> tuple[int, int]:
    """What tells a file from another one of the same name."""
    status = os.fstat(stream.fileno())
    return status.st_dev, status.st_ino


def segments_of(path: str, file: tuple[int, int], start: int, end: int) -> list[Segment]:
    """What a process finds in a range of a log.

    Args:
        path: of the log.
        file: which one it is; another one may have taken its name.
        start: of the range; the line in which it lies is of the range before.
        end: of the range; the line in which it lies is of this range.

    Raises OSError where the file can't be read, or is another one.
    """
    from tprimat.read.megatron.parts import Parts, blocks_of

    with Path(path).open("rb") as stream:
        if _file_of(stream) != file:
            raise FileNotFoundError(errno.ENOENT, "another file has its name now", path)
        begin = _line_end(stream, start - 1) if start else 0
        stop = _line_end(stream, end - 1) if begin < end else begin
        parts = Parts(begin)
        stream.seek(begin)
        left = [stop - begin]

        def chunks() -> Iterator[bytes]:
            while chunk := stream.read(min(inputs.CHUNK, left[0])):
                left[0] -= len(chunk)
                yield chunk

        for block in blocks_of(chunks(), LONGEST_LINE):
            parts.feed(block)
        return parts.finish(stop)


def _line_end(stream: BinaryIO, at: int) -> int:
    """Where the line ends that holds a byte; the end of the file where it doesn't."""
    stream.seek(at)
    while chunk := stream.read(inputs.CHUNK):
        end = chunk.find(b"\n")
        if end >= 0:
            return at + end + 1
        at += len(chunk)
    return at
