"""A started command and its descendants: nobody outlives it, whoever is killed first."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tprimat.errors import UsageError
from tprimat.machine import held_memory, process_group
from tprimat.machine.process_group import ProcessGroup

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="what is looked at here is told by /proc"
)

SLEEP = "import time; time.sleep(600)"
UNSTOPPABLE = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def runs(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def gone(*pids: int, timeout_s: float = 300.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while any(map(runs, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not any(map(runs, pids))


def start(code: str, tmp_path: Path, grace_period_s: float = 20.0) -> ProcessGroup:
    return ProcessGroup([sys.executable, "-uc", code], dict(os.environ), tmp_path, grace_period_s)


def test_the_command_is_what_runs_and_its_input_is_empty(tmp_path):
    started = start(
        "import os, sys; print(os.getpid(), sys.argv, repr(sys.stdin.read())); sys.exit(7)",
        tmp_path,
    )
    said = started.stdout.read().decode().split(maxsplit=1)
    assert said[1] == "['-c'] ''\n"
    while started.status() is None:
        time.sleep(0.01)
    assert started.reap() == 7


def test_what_was_read_of_the_machine_before_the_start_is_handed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(held_memory, "_READ", {"0:aa-0": 0.5, "1:aa-1": None})
    started = start(f"import os; print(os.environ[{held_memory.VARIABLE!r}])", tmp_path)
    assert json.loads(started.stdout.read()) == {"0:aa-0": 0.5, "1:aa-1": None}
    started.reap()


def test_strange_arguments_arrive_as_they_are(tmp_path):
    strange = ["a b", "$HOME", "'\"", "-n", "", "*", "ü\n"]
    argv = [sys.executable, "-uc", "import sys; print(ascii(sys.argv[1:]))", *strange]
    started = ProcessGroup(argv, dict(os.environ), tmp_path, 5)
    assert started.stdout.read().decode() == ascii(strange) + "\n"
    while started.status() is None:
        time.sleep(0.01)
    assert started.reap() == 0


def test_one_that_left_the_group_is_killed_all_the_same(tmp_path):
    code = (
        "import subprocess, sys\n"
        f"left = subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True)\n"
        "print(left.pid)\n"
    )
    started = start(code, tmp_path)
    stray = int(started.stdout.readline())
    while started.status() is None:
        time.sleep(0.01)
    assert started.reap() == 0
    assert gone(stray)


def test_its_watchdog_stops(tmp_path):
    before = watchdogs()
    started = start("print(1)", tmp_path)
    # While it is being started its words can't be read yet.
    started.stdout.read()
    assert watchdogs() - before
    started.reap()
    assert gone(*(watchdogs() - before))


def watchdogs() -> set[int]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"tprimat-watchdog" in path.read_bytes().split(b"\0"):
                found.add(int(path.parent.name))
        except OSError:
            continue
    return found


COMMAND = """
import os, sys, time
from pathlib import Path
from tprimat.machine.process_group import ProcessGroup
started = ProcessGroup([sys.executable, "-uc", sys.argv[1]], dict(os.environ), Path.cwd(), {grace})
for _ in range({lines}):
    print(started.stdout.readline().decode().strip(), flush=True)
time.sleep(600)
"""


def commanded(code: str, repository: Path, lines: int = 1, grace: float = 3):
    """A command of ours that has started a child, and the numbers that the child printed."""
    command = subprocess.Popen(
        [sys.executable, "-c", COMMAND.format(lines=lines, grace=grace), code],
        cwd=repository,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    return command, [int(command.stdout.readline()) for _ in range(lines)]


class TestACommandThatIsKilled:
    def test_leaves_no_training(self, repository):
        command, (child,) = commanded(f"import os; print(os.getpid()); {SLEEP}", repository)
        command.kill()
        command.communicate()
        assert gone(child)

    def test_the_training_may_write_its_result(self, repository, tmp_path):
        code = (
            "import os, signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_:"
            f" (open({str(tmp_path / 'result')!r}, 'w').close(),"
            " sys.exit()))\nprint(os.getpid())\ntime.sleep(600)\n"
        )
        command, (child,) = commanded(code, repository, grace=120)
        command.kill()
        command.communicate()
        assert gone(child)
        assert (tmp_path / "result").exists()

    def test_one_that_ignores_sigterm_and_one_that_left_the_group_are_killed(self, repository):
        code = (
            "import os, signal, subprocess, sys, time\nsignal.signal(signal.SIGTERM,"
            f" signal.SIG_IGN)\nprint(subprocess.Popen([sys.executable, '-c', {UNSTOPPABLE!r}],"
            " start_new_session=True).pid)\nprint(os.getpid())\ntime.sleep(600)\n"
        )
        command, pids = commanded(code, repository, lines=2)
        command.kill()
        command.communicate()
        assert gone(*pids)

    def test_at_whatever_moment(self, repository, tmp_path):
        """Killed while it starts the child: then there is none, or it goes."""
        code = f"import os; open({str(tmp_path)!r} + '/' + str(os.getpid()), 'w').close(); {SLEEP}"
        for delay in range(12):
            command = subprocess.Popen(
                [sys.executable, "-c", COMMAND.format(lines=0, grace=3), code],
                cwd=repository,
                start_new_session=True,
            )
            time.sleep(0.05 + delay * 0.02)
            command.send_signal(signal.SIGKILL)
            command.wait()
        time.sleep(0.5)
        pids = [int(path.name) for path in tmp_path.iterdir()]
        assert gone(*pids)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("no-such-program", "No such file or directory"),
        ("./nothing", "No such file"),
        ("./plain", "Permission denied"),
    ],
)
def test_what_can_not_be_started_is_one_line(tmp_path, program, words):
    (tmp_path / "plain").write_text("text")
    with pytest.raises(UsageError, match=f"cannot be started: {words}"):
        ProcessGroup([program], dict(os.environ), tmp_path, 5)


def test_a_folder_that_is_gone_is_one_line_and_leaves_no_watchdog(tmp_path):
    before = watchdogs()
    with pytest.raises(UsageError, match="cannot be started: No such file or directory"):
        ProcessGroup([sys.executable, "-c", ""], dict(os.environ), tmp_path / "gone", 5)
    assert gone(*(watchdogs() - before))


def test_one_that_nobody_can_end_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(process_group, "GONE_SECONDS", 0.2)
    started = start(SLEEP, tmp_path)
    with monkeypatch.context() as patch:
        # As one that a driver holds in the kernel.
        patch.setattr(ProcessGroup, "kill", lambda self: None)
        assert started.reap() == -signal.SIGKILL
    started.kill()
