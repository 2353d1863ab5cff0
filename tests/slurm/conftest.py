"""A real Slurm for the tests that ask for one."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cluster import Cluster, missing

REPOSITORY = Path(__file__).resolve().parent.parent.parent
PATIENCE_S = 240.0
"""For a machine that does much else; no test measures a time."""


@contextlib.contextmanager
def running_cluster(folder: Path, nodes: int) -> Iterator[Cluster]:
    """Start a cluster in a process of its own, which stops it as soon as this one is gone."""
    program = Path(__file__).with_name("cluster.py")
    words = [sys.executable, str(program), str(folder), str(nodes)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdin
        assert process.stdout
        try:
            first = process.stdout.readline()
            cluster = Cluster(folder, nodes)
            assert first, cluster.logs()
            yield cluster
        finally:
            process.stdin.close()
            process.wait(60)


@dataclasses.dataclass(frozen=True)
class Commands:
    """Our commands on a cluster, in a directory."""

    cluster: Cluster
    folder: Path

    def run(self, *words: str, script: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run `tprimat WORDS`, or a script of the clone."""
        program = [str(REPOSITORY / script)] if script else ["-m", "tprimat"]
        environment = {**os.environ, **self.cluster.environment, "PYTHONPATH": str(REPOSITORY)}
        return subprocess.run(
            [sys.executable, *program, *words],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def submit(self, *words: str) -> str:
        """Submit a benchmark of the smallest Llama; the job's id."""
        options = ("--executor", "slurm", "--model", "llama", "--time-limit", "20m", *words)
        done = self.run("--json", *options, script="benchmark.py")
        assert done.returncode == 0, done.stderr
        return str(json.loads(done.stdout)["jobs"][0]["job"])

    def collect(self, job: str) -> tuple[int, dict[str, Any], str]:
        """Collect a job: the exit status, the values for a program, and the errors."""
        done = self.run("collect", job, "--json")
        return done.returncode, json.loads(done.stdout), done.stderr

    def state(self, job: str) -> str:
        """Return Slurm's word for the state of a job."""
        out = self.cluster.command("scontrol", "show", "job", job)
        return out.partition("JobState=")[2].split()[0]

    def wait_for(self, what: str, is_true: Callable[[], object]) -> None:
        """Wait for something; fail with what the jobs printed where it doesn't come."""
        deadline = time.monotonic() + PATIENCE_S
        while not is_true():
            if time.monotonic() > deadline:
                logs = "\n".join(path.read_text() for path in self.folder.rglob("job.log"))
                pytest.fail(f"{what} doesn't come: {logs[-4000:]}\n{self.cluster.logs()}")
            time.sleep(0.5)

    def steps(self, job: str) -> int:
        """Return how many steps the running training of a job has journaled."""
        counts = [0]
        for path in (self.folder / "output" / ".journal").glob("*.jsonl"):
            with contextlib.suppress(OSError):
                text = path.read_text()
                counts += [text.count("\n[")] if f'"slurm-{job}"' in text else []
        return max(counts)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    if reason := missing():
        pytest.skip(reason)
    pytest.importorskip("torch")
    with running_cluster(tmp_path_factory.mktemp("slurm"), 2) as cluster:
        yield cluster
    assert cluster.left() == []


@pytest.fixture
def commands(cluster, tmp_path) -> Commands:
    return Commands(cluster, tmp_path)
