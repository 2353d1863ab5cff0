"""Reading the shards: every pair once an epoch, however they are shared; and the page cache."""

from __future__ import annotations

import pickle
import sys

import pytest

np = pytest.importorskip("numpy")

from tprimat.frameworks.encdec import storage as encdec_storage
from tprimat.frameworks.encdec.shards import Contents, prepare
from tprimat.frameworks.encdec.storage import FromShards, cached_share, drop_caches, paths

CONTENTS = Contents(num_samples=96, seq_len=64, vocab_size=5000, seed=7, num_shards=5)
ALL = {bytes(row) for row in CONTENTS.pairs.rows(0, 96).astype("<i4")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    prepare(folder, CONTENTS, lambda line: None)
    return folder


def rows(batches, indices):
    return [bytes(row) for index in indices for row in batches[index][0]]


class TestBatches:
    @pytest.mark.parametrize("epoch", range(3))
    def test_an_epoch_has_every_pair_once(self, folder, epoch):
        batches = FromShards(folder, CONTENTS, batches_per_epoch=12, batch_size=8, seed=1)
        read = rows(batches, range(epoch * 12, (epoch + 1) * 12))
        assert len(read) == 96
        assert set(read) == ALL

    def test_processes_share_the_global_batch(self, folder):
        alone = FromShards(folder, CONTENTS, 6, 16, seed=1)
        first, second = (FromShards(folder, CONTENTS, 6, 8, 1, rank, 2) for rank in range(2))
        for index in range(12):
            assert rows(alone, [index]) == rows(first, [index]) + rows(second, [index])

    def test_each_epoch_has_an_order_of_its_own(self, folder):
        batches = FromShards(folder, CONTENTS, 12, 8, seed=1)
        orders = [rows(batches, range(epoch * 12, (epoch + 1) * 12)) for epoch in range(4)]
        assert len({tuple(order) for order in orders}) > 1

    def test_a_batch_larger_than_a_shard(self, folder):
        batches = FromShards(folder, CONTENTS, 1, 96, seed=1)
        assert set(rows(batches, [0])) == ALL

    def test_what_makes_no_whole_batch_is_left_out(self, folder):
        batches = FromShards(folder, CONTENTS, 9, 10, seed=1)
        assert len(set(rows(batches, range(9)))) == 90

    def test_reading_takes_time(self, folder):
        assert FromShards(folder, CONTENTS, 12, 8, seed=1)[0][1] > 0

    def test_a_worker_opens_its_own_files(self, folder):
        batches = FromShards(folder, CONTENTS, 12, 8, seed=1)
        first = rows(batches, [3])
        copy = pickle.loads(pickle.dumps(batches))
        assert rows(copy, [3]) == first

    def test_a_shard_that_shrank_is_an_error_and_no_crash(self, tmp_path):
        prepare(tmp_path, CONTENTS, lambda line: None)
        for path in paths(tmp_path, CONTENTS):
            path.write_bytes(path.read_bytes()[:100])
        with pytest.raises(OSError, match=r"100 bytes, and \d+ were written: it was changed during the training"):
            FromShards(tmp_path, CONTENTS, 12, 8, seed=1)[0]


class TestPageCache:
    @pytest.fixture
    def on_disk(self, folder):
        files = paths(folder, CONTENTS)
        if drop_caches(files) is not None or cached_share(files) is None:
            pytest.skip("the temporary folder lies in memory, or this system doesn't tell what it caches")
        return files

    def test_dropped_and_read_again(self, on_disk, folder):
        assert cached_share(on_disk) == 0.0
        rows(FromShards(folder, CONTENTS, 12, 8, seed=1), range(12))
        assert cached_share(on_disk) == 1.0
        assert drop_caches(on_disk) is None
        assert cached_share(on_disk) == 0.0

    def test_reading_leaves_nothing_mapped_that_could_not_be_dropped(self, on_disk, folder):
        batches = FromShards(folder, CONTENTS, 12, 8, seed=1)
        rows(batches, range(12))
        assert drop_caches(on_disk) is None
        assert rows(batches, [0])

    def test_what_can_not_be_told_is_unknown(self, folder, monkeypatch):
        monkeypatch.setattr(sys, "platform", "darwin")
        assert cached_share(paths(folder, CONTENTS)) is None

    def test_files_of_others_tell_nothing(self, folder, monkeypatch):
        monkeypatch.setattr(encdec_storage.os, "access", lambda path, mode: False)
        assert cached_share(paths(folder, CONTENTS)) is None

    def test_what_can_not_be_dropped_is_said(self, folder, monkeypatch):
        monkeypatch.setattr(encdec_storage, "cached_share", lambda files: 0.5)
        monkeypatch.setattr(encdec_storage, "DROP_ALL", folder / "no" / "such" / "file")
        assert drop_caches(paths(folder, CONTENTS)).startswith("50% of the data stay in the page cache")
        monkeypatch.delattr(encdec_storage.os, "posix_fadvise", raising=False)
        assert "lets no program drop files" in drop_caches([])
