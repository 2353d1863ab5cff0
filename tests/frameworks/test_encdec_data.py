"""The batches: every pair once an epoch from shards, never again from memory, however they are
shared.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

from tprimat.frameworks.encdec import data as encdec_data
from tprimat.frameworks.encdec.data import Batches, ShardReader
from tprimat.frameworks.encdec.launch import resolve_config
from tprimat.frameworks.encdec.pairs import Pairs
from tprimat.frameworks.encdec.request import RequestedEncDec
from tprimat.frameworks.encdec.shards import prepare
from tprimat.frameworks.request import Device
from tprimat.machine.page_cache import cached_share, drop_caches
from tprimat.record.ranks import Process

PAIRS = Pairs(num_samples=96, seq_len=64, vocab_size=5000, seed=7, num_shards=5)
ALL = {bytes(row) for row in PAIRS.rows(0, 96).astype("<i4")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    prepare(folder, PAIRS, lambda line: None)
    return folder


def from_shards(folder, batches_per_epoch, batch_size, rank=0, world_size=1):
    reader = ShardReader(folder, PAIRS, batches_per_epoch * batch_size * world_size)
    return Batches(reader, batch_size, rank, world_size)


def rows(batches, indices):
    return [bytes(row) for index in indices for row in batches[index][0]]


class TestFromShards:
    @pytest.mark.parametrize("epoch", range(3))
    def test_an_epoch_has_every_pair_once(self, folder, epoch):
        batches = from_shards(folder, batches_per_epoch=12, batch_size=8)
        read = rows(batches, range(epoch * 12, (epoch + 1) * 12))
        assert len(read) == 96
        assert set(read) == ALL

    def test_processes_share_the_global_batch(self, folder):
        alone = from_shards(folder, 6, 16)
        first, second = (from_shards(folder, 6, 8, rank, 2) for rank in range(2))
        for index in range(12):
            assert rows(alone, [index]) == rows(first, [index]) + rows(second, [index])

    def test_each_epoch_has_an_order_of_its_own(self, folder):
        batches = from_shards(folder, 12, 8)
        orders = [rows(batches, range(epoch * 12, (epoch + 1) * 12)) for epoch in range(4)]
        assert len({tuple(order) for order in orders}) > 1

    def test_a_batch_larger_than_a_shard(self, folder):
        batches = from_shards(folder, 1, 96)
        assert set(rows(batches, [0])) == ALL

    def test_what_makes_no_whole_batch_is_left_out(self, folder):
        batches = from_shards(folder, 9, 10)
        assert len(set(rows(batches, range(9)))) == 90

    def test_reading_takes_time(self, folder):
        assert from_shards(folder, 12, 8)[0][1] > 0

    def test_a_worker_opens_its_own_files(self, folder):
        batches = from_shards(folder, 12, 8)
        first = rows(batches, [3])
        copy = pickle.loads(pickle.dumps(batches))
        assert rows(copy, [3]) == first

    def test_a_shard_that_shrank_is_an_error_and_no_crash(self, tmp_path):
        prepare(tmp_path, PAIRS, lambda line: None)
        for path in tmp_path.glob("shard_*"):
            path.write_bytes(path.read_bytes()[:100])
        with pytest.raises(
            OSError, match=r"100 bytes, and \d+ were written: it was changed during the training"
        ):
            from_shards(tmp_path, 12, 8)[0]

    def test_reading_leaves_nothing_mapped_that_could_not_be_dropped(self, folder):
        files = sorted(folder.glob("shard_*"))
        if drop_caches(files) is not None or cached_share(files) is None:
            pytest.skip(
                "the temporary directory is in memory, or this system doesn't report what it caches"
            )
        batches = from_shards(folder, 12, 8)
        rows(batches, range(12))
        assert cached_share(files) == 1.0
        assert drop_caches(files) is None
        assert cached_share(files) == 0.0
        assert rows(batches, [0])


class TestFromMemory:
    PAIRS = Pairs(vocab_size=5480, seq_len=8, seed=1234)

    def test_processes_share_the_global_batch(self):
        alone = Batches(self.PAIRS, batch_size=4)
        first, second = (Batches(self.PAIRS, 2, rank, 2) for rank in range(2))
        for index in range(3):
            assert rows(alone, [index]) == rows(first, [index]) + rows(second, [index])

    def test_no_pair_comes_again(self):
        assert len(set(rows(Batches(self.PAIRS, batch_size=5), range(40)))) == 200


def test_one_loader_serves_all_epochs():
    pytest.importorskip("torch")
    requested = RequestedEncDec(num_samples=8, micro_batch_size=2, sequence_length=8)
    request, _ = resolve_config(requested, Device("cpu", 1, None), Path("/out"))
    order = []
    loader = encdec_data.loader(encdec_data.dataset(request, Process()), order, request)
    for epoch in (range(4), range(4, 8)):
        order[:] = epoch
        read = [bytes(row) for tokens, _ in loader for row in tokens.numpy()]
        assert read == [bytes(row) for row in request.pairs.rows(epoch[0] * 2, 8)]
