"""Another user, two users in one directory, a terminal that hangs up, strange paths."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import primus_tree
import pytest

from tprimat import cli
from tprimat.errors import ExitStatus
from tprimat.store import store

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="users and terminals as Unix has them"
)
HAS_LIGHTNING = importlib.util.find_spec("lightning") is not None
NOBODY, SOMEBODY = 65534, 65533
STRANGE = ("my work", "it's", 'a "b"', "Größe 型", "two\nlines", "$HOME;x", "-dash")


def _warm_up(folder: Path) -> None:
    """Use each command once: another user may not be allowed to read this Python's own files."""
    shutil.copytree(Path(__file__).parent / "data" / "logs", folder, dirs_exist_ok=True)
    log, output = str(folder / "primus_core_doubled.log"), str(folder / "output")
    for words in (
        ["read", log, "--output-dir", output],
        ["compare", output],
        ["export", output, "--csv", "-"],
    ):
        cli.run(words[0], words[1:])
    cli.run("compare", [str(folder / "missing.log")])
    sys.stdout.flush()
    sys.stderr.flush()
    os.ftruncate(1, 0)
    os.lseek(1, 0, os.SEEK_SET)


def said_by(
    user: int, folder: Path, *words: str, umask: int = 0o022, **settings: str
) -> tuple[int, str]:
    """Run a command as another user, in a process that has loaded its parts; return its status and
    what it prints.
    """
    if os.geteuid() != 0:
        pytest.skip("only root may become another user")
    output = folder.parent / f"{folder.name}-said-{user}"
    with output.open("wb") as file:
        pid = os.fork()
        if pid == 0:
            status = 99
            with contextlib.suppress(BaseException):
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
                sys.stdout, sys.stderr = (open(each, "w", closefd=False) for each in (1, 2))  # noqa: SIM115
                _warm_up(folder.parent / "warm-up")
                os.umask(umask)
                os.environ.update(settings)
                os.chdir(folder)
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(user)
                try:
                    status = cli.run(words[0], words[1:])
                except SystemExit as error:
                    status = error.code
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status, output.read_text(errors="replace")


@pytest.fixture
def shared():
    """A directory that every user may reach."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="tprimat-users-") as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "work").mkdir(mode=0o755)
        yield Path(folder) / "work"


@pytest.fixture
def log(shared, repository) -> Path:
    path = shared / "train.log"
    shutil.copy(repository / "tests" / "data" / "logs" / "primus_core_doubled.log", path)
    path.chmod(0o644)
    return path


class TestAnotherUser:
    def test_a_directory_that_is_not_writable(self, shared, log):
        for words in (
            ["read", log.name, "--output-dir", "output"],
            ["compare", log.name],
            ["extract-primus", "--log-file", log.name],
        ):
            status, said = said_by(NOBODY, shared, *words)
            assert status == ExitStatus.USAGE, said
            assert said.count("error: ") == 1
            assert "Permission denied" in said
            assert "Traceback" not in said
        assert {path.name for path in shared.iterdir()} == {"train.log"}

    def test_a_log_that_is_not_readable(self, shared, log):
        log.chmod(0o600)
        status, said = said_by(NOBODY, shared, "compare", "train.log", "--no-plot")
        assert status == ExitStatus.USAGE
        assert "error: train.log: can't be read: Permission denied" in said

    def test_no_home_and_no_cache(self, shared, log):
        shared.chmod(0o777)
        settings = {
            "HOME": "/nonexistent",
            "XDG_CACHE_HOME": "/nonexistent/cache",
            "MPLCONFIGDIR": "/nonexistent/mpl",
        }
        status, said = said_by(NOBODY, shared, "compare", "train.log", **settings)
        assert status == ExitStatus.OK, said
        assert "Traceback" not in said
        assert (shared / "output" / "comparison_report.html").stat().st_uid == NOBODY

    def test_two_users_in_one_directory(self, shared, log):
        """Whose umask keeps others out, keeps them out of writing; what one may read, they
        compare.
        """
        shared.chmod(0o777)
        assert (
            said_by(NOBODY, shared, "read", "train.log", "--output-dir", "output")[0]
            == ExitStatus.OK
        )
        (result,) = (shared / "output").glob("*.json")
        before = result.read_bytes()
        status, said = said_by(SOMEBODY, shared, "read", "train.log", "--output-dir", "output")
        assert status == ExitStatus.USAGE, said
        assert "Permission denied" in said
        assert result.read_bytes() == before
        assert not [path for path in (shared / "output").rglob("*") if ".part" in path.name]
        status, said = said_by(SOMEBODY, shared, "export", "output", "--csv", "-")
        assert status == ExitStatus.OK, said

    def test_two_users_of_one_group_directory(self, shared, log):
        shared.chmod(0o777)
        (shared / "output").mkdir()
        (shared / "output").chmod(0o777)
        for user in (NOBODY, SOMEBODY):
            status, said = said_by(
                user, shared, "read", "train.log", "--output-dir", "output", umask=0o002
            )
            assert status == ExitStatus.OK, said
        assert all(store.read(path) for path in (shared / "output").glob("*.json"))

    def test_a_result_that_another_user_may_not_read(self, shared, log):
        shared.chmod(0o777)
        assert (
            said_by(NOBODY, shared, "read", "train.log", "--output-dir", "output", umask=0o077)[0]
            == ExitStatus.OK
        )
        status, said = said_by(SOMEBODY, shared, "compare", "output", "--no-plot")
        assert status == ExitStatus.USAGE
        assert "Permission denied" in said
        assert stat.S_IMODE((shared / "output").stat().st_mode) == 0o700


class TestHangUp:
    """The terminal goes: SIGHUP to what runs in it, and nothing to write to."""

    def start(self, folder: Path, *words: str, **settings: str) -> tuple[int, int]:
        import pty

        pid, master = pty.fork()
        if pid == 0:
            os.chdir(folder)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            os.execve(
                sys.executable,
                [sys.executable, *words],
                {**os.environ, "TERM": "xterm", **settings},
            )
        return pid, master

    def seen(self, master: int, text: bytes) -> None:
        found, deadline = b"", time.monotonic() + 240
        while text not in found:
            assert time.monotonic() < deadline, found
            with contextlib.suppress(OSError):
                found += os.read(master, 4096)

    def ended(self, pid: int) -> int:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise AssertionError("it still runs")

    def test_watch_ends(self, repository, tmp_path):
        log = tmp_path / "train.log"
        shutil.copy(repository / "tests" / "data" / "logs" / "primus_core_doubled.log", log)
        settings = {"PYTHONPATH": str(repository)}
        pid, master = self.start(
            tmp_path, "-m", "tprimat", "watch", str(log), "--interval", "0.1", **settings
        )
        self.seen(master, b"step")
        os.close(master)
        assert self.ended(pid) in (-signal.SIGHUP, 0, 5)

    @pytest.mark.slow
    @pytest.mark.skipif(not HAS_LIGHTNING, reason="lightning is not installed")
    def test_a_benchmark_keeps_its_steps(self, repository, tmp_path):
        pid, master = self.start(
            tmp_path, str(repository / "benchmark.py"), "--model", "llama", "--steps", "400"
        )
        deadline = time.monotonic() + 240
        journals = tmp_path / "output" / ".journal"
        while not any(path.read_bytes().count(b"\n[") >= 5 for path in journals.glob("*.jsonl")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.close(master)
        assert self.ended(pid) in (-signal.SIGHUP, 5)
        done = subprocess.run(
            [sys.executable, str(repository / "compare_results.py"), "--no-plot"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert "Traceback" not in done.stderr
        (path,) = (tmp_path / "output").glob("*.json")
        (run,) = store.read(path)
        assert run.status == "incomplete"
        assert len(run.steps) >= 5
        assert not journals.exists()


class TestStrangePaths:
    @pytest.mark.parametrize("name", STRANGE)
    def test_of_results_and_logs(self, repository, tmp_path, monkeypatch, capsys, name):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(tmp_path)
        log = folder / "train.log"
        shutil.copy(repository / "tests" / "data" / "logs" / "primus_core_doubled.log", log)
        assert cli.run("read", [str(log), "--output-dir", str(folder / "out put")]) == ExitStatus.OK
        assert cli.run("compare", [str(folder / "out put")]) == ExitStatus.OK
        assert (tmp_path / "output" / "comparison_report.html").exists()
        words = [
            "--log-file",
            str(log),
            "--output-dir",
            f"./{name}/b",
            "--bundle",
            f"./{name}/b.tar.gz",
        ]
        assert cli.run("extract-primus", words) == ExitStatus.OK
        # The log prints a rate that contradicts its step times.
        assert cli.run("verify", [f"./{name}/b.tar.gz"]) == ExitStatus.INCONCLUSIVE
        assert "Traceback" not in capsys.readouterr().err

    @pytest.mark.parametrize("name", STRANGE)
    @pytest.mark.skipif(
        importlib.util.find_spec("yaml") is None, reason="PyYAML isn't installed; Primus brings it"
    )
    def test_of_primus(self, repository, tmp_path, name):
        place = tmp_path / name
        place.mkdir()
        settings = primus_tree.environment(tmp_path, primus_tree.make(place / "Primus"))
        code = (
            "import sys; sys.path[:0] = sys.argv[1:3]; import victims; from pathlib import Path; "
            "victims.STEPS, victims.STEP_S = 25, 0.0; output, tree = map(Path, sys.argv[3:5]); "
            "sys.exit(victims.primus(output, tree=tree))"
        )
        paths = (repository / "tools", repository, place / "output", place / "Primus")
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, paths)],
            cwd=tmp_path,
            env={**os.environ, **settings, "PYTHONPATH": str(repository)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        (run,) = store.read(place / "output" / "benchmark_rocm_llama.json")
        assert len(run.step_times) == 25
