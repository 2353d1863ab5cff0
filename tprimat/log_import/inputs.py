"""Open logs, compressed or not, from a file or a pipe.

Files are opened, decompressed and hashed as a stream, so a log of any size takes the same memory.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import importlib
import io
import lzma
import select
import stat
import sys
import zlib
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

from tprimat import files
from tprimat.errors import UnreadableError, missing_package
from tprimat.log_import.named import STANDARD_INPUT
from tprimat.read.parsing import text
from tprimat.results.run import SourceFile

CHUNK = 1 << 18
"""Read size, bytes."""

LARGEST_WHOLE, HEAD, TAIL = 64_000_000, 4_000_000, 12_000_000
"""Bytes of a log that is read again whenever it grows, in some 10 s; and bytes that are read of a
larger one.
"""

LOOK_AHEAD = 512
"""Bytes that are looked at to recognize a compressed file. More than this is read past their
buffer, uncopied.
"""

HASHED_ASIDE = 32 << 20
"""Bytes of a file after which a thread of its own hashes it."""

HASHED_AT_ONCE = 8 << 20
"""Bytes that this thread takes at once. Before each it waits some 5 ms for the interpreter, longer
than a chunk takes to be read: hashed singly, they would be hashed one after the other with the
reading.
"""

UNPACKED_FREELY = 1 << 26
MOST_TIMES = 100
"""A compressed file may unpack to this many bytes, or to this many times its own size if that is
more. Logs are compressed to a tenth of their size or so; a larger file was made to fill a machine.
"""

LARGEST_DICTIONARY = 130 << 20
"""Bytes that a decompressor may take. xz -9 needs 65 MiB, zstd --ultra as much as this; a header
can state 4 GiB.
"""


class Log:
    """A log that is read once.

    Attributes:
        name: for messages.
        end: bytes of a plain file that is being written, faster perhaps than it is read. Beyond
            them nothing is read, and of more than LARGEST_WHOLE the whole lines of the first HEAD
            and the last TAIL. None for all of it.
        cut: why a compressed file could not be read to its end, or None; known after the last
            chunk.
    """

    def __init__(self, path: str, end: int | None = None) -> None:
        self.path = path
        self.end = end
        if path == STANDARD_INPUT:
            self.name = "standard input"
        else:
            self.name = path
        self.cut: str | None = None
        self._content: _HashedStream | None = None

    def lines(self) -> Iterator[text.Line]:
        """Return the lines of the log. Raises as chunks() does."""
        return text.lines(self.chunks())

    def chunks(self) -> Generator[bytes]:
        """Yield the content of the file, decompressed, as it is.

        Raises UnreadableError if it can't be opened or read, UsageError if its compression needs a
        package.
        """
        if self.path == STANDARD_INPUT:
            if sys.stdin is None or sys.stdin.isatty():
                raise UnreadableError(
                    self.name, "nothing piped in", hint="name a file", heading="unreadable-file"
                )
            yield from self._of(sys.stdin.buffer)
            return
        path = Path(self.path)
        try:
            mode = path.stat().st_mode
            if stat.S_ISDIR(mode):
                raise UnreadableError(
                    self.name,
                    "is a directory",
                    hint="name the log in it",
                    heading="unreadable-file",
                )
            with (
                path.open("rb")
                if is_handed_over(self.path, mode)
                else files.open_plain(path) as stream
            ):
                yield from self._of(stream)
        except (OSError, ValueError) as error:
            raise files.unreadable(self.name, error) from error

    def source_file(self) -> SourceFile:
        """Return this file's entry for a result; call it when all lines were read."""
        assert self._content is not None
        return SourceFile(path=self.path, sha256=self._content.digest(), bytes=self._content.size)

    def _of(self, stream: BinaryIO) -> Iterator[bytes]:
        self._content = _HashedStream(stream)
        raw: BinaryIO = io.BufferedReader(self._content, LOOK_AHEAD)
        unpacked = decompressed(raw, self.name)
        if unpacked is raw:
            end = sys.maxsize if self.end is None else self.end
            done = 0
            while chunk := raw.read(min(CHUNK, end - done)):
                done += len(chunk)
                if LARGEST_WHOLE < end < sys.maxsize and HEAD <= done < end - TAIL:
                    chunk = chunk[: chunk.rfind(b"\n") + 1]
                    raw = stream
                    done = stream.seek(end - TAIL)
                    done += len(stream.readline(TAIL))
                yield chunk
            return
        read = getattr(unpacked, "read1", unpacked.read)
        size = 0
        try:
            while chunk := read(CHUNK):
                size += len(chunk)
                if size > max(UNPACKED_FREELY, MOST_TIMES * self._content.size):
                    self.cut = f"it unpacks to more than {MOST_TIMES} times its size"
                    break
                yield chunk
        except (*FAULTS, *zstd_errors()) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            self.cut = str(error) or type(error).__name__
            if not size:
                # Such as the window of `zstd --long=31`, 2 GiB.
                hint = "unpack it, and name the log"
                problem = f"can't be unpacked: {self.cut}"
                raise UnreadableError(
                    self.name, problem, hint=hint, heading="unreadable-file", is_lost=True
                ) from error
        # What was left belongs to the file all the same: its hash is of all of it.
        while raw.read(CHUNK):
            pass


FAULTS: tuple[type[Exception], ...] = (EOFError, OSError, zlib.error, lzma.LZMAError)
"""Errors of decompressors. BadGzipFile is an OSError without a number; bz2 has no class of its own
and raises such, too.
"""


def decompressed(raw: Any, name: str) -> Any:
    """Return the content of a buffered stream, decompressed; the stream itself if it isn't
    compressed.

    Raises UsageError if that needs a package.
    """
    head = raw.peek()
    decompress = next((opener for sign, opener in _COMPRESSIONS if head.startswith(sign)), None)
    if decompress is None:
        return raw
    return decompress(raw, name)


class Chunks(io.RawIOBase):
    """A stream of chunks, which can be read once."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as a chunk does; return the number of bytes."""
        if not self._rest:
            self._rest = memoryview(next(self._chunks, b""))
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def is_handed_over(path: str, mode: int) -> bool:
    """Return whether a name is an open pipe, as the shell's <(…) gives it; a named one may never be
    written to.
    """
    return stat.S_ISFIFO(mode) and path.startswith(("/dev/fd/", "/dev/stdin", "/proc/self/fd/"))


_HASHER = ThreadPoolExecutor(1, "hash")
"""Its thread starts with the first file that needs it."""


class _HashedStream(io.RawIOBase):
    """A stream with size and hash of the bytes that were read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self.size = 0
        self._stream = stream
        self._hash = hashlib.sha256()
        self._unhashed = bytearray()
        self._hashing: Future[None] | None = None

    def digest(self) -> str:
        self._wait()
        self._hash.update(self._unhashed)
        self._unhashed = bytearray()
        return self._hash.hexdigest()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Any:
        # A standard input that doesn't block gives None until more is written.
        while (size := self._stream.readinto(buffer)) is None:  # type: ignore[attr-defined]
            select.select([self._stream], [], [])
        self.size += size
        content = memoryview(buffer)[:size]
        if self.size <= HASHED_ASIDE:
            self._hash.update(content)
            return size
        self._unhashed += content
        if len(self._unhashed) >= HASHED_AT_ONCE:
            self._wait()
            # While the log is read on: the hash needs no interpreter.
            self._hashing = _HASHER.submit(self._hash.update, self._unhashed)
            self._unhashed = bytearray()
        return size

    def _wait(self) -> None:
        hashing = self._hashing
        self._hashing = None
        if hashing is not None:
            hashing.result()


def _unpacked_xz(raw: Any) -> Iterator[bytes]:
    """Yield what an xz file holds: LZMAFile would allocate whatever dictionary the file states."""
    content = raw.read(CHUNK)
    while content:
        stream = lzma.LZMADecompressor(memlimit=LARGEST_DICTIONARY)
        while not stream.eof:
            if stream.needs_input and not content and not (content := raw.read(CHUNK)):
                raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            if piece := stream.decompress(content, CHUNK):
                yield piece
            content = b""
        content = stream.unused_data
        while not (content := content.lstrip(b"\0")) and (content := raw.read(CHUNK)):
            pass


def _zstd(raw: Any, name: str) -> Any:
    """Return a stream of the content of a zstd file.

    Raises UsageError when neither Python itself (from 3.14 on) nor a package can read it.
    """
    try:
        return importlib.import_module("compression.zstd").ZstdFile(raw)
    except ImportError:
        pass
    try:
        package = importlib.import_module("zstandard")
    except ImportError:
        raise missing_package("zstandard", "pip install zstandard", f"reading {name}") from None
    return package.ZstdDecompressor(max_window_size=LARGEST_DICTIONARY).stream_reader(
        raw, read_across_frames=True
    )


def zstd_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that the decompressor of zstd in use may raise."""
    loaded = []
    for name in ("compression.zstd", "zstandard"):
        loaded.append(sys.modules.get(name))
    return tuple(module.ZstdError for module in loaded if module is not None)


_COMPRESSIONS: tuple[tuple[bytes, Callable[[Any, str], Any]], ...] = (
    (b"\x1f\x8b", lambda raw, name: gzip.GzipFile(fileobj=raw)),
    (b"BZh", lambda raw, name: bz2.BZ2File(raw)),
    (b"\xfd7zXZ\x00", lambda raw, name: io.BufferedReader(Chunks(_unpacked_xz(raw)), CHUNK)),
    (b"\x28\xb5\x2f\xfd", _zstd),
)
"""First bytes of compressed files, and their decompressors."""
