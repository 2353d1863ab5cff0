"""Synthetic sequence pairs: uniform random tokens, a function of (seed, number of the pair) alone.

There is nothing to learn in them: the benchmark measures hardware. The loss stays near ln(vocabulary), the
entropy of such data, as long as no pair is repeated. Random numbers come from SplitMix64 with a counter: the
same pairs on every platform, for every number of processes and workers. Knows no torch.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

import msgspec

from tprimat.frameworks.loops.tokens import mixed
from tprimat.results.run import Data

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

IN_MEMORY = "random"
ON_DISK = "random, from shards on disk"
DIGEST_PAIRS = 256
TOKEN_BYTES = 4
"""Tokens have 32 bits, which embeddings accept: a batch is copied, never converted."""

# The increment of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
_INCREMENT = 0x9E3779B97F4A7C15


class Pairs(msgspec.Struct, frozen=True):
    """All pairs of one seed: a source of seq_len tokens, and a target with one more, which is only predicted."""

    vocab_size: int
    seq_len: int
    seed: int

    @property
    def tokens(self) -> int:
        """Tokens of one pair, as it is stored."""
        return 2 * self.seq_len + 1

    @property
    def bytes(self) -> int:
        """Bytes of one pair, as it is stored."""
        return self.tokens * TOKEN_BYTES

    def rows(self, first: int, count: int) -> NDArray[np.int32]:
        """Return the pairs first, first + 1, …; shape (count, 2 × seq_len + 1): the source, then the target."""
        import numpy as np

        # Two tokens of each 64-bit number; each pair begins with a new number.
        words = (self.tokens + 1) // 2
        with np.errstate(over="ignore"):
            counter = np.arange(first * words + 1, (first + count) * words + 1, dtype=np.uint64)
            # Mixed: neighbouring seeds would otherwise give the same numbers, shifted by one.
            start = mixed(np.asarray([self.seed], dtype=np.uint64))
            bits = mixed(counter * np.uint64(_INCREMENT) + start)
        halves = bits.view("<u4").reshape(count, 2 * words)[:, : self.tokens]
        # The upper half of a 32-bit number times the vocabulary: each token is as likely as any other
        # but for one part in 2³² / vocabulary.
        scaled = (halves.astype(np.uint64) * np.uint64(self.vocab_size)) >> np.uint64(32)
        tokens: NDArray[np.int32] = scaled.astype(np.int32)
        return tokens

    def described(self, kind: str, *, repeats: bool) -> Data:
        """Return the training data as a result states them.

        Args:
            kind: IN_MEMORY or ON_DISK, which have the same pairs in different orders.
            repeats: whether a pair is trained on more than once. A model can then memorize it, and no
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
