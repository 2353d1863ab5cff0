"""How a run ended: one function for logs and recordings, five answers, and the status that
follows.
"""

from __future__ import annotations

import json

import made_endings
import pytest
from made_endings import ENDINGS, FORMATS, RECORDED, RECORDERS

from tprimat import read
from tprimat.log_import import sources
from tprimat.log_import.given import GivenValues
from tprimat.read.parsing import text
from tprimat.results.ending import Ending
from tprimat.results.outcome import Cause, ending_of, going_on, outcome_of
from tprimat.results.run import Run


def run_of(log: str) -> Run:
    (run,) = read.read(text.lines([log.encode()]), "a log")
    return run


def kind_of(run: Run) -> tuple[str, str]:
    assert run.ending is not None
    return run.ending.kind, run.status


class TestDecision:
    FAILED, STOPPED, SAID = (
        Cause("failed", "ValueError: x", 7),
        Cause("stopped", "SIGTERM"),
        Cause(None, "[ERROR] x"),
    )
    ASKED = Cause("stopped", "time limit reached", 9)

    @pytest.mark.parametrize(
        ("done", "known", "kind", "cause"),
        [
            (119, {}, "cut_off", None),
            (120, {}, "finished", None),
            (121, {}, "finished", None),
            (0, {"planned": None}, "cut_off", None),
            (5, {"planned": None, "ended": True}, "finished", None),
            (119, {"cause": FAILED}, "failed", "ValueError: x"),
            (120, {"cause": FAILED}, "finished", None),
            (119, {"cause": STOPPED}, "stopped", "SIGTERM"),
            (119, {"cause": SAID}, "cut_off", "[ERROR] x"),
            (40, {"asked": ASKED}, "finished", "time limit reached"),
            (40, {"asked": ASKED, "ended": True}, "finished", "time limit reached"),
            (40, {"asked": ASKED, "cause": FAILED}, "failed", "ValueError: x"),
        ],
    )
    def test_e1_one_function_decides(self, done, known, kind, cause):
        ending = ending_of(done, **{"planned": 120, **known})
        assert (ending.kind, ending.cause) == (kind, cause)

    def test_e1_the_status_follows(self):
        found = {
            kind: outcome_of(Ending(kind=kind)).status
            for kind in ("finished", "failed", "stopped", "cut_off")
        }
        assert found == {
            "finished": "complete",
            "failed": "failed",
            "stopped": "incomplete",
            "cut_off": "incomplete",
        }

    def test_e1_only_what_has_no_cause_may_go_on(self):
        kinds = ("finished", "failed", "stopped", "cut_off")
        runs = [going_on(Run(ending=Ending(kind=kind))) for kind in kinds]
        assert [run.ending.kind for run in runs] == ["finished", "failed", "stopped", "running"]
        assert going_on(Run()).ending is None


class TestTable:
    @pytest.mark.parametrize("ending", ENDINGS)
    @pytest.mark.parametrize("form", FORMATS)
    def test_e1_a_log(self, form, ending):
        right, log = made_endings.right(form, ending), made_endings.log(form, ending)
        run = run_of(log)
        assert kind_of(run) == (right.kind, right.status)
        assert (right.cause or "") in (run.ending.cause or "")
        assert (run.ending.line is not None) == right.has_line
        if right.kind in ("failed", "stopped"):
            assert right.cause in log.splitlines()[run.ending.line - 1]
            assert f": line {run.ending.line}: {run.ending.cause}" in run.status_reason
        if ending == "NaN":
            assert run.loss_values[made_endings.NAN_FROM - 2] is not None
            assert set(run.loss_values[made_endings.NAN_FROM - 1 :]) == {None}

    # OLMo's blocks are indented: its reader takes none behind a prefix.
    @pytest.mark.parametrize("form", [form for form in FORMATS if form != "olmo"])
    @pytest.mark.parametrize(
        "prefix", ["0: ", "2026-05-11T02:00:00.123456789Z stdout F ", "[default3]:"]
    )
    def test_e1_behind_a_launchers_prefix(self, form, prefix):
        run = run_of(made_endings.log(form, "crashed", prefix=prefix))
        assert kind_of(run) == ("failed", "failed")
        assert run.ending.cause.startswith("torch.OutOfMemoryError: CUDA out of memory")

    @pytest.mark.parametrize("ending", RECORDED)
    @pytest.mark.parametrize("recorder", RECORDERS)
    def test_e1_a_recording(self, recorder, ending, tmp_path):
        pytest.importorskip("torch")
        pytest.importorskip({"BenchmarkCallback": "lightning"}.get(recorder, "transformers"))
        right, run = RECORDED[ending], made_endings.recorded(recorder, ending, tmp_path)
        assert kind_of(run) == (right.kind, right.status)
        assert (right.cause or "") in (run.ending.cause or "")
        assert run.ending.line is None
        is_whole = ending in ("complete", "NaN")
        assert len(run.steps) == (made_endings.STEPS if is_whole else made_endings.ENDS_AFTER)
        if ending == "NaN":
            assert run.loss_values[-1] is None
            assert any(note.code == "loss-not-finite" for note in run.notes)
        if right.kind in ("failed", "stopped"):
            assert run.status_reason == run.ending.cause


CUT = made_endings.log("megatron", "cut off")


class TestCauses:
    @pytest.mark.parametrize(
        "last",
        [
            (
                "[2026-05-11 02:10:00] CRITICAL [olmo.util:158, rank=0] Uncaught SomeReaderError:"
                " generator thread failed"
            ),
            (
                "[2026-05-11 02:10:00] CRITICAL [olmo.util:168, rank=3] Uncaught OutOfMemoryError:"
                " CUDA out of memory."
            ),
            (
                "2026-05-11 02:10:00,123 - root - ERROR - Training failed: RuntimeError: CUDA"
                " error: invalid argument"
            ),
            "ERROR:root:RuntimeError: the data ended",
            "[rank3]: torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB",
            "[rank0]: AssertionError",
            "(TaskRunner pid=4455) ValueError: bad batch",
            (
                "[2026-05-11 02:10:00][rank3] torch.distributed.DistBackendError: NCCL error in:"
                " x.cpp:1"
            ),
            (
                "[rank2]:[E511 02:10:00.1 ProcessGroupNCCL.cpp:629] [Rank 2] Watchdog caught"
                " collective operation timeout"
            ),
            "srun: error: node7: task 3: Killed",
            "srun: error: node7: tasks 0-7: Exited with exit code 1",
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
            (
                "E0511 02:10:00.1 107 torch/elastic/api.py:880] failed (exitcode: -9) local_rank: 5"
                " (pid: 4711)"
            ),
            (
                "E0511 02:10:00.1 107 torch/distributed/elastic/api.py:880] failed (exitcode: 1)"
                " local_rank: 5 (pid: 4711)"
            ),
            "  traceback : Signal 11 (SIGSEGV) received by PID 4711",
            "Segmentation fault (core dumped)",
            "Bus error",
            "[ 8121.1] Out of memory: Killed process 4711 (python3) total-vm:1kB",
            (
                "slurmstepd: error: Detected 1 oom_kill event in StepId=71.0. Some of the step"
                " tasks have been OOM Killed."
            ),
            (
                "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-05-11T02:10:00 DUE TO NODE"
                " FAILURE, SEE LOG ***"
            ),
            "HW Exception by GPU node-9 (Agent handle: 0x6a10) reason :GPU Hang",
            "[ 8121.1] NVRM: Xid (PCI:0000:1b:00): 79, pid=4711, GPU has fallen off the bus.",
            (
                "[2026-05-11 02:10:00,1] [ERROR] [launch.py:325:sigkill_handler] ['python'] exits"
                " with return code = -9"
            ),
            (
                "mpirun detected that one or more processes exited with non-zero status, thus"
                " causing the job to end."
            ),
            "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
            "=>> PBS: job killed: mem 9kb exceeded limit 8kb",
            "RuntimeError: DataLoader worker (pid 12) is killed by signal: Killed. ",
        ],
    )
    def test_e3_what_fails_a_training(self, last):
        run = run_of(f"{CUT}{last}\n")
        assert kind_of(run) == ("failed", "failed")
        assert run.ending.line == made_endings.DONE + 1
        assert run.status_reason.startswith(
            f"log ends at iteration 40 of 120: line {run.ending.line}: "
        )

    @pytest.mark.parametrize(
        "last",
        [
            (
                "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-05-11T02:10:00 DUE TO TIME"
                " LIMIT ***"
            ),
            (
                "slurmstepd: error: *** STEP 12.0 ON n1 CANCELLED AT 2026-05-11T02:10:00 DUE TO"
                " PREEMPTION ***"
            ),
            "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-05-11T02:10:00 ***",
            "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
            "TERM_PREEMPT: job killed by preemption.",
            "=>> PBS: job killed: walltime 3612 exceeded limit 3600",
            "The node was low on resource: memory. Pod train-0 was evicted",
            "status: Failed, reason: Evicted",
            "reason: DeadlineExceeded, Job was active longer than specified deadline",
            "Preemption detected, saving a checkpoint",
            "SignalException: Process 41337 got signal: 15",
            (
                "W0511 03:22:23.562000 41337 torch/distributed/elastic/api.py:739] Received 15"
                " death signal, shutting down"
            ),
            "[rank: 3] Received SIGTERM: 15",
            "exiting program after receiving SIGTERM.",
            "KeyboardInterrupt",
            "Terminated",
            "ERROR: TensorPrimat: interrupted by the user",
        ],
    )
    def test_e1_what_ends_one_from_outside(self, last):
        run = run_of(f"{CUT}{last}\n")
        assert kind_of(run) == ("stopped", "incomplete")
        assert (run.ending.cause, run.ending.line) == (
            last.split("] Received 15")[0] and run.ending.cause,
            41,
        )

    @pytest.mark.parametrize(
        "last",
        [
            "validation error: 0.25 | error rate: 0.01",
            "0 errors, 0 warnings",
            "no NCCL errors so far",
            "Killed 3 stale processes before the start",
            "WARNING: ValueError: could not read the cache, going on without",
            "[2026-05-11 02:10:00] [WARNING] RuntimeError: caught, and tried again",
            (
                "W0511 03:22:23.562000 41337 torch/x.py:1010] Sending process 41405 closing signal"
                " SIGTERM"
            ),
            "torchrun exited with code 0",
            "exits with return code = 0",
            "preemption_checkpoint_interval ................. 100",
            "max_errors: 5, exit code: none",
        ],
    )
    def test_e3_words_that_fail_nothing(self, last):
        assert run_of(f"{CUT}{last}\n").ending == Ending(kind="cut_off")

    def test_e3_a_logged_error_alone_decides_nothing(self):
        run = run_of(f"{CUT}[rank-0/8][ERROR] [---x.py:1] : upload failed\n")
        assert kind_of(run) == ("cut_off", "incomplete")
        assert "upload failed" in run.ending.cause
        run = run_of(
            f"{CUT}[rank-0/8][ERROR] [---x.py:1] : upload failed\ntorchrun exited with code 1\n"
        )
        assert (run.ending.kind, run.ending.line) == ("failed", 41)

    def test_e3_a_limit_after_a_failure_is_no_excuse(self):
        # The other ranks hang until the scheduler's limit.
        limit = made_endings.TIME_LIMIT
        assert run_of(f"{CUT}{made_endings.OUT_OF_MEMORY}{limit}").ending.kind == "failed"
        assert run_of(f"{CUT}{limit}{made_endings.OUT_OF_MEMORY}").ending.kind == "stopped"

    @pytest.mark.parametrize("form", FORMATS)
    def test_e3_what_was_survived_is_no_ending(self, form):
        head, steps = made_endings.log(form, "cut off"), made_endings.log(form, "complete")
        cut = steps.index(made_endings.step_line(form, 60))
        run = run_of(steps[:cut] + made_endings.OUT_OF_MEMORY + steps[cut:])
        assert kind_of(run) == ("finished", "complete")
        assert head != steps
        assert not any("then:" in warning for warning in run.warnings)

    @pytest.mark.parametrize("form", FORMATS)
    def test_e3_a_failure_after_the_last_step_is_a_note(self, form):
        error = "RuntimeError: the process group is gone\ntorchrun exited with code 1\n"
        run = run_of(f"{made_endings.log(form, 'complete')}{error}")
        assert kind_of(run) == ("finished", "complete")
        assert [
            warning
            for warning in run.warnings
            if warning.startswith("the run completed, then: line ")
        ]

    @pytest.mark.parametrize("form", ["torchtitan", "deepspeed"])
    @pytest.mark.parametrize(
        "error", ["torch.OutOfMemoryError: HIP out of memory.", "RuntimeError: NCCL error in: x"]
    )
    def test_e3_before_the_first_step(self, form, error):
        head = made_endings.head(form)
        run = run_of(f"{head}[rank3]: {error}\n")
        assert kind_of(run) == ("failed", "failed")
        assert (run.ending.cause, run.ending.line) == (error, head.count("\n") + 1)


class TestForms:
    """What was wrong in one log format each."""

    @pytest.fixture
    def case(self, samples):
        def runs_of(name):
            path = samples.parent / "cases" / "4" / name
            if not path.is_file():
                pytest.skip("the directory of cases does not lie beside this clone")
            (source,) = sources.log_sources([str(path)])[0]
            outcome = sources.read_source(source, GivenValues())
            assert isinstance(outcome, list), outcome
            (imported,) = outcome
            return imported.run

        return runs_of

    def test_e3_an_uncaught_error_with_a_level(self, case):
        run = case("a_13_uncaught_error_with_level.log")
        assert kind_of(run) == ("failed", "failed")
        assert (run.ending.cause, run.ending.line) == (
            "SomeReaderError: generator thread data thread 0 failed", 11,
        )  # fmt: skip

    def test_e3_a_label_without_a_blank(self, case):
        run = case("a_11_megatron_label_without_space.log")
        # "actual seqlen" is of Megatron-DeepSpeed.
        assert (run.framework, run.source.dialect) == ("deepspeed", "megatron (upstream)")
        assert (run.steps, run.step_times) == ((21, 22), (4.0, 4.0))
        assert run.training_config.max_steps == 500
        assert kind_of(run) == ("cut_off", "incomplete")

    def test_e3_the_last_entry_has_no_loss(self, case):
        run = case("c_llamafactory_final_line.jsonl")
        assert kind_of(run) == ("finished", "complete")
        assert run.training_config.max_steps == 93

    def test_e3_an_evaluation_on_the_way_is_no_end(self):
        entries = [
            {
                "current_steps": step,
                "total_steps": 93,
                "loss": 0.4,
                "elapsed_time": f"0:{step // 10:02d}:00",
            }
            for step in (10, 20)
        ]
        evaluated = {
            "current_steps": 92,
            "total_steps": 93,
            "eval_loss": 1.9,
            "elapsed_time": "0:36:00",
        }
        ends = [92, 93]
        found = [
            run_of(
                "".join(
                    f"{json.dumps(each)}\n"
                    for each in (*entries, {**evaluated, "current_steps": step})
                )
            )
            for step in ends
        ]
        assert [kind_of(run) for run in found] == [
            ("cut_off", "incomplete"),
            ("finished", "complete"),
        ]

    def test_e3_the_bar_is_at_its_end(self):
        log = made_endings.head("hf_trainer") + "".join(
            f"{{'loss': 2.0, 'learning_rate': 1e-05, 'epoch': {step / 120:.3f}}}\n {step}/120"
            f" [00:{step // 3}<1:00]\n"
            for step in (50, 100)
        )
        bars = [f"  1%|#  | {step}/120 [01:00<00:00,  2.00s/it]\n" for step in (119, 120)]
        assert [run_of(log + bar).ending.kind for bar in bars] == ["cut_off", "finished"]

    def test_e3_a_block_that_is_open_at_the_end(self):
        log = made_endings.log("olmo", "cut off")
        run = run_of(f"{log}RuntimeError: NCCL error in: x.cpp:1\n")
        assert kind_of(run) == ("failed", "failed")

    def test_e3_megatron_bridge_survives(self):
        lines = [
            f"Step Time : {5 + n / 100:.2f}s GPU utilization: 800.0MODEL_TFLOP/s/GPU\n"
            for n in range(8)
        ]
        error = "RuntimeError: caught\n"
        assert run_of("".join([*lines[:4], error, *lines[4:]])).ending.kind == "cut_off"
        assert run_of("".join([*lines, error])).ending.kind == "failed"

    def test_e3_a_pattern_reads_the_cause(self, tmp_path):
        path = tmp_path / "own.log"
        lines = [f"iter {step} loss 2.0 time: 150ms" for step in range(1, 9)]

        def ending(*more):
            path.write_text("\n".join((*lines, *more)) + "\n")
            (source,) = sources.log_sources([str(path)])[0]
            outcome = sources.read_source(source, GivenValues(columns=_pattern()))
            assert isinstance(outcome, list), outcome
            return outcome[0].run

        assert kind_of(ending()) == ("cut_off", "incomplete")
        assert kind_of(ending("RuntimeError: the data ended")) == ("failed", "failed")
        assert kind_of(ending("RuntimeError: caught", "iter 9 loss 2.0 time: 150ms")) == (
            "cut_off",
            "incomplete",
        )

    def test_e1_a_log_that_is_written_is_running(self, tmp_path):
        path = tmp_path / "train.log"
        for name, kind in (("cut off", "running"), ("crashed", "failed"), ("complete", "finished")):
            path.write_text(made_endings.log("megatron", name))
            (source,) = sources.log_sources([str(path)])[0]
            outcome = sources.read_source(
                source.__class__(**{**vars(source), "growing": True}), GivenValues()
            )
            assert [each.run.ending.kind for each in outcome] == [kind]


def _pattern():
    from tprimat.read.mapped import LinePattern

    return LinePattern("iter {step} loss {loss} time: {time}ms")
