"""No memory, no space, no directory, a clock that is set: one line, and what was measured is
kept.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tprimat.errors import ExitStatus
from tprimat.store import hosts, store

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 256 KiB; skips where this user may not mount one."""
    yield from mounted(tmp_path / "disk", "size=256k")


def mounted(folder, options):
    folder.mkdir()
    may = sys.platform == "linux" and os.geteuid() == 0 and shutil.which("mount")
    if (
        not may
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True
        ).returncode
    ):
        pytest.skip("this user may not mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk):
    """Leaves not a byte."""
    with (disk / "filler").open("ab", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


class At:
    """Does something after a step."""

    def __new__(cls, step, action):
        from lightning.pytorch.callbacks import Callback

        class Acts(Callback):
            def on_train_batch_end(self, trainer, *_):
                if trainer.global_step == step:
                    action()

        return Acts()


class TestMemory:
    def test_of_a_gpu(self, trainings, callback):
        import torch

        ours = callback()
        failure = torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total\nof 80 GiB"
        )
        with pytest.raises(torch.OutOfMemoryError):
            trainings.fit(ours, trainings.linear(fail_at=4, failure=failure), max_steps=10)
        (run,) = store.read(ours.path)
        assert run.status == "failed"
        assert run.status_reason.startswith(
            "out of memory: OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00"
        )
        assert run.steps == (1, 2, 3, 4)
        assert all(run.step_times)

    @pytest.mark.reliability
    @pytest.mark.skipif(
        sys.platform != "linux", reason="the limit of a process's memory is Linux's here"
    )
    def test_of_the_machine(self, trainings, repository, tmp_path):
        script = tmp_path / "train.py"
        script.write_text(HUNGRY)
        done = subprocess.run(
            [sys.executable, str(script), str(tmp_path / "output")],
            env={**os.environ, "PYTHONPATH": str(repository), "PYTHONWARNINGS": "ignore"},
            capture_output=True,
            text=True,
            timeout=1800,
        )
        assert done.returncode != 0
        (run,) = store.read(tmp_path / "output" / "benchmark_cpu_llama.json")
        assert run.status == "failed"
        assert run.status_reason.startswith("out of memory: ")
        assert len(run.steps) >= 2
        assert all(run.step_times)


HUNGRY = """
import resource, sys
import torch, lightning.pytorch as pl
from benchmark_utils import BenchmarkCallback

class Hungry(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
        self.eaten = []
    def training_step(self, batch, batch_idx):
        if batch_idx == 1:
            used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + 256 * 2**20,) * 2)
        if batch_idx:
            self.eaten.append(torch.ones(64 * 2**20, dtype=torch.uint8))
        return self.layer(batch).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

trainer = pl.Trainer(accelerator="cpu", max_steps=100, max_epochs=1, logger=False, enable_checkpointing=False,
    callbacks=[BenchmarkCallback(output_dir=sys.argv[1], model_name="llama")], enable_progress_bar=False,
    enable_model_summary=False)
trainer.fit(Hungry(), torch.utils.data.DataLoader(torch.randn(4000, 8), batch_size=2))
"""


class TestDisk:
    def test_full_while_it_trains(self, trainings, callback, small_disk, capsys):
        folder = small_disk / "output"
        ours = callback(output_dir=folder, quiet=False, model_name="llama")
        trainings.fit(ours, more=[At(3, lambda: fill(small_disk))], max_steps=6)
        assert ours.result.status == "complete"
        (run,) = store.read(ours.path)
        assert run == hosts.hidden(ours.result, hosts.of_process(ours.path.parent))
        assert run.steps == (1, 2, 3, 4, 5, 6)
        assert folder not in ours.path.parents
        errors = capsys.readouterr().err.splitlines()
        (line,) = [line for line in errors if line.startswith("error:")]
        assert "No space left on device" in line
        assert f"hint:  the result is in {ours.path}" in errors
        assert not list(folder.glob("*.json"))
        assert not list(folder.glob(".*.part"))
        shutil.rmtree(ours.path.parent)

    def test_earlier_results_stay_whole(self, trainings, callback, small_disk):
        first = callback(output_dir=small_disk)
        trainings.fit(first, max_steps=3)
        before = first.path.read_bytes()
        second = callback(output_dir=small_disk)
        trainings.fit(second, more=[At(2, lambda: fill(small_disk))], max_steps=3)
        assert first.path.read_bytes() == before
        assert second.path != first.path
        shutil.rmtree(second.path.parent)

    @pytest.mark.reliability
    def test_the_command_says_so_and_where_the_result_is(
        self, trainings, small_disk, repository, tmp_path
    ):
        (small_disk / "output" / "logs").mkdir(parents=True)
        fill(small_disk)
        temporary = tmp_path / "temporary"
        temporary.mkdir()
        done = benchmark(repository, tmp_path, small_disk / "output", TMPDIR=str(temporary))
        assert done.returncode == ExitStatus.TRAINING_FAILED, done.stderr
        (line,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
        assert "can't be written; the result is in" in line
        (path,) = temporary.rglob("benchmark_cpu_llama.json")
        assert str(path) in line
        (run,) = store.read(path)
        assert (run.status, len(run.steps)) == ("complete", 4)

    def test_full_for_every_folder(self, repository, small_disk, tmp_path):
        """Not even a log can be begun: nothing is trained in vain."""
        pytest.importorskip("torch")
        in_the_way = tmp_path / "file"
        in_the_way.write_text("x")
        done = benchmark(repository, tmp_path, in_the_way / "output")
        assert done.returncode == ExitStatus.USAGE
        assert done.stderr.count("error: ") == 1
        assert "choose another --output-dir" in done.stderr


class TestFolders:
    def test_read_only_is_said_before_anything_trains(self, repository, tmp_path):
        pytest.importorskip("torch")
        for folder in mounted(tmp_path / "disk", "size=256k,ro"):
            done = benchmark(repository, tmp_path, folder / "output")
            assert done.returncode == ExitStatus.USAGE
            (line,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
            assert "Read-only file system" in line

    def test_one_that_vanishes_is_made_again(self, trainings, callback, tmp_path):
        ours = callback()
        trainings.fit(ours, more=[At(3, lambda: shutil.rmtree(tmp_path / "output"))], max_steps=6)
        (run,) = store.read(ours.path)
        assert run.steps == (1, 2, 3, 4, 5, 6)
        assert ours.path.parent == tmp_path / "output"

    def test_a_journal_in_a_read_only_folder_is_said_and_hinders_no_command(
        self, repository, tmp_path
    ):
        for folder in mounted(tmp_path / "disk", "size=256k"):
            journals = folder / ".journal"
            journals.mkdir()
            (journals / "1-abc.jsonl").write_bytes(b'{"journal":1,"owner":{"pid":999999999}}\n')
            subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
            done = subprocess.run(
                [sys.executable, str(repository / "compare_results.py"), str(folder), "--no-plot"],
                cwd=tmp_path,
                capture_output=True,
                text=True,
            )
            assert done.returncode in (ExitStatus.USAGE, ExitStatus.NOT_COMPARABLE)
            assert "can't be saved as a result: Read-only file system" in done.stderr
            assert "Traceback" not in done.stderr


def benchmark(repository, cwd, folder, **settings):
    return subprocess.run(
        [
            *(sys.executable, str(repository / "benchmark.py"), "--model", "llama", "--steps", "4"),
            *("--output-dir", str(folder)),
        ],
        cwd=cwd,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=1800,
    )


class TestClock:
    @pytest.mark.parametrize(
        "seconds", [7200.0, -3600.0, -10 * 365 * 86400.0], ids=["back", "an hour", "ten years"]
    )
    def test_set_while_it_trains(self, trainings, callback, monkeypatch, seconds):
        real = time.time
        back = [0.0]
        monkeypatch.setattr(time, "time", lambda: real() - back[0])

        def set_back():
            back[0] = seconds

        ours = callback()
        trainings.fit(ours, more=[At(3, set_back)], max_steps=6)
        (run,) = store.read(ours.path)
        assert run.status == "complete"
        assert run.steps == (1, 2, 3, 4, 5, 6)
        assert all(0 < seconds < 60 for seconds in run.step_times)
        assert not any("clock" in warning for warning in run.warnings)

    def test_results_from_the_future_are_joined_as_any(self, trainings, callback, tmp_path):
        first = callback()
        trainings.fit(first, max_steps=3)
        far = time.time() + 1e6
        os.utime(first.path, (far, far))
        trainings.fit(callback(), max_steps=3)
        assert len(store.read(first.path)) == 2
        os.utime(first.path, (far, far))
        trainings.fit(callback(sequence_length=8), max_steps=3)
        assert len(list((Path(tmp_path) / "output").rglob("*.json"))) == 2
        assert len(store.read(first.path)) == 2
