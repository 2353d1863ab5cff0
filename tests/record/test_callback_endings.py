"""However a training ends, there is a result that says so."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tprimat.redaction import INCLUDE_HOST
from tprimat.store import store

pytestmark = pytest.mark.filterwarnings("ignore")


def test_an_exception_leaves_a_result_with_the_steps_so_far(trainings, callback, capsys):
    ours = callback(quiet=False, model_name="llama")
    module = trainings.linear(fail_at=3, failure=ValueError("no such token\nand more"))
    with pytest.raises(ValueError, match="no such token"):
        trainings.fit(ours, module, max_steps=10)
    (run,) = store.read(ours.path)
    assert run.status == "failed"
    assert run.status_reason == "ValueError: no such token"
    assert run.steps == (1, 2, 3)
    assert all(run.step_times)
    out = capsys.readouterr().out
    assert "Recorded llama: 3 steps, failed: ValueError: no such token" in out


def test_out_of_memory_is_called_that(trainings, callback):
    ours = callback()
    failure = RuntimeError(
        "[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory"
    )
    with pytest.raises(RuntimeError):
        trainings.fit(ours, trainings.linear(fail_at=1, failure=failure), max_steps=10)
    assert ours.result.status == "failed"
    assert ours.result.status_reason.startswith("out of memory: RuntimeError: ")


def test_ctrl_c_leaves_an_incomplete_result(trainings, callback):
    usual = signal.getsignal(signal.SIGINT)
    ours = callback()
    try:
        with contextlib.suppress(SystemExit, KeyboardInterrupt):  # Lightning before 2.5 swallows it
            trainings.fit(
                ours, trainings.linear(fail_at=2, failure=KeyboardInterrupt()), max_steps=10
            )
    finally:
        signal.signal(signal.SIGINT, usual)
    assert ours.result.status == "incomplete"
    assert ours.result.status_reason == "interrupted (Ctrl-C)"
    assert ours.result.steps == (1, 2)


def test_a_failure_before_the_first_step_leaves_a_result_too(trainings, callback):
    class Unbuildable(trainings.linear):
        def configure_optimizers(self):
            raise RuntimeError("no optimizer")

    ours = callback(model_name="llama", sequence_length=8)
    with pytest.raises(RuntimeError, match="no optimizer"):
        trainings.fit(ours, Unbuildable(), max_steps=10)
    (run,) = store.read(ours.path)
    assert run.status == "failed"
    assert run.steps == ()
    assert run.training_config.sequence_length == 8


def test_handlers_are_as_before_however_it_ended(trainings, callback):
    usual = signal.getsignal(signal.SIGTERM)
    trainings.fit(callback(), max_steps=2)
    assert signal.getsignal(signal.SIGTERM) == usual
    with pytest.raises(ValueError, match="gone wrong"):
        trainings.fit(
            callback(), trainings.linear(fail_at=1, failure=ValueError("gone wrong")), max_steps=4
        )
    assert signal.getsignal(signal.SIGTERM) == usual


def test_a_training_outside_the_main_thread_is_measured_too(trainings, callback):
    ours = callback()
    thread = threading.Thread(target=lambda: trainings.fit(ours, max_steps=3))
    thread.start()
    thread.join()
    assert ours.result.steps == (1, 2, 3)


def test_a_failure_after_the_end_leaves_the_result_as_it_is(trainings, callback):
    class FailsLate(trainings.linear):
        def on_train_end(self):
            raise ValueError("too late")

    ours = callback()
    with pytest.raises(ValueError, match="too late"):
        trainings.fit(ours, FailsLate(), max_steps=3)
    assert ours.result.status == "complete"
    assert len(store.read(ours.path)) == 1


def test_a_folder_that_can_not_be_written_costs_neither_training_nor_result(
    trainings, callback, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv(INCLUDE_HOST, "1")
    blocked = tmp_path / "a file"
    blocked.write_text("in the way")
    ours = callback(output_dir=blocked / "output", quiet=False)
    trainings.fit(ours, max_steps=3)
    assert ours.result.status == "complete"
    (run,) = store.read(ours.path)
    assert run == ours.result
    assert "tensorprimat-" in str(ours.path)
    out, errors = capsys.readouterr()
    (line,) = [line for line in errors.splitlines() if line.startswith("error:")]
    assert str(blocked) in line
    assert f"hint:  the result is in {ours.path}" in errors.splitlines()
    assert f"Results: {ours.path}" in out
    ours.path.unlink()


def test_with_nowhere_to_write_the_training_still_ends_well(
    trainings, callback, tmp_path, capsys, monkeypatch
):
    blocked = tmp_path / "a file"
    blocked.write_text("in the way")
    monkeypatch.setattr("tempfile.mkdtemp", _no_space)
    ours = callback(output_dir=blocked / "output", quiet=False)
    trainings.fit(ours, max_steps=3)
    assert ours.path is None
    assert ours.result.steps == (1, 2, 3)
    out, errors = capsys.readouterr()
    assert "Results were not saved" in out
    assert "error: no temporary directory either: No space left on device" in errors


def _no_space(**_):
    raise OSError(28, "No space left on device")


def test_an_interruption_while_the_result_is_written_does_not_lose_it(
    trainings, callback, monkeypatch
):
    from tprimat.record import result

    write, interrupted = result.write, []

    def once_interrupted(*arguments):
        if not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt
        return write(*arguments)

    monkeypatch.setattr(result, "write", once_interrupted)
    usual = signal.getsignal(signal.SIGINT)
    ours = callback()
    try:
        with contextlib.suppress(SystemExit, KeyboardInterrupt):  # Lightning before 2.5 swallows it
            trainings.fit(ours, max_steps=3)
    finally:
        signal.signal(signal.SIGINT, usual)
    (run,) = store.read(ours.path)
    assert run.steps == (1, 2, 3)
    assert run.status == "incomplete"


PROGRAM = """
import logging, sys, time
import torch, lightning.pytorch as pl
from benchmark_utils import BenchmarkCallback

class Slow(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def training_step(self, batch, batch_idx):
        time.sleep(0.05)
        return self.layer(batch).square().mean()
    def configure_optimizers(self):
        {hang}
        return torch.optim.SGD(self.parameters(), lr=0.01)

callback = BenchmarkCallback(output_dir=sys.argv[1], model_name="llama", log_every=1, sequence_length=8)
trainer = pl.Trainer(accelerator="cpu", devices={devices}, strategy="{strategy}", max_steps={steps}, max_epochs=1,
    callbacks=[callback], logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False)
print("about to train", flush=True)
trainer.fit(Slow(), torch.utils.data.DataLoader(torch.randn(100000, 8), batch_size=2))
"""


def program(folder: Path, **fields) -> Path:
    """A training script of somebody else's, in a directory of its own."""
    script = folder / "train.py"
    usual = {"hang": "pass", "devices": 1, "strategy": "auto", "steps": 100000}
    script.write_text(PROGRAM.format(**{**usual, **fields}))
    return script


def environment(repository):
    return {**os.environ, "PYTHONPATH": str(repository), "PYTHONWARNINGS": "ignore"}


FORKS = """
import os, runpy, sys
import lightning.pytorch
for line in sys.stdin:
    script, directory, said = line.split()
    child = os.fork()
    if not child:
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT), 1)
        sys.argv = [script, directory]
        runpy.run_path(script, run_name="__main__")
        os._exit(0)
    print(child, flush=True)
    os.waitpid(child, 0)
    print("ended", flush=True)
"""


@pytest.fixture(scope="module")
def forks(repository):
    """A process that has imported Lightning, which takes longer than a training, and forks for each
    of several.
    """
    command = [sys.executable, "-c", FORKS]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(
        command, env=environment(repository), text=True, bufsize=1, **pipes
    ) as process:
        yield process
        process.stdin.close()
        process.kill()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows delivers no SIGTERM")
@pytest.mark.parametrize(
    ("hang", "wait_for", "number", "reason"),
    [
        ("pass", "Step   3", signal.SIGTERM, "terminated (SIGTERM)"),
        ("pass", "Step   3", signal.SIGINT, "interrupted (Ctrl-C)"),
        # Before the first step nobody but us would leave a result.
        (
            "print('hanging', flush=True); time.sleep(3600)",
            "hanging",
            signal.SIGTERM,
            "terminated (SIGTERM)",
        ),
    ],
    ids=["term", "int", "term while it is set up"],
)
def test_a_signal_leaves_an_incomplete_result(
    trainings, forks, tmp_path, hang, wait_for, number, reason
):
    said = tmp_path / "said"
    said.touch()
    print(program(tmp_path, hang=hang), tmp_path / "output", said, file=forks.stdin)
    training = int(forks.stdout.readline())
    try:
        while wait_for not in said.read_text() and forks.poll() is None:
            time.sleep(0.02)
        os.kill(training, number)
        assert forks.stdout.readline() == "ended\n"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(training, signal.SIGKILL)
    (run,) = store.read(tmp_path / "output" / "benchmark_cpu_llama.json")
    assert run.status == "incomplete"
    assert run.status_reason == reason
    assert len(run.steps) >= (3 if wait_for.startswith("Step") else 0)
    assert all(run.step_times)


@pytest.mark.slow
def test_two_processes_write_one_result(trainings, repository, tmp_path):
    started = time.monotonic()
    done = subprocess.run(
        [
            sys.executable,
            str(program(tmp_path, devices=2, strategy="ddp", steps=4)),
            str(tmp_path / "output"),
        ],
        env=environment(repository),
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    (run,) = store.read(tmp_path / "output" / "benchmark_cpu_llama.json")
    assert run.status == "complete"
    assert run.steps == (1, 2, 3, 4)
    assert sum(run.step_times) < time.monotonic() - started
    assert run.training_config.num_gpus == 2
    assert run.training_config.global_batch_size == 4
    assert run.parallelism_config.data_parallel_size == 2
    assert run.timing.over_ranks == "the longest of 2 processes, step by step"
    assert any(
        "loss_values are those of the first of 2 processes" in warning for warning in run.warnings
    )
    assert done.stdout.count("Recording on ") == 1
    assert done.stdout.count("Recorded llama: ") == 1
