"""Reading the shards during a training, and what of them lies in the page cache. Knows no torch."""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import itertools
import mmap
import os
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprimat.frameworks.encdec.shards import Contents

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DROP_ALL = Path("/proc/sys/vm/drop_caches")
CACHED_AT_ALL = 0.01
"""Share of the data in the page cache from which it is said that the cache helped."""


class FromShards:
    """What one process trains on, read when it is asked for: a map-style data set of batches.

    Each epoch goes through all pairs once: shards in an order of their own, each from its first pair
    to its last, as sharded data are read in production. Each batch is one stretch of them. A worker
    maps a batch's stretch only while it copies it, since pages that are mapped can't be dropped from
    the cache.

    Args:
        folder: where the shards lie.
        contents: what they hold.
        batches_per_epoch: of one process.
        batch_size: pairs of a batch.
        seed: of the order of the shards.
        rank, world_size: which process of how many.
    """

    def __init__(
        self,
        folder: Path,
        contents: Contents,
        batches_per_epoch: int,
        batch_size: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self._folder = folder
        self._pairs = contents.pairs
        self._shards = contents.shards()
        self._batches_per_epoch = batches_per_epoch
        self._batch_size = batch_size
        self._seed = seed
        self._rank = rank
        self._world_size = world_size
        self._files: dict[int, int] = {}
        self._order: tuple[int, list[int], list[int]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without the open files: a worker opens its own."""
        return {**self.__dict__, "_files": {}, "_order": None}

    def __getitem__(self, index: int) -> tuple[NDArray[np.int32], float]:
        """Pairs, shape (batch_size, 2 × seq_len + 1), and the seconds that reading them took."""
        import numpy as np

        epoch, batch = divmod(index, self._batches_per_epoch)
        order, starts = self._epoch(epoch)
        position = (batch * self._world_size + self._rank) * self._batch_size
        tokens = np.empty((self._batch_size, self._pairs.tokens), dtype="<i4")
        filled = 0
        began = time.perf_counter()
        while filled < self._batch_size:
            place = bisect.bisect_right(starts, position) - 1
            shard, within = order[place], position - starts[place]
            count = min(self._batch_size - filled, self._shards[shard].samples - within)
            self._copy(shard, within, tokens[filled : filled + count])
            filled += count
            position += count
        return tokens, time.perf_counter() - began

    def _epoch(self, epoch: int) -> tuple[list[int], list[int]]:
        """Shards in their order of an epoch, and how many pairs lie before each."""
        if self._order is None or self._order[0] != epoch:
            order = list(range(len(self._shards)))
            random.Random(f"{self._seed} {epoch}").shuffle(order)
            sizes = [self._shards[index].samples for index in order]
            self._order = epoch, order, list(itertools.accumulate(sizes[:-1], initial=0))
        return self._order[1:]

    def _copy(self, shard: int, first: int, into: NDArray[np.int32]) -> None:
        import numpy as np

        offset = first * self._pairs.bytes
        start = offset - offset % mmap.ALLOCATIONGRANULARITY
        with mmap.mmap(self._file(shard), offset + into.nbytes - start, access=mmap.ACCESS_READ, offset=start) as view:
            stretch = np.frombuffer(view, dtype="<i4", count=into.size, offset=offset - start)
            into[...] = stretch.reshape(into.shape)
            # A mapping can't be closed while an array looks into it.
            del stretch

    def _file(self, shard: int) -> int:
        if shard not in self._files:
            path = self._folder / self._shards[shard].name
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            size, expected = os.fstat(handle).st_size, self._shards[shard].samples * self._pairs.bytes
            if size != expected:
                # Reading beyond the end of a mapped file kills the process without a word.
                os.close(handle)
                raise OSError(f"{path}: {size} bytes, and {expected} were written: it was changed during the training")
            self._files[shard] = handle
        return self._files[shard]


def paths(folder: Path, contents: Contents) -> list[Path]:
    """The files of a data set."""
    return [folder / shard.name for shard in contents.shards()]


def cached_share(files: Sequence[Path]) -> float | None:
    """Share of the files' pages that lie in the page cache, 0 … 1; None where the system doesn't tell."""
    if sys.platform != "linux":
        return None
    import numpy as np

    mincore = ctypes.CDLL(None, use_errno=True).mincore
    pages = cached = 0
    for path in files:
        # Of files that one may not write the system says that all is there, true or not.
        if not os.access(path, os.W_OK) or not path.stat().st_size:
            return None
        # A private mapping, since ctypes takes only the address of what could be written.
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as view:
            states = (ctypes.c_ubyte * -(-len(view) // mmap.PAGESIZE))()
            first = ctypes.c_char.from_buffer(view)
            failed = mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(len(view)), states)
            del first
        if failed:
            return None
        pages += len(states)
        # Only the lowest bit of a state means anything.
        cached += int((np.frombuffer(bytes(states), dtype=np.uint8) & 1).sum())
    return cached / pages if pages else None


def drop_caches(files: Sequence[Path]) -> str | None:
    """Has the system forget what it cached of the files; why that didn't succeed, or None."""
    if not hasattr(os, "posix_fadvise"):
        return f"{sys.platform} lets no program drop files from the page cache"
    for path in files:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    left = cached_share(files)
    if left is not None and left > CACHED_AT_ALL:
        # Only the administrator may, and in most containers not even they.
        with contextlib.suppress(OSError):
            DROP_ALL.write_text("1")
        left = cached_share(files)
    if left is not None and left > CACHED_AT_ALL:
        return f"{left:.0%} of the data stay in the page cache: is the folder in memory, or mapped by another program?"
    return None
