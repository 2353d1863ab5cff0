"""The shards on disk: written once, checked, completed, made again; and what keeps them from
being.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("numpy")

import filelock

from tprimat import files
from tprimat.errors import UsageError
from tprimat.frameworks.encdec import shards as encdec_shards
from tprimat.frameworks.encdec.pairs import Pairs
from tprimat.frameworks.encdec.shards import default_shards, prepare, read_manifest

PAIRS = Pairs(num_samples=103, seq_len=16, vocab_size=50, seed=7, num_shards=5)


@pytest.fixture
def said():
    return []


@pytest.fixture
def there(tmp_path, said):
    """A directory with the data set, and nothing said yet."""
    prepare(tmp_path / "data", PAIRS, said.append)
    said.clear()
    return tmp_path / "data"


def contents_of(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.glob("shard_*"))}


class TestWriting:
    def test_shards_of_equal_size_under_their_names(self, there):
        assert sorted(contents_of(there)) == [f"shard_{index:04d}.bin" for index in range(5)]
        assert [len(content) // (33 * 4) for content in contents_of(there).values()] == [
            21,
            21,
            21,
            20,
            20,
        ]

    def test_they_hold_the_pairs_in_order(self, there):
        whole = b"".join(contents_of(there).values())
        assert whole == PAIRS.rows(0, 103).astype("<i4").tobytes()

    def test_the_manifest_says_parameters_and_checksums(self, there):
        stated = json.loads((there / "manifest.json").read_text())
        assert stated["contents"] == {
            "num_samples": 103,
            "seq_len": 16,
            "vocab_size": 50,
            "seed": 7,
            "num_shards": 5,
        }
        for name, content in contents_of(there).items():
            assert stated["shards"][name]["sha256"] == hashlib.sha256(content).hexdigest()
            assert stated["shards"][name]["bytes"] == len(content)

    def test_many_chunks_make_the_same_shard(self, there, tmp_path, said, monkeypatch):
        monkeypatch.setattr(encdec_shards, "CHUNK_BYTES", 300)
        prepare(tmp_path / "other", PAIRS, said.append)
        assert contents_of(tmp_path / "other") == contents_of(there)

    def test_the_speed_of_writing_is_known(self, there, tmp_path):
        assert encdec_shards.written_gb_per_second(there) > 0
        assert encdec_shards.written_gb_per_second(tmp_path) is None

    def test_some_128_megabytes_each(self):
        assert [default_shards(size) for size in (1, 128_000_000, 128_000_001, 30_000_000_000)] == [
            1,
            1,
            2,
            235,
        ]


class TestAgain:
    def test_nothing_is_written_a_second_time(self, there, said):
        before = {path: path.stat().st_mtime_ns for path in there.glob("shard_*")}
        written = prepare(there, PAIRS, said.append)
        assert written == 0
        assert {path: path.stat().st_mtime_ns for path in there.glob("shard_*")} == before
        assert said == [f"checking the data in {there}: 5 of 5 shards, 13.6 kB"]

    @pytest.mark.parametrize("place", [0, 777, -1])
    def test_a_changed_byte_is_found_and_mended(self, there, said, place):
        before = contents_of(there)
        content = bytearray(before["shard_0002.bin"])
        content[place] ^= 1
        (there / "shard_0002.bin").write_bytes(content)
        written = prepare(there, PAIRS, said.append)
        assert written == 1
        assert (
            f"{there / 'shard_0002.bin'}: its content is not what was written (checksum): rewritten"
            in said
        )
        assert contents_of(there) == before

    def test_a_cut_and_a_lost_shard_too(self, there, said):
        before = contents_of(there)
        (there / "shard_0001.bin").write_bytes(before["shard_0001.bin"][:-1])
        (there / "shard_0004.bin").unlink()
        assert prepare(there, PAIRS, said.append) == 2
        assert any("2771 bytes, and 2772 were written" in line for line in said)
        assert any("shard_0004.bin: has gone" in line for line in said)
        assert contents_of(there) == before

    @pytest.mark.parametrize(
        "change",
        [{"seq_len": 15}, {"seed": 8}, {"num_samples": 90}, {"vocab_size": 60}, {"num_shards": 2}],
    )
    def test_other_parameters_make_it_again(self, there, said, change):
        other = Pairs(
            **{**{name: getattr(PAIRS, name) for name in PAIRS.__struct_fields__}, **change}
        )
        written = prepare(there, other, said.append)
        assert written == other.num_shards
        ((name, value),) = change.items()
        assert f"({name} {getattr(PAIRS, name)}, now {value})" in said[0]
        assert sorted(contents_of(there)) == [shard.name for shard in other.shards()]
        assert read_manifest(there).contents == other


def test_a_file_in_the_place_of_the_folder_is_no_data_set(tmp_path, said):
    (tmp_path / "data").write_text("")
    assert read_manifest(tmp_path / "data") is None
    with pytest.raises(UsageError, match="choose another --data-dir"):
        prepare(tmp_path / "data", PAIRS, said.append)


class TestKilled:
    CODE = """
import os, signal, sys
from pathlib import Path
from tprimat.frameworks.encdec import shards as encdec_shards
from tprimat.frameworks.encdec.pairs import Pairs
replace, done = os.replace, []
def strike(source, target):
    if str(target).endswith(".bin"):
        done.append(target)
        if len(done) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
os.replace = strike
encdec_shards.prepare(Path(sys.argv[1]), Pairs(
    num_samples=103, seq_len=16, vocab_size=50, seed=7, num_shards=5), lambda line: None)
"""

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
    def test_the_next_start_goes_on_where_it_struck(self, tmp_path, there, said, repository):
        folder = tmp_path / "killed"
        done = subprocess.run(
            [sys.executable, "-c", self.CODE, str(folder)],
            env={**os.environ, "PYTHONPATH": str(repository)},
        )
        assert done.returncode == -signal.SIGKILL
        assert sorted(contents_of(folder)) == [
            "shard_0000.bin",
            "shard_0001.bin",
            "shard_0002.bin.part",
        ]
        written = prepare(folder, PAIRS, said.append)
        assert written == 3
        assert contents_of(folder) == contents_of(there)


class TestFolder:
    def test_shards_of_others_are_left_alone(self, tmp_path, said):
        (tmp_path / "shard_0000.bin").write_bytes(b"precious")
        with pytest.raises(UsageError) as refused:
            prepare(tmp_path, PAIRS, said.append)
        assert "no manifest.json" in refused.value.message
        assert (tmp_path / "shard_0000.bin").read_bytes() == b"precious"

    @pytest.mark.parametrize(
        "content", ["{}", "no json", '{"tensorprimat_data": 99, "contents": {}}', "[1]"]
    )
    def test_a_manifest_of_others_too(self, tmp_path, said, content):
        (tmp_path / "manifest.json").write_text(content)
        with pytest.raises(UsageError) as refused:
            prepare(tmp_path, PAIRS, said.append)
        assert refused.value.heading == "data-directory"
        assert (tmp_path / "manifest.json").read_text() == content

    def test_a_newer_manifest_is_not_ours(self, there, said):
        path = there / "manifest.json"
        path.write_text(
            path.read_text().replace('"tensorprimat_data": 1', '"tensorprimat_data": 2')
        )
        with pytest.raises(UsageError, match="another version"):
            prepare(there, PAIRS, said.append)

    def test_a_file_in_the_place_of_the_folder(self, tmp_path, said):
        (tmp_path / "data").write_text("")
        with pytest.raises(UsageError) as refused:
            prepare(tmp_path / "data", PAIRS, said.append)
        assert refused.value.heading == "unwritable-directory"

    def test_one_writer_at_a_time(self, there, said):
        lock = filelock.FileLock(str(there / files.LOCK_NAME), thread_local=False)
        lock.acquire()
        waiting = threading.Thread(target=prepare, args=(there, PAIRS, said.append))
        waiting.start()
        while not said:
            time.sleep(0.01)
        assert said == [f"{there}: another process is writing or checking the data: waiting for it"]
        lock.release()
        waiting.join(30)
        assert said[-1].startswith("checking the data")


class TestFullDisk:
    LARGE = Pairs(num_samples=4000, seq_len=128, vocab_size=50, seed=7, num_shards=5)

    @pytest.fixture
    def small_disk(self, tmp_path):
        folder = tmp_path / "disk"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
        if (
            sys.platform != "linux"
            or not shutil.which("mount")
            or subprocess.run(command, capture_output=True).returncode
        ):
            pytest.skip("this user may not mount a small disk")
        yield folder
        subprocess.run(["umount", "-l", str(folder)], check=True)

    def test_said_before_anything_is_written(self, small_disk, said):
        with pytest.raises(UsageError) as refused:
            prepare(small_disk / "data", self.LARGE, said.append)
        assert refused.value.heading == "disk-full"
        assert "the data needs 5.2 MB, 3.1 MB are free" in refused.value.message
        assert contents_of(small_disk / "data") == {}

    def test_what_was_there_is_not_removed_for_what_does_not_fit(self, small_disk, said):
        prepare(small_disk / "data", PAIRS, said.append)
        before = contents_of(small_disk / "data")
        with pytest.raises(UsageError):
            prepare(small_disk / "data", self.LARGE, said.append)
        assert contents_of(small_disk / "data") == before
        assert prepare(small_disk / "data", PAIRS, said.append) == 0

    def test_what_makes_room_is_counted_in(self, small_disk, said):
        first = Pairs(num_samples=1700, seq_len=128, vocab_size=50, seed=7, num_shards=2)
        prepare(small_disk / "data", first, said.append)
        second = Pairs(num_samples=1600, seq_len=128, vocab_size=50, seed=9, num_shards=2)
        assert prepare(small_disk / "data", second, said.append) == 2

    def test_filled_by_others_on_the_way(self, small_disk, said, monkeypatch):
        monkeypatch.setattr(encdec_shards, "_check_space", lambda *_: None)
        with pytest.raises(UsageError) as refused:
            prepare(small_disk / "data", self.LARGE, said.append)
        assert "disk full; shards written so far are kept" in refused.value.message
        written = contents_of(small_disk / "data")
        assert sorted(written) == ["shard_0000.bin", "shard_0001.bin", "shard_0002.bin"]
        assert set(read_manifest(small_disk / "data").shards) == set(written)
