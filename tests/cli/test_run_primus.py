"""A training by Primus, from the checks to the result: with a stand-in for Primus, and a made-up
AMD machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path

import primus_tree
import pytest

from tprimat.cli import run
from tprimat.machine import platforms
from tprimat.machine.platforms import Machine
from tprimat.measure import display
from tprimat.results.run import Environment, GpuInfo
from tprimat.store import store

pytest.importorskip("yaml", reason="PyYAML isn't installed; Primus brings it")
pytestmark = pytest.mark.skipif(os.name == "nt", reason="Primus' scripts need bash")

MACHINE = Machine(
    "amd",
    GpuInfo(
        device_name="AMD Instinct MI300X", device_count=8, total_memory_gb=206.1, compute_units=304, gpu_cores=19456,
        software_stack="rocm", software_version="7.1.0", pytorch_version="2.10.0.dev20251112+rocm7.1",
        architecture="gfx942",
    ),
    Environment(versions={"torch": "2.10.0.dev20251112+rocm7.1", "rccl": "2.27.3", "driver": "amdgpu 6.16.6"}),
)  # fmt: skip


@pytest.fixture
def tree(tmp_path) -> Path:
    return primus_tree.make(tmp_path / "my Primus")


@pytest.fixture
def here(tmp_path, tree, monkeypatch) -> Path:
    """A working directory with a blank in its name, on a machine with eight MI300X."""
    for name in (
        "PRIMUS_CONFIG",
        "TRAIN_ITERS",
        "RUNS",
        "NNODES",
        "NODE_RANK",
        "GPUS_PER_NODE",
        "HF_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    for name, value in primus_tree.environment(tmp_path, tree).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(platforms, "detect", lambda *_: MACHINE)
    monkeypatch.setattr("tprimat.measure.plan.COOLDOWN_ON_GPU", 0.0)
    # The tests may run in a container with little shared memory.
    monkeypatch.setattr("tprimat.measure.shared_memory.PATH", "/no/shm")
    folder = tmp_path / "my work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def seen(tmp_path: Path) -> list[dict]:
    """What each training of the stand-in was started with."""
    path = tmp_path / "seen.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def result(here: Path, name: str = "benchmark_rocm_llama.json"):
    return store.read(here / "output" / name)


def test_what_a_kill_leaves_of_logs_and_their_records_is_removed_by_the_next_command(
    here, monkeypatch
):
    replace = os.replace

    def copy_first(source, target):
        # What is there now is what stays when this process is killed now.
        if "training" in str(target):
            shutil.copytree("output", "killed", dirs_exist_ok=True)
        replace(source, target)

    monkeypatch.setattr(os, "replace", copy_first)
    assert run("run-primus", ["--model", "llama", "--train-iters", "5"]) == 0
    assert len(list(Path("killed").glob(".*.part"))) == 3
    run("compare", ["killed", "--no-plot"])
    assert not list(Path("killed").glob(".*.part"))


class TestWell:
    @pytest.mark.parametrize("dialect", ["legacy", "core", "v265"])
    def test_checks_trains_keeps_and_reads(self, here, tmp_path, monkeypatch, capsys, dialect):
        monkeypatch.setenv("STANDIN_DIALECT", dialect)
        assert run("run-primus", ["--model", "llama", "--train-iters", "25"]) == 0
        (made,) = result(here)
        assert made.status == "complete"
        assert made.step_times[:3] == pytest.approx((9.0, 2.1, 1.5))
        assert len(made.step_times) == 25
        assert (made.platform, made.model, made.scale) == ("amd", "llama", "full")
        assert made.training_config.global_batch_size == 128
        output = capsys.readouterr().out
        assert "Smoke test only: 25 iterations" in output
        assert "TRAIN_ITERS=200 RUNS=3 scripts/run_primus_llama.sh" in output
        assert "tprimat compare" in output

    def test_its_torchtitan(self, here, tree, monkeypatch):
        config = tree / "examples/torchtitan/configs/MI300X/llama3.1_8B-BF16-pretrain.yaml"
        monkeypatch.setenv("HF_TOKEN", "made-up")
        assert (
            run("run-primus", ["--model", "llama", "--train-iters", "25", "--config", str(config)])
            == 0
        )
        (made,) = result(here)
        assert (made.status, made.framework, made.model) == ("complete", "primus", "llama")
        assert made.step_times[3] == pytest.approx(1.5, rel=1e-3)
        assert (made.framework_config["backend"], made.framework_config["torch_compile"]) == (
            "torchtitan",
            True,
        )
        # The log calls it llama3 8B; its number of parameters is that of the catalog's model.
        assert (made.scale, made.model_config.num_layers) == ("full", 32)
        assert made.training_config.global_batch_size == 32

    def test_the_machine_is_in_the_result_though_the_log_does_not_name_it(
        self, here, tree, monkeypatch
    ):
        monkeypatch.setattr(
            "tprimat.machine.host.commit", lambda host, path: "fd1eeabb" if path == tree else None
        )
        run("run-primus", ["--model", "llama"])
        (made,) = result(here)
        assert made.gpu_info.device_name == "AMD Instinct MI300X"
        assert made.gpu_info.software_version == "7.1.0"
        assert made.environment.versions["rccl"] == "2.27.3"
        assert made.environment.versions["driver"] == "amdgpu 6.16.6"
        assert made.environment.versions["primus"] == "fd1eeabb"
        assert made.started is not None
        assert not any("doesn't state the GPU" in warning for warning in made.warnings)

    def test_the_gpu_may_be_named_in_other_words_when_its_log_is_read(self, here):
        run("run-primus", ["--model", "llama"])
        assert (
            run("read", ["output/training_llama.log", "--gpu", "MI300X", "--output-dir", "again"])
            == 0
        )
        (made,) = store.read(here / "again" / "benchmark_rocm_llama.json")
        assert made.environment.versions["rccl"] == "2.27.3"
        assert not any("record beside the log ignored" in warning for warning in made.warnings)

    def test_keeps_the_log_under_two_names_and_primus_own(self, here, tmp_path):
        run("run-primus", ["--model", "llama"])
        output = here / "output"
        (dated,) = output.glob("primus_training_llama_*.log")
        assert (output / "training_llama.log").read_bytes() == dated.read_bytes()
        (started,) = seen(tmp_path)
        own = Path(started["TRAIN_LOG"])
        assert own.is_file()
        assert own.parent.parent == output / "primus"
        assert "iteration       10/      10" in own.read_text()
        assert (
            json.loads((output / "training_llama.env.json").read_text())["experiment"]
            == started["PRIMUS_EXP_NAME"]
        )

    def test_what_primus_reads_itself_goes_through(self, here, tmp_path, monkeypatch):
        monkeypatch.setenv("NCCL_DEBUG", "WARN")
        run("run-primus", ["--model", "llama", "--", "--lr", "1.0e-4", "--mock_data", "True"])
        (started,) = seen(tmp_path)
        assert started["argv"] == ["--train_iters", "10", "--lr", "1.0e-4", "--mock_data", "True"]
        assert started["HF_TOKEN"] == "made-up"
        assert started["NCCL_DEBUG"] == "WARN"
        assert started["GPUS_PER_NODE"] == "8"

    def test_the_switches_in_the_log_are_in_the_result(self, here):
        run("run-primus", ["--model", "llama"])
        found = result(here)[0].framework_config
        assert {"enable_primus_turbo": True, "use_turbo_attention": False}.items() <= found.items()

    def test_a_token_is_in_no_file(self, here):
        run("run-primus", ["--model", "llama"])
        for path in here.rglob("*"):
            assert not path.is_file() or b"made-up" not in path.read_bytes(), path

    def test_primus_cli(self, here, tmp_path, monkeypatch):
        monkeypatch.setenv(
            "PRIMUS_PATH",
            str(primus_tree.make(tmp_path / "new", launchers=("run_pretrain.sh", "primus-cli"))),
        )
        assert run("run-primus", ["--model", "llama"]) == 0
        assert result(here)[0].status == "complete"
        assert Path(seen(tmp_path)[0]["TRAIN_LOG"]).is_file()

    def test_runs_join_one_result_under_different_names(self, here, tmp_path):
        assert run("run-primus", ["--model", "llama", "--runs", "2"]) == 0
        started = seen(tmp_path)
        assert len({each["PRIMUS_EXP_NAME"] for each in started}) == 2
        assert len(list((here / "output").glob("primus_training_llama_*.log"))) == 2

    def test_all_has_mistral_by_the_configuration_of_llama(self, here, tmp_path, capsys):
        assert run("run-primus", []) == 0
        assert [Path(each["EXP"]).name for each in seen(tmp_path)] == [
            "llama3.1_8B-BF16-pretrain.yaml",
            "qwen2.5_7B-BF16-pretrain.yaml",
            "llama3.1_8B-BF16-pretrain.yaml",
        ]
        assert "no configuration for Mistral 7B" in capsys.readouterr().out
        (made,) = result(here, "benchmark_rocm_mistral.json")
        assert (made.model, made.scale, made.model_config.vocab_size) == ("mistral", "full", 32768)

    def test_mistral_with_a_configuration_of_ones_own(self, here, tmp_path, monkeypatch):
        path = tmp_path / "mistral.yaml"
        path.write_text(primus_tree.experiment("mistral_7B", length=4096))
        monkeypatch.setenv("PRIMUS_CONFIG", str(path))
        assert run("run-primus", []) == 0
        assert [Path(each["EXP"]).name for each in seen(tmp_path)][2] == "mistral.yaml"
        assert result(here, "benchmark_rocm_mistral.json")[0].model == "mistral"

    def test_the_progress_bar_follows_the_log(self, here, monkeypatch):
        steps = []

        @contextlib.contextmanager
        def following(title, request, **_options):
            yield lambda line: None, steps.append

        monkeypatch.setattr(display, "following", following)
        run("run-primus", ["--model", "llama"])
        assert [step.step for step in steps] == list(range(1, 11))
        assert steps[-1].average == pytest.approx(1.505, abs=0.01)

    def test_a_bundle_of_it(self, here):
        assert run("run-primus", ["--model", "llama", "--bundle", "mi300x.tar.gz"]) == 0
        assert (here / "mi300x.tar.gz").stat().st_size > 1000


class TestBadly:
    @pytest.mark.parametrize(
        ("behaviour", "status", "steps", "words"),
        [
            ("crash", 1, 4, "HIP out of memory"),
            ("kill", 137, 3, "Killed"),
            ("quiet", 5, 0, "no iteration line"),
        ],
    )
    def test_keeps_the_status_and_what_was_measured(
        self, here, tmp_path, monkeypatch, capsys, behaviour, status, steps, words
    ):
        monkeypatch.setenv("STANDIN_BEHAVIOUR", behaviour)
        assert run("run-primus", []) == status
        (made,) = result(here)
        # One that ran to its end without a step that could be read is neither.
        assert made.status == ("failed" if steps else "incomplete")
        assert len(made.steps) == steps
        assert words in made.status_reason
        assert len(seen(tmp_path)) == 1
        assert "not run: qwen" in capsys.readouterr().err

    def test_one_that_never_stepped_says_why_and_leaves_earlier_results(
        self, here, monkeypatch, capsys
    ):
        run("run-primus", ["--model", "llama"])
        before = (here / "output" / "benchmark_rocm_llama.json").read_bytes()
        monkeypatch.setenv("STANDIN_BEHAVIOUR", "fail")
        assert run("run-primus", ["--model", "llama"]) == 1
        assert "Cannot access gated repo" in capsys.readouterr().err
        assert (here / "output" / "benchmark_rocm_llama.json").read_bytes() == before
        (failed,) = store.read(here / "output" / "benchmark_rocm_llama_failed.json")
        assert failed.status == "failed"
        assert "Cannot access gated repo" in failed.status_reason

    def test_one_that_hangs_is_ended_with_all_that_it_started(self, here, tmp_path, monkeypatch):
        monkeypatch.setenv("STANDIN_BEHAVIOUR", "hang")
        assert run("run-primus", ["--model", "llama", "--time-limit", "3"]) == 143
        (made,) = result(here)
        assert "killed: ran longer than 3.0 s" in made.status_reason
        assert len(made.steps) == 3
        assert not alive(int((tmp_path / "seen.jsonl.worker").read_text()))

    def test_the_newest_log_is_kept_after_a_failure_too(self, here, monkeypatch):
        monkeypatch.setenv("STANDIN_BEHAVIOUR", "crash")
        run("run-primus", ["--model", "llama"])
        assert "HIP out of memory" in (here / "output" / "training_llama.log").read_text()


class TestBefore:
    def test_a_failed_check_starts_nothing(self, here, tmp_path, monkeypatch, capsys):
        monkeypatch.delenv("HF_TOKEN")
        assert run("run-primus", ["--model", "llama", "--", "--mock_data", "False"]) == 2
        assert seen(tmp_path) == []
        line = capsys.readouterr().err.rstrip()
        assert line.startswith("error: llama: ")
        assert line.endswith("\nsee:   docs/troubleshooting.md#primus-checks")

    def test_memory_held_by_others_is_said(self, here, monkeypatch, capsys):
        monkeypatch.setattr(
            platforms, "held_by_others", lambda machine: "other processes hold memory of GPU 3"
        )
        run("run-primus", ["--model", "llama", "--dry-run"])
        assert "other processes hold memory of GPU 3" in capsys.readouterr().out

    def test_a_dry_run_shows_the_command_and_runs_nothing(self, here, tmp_path, capsys):
        assert run("run-primus", ["--model", "llama", "--dry-run", "--", "--lr", "1.0e-4"]) == 0
        output = capsys.readouterr().out
        assert "bash examples/run_pretrain.sh --train_iters 10 --lr 1.0e-4" in output
        assert "EXP=examples/megatron/configs/MI300X/llama3.1_8B-BF16-pretrain.yaml" in output
        assert seen(tmp_path) == []
        assert not (here / "output").exists()

    @pytest.mark.parametrize(
        ("environment", "arguments", "words"),
        [
            ({"TRAIN_ITERS": "many"}, [], "TRAIN_ITERS: 'many' is not a whole number"),
            ({"RUNS": "0"}, [], "RUNS: must be at least 1, not 0"),
            ({}, ["--lr", "1"], "put Primus' own arguments after --"),
            ({"PRIMUS_PATH": "/nowhere"}, [], "no Primus in /nowhere"),
            ({}, ["--model", "gpt5"], "unknown model 'gpt5'"),
            ({}, ["--bundle", "x.rar"], "must end in .tar.gz"),
            (
                {"PRIMUS_CONFIG": "/nowhere.yaml"},
                ["--model", "llama"],
                "/nowhere.yaml: cannot be read",
            ),
        ],
    )
    def test_wrong_usage_is_one_line(
        self, here, monkeypatch, capsys, environment, arguments, words
    ):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        assert run("run-primus", arguments) == 2
        line = capsys.readouterr().err.rstrip()
        assert words in line

    def test_the_environment_says_how_long_and_how_often(self, here, tmp_path, monkeypatch):
        monkeypatch.setenv("TRAIN_ITERS", "3")
        monkeypatch.setenv("RUNS", "2")
        assert run("run-primus", ["--model", "qwen"]) == 0
        assert [each["argv"] for each in seen(tmp_path)] == [["--train_iters", "3"]] * 2

    def test_an_output_folder_that_cannot_be_made(self, here, capsys):
        (here / "file").write_text("")
        assert run("run-primus", ["--model", "llama", "--output-dir", "file/output"]) == 2
        assert "choose another --output-dir" in capsys.readouterr().err


class TestSeveralMachines:
    def test_the_last_machine_makes_the_result_from_what_was_configured(self, here, monkeypatch):
        monkeypatch.setenv("NNODES", "2")
        monkeypatch.setenv("NODE_RANK", "1")
        assert run("run-primus", ["--model", "llama"]) == 0
        (made,) = result(here)
        # Its log has the iteration lines and no dump of the arguments.
        assert made.training_config.num_gpus == 16
        assert made.training_config.sequence_length == 8192
        assert (made.model, made.model_config.num_layers) == ("llama", 32)
        assert any("from the record of the start" in warning for warning in made.warnings)
        assert (here / "output" / "training_llama_node1.log").is_file()

    def test_the_others_say_where_it_is(self, here, monkeypatch, capsys):
        monkeypatch.setenv("NNODES", "2")
        monkeypatch.setenv("NODE_RANK", "0")
        assert run("run-primus", ["--model", "llama"]) == 0
        assert "NODE_RANK=1" in capsys.readouterr().out
        assert not (here / "output" / "benchmark_rocm_llama.json").exists()


class TestIdentical:
    def test_takes_the_setup_of_a_result(self, here, tmp_path):
        from tprimat.results.run import ParallelismConfig, Run, TrainingConfig

        theirs = Run(
            framework="nemo", model="llama", platform="nvd",
            training_config=TrainingConfig(global_batch_size=64, micro_batch_size=1, sequence_length=2048, num_gpus=8,
                                           precision="bf16", recomputation="none"),
            parallelism_config=ParallelismConfig(tensor_model_parallel_size=4),
        )  # fmt: skip
        path = store.save(theirs, tmp_path / "theirs").path
        assert (
            run(
                "run-primus",
                ["--model", "llama", "--match", str(path), "--label", "identical-config"],
            )
            == 0
        )
        (made,) = result(here, "benchmark_rocm_llama_identical-config.json")
        assert made.training_config.global_batch_size == 64
        assert made.training_config.sequence_length == 2048
        assert made.parallelism_config.tensor_model_parallel_size == 4
        assert made.label == "identical-config"


class TestByBenchmark:
    def test_measures_with_primus(self, here, tmp_path, capfd):
        """The whole road: benchmark starts Primus itself, keeps its log and makes the result."""
        status = run(
            "benchmark",
            ["--framework", "primus", "--model", "llama", "--steps", "30", "--cooldown", "0"],
        )
        output = capfd.readouterr()
        assert status == 0, output
        (made,) = result(here)
        assert (made.status, len(made.steps)) == ("complete", 30)
        assert "benchmark_rocm_llama.json" in output.out
        (started,) = seen(tmp_path)
        assert started["argv"][:2] == ["--train_iters", "30"]
        assert "--exit_duration_in_mins" not in started["argv"]

    def test_a_dry_run_shows_the_command_of_primus(self, here, tmp_path, capsys):
        assert run("benchmark", ["--framework", "primus", "--dry-run"]) == 0
        output = capsys.readouterr().out
        assert output.count("bash examples/run_pretrain.sh") == 3
        assert seen(tmp_path) == []
