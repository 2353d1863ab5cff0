"""Result files: names, joining, history, several writers, broken and hostile files."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
from pathlib import Path

import filelock
import msgspec
import pytest
from made_runs import H100, failed_run, make_run

from tprimat import atomic_files, store
from tprimat.errors import UnreadableError, UsageError
from tprimat.run import (
    Data,
    Environment,
    GpuInfo,
    ModelConfig,
    Optimizer,
    ParallelismConfig,
    Run,
    Source,
    SourceFile,
    Timing,
    TrainingConfig,
)


def a_run(step_time: float = 1.0, count: int = 3, **changes) -> Run:
    """A small run of one setup, with something in every part of the file."""
    fields = {
        "platform": "nvd",
        "framework": "nemo",
        "model": "llama",
        "timestamp": "2026-11-21T10:00:00+00:00",
        "warnings": ("a doubt",),
        "source": Source(kind="live", command=("python3", "train.py")),
        "environment": Environment(versions={"torch": "2.13.0"}, settings={"NCCL_DEBUG": "INFO"}),
        "gpu_info": GpuInfo(device_name="NVIDIA H100 80GB HBM3", device_count=8, total_memory_gb=85.02),
        "model_config": ModelConfig(num_layers=32, tie_word_embeddings=False),
        "training_config": TrainingConfig(global_batch_size=64, sequence_length=2048, num_gpus=8, precision="bf16"),
        "parallelism_config": ParallelismConfig(tensor_model_parallel_size=1),
        "optimizer": Optimizer(name="AdamW", learning_rate=1e-3),
        "data": Data(kind="mock", seed=1),
        "timing": Timing(clock="device_event"),
        "native_metrics": {"rate": 40000.0, "each": (1.0,) * count},
        "energy_metrics": {"joules": 12.5},
        "breakdown": {"forward": 0.3},
        "profile": {"trace": "trace.json"},
        "epochs": ({"loss": 1.0},),
        "steps": tuple(range(1, count + 1)),
        "window_steps": (1,) * count,
        "step_times": (step_time,) * count,
        "loss_values": (2.0,) * count,
        "learning_rates": (1e-3,) * count,
        "grad_norms": (None,) * count,
        "lines": (None,) * count,
    }
    return Run(**{**fields, **changes})


def written(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refusal(path: Path) -> str:
    """The one line that reading this file ends with."""
    with pytest.raises(UnreadableError) as caught:
        store.read(path)
    line = caught.value.line()
    assert "\n" not in line
    assert line.startswith(f"error: {path}")
    return line


# Names


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "benchmark_cuda_llama.json"),
        ({"platform": "amd", "framework": "primus", "model": "qwen"}, "benchmark_rocm_qwen.json"),
        ({"platform": "cpu", "framework": "lightning"}, "benchmark_cpu_llama.json"),
        ({"framework": "lightning"}, "train_lightning_llama.json"),
        ({"framework": "megatron", "model": "llama3.1_8B"}, "train_megatron_llama3.1-8B.json"),
        ({"label": "night run 2"}, "benchmark_cuda_llama_night-run-2.json"),
        ({"framework": None, "model": None}, "train_unknown_model.json"),
    ],
)
def test_a_result_has_the_name_that_users_know(changes, name):
    assert store.file_name(a_run(**changes)) == name


HOSTILE_NAMES = [
    "../../etc/passwd",
    "/etc/passwd",
    "..",
    ".",
    "",
    "C:\\Windows\\x",
    "a\x00b",
    "\x1b[2J\x1b]0;title\x07",
    "<script>alert(1)</script>",
    "a\nb",
    "$(reboot)",
    "日本語",
    "x" * 10_000,
    "." * 500,
    "-rf",
]


@pytest.mark.parametrize("hostile", HOSTILE_NAMES)
@pytest.mark.parametrize("field", ["framework", "model", "label"])
def test_a_hostile_name_stays_within_its_folder(hostile, field, tmp_path):
    folder = tmp_path / "output"
    saved = store.save(a_run(**{field: hostile}), folder)
    assert saved.path.parent == folder
    assert saved.path.name.isascii()
    assert saved.path.name.isprintable()
    assert not set('/\\<>:"|?*$() ') & set(saved.path.name)
    assert [path for path in tmp_path.iterdir() if path != folder] == []
    assert store.read(saved.path) == (a_run(**{field: hostile}),)


def test_the_longest_names_can_be_moved_to_history(tmp_path):
    names = {"framework": "f" * 999, "model": "m" * 999, "label": "l" * 999}
    store.save(a_run(**names), tmp_path)
    moved = store.save(a_run(**names, scale="tiny"), tmp_path).moved
    assert moved is not None
    assert moved.exists()


# Joining


def test_runs_of_one_setup_share_a_file(tmp_path):
    runs = [a_run(time, timestamp=f"2026-11-21T10:0{number}:00+00:00") for number, time in enumerate([3.0, 1.0, 2.0])]
    for number, run in enumerate(runs, 1):
        saved = store.save(run, tmp_path)
        assert (saved.runs, saved.moved) == (number, None)
    assert store.read(saved.path) == tuple(runs)
    assert {path.name for path in tmp_path.glob("*.json")} == {"benchmark_cuda_llama.json"}


def test_at_the_top_level_stands_the_run_of_the_median_step_time(tmp_path):
    for time in (3.0, 1.0, 2.0):
        path = store.save(a_run(time), tmp_path).path
    top = json.loads(path.read_bytes())
    assert top["step_times"] == [2.0, 2.0, 2.0]
    assert top["performance_metrics"]["avg_step_time_seconds"] == 2.0
    assert [run["performance_metrics"]["avg_step_time_seconds"] for run in top["runs"]] == [3.0, 1.0, 2.0]


def test_of_an_even_number_the_lower_middle_run_stands_at_the_top_level(tmp_path):
    for time in (4.0, 1.0, 2.0, 3.0):
        path = store.save(a_run(time), tmp_path).path
    assert json.loads(path.read_bytes())["step_times"] == [2.0, 2.0, 2.0]


def test_a_run_without_steps_joins_and_is_not_the_median(tmp_path):
    store.save(a_run(count=0, status="failed", status_reason="out of memory"), tmp_path)
    store.save(a_run(2.0), tmp_path)
    path = store.save(a_run(3.0), tmp_path).path
    assert json.loads(path.read_bytes())["step_times"] == [2.0, 2.0, 2.0]
    assert [run.status for run in store.read(path)] == ["failed", "complete", "complete"]


def test_figures_and_their_doubts_are_stored_rounded(tmp_path):
    path = store.save(a_run(0.123456789, count=30), tmp_path).path
    top = json.loads(path.read_bytes())
    assert top["performance_metrics"]["avg_step_time_seconds"] == 0.1235
    assert top["step_times"][0] == 0.123456789
    assert top["steady"] == {"first_step": 1, "last_step": 30, "method": "tail_reference", "found": True}
    short = json.loads(store.save(a_run(label="short"), tmp_path).path.read_bytes())
    assert any("no steady state" in warning for warning in short["warnings"])
    assert short["runs"][0]["warnings"] == ["a doubt"]


def test_another_setup_moves_the_older_file_to_history(tmp_path):
    first = a_run(1.0)
    second = a_run(2.0, training_config=TrainingConfig(global_batch_size=128))
    store.save(first, tmp_path)
    saved = store.save(second, tmp_path)
    assert saved.runs == 1
    assert saved.moved is not None
    assert saved.moved.parent == tmp_path / "history"
    assert store.read(saved.moved) == (first,)
    assert store.read(saved.path) == (second,)


def test_three_setups_in_the_same_second_lose_nothing(tmp_path):
    runs = [a_run(data=Data(seed=seed)) for seed in range(4)]
    paths = [store.save(run, tmp_path) for run in runs]
    for saved in paths[1:]:
        os.utime(saved.moved, (1.8e9, 1.8e9))
    path = tmp_path / "benchmark_cuda_llama.json"
    for run in runs:
        os.utime(path, (1.8e9, 1.8e9))
        store.save(msgspec.structs.replace(run, label=None, scale="tiny"), tmp_path)
    held = [run for file in tmp_path.rglob("*.json") for run in store.read(file)]
    assert len(held) == 8
    assert all(run in held for run in runs)


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b'{"schema_version": 99}', b"\xff\xfe\x00", b"{}"])
def test_a_broken_or_foreign_file_in_the_way_is_moved_and_not_overwritten(tmp_path, content):
    path = written(tmp_path / "benchmark_cuda_llama.json", content)
    saved = store.save(a_run(), tmp_path)
    assert saved.path == path
    assert saved.moved is not None
    assert saved.moved.read_bytes() == content
    assert store.read(path) == (a_run(),)


def test_a_log_that_is_read_again_is_no_second_run(tmp_path):
    log = Source(kind="log", files=(SourceFile(path="a.log", sha256="0" * 64),))
    other = Source(kind="log", files=(SourceFile(path="b.log", sha256="1" * 64),))
    store.save(a_run(1.0, source=log), tmp_path)
    again = store.save(a_run(1.0, source=log, warnings=("said better",)), tmp_path)
    assert again.runs == 1
    assert store.read(again.path)[0].warnings == ("said better",)
    assert store.save(a_run(1.0, source=other), tmp_path).runs == 2
    assert store.save(a_run(1.0, count=4, source=other), tmp_path).runs == 3


def test_a_log_that_has_grown_replaces_what_was_read_of_it(tmp_path):
    def read_of(count: int, sha256: str) -> Run:
        source = Source(kind="log", files=(SourceFile(path="a.log", sha256=sha256),))
        return a_run(count=count, source=source, step_times=tuple(1 + step / 10 for step in range(count)))

    store.save(read_of(4, "0" * 64), tmp_path)
    saved = store.save(read_of(6, "1" * 64), tmp_path)
    assert (saved.runs, saved.known) == (1, True)
    assert store.save(read_of(5, "2" * 64), tmp_path).runs == 1
    assert [len(run.steps) for run in store.read(saved.path)] == [6]


def test_two_runs_of_one_seed_whose_times_are_coarse_stay_two(tmp_path):
    for sha256 in ("0" * 64, "1" * 64):
        source = Source(kind="log", files=(SourceFile(path="a.log", sha256=sha256),))
        saved = store.save(a_run(1.0, source=source), tmp_path)
    assert (saved.runs, saved.known) == (2, False)


def test_runs_of_different_setups_cannot_share_a_file():
    with pytest.raises(ValueError, match="different setups"):
        store.as_file((a_run(), a_run(label="other")))


# Writing


def test_a_result_can_be_read_by_others(tmp_path):
    path = store.save(a_run(), tmp_path).path
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_nothing_unfinished_is_left_behind(tmp_path):
    store.save(a_run(), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} <= {"benchmark_cuda_llama.json", atomic_files.LOCK_NAME}


def test_a_write_that_fails_leaves_the_older_file_whole(tmp_path, monkeypatch):
    path = store.save(a_run(1.0), tmp_path).path
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UsageError) as caught:
        store.save(a_run(2.0), tmp_path)
    assert "No space left on device: choose another --output-dir" in caught.value.line()
    assert path.read_bytes() == before
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.parametrize("below", [False, True])
def test_a_folder_that_cannot_be_written_is_one_line(tmp_path, below):
    in_the_way = written(tmp_path / "output", "a file")
    folder = in_the_way / "deeper" if below else in_the_way
    with pytest.raises(UsageError) as caught:
        store.save(a_run(), folder)
    line = caught.value.line()
    assert line.startswith(f"error: {folder}: the result can't be written")
    assert "choose another --output-dir" in line
    assert "\n" not in line


def test_a_folder_that_is_missing_is_made(tmp_path):
    assert store.save(a_run(), tmp_path / "a" / "b").path.exists()


def test_waiting_for_another_writer_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_files, "LOCK_SECONDS", 0.1)
    with filelock.FileLock(str(tmp_path / atomic_files.LOCK_NAME)), pytest.raises(UsageError, match="another program"):
        store.save(a_run(), tmp_path)


def _save_three(folder: Path, number: int) -> None:
    for each in range(3):
        store.save(a_run(1.0 + number + each / 10), folder)


def test_several_programs_at_once_lose_no_run(tmp_path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_save_three, args=(tmp_path, number)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(1800)
    assert [writer.exitcode for writer in writers] == [0] * 8
    (path,) = tmp_path.glob("*.json")
    runs = store.read(path)
    expected = sorted(1.0 + number + each / 10 for number in range(8) for each in range(3))
    assert sorted(run.step_times[0] for run in runs) == expected


# Reading


@pytest.fixture(scope="module")
def content() -> bytes:
    return store.encode(store.as_file((a_run(1.0), a_run(2.0))))


def test_a_file_cut_at_any_byte_is_one_line(tmp_path):
    series = {"steps": [1, 2], "window_steps": [1, 1], "step_times": [1.25, None], "loss_values": [2.5, 2.25]}
    series |= {name: [None, None] for name in ("learning_rates", "grad_norms", "lines")}
    whole = json.dumps({"schema_version": 1, "model": "llama – é", "gpu_info": {"device_count": 8}, **series}).encode()
    path = tmp_path / "cut.json"
    for length in range(len(whole)):
        assert "not whole JSON" in refusal(written(path, whole[:length]))
    assert store.read(written(path, whole))[0].step_times == (1.25, None)


def _leaves(value, path=()):
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list) and value:
        yield from _leaves(value[0], (*path, 0))


def _replaced(value, path, new):
    if not path:
        return new
    if isinstance(value, dict):
        return {**value, path[0]: _replaced(value[path[0]], path[1:], new)}
    return [_replaced(value[0], path[1:], new), *value[1:]]


@pytest.mark.parametrize(
    "wrong",
    [
        *("{}", "[]", "[[]]", '{"a": {"b": []}}', '"text"', '""', '"\\u001b[31m"', "true", "null", "[null]"),
        *("-1", "0", "1.5", "1e300", "9" * 400, "9" * 6000),
    ],
    ids=lambda wrong: wrong if len(wrong) < 20 else f"{len(wrong)}digits",
)
def test_a_field_of_another_type_is_one_line_that_names_it(tmp_path, content, wrong):
    file = json.loads(content)
    path = tmp_path / "mistyped.json"
    refused = 0
    for place in _leaves(file):
        # Python doesn't print numbers of thousands of digits, so they are put in as text.
        path.write_text(json.dumps(_replaced(file, place, "@wrong@")).replace('"@wrong@"', wrong))
        try:
            runs = store.read(path)
        except UnreadableError as error:
            refused += 1
            line = error.line()
            assert "\n" not in line
            assert len(line) < 1000
            names = [part for part in place if isinstance(part, str)]
            assert not names or names[0] in line or names[-1] in line
        else:
            # What is let through can be summed up and written again.
            assert store.decode(store.encode(store.as_file(runs[:1]))) == runs[:1]
    assert refused


@pytest.mark.parametrize("version", [2, 99, 2**53])
def test_a_newer_version_is_refused_with_what_to_do(tmp_path, content, version):
    newer = content.replace(b'"schema_version": 1', f'"schema_version": {version}'.encode())
    line = refusal(written(tmp_path / "newer.json", newer))
    assert f"schema version {version}, this one knows 1" in line
    assert "update" in line


@pytest.mark.parametrize("version", ["0", "-1", '"1"', "1.5", "true", "9" * 5000])
def test_a_version_that_is_none_is_refused(tmp_path, content, version):
    changed = content.replace(b'"schema_version": 1', b'"schema_version": ' + version.encode())
    assert "schema_version" in refusal(written(tmp_path / "odd.json", changed))


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"3",
        b'"text"',
        b"not json at all",
        b"\x00" * 100,
        b"\xff\xfe\xfd",
        b"\x1f\x8b\x08\x00compressed",
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"schema_version": 1, "schema_version": 2}',
        b'{"schema_version": 1, "step_times": [NaN]}',
        b'{"step_times": [1.0, NaN], }',
        b"NaN",
    ],
    ids=lambda junk: repr(junk[:24]),
)
def test_junk_is_one_line(tmp_path, junk):
    assert len(refusal(written(tmp_path / "junk.json", junk))) < 400


def test_the_line_of_a_syntax_error_is_named(tmp_path, content):
    lines = content.split(b"\n")
    lines[4] += b" oops"
    path = written(tmp_path / "oops.json", b"\n".join(lines))
    # The reader notices at the byte after the value, which is on the same line.
    assert f"{path}:5: not whole JSON" in refusal(path)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_file_that_went_through_windows_is_read(tmp_path, content, encoding):
    path = tmp_path / "windows.json"
    path.write_text(content.decode(), encoding=encoding)
    assert store.read(path) == (a_run(1.0), a_run(2.0))


def test_a_file_of_absurd_size_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "LARGEST_FILE", 10)
    assert "too large for a result file" in refusal(written(tmp_path / "big.json", b"{" + b" " * 10 + b"}"))


def test_a_hostile_file_name_reaches_no_terminal(tmp_path):
    path = written(tmp_path / "a\x1b[2Jb.json", b"{")
    with pytest.raises(UnreadableError) as caught:
        store.read(path)
    assert "\x1b" not in caught.value.line()


# Finding


def test_folders_are_read_with_all_below_them_but_not_history(tmp_path):
    places = ["a", "machine/b", "machine/history/old", "history/old", ".hidden/c", "d"]
    for place in places:
        folder = tmp_path / Path(place)
        folder.mkdir(parents=True, exist_ok=True)
        store.save(a_run(label=place), folder)
    loaded, warnings = store.find([tmp_path])
    assert [file.path.parent.relative_to(tmp_path).as_posix() for file in loaded] == ["a", "d", "machine/b"]
    assert warnings == []


def test_a_folder_named_history_itself_is_read(tmp_path):
    folder = tmp_path / "history"
    store.save(a_run(), folder)
    assert len(store.find([folder])[0]) == 1


def test_junk_in_a_folder_is_a_warning_each(tmp_path):
    good = store.save(a_run(), tmp_path).path
    for name in ("package.json", "zz.json"):
        written(tmp_path / name, b'{"name": "x"}')
    written(tmp_path / "notes.txt", b"no result")
    (tmp_path / "broken_link.json").symlink_to(tmp_path / "nowhere.json")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    loaded, warnings = store.find([tmp_path])
    assert [file.path for file in loaded] == [good]
    assert len(warnings) == 3
    assert all(warning.startswith("passed over: ") and str(tmp_path) in warning for warning in warnings)


def test_a_broken_file_that_was_named_is_an_error(tmp_path):
    good = store.save(a_run(), tmp_path).path
    broken = written(tmp_path / "broken.json", b"{}")
    with pytest.raises(UnreadableError, match="not a result"):
        store.find([good, broken])


@pytest.mark.parametrize("name", ["nowhere", "a\x00b", "x" * 5000, "file/below"])
def test_what_is_not_there_is_an_error(tmp_path, name):
    written(tmp_path / "file", b"")
    with pytest.raises(UnreadableError, match="can't be read") as caught:
        store.find([tmp_path / name])
    assert caught.value.heading == "unreadable-file"


def test_a_file_that_is_named_twice_counts_once(tmp_path):
    path = store.save(a_run(), tmp_path).path
    link = tmp_path / "link.json"
    link.symlink_to(path)
    loaded, _ = store.find([path, tmp_path / "." / path.name, tmp_path, link])
    assert [file.path for file in loaded] == [path]


def test_files_stand_in_the_order_of_the_arguments(tmp_path):
    paths = [store.save(a_run(label=label), tmp_path).path for label in ("a", "b", "c")]
    loaded, _ = store.find(paths[::-1])
    assert [file.path for file in loaded] == paths[::-1]


def test_a_training_that_never_stepped_pushes_no_result_of_another_setup_aside(tmp_path):
    good = store.save(make_run(), tmp_path)
    before = good.path.read_bytes()
    broken = failed_run(H100, stack="cuda", precision=None)
    kept = store.save(broken, tmp_path)
    assert good.path.read_bytes() == before
    assert kept.path == tmp_path / f"{good.path.stem}_failed.json"
    assert (kept.moved, kept.runs) == (None, 1)
    assert [run.status for run in store.read(kept.path)] == ["failed"]
    assert store.save(make_run(), tmp_path).moved is None
