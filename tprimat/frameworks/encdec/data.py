"""Where the batches of the encoder-decoder come from: memory or shards, and the loader over either."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tprimat.frameworks.encdec import shards, storage
from tprimat.frameworks.encdec.pairs import InMemory, Pairs
from tprimat.frameworks.encdec.ranks import Ranks
from tprimat.frameworks.encdec.settings import Settings

PREFETCHED = 4
"""Batches that each reading worker has ready."""


class Order:
    """Which batches come next: those of one epoch, in their order."""

    def __init__(self) -> None:
        self._batches = range(0)

    def epoch(self, index: int, steps: int) -> None:
        """Those of this epoch."""
        self._batches = range(index * steps, (index + 1) * steps)

    def __iter__(self) -> Iterator[int]:
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)


def contents_of(settings: Settings) -> shards.Contents:
    """What lies on disk for a training; it doesn't depend on the batch, nor on how many train."""
    return shards.Contents(
        num_samples=settings.num_samples,
        seq_len=settings.seq_len,
        vocab_size=settings.vocab_size,
        seed=settings.seed,
        num_shards=settings.num_shards,
    )


def prepare(settings: Settings, say: Callable[[str], None]) -> None:
    """Has the shards lie there, whole and checked, where there are to be any. Raises UsageError."""
    if settings.data_dir is not None:
        shards.prepare(settings.data_dir, contents_of(settings), say)


def dataset(settings: Settings, ranks: Ranks) -> Any:
    """The batches of one process, for all epochs: a map-style data set, numbered through."""
    if settings.data_dir is None:
        return InMemory(
            Pairs(settings.vocab_size, settings.seq_len, settings.seed),
            settings.all_epochs * settings.steps_per_epoch,
            settings.batch_size,
            ranks.rank,
            ranks.world_size,
        )
    return storage.FromShards(
        settings.data_dir,
        contents_of(settings),
        settings.steps_per_epoch,
        settings.batch_size,
        settings.seed,
        ranks.rank,
        ranks.world_size,
    )


def loader(batches: Any, order: Order, settings: Settings, on_gpu: bool) -> Any:
    """A DataLoader over the batches that are in order; an item is pairs, and the seconds that reading them took."""
    from torch.utils.data import DataLoader

    workers = settings.workers
    return DataLoader(
        batches,
        batch_size=None,
        sampler=order,
        num_workers=workers,
        prefetch_factor=PREFETCHED if workers else None,
        persistent_workers=workers > 0,
        pin_memory=on_gpu,
    )
