"""`benchmark` with several values of an option: its plan, what --resume runs, and what is kept of
failures.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import timed_framework

from tprimat.cli import run
from tprimat.errors import ExitStatus
from tprimat.store import store

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX's")

WORDS = [
    "--model",
    "llama",
    "--steps",
    "60",
    "--global-batch-size",
    "4",
    "--micro-batch-size",
    "1,2",
    "--runs",
    "2",
]


@pytest.fixture(autouse=True)
def _framework(monkeypatch, tmp_path):
    timed_framework.install(monkeypatch, tmp_path)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measured")
    timed_framework.measured_once(folder, WORDS)
    (folder / "started").unlink()
    return folder


@pytest.fixture
def done(measured, tmp_path):
    """The plan of WORDS is measured."""
    shutil.copytree(measured, tmp_path, dirs_exist_ok=True)


def started() -> list[str]:
    """The labels of the runs that were started since the last call."""
    path = Path("started")
    lines = path.read_text().split() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


def runs(folder: str = "output"):
    return [run for path in sorted(Path(folder).glob("*.json")) for run in store.read(path)]


def states():
    return sorted((run.label, run.round, run.status) for run in runs())


DONE = [(label, number, "complete") for label in ("micro1", "micro2") for number in (1, 2)]


def test_gpus_and_micro_batches_are_one_interleaved_plan(capsys):
    assert run("benchmark", [*WORDS, "--gpus", "1,2"]) == 0
    assert started() == [
        "micro1",
        "micro2",
        "micro1",
        "micro2",
        "micro2",
        "micro1",
        "micro2",
        "micro1",
    ]
    assert sorted((run.num_gpus, run.label, run.round) for run in runs()) == [
        (gpus, label, number)
        for gpus in (1, 2)
        for label in ("micro1", "micro2")
        for number in (1, 2)
    ]
    assert len({run.session for run in runs()}) == 1
    assert "llama fp32 micro-batch 1 on 2 processes, run 1 of 2" in capsys.readouterr().out


def test_several_numbers_of_nodes_are_for_jobs(monkeypatch, capsys):
    # This machine would train by itself what is to run on one node, and so would the other one.
    monkeypatch.setenv("NODE_RANK", "1")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    assert run("benchmark", [*WORDS, "--nodes", "1,2", "--gpus", "2", "--dry-run"]) == 2
    assert "--nodes takes several values only with --executor slurm" in capsys.readouterr().err


def test_a_dry_run_shows_runs_and_time(capsys):
    assert run("benchmark", [*WORDS, "--time-limit", "6m", "--cooldown", "60", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "4 runs of 2 configurations, at most 27 min 00 s" in out
    assert "2. llama fp32 micro-batch 2: 2 runs" in out
    assert not started()


def test_resuming_runs_what_was_interrupted_and_nothing_else(capsys):
    Path("switch").write_text("cut 2 none 1")
    assert run("benchmark", WORDS) == ExitStatus.TRAINING_FAILED
    assert [state for _, _, state in states()] == [
        "complete",
        "complete",
        "incomplete",
        "incomplete",
    ]
    Path("switch").unlink()
    started()
    session = {run.session for run in runs()}
    assert run("benchmark", [*WORDS, "--resume"]) == 0
    assert started() == ["micro2", "micro2"]
    assert states() == DONE
    assert {run.session for run in runs()} == session
    shown = capsys.readouterr().out
    assert "2 of 4 runs already complete" in shown
    assert "2 partial runs in output/" in shown
    # The interrupted ones are kept.
    assert "incomplete" in {run.status for run in runs("output/history")}
    assert run("benchmark", [*WORDS, "--resume"]) == 0
    assert not started()
    out = capsys.readouterr().out
    assert "4 of 4 runs already complete" in out
    assert out.count("2/2") == 2


def test_what_failed_is_repeated_on_request_alone():
    Path("switch").write_text("broken 2 none 1")
    assert run("benchmark", WORDS) == ExitStatus.TRAINING_FAILED
    failed = [run for run in runs() if run.status == "failed"]
    assert [run.round for run in failed] == [1, 2]
    assert "exited with status 1" in failed[0].status_reason
    assert failed[0].training_config.micro_batch_size == 2
    Path("switch").unlink()
    started()
    assert run("benchmark", [*WORDS, "--resume"]) == ExitStatus.TRAINING_FAILED
    assert not started()
    assert run("benchmark", [*WORDS, "--retry-failed"]) == 0
    assert started() == ["micro2", "micro2"]
    assert states() == DONE


def test_what_was_killed_before_its_first_step_is_repeated():
    Path("switch").write_text("killed 2 none 1")
    assert run("benchmark", WORDS) == ExitStatus.TRAINING_FAILED
    assert [label for label, _, _ in states()] == ["micro1", "micro1"]
    Path("switch").unlink()
    started()
    assert run("benchmark", [*WORDS, "--resume"]) == 0
    assert started() == ["micro2", "micro2"]
    assert states() == DONE


def test_a_longer_list_takes_what_is_done_of_a_shorter_one(done):
    longer = [word if word != "1,2" else "1,2,4" for word in WORDS]
    assert run("benchmark", [*longer, "--resume"]) == 0
    assert started() == ["micro4", "micro4"]


def test_other_settings_are_not_done(done):
    assert run("benchmark", [*WORDS, "--seed", "7", "--resume"]) == 0
    assert len(started()) == 4


def test_without_resume_the_same_command_adds_runs(done):
    assert run("benchmark", WORDS) == 0
    assert len(runs()) == 8
    assert len({run.session for run in runs()}) == 2


def test_one_configuration_of_the_plan(capsys):
    assert run("benchmark", [*WORDS, "--only", "2", "--resume"]) == 0
    assert started() == ["micro2", "micro2"]
    assert run("benchmark", [*WORDS, "--only", "3"]) == ExitStatus.USAGE
    assert "--only 3: the plan has 2 configurations" in capsys.readouterr().err
    assert run("benchmark", [*WORDS, "--resume"]) == 0
    assert started() == ["micro1", "micro1"]


def test_a_broken_file_in_the_folder_is_in_nobodys_way(done):
    Path("output/benchmark_cpu_llama_micro2.json").write_text('{"schema_version": 1, "runs": [')
    assert run("benchmark", [*WORDS, "--resume"]) == 0
    assert started() == ["micro2", "micro2"]


@pytest.mark.parametrize(
    "words", [["--gpus", "1,0"], ["--gpus", "1,x"], ["--gpus", ","], ["--nodes", "1,,2"]]
)
def test_wrong_lists(words, capsys):
    assert run("benchmark", words) == ExitStatus.USAGE
    assert words[0] in capsys.readouterr().err


def test_c3_a_dry_run_names_the_files_that_the_run_writes(capsys):
    words = [*WORDS, "--gpus", "1,2", "--json"]
    assert run("benchmark", [*words, "--dry-run"]) == 0
    planned = [command["result"] for command in json.loads(capsys.readouterr().out)["commands"]]
    assert run("benchmark", words) == 0
    written = [result["path"] for result in json.loads(capsys.readouterr().out)["results"]]
    assert sorted(set(planned)) == sorted(set(written))
    assert len(set(planned)) == len(planned) == 4


def test_c3_with_results_of_other_settings_in_the_directory(done, capsys):
    words = [
        "--model",
        "llama",
        "--steps",
        "60",
        "--micro-batch-size",
        "1,2",
        "--seed",
        "7",
        "--dry-run",
    ]
    assert run("benchmark", words) == 0
    planned = [
        line.split()[1]
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("result: ")
    ]
    there = set(Path("output").glob("*.json"))
    assert run("benchmark", words[:-1]) == 0
    assert sorted(planned) == sorted(map(str, set(Path("output").glob("*.json")) - there))


def test_c3_with_results_of_the_same_settings_in_the_directory(done, capsys):
    assert run("benchmark", [*WORDS, "--dry-run"]) == 0
    planned = [
        line.split()[1]
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("result: ")
    ]
    assert sorted(planned) == sorted(map(str, Path("output").glob("*.json")))
