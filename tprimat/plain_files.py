"""Opening what a person names, or a folder holds, where only a file will do.

A pipe that nobody writes to would be waited for, and a device such as /dev/zero has no end.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def opened(path: Path) -> BinaryIO:
    """A plain file, open for reading; never waits.

    Raises OSError, whose text says so where it is anything else, such as a pipe.
    """
    file = open(path, "rb", opener=_at_once)  # noqa: SIM115 - the caller closes it
    mode = os.fstat(file.fileno()).st_mode
    if stat.S_ISREG(mode):
        return file
    file.close()
    kind = next((kind for is_one, kind in _KINDS if is_one(mode)), "something else")
    raise OSError(errno.EINVAL, f"it is {kind}, not a file", str(path))


def read(path: Path) -> bytes:
    """The content of a plain file. Raises as opened() does."""
    with opened(path) as file:
        return file.read()


def _at_once(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))
