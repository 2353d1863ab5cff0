"""Many commands at once in one directory: nothing overwritten, nothing torn."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest
from stored_runs import a_run

from tprimat import cli, files
from tprimat.errors import UsageError
from tprimat.results.run import TrainingConfig
from tprimat.store import hosts, store
from tprimat.store.history import HISTORY

posix = pytest.mark.skipif(sys.platform == "win32", reason="commands are called as on POSIX")

WRITERS = 8
NEVER_S = 1800
"""No bound that a slow machine could reach: only what hangs does."""

# A benchmark whose training takes no time: everything but the training is real.
BENCHMARK = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
from fake_framework import fake_framework
from tprimat import frameworks
from tprimat.machine import platforms
from tprimat.cli import run
from tprimat.frameworks.request import Launch
from tprimat.machine.platforms import Machine
from tprimat.results.run import Environment, GpuInfo

machine = Machine("cpu", GpuInfo(device_name="a processor", device_count=1, software_stack="cpu"),
    Environment(cpu_threads=2))
platforms.detect = lambda: machine
child = Path(sys.argv[1]).read_text()
def command(request):
    return Launch((sys.executable, "-c", child, *request.to_arguments()), dict(), Path.cwd())
frameworks.FRAMEWORKS = (fake_framework(command=command, automatic_on=("cpu",)),)
sys.exit(run("benchmark", sys.argv[2:]))
"""

CHILD = """
import os, sys
from pathlib import Path
from tprimat.store import store
from tprimat.record.journal import Journal
from tprimat.record.recorder import Record
from tprimat.record import progress
from tprimat.frameworks.request import Request
from tprimat.results.run import Run, TrainingConfig

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
kept.add(run=made)
for step, time in zip(made.steps, times):
    kept.step(Record(step, 1, time, 2.0, None, None))
kept.add(final=made)
saved = store.save(made, request.output_dir)
kept.remove()
progress.emit(progress.Saved(str(saved.path), store.fingerprint(made)))
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
        self._threads = [
            threading.Thread(target=self._compare, args=(folder, repository), daemon=True)
        ]
        self._threads += [threading.Thread(target=self._read, args=(folder,), daemon=True)]
        for thread in self._threads:
            thread.start()

    def _compare(self, folder, repository):
        while not self._stop.is_set():
            command = start(
                [str(repository / "compare_results.py"), str(folder), "--no-plot"],
                folder.parent,
                repository,
            )
            _, said = command.communicate(timeout=NEVER_S)
            # Before there is a result, the logs of the runs are looked into.
            if (
                command.returncode not in (0, 2, 3)
                or re.search(r"skipped: \S+\.json", said)
                or "Traceback" in said
            ):
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
            thread.join(NEVER_S)
            assert not thread.is_alive()


def check(folder, repetitions):
    """Every run of every benchmark is there, once."""
    found = [run for path in folder.rglob("*.json") for run in store.read(path)]
    assert len({store.fingerprint(run) for run in found}) == len(found) == repetitions
    left = {
        path.name
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in (".json", ".log")
    }
    assert left <= {files.LOCK_NAME, hosts.FILE, "comparison_report.md", "comparison_report.html"}


@posix
def test_eight_benchmarks_with_readers_and_comparisons(tmp_path, repository):
    folder = tmp_path / "output"
    folder.mkdir()
    child = tmp_path / "child.py"
    child.write_text(CHILD)
    readers = Readers(folder, repository)
    options = ["--model", "llama", "--steps", "30", "--runs", "2", "--output-dir", str(folder)]
    # Half of them share a setup and a file, the others have files of their own.
    writers = [
        start(
            [
                "-c",
                BENCHMARK,
                str(child),
                *options,
                *([] if number % 2 else ["--steps", str(30 + number)]),
            ],
            tmp_path,
            repository,
        )
        for number in range(WRITERS)
    ]
    said = [writer.communicate(timeout=NEVER_S) for writer in writers]
    readers.end()
    assert [writer.returncode for writer in writers] == [0] * WRITERS, said
    assert readers.wrong == []
    assert readers.rounds
    check(folder, 2 * WRITERS)
    # Each has read its own run back, not another's.
    for number, (out, _) in enumerate(said):
        steps = 30 if number % 2 else 30 + number
        # A further column names the system where the file has another's runs as well by then.
        assert re.search(
            rf"^llama +(\S.* )?2/2( and \d+ earlier runs?)? +{steps} ", out, re.MULTILINE
        ), out


@posix
@pytest.mark.reliability
def test_eight_real_trainings_at_once(tmp_path, repository):
    pytest.importorskip("lightning")
    folder = tmp_path / "output"
    folder.mkdir()
    readers = Readers(folder, repository)
    options = ["--model", "llama", "--steps", "5", "--output-dir", str(folder)]
    writers = [
        start([str(repository / "benchmark.py"), *options], tmp_path, repository)
        for _ in range(WRITERS)
    ]
    said = [writer.communicate(timeout=NEVER_S) for writer in writers]
    readers.end()
    assert [writer.returncode for writer in writers] == [0] * WRITERS, said
    assert readers.wrong == []
    check(folder, WRITERS)
    (path,) = folder.glob("*.json")
    assert len(json.loads(path.read_bytes())["runs"]) == WRITERS


# One moment of what the others do, at the worst place each


def another(number: int):
    """A run of a setup of its own."""
    return a_run(training_config=TrainingConfig(global_batch_size=number))


def gone_when_opened(monkeypatch, name):
    """Somebody removes a file after it was listed and before it is opened."""
    opened = files.open_plain

    def remove_first(path):
        if path.name == name:
            path.unlink(missing_ok=True)
        return opened(path)

    monkeypatch.setattr(files, "open_plain", remove_first)


def gone_when_read(monkeypatch, name):
    """Somebody removes a file after it was read."""
    decoded = store._decoded

    def remove_then(content, path):
        if path.name == name:
            path.unlink()
        return decoded(content, path)

    monkeypatch.setattr(store, "_decoded", remove_then)


def test_a_file_that_vanishes_before_it_is_opened_was_never_there(tmp_path, monkeypatch):
    kept = store.save(a_run(), tmp_path).path
    gone = store.save(a_run(label="gone"), tmp_path).path
    gone_when_opened(monkeypatch, gone.name)
    loaded, warnings = store.find([tmp_path])
    assert [each.name for each in loaded] == [str(kept)]
    assert warnings == []


def test_a_folder_that_vanishes_was_never_there(tmp_path, monkeypatch):
    store.save(a_run(), tmp_path)
    store.save(a_run(label="below"), tmp_path / "machine")
    walk = os.walk

    def vanishing(folder, onerror):
        if folder == tmp_path / "machine":
            onerror(FileNotFoundError(2, "No such file or directory", str(folder)))
        else:
            yield next(walk(folder))

    monkeypatch.setattr(os, "walk", vanishing)
    loaded, warnings = store.find([tmp_path])
    assert (len(loaded), warnings) == (1, [])


@pytest.mark.parametrize("vanish", [gone_when_opened, gone_when_read])
@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("compare", ["--no-plot", "--results-dir", "OUT", "DIR"]),
        ("compare", ["--baseline", "DIR", "--candidate", "DIR"]),
        ("compare-frameworks", ["--results-dir", "DIR"]),
        ("enhanced-metrics", ["DIR"]),
    ],
)
def test_no_command_stumbles_over_a_file_that_vanishes(
    tmp_path, monkeypatch, capsys, vanish, command, options
):
    folder = tmp_path / "results"
    for label in ("gone", "left", "right"):
        store.save(a_run(label=label, framework="megatron"), folder)
    (gone,) = folder.glob("*gone.json")
    vanish(monkeypatch, gone.name)
    named = [
        option.replace("DIR", str(folder)).replace("OUT", str(tmp_path / "out"))
        for option in options
    ]
    status = cli.run(command, named)
    said = capsys.readouterr().err
    assert status in (0, 3, 4), said
    assert "skipped" not in said
    assert not gone.exists()


def test_a_digest_is_of_what_was_read(tmp_path):
    import hashlib

    path = store.save(a_run(), tmp_path).path
    (loaded,), _ = store.find([tmp_path])
    assert loaded.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("links", [True, False])
def test_under_its_name_there_is_a_whole_result_at_every_moment(tmp_path, monkeypatch, links):
    path = store.save(another(1), tmp_path).path
    seen = []

    def watched(real):
        def call(*arguments, **options):
            seen.append(store.read(path))
            if real.__name__ == "link" and not links:
                raise PermissionError(1, "Operation not permitted")
            found = real(*arguments, **options)
            seen.append(store.read(path))
            return found

        return call

    for name in ("replace", "link", "unlink"):
        monkeypatch.setattr(os, name, watched(getattr(os, name)))
    saved = store.save_as(another(2), path)
    assert seen[0] == (another(1),)
    assert seen[-1] == (another(2),)
    assert {len(runs) for runs in seen} == {1}
    assert store.read(saved.moved) == (another(1),)
    assert store.read(path) == (another(2),)
    left = {each.name for each in tmp_path.rglob("*") if each.is_file()}
    assert left <= {path.name, saved.moved.name, files.LOCK_NAME}


def test_a_writer_that_is_ended_before_the_last_moment_leaves_the_older_result(
    tmp_path, monkeypatch
):
    path = store.save(another(1), tmp_path).path

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.save_as(another(2), path)
    assert store.read(path) == (another(1),)
    saved = store.save_as(another(2), path)
    assert store.read(path) == (another(2),)
    # What it had put into history/ by then is there once.
    assert list((tmp_path / HISTORY).iterdir()) == [saved.moved]
    assert store.read(saved.moved) == (another(1),)


def test_a_full_disk_leaves_the_older_result_and_nothing_in_history(tmp_path, monkeypatch):
    path = store.save(another(1), tmp_path).path

    def full(handle):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(UsageError, match="No space left"):
            store.save_as(another(2), path)
    assert store.read(path) == (another(1),)
    assert not (tmp_path / HISTORY).exists()


def test_a_result_is_located_though_it_is_moved_meanwhile(tmp_path, monkeypatch):
    path = store.save(another(1), tmp_path).path
    read, moved = store.read, []

    def moved_first(file):
        if not moved:
            moved.append(None)
            moved[0] = store.save_as(another(2), path).moved
        return read(file)

    monkeypatch.setattr(store, "read", moved_first)
    assert store.locate(path, store.fingerprint(another(1))) == (another(1), moved[0])


def test_trainings_that_start_in_the_same_second_have_logs_of_their_own(tmp_path):
    from tprimat.measure import training_files

    launcher = types.SimpleNamespace(
        latest_log=lambda request: None, log_name=lambda *_: "benchmark_cpu_llama_20261121_100000"
    )
    framework, request = (
        types.SimpleNamespace(launcher=launcher),
        types.SimpleNamespace(output_dir=tmp_path),
    )
    logs = [training_files.log_path(framework, request) for _ in range(3)]
    assert len({*logs}) == len([*(tmp_path / "logs").iterdir()]) == 3
