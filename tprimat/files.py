"""Open only regular files; write files atomically."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tprimat.errors import UnreadableError, UsageError

LOCK_NAME = ".tprimat.lock"
LOCK_SECONDS = 60.0

LARGEST_SMALL = 4 << 20
"""Bytes of a configuration or a record, which take kilobytes; decoded, they may take a hundred
times as many.
"""

_KINDS = {"p": "a pipe", "s": "a socket", "c": "a device", "b": "a device"}
"""Files that are no plain ones, by the letter that `ls -l` shows."""


class _PlainFile(io.FileIO):
    """A file that is read at once or not at all: /proc/kmsg calls itself a plain one, and has
    nothing yet.

    Its readers raise OSError then, where those of io would return None.
    """

    def readinto(self, buffer: Any) -> Any:
        return self._read(super().readinto(buffer))

    def readall(self) -> Any:
        return self._read(super().readall())

    def _read(self, found: Any) -> Any:
        if found is None:
            raise OSError(errno.EINVAL, "it is a device, not a file", str(self.name))
        return found


def open_plain(path: Path) -> BinaryIO:
    """Return a plain file, open for reading. Raises OSError that says so for a pipe, which would
    block, or a device.
    """
    at_once = getattr(os, "O_NONBLOCK", 0)
    raw = _PlainFile(path, "rb", opener=lambda name, flags: os.open(name, flags | at_once))
    file = io.BufferedReader(raw)
    mode = os.fstat(file.fileno()).st_mode
    if stat.S_ISREG(mode):
        return file
    file.close()
    kind = _KINDS.get(stat.filemode(mode)[0], "something else")
    raise OSError(errno.EINVAL, f"it is {kind}, not a file", str(path))


def read_plain(path: Path, most: int = LARGEST_SMALL) -> bytes:
    """Return the content of a plain file of so many bytes at most. Raises OSError for others, as
    open_plain() does.
    """
    with open_plain(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"larger than {most >> 20} MiB", str(path))
        return file.read()


def unreadable(path: Path | str, error: OSError | ValueError | MemoryError) -> UnreadableError:
    """Return the error for a file that the operating system can't read, or the memory can't
    hold.
    """
    if isinstance(error, MemoryError):
        return UnreadableError(
            path, "reading it needs more memory than there is", heading="unreadable-file"
        )
    if isinstance(error, FileNotFoundError):
        return UnreadableError(path, "no such file or directory", heading="unreadable-file")
    why = f"can't be read: {getattr(error, 'strerror', None) or error}"
    return UnreadableError(path, why, heading="unreadable-file", is_lost=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old one or the whole new one. Raises OSError."""
    with write_temp_beside(path, content, ".part") as whole:
        os.replace(whole, path)


def write_output(path: Path, content: bytes, option: str) -> None:
    """Write a file that the user named, and its directory. Raises UsageError, with the option that
    names another.
    """
    target = path.parent
    try:
        target.mkdir(parents=True, exist_ok=True)
        target = path
        write_atomically(path, content)
    except OSError as error:
        raise unwritable(target, error, option=option) from error


def unwritable(
    path: Path | str, error: OSError, what: str = "can't be written", option: str = "--output-dir"
) -> UsageError:
    """Return the error for what can't be written there, with the option that names another
    place.
    """
    why = f"{what}: {error.strerror or error}"
    return UsageError(
        f"{path}: {why}", hint=f"choose another {option}", heading="unwritable-directory"
    )


def check_writable(folder: Path, option: str = "--output-dir") -> None:
    """Refuse a directory that can't take the result, before an hour was spent on it. Raises
    UsageError.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return
    except OSError as error:
        raise unwritable(folder, error, "result can't be written", option) from error


@contextlib.contextmanager
def write_temp_beside(path: Path, content: bytes, suffix: str) -> Iterator[str]:
    """Yield a temporary file with this content and suffix beside another one, flushed to disk,
    ready to replace it.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=suffix, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files for their owner alone; a result is to be passed on.
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        yield name
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a directory if there is none, and hold its lock. Raises UsageError if it can't be
    written meanwhile.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lock_folder(folder):
            yield
    except OSError as error:
        raise unwritable(folder, error, "the result cannot be written") from error


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold a directory's write lock. Raises UsageError if another program keeps it."""
    import filelock

    try:
        with filelock.FileLock(str(folder / LOCK_NAME), timeout=LOCK_SECONDS):
            yield
    except filelock.Timeout as error:
        raise UsageError(
            f"{folder}: locked by another program for {LOCK_SECONDS:.0f} s",
            hint="try again later",
            heading="unwritable-directory",
        ) from error
