"""Synthetic pairs: the same everywhere, however they are asked for, and never again."""

from __future__ import annotations

import math

import pytest

np = pytest.importorskip("numpy")

from tprimat.frameworks.encdec.pairs import IN_MEMORY, ON_DISK, Pairs

PAIRS = Pairs(vocab_size=5480, seq_len=8, seed=1234)


def splitmix(number, state):
    """The number-th output of SplitMix64, in Python's own integers."""

    def mixed(value):
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
        return value ^ (value >> 31)

    return mixed((mixed(state) + number * 0x9E3779B97F4A7C15) % 2**64)


def test_the_same_on_every_platform():
    words = [splitmix(number, 1234) for number in range(1, 19)]
    tokens = [half * 5480 >> 32 for word in words for half in (word % 2**32, word >> 32)]
    rows = PAIRS.rows(0, 2)
    # Nine numbers make eighteen tokens; a pair has seventeen.
    assert rows.tolist() == [tokens[:17], tokens[18:35]]
    assert rows.dtype == np.int32


def test_a_pair_is_a_function_of_its_number():
    together = PAIRS.rows(0, 10)
    assert together.shape == (10, 17)
    assert (np.concatenate([PAIRS.rows(0, 3), PAIRS.rows(3, 7)]) == together).all()
    assert (Pairs(5480, 8, 5).rows(0, 10) != together).any()


def test_tokens_are_uniform_over_the_vocabulary():
    tokens = Pairs(vocab_size=10, seq_len=100, seed=0).rows(0, 500).ravel()
    counts = np.bincount(tokens, minlength=10)
    assert len(counts) == 10
    assert (abs(counts / len(tokens) - 0.1) < 0.005).all()


def test_a_large_number_does_not_overflow():
    assert PAIRS.rows(10**12, 2).shape == (2, 17)
    assert (PAIRS.rows(10**12, 2)[1] == PAIRS.rows(10**12 + 1, 1)[0]).all()


class TestDescribed:
    def test_the_entropy_bounds_the_loss_only_while_nothing_comes_again(self):
        once = PAIRS.described(IN_MEMORY, repeats=False)
        assert once.entropy == pytest.approx(math.log(5480), abs=1e-6)
        assert PAIRS.described(ON_DISK, repeats=True).entropy is None

    def test_the_digest_tells_data_apart(self):
        digests = {
            PAIRS.described(IN_MEMORY, repeats=False).digest,
            PAIRS.described(ON_DISK, repeats=False).digest,
            Pairs(5480, 8, 1).described(IN_MEMORY, repeats=False).digest,
        }
        assert len(digests) == 3
        assert PAIRS.described(IN_MEMORY, repeats=False).digest in digests
