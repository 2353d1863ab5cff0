"""What is submitted, and what is read of it, with Slurm's commands replaced by scripts that print
its real answers.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tprimat.cli import run
from tprimat.errors import ExitStatus, UsageError
from tprimat.frameworks.request import Request
from tprimat.measure import attempt
from tprimat.record.journal import JournalHeader
from tprimat.record.process_identity import ProcessIdentity
from tprimat.results.run import TrainingConfig, Tuning
from tprimat.slurm import client, script, submit
from tprimat.slurm import collect as collecting
from tprimat.slurm.client import JobState
from tprimat.slurm.job import find
from tprimat.slurm.settings import SlurmJob
from tprimat.store import store

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Slurm runs on Linux")

# Of `scontrol show job --oneliner` 22.05.8, shortened.
SCONTROL = (
    "JobId=12 JobName=tprimat UserId=root(0) JobState={state} Reason={reason} Dependency=(null)"
    " Requeue=1 Restarts=0 ExitCode={code} TimeLimit=00:01:00 StartTime=2026-11-24T23:44:32"
    " NodeList={nodes} NumNodes=2 TRES=cpu=4,node=2"
)


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Make Slurm's commands: slurm("scontrol", "what it prints")."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.chdir(tmp_path)

    def make(name, out="", err="", status=0):
        path = folder / name
        path.write_text(
            f"#!/bin/sh\ncat <<'E'\n{out}\nE\n[ -z '{err}' ] || echo '{err}' >&2\nexit {status}\n"
        )
        path.chmod(0o755)

    return make


@pytest.fixture
def submitted(slurm, tmp_path):
    """A job 12 that has begun two runs of a training, of 3 steps."""
    slurm("sbatch", "12")
    slurm("sinfo", "batch* (null)")
    assert run("benchmark", ["--executor", "slurm", "--nodes", "2", "--framework", "fsdp"]) == 0
    (folder,) = (tmp_path / "output" / "slurm").iterdir()
    for number in (1, 2):
        attempt.begin(folder, number, REQUEST(tmp_path), folder / "no.log", logged=False)
    return folder


def REQUEST(folder, **changes):  # noqa: N802
    values = {
        **{
            "framework": "fsdp",
            "platform": "cpu",
            "model": "llama",
            "scale": "tiny",
            "precision": "fp32",
            "steps": 3,
        },
        **{
            "global_batch_size": 4,
            "micro_batch_size": 2,
            "sequence_length": 128,
            "seed": 1,
            "num_gpus": 2,
        },
    }
    return Request(**{**values, "num_nodes": 2, "output_dir": folder / "output", **changes})


def a_run(folder, number, status="complete", **changes):
    values = {
        **{
            "session": "slurm-12",
            "round": number,
            "status": status,
            "timestamp": f"2026-11-24T23:0{number}:00+00:00",
        },
        **{"steps": (1, 2, 3), "window_steps": (1, 1, 1), "step_times": (0.5, 0.5, 0.25 * number)},
        **dict.fromkeys(
            ("loss_values", "learning_rates", "grad_norms", "lines"), (None, None, None)
        ),
    }
    return REQUEST(folder).to_run(
        **{**values, "training_config": TrainingConfig(num_gpus=2), **changes}
    )


class TestScript:
    def text(self, **changes):
        job = SlurmJob(**{"account": "a", "partition": "p", **changes})
        return script.text(
            job, 2, 8, ["--model", "llama"], Path("/share/o/slurm/1"), Path("/share/o")
        )

    def test_it_is_a_script_of_bash(self, tmp_path):
        for changes in (
            {},
            {"container": "image:1", "mounts": ("/a:/b",)},
            {"container": "/x/y.sif"},
        ):
            (tmp_path / "job.sh").write_text(self.text(**changes))
            subprocess.run(["bash", "-n", str(tmp_path / "job.sh")], check=True)

    def test_the_head_holds_what_was_said_and_nothing_else(self):
        head = [line for line in self.text().splitlines() if line.startswith("#SBATCH")]
        for line in (
            "--account=a",
            "--partition=p",
            "--nodes=2",
            "--gpus-per-node=8",
            "--time=01:00:00",
            "--requeue",
        ):
            assert f"#SBATCH {line}" in head
        assert "account" not in self.text(account=None, partition=None)

    def test_containers(self):
        image = self.text(container="image:1", mounts=("/a:/b",))
        assert "--container-image=image:1 --container-mounts=" in image
        assert ",/share/o:/share/o,/a:/b" in image
        assert "    python3 -m tprimat benchmark --model llama &" in image
        apptainer = self.text(container="/x/y.sif")
        assert 'apptainer exec "$gpu" --bind ' in apptainer
        assert "gpu=--rocm" in apptainer
        assert "--container-image" not in apptainer

    def test_a_path_with_spaces_and_a_percent_sign(self):
        text = script.text(SlurmJob(), 1, None, [], Path("/a b/50%"), Path("/a b"))
        assert '#SBATCH --output="/a b/50%%/job.log"' in text
        assert "export TPRIMAT_JOB='/a b/50%'" in text


class TestDryRun:
    def test_it_needs_neither_slurm_nor_torch_nor_the_framework(self, slurm, capsys, tmp_path):
        code = (
            "import sys; sys.modules['torch'] = None; from tprimat.cli import run;"
            " sys.exit(run('benchmark', ['--executor', 'slurm', '--nodes', '4', '--gpus', '32',"
            " '--framework', 'torchtitan', '--steps=9','--dry-run', '--output-dir', 'there',"
            " '--account', 'mine', '--label', 'a b']))"
        )
        environment = {**os.environ, "PYTHONPATH": str(Path(script.__file__).parents[2])}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=environment
        )
        assert done.returncode == 0, done.stderr
        assert "#SBATCH --gpus-per-node=8" in done.stdout
        words = "benchmark --framework torchtitan --steps=9 --label 'a b' --nodes=4"
        assert f"{words} --output-dir={tmp_path}/there --gpus=32 &" in done.stdout
        assert not (tmp_path / "there").exists()

    @pytest.mark.parametrize(
        ("words", "problem"),
        [
            (["--framework", "fdsp"], "unknown framework 'fdsp'"),
            (["--nodes", "3", "--gpus", "8"], "--gpus 8 cannot be divided evenly among 3 nodes"),
            (["--time", "soon"], "'soon' is not a Slurm time limit"),
            (["--nodes", "0"], "must be at least 1"),
        ],
    )
    def test_what_is_wrong_is_said_before_a_job_waits(self, words, problem, slurm, capsys):
        assert run("benchmark", ["--executor", "slurm", "--dry-run", *words]) == 2
        assert problem in capsys.readouterr().err

    def test_no_job_of_a_sweep_is_submitted_where_one_can_t_be(self, slurm, capsys, tmp_path):
        slurm("sbatch", "12")
        slurm("sinfo", "gpu* gpu:8")
        assert run("benchmark", ["--executor", "slurm", "--gpus", "1,2", "--nodes", "1,2"]) == 2
        printed = capsys.readouterr()
        assert "--gpus 1 cannot be divided evenly among 2 nodes" in printed.err
        assert "submitted" not in printed.out
        assert not (tmp_path / "output").exists()

    def test_the_most_severe_status_of_several_jobs_counts(self, slurm, monkeypatch):
        statuses = iter([ExitStatus.TRAINING_FAILED, ExitStatus.USAGE, ExitStatus.OK])
        monkeypatch.setattr(submit, "_submit", lambda *job: next(statuses))
        words = ["--executor", "slurm", "--model", "llama", "--gpus", "1,2,4", "--dry-run"]
        assert run("benchmark", words) == ExitStatus.USAGE

    def test_each_job_of_a_sweep_has_its_nodes_and_gpus(self, slurm, capsys):
        words = [
            "--gpus",
            "2,4",
            "--nodes=1,2",
            "--resume",
            "--micro-batch-size",
            "1,2",
            "--config",
            "a/b.json",
        ]
        assert run("benchmark", ["--executor", "slurm", "--dry-run", *words]) == 0
        told = [
            line.partition(" benchmark ")[2]
            for line in capsys.readouterr().out.splitlines()
            if "-m tprimat" in line
        ]
        known = "--resume --micro-batch-size 1,2 --config a/b.json"
        assert [re.sub(" --output-dir=[^ ]*", "", line) for line in told] == [
            f"{known} --nodes={nodes} --gpus={gpus} &" for nodes in (1, 2) for gpus in (2, 4)
        ]

    def test_the_partition_s_gpus_are_asked_for(self, slurm, capsys):
        slurm("sinfo", "other (null)\ngpu* gpu:h100:8(S:0-1)\ngpu* gpu:4,shard:32")
        assert run("benchmark", ["--executor", "slurm", "--dry-run"]) == 0
        assert "#SBATCH --gpus-per-node=4" in capsys.readouterr().out
        slurm("sinfo", "cpu (null)")
        assert (
            run(
                "benchmark",
                ["--executor", "slurm", "--dry-run", "--gpus", "2", "--partition", "cpu"],
            )
            == 0
        )
        assert "gpus-per-node" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("profiler", "nodes", "fails"),
    [("nsys", "2", True), ("rocprof", "1,2", True), ("nsys", "1", False), ("torch", "2", False)],
)
def test_a_profiler_that_needs_one_node_is_an_error_before_the_job_waits(
    slurm, profiler, nodes, fails, capsys
):
    slurm("sbatch", "12")
    slurm("sinfo", "batch* (null)")
    words = ["--executor", "slurm", "--nodes", nodes, "--framework", "nemo", "--profile", profiler]
    assert (run("benchmark", words) == 2) == fails
    assert Path("output", "slurm").exists() != fails
    message = f"error: --profile {profiler} needs one node\nhint:  use --profile torch\n"
    assert (message in capsys.readouterr().err) == fails


@pytest.mark.parametrize(
    "words",
    [
        ["--wait"],
        ["--account", "x"],
        ["--container", "x.sif"],
        ["--time", "1:00:00"],
        ["--slurm", "nowhere"],
    ],
)
def test_options_of_a_job_need_slurm(words, capsys):
    assert run("benchmark", ["--dry-run", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith(
        f"error: {words[0]} needs --executor slurm\nhint:  add --executor slurm\n"
    )


class TestSubmit:
    def test_the_id_and_how_to_collect_are_the_outcome(self, slurm, capsys, tmp_path):
        slurm("sbatch", "a line of the site\n12;cluster")
        slurm("sinfo", "batch* (null)")
        assert run("benchmark", ["--executor", "slurm"]) == 0
        printed = capsys.readouterr().out
        assert "Job:     12, submitted" in printed
        assert "collect 12" in printed
        assert sorted(path.name for path in tmp_path.glob("output/slurm/*/*")) == [
            "job.description",
            "job.sh",
        ]

    def test_a_refusal_keeps_the_script_and_says_what_slurm_said(self, slurm, capsys, tmp_path):
        slurm("sbatch", err="sbatch: error: Batch job submission failed: Invalid account", status=1)
        assert run("benchmark", ["--executor", "slurm"]) == 2
        error = capsys.readouterr().err
        assert (
            "sbatch rejects the job: sbatch: error: Batch job submission failed: Invalid account"
            in error
        )
        assert list(tmp_path.glob("output/slurm/*/job.sh"))

    def test_without_slurm_the_hint_is_the_dry_run(self, slurm, capsys, monkeypatch, tmp_path):
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        assert run("benchmark", ["--executor", "slurm"]) == 2
        assert "sbatch is not installed here" in capsys.readouterr().err
        assert not (tmp_path / "output").exists()


class TestState:
    def test_of_scontrol(self, slurm):
        slurm(
            "scontrol",
            SCONTROL.format(state="TIMEOUT", reason="TimeLimit", code="0:15", nodes="n[1-2]"),
        )
        state = client.state("12")
        assert state == JobState(
            "TIMEOUT", "TimeLimit", "n[1-2]", "00:01:00", "0:15", "2026-11-24T23:44:32"
        )
        assert (state.has_ended, state.ending) == (True, "reached its time limit (00:01:00)")

    def test_of_sacct_where_scontrol_has_forgotten_it(self, slurm):
        slurm("scontrol", err="slurm_load_jobs error: Invalid job id specified", status=1)
        slurm("sacct", "CANCELLED by 1000|None|n[1-2]|01:00:00|0:0|Unknown")
        assert client.state("12") == JobState("CANCELLED", None, "n[1-2]", "01:00:00", "0:0", None)
        slurm("sacct", err="Slurm accounting storage is disabled", status=1)
        assert client.state("12") is None

    def test_a_controller_that_doesnt_answer_is_no_ended_job(self, slurm, submitted, capsys):
        slurm(
            "scontrol",
            err="slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
            status=1,
        )
        assert run("collect", ["12"]) == 2
        assert "Unable to contact slurm controller" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("state", "words"),
        [
            ("NODE_FAIL", "ended because a node failed"),
            ("PREEMPTED", "preempted"),
            ("OUT_OF_MEMORY", "out of memory"),
            ("FAILED", "failed (exit code 0:15)"),
            ("LAUNCH_FAILED", "launch failed"),
        ],
    )
    def test_endings(self, state, words, slurm):
        slurm("scontrol", SCONTROL.format(state=state, reason="None", code="0:15", nodes="n1"))
        assert client.state("12").ending == words


class TestCollect:
    def ended(self, slurm, state, code="0:0"):
        slurm("scontrol", SCONTROL.format(state=state, reason="None", code=code, nodes="n[1-2]"))

    def test_complete(self, slurm, submitted, tmp_path, capsys):
        self.ended(slurm, "COMPLETED")
        for number in (1, 2):
            store.save(a_run(tmp_path, number), tmp_path / "output")
        assert run("collect", ["12"]) == 0
        assert "Results: output/train_fsdp_llama.json" in capsys.readouterr().out

    def test_by_its_folder(self, slurm, submitted, capsys):
        self.ended(slurm, "RUNNING")
        assert run("collect", [str(submitted)]) == 6
        assert "job 12 is running on n[1-2]: 2 trainings started" in capsys.readouterr().out

    def test_a_journal_of_another_machine_counts_once_slurm_has_ended_the_job(
        self, slurm, submitted, tmp_path, capsys
    ):
        store.save(a_run(tmp_path, 1), tmp_path / "output")
        journals = tmp_path / "output" / ".journal"
        journals.mkdir()
        owner = ProcessIdentity(1, 1, "another boot", "another namespace", "another host")
        setup = msgspec.structs.replace(a_run(tmp_path, 2), **dict.fromkeys(SERIES, ()))
        lines = [
            JournalHeader(1, owner),
            {"run": setup},
            [1, 1, 0.5, None, None, None],
            [2, 1, 0.4, None, None, None],
        ]
        (journals / "1-ab.jsonl").write_bytes(
            b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        )
        self.ended(slurm, "RUNNING")
        assert run("collect", ["12"]) == 6
        assert "step 2" in capsys.readouterr().out
        assert list(journals.iterdir())
        self.ended(slurm, "NODE_FAIL")
        assert run("collect", ["12"]) == 5
        first, second = store.read(tmp_path / "output" / "train_fsdp_llama.json")
        assert (first.status, second.status, second.steps) == ("complete", "incomplete", (1, 2))
        assert second.status_reason.endswith("; Slurm job 12: ended because a node failed")
        assert not journals.exists()

    def test_a_training_that_left_nothing_leaves_a_failed_result(
        self, slurm, submitted, tmp_path, capsys
    ):
        self.ended(slurm, "OUT_OF_MEMORY")
        assert run("collect", ["12"]) == 5
        found = store.read(tmp_path / "output" / "train_fsdp_llama.json")
        assert [(each.status, each.round, each.status_reason) for each in found] == [
            ("failed", number, "Slurm job 12: out of memory") for number in (1, 2)
        ]
        assert run("collect", ["12"]) == 5
        assert len(store.read(tmp_path / "output" / "train_fsdp_llama.json")) == 2

    def test_what_left_nothing_is_known_to_resume_and_as_tuned(self, slurm, submitted, tmp_path):
        tuning = Tuning(trials=3, settings=4)
        request = REQUEST(tmp_path, model="qwen")
        attempt.begin(
            submitted, 1, request, submitted / "no.log", logged=False, digest="ab12", tuning=tuning
        )
        self.ended(slurm, "NODE_FAIL")
        assert run("collect", ["12"]) == 5
        (found,) = store.read(tmp_path / "output" / "train_fsdp_qwen.json")
        assert (found.request, found.tuning) == ("ab12", tuning)

    def test_where_slurm_has_forgotten_the_job_its_script_has_not(
        self, slurm, submitted, tmp_path, capsys
    ):
        slurm("scontrol", err="slurm_load_jobs error: Invalid job id specified", status=1)
        (submitted / "state").write_text("12 1795560402 started n[1-2]\n")
        assert run("collect", ["12"]) == 5
        assert "was killed, or its node failed" in capsys.readouterr().out
        (submitted / "state").write_text("12 1 started n[1-2]\n12 2 terminated\n12 3 ended 5\n")
        assert run("collect", ["12"]) == 5
        assert "ended with status 5, terminated by Slurm" in capsys.readouterr().out

    @pytest.mark.parametrize("name", ["99", "nowhere", "output", "", "output/slurm/x\n"])
    def test_a_job_that_isnt_there(self, name, slurm, submitted, capsys):
        assert run("collect", [name]) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert "\nhint: " in error
        assert "job.description" not in error

    @pytest.mark.parametrize("content", [b"", b"\xff\x00", b"{}", b'{"output_dir": 3}'])
    def test_a_broken_description_is_an_error_of_that_file(self, content, slurm, submitted, capsys):
        (submitted / "job.description").write_bytes(content)
        assert run("collect", [str(submitted)]) == 2
        assert "job.description: not the description of a job" in capsys.readouterr().err

    def test_torn_notes_are_passed_over(self, slurm, submitted, tmp_path):
        self.ended(slurm, "COMPLETED")
        (submitted / "state").write_bytes(b"12\n\xff\xfe 1\n")
        with (submitted / "trainings.jsonl").open("ab") as file:
            file.write(b'{"round": 3, "requ')
        for number in (1, 2):
            store.save(a_run(tmp_path, number), tmp_path / "output")
        assert run("collect", ["12"]) == 0


SERIES = (
    "steps",
    "window_steps",
    "step_times",
    "loss_values",
    "learning_rates",
    "grad_norms",
    "lines",
)


class TestFollow:
    def follow(self, submitted, monkeypatch, states):
        answers = iter(states)

        def state(job_id):
            answer = next(answers)
            if isinstance(answer, BaseException):
                raise answer
            return answer

        monkeypatch.setattr(client, "state", state)
        monkeypatch.setattr(client, "queue_position", lambda job_id: (2, 5))
        return collecting.until_the_end(
            find(str(submitted), Path()), sleep=lambda seconds: None, clock=lambda: 0.0
        )

    def test_each_state_once_and_then_what_it_left(self, submitted, monkeypatch, tmp_path, capsys):
        for number in (1, 2):
            store.save(a_run(tmp_path, number), tmp_path / "output")
        waits, runs = JobState("PENDING", "Priority"), JobState("RUNNING", nodes="n[1-2]")
        deaf, done = UsageError("no answer", heading="slurm"), JobState("COMPLETED")
        states = [waits, waits, deaf, runs, runs, done, done]
        assert self.follow(submitted, monkeypatch, states) == 0
        printed = capsys.readouterr().out
        assert printed.count("job 12 is queued (Priority), position 2 of 5") == 1
        assert printed.count("job 12 is running on n[1-2]") == 1
        assert "job 12: completed" in printed

    def test_ctrl_c_leaves_the_job_alone(self, submitted, monkeypatch, capsys):
        assert self.follow(submitted, monkeypatch, [JobState("RUNNING"), KeyboardInterrupt()]) == 6
        assert (
            "job 12 continues: tprimat collect 12; scancel 12 stops it" in capsys.readouterr().err
        )


def test_values_for_a_program(slurm, submitted, capsys):
    slurm(
        "scontrol", SCONTROL.format(state="PENDING", reason="Resources", code="0:0", nodes="(null)")
    )
    slurm("squeue", "batch\n11\n12")
    capsys.readouterr()
    assert run("collect", ["12", "--json"]) == 6
    values = json.loads(capsys.readouterr().out)
    assert (values["job"], values["state"], values["status"]) == ("12", "PENDING", 6)


def test_the_reason_of_a_run_can_be_amended_and_nothing_else_changes(tmp_path):
    one, other = a_run(tmp_path, 1, "incomplete"), a_run(tmp_path, 2)
    path = store.save(one, tmp_path).path
    assert store.save(other, tmp_path).path == path
    assert store.amend(path, store.fingerprint(one), status_reason="why").status_reason == "why"
    assert store.amend(path, "no such run", status_reason="why") is None
    assert store.read(path) == (msgspec.structs.replace(one, status_reason="why"), other)
