"""Jobs of a real Slurm without a GPU: what they leave, however they end. `make test-slurm` runs
it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster import Cluster, missing

if sys.platform == "win32":
    pytest.skip("Slurm runs on Linux", allow_module_level=True)

pytestmark = [pytest.mark.slurm, pytest.mark.skipif(missing() is not None, reason=missing() or "")]

TEST_FOLDER = Path(__file__).parent


def test_two_frameworks_on_two_nodes_from_one_command_to_the_comparison(commands):
    done = commands.run(
        *(
            "--executor",
            "slurm",
            "--nodes",
            "2",
            "--model",
            "llama",
            "--framework",
            "fsdp,lightning",
            "--steps",
            "8",
        ),
        "--wait",
        script="benchmark.py",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is running on tp[" in done.stdout
    results = {
        name: _read(commands, f"{name}.json")
        for name in ("train_fsdp_llama", "benchmark_cpu_llama")
    }
    for result in results.values():
        (run,) = result["runs"]
        assert (run["status"], run["steps"][-1], result["training_config"]["num_gpus"]) == (
            "complete",
            8,
            2,
        )
        assert run["session"].startswith("slurm-")
        hosts = [node["hostname"] for node in run["environment"]["nodes"]]
        assert len(set(hosts)) == 2
        assert all(
            node["versions"]["torch"] and node["until_backward_seconds"]
            for node in run["environment"]["nodes"]
        )
        assert "longest of 2 processes" in result["timing"]["over_ranks"]
        assert not [warning for warning in run["warnings"] if "nodes" in warning]
    compared = commands.run("--no-plot", script="compare_results.py")
    assert compared.returncode == 0, compared.stderr
    assert "lightning" in compared.stdout
    assert "fsdp" in compared.stdout
    assert "skipped" not in compared.stdout + compared.stderr


def test_a_cancelled_job_and_one_that_waits_behind_it(commands):
    job = commands.submit(
        "--framework", "fsdp", "--nodes", "2", "--steps", "100000", "--label", "first"
    )
    waiting = commands.submit("--framework", "fsdp", "--nodes", "2", "--label", "second")
    commands.wait_for("the first job", lambda: commands.state(job) == "RUNNING")
    done = commands.run("collect", waiting)
    assert done.returncode == 6
    assert f"job {waiting} is queued (" in done.stdout
    assert "position 1 of 1" in done.stdout
    commands.cluster.command("scancel", waiting)
    status, _, errors = commands.collect(waiting)
    assert status == 5
    assert f"job {waiting}: cancelled; no training started" in errors
    commands.wait_for("a step", lambda: commands.steps(job) > 2)
    running = commands.run("collect", job)
    assert running.returncode == 6
    assert "is running on tp[1-2]" in running.stdout
    assert "step " in running.stdout
    commands.cluster.command("scancel", job)
    commands.wait_for("the end", lambda: commands.state(job) == "CANCELLED")
    status, values, _ = commands.collect(job)
    (result,) = values["results"]
    assert (status, result["status"]) == (5, "incomplete")
    assert result["reason"].endswith(f"Slurm job {job}: cancelled")
    assert len(_read(commands, "train_fsdp_llama_first.json")["steps"]) > 2
    # Collected again, it says the same, and nothing is there twice.
    again = commands.collect(job)[1]["results"]
    assert [each["reason"] for each in again] == [result["reason"]]


def test_a_job_that_its_time_limit_ends(commands):
    job = commands.submit(
        "--framework", "fsdp", "--steps", "100000", "--time", "00:01:00", "--cooldown", "0"
    )
    commands.wait_for("the time limit", lambda: commands.state(job) == "TIMEOUT")
    status, values, errors = commands.collect(job)
    assert status == 5
    if not values["results"]:
        # A minute is the least that Slurm gives, and little on a machine that does much else.
        assert f"job {job}: reached its time limit (00:01:00); no training started" in errors
    for result in values["results"]:
        assert result["status"] in ("incomplete", "failed")
        assert result["reason"].endswith(f"Slurm job {job}: reached its time limit (00:01:00)")


def test_a_requeued_job_goes_on_and_keeps_what_was_interrupted(commands):
    job = commands.submit("--framework", "fsdp", "--steps", "40", "--runs", "2", "--cooldown", "0")
    file = commands.folder / "output" / "train_fsdp_llama.json"
    commands.wait_for("the second run", lambda: file.exists() and commands.steps(job) > 2)
    commands.cluster.command("scontrol", "requeue", job)
    commands.wait_for(
        "the end", lambda: commands.state(job) in ("COMPLETED", "FAILED", "CANCELLED")
    )
    status, _, _ = commands.collect(job)
    runs = json.loads(file.read_text())["runs"]
    assert [(run["round"], run["status"]) for run in runs] == [
        (1, "complete"),
        (2, "incomplete"),
        (2, "complete"),
    ]
    assert "Slurm requeued the job" in runs[1]["status_reason"]
    assert {run["session"] for run in runs} == {f"slurm-{job}"}
    assert status == 0
    assert sorted(path.name for path in file.parent.glob("*.json")) == [file.name]


def test_a_framework_that_isnt_there_fails_with_its_sentence(commands):
    job = commands.submit("--framework", "megatron", "--nodes", "1")
    commands.wait_for("the end", lambda: commands.state(job) == "FAILED")
    status, _, errors = commands.collect(job)
    assert status == 5
    assert "no training started" in errors
    assert "Megatron-LM needs a GPU" in errors


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name
)
def test_no_process_outlives_whoever_started_the_cluster(number, tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from conftest import running_cluster\nwith"
        " running_cluster(Path(sys.argv[1]), 2) as cluster:\n    cluster.command('sbatch',"
        " '--nodes=2', '--output=/dev/null', '--wrap', 'srun sleep 600')\n    end ="
        " time.monotonic() + 120\n    while cluster.names().count('sleep') < 2 and time.monotonic()"
        " < end: time.sleep(0.2)\n    print('started' if time.monotonic() < end else 'too late',"
        " flush=True); time.sleep(600)\n"
    )
    # The names of Slurm's sockets in it have 108 characters at most.
    folder = tmp_path.parent / f"cluster{number.value}"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TEST_FOLDER), str(TEST_FOLDER.parent)]),
    }
    words = [sys.executable, "-c", code, str(folder)]
    with subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as holder:
        try:
            assert holder.stdout
            assert holder.stdout.readline() == b"started\n"
            cluster = Cluster(folder)
            names = set(cluster.names())
            assert {"munged", "slurmctld", "slurmd", "slurmstepd", "srun", "sleep"} <= names
            holder.send_signal(number)
            holder.wait(90)
        finally:
            holder.kill()
    deadline = time.monotonic() + 90
    while (left := cluster.left()) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert left == []


def _read(commands, name: str):
    return json.loads((commands.folder / "output" / name).read_text())
