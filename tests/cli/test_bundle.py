"""The one file that is sent to whoever compares."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from pathlib import Path

import made_hostile
import pytest
from stored_runs import series

from tprimat.cli import run
from tprimat.errors import UnreadableError, UsageError
from tprimat.log_import import bundle, inputs
from tprimat.redaction import INCLUDE_HOST
from tprimat.results.run import Environment, GpuInfo, Run, TrainingConfig
from tprimat.store import store

RUN = Run(
    platform="amd",
    framework="primus",
    model="llama",
    gpu_info=GpuInfo(device_name="AMD Instinct MI300X", device_count=8, software_stack="rocm"),
    environment=Environment(versions={"torch": "2.10.0"}),
    training_config=TrainingConfig(global_batch_size=8, sequence_length=2048, num_gpus=8),
    **series((1.0, 1.1, 1.2)),
)


@pytest.fixture
def files(tmp_path) -> tuple[Path, Path]:
    result = store.save(RUN, tmp_path / "output").path
    log = tmp_path / "training_llama.log"
    log.write_text("HF_TOKEN=hf_" + "a" * 30 + "\niteration 1/ 3 |\n")
    (tmp_path / "training_llama.env.json").write_text("{}")
    return result, log


def members(path: Path) -> dict[str, bytes]:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    with tarfile.open(path) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive.getmembers()}


@pytest.mark.parametrize("name", ["mine.tar.gz", "mine.tgz", "mine.zip", "My Run.ZIP"])
def test_holds_result_log_and_environment(files, tmp_path, name):
    path = tmp_path / name
    if name.endswith("ZIP"):
        path = tmp_path / "My Run.zip"
    done, _ = bundle.write(path, [files[0]], [files[1]])
    held = members(path)
    folder = path.name.split(".")[0]
    assert set(held) == {
        f"{folder}/README.txt",
        f"{folder}/results/benchmark_rocm_llama.json",
        f"{folder}/environment/benchmark_rocm_llama.json",
        f"{folder}/environment/training_llama.env.json",
        f"{folder}/logs/training_llama.log.gz",
    }
    assert held[f"{folder}/results/benchmark_rocm_llama.json"] == files[0].read_bytes()
    (environment,) = json.loads(held[f"{folder}/environment/benchmark_rocm_llama.json"])
    assert environment["gpu_info"]["device_name"] == "AMD Instinct MI300X"
    assert environment["environment"]["versions"] == {"torch": "2.10.0"}
    assert done.startswith("Bundle:")


def test_a_token_in_a_log_stays_at_home(files, tmp_path):
    _, left_out = bundle.write(tmp_path / "b.tar.gz", [files[0]], [files[1]])
    log = gzip.decompress(members(tmp_path / "b.tar.gz")["b/logs/training_llama.log.gz"])
    assert b"hf_" not in log
    assert b"iteration 1/ 3 |" in log
    assert any("1 apparent secret removed" in line for line in left_out)
    assert "hf_" in files[1].read_text()


def test_its_results_are_read_again_after_unpacking(files, tmp_path):
    bundle.write(tmp_path / "b.tar.gz", [files[0]], [])
    for name, content in members(tmp_path / "b.tar.gz").items():
        path = tmp_path / "unpacked" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    loaded, warnings = store.find([tmp_path / "unpacked" / "b" / "results"])
    assert [each.runs[0].model for each in loaded] == ["llama"]
    assert warnings == []


def test_results_of_one_name_from_two_folders(files, tmp_path):
    other = store.save(RUN, tmp_path / "other").path
    bundle.write(tmp_path / "b.zip", [files[0], other], [])
    names = [name for name in members(tmp_path / "b.zip") if "/results/" in name]
    assert names == ["b/results/benchmark_rocm_llama.json", "b/results/benchmark_rocm_llama_2.json"]


def test_a_log_that_has_gone_is_said(files, tmp_path):
    _, left_out = bundle.write(tmp_path / "b.zip", [files[0]], [tmp_path / "none.log"])
    assert left_out == [f"not in the bundle: {tmp_path / 'none.log'}: no such file or directory"]


def test_nothing_is_overwritten_and_the_name_is_checked_first(tmp_path):
    (tmp_path / "b.zip").write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        bundle.check(tmp_path / "b.zip")
    with pytest.raises(UsageError, match=r"must end in .tar.gz, .tgz, .zip"):
        bundle.check(tmp_path / "b.rar")
    assert (tmp_path / "b.zip").read_text() == "mine"


def test_of_a_log_that_is_read(samples, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv(INCLUDE_HOST, "1")
    log = samples / "primus" / "megatron_light_llama31_8B_bf16_50it.log"
    bundle = tmp_path / "mi300x.tar.gz"
    status = run(
        "extract-primus",
        ["--log-file", str(log), "--output-dir", str(tmp_path / "output"), "--bundle", str(bundle)],
    )
    assert status == 0
    held = members(bundle)
    assert (
        gzip.decompress(held["mi300x/logs/megatron_light_llama31_8B_bf16_50it.log.gz"])
        == log.read_bytes()
    )
    assert "Bundle:" in capsys.readouterr().out


def test_a_log_that_is_cut_or_a_bomb_is_packed_as_far_as_it_can_be_read(
    files, tmp_path, monkeypatch
):
    monkeypatch.setattr(inputs, "UNPACKED_FREELY", 1 << 16)
    packed = gzip.compress(b"step 1\n" + bytes(range(256)) * 100)
    cut, bomb = tmp_path / "cut.log.gz", tmp_path / "bomb.log.gz"
    cut.write_bytes(packed[:-20])
    bomb.write_bytes(gzip.compress(b"step 1\n" + b"\0" * (8 << 20)))
    bundle.write(tmp_path / "b.zip", [files[0]], [cut, bomb])
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        for name in ("cut", "bomb"):
            content = gzip.decompress(archive.read(f"b/logs/{name}.log.gz"))
            assert content.startswith(b"step 1\n")
            assert len(content) < 8 << 20


def archive(path: Path, *entries: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as packed:
        for entry, content in entries:
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    return path


def names_in(path: Path) -> list[str]:
    with bundle.unpacked(path) as (folder, _):
        return sorted(each.name for each in folder.rglob("*") if each.is_file())


REFUSED = "unpacks to more than logs and results do"


@pytest.mark.parametrize("more", [0, 1])
def test_what_an_archive_states_of_a_member_is_bounded(tmp_path, more):
    entry = tarfile.TarInfo("logs/train.log")
    # The member's own header, that of the comment, and the comment with its length and name, in
    # blocks.
    entry.pax_headers = {"comment": "x" * (8192 - 2 * 512 - len("7168 comment=\n") + more)}
    path = archive(tmp_path / "b.tar.gz", (entry, b"step 1\n" * 100_000))
    if not more:
        assert names_in(path) == ["train.log"]
        return
    with pytest.raises(UnreadableError, match=f"b.tar.gz: {REFUSED}"):
        names_in(path)


@pytest.mark.parametrize("more", [0, 1])
def test_what_an_archive_states_of_all_members_is_bounded(tmp_path, monkeypatch, more):
    # Of each member one block, and the block of zeros that ends the archive.
    monkeypatch.setattr(bundle, "LARGEST_HEADERS", 5 * 512 - more)
    path = archive(
        tmp_path / "b.tar.gz", *((tarfile.TarInfo(f"{number}.log"), b"") for number in range(4))
    )
    if not more:
        assert len(names_in(path)) == 4
        return
    with pytest.raises(UnreadableError, match=REFUSED):
        names_in(path)


def test_as_many_members_as_there_may_be_have_room_for_their_headers():
    assert bundle.MOST_MEMBERS * 3 * 512 <= bundle.LARGEST_HEADERS
    assert bundle.MOST_MEMBERS * (46 + 150) <= bundle.LARGEST_DIRECTORY


@pytest.mark.parametrize("digits", [99, 100])
def test_a_number_in_a_header_is_bounded(tmp_path, digits):
    entry = tarfile.TarInfo("1" * digits + ".log")
    path = archive(tmp_path / "b.tar.gz", (entry, b"1" * 5000))
    if digits == 99:
        assert names_in(path) == [entry.name]
        return
    with pytest.raises(UnreadableError, match="a number in a header is too long"):
        names_in(path)


@pytest.mark.parametrize("more", [0, 1])
def test_the_values_of_a_result_are_bounded(tmp_path, monkeypatch, more):
    monkeypatch.setattr(bundle, "MOST_VALUES", 9)
    content = json.dumps(list(range(10 + more))).encode()
    for name in ("x.json", "x.log"):
        path = archive(tmp_path / f"{name}.tar.gz", (tarfile.TarInfo(f"results/{name}"), content))
        if more and name == "x.json":
            with pytest.raises(UnreadableError, match="a result in it has more than 9 values"):
                names_in(path)
        else:
            assert names_in(path) == [name]


def test_a_sparse_file_is_refused(tmp_path):
    entry = tarfile.TarInfo("train.log")
    entry.pax_headers = {"GNU.sparse.map": "0,6", "GNU.sparse.size": "1000000"}
    with pytest.raises(UnreadableError, match="a file in it is sparse"):
        names_in(archive(tmp_path / "b.tar.gz", (entry, b"step 1")))


@pytest.mark.parametrize("more", [0, 1])
def test_the_directory_of_a_zip_is_bounded(tmp_path, monkeypatch, more):
    path = tmp_path / "b.zip"
    with zipfile.ZipFile(path, "w") as packed:
        for number in range(10):
            packed.writestr(f"{number}.log", b"step 1")
    monkeypatch.setattr(bundle, "LARGEST_DIRECTORY", 10 * (46 + len("0.log")) - more)
    if not more:
        assert len(names_in(path)) == 10
        return
    with pytest.raises(UnreadableError, match=REFUSED):
        names_in(path)


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_what_zipfile_unpacks_at_once_is_refused(tmp_path, method):
    path = tmp_path / "b.zip"
    with zipfile.ZipFile(path, "w", method) as packed:
        packed.writestr("train.log", b"step 1")
    if method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        assert names_in(path) == ["train.log"]
        return
    with pytest.raises(UnreadableError, match="it is not packed with deflate"):
        names_in(path)


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, bz2.compress, lzma.compress, made_hostile.zstd]
)
def test_an_archive_may_be_packed_otherwise_than_it_is_named(tmp_path, pack):
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as packed:
        for number in range(20):
            content = bytes([number]) * (100_000 + number)
            entry = tarfile.TarInfo(
                f"environment/{number}.log" if number % 2 else f"logs/{number}.log"
            )
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    path = tmp_path / "b.tgz"
    path.write_bytes(pack(plain.getvalue()))
    with bundle.unpacked(path) as (folder, _):
        contents = {each.name: each.read_bytes() for each in folder.rglob("*.log")}
    assert contents == {
        f"{number}.log": bytes([number]) * (100_000 + number) for number in range(0, 20, 2)
    }


@pytest.mark.parametrize("members", [3, 4])
def test_members_that_are_not_unpacked_count(tmp_path, monkeypatch, members):
    monkeypatch.setattr(bundle, "MOST_MEMBERS", 3)
    folders = [tarfile.TarInfo(f"folder{number}") for number in range(members - 1)]
    for folder in folders:
        folder.type = tarfile.DIRTYPE
    path = archive(
        tmp_path / "b.tar.gz",
        *((folder, b"") for folder in folders),
        (tarfile.TarInfo("train.log"), b"step 1"),
    )
    if members == 3:
        assert names_in(path) == ["train.log"]
        return
    with pytest.raises(UnreadableError, match=REFUSED):
        names_in(path)


@pytest.mark.parametrize("size", [1 << 16, 1 << 22])
def test_bytes_that_are_not_unpacked_count(tmp_path, monkeypatch, size):
    monkeypatch.setattr(bundle, "UNPACKED_FREELY", 1 << 17)
    entries = (
        (tarfile.TarInfo("environment/e.json"), b" " * size),
        (tarfile.TarInfo("train.log"), b"step 1"),
    )
    path = archive(tmp_path / "b.tar.gz", *entries)
    if size == 1 << 16:
        assert names_in(path) == ["train.log"]
        return
    with pytest.raises(UnreadableError, match=REFUSED):
        names_in(path)


def test_a_header_that_points_back_is_refused(tmp_path):
    entry = tarfile.TarInfo("a.log").tobuf(tarfile.GNU_FORMAT)
    # A size below zero, in the notation of GNU tar for numbers that are too large for octal digits.
    wrong = entry[:124] + b"\xff" * 10 + b"\xfc\x00" + entry[136:]
    checked = (
        wrong[:148] + b"%06o\0 " % (sum(wrong[:148]) + 8 * 32 + sum(wrong[156:])) + wrong[156:]
    )
    path = tmp_path / "b.tar.gz"
    path.write_bytes(gzip.compress(checked + b"\0" * 2048))
    with pytest.raises(UnreadableError, match="not a readable archive"):
        names_in(path)


@pytest.mark.parametrize("more", [0, 1])
def test_what_is_unpacked_is_bounded(tmp_path, monkeypatch, more):
    monkeypatch.setattr(bundle, "UNPACKED_FREELY", 1 << 17)
    path = tmp_path / "b.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("train.log", b" " * ((1 << 17) + more))
    if not more:
        assert names_in(path) == ["train.log"]
        return
    with pytest.raises(UnreadableError, match=REFUSED):
        names_in(path)
