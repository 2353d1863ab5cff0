"""Files in the system's page cache: how much of them is there, and dropping them from it."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import sys
from collections.abc import Sequence
from pathlib import Path

DROP_ALL = Path("/proc/sys/vm/drop_caches")
MIN_SHARE = 0.01
"""Share of the files in the cache from which it counts as helping."""


def cached_share(files: Sequence[Path]) -> float | None:
    """Return the share of the files' pages that is in the page cache, 0 … 1; None if that isn't
    known.
    """
    if sys.platform != "linux":
        return None
    import numpy as np

    mincore = ctypes.CDLL(None, use_errno=True).mincore
    pages = cached = 0
    for path in files:
        # For a file that this user can't write, the system reports every page as cached, true or
        # not.
        if not os.access(path, os.W_OK) or not path.stat().st_size:
            return None
        # A private mapping, since ctypes takes the address of writable memory only.
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as view:
            states = (ctypes.c_ubyte * -(-len(view) // mmap.PAGESIZE))()
            first = ctypes.c_char.from_buffer(view)
            failed = mincore(
                ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(len(view)), states
            )
            del first
        if failed:
            return None
        pages += len(states)
        # Only the lowest bit of a state is defined.
        cached += int((np.frombuffer(bytes(states), dtype=np.uint8) & 1).sum())
    if pages:
        return cached / pages
    return None


def drop_caches(files: Sequence[Path]) -> str | None:
    """Drop the files from the page cache; return why that didn't succeed, or None."""
    if not hasattr(os, "posix_fadvise"):
        return f"{sys.platform} cannot drop files from the page cache"
    for path in files:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    left = cached_share(files)
    if left is not None and left > MIN_SHARE:
        # Only root may, and in most containers not even root.
        with contextlib.suppress(OSError):
            DROP_ALL.write_text("1")
        left = cached_share(files)
    if left is not None and left > MIN_SHARE:
        return (
            f"{left:.0%} of the data stay in the page cache (directory in memory, or mapped by"
            " another program?)"
        )
    return None
