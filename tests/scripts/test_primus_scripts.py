"""The shell scripts, run as a user runs them: with a stand-in for Primus, in directories with
spaces in their names.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import primus_tree
import pytest

from tprimat.results.run import ParallelismConfig, Run, TrainingConfig
from tprimat.store import store

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPTS = sorted([*REPOSITORY.glob("*.sh"), *(REPOSITORY / "scripts").glob("*.sh")])
# The scripts of Primus' road; all of them source what they share.
STARTED = [path for path in SCRIPTS if 'lib.sh"\n' in path.read_text()]

pytestmark = pytest.mark.skipif(
    os.name == "nt" or shutil.which("bash") is None, reason="the scripts are for machines with bash"
)

HANGS = 900
"""s after which a script is taken to hang, on however busy a machine."""

NEWER_THAN_BASH_4_4 = {
    r"\$\{\w+@[ULuKk]\}": "5.0 or later",
    r"\bEPOCH(SECONDS|REALTIME)\b": "5.0",
    r"\bwait -[a-z]*p": "5.1",
    r"\bSRANDOM\b": "5.1",
    r"\$\{[|] ?": "5.3",
    r"\$\{ [a-z]": "5.3",
}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
class TestEveryScript:
    def test_shellcheck_has_no_objection(self, script):
        if shutil.which("shellcheck") is None:
            pytest.skip("shellcheck is not installed")
        done = subprocess.run(
            ["shellcheck", "-x", str(script)], cwd=REPOSITORY, capture_output=True, text=True
        )
        assert done.stdout == ""
        assert done.returncode == 0

    def test_bash_4_4_knows_all_of_it(self, script):
        text = script.read_text()
        assert {
            since for pattern, since in NEWER_THAN_BASH_4_4.items() if re.search(pattern, text)
        } == set()

    def test_stops_at_the_first_failing_step(self, script):
        assert script.name == "lib.sh" or "\nset -euo pipefail\n" in script.read_text()


@pytest.mark.parametrize("script", STARTED, ids=lambda path: path.name)
class TestStarted:
    def test_can_be_started_by_its_name(self, script):
        assert script.stat().st_mode & 0o100
        assert script.read_text().startswith("#!/usr/bin/env bash\n")

    def test_help_from_another_folder_and_through_a_link(self, script, tmp_path):
        folder = tmp_path / "my scripts"
        folder.mkdir()
        link = folder / "a link"
        link.symlink_to(script)
        done = start(
            link, "--help", folder=folder, environment={**os.environ, "PYTHON": sys.executable}
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("usage: ")
        assert [path.name for path in folder.iterdir()] == ["a link"]

    def test_a_wrong_option_is_wrong_usage(self, script, tmp_path):
        environment = {
            **os.environ,
            "PYTHON": sys.executable,
            "PRIMUS_PATH": str(tmp_path / "none"),
        }
        done = start(script, "--no-such-option", folder=tmp_path, environment=environment)
        assert done.returncode == 2
        assert done.stderr.startswith("error: ")
        assert len(done.stderr.splitlines()) <= 3

    def test_a_python_that_is_none_is_said(self, script, tmp_path):
        # The help of the comparison's script needs no Python.
        words = () if script.name == "run_amd_dual_comparison.sh" else ("--help",)
        done = start(
            script, *words, folder=tmp_path, environment={**os.environ, "PYTHON": "/nowhere/python"}
        )
        assert done.returncode == 2
        assert "/nowhere/python is no Python 3.10 or newer" in done.stderr


def start(
    script: Path, *arguments: str, folder: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(script), *arguments], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=HANGS,
    )  # fmt: skip


@pytest.fixture
def place(tmp_path):
    """A stand-in for Primus, and a working directory: place.run(script, STANDIN_BEHAVIOUR=...)."""
    pytest.importorskip("yaml", reason="PyYAML isn't installed; Primus brings it")
    return Place(tmp_path)


class Place:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tree = primus_tree.make(folder / "my Primus")
        self.work = folder / "my work"
        self.work.mkdir()

    def environment(self, **more: str) -> dict[str, str]:
        return primus_tree.environment(self.folder, self.tree, **more)

    def run(self, script: str, *arguments: str, **more: str) -> subprocess.CompletedProcess:
        return start(
            REPOSITORY / script, *arguments, folder=self.work, environment=self.environment(**more)
        )

    def result(self, name: str) -> Run:
        return store.read(self.work / "output" / name)[-1]

    def seen(self) -> list[dict]:
        path = self.folder / "seen.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def without_torch(place, tmp_path, monkeypatch):
    """What is started here finds no torch, which takes longer to import than all that it does.

    With torch the same command is started in TestRunPrimus.test_trains_and_makes_a_result.
    """
    folder = tmp_path / "no torch"
    folder.mkdir()
    code = "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n"
    (folder / "torch.py").write_text(code, encoding="utf-8")
    environment = place.environment
    monkeypatch.setattr(
        place, "environment", lambda **more: environment(PYTHONPATH=str(folder), **more)
    )


class TestRunPrimus:
    @pytest.mark.parametrize("model", ["llama", "qwen", "mistral"])
    def test_trains_and_makes_a_result(self, place, model):
        done = place.run(
            f"scripts/run_primus_{model}.sh", "--", "--lr", "1.0e-4", NCCL_DEBUG="INFO"
        )
        assert done.returncode == 0, done.stderr
        assert place.result(f"benchmark_rocm_{model}.json").status == "complete"
        (started,) = place.seen()
        assert started["argv"][:2] == ["--train_iters", "10"]
        assert started["argv"][-2:] == ["--lr", "1.0e-4"]
        assert started["NCCL_DEBUG"] == "INFO"
        assert started["cwd"] == str(place.tree)
        assert f"TRAIN_ITERS=200 RUNS=3 scripts/run_primus_{model}.sh" in " ".join(
            done.stdout.split()
        )

    @pytest.mark.usefixtures("without_torch")
    def test_all_of_them(self, place):
        done = place.run("run_primus_all.sh", TRAIN_ITERS="5")
        assert done.returncode == 0, done.stderr
        assert {
            path.name for path in (place.work / "output").glob("*.json") if "env" not in path.name
        } == {
            "benchmark_rocm_llama.json",
            "benchmark_rocm_qwen.json",
            "benchmark_rocm_mistral.json",
        }

    @pytest.mark.usefixtures("without_torch")
    @pytest.mark.parametrize(("behaviour", "status"), [("crash", 1), ("kill", 137)])
    def test_ends_with_the_trainings_own_status(self, place, behaviour, status):
        done = place.run("run_primus_all.sh", STANDIN_BEHAVIOUR=behaviour)
        assert done.returncode == status
        assert "not run: qwen" in done.stderr
        assert place.result("benchmark_rocm_llama.json").status == "failed"

    @pytest.mark.parametrize("name", ["llama", "qwen", "all"])
    def test_help_names_the_model_of_the_script(self, place, name):
        script = "run_primus_all.sh" if name == "all" else f"scripts/run_primus_{name}.sh"
        done = place.run(script, "--help", COLUMNS="200")
        assert done.returncode == 0
        assert f"(default: {name})" in done.stdout

    @pytest.mark.usefixtures("without_torch")
    @pytest.mark.parametrize("script", ["run_primus_all.sh", "scripts/run_primus_llama.sh"])
    def test_no_primus_is_an_error(self, place, script):
        done = place.run(script, PRIMUS_PATH=str(place.folder / "none"))
        assert done.returncode == 2
        assert "error: no Primus in" in done.stderr
        assert done.stderr.startswith("error: ")
        assert len(done.stderr.splitlines()) <= 3

    @pytest.mark.usefixtures("without_torch")
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    def test_a_signal_to_the_script_ends_the_training_and_keeps_what_it_did(self, place, number):
        script = REPOSITORY / "scripts" / "run_primus_llama.sh"
        started = subprocess.Popen(
            [str(script)], cwd=place.work, env=place.environment(STANDIN_BEHAVIOUR="hang"), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            wait_for((place.folder / "seen.jsonl.worker").exists)
            started.send_signal(number)
            assert started.wait(HANGS) == 130
        finally:
            started.kill()
            started.wait()
        run = place.result("benchmark_rocm_llama.json")
        assert (run.status, len(run.steps)) == ("incomplete", 3)
        assert "interrupted by the user" in run.status_reason
        worker = int((place.folder / "seen.jsonl.worker").read_text())
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def wait_for(condition) -> None:
    for _ in range(10 * HANGS):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it never came to that")


@pytest.fixture
def theirs(place) -> Path:
    """A result of the other platform."""
    run = Run(
        framework="nemo", model="llama", platform="nvd", scale="full",
        training_config=TrainingConfig(global_batch_size=64, micro_batch_size=1, sequence_length=2048, num_gpus=8,
                                       precision="bf16", recomputation="none"),
        parallelism_config=ParallelismConfig(tensor_model_parallel_size=4),
        steps=tuple(range(1, 31)), window_steps=(1,) * 30, step_times=tuple(1.2 + 0.001 * (i % 3) for i in range(30)),
        loss_values=(None,) * 30, learning_rates=(None,) * 30, grad_norms=(None,) * 30, lines=(None,) * 30,
    )  # fmt: skip
    return store.save(run, place.folder / "from the other machine").path


@pytest.mark.usefixtures("without_torch")
class TestDualComparison:
    script = "scripts/run_amd_dual_comparison.sh"

    def test_two_runs_with_labels_and_the_comparison(self, place, theirs):
        done = place.run(self.script, str(theirs), FAIR_CONFIG="1", TRAIN_ITERS="30")
        assert done.returncode in (0, 3), done.stderr
        most = place.result("benchmark_rocm_llama_max-performance.json")
        fair = place.result("benchmark_rocm_llama_identical-config.json")
        assert (most.label, most.training_config.global_batch_size) == ("max-performance", 128)
        assert (fair.label, fair.training_config.global_batch_size) == ("identical-config", 64)
        assert fair.parallelism_config.tensor_model_parallel_size == 4
        report = (place.work / "output" / "comparison_report.md").read_text()
        assert "max-performance" in report
        assert "identical-config" in report

    def test_what_it_compares_is_what_it_has_just_trained(self, place, theirs):
        """Other planned steps are no other setup; the same times are those of the run that is read
        again.
        """
        for iterations in ("30", "40"):
            done = place.run(self.script, str(theirs), TRAIN_ITERS=iterations)
            assert done.returncode in (0, 3, 4), done.stderr
        names = sorted(path.name for path in (place.work / "output").glob("benchmark_rocm_*.json"))
        assert len(names) == 1
        result = json.loads((place.work / "output" / names[0]).read_text(encoding="utf-8"))
        assert (len(result["runs"]), result["training_config"]["max_steps"]) == (1, 40)
        assert names[0] in (place.work / "output" / "comparison_report.md").read_text(
            encoding="utf-8"
        )

    def test_without_fair_config_only_the_first(self, place, theirs):
        done = place.run(self.script, str(theirs), "--", "--lr", "1.0e-4")
        # The stand-in is faster than any GPU.
        assert done.returncode == 4, done.stderr
        assert len(place.seen()) == 1
        assert place.seen()[0]["argv"][-2:] == ["--lr", "1.0e-4"]
        assert "FAIR_CONFIG=1" in done.stdout

    def test_finds_the_other_result_among_its_own(self, place, theirs):
        (place.work / "output").mkdir()
        shutil.copyfile(theirs, place.work / "output" / "benchmark_cuda_llama.json")
        done = place.run(self.script, FAIR_CONFIG="1")
        assert done.returncode in (0, 3), done.stderr
        assert len(place.seen()) == 2

    def test_nothing_to_be_identical_to(self, place):
        done = place.run(self.script, FAIR_CONFIG="1")
        assert done.returncode == 2
        assert "benchmark_cuda_llama.json: no such file" in done.stderr
        assert place.seen() == []

    def test_what_would_stop_the_second_run_is_found_before_the_first(self, place, theirs):
        done = place.run(self.script, str(theirs), FAIR_CONFIG="1", GPUS_PER_NODE="2")
        assert done.returncode == 2
        assert "2 GPUs cannot be divided by TP 4" in done.stderr
        assert "stopped: the identical-configuration run can't be made" in done.stderr
        assert place.seen() == []

    @pytest.mark.parametrize("fair", ["0", "1"])
    def test_without_primus_nothing_is_said_to_have_run(self, place, theirs, fair):
        done = place.run(
            self.script, str(theirs), FAIR_CONFIG=fair, PRIMUS_PATH=str(place.folder / "none")
        )
        assert done.returncode == 2
        assert "error: no Primus in" in done.stderr
        assert (
            "the maximum-performance run can't be made; nothing was trained (status 2)"
            in done.stderr
        )
        assert "failed" not in done.stderr
        assert done.stdout == ""

    def test_a_failing_run_stops_it_with_its_reason(self, place, theirs):
        done = place.run(self.script, str(theirs), FAIR_CONFIG="1", STANDIN_BEHAVIOUR="crash")
        assert done.returncode == 1
        assert "stopped: the maximum-performance run failed (status 1)" in done.stderr
        assert len(place.seen()) == 1

    def test_two_results_are_one_too_many(self, place, theirs):
        done = place.run(self.script, "a.json", "b.json")
        assert done.returncode == 2
        assert "two results, a.json and b.json" in done.stderr


class TestOthers:
    @pytest.mark.usefixtures("without_torch")
    def test_check_primus_config(self, place, theirs):
        done = place.run("scripts/check_primus_config.sh", "--gpus", "8", "--against", str(theirs))
        assert done.returncode == 3, done.stderr
        assert re.search(r"global batch size +128", done.stdout)
        assert re.search(r"tensor parallel +1 +4", done.stdout)

    def test_fix_gpu_memory_asks_before_it_ends_anything(self, place):
        """Of two processes that a driver's tool names, the caller's own would be ended, and only
        after a question.
        """
        listed = [
            {
                "gpu": 0,
                "process_list": [{"process_info": {"name": "x", "pid": os.getpid() + 10_000_000}}],
            }
        ]
        environment = place.environment()
        program = place.folder / "programs" / "amd-smi"
        program.write_text(f"#!/bin/sh\necho '{json.dumps(listed)}'\n")
        program.chmod(0o755)
        script = REPOSITORY / "scripts" / "fix_gpu_memory.sh"
        shown = start(script, folder=place.work, environment=environment)
        assert shown.returncode == 0, shown.stderr
        assert str(os.getpid() + 10_000_000) in shown.stdout
        killed = start(script, "--kill", folder=place.work, environment=environment)
        assert "they belong to other users or run outside this container" in killed.stdout
        assert start(script, "--yes", folder=place.work, environment=environment).returncode == 2

    def test_fix_gpu_memory_without_any_tool(self, place):
        done = place.run(
            "scripts/fix_gpu_memory.sh", PATH=f"{place.folder / 'programs'}:/usr/bin:/bin"
        )
        if shutil.which("nvidia-smi") or shutil.which("rocm-smi") or shutil.which("amd-smi"):
            pytest.skip("this machine has a driver's tool")
        assert done.returncode == 2
        assert "found none of nvidia-smi, amd-smi and rocm-smi" in done.stderr
