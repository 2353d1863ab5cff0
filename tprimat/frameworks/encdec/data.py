"""The batches of the encoder-decoder, from memory or from shards on disk, and their loader."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import mmap
import os
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprimat.frameworks.encdec.pairs import Pairs, Shard
from tprimat.frameworks.encdec.request import EncDecRequest
from tprimat.frameworks.loops import recipe
from tprimat.record.ranks import Process
from tprimat.results.fields import FieldValues

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PREFETCHED = 4
"""Batches that each reading worker has ready."""


class ShardReader:
    """The pairs of all epochs, numbered through, read from shards.

    Each epoch has the shards in a random order of its own and goes through each from its first pair
    to its last, as sharded data are read in production. The pairs of an epoch beyond
    samples_per_epoch aren't read.
    """

    def __init__(self, folder: Path, pairs: Pairs, samples_per_epoch: int) -> None:
        self._folder = folder
        self._pairs = pairs
        self._shards = pairs.shards()
        self._samples_per_epoch = samples_per_epoch
        self._files: dict[str, int] = {}
        self._epoch = -1

    def __getstate__(self) -> FieldValues:
        """Leave the open files out: a worker opens its own."""
        return {**self.__dict__, "_files": {}}

    def rows(self, first: int, count: int) -> NDArray[np.int32]:
        """Read the pairs first, first + 1, …, all of one epoch; shape (count, 2 × seq_len + 1)."""
        import numpy as np

        epoch, position = divmod(first, self._samples_per_epoch)
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = list(self._shards)
            random.Random(f"{self._pairs.seed} {epoch}").shuffle(self._order)
            # How many pairs lie before each.
            self._starts = list(
                itertools.accumulate((shard.samples for shard in self._order), initial=0)
            )
        tokens = np.empty((count, self._pairs.tokens), dtype="<i4")
        filled = 0
        while filled < count:
            index = bisect.bisect_right(self._starts, position) - 1
            shard = self._order[index]
            within = position - self._starts[index]
            stretch = tokens[filled : filled + shard.samples - within]
            self._copy(shard, within * self._pairs.bytes, stretch)
            filled += len(stretch)
            position += len(stretch)
        return tokens

    def _copy(self, shard: Shard, offset: int, into: NDArray[np.int32]) -> None:
        # Mapped only while it is copied: mapped pages can't be dropped from the cache. And
        # numpy.memmap takes longer for a small batch.
        start = offset - offset % mmap.ALLOCATIONGRANULARITY
        length = offset + into.nbytes - start
        with mmap.mmap(self._file(shard), length, access=mmap.ACCESS_READ, offset=start) as view:
            into.data.cast("B")[:] = memoryview(view)[offset - start :]

    def _file(self, shard: Shard) -> int:
        if shard.name not in self._files:
            path = self._folder / shard.name
            handle = os.open(path, os.O_RDONLY)
            size = os.fstat(handle).st_size
            expected = shard.samples * self._pairs.bytes
            if size != expected:
                # Reading beyond the end of a mapped file kills the process with SIGBUS.
                os.close(handle)
                raise OSError(
                    f"{path}: {size} bytes, and {expected} were written: it was changed during the"
                    " training"
                )
            self._files[shard.name] = handle
        return self._files[shard.name]


@dataclasses.dataclass(frozen=True)
class Batches:
    """The batches of one process, numbered through all epochs: a map-style data set.

    Batch b of process p holds the pairs (b × processes + p) × batch_size …, so that the same pairs
    are trained on in a step with any number of processes.
    """

    source: Pairs | ShardReader
    batch_size: int
    rank: int = 0
    world_size: int = 1

    def __getitem__(self, index: int) -> tuple[NDArray[np.int32], float]:
        """Return pairs, shape (batch_size, 2 × seq_len + 1), and the seconds that making or reading
        them took.
        """
        began = time.perf_counter()
        first = (index * self.world_size + self.rank) * self.batch_size
        return self.source.rows(first, self.batch_size), time.perf_counter() - began


def dataset(request: EncDecRequest, process: Process) -> Batches:
    """Return the batches of one process."""
    source: Pairs | ShardReader = request.pairs
    if request.data_dir is not None:
        source = ShardReader(request.data_dir, request.pairs, request.samples_per_epoch)
    return Batches(source, request.micro_batch_size, process.rank, process.world_size)


def loader(batches: Any, order: Sequence[int], request: EncDecRequest) -> Any:
    """Return a DataLoader; an item is pairs, and the seconds that reading them took.

    `order` holds the numbers of an epoch's batches, looked up at its begin: the loader outlives the
    epoch.
    """
    on_gpu = request.platform != "cpu"
    kept = request.workers > 0
    return recipe.loader(
        batches, request.workers, PREFETCHED, on_gpu, sampler=order, persistent_workers=kept
    )
