"""The token source: the same everywhere, never repeated, and of the entropy that it states."""

from __future__ import annotations

import hashlib
import itertools
import math
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

from tprimat.catalog import models
from tprimat.frameworks.loops.recipe import MicroBatches, Recipe
from tprimat.frameworks.loops.tokens import SUCCESSORS, WEIGHTS, TokenSource
from tprimat.frameworks.request import Request
from tprimat.results.run import Optimizer

PINNED_TOKENS = [[6438, 2, 2424, 106, 1, 1146], [8, 14, 42, 10, 1, 10], [1453, 0, 1, 1467, 0, 162]]
PINNED_DIGEST = "7131d57cfe055755670fa90bf984a4f3e486ee00d24e6c6640b210906a69ffad"
VOCABULARIES = (16, 17, 31, 32, 33, 2048, 8016)


def rows(source, steps, batch, length):
    where = list(itertools.product(range(1, steps + 1), range(batch)))
    return source.rows(
        np.array([step for step, _ in where]), np.array([row for _, row in where]), length
    )


def micro_batches_of(source, steps, batch, micro, length, rank=0, world=1):
    llama = models.by_name("llama")
    request = Request(
        "lightning", "cpu", "llama", "tiny", "fp32", steps, batch, micro, length, 1, world, Path()
    )
    return MicroBatches(Recipe(request, llama, llama.shape, Optimizer(), source), rank)


class TestSameEverywhere:
    def test_first_tokens_never_change(self):
        # Whoever changes these changes the data under every stored result.
        tokens = TokenSource(8016, 1234).rows(np.array([1, 1, 60]), np.array([0, 1, 1]), 6)
        assert tokens.tolist() == PINNED_TOKENS

    def test_digest_never_changes(self):
        assert TokenSource(8016, 1234).digest(2, 128) == PINNED_DIGEST

    def test_digest_is_of_little_endian_words_in_order(self):
        source = TokenSource(64, 5)
        words = b"".join(
            int(token).to_bytes(4, "little")
            for row in rows(source, 64, 4, 256)[:256]
            for token in row
        )
        assert source.digest(4, 256) == hashlib.sha256(words).hexdigest()

    def test_another_seed_batch_or_vocabulary_is_other_data(self):
        digests = {
            TokenSource(8016, 1).digest(2, 128),
            TokenSource(8016, 2).digest(2, 128),
            TokenSource(8016, 1).digest(4, 128),
            TokenSource(8016, 1).digest(2, 256),
            TokenSource(8015, 1).digest(2, 128),
        }
        assert len(digests) == 5

    def test_a_longer_sequence_begins_with_the_shorter_one(self):
        source = TokenSource(2048, 3)
        assert (rows(source, 2, 3, 200)[:, :50] == rows(source, 2, 3, 50)).all()

    @pytest.mark.parametrize(("micro", "world"), [(1, 1), (2, 1), (4, 2), (1, 8), (8, 1), (2, 4)])
    def test_the_global_batch_is_the_same_however_it_is_split(self, micro, world):
        source = TokenSource(2048, 9)
        accumulation = 8 // (micro * world)
        parts = [micro_batches_of(source, 3, 8, micro, 40, rank, world) for rank in range(world)]
        assert {len(part) for part in parts} == {3 * accumulation}
        for step in range(3):
            batch = [
                part[step * accumulation + index] for index in range(accumulation) for part in parts
            ]
            expected = source.rows(np.full(8, step + 1), np.arange(8), 40)
            assert (np.concatenate(batch) == expected).all()

    @pytest.mark.parametrize("workers", [0, 2])
    def test_loader_workers_change_nothing(self, workers):
        data = pytest.importorskip("torch.utils.data")
        micro_batches = micro_batches_of(TokenSource(2048, 9), 4, 4, 2, 16)
        loader = data.DataLoader(micro_batches, batch_size=None, num_workers=workers)
        loaded = [batch.tolist() for batch in loader]
        assert loaded == [micro_batches[index].tolist() for index in range(8)]

    def test_a_large_seed_overflows_without_a_warning(self, recwarn):
        assert TokenSource(100, 2**63 - 1).rows(np.array([2**40]), np.array([2**40]), 5).shape == (
            1,
            5,
        )
        assert not recwarn.list


class TestEntropy:
    @pytest.mark.parametrize("vocab_size", VOCABULARIES)
    @pytest.mark.parametrize("seed", [0, 1, 77])
    def test_successors_are_different_tokens_of_the_vocabulary(self, vocab_size, seed):
        table = TokenSource(vocab_size, seed).successors
        assert table.shape == (vocab_size, SUCCESSORS)
        assert table.min() >= 0
        assert table.max() < vocab_size
        assert all(len(set(row)) == SUCCESSORS for row in table.tolist())

    def test_rate_is_that_of_the_transition_matrix(self):
        source = TokenSource(32, 4)
        matrix = dense(source)
        assert source.stationary is not None
        of_rows = -(matrix * np.log(matrix, where=matrix > 0, out=np.zeros_like(matrix))).sum(
            axis=1
        )
        assert math.isclose(source.entropy, float(source.stationary @ of_rows), rel_tol=1e-12)
        assert math.isclose(source.entropy, 1.75 * math.log(2), rel_tol=1e-12)

    @pytest.mark.parametrize("vocab_size", [16, 32, 200])
    def test_stationary_distribution_is_the_left_eigenvector(self, vocab_size):
        source = TokenSource(vocab_size, 4)
        share = source.stationary
        assert share is not None
        assert np.abs(share @ dense(source) - share).max() < 1e-12
        assert math.isclose(share.sum(), 1, rel_tol=1e-9)

    def test_a_long_walk_has_both_entropies(self):
        source = TokenSource(16, 6)
        walk = source.rows(np.array([1]), np.array([0]), 400_000)[0]
        counts = np.zeros((16, 16))
        np.add.at(counts, (walk[:-1], walk[1:]), 1)
        frequencies = counts.sum(axis=1) / counts.sum()
        within = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        rate = -sum(
            f * sum(p * math.log(p) for p in row if p)
            for f, row in zip(frequencies, within, strict=True)
        )
        assert rate == pytest.approx(source.entropy, abs=0.01)
        unigram = -sum(f * math.log(f) for f in frequencies if f)
        assert unigram == pytest.approx(source.unigram_entropy, abs=0.01)

    def test_who_knows_the_chain_reaches_the_entropy_and_no_less(self):
        source = TokenSource(2048, 8)
        tokens = rows(source, 100, 4, 128)
        probability = {w: weight / 8 for w, weight in enumerate(WEIGHTS)}
        place = (source.successors[tokens[:, :-1]] == tokens[:, 1:, None]).argmax(axis=2)
        losses = -np.log(np.vectorize(probability.get)(place))
        error = losses.std() / math.sqrt(losses.size)
        assert abs(losses.mean() - source.entropy) < 4 * error

    def test_every_step_of_a_walk_goes_to_a_successor(self):
        source = TokenSource(8016, 1234)
        tokens = rows(source, 5, 4, 128)
        assert (source.successors[tokens[:, :-1]] == tokens[:, 1:, None]).any(axis=2).all()

    def test_unigram_entropy_lies_between_the_rate_and_the_vocabulary(self):
        for vocab_size in (2048, 8016, 128256):
            source = TokenSource(vocab_size, 1234)
            assert source.entropy < source.unigram_entropy < math.log(vocab_size) - 1

    def test_a_chain_that_alternates_has_no_unigram_entropy(self):
        source = TokenSource(16, 0)
        table = [[4, 5, 6, 7] if token < 4 else [0, 1, 2, 3] for token in range(16)]
        vars(source)["successors"] = np.array(table, dtype=np.int32)
        assert source.stationary is None
        assert source.unigram_entropy is None
        assert source.described(2, 8).unigram_entropy is None

    def test_what_a_result_says(self):
        data = TokenSource(8016, 1234).described(2, 128)
        assert (data.kind, data.seed, data.digest) == ("markov", 1234, PINNED_DIGEST)
        assert data.entropy == 1.213008
        assert data.unigram_entropy == pytest.approx(5.0971, abs=1e-4)


class TestFresh:
    def test_no_sequence_comes_twice(self):
        tokens = rows(TokenSource(8016, 1234), 200, 8, 64)
        assert len({row.tobytes() for row in tokens}) == 200 * 8

    def test_steps_differ_from_rows(self):
        source = TokenSource(8016, 1234)
        one, other = source.rows(np.array([1, 2]), np.array([2, 1]), 64)
        assert (one != other).any()


class TestRefused:
    @pytest.mark.parametrize("vocab_size", [0, 3, 15, 2**31])
    def test_vocabulary(self, vocab_size):
        with pytest.raises(ValueError, match="vocabulary"):
            TokenSource(vocab_size)

    @pytest.mark.parametrize("seed", [-1, 2**63])
    def test_seed(self, seed):
        with pytest.raises(ValueError, match="seed"):
            TokenSource(100, seed)

    @pytest.mark.parametrize("index", [-1, 6])
    def test_index(self, index):
        micro_batches = micro_batches_of(TokenSource(100), 3, 2, 1, 8)
        with pytest.raises(IndexError):
            micro_batches[index]


def dense(source):
    matrix = np.zeros((source.vocab_size, source.vocab_size))
    for token, successors in enumerate(source.successors):
        matrix[token, successors] = np.array(WEIGHTS) / 8
    return matrix
