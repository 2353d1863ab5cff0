"""Children: their environment, their output, and their end, which is always the whole group's."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from tprimat.errors import UsageError
from tprimat.frameworks.request import Launch
from tprimat.measure import output, process
from tprimat.record import progress

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX's")


class Watched:
    """A child that was run, and what was handed on of it."""

    def __init__(self, code, tmp_path, env=None, **options):
        self.lines = []
        self.messages = []
        self.log = tmp_path / "logs" / "child.log"
        launch = Launch(
            (sys.executable, "-c", code), {"PYTHONUNBUFFERED": "1", **(env or {})}, tmp_path
        )
        self.ended = process.run(
            launch, self.log, on_line=self.lines.append, on_message=self.messages.append, **options
        )


def exists(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie whose parent is gone waits for init, which a container may lack.
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def gone(pid, patience_s=300.0):
    deadline = time.monotonic() + patience_s
    while exists(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not exists(pid)


def when(condition, action):
    """Acts, from another thread, as soon as a condition holds.

    The log begins with the command: a word that is waited for must not stand in it as it is.
    """

    def wait():
        while not condition():
            time.sleep(0.01)
        action()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


class TestOutput:
    def test_standard_output_is_handed_on_and_everything_is_logged(self, tmp_path):
        child = Watched(
            "import sys; print('one'); print('two ü'); print('warning', file=sys.stderr)", tmp_path
        )
        assert child.lines == ["one", "two ü"]
        logged = child.log.read_text(encoding="utf-8").splitlines()
        assert logged[0].startswith("$ cd ")
        assert sorted(logged[1:]) == ["one", "two ü", "warning"]
        assert (child.ended.status, child.ended.interrupted, child.ended.overdue) == (
            0,
            False,
            False,
        )

    def test_messages_are_neither_lines_nor_logged(self, tmp_path):
        saved = progress.encode(progress.Saved("/x.json"))
        child = Watched(f"print({saved!r}); print('half a line' + {saved!r})", tmp_path)
        assert child.messages == [progress.Saved("/x.json")] * 2
        assert child.lines == ["half a line"]
        assert progress.MARK not in child.log.read_text(encoding="utf-8")

    def test_the_child_is_asked_for_messages(self, tmp_path):
        assert Watched(f"import os; print(os.environ[{progress.VARIABLE!r}])", tmp_path).lines == [
            "1"
        ]

    def test_status_and_last_lines(self, tmp_path):
        child = Watched("for i in range(100): print(i)\nraise SystemExit(3)", tmp_path)
        assert child.ended.status == 3
        assert child.ended.tail == tuple(map(str, range(100 - output.TAIL_LINES, 100)))

    def test_bytes_that_are_no_text(self, tmp_path):
        child = Watched("import os; os.write(1, b'\\xff\\xfe broken\\n')", tmp_path)
        assert child.lines == ["\ufffd\ufffd broken"]

    def test_a_last_line_without_an_end(self, tmp_path):
        assert Watched("import os; os.write(1, b'cut')", tmp_path).lines == ["cut"]


class TestEnvironment:
    def test_the_package_is_found_from_any_folder(self, tmp_path, repository, monkeypatch):
        monkeypatch.setenv("PYTHONPATH", "/mine")
        child = Watched(
            "import tprimat, os; print(tprimat.__file__); print(os.environ['PYTHONPATH'])", tmp_path
        )
        assert child.lines == [
            str(repository / "tprimat" / "__init__.py"),
            f"{repository}{os.pathsep}/mine",
        ]

    def test_the_launchs_settings_arrive(self, tmp_path):
        assert Watched(
            "import os; print(os.environ['A'], os.getcwd())", tmp_path, {"A": "b"}
        ).lines == [f"b {tmp_path}"]


class TestEnd:
    def test_what_a_child_leaves_behind_goes_with_it(self, tmp_path):
        code = (
            "import subprocess, sys\n"
            "left = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
            "print(left.pid)\n"
        )
        child = Watched(code, tmp_path)
        assert child.ended.status == 0
        assert gone(int(child.lines[0]))

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_an_interrupted_child_may_write_its_result(self, tmp_path, number):
        code = (
            "import signal, sys, time\n"
            "signal.signal(signal.SIGTERM, lambda *_: (print('sa' 'ved'), sys.exit(7)))\n"
            "print('rea' 'dy')\n"
            "time.sleep(600)\n"
        )
        before = signal.getsignal(number)
        log = tmp_path / "logs" / "child.log"
        thread = when(
            lambda: log.exists() and "ready" in log.read_text(),
            lambda: os.kill(os.getpid(), number),
        )
        child = Watched(code, tmp_path)
        thread.join()
        assert child.lines == ["ready", "saved"]
        assert (child.ended.status, child.ended.interrupted) == (7, True)
        assert signal.getsignal(number) is before

    def test_one_that_ignores_it_is_killed_with_its_children(self, tmp_path):
        code = (
            "import signal, subprocess, sys, time\nsignal.signal(signal.SIGTERM,"
            " signal.SIG_IGN)\ndeaf = 'import signal, time; signal.signal(signal.SIGTERM,"
            " signal.SIG_IGN); time.sleep(600)'\nprint(subprocess.Popen([sys.executable, '-c',"
            " deaf]).pid)\nprint('rea' 'dy')\ntime.sleep(600)\n"
        )
        log = tmp_path / "logs" / "child.log"
        when(
            lambda: log.exists() and "ready" in log.read_text(),
            lambda: os.kill(os.getpid(), signal.SIGINT),
        )
        child = Watched(code, tmp_path, grace_s=0.5)
        assert (child.ended.status, child.ended.interrupted) == (-signal.SIGKILL, True)
        assert gone(int(child.lines[0]))

    def test_a_second_ctrl_c_waits_for_nothing(self, tmp_path):
        code = (
            "import signal, time\n"
            "signal.signal(signal.SIGTERM, lambda *_: print('as' 'ked'))\n"
            "print('rea' 'dy')\n"
            "while True: time.sleep(600)\n"
        )
        log = tmp_path / "logs" / "child.log"
        for word in ("ready", "asked"):
            when(
                lambda word=word: log.exists() and word in log.read_text(),
                lambda: os.kill(os.getpid(), signal.SIGINT),
            )
        child = Watched(code, tmp_path, grace_s=600)
        assert child.ended.status == -signal.SIGKILL

    def test_one_that_hangs_is_ended(self, tmp_path):
        child = Watched("import time; time.sleep(600)", tmp_path, limit_s=0.3)
        assert (child.ended.status, child.ended.overdue, child.ended.interrupted) == (
            -signal.SIGTERM,
            True,
            False,
        )

    def test_a_reader_that_fails_leaves_no_child(self, tmp_path):
        pids = []

        def fail(line):
            pids.append(int(line))
            raise BrokenPipeError

        launch = Launch(
            (sys.executable, "-uc", "import os, time; print(os.getpid()); time.sleep(600)"),
            {},
            tmp_path,
        )
        with pytest.raises(BrokenPipeError):
            process.run(launch, tmp_path / "x.log", on_line=fail, on_message=print)
        assert gone(pids[0])


class TestRefused:
    def test_a_program_that_is_not_there(self, tmp_path):
        with pytest.raises(UsageError, match="no-such-program cannot be started"):
            process.run(
                Launch(("no-such-program",), {}, tmp_path),
                tmp_path / "x.log",
                on_line=print,
                on_message=print,
            )

    def test_a_log_that_cannot_be_written(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(UsageError, match="choose another --output-dir"):
            Watched("print()", tmp_path / "file")

    def test_a_log_that_is_there_is_not_overwritten(self, tmp_path):
        Watched("print(1)", tmp_path)
        with pytest.raises(UsageError, match="can't be written"):
            Watched("print(2)", tmp_path)
