"""Training for real, on the CPU: what the result holds, the wait for data, and every way to end."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tprimat.analysis import efficiency
from tprimat.analysis.summary import summarize
from tprimat.checks import physics, training
from tprimat.errors import TrainingFailedError, UsageError
from tprimat.frameworks.encdec import data as encdec_data
from tprimat.frameworks.encdec import loop as encdec_loop
from tprimat.frameworks.encdec import model as encdec_model
from tprimat.frameworks.encdec import result as encdec_result
from tprimat.frameworks.encdec.launch import resolve_config
from tprimat.frameworks.encdec.request import RequestedEncDec
from tprimat.frameworks.request import Device
from tprimat.notes.catalogue import words
from tprimat.record import lifecycle, outcome, recovery
from tprimat.record.journal import Journal
from tprimat.record.ranks import Process
from tprimat.store import hosts, store

SAMPLES, BATCH, SLOW_S = 48, 4, 0.05


def settings(folder, *, data_checked=False, **changes):
    small = {
        "d_model": 16,
        "nhead": 2,
        "num_encoder_layers": 1,
        "num_decoder_layers": 1,
        "dim_feedforward": 32,
    }
    small |= {
        "vocab_size": 50,
        "sequence_length": 8,
        "micro_batch_size": BATCH,
        "epochs": 2,
        "num_samples": SAMPLES,
    }
    requested = RequestedEncDec(**{**small, **changes})
    request, _ = resolve_config(requested, Device("cpu", 1, None), folder / "results")
    return dataclasses.replace(request, data_checked=data_checked)


def trained(wanted, **options):
    said = []
    ended = encdec_loop.train(wanted, Process(), say=said.append, **options)
    assert ended.result is not None
    return ended.result, ended.path, said


def child(wanted, **options):
    """The loop as a program of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tprimat.frameworks.encdec.loop", *wanted.to_arguments()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


class Slow:
    """Batches from memory whose reading takes longer, and what it really took."""

    def __init__(self, wanted):
        self._batches = encdec_data.dataset(wanted, Process())
        self.slept = []

    def __getitem__(self, index):
        batch = self._batches[index]
        began = time.perf_counter()
        time.sleep(SLOW_S)
        self.slept.append(time.perf_counter() - began)
        return batch


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Threads that spin beside those of other programs take many times as long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def from_memory(tmp_path_factory):
    return trained(settings(tmp_path_factory.mktemp("memory")))


@pytest.fixture(scope="module")
def from_disk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("disk")
    on_disk = {"data_dir": folder / "data", "num_shards": 3, "workers": 2, "drop_caches": True}
    return folder, on_disk, trained(settings(folder, **on_disk))[0]


@pytest.fixture(scope="module")
def by_torchrun(tmp_path_factory, repository):
    folder = tmp_path_factory.mktemp("two")
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"),
        *(repository / "benchmark.py", "--batch-size", "4", "--epochs", "2", "--num-samples", "48"),
        *(
            "--d-model",
            "16",
            "--nhead",
            "2",
            "--num-encoder-layers",
            "1",
            "--num-decoder-layers",
            "1",
        ),
        *("--seq-len", "8", "--vocab-size", "50", "--data-dir", "data", "--num-shards", "2"),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    (path,) = (folder / "results").glob("bench_cpu_2gpu_*.json")
    return done.stdout, store.read(path)[0]


class TestResult:
    def test_its_file(self, from_memory):
        run, path, _ = from_memory
        stamp = run.started.strftime("%Y%m%d_%H%M%S")
        assert path.name == f"bench_cpu_1gpu_{stamp}.json"
        assert store.read(path) == (hosts.hidden(run, hosts.of_process(path.parent)),)

    def test_every_step_of_every_epoch_is_there(self, from_memory):
        run, _, _ = from_memory
        assert run.status == "complete"
        assert run.steps == tuple(range(1, 37))
        assert set(run.window_steps) == {1}
        assert all(run.step_times)
        assert [epoch["epoch"] for epoch in run.epochs] == [1, 2, 3]
        assert [epoch["warmup"] for epoch in run.epochs] == [1, 0, 0]
        assert {epoch["samples"] for epoch in run.epochs} == {SAMPLES}

    def test_figures_are_of_the_measured_epochs(self, from_memory):
        run, _, _ = from_memory
        measured = run.epochs[1:]
        seconds = sum(epoch["wall_time_s"] for epoch in measured)
        assert run.native_metrics["samples_per_second"] == pytest.approx(
            2 * SAMPLES / seconds, rel=0.01
        )
        assert run.native_metrics["seconds_per_epoch"] == pytest.approx(seconds / 2, rel=0.01)
        for epoch in measured:
            assert epoch["data_wait_s"] + epoch["compute_s"] == pytest.approx(
                epoch["wall_time_s"], rel=0.01
            )
        assert run.breakdown["data_wait_s"] + run.breakdown["compute_s"] == pytest.approx(
            seconds / 24, rel=0.01
        )

    def test_the_steps_of_an_epoch_fill_its_wall_time(self, from_memory):
        run, _, _ = from_memory
        for index, epoch in enumerate(run.epochs):
            steps = run.step_times[index * 12 : (index + 1) * 12]
            # What an epoch has beyond its steps is the waiting of all for all; here there is one
            # process.
            assert 0.8 * epoch["wall_time_s"] < sum(steps) < 1.001 * epoch["wall_time_s"]

    def test_what_was_run(self, from_memory):
        run, _, _ = from_memory
        assert (run.platform, run.framework, run.model) == ("cpu", "pytorch", "encdec")
        assert run.scale == "d16-h2-e1-d1-f32-v50"
        assert run.model_config.num_parameters == settings(Path()).parameters
        assert (run.model_config.num_layers, run.model_config.num_encoder_layers) == (1, 1)
        config = run.training_config
        assert (config.global_batch_size, config.sequence_length, config.max_steps) == (4, 8, 36)
        assert (config.precision, run.optimizer.name, run.timing.clock) == (
            "fp32",
            "AdamW",
            "monotonic",
        )
        assert run.data.kind == "random"

    def test_losses_are_those_of_uniform_tokens(self, from_memory):
        run, _, _ = from_memory
        assert all(3.0 < loss < 5.5 for loss in run.loss_values)
        assert not [each for each in training.findings(run) if each.severity == "error"]

    def test_it_is_judged_and_weighed_as_any_other(self, from_memory):
        run, _, _ = from_memory
        summary = summarize(run)
        assert summary.performance.tokens_per_second == pytest.approx(
            32 / summary.performance.avg_step_time_seconds
        )
        assert not [each for each in physics.findings(run, summary) if each.severity == "error"]
        figures = efficiency.of_runs([run], [summary], efficiency.Options())
        assert figures.values["model_tflops_per_gpu"].value > 0

    def test_too_short_is_said(self, from_memory):
        run, _, said = from_memory
        assert any("a reliable result needs" in warning for warning in run.warnings)
        assert [line.split(":")[0] for line in said] == [
            "epoch 1 of 3 (warm-up)",
            "epoch 2 of 3",
            "epoch 3 of 3",
        ]

    def test_gpu_utilisation_is_unknown_on_a_processor(self, from_memory):
        run, _, _ = from_memory
        assert run.native_metrics["gpu_utilisation_percent"] is None
        assert not any("utilisation" in warning for warning in run.warnings)


class TestDataWait:
    def test_memory_waits_next_to_nothing(self, tmp_path):
        run, _, _ = trained(settings(tmp_path, d_model=64, sequence_length=32, dim_feedforward=256))
        assert run.breakdown["data_wait_s"] < 0.1 * run.breakdown["compute_s"]

    def test_a_slow_reader_is_found(self, tmp_path):
        wanted = settings(tmp_path)
        slow = Slow(wanted)
        run, _, _ = trained(wanted, dataset=slow)
        for epoch in run.epochs:
            first = int(epoch["epoch"] - 1) * 12
            slept = sum(slow.slept[first : first + 12])
            # What else a loader does takes longer on a busy machine.
            assert 0.99 * slept <= epoch["data_wait_s"] <= 1.5 * slept
        slept = sum(slow.slept[12:]) / 24
        assert 0.99 * slept <= run.breakdown["data_wait_s"] <= 1.5 * slept

    def test_workers_are_waited_for_too(self, tmp_path):
        wanted = settings(tmp_path, num_samples=2 * SAMPLES, epochs=1, warmup_epochs=0)
        wanted = dataclasses.replace(wanted, workers=1)
        run, _, _ = trained(wanted, dataset=Slow(wanted))
        # Whatever is computed meanwhile, an epoch takes what its one reader takes.
        assert run.epochs[0]["wall_time_s"] >= 24 * SLOW_S
        assert run.breakdown["data_wait_s"] + run.breakdown["compute_s"] >= 0.99 * SLOW_S


class TestDisk:
    def test_storage_has_figures_of_its_own(self, from_disk):
        _, _, run = from_disk
        assert run.status == "complete"
        figures = run.native_metrics
        assert figures["dataset_gb"] == pytest.approx(SAMPLES * 17 * 4 / 1e9, rel=0.01)
        assert figures["delivered_gb_per_second"] > 0
        assert figures["read_gb_per_second_per_worker"] > figures["delivered_gb_per_second"]
        assert figures["written_gb_per_second"] > 0
        assert figures["reading_workers"] == 2
        assert all(epoch["read_gb"] > 0 for epoch in run.epochs)

    def test_data_that_come_again_have_no_entropy(self, from_disk):
        _, _, run = from_disk
        assert run.data.kind == "random, from shards on disk, page cache emptied"
        assert run.data.entropy is None

    def test_another_training_finds_them(self, from_disk):
        folder, on_disk, _ = from_disk
        _, _, said = trained(settings(folder, epochs=1, warmup_epochs=0, **on_disk))
        assert "checking the data" in said[0]
        assert not any("writing" in line for line in said)

    def test_trusted_where_they_were_checked_before(self, from_disk):
        folder, on_disk, _ = from_disk
        _, _, said = trained(
            settings(folder, epochs=1, warmup_epochs=0, data_checked=True, **on_disk)
        )
        assert said[0].startswith("epoch 1")

    def test_no_room_for_them_starts_nothing(self, tmp_path):
        (tmp_path / "data").write_text("")
        with pytest.raises(UsageError):
            trained(settings(tmp_path, data_dir=tmp_path / "data", num_shards=1, workers=1))
        assert not (tmp_path / "results").exists()


class TestPageCacheSaid:
    @pytest.mark.parametrize(
        ("shares", "said"),
        [
            ((0.0, 0.0), None),
            ((0.0, 0.25), "the page cache helped: before a measured epoch up to 25% of the data"),
            ((0.0, None), "the page cache may have helped"),
        ],
    )
    def test_what_helped(self, shares, said):
        notes = encdec_result.cache_notes(shares)
        assert (notes == []) if said is None else words(notes[0]).startswith(said)


class TestEnds:
    def test_the_time_limit(self, tmp_path):
        wanted = settings(tmp_path, epochs=500, time_limit_s=0.5)
        run, _, _ = trained(wanted)
        assert run.status == "complete"
        assert "the time limit of 0.5 s was reached" in run.status_reason
        assert len(run.steps) < run.training_config.max_steps
        assert run.steps[-1] == sum(epoch["steps"] for epoch in run.epochs)

    def test_a_failure_leaves_what_there_is(self, tmp_path):
        class Failing(Slow):
            def __getitem__(self, index):
                if index == 15:
                    raise RuntimeError("the device has gone")
                return self._batches[index]

        wanted = settings(tmp_path)
        with pytest.raises(TrainingFailedError, match="RuntimeError: the device has gone"):
            trained(wanted, dataset=Failing(wanted))
        (path,) = wanted.output_dir.glob("bench_*.json")
        (run,) = store.read(path)
        assert (run.status, run.status_reason) == ("failed", "RuntimeError: the device has gone")
        assert run.steps == tuple(range(1, 16))
        assert len(run.epochs) == 1

    def test_out_of_memory_says_what_to_do(self, tmp_path):
        class Failing(Slow):
            def __getitem__(self, index):
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

        wanted = settings(tmp_path)
        with pytest.raises(TrainingFailedError, match="try --batch-size 2 or --seq-len 4"):
            trained(wanted, dataset=Failing(wanted))

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to catch")
    @pytest.mark.parametrize(
        ("number", "reason", "status"),
        [(signal.SIGTERM, "terminated (SIGTERM)", -signal.SIGTERM), (signal.SIGINT, "Ctrl-C", 5)],
    )
    def test_a_signal(self, tmp_path, repository, number, reason, status):
        wanted = settings(tmp_path, epochs=100_000)
        process = child(wanted, env={**os.environ, "PYTHONPATH": str(repository)})
        assert "epoch 1" in process.stdout.readline()
        process.send_signal(number)
        process.communicate(timeout=60)
        assert process.returncode == status
        (path,) = wanted.output_dir.glob("bench_*.json")
        (run,) = store.read(path)
        assert run.status == "incomplete"
        assert reason in run.status_reason
        assert (
            run.native_metrics["samples_per_second"] is None
            or run.native_metrics["samples_per_second"] > 0
        )

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
    def test_killed_it_loses_no_epoch(self, tmp_path, repository):
        wanted = settings(tmp_path, epochs=100_000, num_samples=4 * SAMPLES, warmup_epochs=0)
        process = child(
            wanted, env={**os.environ, "PYTHONPATH": str(repository), "OMP_NUM_THREADS": "1"}
        )
        for line in process.stdout:
            if line.startswith("epoch 3 "):
                break
        process.kill()
        process.communicate(timeout=60)
        assert not list(wanted.output_dir.glob("*.json"))
        (recovered,) = recovery.recover(wanted.output_dir)
        (run,) = store.read(recovered.path)
        assert (run.status, run.status_reason, run.ending) == outcome.KILLED
        assert recovered.path.name.startswith("bench_cpu_1gpu_")
        assert len(run.epochs) >= 3
        assert sum(run.window_steps) >= sum(epoch["steps"] for epoch in run.epochs)
        rates = [epoch["samples_per_second"] for epoch in run.epochs]
        assert min(rates) <= run.native_metrics["samples_per_second"] <= max(rates)
        assert not (wanted.output_dir / ".journal").exists()

    def test_the_journal_knows_what_the_result_will_say(self, tmp_path, monkeypatch):
        monkeypatch.setattr(lifecycle, "METRICS_SHARE", 1e9)
        journals = []
        remove = Journal.remove
        monkeypatch.setattr(
            Journal, "remove", lambda self: (journals.append(self.path.read_bytes()), remove(self))
        )
        wanted = settings(
            tmp_path, data_dir=tmp_path / "data", num_shards=3, workers=1, drop_caches=True
        )
        run, _, _ = trained(wanted)
        (content,) = journals
        lines = content.splitlines(keepends=True)
        killed, finished = recovery.read(
            b"".join(line for line in lines if not line.startswith(b'{"final"'))
        )
        assert not finished
        assert (killed.steps, killed.step_times, killed.loss_values) == (
            run.steps,
            run.step_times,
            run.loss_values,
        )
        assert killed.epochs == run.epochs
        assert killed.native_metrics == run.native_metrics
        assert killed.breakdown == run.breakdown
        assert set(killed.warnings) == {*run.warnings, words(recovery.RECOVERED)}
        assert store.setup_key(killed) == store.setup_key(run)

    def test_long_trainings_are_recorded_in_windows(self, tmp_path, monkeypatch):
        monkeypatch.setattr(encdec_loop, "MOST_RECORDS", 8)
        run, _, _ = trained(settings(tmp_path))
        # 36 steps in windows of 5, each epoch of 12 ending one.
        assert run.steps == (5, 10, 12, 15, 20, 24, 25, 30, 35, 36)
        assert run.window_steps == (5, 5, 2, 3, 5, 4, 1, 5, 5, 1)
        assert sum(run.window_steps) == 36


class TestPrecision:
    def test_bf16(self, tmp_path):
        run, _, _ = trained(settings(tmp_path, precision="bf16", epochs=1, warmup_epochs=0))
        assert run.training_config.precision == "bf16"
        assert run.training_config.precision_detail == "torch.autocast to bfloat16"

    def test_fp32_is_not_tf32_whatever_a_container_set(self, tmp_path, monkeypatch):
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        on_gpu = dataclasses.replace(settings(tmp_path), platform="nvd")
        try:
            assert encdec_model.set_precision(on_gpu) == "float32, without TF32"
            assert torch.get_float32_matmul_precision() == "highest"
            monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
            assert "TF32 by NVIDIA_TF32_OVERRIDE" in encdec_model.set_precision(on_gpu)
        finally:
            torch.set_float32_matmul_precision(before)

    def test_steps_that_overflow_are_counted(self, tmp_path):
        step = encdec_model.Step(
            dataclasses.replace(settings(tmp_path), precision="fp16"), Process().with_device("cpu")
        )
        tokens = torch.zeros(4, 17, dtype=torch.int32)
        step._scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
        for _ in range(2):
            step(tokens)
        assert step.loss_scaling() == (1.0, 0)
        weights = step._module.head.weight.detach().clone()
        step._scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
        step(tokens)
        assert step.loss_scaling() == (2.0**126, 1)
        assert torch.equal(step._module.head.weight, weights)

    def test_without_loss_scaling_there_is_no_scale(self, tmp_path):
        step = encdec_model.Step(settings(tmp_path), Process().with_device("cpu"))
        assert step.loss_scaling() == (None, None)


class TestTwoProcesses:
    def test_as_typed(self, by_torchrun):
        _, run = by_torchrun
        assert run.status == "complete"
        assert run.training_config.num_gpus == 2
        assert run.training_config.global_batch_size == 8
        assert run.parallelism_config.strategy_name == "DistributedDataParallel"
        assert run.timing.over_ranks == "the longest of 2 processes, step by step"

    def test_one_of_them_speaks(self, by_torchrun):
        stdout, _ = by_torchrun
        assert stdout.count("epoch 2 of 3") == 1
        assert stdout.count("writing 2 shards") == 1
        assert stdout.count("\nResults: ") == 1

    def test_samples_are_of_both(self, by_torchrun):
        _, run = by_torchrun
        assert {epoch["samples"] for epoch in run.epochs} == {48}
        assert len(run.steps) == 18
