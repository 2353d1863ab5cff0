"""Many commands at once in one folder: nothing overwritten, nothing torn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tprimat import store

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="commands are called as on POSIX")

WRITERS = 8

# A benchmark whose training takes no time: everything but the training is real.
BENCHMARK = """
import sys
from pathlib import Path
from tprimat import launch, platforms
from tprimat.commands import _benchmark_session, run
from tprimat.launch.framework import Framework
from tprimat.launch.lightning import LIGHTNING
from tprimat.launch.request import Launch
from tprimat.platforms import Machine
from tprimat.run import Environment, GpuInfo

machine = Machine("cpu", GpuInfo(device_name="a processor", device_count=1, software_stack="cpu"),
    Environment(cpu_threads=2))
platforms.detect = lambda: machine
_benchmark_session.LOOK_SECONDS = 0
child = Path(sys.argv[1]).read_text()
def command(request):
    return Launch((sys.executable, "-c", child, *request.to_arguments()), {}, Path.cwd())
launch.FRAMEWORKS = (Framework("lightning", lambda: None, LIGHTNING.settle, command),)
sys.exit(run("benchmark", sys.argv[2:]))
"""

CHILD = """
import os, sys
from pathlib import Path
from tprimat import store
from tprimat.collect.journal import Journal
from tprimat.collect.recorder import Record
from tprimat.launch import progress
from tprimat.launch.request import Request
from tprimat.run import Run, TrainingConfig

request = Request.from_arguments(sys.argv[1:])
steps = request.steps
times = tuple(0.1 + (os.getpid() * 31 + step) % 997 / 1e6 for step in range(steps))
made = Run(
    platform=request.platform, framework=request.framework, model=request.model, label=request.label,
    timestamp="2026-11-21T10:00:00+00:00",
    training_config=TrainingConfig(max_steps=steps, global_batch_size=2, sequence_length=8, num_gpus=1),
    steps=tuple(range(1, steps + 1)), window_steps=(1,) * steps, step_times=times,
    loss_values=(2.0,) * steps, learning_rates=(None,) * steps, grad_norms=(None,) * steps, lines=(None,) * steps,
)
kept = Journal(request.output_dir)
kept.setup(made)
for step, time in zip(made.steps, times):
    kept.step(Record(step, 1, time, 2.0, None, None))
kept.final(made)
saved = store.save(made, request.output_dir)
kept.remove()
progress.tell(progress.Saved(str(saved.path), store.fingerprint(made)))
"""


def start(arguments, cwd, repository):
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(repository)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class Readers:
    """Commands that read while others write, again and again; what they found wrong."""

    def __init__(self, folder: Path, repository: Path) -> None:
        self.wrong: list[str] = []
        self.rounds = 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._compare, args=(folder, repository), daemon=True)]
        self._threads += [threading.Thread(target=self._read, args=(folder,), daemon=True)]
        for thread in self._threads:
            thread.start()

    def _compare(self, folder, repository):
        while not self._stop.is_set():
            command = start(
                [str(repository / "compare_results.py"), str(folder), "--no-plot"], folder.parent, repository
            )
            _, said = command.communicate(timeout=120)
            if command.returncode not in (0, 2, 3) or "passed over" in said or "Traceback" in said:
                self.wrong.append(f"compare: {command.returncode}: {said}")
            self.rounds += 1

    def _read(self, folder):
        while not self._stop.is_set():
            _, warnings = store.find([folder])
            self.wrong += warnings
            self._stop.wait(0.01)

    def end(self):
        self._stop.set()
        for thread in self._threads:
            thread.join(180)


def check(folder, repetitions):
    """Every run of every benchmark is there, once."""
    found = [run for path in folder.rglob("*.json") for run in store.read(path)]
    assert len({store.fingerprint(run) for run in found}) == len(found) == repetitions
    left = {path.name for path in folder.rglob("*") if path.is_file() and path.suffix not in (".json", ".log")}
    assert left <= {store.LOCK_NAME, "comparison_report.md", "comparison_report.html"}


def test_eight_benchmarks_with_readers_and_comparisons(tmp_path, repository):
    folder = tmp_path / "output"
    folder.mkdir()
    child = tmp_path / "child.py"
    child.write_text(CHILD)
    readers = Readers(folder, repository)
    options = ["--model", "llama", "--steps", "30", "--runs", "2", "--output-dir", str(folder)]
    # Half of them share a setup and a file, the others push each other's file to history.
    writers = [
        start(
            ["-c", BENCHMARK, str(child), *options, *([] if number % 2 else ["--steps", str(30 + number)])],
            tmp_path,
            repository,
        )
        for number in range(WRITERS)
    ]
    said = [writer.communicate(timeout=300) for writer in writers]
    readers.end()
    assert [writer.returncode for writer in writers] == [0] * WRITERS, said
    assert readers.wrong == []
    assert readers.rounds
    check(folder, 2 * WRITERS)
    # Each has read its own run back, not another's.
    for number, (out, _) in enumerate(said):
        steps = 30 if number % 2 else 30 + number
        assert any(line.split()[:3] == ["llama", "2/2", str(steps)] for line in out.splitlines()), out


@pytest.mark.reliability
def test_eight_real_trainings_at_once(tmp_path, repository):
    pytest.importorskip("lightning")
    folder = tmp_path / "output"
    folder.mkdir()
    readers = Readers(folder, repository)
    options = ["--model", "llama", "--steps", "5", "--output-dir", str(folder)]
    writers = [start([str(repository / "benchmark.py"), *options], tmp_path, repository) for _ in range(WRITERS)]
    said = [writer.communicate(timeout=500) for writer in writers]
    readers.end()
    assert [writer.returncode for writer in writers] == [0] * WRITERS, said
    assert readers.wrong == []
    check(folder, WRITERS)
    (path,) = folder.glob("*.json")
    assert len(json.loads(path.read_bytes())["runs"]) == WRITERS
