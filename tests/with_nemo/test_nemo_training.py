"""Runs of the real recipes, two layers of them, on an emulated device, through the commands."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tprimat.analysis.summary import summarize
from tprimat.checks import physics, training
from tprimat.frameworks import by_name
from tprimat.frameworks.request import Device, RequestedConfig
from tprimat.notes.catalogue import words
from tprimat.store import store

REPOSITORY = Path(__file__).resolve().parents[2]
EMULATED_GPU = Path(__file__).resolve().parent / "emulated_gpu"
TINY = (
    "--scale",
    "tiny",
    "--max-steps",
    "4",
    "--global-batch-size",
    "4",
    "--micro-batch-size",
    "1",
)


@pytest.fixture(scope="session")
def trained(command, on_a_cpu, tmp_path_factory):
    """Trains through a script and returns (its directory, the run, what it printed)."""

    def train(script, *options, processes=0):
        folder = tmp_path_factory.mktemp("trained")
        asked = folder / "asked"
        done = command(
            script,
            *TINY,
            "--sequence-length",
            "64",
            *on_a_cpu,
            *options,
            cwd=folder,
            processes=processes,
            TPRIMAT_TEST_ASKED=str(asked),
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        assert not asked.exists(), f"the network was asked for: {asked.read_text()}"
        (path,) = (folder / "output").glob("*.json")
        return folder, store.read(path)[-1], done.stdout

    return train


@pytest.fixture(scope="session")
def one(trained):
    return trained("pretrain_llama.py")


class TestOneProcess:
    def test_the_result_is_where_users_look_for_it(self, one):
        assert (one[0] / "output" / "benchmark_cuda_llama.json").exists()

    def test_it_says_what_was_trained(self, one):
        run = one[1]
        assert (run.framework, run.model, run.scale, run.status) == (
            "nemo",
            "llama",
            "other",
            "complete",
        )
        assert run.steps == (1, 2, 3, 4)
        # --set had the last word on the layers, and the result says what ran.
        assert (run.model_config.num_layers, run.model_config.vocab_size) == (2, 8016)
        assert (run.training_config.global_batch_size, run.training_config.sequence_length) == (
            4,
            64,
        )
        assert (run.training_config.precision, run.training_config.seed) == ("bf16", 1234)
        assert run.optimizer.name == "AdamW"
        assert run.optimizer.gradient_clipping == 1.0
        assert run.framework_config["model.config.apply_rope_fusion"] is False

    def test_the_data_are_named_as_synthetic(self, one):
        assert one[1].data.kind == "mock"

    def test_its_times_are_marked_as_emulated(self, one):
        assert one[1].environment.emulated is True

    def test_nemos_own_timing_agrees(self, one):
        native = one[1].native_metrics["train_step_timing_seconds"]
        assert len(native) == 4
        # NeMo's interval is a part of ours: it leaves out what lies between two batches.
        # 50 ms for its clock, which the system may set meanwhile.
        assert all(
            theirs <= ours + 0.05 for theirs, ours in zip(native, one[1].step_times, strict=True)
        )

    def test_loss_and_norm_of_every_step(self, one):
        run = one[1]
        assert all(8.0 < loss < 10.0 for loss in run.loss_values)
        assert all(norm > 0 for norm in run.grad_norms)

    def test_it_passes_the_physics(self, one):
        run = one[1]
        findings = physics.findings(run, summarize(run))
        assert [words(each.note) for each in findings if each.severity == "error"] == []

    def test_the_ledger_names_its_data_as_synthetic(self, one):
        (note,) = [
            words(each.note) for each in training.findings(one[1]) if each.rule == "synthetic-data"
        ]
        assert note == "synthetic data (mock)"

    def test_nothing_but_the_result_is_left(self, one):
        names = {path.suffix for path in (one[0] / "output").rglob("*") if path.is_file()}
        assert names <= {".json", ".log", ".txt", ".lock", ".hosts", ""}


class TestSeveralProcesses:
    def test_two_replicas(self, trained):
        run = trained("pretrain_llama.py", "--gpus", "2")[1]
        assert (run.training_config.num_gpus, run.parallelism_config.data_parallel_size) == (2, 2)
        assert run.parallelism_config.gradient_accumulation_steps == 2
        assert len(run.steps) == 4

    def test_a_model_divided_in_two_started_by_torchrun(self, trained):
        _, run, printed = trained("pretrain_mistral.py", "--tp", "2", processes=2)
        assert printed.count("Recording on ") == 1
        assert run.model == "mistral"
        assert run.parallelism_config.tensor_model_parallel_size == 2
        assert run.parallelism_config.data_parallel_size == 1


def test_qwen_on_our_tokens_through_benchmark_and_profiled(trained):
    options = ("--framework", "nemo", "--model", "qwen", "--data", "tokens", "--profile", "torch")
    folder, run, _ = trained("benchmark.py", *options, "--max-steps", "8")
    assert (run.model, run.data.kind, run.data.seed) == ("qwen", "tokens", 1234)
    assert run.data.digest
    assert run.data.entropy == pytest.approx(1.2130, abs=1e-4)
    assert len(list((folder / "output" / "data").glob("*.idx"))) == 1
    assert run.profiled_steps == (9, 10, 11, 12)
    names = {
        event["name"]
        for event in json.loads(gzip.decompress(Path(run.profile["torch"]).read_bytes()))[
            "traceEvents"
        ]
    }
    assert {"ProfilerStep#1", "[memory]", "aten::mul"} <= names


def test_the_recipe_trains_where_nemo_run_has_handed_it_to_another_process(
    command, on_a_cpu, tmp_path, monkeypatch
):
    monkeypatch.setenv("TPRIMAT_EMULATED", "1")
    wishes = RequestedConfig(
        scale="tiny",
        steps=2,
        global_batch_size=2,
        micro_batch_size=1,
        sequence_length=32,
        label="handed on",
        settings=tuple(on_a_cpu[1::2]),
    )
    request, _ = by_name("nemo").resolve_config(
        "llama", wishes, Device("cpu", 2, 8e9), tmp_path / "output"
    )
    script = "tests/with_nemo/run_by_nemo_run.py"
    path = f"{EMULATED_GPU}:{REPOSITORY}"
    done = command(
        script,
        str(tmp_path / "jobs"),
        *request.to_arguments(),
        cwd=tmp_path,
        emulated=False,
        TPRIMAT_EMULATED="1",
        PYTHONPATH=path,
        PL_GLOBAL_SEED="1234",
        NEMORUN_HOME=str(tmp_path),
    )
    results = list((tmp_path / "output").glob("*.json"))
    assert results, done.stdout[-3000:] + done.stderr[-3000:]
    run = store.read(results[0])[-1]
    assert (run.status, run.steps, run.label, run.training_config.seed) == (
        "complete",
        (1, 2),
        "handed on",
        1234,
    )
    assert len(run.native_metrics["train_step_timing_seconds"]) == 2


def test_out_of_memory_is_one_line_with_the_next_thing_to_try(command, on_a_cpu, tmp_path):
    sizes = ("--sequence-length", "64", "--scale", "small")
    done = command(
        "pretrain_llama.py", *TINY, *sizes, *on_a_cpu, cwd=tmp_path, TPRIMAT_TEST_MEMORY_UNTIL="5"
    )
    assert done.returncode == 5
    (line,) = [each for each in done.stderr.splitlines() if each.startswith("error:")]
    assert (
        "llama bf16: out of memory: OutOfMemoryError: CUDA out of memory. Tried to allocate"
        " 2.00 GiB" in line
    )
    advice = "Tried to allocate 2.00 GiB: try --scale tiny or --sequence-length 32"
    assert line.endswith(advice)
    (log,) = (tmp_path / "output" / "logs").glob("*.log")
    # What a process says that no command of ours watches.
    assert (
        f"error: out of memory: OutOfMemoryError: CUDA out of memory. {advice}" in log.read_text()
    )
    (path,) = (tmp_path / "output").glob("*.json")
    run = store.read(path)[-1]
    assert (run.status, run.steps) == ("failed", (1,))


def test_the_comparison_says_that_it_was_emulated(one, command):
    done = command("compare_results.py", "output", cwd=one[0], emulated=False)
    assert done.returncode in (0, 3), done.stderr
    assert "emulated" in done.stdout
    assert "emulated" in (one[0] / "output" / "comparison_report.md").read_text()


def test_a_dry_run_shows_command_and_recipe_and_leaves_nothing(command, tmp_path):
    done = command(
        "pretrain_qwen.py",
        "--dry-run",
        "--gpu",
        "H100",
        "--set",
        "optim.config.lr=0.5",
        cwd=tmp_path,
        emulated=False,
    )
    assert done.returncode == 0, done.stderr
    assert "torch.distributed.run --standalone --nproc-per-node=8" in " ".join(
        done.stdout.replace("\\\n", "").split()
    )
    assert "optim.config.lr = 0.5" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_field_ends_in_one_line(command, tmp_path):
    done = command(
        "pretrain_qwen.py",
        "--dry-run",
        "--gpu",
        "H100",
        "--set",
        "optim.config.lrr=1",
        cwd=tmp_path,
        emulated=False,
    )
    assert done.returncode == 2
    assert "the nearest are lr" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_slurm_job_is_shown_with_all_that_it_was_told_and_leaves_nothing(command, tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    job = tmp_path / "cluster.txt"
    job.write_text(
        "account = acct\npartition = batch\ntime = 00:30:00\ncontainer = image:1\nmounts ="
        " /data:/data\n"
    )
    options = (
        "--executor",
        "slurm",
        "--nodes",
        "2",
        "--gpu",
        "H100",
        "--slurm",
        str(job),
        "--account",
        "other",
    )
    done = command("pretrain_llama.py", *options, "--dry-run", cwd=folder, emulated=False)
    assert done.returncode == 0, done.stderr
    for part in (
        "#SBATCH --account=other",
        "#SBATCH --partition=batch",
        "#SBATCH --nodes=2",
        "#SBATCH --time=00:30:00",
        "--container-image=image:1",
        "/data:/data",
        f"{REPOSITORY}:{REPOSITORY}",
        (
            "python3 -m tprimat benchmark --framework nemo --model llama --training-lines --gpu"
            " H100 --nodes=2"
        ),
    ):
        assert part in done.stdout
    assert list(folder.iterdir()) == []
