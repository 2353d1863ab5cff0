"""Writing files so that nobody ever sees half of one, though programs are killed and several write at once."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tprimat.errors import UsageError

LOCK_NAME = ".tprimat.lock"
LOCK_SECONDS = 60.0


def write(path: Path, content: bytes, suffix: str = ".part") -> None:
    """Writes a file so that a reader sees the old one or the whole new one. Raises OSError.

    Args:
        path: the file.
        content: all of it.
        suffix: of its name while it is being written.
    """
    with beside(path, content, suffix) as whole:
        os.replace(whole, path)


@contextlib.contextmanager
def beside(path: Path, content: bytes, suffix: str) -> Iterator[str]:
    """A file with this content, on the disk and in the folder of another one, to be given its name."""
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
    """Lets one program at a time write in a folder. Raises UsageError where another one goes on writing."""
    import filelock

    try:
        with filelock.FileLock(str(folder / LOCK_NAME), timeout=LOCK_SECONDS):
            yield
    except filelock.Timeout as error:
        raise UsageError(
            f"{folder}: another program has been writing here for {LOCK_SECONDS:.0f} s: try again",
            heading="unwritable-folder",
        ) from error
