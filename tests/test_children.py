"""Runs that misbehave under `benchmark`: each ends with its whole group, and what it left is kept
and shown.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from fake_framework import fake_framework

from tprimat import frameworks
from tprimat.cli import run
from tprimat.errors import ExitStatus
from tprimat.frameworks.request import Launch
from tprimat.machine import platforms
from tprimat.machine.platforms import Machine
from tprimat.measure import process, session
from tprimat.results.run import Environment, GpuInfo
from tprimat.store import store

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="signals and process groups are POSIX's"
)

CPU = Machine(
    "cpu",
    GpuInfo(device_name="a processor", device_count=1, software_stack="cpu"),
    Environment(cpu_threads=2),
)

# Records two steps as a real training does, then does what the test wants.
CHILD = """
import datetime, os, signal, subprocess, sys, time
from tprimat.record.journal import Journal
from tprimat.record.recorder import Record
from tprimat.frameworks.request import Request
from tprimat.results.run import Run, TrainingConfig

request = Request.from_arguments(sys.argv[1:])
kept = Journal(request.output_dir)
kept.add(run=Run(
    platform=request.platform, framework=request.framework, model=request.model, label=request.label,
    timestamp=(datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours={back})).isoformat(),
    training_config=TrainingConfig(max_steps=request.steps, global_batch_size=2, sequence_length=8, num_gpus=1),
))
for step in (1, 2):
    kept.step(Record(step, 1, 0.1, 2.0, None, None))
print("the last line of the training", flush=True)
{act}
"""
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"


@pytest.fixture
def child(monkeypatch, tmp_path):
    """Makes `benchmark` train with a child that does this in the end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(platforms, "detect", lambda: CPU)

    def behave(act, back=0):
        code = CHILD.format(act=act, back=back)

        def command(request):
            return Launch((sys.executable, "-c", code, *request.to_arguments()), {}, tmp_path)

        monkeypatch.setattr(frameworks, "FRAMEWORKS", (fake_framework(command=command),))

    return behave


def lives(pid):
    """Whether a process is there and is no zombie, which in a container nobody may bury."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def patiently(condition):
    """Waits for what must come; what never comes is what this fails by."""
    deadline = time.monotonic() + 1800
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def one_incomplete(tmp_path, status="incomplete"):
    """The one result, of a training that never wrote it."""
    (run,) = store.read(tmp_path / "output" / "benchmark_cpu_llama.json")
    assert (run.status, run.steps, run.step_times) == (status, (1, 2), (0.1, 0.1))
    assert not (tmp_path / "output" / ".journal").exists()
    (log,) = (tmp_path / "output" / "logs").iterdir()
    assert "the last line of the training" in log.read_text()
    return run


@pytest.mark.parametrize(
    ("act", "status", "told"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, "incomplete"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV, "failed"),
        ("os._exit(0)", 0, "incomplete"),
        ("os._exit(41)", 41, "failed"),
    ],
    ids=["killed", "crashed", "as if all were well", "with a status"],
)
def test_one_that_dies_silently(child, tmp_path, capsys, monkeypatch, act, status, told):
    run_process, ended = process.run, []
    monkeypatch.setattr(
        process,
        "run",
        lambda *given, **named: ended.append(run_process(*given, **named)) or ended[-1],
    )
    child(act)
    assert run("benchmark", ["--model", "llama"]) == ExitStatus.TRAINING_FAILED
    assert ended[0].status == status
    shown = capsys.readouterr()
    reason = one_incomplete(tmp_path, told).status_reason
    assert reason.startswith("the program stopped before it could write the result")
    assert "    the last line of the training" in shown.err
    assert "full log: output/logs/benchmark_cpu_llama_" in shown.err


def test_what_is_left_is_its_own_though_the_clock_was_set_back(child, tmp_path, capsys):
    child("os.kill(os.getpid(), signal.SIGKILL)", back=2)
    assert run("benchmark", ["--model", "llama"]) == ExitStatus.TRAINING_FAILED
    one_incomplete(tmp_path)
    assert "Results: output/benchmark_cpu_llama.json" in capsys.readouterr().out


def test_one_that_hangs_ignores_sigterm_and_has_deaf_children(child, tmp_path, capsys, monkeypatch):
    """All three at once: it is ended by its time limit, and its family with it."""
    monkeypatch.setattr(session, "START_SECONDS", 1.0)
    run_process = process.run
    monkeypatch.setattr(
        process, "run", lambda *given, **named: run_process(*given, **{**named, "grace_s": 1.0})
    )
    pids = tmp_path / "pids"
    child(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nof_group ="
        f" subprocess.Popen([sys.executable, '-c', {DEAF!r}])\napart ="
        f" subprocess.Popen([sys.executable, '-c', {DEAF!r}],"
        f" start_new_session=True)\nopen({os.fspath(pids)!r} + '.new', 'w').write(f'{{os.getpid()}}"
        f" {{of_group.pid}} {{apart.pid}}')\nos.rename({os.fspath(pids)!r} + '.new',"
        f" {os.fspath(pids)!r})\ntime.sleep(3600)"
    )
    # Its time begins to count when it has done all that.
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() if pids.exists() else 0.0)
    assert (
        run("benchmark", ["--model", "llama", "--time-limit", "1s"]) == ExitStatus.TRAINING_FAILED
    )
    monkeypatch.setattr(time, "monotonic", clock)
    assert "killed: far exceeded its time limit" in capsys.readouterr().err
    assert patiently(lambda: not any(lives(int(pid)) for pid in pids.read_text().split()))
    one_incomplete(tmp_path, "failed")


def test_ctrl_c_ends_one_that_ignores_it(child, tmp_path, capsys, monkeypatch):
    run_process = process.run
    monkeypatch.setattr(
        process, "run", lambda *given, **named: run_process(*given, **{**named, "grace_s": 1.0})
    )
    pid = tmp_path / "pid"
    child(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        f"open({os.fspath(pid)!r} + '.new', 'w').write(str(os.getpid()))\n"
        f"os.rename({os.fspath(pid)!r} + '.new', {os.fspath(pid)!r})\n"
        "time.sleep(3600)"
    )

    def interrupt():
        patiently(pid.exists)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    assert run("benchmark", ["--model", "llama"]) == ExitStatus.TRAINING_FAILED
    thread.join()
    assert "interrupted; partial results saved (status: incomplete)" in capsys.readouterr().err
    assert patiently(lambda: not lives(int(pid.read_text())))
    one_incomplete(tmp_path)
