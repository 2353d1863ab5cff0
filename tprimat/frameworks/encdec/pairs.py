"""Synthetic sequence pairs: uniform random tokens, a function of (seed, number of the pair) alone.

Uniform tokens teach nothing, and are meant to: what is measured is the hardware, not a data
pipeline or a language. The loss stays near ln(vocabulary), which is the entropy of such data, as
long as no pair comes a second time. Numbers come from SplitMix64, which is addressed by a counter:
the same pairs on every platform, for every number of processes and workers. Knows no torch.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from typing import TYPE_CHECKING

from tprimat.frameworks.loops.tokens import mixed
from tprimat.results.run import Data

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

IN_MEMORY = "random"
ON_DISK = "random, from shards on disk"
DIGEST_PAIRS = 256
TOKEN_BYTES = 4
"""A token as 32 bits, which embeddings take as they are: a batch is copied, never converted."""

# The increment of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
_INCREMENT = 0x9E3779B97F4A7C15


@dataclasses.dataclass(frozen=True)
class Pairs:
    """All pairs of one seed.

    Args:
        vocab_size: tokens are 0 … vocab_size - 1.
        seq_len: tokens of a source; a target has one more, which is only predicted.
        seed: another seed is other pairs.
    """

    vocab_size: int
    seq_len: int
    seed: int

    @property
    def tokens(self) -> int:
        """Of one pair, as it is stored."""
        return 2 * self.seq_len + 1

    @property
    def bytes(self) -> int:
        """Of one pair, as it is stored."""
        return self.tokens * TOKEN_BYTES

    def rows(self, first: int, count: int) -> NDArray[np.int32]:
        """Pairs with the numbers first, first + 1, …

        Returns:
            Shape (count, 2 × seq_len + 1): the source, then the target.
        """
        import numpy as np

        # Two tokens of each 64-bit number; each pair begins with a number of its own.
        words = (self.tokens + 1) // 2
        with np.errstate(over="ignore"):
            counter = np.arange(first * words + 1, (first + count) * words + 1, dtype=np.uint64)
            # Mixed, since the numbers of neighbouring seeds would else be each other's, one place on.
            start = mixed(np.asarray([self.seed], dtype=np.uint64))
            bits = mixed(counter * np.uint64(_INCREMENT) + start)
        halves = bits.view("<u4").reshape(count, 2 * words)[:, : self.tokens]
        # The upper half of a 32-bit number times the vocabulary: each token is as likely as any other
        # but for one part in 2³² / vocabulary.
        scaled = (halves.astype(np.uint64) * np.uint64(self.vocab_size)) >> np.uint64(32)
        tokens: NDArray[np.int32] = scaled.astype(np.int32)
        return tokens

    def described(self, kind: str, *, repeats: bool) -> Data:
        """What a result says of the data.

        Args:
            kind: IN_MEMORY or ON_DISK, which have the same pairs in different orders.
            repeats: whether a pair comes more than once. A model can then learn it by heart, and no
                entropy bounds its loss.
        """
        first = kind.encode() + self.rows(0, DIGEST_PAIRS).astype("<i4").tobytes()
        entropy = None if repeats else round(math.log(self.vocab_size), 6)
        return Data(
            kind=kind,
            digest=hashlib.sha256(first).hexdigest(),
            entropy=entropy,
            unigram_entropy=entropy,
            seed=self.seed,
        )


@dataclasses.dataclass(frozen=True)
class InMemory:
    """What one process trains on, made when it is asked for: a map-style data set of batches.

    Item b of process p holds pairs (b × processes + p) × batch_size … and no pair comes again, in
    no epoch.

    Args:
        pairs: where they come from.
        batches: of one process, over all epochs.
        batch_size: pairs of a batch.
        rank, world_size: which process of how many.
    """

    pairs: Pairs
    batches: int
    batch_size: int
    rank: int = 0
    world_size: int = 1

    def __len__(self) -> int:
        return self.batches

    def __getitem__(self, index: int) -> tuple[NDArray[np.int32], float]:
        """Pairs, shape (batch_size, 2 × seq_len + 1), and the seconds that storage took: none."""
        if not 0 <= index < self.batches:
            raise IndexError(index)
        first = (index * self.world_size + self.rank) * self.batch_size
        return self.pairs.rows(first, self.batch_size), 0.0
