"""A session with a framework that writes a log and no result, and what it does with any framework's
output.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path

import pytest
from fake_framework import fake_framework

from tprimat import console
from tprimat.frameworks.request import Device, Launch, RequestedConfig
from tprimat.machine.cpu import CpuState
from tprimat.machine.platforms import Machine
from tprimat.machine.telemetry.trace import Header, Sample, Trace
from tprimat.measure import attempt, session
from tprimat.measure.plan import Plan
from tprimat.measure.process import ProcessResult
from tprimat.measure.session import Session
from tprimat.measure.training_files import last_words
from tprimat.record import progress
from tprimat.results.run import Environment, GpuInfo, Tuning
from tprimat.store import store

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX's")

CPU = Machine(
    "cpu", GpuInfo(device_name="a processor", device_count=2, software_stack="cpu"), Environment()
)

TRAINS = """
for i in range(1, {steps} + 1):
    print(
        f" [2026-01-01 00:00:{{i:02d}}] iteration {{i:8d}}/{steps_planned:8d} | consumed samples: {{i * 4:12d}} | "
        f"elapsed time per iteration (ms): {{100.0 + i:.1f}} | learning rate: 1.0E-04 | global batch size: 4 | "
        f"lm loss: 1.000000E+01 | loss scale: 1.0 | grad norm: 2.000 | number of skipped iterations: 0 |",
        flush=True,
    )
raise SystemExit({status})
"""


def measured(tmp_path: Path, code: str, time_limit_s=None, **plan) -> Session:
    """A session of one training of Megatron-LM whose program is this."""
    requested = RequestedConfig(
        steps=20, global_batch_size=4, micro_batch_size=2, time_limit_s=time_limit_s
    )
    request, _ = fake_framework().resolve_config(
        "llama", requested, Device("cpu", 2, None), tmp_path / "output"
    )
    framework = fake_framework(
        "megatron", lambda request: Launch((sys.executable, "-c", code), {}, tmp_path), logged=True
    )
    made = Session(
        Plan(
            (framework,),
            (dataclasses.replace(request, framework="megatron"),),
            Path("output"),
            **plan,
        ),
        CPU,
    )
    made.run()
    return made


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class TestLogged:
    def test_the_log_becomes_the_result_with_what_the_request_knows(self, tmp_path):
        made = measured(tmp_path, TRAINS.format(steps=20, steps_planned=20, status=0))
        (run,) = store.read(tmp_path / made.files[0])
        assert (run.status, run.framework, run.model, run.scale) == (
            "complete",
            "megatron",
            "llama",
            "tiny",
        )
        assert run.step_times[:2] == pytest.approx((0.101, 0.102))
        assert (run.training_config.global_batch_size, run.training_config.num_gpus) == (4, 1)
        assert run.gpu_info.device_name == "a processor"
        assert (made.failures, made.status) == (0, 0)

    def test_each_run_states_session_round_and_disturbance(self, tmp_path, monkeypatch):
        class Read:
            """A quarter of two CPUs' time was others', in readings around the training."""

            unknown = gpus_unknown = None

            def __init__(self, platform, devices):
                self.began = time.perf_counter()

            def stop(self):
                now = time.perf_counter()
                cpus = (CpuState(0.0, 0.0, own_s=0.0), CpuState(20.0, 15.0, own_s=10.0))
                samples = [
                    Sample(at, cpu=cpu) for at, cpu in zip((self.began, now), cpus, strict=True)
                ]
                self.read = Trace(Header(1, "cpu"), samples)

            def so_far(self):
                return self.read

        monkeypatch.setattr(session, "Sampler", Read)
        # Equal times would be one run.
        of_round = f"int(os.environ[{progress.SESSION!r}].partition('/')[2])"
        code = TRAINS.format(steps=20, steps_planned=20, status=0).replace(
            "100.0 + i", f"100.0 + i + {of_round}"
        )
        made = measured(tmp_path, f"import os\n{code}", runs=2)
        runs = store.read(tmp_path / made.files[0])
        assert [run.round for run in runs] == [1, 2]
        assert len({run.session for run in runs} - {None}) == 1
        assert [run.disturbance.other_programs_cpu_share for run in runs] == [0.25, 0.25]
        assert [run.telemetry.issues[0].sentence for run in runs] == [
            "25% of the CPU was used by other programs"
        ] * 2
        code = f"import os; print(os.environ[{progress.SESSION!r}]); exit(1)"
        made = measured(tmp_path, code)
        (line,) = made._logs[0].read_text().splitlines()[1:]
        assert progress.session_of({progress.SESSION: line})[1] == 1
        assert line.partition("/")[0] != runs[0].session

    def test_the_time_limit_is_for_the_steps_and_says_what_it_cut(self, tmp_path, capsys):
        # By the log, the first step alone takes longer.
        code = TRAINS.format(steps=3, steps_planned=20, status=0).replace(
            "\nraise", "\nimport time; time.sleep(60)\nraise"
        )
        made = measured(tmp_path, code, time_limit_s=0.1)
        (run,) = store.read(tmp_path / made.files[0])
        reason = "of max_steps=20 steps: the time limit of 0.1 s was reached"
        assert run.status == "complete"
        assert run.status_reason in {f"{step} {reason}" for step in (1, 2, 3)}
        assert (made.failures, made.status) == (0, 0)
        assert "exited with status" not in capsys.readouterr().err

    def test_one_that_fails_keeps_its_steps(self, tmp_path, capsys):
        made = measured(tmp_path, TRAINS.format(steps=7, steps_planned=20, status=3))
        (run,) = store.read(tmp_path / made.files[0])
        assert run.status != "complete"
        assert len(run.steps) == 7
        assert (made.failures, made.status) == (1, 3)
        assert "error: [1/1] llama fp32: " in capsys.readouterr().err

    def test_one_without_a_training_in_its_log_is_an_error(self, tmp_path, capsys):
        made = measured(tmp_path, "print('hello'); raise SystemExit(4)")
        assert (made.files, made.failures, made.status) == ([], 1, 4)
        shown = capsys.readouterr().err
        assert "error: [1/1] llama fp32: exited with status 4" in shown
        assert "    hello" in shown

    @pytest.mark.parametrize(
        ("said", "reason"),
        [
            (
                "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED",
                "out of memory: try --micro-batch-size 1 or",
            ),
            ("RuntimeError: CUDA error: unspecified launch failure", "exited with status 1 before"),
        ],
    )
    def test_one_that_runs_out_of_memory_before_its_first_step_says_so(
        self, tmp_path, capsys, said, reason
    ):
        made = measured(tmp_path, f"print({said!r}); raise SystemExit(1)", keeps_failures=True)
        shown = capsys.readouterr().err
        assert f"error: [1/1] llama fp32: {reason}" in shown
        assert f"    {said}" in shown
        (run,) = store.read(tmp_path / made.files[0])
        assert run.status_reason.startswith(reason.partition(":")[0])

    def test_one_that_hangs_is_ended_and_its_log_says_so(self, tmp_path):
        code = TRAINS.format(steps=5, steps_planned=20, status=0).replace(
            "raise", "import time; time.sleep(600); raise"
        )
        made = measured(tmp_path, code, limit_s=2.0)
        (run,) = store.read(tmp_path / made.files[0])
        assert len(run.steps) == 5
        assert "killed: ran longer than 2.0 s" in run.status_reason
        assert made.status == 143


class TestJobs:
    """In a job of Slurm, which may be requeued."""

    @pytest.fixture
    def job(self, tmp_path, monkeypatch):
        folder = tmp_path / "job"
        folder.mkdir()
        monkeypatch.setenv("TPRIMAT_JOB", str(folder))
        monkeypatch.setenv("SLURM_JOB_ID", "7")
        return folder

    def code(self, steps, status):
        of_round = f"int(os.environ[{progress.SESSION!r}].partition('/')[2])"
        code = TRAINS.format(steps=steps, steps_planned=20, status=status)
        return "import os\n" + code.replace("100.0 + i", f"100.0 + i + {of_round}")

    def test_the_next_attempt_runs_only_what_is_missing(self, job, tmp_path, monkeypatch, capsys):
        first = measured(tmp_path, self.code(20, 0))
        monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
        second = measured(tmp_path, self.code(20, 0), runs=2)
        assert "llama fp32, run 1: done before the job was requeued" in capsys.readouterr().out
        runs = store.read(tmp_path / first.files[0])
        assert [(run.session, run.round, run.status) for run in runs] == [
            ("slurm-7", number, "complete") for number in (1, 2)
        ]
        assert [len(each) for each in second.runs] == [2]
        assert [each.round for each in attempt.begun(job)] == [1, 2]

    def test_what_was_interrupted_stays_with_its_reason_and_is_run_again(
        self, job, tmp_path, monkeypatch
    ):
        made = measured(tmp_path, self.code(7, 3))
        monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
        code = self.code(20, 0).replace("100.0 + i", "200.0 + i")
        measured(tmp_path, code)
        cut, whole = store.read(tmp_path / made.files[0])
        assert (len(cut.steps), cut.status_reason.rpartition("; ")[2]) == (
            7,
            "Slurm requeued the job",
        )
        assert (len(whole.steps), whole.status, whole.round) == (20, "complete", 1)

    def test_a_resumed_sweep_belongs_to_the_job_that_runs_it(self, job, tmp_path, monkeypatch):
        measured(tmp_path, self.code(7, 3), resumes=True)
        monkeypatch.setenv("SLURM_JOB_ID", "8")
        made = measured(tmp_path, self.code(20, 0), resumes=True, retries_failed=True)
        (run,) = store.read(tmp_path / made.files[0])
        assert (run.session, run.status) == ("slurm-8", "complete")

    def test_what_is_begun_is_noted_with_what_its_result_states(self, job, tmp_path):
        tuning = Tuning(trials=3, settings=4)
        made = measured(tmp_path, self.code(20, 0), tuning=tuning)
        (run,) = store.read(tmp_path / made.files[0])
        (begun,) = attempt.begun(job)
        assert (begun.digest, begun.tuning) == (run.request, run.tuning)
        assert run.request is not None

    def test_another_node_prints_errors_alone_and_leaves_the_status_to_the_first(
        self, job, tmp_path, monkeypatch, capsys
    ):
        monkeypatch.setenv("SLURM_STEP_ID", "0")
        requested = RequestedConfig(steps=20, num_nodes=2)
        framework = fake_framework(
            "megatron",
            lambda request: Launch((sys.executable, "-c", "exit(3)"), {}, tmp_path),
            logged=True,
        )
        request, _ = fake_framework().resolve_config(
            "llama", requested, Device("cpu", 2, None), tmp_path / "output"
        )
        placed = dataclasses.replace(
            request, framework="megatron", node_index=1, rendezvous="n1:2000"
        )
        with console.capture_output(console.Verbosity.NORMAL, lambda: None):
            assert session.measure(Plan((framework,), (placed,), Path("output")), CPU) == (0, [])
        printed = capsys.readouterr()
        assert printed.out == ""
        assert "exited with status 3" in printed.err
        assert (job / "nodes" / "1.node").exists()
        assert attempt.begun(job) == []


class TestFailures:
    def test_the_status_as_a_shell_says_it(self):
        assert ProcessResult(-9, False, False, ()).shell_status == 137
        assert ProcessResult(-15, True, False, ()).shell_status == 130
        assert ProcessResult(7, False, False, ()).shell_status == 7

    def test_errors_come_before_the_last_lines(self, tmp_path):
        log = tmp_path / "a.log"
        log.write_text("one\nerror: the cause\n" + "noise\n" * 50 + "torchrun's end\n")
        assert last_words(log, ["noise", "torchrun's end"]) == [
            "error: the cause",
            "noise",
            "torchrun's end",
        ]
        assert last_words(tmp_path / "none.log", ["end"]) == ["end"]


def test_after_a_failure_the_rest_is_named_where_it_is_to_stop(tmp_path, capsys):
    framework = fake_framework(
        "lightning", lambda request: Launch((sys.executable, "-c", "exit(9)"), {}, tmp_path)
    )
    requests = [
        framework.resolve_config(
            model, RequestedConfig(), Device("cpu", 2, None), tmp_path / "output"
        )[0]
        for model in ("llama", "qwen")
    ]
    made = Session(
        Plan((framework,), tuple(requests), Path("output"), runs=2, stops_at_failure=True), CPU
    )
    made.run()
    assert (made.status, made.failures) == (9, 1)
    assert capsys.readouterr().err.endswith("    not run: qwen fp32\n")
