"""Synthetic sequence pairs: uniform random tokens, a function of (seed, number of the pair) alone.

There is nothing to learn in them: the benchmark measures hardware. The loss stays near
ln(vocabulary), the entropy of such data, as long as no pair is repeated. Random numbers come from
SplitMix64 with a counter: the same pairs on every platform, for every number of processes and
workers. Knows no torch.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from tprimat.frameworks.loops.tokens import INCREMENT, mixed
from tprimat.results.run import Data

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

IN_MEMORY = "random"
ON_DISK = "random, from shards on disk"
DIGEST_PAIRS = 256
TOKEN_BYTES = 4
"""Tokens have 32 bits, which embeddings accept: a batch is copied, never converted."""


class Shard(NamedTuple):
    """A file of pairs first … first + samples - 1."""

    name: str
    first: int
    samples: int


class Pairs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A data set: two with the same parameters hold the same pairs, and on disk the same bytes.

    A pair is a source of seq_len tokens, and a target with one more, which is only predicted. The
    numbers of samples and shards are those on disk; in memory pairs have no end.
    """

    vocab_size: int
    seq_len: int
    seed: int
    num_samples: int = 0
    num_shards: int = 0

    @property
    def tokens(self) -> int:
        """Tokens of one pair, as it is stored."""
        return 2 * self.seq_len + 1

    @property
    def bytes(self) -> int:
        """Bytes of one pair, as it is stored."""
        return self.tokens * TOKEN_BYTES

    def shards(self) -> list[Shard]:
        """Return the shards, of equal size; the first ones have one pair more if the division
        leaves a rest.
        """
        share, longer = divmod(self.num_samples, self.num_shards)
        shards = []
        for index in range(self.num_shards):
            first = index * share + min(index, longer)
            shards.append(Shard(f"shard_{index:04d}.bin", first, share + (index < longer)))
        return shards

    def rows(self, first: int, count: int) -> NDArray[np.int32]:
        """Return the pairs first, first + 1, …; shape (count, 2 × seq_len + 1): the source, then
        the target.
        """
        import numpy as np

        # Two tokens of each 64-bit number; each pair begins with a new number.
        words = (self.tokens + 1) // 2
        with np.errstate(over="ignore"):
            counter = np.arange(first * words + 1, (first + count) * words + 1, dtype=np.uint64)
            # Mixed: neighboring seeds would otherwise give the same numbers, shifted by one.
            start = mixed(np.asarray([self.seed], dtype=np.uint64))
            bits = mixed(counter * np.uint64(INCREMENT) + start)
        halves = bits.view("<u4").reshape(count, 2 * words)[:, : self.tokens]
        # The upper half of a 32-bit number times the vocabulary: each token is as likely as any
        # other but for one part in 2³² / vocabulary.
        scaled = (halves.astype(np.uint64) * np.uint64(self.vocab_size)) >> np.uint64(32)
        tokens: NDArray[np.int32] = scaled.astype(np.int32)
        return tokens

    def described(self, kind: str, *, repeats: bool) -> Data:
        """Return the training data as a result states them.

        Args:
            kind: IN_MEMORY or ON_DISK, which have the same pairs in different orders.
            repeats: whether a pair is trained on more than once. A model can then memorize it, and
                no entropy bounds its loss.
        """
        first = kind.encode() + self.rows(0, DIGEST_PAIRS).astype("<i4").tobytes()
        entropy = None if repeats else round(math.log(self.vocab_size), 6)
        digest = hashlib.sha256(first).hexdigest()
        return Data(
            kind=kind, digest=digest, entropy=entropy, unigram_entropy=entropy, seed=self.seed
        )
