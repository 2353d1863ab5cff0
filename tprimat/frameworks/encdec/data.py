"""The batches of the encoder-decoder, from memory or from shards on disk, their loader, and waiting for them."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import mmap
import os
import random
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprimat.frameworks.encdec.pairs import Pairs
from tprimat.frameworks.encdec.request import EncDecRequest
from tprimat.frameworks.encdec.shards import Contents
from tprimat.record.clocks import Clock
from tprimat.record.ranks import Process

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PREFETCHED = 4
"""Batches that each reading worker has ready."""


class ShardReader:
    """The pairs of all epochs, numbered through, read from shards.

    Each epoch has the shards in a random order of its own and goes through each from its first pair to its last,
    as sharded data are read in production. A stretch is mapped only while it is copied: pages that are mapped
    can't be dropped from the cache.

    Of an epoch's pairs those beyond samples_per_epoch aren't read.
    """

    def __init__(self, folder: Path, contents: Contents, samples_per_epoch: int) -> None:
        self._folder = folder
        self._contents = contents
        self._shards = contents.shards()
        self._samples_per_epoch = samples_per_epoch
        self._files: dict[int, int] = {}
        self._order: tuple[int, list[int], list[int]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave the open files out: a worker opens its own."""
        return {**self.__dict__, "_files": {}}

    def rows(self, first: int, count: int) -> NDArray[np.int32]:
        """Read the pairs first, first + 1, …, all of one epoch; shape (count, 2 × seq_len + 1)."""
        import numpy as np

        epoch, position = divmod(first, self._samples_per_epoch)
        order, starts = self._epoch(epoch)
        tokens = np.empty((count, self._contents.tokens), dtype="<i4")
        filled = 0
        while filled < count:
            place = bisect.bisect_right(starts, position) - 1
            shard, within = order[place], position - starts[place]
            stretch = tokens[filled : filled + self._shards[shard].samples - within]
            self._copy(shard, within * self._contents.bytes, stretch)
            filled += len(stretch)
            position += len(stretch)
        return tokens

    def _epoch(self, epoch: int) -> tuple[list[int], list[int]]:
        """Return the shards in their order of an epoch, and how many pairs lie before each."""
        if self._order is None or self._order[0] != epoch:
            order = list(range(len(self._shards)))
            random.Random(f"{self._contents.seed} {epoch}").shuffle(order)
            sizes = [self._shards[index].samples for index in order]
            self._order = epoch, order, list(itertools.accumulate(sizes[:-1], initial=0))
        return self._order[1:]

    def _copy(self, shard: int, offset: int, into: NDArray[np.int32]) -> None:
        # Not numpy.memmap, which takes longer for a small batch.
        start = offset - offset % mmap.ALLOCATIONGRANULARITY
        end = offset + into.nbytes
        with mmap.mmap(self._file(shard), end - start, access=mmap.ACCESS_READ, offset=start) as view:
            into.data.cast("B")[:] = memoryview(view)[offset - start :]

    def _file(self, shard: int) -> int:
        if shard not in self._files:
            path = self._folder / self._shards[shard].name
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            size, expected = os.fstat(handle).st_size, self._shards[shard].samples * self._contents.bytes
            if size != expected:
                # Reading beyond the end of a mapped file kills the process with SIGBUS.
                os.close(handle)
                raise OSError(f"{path}: {size} bytes, and {expected} were written: it was changed during the training")
            self._files[shard] = handle
        return self._files[shard]


@dataclasses.dataclass(frozen=True)
class Batches:
    """The batches of one process, numbered through all epochs: a map-style data set.

    Batch b of process p holds the pairs (b × processes + p) × batch_size …, so that the same pairs are trained on in
    a step with any number of processes.
    """

    source: Pairs | ShardReader
    batch_size: int
    rank: int = 0
    world_size: int = 1

    def __getitem__(self, index: int) -> tuple[NDArray[np.int32], float]:
        """Return pairs, shape (batch_size, 2 × seq_len + 1), and the seconds that making or reading them took."""
        began = time.perf_counter()
        first = (index * self.world_size + self.rank) * self.batch_size
        return self.source.rows(first, self.batch_size), time.perf_counter() - began


class EpochSampler:
    """The indices of an epoch's batches, for a loader that outlives the epoch. Set `batches` before each."""

    batches = range(0)

    def __iter__(self) -> Iterator[int]:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)


class DataWait:
    """Sums up how long the device stood idle for want of data, not how long the host slept.

    Marks are set when the loop begins to wait and when the batch is there. On a GPU they are events in the device's
    queue: while the device is still busy with the step before, both lie behind that work and next to each other, and
    the wait is nothing.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: Any = None
        self._open: deque[tuple[Any, Any]] = deque()
        self._seconds = 0.0

    def begin(self) -> None:
        """Mark that the loop asks for a batch."""
        self._began = self._clock.mark()

    def end(self) -> None:
        """Mark that the host has the batch."""
        self._open.append((self._began, self._clock.mark()))
        self._resolve()

    def take(self) -> float:
        """Return the seconds waited since the last call, of the marks that the device has passed."""
        self._resolve()
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def _resolve(self) -> None:
        while self._open and self._clock.is_ready(self._open[0][1]):
            self._seconds += self._clock.seconds(*self._open.popleft())


def files_of(request: EncDecRequest) -> list[Path]:
    """Return the files of the data; none where they are made in memory."""
    folder = request.data_dir
    return [] if folder is None else [folder / shard.name for shard in request.contents.shards()]


def dataset(request: EncDecRequest, process: Process) -> Batches:
    """Return the batches of one process."""
    source: Pairs | ShardReader = request.contents
    if request.data_dir is not None:
        source = ShardReader(request.data_dir, request.contents, request.samples_per_epoch)
    return Batches(source, request.micro_batch_size, process.rank, process.world_size)


def loader(batches: Any, sampler: EpochSampler, request: EncDecRequest) -> Any:
    """Return a DataLoader over the sampled batches; an item is pairs, and the seconds that reading them took."""
    from torch.utils.data import DataLoader

    workers = request.workers
    return DataLoader(
        batches,
        batch_size=None,
        sampler=sampler,
        num_workers=workers,
        prefetch_factor=PREFETCHED if workers else None,
        persistent_workers=workers > 0,
        pin_memory=request.platform != "cpu",
    )
