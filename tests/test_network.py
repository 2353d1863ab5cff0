"""Nothing is sent anywhere: commands work without a network, and try no connection where there is
one.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tprimat.store import store

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's")
SMALL = ("--model", "llama", "--steps", "4", "--telemetry", "on")

# Started with each Python below a command: it notes every address that a socket is connected to or
# sends to.
AUDIT = """
import os, sys
def note(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname", "urllib.Request"):
        with open(os.environ["NOTED"], "a") as file:
            file.write(f"{event}\\t{arguments[1:] if event.startswith('socket.c') else arguments!r}\\n")
sys.addaudithook(note)
"""


@pytest.fixture(scope="module")
def alone():
    """What starts a command without any network, the loopback device down; skips where that isn't
    permitted.
    """
    for command in (["unshare", "-n"], ["unshare", "-rn"]):
        if (
            shutil.which("unshare")
            and subprocess.run([*command, "true"], capture_output=True).returncode == 0
        ):
            return command
    pytest.skip("this user may not make a network namespace")


def started(
    repository: Path, folder: Path, *words: str, before=(), **settings: str
) -> subprocess.CompletedProcess:
    command = [*before, sys.executable, *words]
    environment = {**os.environ, "PYTHONPATH": str(repository), **settings}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900
    )


@pytest.fixture
def log(repository) -> str:
    return str(repository / "tests" / "data" / "logs" / "primus_core_doubled.log")


def test_there_is_no_network_at_all(alone, repository, tmp_path):
    code = (
        "import socket; print(socket.if_nameindex()); socket.create_connection(('127.0.0.1', 9), 1)"
    )
    done = started(repository, tmp_path, "-c", code, before=alone)
    assert "[(1, 'lo')]" in done.stdout
    assert "Network is unreachable" in done.stderr


def test_reading_and_comparing(alone, repository, tmp_path, log):
    done = started(
        repository,
        tmp_path,
        str(repository / "extract_primus_metrics.py"),
        "--log-file",
        log,
        before=alone,
    )
    assert done.returncode == 0, done.stderr
    done = started(
        repository, tmp_path, str(repository / "compare_results.py"), log, "output", before=alone
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "output" / "comparison_report.html").exists()


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("lightning") is None, reason="lightning is not installed"
)
@pytest.mark.parametrize("framework", ["lightning", "fsdp"])
def test_a_measurement(alone, repository, tmp_path, framework):
    script, before = str(repository / "benchmark.py"), list(alone)
    if framework == "fsdp":
        # Its processes meet by gloo, on the loopback device alone.
        if shutil.which("ip") is None:
            pytest.skip("there is no ip (iproute2) to set the loopback device up")
        before += ["sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    done = started(repository, tmp_path, script, *SMALL, "--framework", framework, before=before)
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "output").glob("*.json")
    assert [run.status for run in store.read(path)] == ["complete"]


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("lightning") is None, reason="lightning is not installed"
)
def test_no_connection_is_tried_with_a_network(repository, tmp_path, log):
    hooks, noted = tmp_path / "hooks", tmp_path / "noted.txt"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(AUDIT)
    settings = {"NOTED": str(noted), "PYTHONPATH": f"{hooks}{os.pathsep}{repository}"}
    code = (
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('127.0.0.1', 9))"
    )
    started(repository, tmp_path, "-c", code, **settings)
    assert "socket.connect\t(('127.0.0.1', 9),)" in noted.read_text()
    noted.unlink()
    for words in (
        [str(repository / "benchmark.py"), *SMALL],
        [str(repository / "compare_results.py"), log, "output"],
        ["-m", "tprimat", "read", log, "--output-dir", "read"],
        ["-m", "tprimat", "doctor"],
    ):
        done = started(repository, tmp_path, *words, **settings)
        assert done.returncode in (0, 3), done.stderr  # two systems that trained different models
    tried = noted.read_text().splitlines() if noted.exists() else []
    assert [line for line in tried if "127.0.0.1" not in line and "localhost" not in line] == []
    assert json.loads(next((tmp_path / "output").glob("benchmark_*.json")).read_text())
