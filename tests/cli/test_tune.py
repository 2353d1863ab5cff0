"""`benchmark --tune` finds the fastest setting and keeps every trial; `--config` trains with what
it chose.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
import timed_framework

from tprimat.cli import run
from tprimat.errors import ExitStatus
from tprimat.measure import tune as search_of
from tprimat.store import store

pytest.importorskip("optuna")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX's")

WORDS = ["--model", "llama", "--steps", "60", "--global-batch-size", "2", "--attention", "sdpa"]
TUNED = Path("output/autotune/tuned_cpu_lightning_llama.json")


@pytest.fixture(autouse=True)
def _framework(monkeypatch, tmp_path):
    timed_framework.install(monkeypatch, tmp_path)


def tune(*words: str) -> int:
    return run("benchmark", ["--tune", "--runs", "2", *WORDS, *words])


@pytest.fixture(scope="module")
def search(tmp_path_factory):
    """A directory with a search, and what it printed."""
    folder = tmp_path_factory.mktemp("search")
    return folder, timed_framework.measured_once(folder, ["--tune", "--runs", "2", *WORDS])


@pytest.fixture
def tuned(search, tmp_path):
    """What the search printed; its files are here."""
    shutil.copytree(search[0], tmp_path, dirs_exist_ok=True)
    return search[1]


def document():
    return json.loads(TUNED.read_text())


def test_the_fastest_of_four_settings_is_chosen_and_every_trial_kept(tuned):
    # The untuned micro-batch is 2; 1 is slower, and so is recomputation.
    found = document()
    assert found["chosen"] == "micro2-recompute-none"
    assert found["default"] == "micro2-recompute-none"
    assert found["options"] == {
        "--framework": "lightning",
        "--model": "llama",
        "--scale": "tiny",
        "--precision": "fp32",
        "--global-batch-size": "2",
        "--sequence-length": "128",
        "--micro-batch-size": "2",
        "--recomputation": "none",
    }
    assert sorted(each["name"] for each in found["trials"]) == [
        f"micro{micro}-recompute-{kind}" for micro in (1, 2) for kind in ("full", "none")
    ]
    assert {"complete"} <= {each["status"] for each in found["trials"]} <= {"complete", "pruned"}
    for trial in found["trials"]:
        assert trial["step_time_seconds"] > 0
        # One that is pruned writes what it has, if it can within its grace.
        if trial["status"] == "complete":
            (result,) = store.read(TUNED.parent / trial["result"])
            assert len(result.steps) == trial["steps"] == 12
    assert (found["tuning"]["trials"], found["tuning"]["settings"]) == (4, 4)
    assert found["tuning"]["varied"] == ["micro_batch_size", "recomputation"]
    assert len(found["confirmed"]) == 3
    assert {each["runs"] for each in found["confirmed"]} == {2}
    assert "tuning llama with lightning: 4 settings, 30 min 00 s" in tuned
    assert f"Next:    tprimat benchmark --config {TUNED} --runs 3" in tuned


def test_another_setting_than_the_untuned_one_is_found_and_used(capsys):
    words = ["--global-batch-size", "4", "--recomputation", "none"]
    assert tune(*words) == 0
    assert document()["chosen"] == "micro4"
    assert document()["default"] == "micro2"
    capsys.readouterr()
    assert run("benchmark", ["--config", str(TUNED), "--output-dir", "tuned"]) == 0
    (result,) = store.read(Path("tuned/benchmark_cpu_llama.json"))
    assert (result.training_config.micro_batch_size, result.training_config.global_batch_size) == (
        4,
        4,
    )
    assert (result.tuning.trials, result.tuning.device_name) == (3, "a processor")
    assert (result.tuning.budget_seconds, result.tuning.varied) == (1800.0, ("micro_batch_size",))


def test_a_comparison_of_the_folder_has_no_trial(tuned):
    loaded, warnings = store.find([Path("output")])
    assert (loaded, warnings) == ([], [])


def test_out_of_memory_is_an_answer(capsys):
    Path("switch").write_text("memory 4")
    assert tune("--global-batch-size", "4", "--recomputation", "none") == 0
    assert document()["chosen"] == "micro2"
    trials = {each["name"]: each for each in document()["trials"]}
    assert trials["micro4"]["status"] == "out of memory"
    assert trials["micro4"]["step_time_seconds"] is None
    assert "out of memory" not in capsys.readouterr().err


def test_where_nothing_can_be_trained_the_trials_are_kept(capsys):
    Path("switch").write_text("memory 1 memory 2")
    assert tune() == ExitStatus.TRAINING_FAILED
    err = capsys.readouterr().err
    assert "error: llama: none of 4 candidates" in err
    assert not TUNED.exists()
    (trials,) = TUNED.parent.glob("*/trials.json")
    assert len(json.loads(trials.read_text())["trials"]) == 4


def test_the_second_search_keeps_the_first(tuned):
    first = TUNED.read_bytes()
    assert tune() == 0
    (kept,) = (TUNED.parent / "history").glob("*.json")
    assert kept.read_bytes() == first
    assert len(list(TUNED.parent.glob("*_trials*"))) == 2


def test_an_option_that_overrides_the_file_makes_it_untuned(tuned, capsys):
    assert run("benchmark", ["--config", str(TUNED), "--micro-batch-size", "1"]) == 0
    (result,) = store.read(Path("output/benchmark_cpu_llama.json"))
    assert result.tuning is None
    assert "overridden by --micro-batch-size, so this run counts as untuned" in " ".join(
        capsys.readouterr().out.split()
    )


def test_a_dry_run_shows_the_space(capsys):
    assert tune("--dry-run") == 0
    out = capsys.readouterr().out
    assert "llama: 4 candidates, 0 excluded" in out
    assert "micro_batch_size: 2, 1" in out
    assert not TUNED.parent.exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--tune", "--gpus", "1,2"], "--tune takes one value of --gpus"),
        (["--tune", "--resume"], "--tune cannot be combined"),
        (["--tune", "--nodes", "2"], "--tune searches on one node"),
        (["--tune", "--framework", "all"], "--tune tunes one framework"),
        (["--budget", "3m"], "--budget needs --tune"),
        (
            ["--tune", *WORDS, "--micro-batch-size", "2", "--recomputation", "none"],
            "nothing to search",
        ),
        (["--config", "absent.json"], "absent.json: no such file"),
        (["--config", "."], "can't be read"),
    ],
)
def test_what_can_not_be_done(words, problem, capsys):
    assert run("benchmark", words) == ExitStatus.USAGE
    assert problem in capsys.readouterr().err


def _config(rest: str) -> bytes:
    return (
        f'{{"tuned_config": 1, "chosen": "a", "default": "a", "platform": "cpu", {rest}}}'.encode()
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        b"[]",
        b'{"tuned_config": 1}',
        b'{"schema_version": 1}',
        _config('"tuning": {}, "options": {"--output-dir": "/"}'),
        _config('"tuning": {}, "options": {"--model": true}'),
        _config('"tuning": {}, "options": {"--model": "none"}'),
        _config('"tuning": {"trials": -1}, "options": {}'),
    ],
)
def test_another_file_is_refused(content, capsys):
    Path("tuned.json").write_bytes(content)
    assert run("benchmark", ["--config", "tuned.json"]) == ExitStatus.USAGE
    assert "error: " in capsys.readouterr().err


def test_without_optuna_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert tune() == ExitStatus.USAGE
    assert 'pip install "optuna>=4"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("budget", "tried", "needed"),
    [
        ("200s", 2, "14m"),
        ("199s", 1, "14m"),
        ("13m", 4, None),
    ],
)
def test_c4_a_search_that_the_budget_ends_says_what_was_not_tried_and_how_to_go_on(
    budget, tried, needed, monkeypatch, capsys
):
    """A trial takes 100 s by this clock, and half of the budget is for trials: all four need 800
    s.
    """
    monkeypatch.setattr(
        search_of.Tuner, "_elapsed_s", property(lambda self: 100.0 * len(self._tried))
    )
    assert tune("--budget", budget) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert document()["tuning"]["trials"] == tried
    assert ("not tried" in out) == (needed is not None)
    if needed:
        assert (
            f"{4 - tried} of 4 settings were not tried: trials may take half of the budget" in out
        )
        assert f"for all of them: --budget {needed}" in out


def test_c4_the_advised_budget_is_enough(monkeypatch, capsys):
    monkeypatch.setattr(
        search_of.Tuner, "_elapsed_s", property(lambda self: 100.0 * len(self._tried))
    )
    assert tune("--budget", "14m") == 0
    assert "not tried" not in capsys.readouterr().out


def test_c4_a_search_without_a_faster_setting_says_what_was_not_tried(monkeypatch, capsys):
    monkeypatch.setattr(search_of, "PATIENCE", 1)
    assert tune() == 0
    out = " ".join(capsys.readouterr().out.split())
    assert re.search(r"\d of 4 settings were not tried: 1 in a row were no faster", out)


@pytest.mark.parametrize(("left", "said"), [(700.0, True), (10_000.0, False)])
def test_c4_a_confirmation_that_the_budget_shortens_says_so(left, said, monkeypatch, capsys):
    monkeypatch.setattr(
        search_of.Tuner, "_elapsed_s", property(lambda self: 1800.0 - left if self._tried else 0.0)
    )
    monkeypatch.setattr(search_of.Tuner, "_full_run_s", lambda self, candidate: 200.0)
    monkeypatch.setattr(search_of, "SEARCH_SHARE", 1.0)
    assert tune() == 0
    out = " ".join(capsys.readouterr().out.split())
    assert ("the budget leaves time for" in out) == said
