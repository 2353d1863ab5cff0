"""A token source of known entropy: a Markov chain whose transitions come from an integer hash.

Every token has SUCCESSORS different successors, taken with the probabilities
WEIGHTS / 8 = 1/2, 1/4, 1/8, 1/8. A language model can learn which ones they are and nothing more,
so the least possible mean loss is the entropy of those four numbers, in every state alike:

    entropy rate = 7/4 ln 2 = 1.2130 nats/token

Successors are drawn log-uniformly from the vocabulary (token k about as often as 1/k, the law of
word frequencies). The loss of a training therefore starts near ln(vocabulary), falls first to the
entropy of the token frequencies (unigram_entropy), and then on towards the entropy rate as pairs
are learned. Uniform random tokens would teach nothing, and their loss would prove nothing.

Row r of step s is a function of (seed, s, r) in 64-bit integer arithmetic alone: it is the same on
every platform, for every number of processes and loader workers, and it never comes back. Knows
neither torch nor models.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
from typing import TYPE_CHECKING

from tprimat.results.run import Data

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WEIGHTS = (4, 2, 1, 1)
"""Probabilities of a token's successors, in eighths: three bits of a hash choose one exactly."""

SUCCESSORS = len(WEIGHTS)
KIND = "markov"
DIGEST_TOKENS = 65536
SMALLEST_VOCABULARY = 16

_EIGHTHS = tuple(index for index, weight in enumerate(WEIGHTS) for _ in range(weight))
_ITERATIONS = 500
_CONVERGED = 1e-12

# The increment and the two multipliers of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
INCREMENT = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)

# What a hash is for; the purposes share no value.
_TRANSITIONS, _FIRST_TOKEN, _CHOICES = 1, 2, 3


@dataclasses.dataclass(frozen=True)
class TokenSource:
    """The chain over one vocabulary: tokens 0 … vocab_size - 1.

    The seed is 0 … 2⁶³ - 1; another seed is another chain and other walks on it. Raises ValueError
    for an argument outside its range.
    """

    vocab_size: int
    seed: int = 0

    def __post_init__(self) -> None:
        # The draws below multiply 32 bits of a hash by a size in 64 bits.
        if not SMALLEST_VOCABULARY <= self.vocab_size < 2**31:
            raise ValueError(
                f"a vocabulary of {self.vocab_size} tokens: {SMALLEST_VOCABULARY} or more are"
                " needed"
            )
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"the seed {self.seed} is not in 0 … 2⁶³ - 1")

    @functools.cached_property
    def successors(self) -> NDArray[np.int32]:
        """Shape (vocab_size, SUCCESSORS): where each token can lead, the most likely first, all
        different.
        """
        import numpy as np

        tokens = np.arange(self.vocab_size, dtype=np.uint64)[:, None]
        drawn = self._log_uniform(
            self._hash(_TRANSITIONS, tokens, np.arange(SUCCESSORS, dtype=np.uint64))
        )
        for column in range(1, SUCCESSORS):
            # A token drawn twice would merge two probabilities and lower the entropy of its row:
            # the later one moves on to the next token that is free, at most `column` places
            # further.
            for _ in range(column):
                taken = (drawn[:, :column] == drawn[:, column, None]).any(axis=1)
                drawn[taken, column] = (drawn[taken, column] + 1) % self.vocab_size
        return drawn.astype(np.int32)

    def rows(
        self, steps: NDArray[np.int64], rows: NDArray[np.int64], length: int
    ) -> NDArray[np.int64]:
        """Return sequences of tokens, shape (n, length). A longer sequence begins with the shorter
        one.

        Args:
            steps: shape (n,), the optimizer step of each sequence, from 1.
            rows: shape (n,), its place in the global batch, from 0.
            length: tokens of a sequence.
        """
        import numpy as np

        where = steps.astype(np.uint64), rows.astype(np.uint64)
        positions = np.arange(length, dtype=np.uint64)
        bits = self._hash(_CHOICES, where[0][:, None], where[1][:, None], positions) >> np.uint64(
            61
        )
        choices = np.asarray(_EIGHTHS, dtype=np.int64)[bits.astype(np.int64)]
        table = self.successors.ravel()
        # Position by position, all sequences at once; time is the first axis, so that each is
        # contiguous.
        walk = np.empty((length, len(steps)), dtype=np.int64)
        choices = np.ascontiguousarray(choices.T)
        walk[0] = self._log_uniform(self._hash(_FIRST_TOKEN, *where))
        for position in range(1, length):
            walk[position] = table[walk[position - 1] * SUCCESSORS + choices[position]]
        return np.ascontiguousarray(walk.T)

    def in_order(
        self, positions: NDArray[np.int64], global_batch_size: int, length: int
    ) -> NDArray[np.int64]:
        """Return the sequences at these positions of a training, from 0: those of a step follow
        those of the last.
        """
        return self.rows(positions // global_batch_size + 1, positions % global_batch_size, length)

    @property
    def entropy(self) -> float:
        """Entropy rate, nats/token: exact, because every row has the same four probabilities."""
        return -math.fsum(weight / 8 * math.log(weight / 8) for weight in WEIGHTS)

    @functools.cached_property
    def stationary(self) -> NDArray[np.float64] | None:
        """Shape (vocab_size,): how often each token comes in the long run.

        Found by applying the transitions to the uniform distribution until it changes by less than
        10⁻¹² in sum; None if it doesn't come to rest, as in a chain that alternates.
        """
        import numpy as np

        weights = np.asarray(WEIGHTS) / 8
        flat = self.successors.ravel()
        share = np.full(self.vocab_size, 1 / self.vocab_size)
        for _ in range(_ITERATIONS):
            moved = np.bincount(
                flat, weights=(share[:, None] * weights).ravel(), minlength=self.vocab_size
            )
            if np.abs(moved - share).sum() < _CONVERGED:
                return moved.astype(np.float64)
            share = moved
        return None

    @property
    def unigram_entropy(self) -> float | None:
        """Entropy of the token frequencies, nats/token; None if `stationary` is.

        It is that of an endless walk. A sequence starts from a token drawn log-uniformly instead,
        which its first few tokens forget.
        """
        import numpy as np

        if self.stationary is None:
            return None
        share = self.stationary[self.stationary > 0]
        return float(-(share * np.log(share)).sum())

    def digest(self, global_batch_size: int, sequence_length: int) -> str:
        """Return the SHA-256, in hex, of the training's first DIGEST_TOKENS tokens, each as four
        bytes, low one first.

        In the order of step, row and position, and up to the end of a sequence: equal digests are
        equal data in equal batches.
        """
        import numpy as np

        tokens = self.in_order(
            np.arange(-(-DIGEST_TOKENS // sequence_length)), global_batch_size, sequence_length
        )
        return hashlib.sha256(tokens.astype("<u4").tobytes()).hexdigest()

    def described(self, global_batch_size: int, sequence_length: int) -> Data:
        """Return a result's values on this source, rounded so that results of two platforms agree
        to the digit.
        """
        unigram = self.unigram_entropy
        return Data(
            kind=KIND,
            digest=self.digest(global_batch_size, sequence_length),
            entropy=round(self.entropy, 6),
            unigram_entropy=None if unigram is None else round(unigram, 6),
            seed=self.seed,
        )

    def _hash(self, purpose: int, *keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return 64 well-mixed bits for each combination of keys, which broadcast against each
        other.
        """
        import numpy as np

        # Arrays, never numpy scalars: overflow wraps silently in the former and warns in the
        # latter.
        value = mixed(np.asarray([(self.seed * INCREMENT + purpose) % 2**64], dtype=np.uint64))
        for key in keys:
            value = mixed(value + (key + np.uint64(1)) * np.uint64(INCREMENT))
        return value

    def _log_uniform(self, bits: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return a token for each 64-bit hash: the upper half chooses an octave, the lower a token
        in it.
        """
        import numpy as np

        octaves = np.uint64(self.vocab_size.bit_length())
        octave = ((bits >> np.uint64(32)) * octaves) >> np.uint64(32)
        first = (np.uint64(1) << octave) - np.uint64(1)
        # The last octave is cut off where the vocabulary ends.
        size = np.minimum(first + np.uint64(1), np.uint64(self.vocab_size) - first)
        token: NDArray[np.int64] = (
            first + (((bits & np.uint64(2**32 - 1)) * size) >> np.uint64(32))
        ).astype(np.int64)
        return token


def mixed(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix 64-bit numbers one to one, so that each bit of the result depends on all bits."""
    import numpy as np

    value = (value ^ (value >> np.uint64(30))) * np.uint64(_MULTIPLIERS[0])
    value = (value ^ (value >> np.uint64(27))) * np.uint64(_MULTIPLIERS[1])
    result: NDArray[np.uint64] = value ^ (value >> np.uint64(31))
    return result
