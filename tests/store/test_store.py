"""Result files: names, joining, history, several writers."""

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
from stored_runs import a_run, notes_of, written

from tprimat import files
from tprimat.errors import UsageError
from tprimat.redaction import relative_words
from tprimat.results.run import (
    Data,
    Environment,
    GpuInfo,
    Optimizer,
    Run,
    Source,
    SourceFile,
    TrainingConfig,
)
from tprimat.store import store
from tprimat.store.naming import file_name

# Names


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "benchmark_cuda_llama.json"),
        ({"platform": "amd", "framework": "primus", "model": "qwen"}, "benchmark_rocm_qwen.json"),
        ({"platform": "cpu", "framework": "lightning"}, "benchmark_cpu_llama.json"),
        ({"framework": "lightning"}, "benchmark_cuda_llama.json"),
        ({"platform": "amd", "framework": "lightning"}, "benchmark_rocm_llama.json"),
        ({"framework": "transformers"}, "train_transformers_llama.json"),
        ({"platform": "amd", "framework": "transformers"}, "train_transformers_llama_amd.json"),
        ({"platform": "amd", "label": "night"}, "benchmark_cuda_llama_amd_night.json"),
        ({"framework": "primus"}, "benchmark_rocm_llama_nvd.json"),
        ({"framework": "megatron", "model": "llama3.1_8B"}, "train_megatron_llama3.1-8B.json"),
        ({"label": "night run 2"}, "benchmark_cuda_llama_night-run-2.json"),
        ({"framework": None, "model": None}, "train_unknown_model.json"),
    ],
)
def test_a_result_has_the_name_that_users_know(changes, name):
    assert file_name(a_run(**changes)) == name


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
    # A model may be named by the place where it lies.
    kept = relative_words([hostile])[0] if field == "model" else hostile
    assert store.read(saved.path) == (a_run(**{field: kept}),)


def test_the_longest_names_can_be_moved_to_history_or_made_longer(tmp_path):
    names = {"framework": "f" * 999, "model": "m" * 999, "label": "l" * 999}
    path = store.save(a_run(**names), tmp_path).path
    others = [
        store.save(a_run(**names, scale=scale, data=Data(seed=1)), tmp_path).path
        for scale in ("tiny", "full")
    ]
    assert all(len(each.name) <= 200 for each in others)
    moved = store.save_as(a_run(**names, scale="tiny"), path).moved
    assert moved is not None
    assert moved.exists()


# Joining


def test_runs_of_one_setup_share_a_file(tmp_path):
    runs = [
        a_run(time, timestamp=f"2026-11-21T10:0{number}:00+00:00")
        for number, time in enumerate([3.0, 1.0, 2.0])
    ]
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
    assert [run["performance_metrics"]["avg_step_time_seconds"] for run in top["runs"]] == [
        3.0,
        1.0,
        2.0,
    ]


def test_of_an_even_number_the_lower_middle_run_stands_at_the_top_level(tmp_path):
    for time in (4.0, 1.0, 2.0, 3.0):
        path = store.save(a_run(time), tmp_path).path
    assert json.loads(path.read_bytes())["step_times"] == [2.0, 2.0, 2.0]


def test_i2_runs_of_other_planned_steps_and_seeds_share_a_file_and_keep_them(tmp_path):
    config = a_run().training_config
    runs = [
        a_run(
            1.0 + place / 10,
            training_config=msgspec.structs.replace(config, max_steps=steps, seed=seed),
        )
        for place, (steps, seed) in enumerate([(60, 1), (60, None), (None, 0), (100, 3)])
    ]
    for number, run in enumerate(runs, 1):
        saved = store.save(run, tmp_path)
        assert (saved.runs, saved.moved) == (number, None)
    assert store.read(saved.path) == tuple(runs)


def test_i2_runs_of_the_same_planned_steps_and_files_of_before_have_them_once(tmp_path):
    config = msgspec.structs.replace(a_run().training_config, max_steps=60, seed=1)
    for time in (1.0, 1.1):
        path = store.save(a_run(time, training_config=config), tmp_path).path
    content = json.loads(path.read_bytes())
    assert all("max_steps" not in run for run in content["runs"])
    for version in (1, 2):
        path.write_text(json.dumps({**content, "schema_version": version}), encoding="utf-8")
        assert [run.training_config for run in store.read(path)] == [config, config]


def live(*words, **changes):
    return a_run(source=Source(kind="live", command=("python3", "train.py", *words)), **changes)


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [
        (
            live(framework_config={"torch_compile": True}),
            live(framework_config={"torch_compile": False}),
            "eager",
        ),
        (
            live(framework_config={"torch_compile": False}),
            live(framework_config={"torch_compile": True}),
            "compiled",
        ),
        (live(), live("--fused"), "fused"),
        (live("--bs=8"), live("--bs=16"), "bs16"),
        # Repetitions.
        (live("--seed=1", "-o", "x"), live("--seed=2", "-o", "y"), None),
        (live("--fused", label="mine"), live(label="mine"), None),
        (live("--fused", session="s"), live(session="s"), None),
    ],
)
def test_i1_variants_of_a_script_share_no_file_without_a_label(first, second, name, tmp_path):
    usual = store.save(first, tmp_path).path
    saved = store.save(msgspec.structs.replace(second, step_times=(1.1, 1.2, 1.3)), tmp_path)
    assert saved.path.stem == (usual.stem if name is None else f"{usual.stem}_{name}")
    assert saved.moved is None
    assert len(store.read(usual)) == (2 if name is None else 1)


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
    assert top["steady"] == {
        "first_step": 1,
        "last_step": 30,
        "method": "least_variance",
        "found": True,
    }
    short = json.loads(store.save(a_run(label="short"), tmp_path).path.read_bytes())
    assert any("no steady state" in warning for warning in short["warnings"])
    assert short["runs"][0]["warnings"] == ["a doubt"]


@pytest.mark.parametrize(
    ("changes", "suffix"),
    [
        ({"training_config": TrainingConfig(global_batch_size=128)}, "128batch"),
        ({"framework": "lightning"}, "lightning"),
        ({"gpu_info": GpuInfo(device_name="NVIDIA H200", software_stack="cuda")}, "H200"),
        ({"scale": "tiny"}, "tiny"),
        ({"data": Data(seed=3)}, "seed3"),
        ({"environment": Environment(versions={"torch": "2.14.0"})}, "torch2.14.0"),
        ({"optimizer": Optimizer(name="sgd")}, None),
    ],
)
def test_another_setup_gets_a_name_of_its_own_and_moves_nothing(tmp_path, changes, suffix):
    first, second = a_run(1.0), a_run(2.0, **changes)
    usual = store.save(first, tmp_path).path
    content = usual.read_bytes()
    saved = store.save(second, tmp_path)
    assert (saved.runs, saved.moved) == (1, None)
    if suffix:
        assert saved.path.name == f"benchmark_cuda_llama_{suffix}.json"
    assert usual.read_bytes() == content
    assert store.read(saved.path) == (second,)
    # A further run of it joins its file, and is found there.
    third = msgspec.structs.replace(second, step_times=(3.0, 3.0, 3.0))
    assert store.save(third, tmp_path)[::2] == (saved.path, 2)
    assert store.locate(usual, store.fingerprint(third)) == (third, saved.path)
    assert sorted(tmp_path.glob("*.json")) == [usual, saved.path]


def test_many_setups_of_one_name_lose_nothing(tmp_path):
    runs = [
        a_run(data=Data(seed=seed), scale=scale) for seed in range(4) for scale in (None, "tiny")
    ]
    for run in (*runs, *runs):
        assert store.save(run, tmp_path).moved is None
    held = [store.read(file) for file in tmp_path.rglob("*.json")]
    assert sorted(len(each) for each in held) == [2] * 8
    assert all(any(run in each for each in held) for run in runs)


def test_under_a_name_from_the_user_the_older_file_moves_to_history(tmp_path):
    first = a_run(1.0)
    second = a_run(2.0, training_config=TrainingConfig(global_batch_size=128))
    store.save_as(first, tmp_path / "mine.json")
    saved = store.save_as(second, tmp_path / "mine.json")
    assert saved.runs == 1
    assert saved.moved is not None
    assert saved.moved.parent == tmp_path / "history"
    assert store.read(saved.moved) == (first,)
    assert store.read(saved.path) == (second,)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1, 2]", b'{"schema_version": 99}', b"\xff\xfe\x00", b"{}"]
)
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
    again = store.save(a_run(1.0, source=log, notes=notes_of("said better")), tmp_path)
    assert again.runs == 1
    assert store.read(again.path)[0].warnings == ("said better",)
    assert store.save(a_run(1.0, source=other), tmp_path).runs == 2
    assert store.save(a_run(1.0, count=4, source=other), tmp_path).runs == 3


def test_a_log_that_has_grown_replaces_what_was_read_of_it(tmp_path):
    def read_of(count: int, sha256: str) -> Run:
        source = Source(kind="log", files=(SourceFile(path="a.log", sha256=sha256),))
        return a_run(
            count=count, source=source, step_times=tuple(1 + step / 10 for step in range(count))
        )

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
    with pytest.raises(ValueError, match="different configurations"):
        store.as_file((a_run(), a_run(label="other")))


# Writing


def test_a_result_can_be_read_by_others(tmp_path):
    path = store.save(a_run(), tmp_path).path
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_nothing_unfinished_is_left_behind(tmp_path):
    store.save(a_run(), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} <= {
        "benchmark_cuda_llama.json",
        files.LOCK_NAME,
    }


def test_a_write_that_fails_leaves_the_older_file_whole(tmp_path, monkeypatch):
    path = store.save(a_run(1.0), tmp_path).path
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UsageError) as caught:
        store.save(a_run(2.0), tmp_path)
    assert "No space left on device" in caught.value.line()
    assert path.read_bytes() == before
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.parametrize("below", [False, True])
def test_a_folder_that_cannot_be_written_is_a_usage_error(tmp_path, below):
    in_the_way = written(tmp_path / "output", "a file")
    folder = in_the_way / "deeper" if below else in_the_way
    with pytest.raises(UsageError) as caught:
        store.save(a_run(), folder)
    line = caught.value.line()
    assert line.startswith(f"error: {folder}: the result cannot be written")
    assert "choose another --output-dir" in line


def test_a_folder_that_is_missing_is_made(tmp_path):
    assert store.save(a_run(), tmp_path / "a" / "b").path.exists()


def test_waiting_for_another_writer_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LOCK_SECONDS", 0.1)
    with (
        filelock.FileLock(str(tmp_path / files.LOCK_NAME)),
        pytest.raises(UsageError, match="another program"),
    ):
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
