"""Recording a loop of one's own: what is recorded, what is declined, and how it may end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

torch = pytest.importorskip("torch")

import benchmark_utils
from tprimat import files
from tprimat.analysis.summary import summarize
from tprimat.errors import UsageError
from tprimat.record import progress
from tprimat.record.loop import COVERS
from tprimat.record.recovery import recover
from tprimat.results.run import Data, ParallelismConfig, Run
from tprimat.store import hosts, store

SIZES = {"global_batch_size": 4, "sequence_length": 16, "precision": "fp32"}


@pytest.fixture
def record(tmp_path):
    def make(**arguments):
        return benchmark_utils.record(
            **{"model": "mine", "output_dir": tmp_path, "quiet": True, **SIZES, **arguments}
        )

    return make


def trained(recorder, steps=3):
    with recorder:
        for step in range(1, steps + 1):
            recorder.step(loss=torch.tensor(2.0 / step))
    return recorder.result


LOOP = """
import os, sys
from benchmark_utils import record
name, kind = sys.argv[1], sys.argv[2]
named = {"label": name, "model_name": name} if kind == "label" else {"model_name": "mine"}
with record(output_dir="out", quiet=True, global_batch_size=4, sequence_length=16, precision="fp32", **named) as loop:
    for step in range(1, 31):
        loop.step(loss=2.0 / step)
        if step == 10 and kind == "fork":
            if os.fork() == 0:
                loop.step(loss=1.0)
                loop.recording.epoch_end({"epoch": 1.0})
                if name == "fails":
                    raise ValueError("in the child")
                sys.exit(0)
            os.wait()
        if step == 20 and kind == "fails":
            raise ValueError(name)
print(loop.result.status if loop.result else None)
"""
CALLBACK = """
import sys
import lightning.pytorch as pl, torch
from benchmark_utils import BenchmarkCallback
class Linear(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def training_step(self, batch, index):
        return self.layer(batch).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
ours = BenchmarkCallback(output_dir="out", model_name=sys.argv[1], label=sys.argv[1])
trainer = pl.Trainer(max_steps=30, accelerator="cpu", callbacks=[ours], **quiet)
trainer.fit(Linear(), torch.utils.data.DataLoader(torch.ones(120, 8), batch_size=4))
print(ours.result.status)
"""


def own_script(folder, repository, script, *arguments: bytes) -> tuple[int, str, list[Run]]:
    """Run a training script of a name that is no UTF-8 text: its status, what it printed, and the
    runs it recorded.
    """
    path = folder / os.fsdecode(b"caf\xe9") / os.fsdecode(b"caf\xe9.py")
    try:
        path.parent.mkdir()
    except OSError:
        pytest.skip("this file system takes no such names")
    path.write_text(script, encoding="utf-8")
    environment = {**os.environb, b"PYTHONPATH": os.fsencode(repository), b"NCCL_DEBUG": b"caf\xe9"}
    command = [os.fsencode(sys.executable), os.fsencode(path), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=300)
    runs = [run for file in (folder / "out").glob("*.json") for run in store.read(file)]
    assert not (folder / "out" / ".journal").exists()
    return done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace"), runs


@pytest.mark.skipif(sys.platform != "linux", reason="names of bytes")
class TestNamesThatAreNoUtf8:
    @pytest.mark.parametrize(("kind", "status"), [(b"argument", 0), (b"label", 0), (b"fails", 1)])
    def test_x8_a_loop_is_recorded(self, tmp_path, repository, kind, status):
        done, said, (run,) = own_script(tmp_path, repository, LOOP, b"data/caf\xe9.bin", kind)
        assert (done, "complete" in said) == (status, status == 0), said
        assert len(run.steps) == (20 if status else 30)
        assert "caf?.py" in " ".join(run.source.command)
        assert "caf?.bin" in " ".join(run.source.command)
        assert run.label == ("data/caf?.bin" if kind == b"label" else None)
        assert "caf?" in (run.status_reason or "caf?")

    def test_x8_a_callback_records(self, tmp_path, repository, trainings):
        done, said, (run,) = own_script(tmp_path, repository, CALLBACK, b"caf\xe9")
        assert (done, "complete" in said) == (0, True), said
        assert (len(run.steps), run.label, run.model) == (30, "caf?", "caf?")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks on this system")
@pytest.mark.parametrize("child", [b"exits", b"fails"])
def test_x8_a_forked_child_that_leaves_the_block_writes_no_run(tmp_path, repository, child):
    done, said, (run,) = own_script(tmp_path, repository, LOOP, child, b"fork")
    assert done == 0, said
    assert (run.status, run.steps, len(run.loss_values)) == ("complete", tuple(range(1, 31)), 30)
    assert run.epochs == ()


def test_x8_what_a_lock_keeps_out_is_saved_by_the_next_command(tmp_path, repository):
    code = f"from tprimat import files; files.LOCK_SECONDS = 0.1\n{LOOP}"
    environment = {**os.environ, "PYTHONPATH": str(repository), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", code, "a", "b"]
    (tmp_path / "out").mkdir()
    with files.lock_folder(tmp_path / "out"):
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
    assert done.returncode == 0
    assert "locked by another program" in done.stderr
    assert "the next command saves them as a result" in done.stderr
    (elsewhere,) = tmp_path.glob("tensorprimat-*/*.json")
    (recovered,) = recover(tmp_path / "out")
    assert recovered.path.parent == tmp_path / "out"
    assert store.read(recovered.path)[0].step_times == store.read(elsewhere)[0].step_times
    assert store.read(recovered.path)[0].status == "complete"


class TestWhatIsRecorded:
    def test_a_step_for_each_call(self, record, tmp_path):
        recorder = record()
        run = trained(recorder)
        assert run.steps == (1, 2, 3)
        assert all(time > 0 for time in run.step_times)
        assert run.loss_values == pytest.approx((2.0, 1.0, 2 / 3))
        assert (run.status, run.framework, run.model, run.platform) == (
            "complete",
            "own",
            "mine",
            "cpu",
        )
        assert run.tokens_per_step == 64
        assert run.timing.covers == COVERS
        assert recorder.path == tmp_path / "train_own_mine.json"
        assert store.read(recorder.path)[-1] == hosts.hidden(
            run, hosts.of_process(recorder.path.parent)
        )

    def test_the_end_tells_how_many_runs_the_file_has(self, record, capsys):
        (path,) = {(recorder := record(quiet=False), trained(recorder))[0].path for _ in range(2)}
        ends = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Results")]
        assert ends == [f"Results: {path}", f"Results: {path} (now 2 runs)"]

    def test_session_and_round_are_those_of_the_command_that_measures(self, record, monkeypatch):
        monkeypatch.setenv(progress.SESSION, "ab12/3")
        run = trained(record())
        assert (run.session, run.round) == ("ab12", 3)
        monkeypatch.delenv(progress.SESSION)
        assert trained(record()).session is None

    def test_what_disturbed_it(self, record):
        recorder = record()
        with recorder:
            # The first reading comes when the sampler has started.
            while not (read := recorder._recording.sampler.so_far()) or not read.samples:
                time.sleep(0.05)
            for _ in range(3):
                time.sleep(0.05)
                recorder.step()
        disturbance = recorder.result.disturbance
        assert 0 <= disturbance.other_programs_cpu_share <= 1
        assert disturbance.load_average_at_start is not None
        assert store.read(recorder.path)[-1].disturbance == disturbance

    def test_the_mean_of_micro_batches(self, record):
        with record() as recorder:
            recorder.step(loss=[torch.tensor(1.0), 3.0])
        assert recorder.result.loss_values == (2.0,)

    def test_the_learning_rate_that_a_step_used(self, record):
        weight = torch.nn.Parameter(torch.ones(1))
        optimizer = torch.optim.AdamW([weight], lr=1.0)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (step + 1))
        with record(optimizer=optimizer) as recorder:
            for _ in range(3):
                weight.square().sum().backward()
                optimizer.step()
                schedule.step()
                recorder.step(loss=weight.square().sum())
        assert recorder.result.learning_rates == pytest.approx((1.0, 1 / 2, 1 / 3))
        assert recorder.result.optimizer.name == "AdamW"
        assert not optimizer._optimizer_step_pre_hooks

    def test_what_a_module_shows(self, record):
        module = torch.nn.Linear(8, 2)
        assert trained(record(module=module)).model_config.num_parameters == 18

    def test_what_the_caller_knows_wins(self, record):
        setup = Run(
            data=Data(kind="my texts"),
            parallelism_config=ParallelismConfig(tensor_model_parallel_size=2),
        )
        run = trained(record(setup=setup, framework="jam", label="a"))
        assert (run.framework, run.label, run.data.kind) == ("jam", "a", "my texts")
        assert run.parallelism_config.tensor_model_parallel_size == 2

    def test_a_training_that_goes_on(self, record):
        run = trained(record(first_step=100))
        assert run.steps == (101, 102, 103)
        assert "resumed: the first step recorded is 101" in run.warnings

    def test_the_journal_is_gone_when_the_result_is_there(self, record, tmp_path):
        trained(record())
        assert not (tmp_path / ".journal").exists()
        assert recover(tmp_path) == []

    def test_pauses_are_in_no_step(self, record, monkeypatch):
        from tprimat.record import lifecycle

        clock = iter(range(0, 10**12, 10**9))

        class Ticking(lifecycle.HostClock):
            mark = host_ns = staticmethod(lambda: next(clock))

        monkeypatch.setattr(lifecycle, "HostClock", Ticking)
        with record() as recorder:
            recorder.step(loss=1.0)
            with recorder.paused():
                pass
            recorder.step(loss=1.0)
        # Each look at this clock takes a second. From the first step's end to the second one's
        # there are three, and one of them lies within the pause.
        assert recorder.result.step_times[1] == 2.0

    @pytest.mark.skipif(
        not hasattr(signal, "SIGCONT"), reason="Windows suspends no process by a signal"
    )
    @pytest.mark.parametrize(("slept", "held"), [(600.0, 600.0), (0.0, None)])
    def test_i4_t8_a_suspended_process_is_a_pause(self, record, monkeypatch, slept, held):
        """A scheduler sends SIGCONT before SIGTERM too: a step that takes no longer has held
        nothing.
        """
        from tprimat.record import lifecycle

        now = [0.0]

        class Stopped(lifecycle.HostClock):
            mark = host_ns = staticmethod(lambda: int(now[0] * 1e9))

        monkeypatch.setattr(lifecycle, "HostClock", Stopped)
        earlier = signal.getsignal(signal.SIGCONT)
        with record() as recorder:
            for step in range(1, 31):
                now[0] += 2.0 + 0.001 * (step % 3)
                if step == 20:
                    now[0] += slept
                    os.kill(os.getpid(), signal.SIGCONT)
                recorder.step(loss=1.0)
        run = recorder.result
        assert signal.getsignal(signal.SIGCONT) == earlier
        assert run.step_times[19] == pytest.approx(2.002 + slept)
        assert summarize(run).performance.avg_step_time_seconds == pytest.approx(2.001, abs=1e-4)
        others = run.native_metrics.get("other_seconds")
        assert (others and others[19]) == (held and pytest.approx(held, abs=0.01))
        text = (
            "the time of step 20 includes a suspension of the process: it is no training step's,"
            " and excluded"
        )
        assert (text in run.warnings) == bool(held)

    def test_a_record_may_be_of_several_steps(self, record):
        with record() as recorder:
            recorder.step(loss=1.0, window=3)
            recorder.step(loss=1.0)
        assert (recorder.result.steps, recorder.result.window_steps) == ((3, 4), (3, 1))

    def test_the_wait_for_data_is_that_of_the_measured_steps_after_the_first(self, record):
        class Slow(torch.utils.data.IterableDataset):
            def __iter__(self):
                for seconds in (0.6, 0.01, 0.01, 0.6):
                    time.sleep(seconds)
                    yield torch.ones(1)

        recorder = record()
        batches = iter(recorder.watch(torch.utils.data.DataLoader(Slow(), batch_size=None)))
        with recorder:
            for batch in batches:
                recorder.step(loss=batch)
                if recorder._recording.step == 3:
                    # As where a profiler watches the steps that follow.
                    recorder._recording.end_measuring()
        run = recorder.result
        assert run.steps == (1, 2, 3, 4)
        # Far below what either long wait would add, however busy the machine is.
        assert 0.01 <= run.breakdown["data_wait_s"] < 0.15
        assert sum(run.breakdown.values()) == pytest.approx(sum(run.step_times[1:3]) / 2, rel=0.01)

    def test_a_loop_that_shows_no_wait_has_none(self, record):
        assert trained(record()).breakdown == {}


class TestWhatIsDeclined:
    def test_nothing_is_guessed(self, tmp_path):
        with benchmark_utils.record(output_dir=tmp_path, quiet=True) as recorder:
            recorder.step()
        run = recorder.result
        assert run.loss_values == run.learning_rates == run.grad_norms == (None,)
        assert run.training_config.precision is None
        assert run.tokens_per_step is None
        said = "\n".join(run.warnings)
        for what in ("global_batch_size", "sequence_length", "precision", "loss", "gradient norm"):
            assert f"{what}" in said

    def test_a_loss_that_is_no_number(self, record):
        with record() as recorder:
            recorder.step(loss=torch.ones(2))
        assert recorder.result.loss_values == (None,)
        assert "loss unknown: it is not a single number but Tensor" in recorder.result.warnings

    def test_float32_products_in_tf32_are_not_called_fp32(self, record, monkeypatch):
        monkeypatch.setattr("tprimat.record.describe._fp32_products", lambda platform: "high")
        run = trained(record())
        assert run.training_config.precision is None
        assert run.training_config.precision_detail == "float32 products high"

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"max_steps": 0}, "record: max_steps=0 is invalid"),
            ({"model": ""}, "record: model='' is invalid"),
            ({"model": "a", "model_name": "b"}, "record: model='a' is invalid"),
            ({"sequence_length": 1.5}, "record: sequence_length=1.5 is invalid"),
            ({"precision": ""}, "record: precision='' is invalid"),
            ({"platform": "tpu"}, "record: platform='tpu' is invalid"),
        ],
    )
    def test_wrong_arguments_are_one_line_before_anything_starts(self, record, arguments, words):
        with pytest.raises(UsageError) as refused:
            record(**arguments)
        assert refused.value.message.startswith(words)
        assert refused.value.line().startswith("error: ")

    def test_a_step_outside_of_the_block(self, record):
        recorder = record()
        with pytest.raises(UsageError, match="outside of its `with` block"):
            recorder.step(loss=1.0)
        trained(recorder)
        with pytest.raises(UsageError, match="outside of its `with` block"):
            recorder.step(loss=1.0)
        with pytest.raises(UsageError, match="is for one loop"):
            trained(recorder)


class TestEnds:
    def test_fewer_steps_than_asked_for(self, record):
        run = trained(record(max_steps=5))
        assert (run.status, run.status_reason) == (
            "incomplete",
            "3 of max_steps=5 steps: the loop stopped early",
        )

    def test_on_purpose(self, record):
        with record(max_steps=5) as recorder:
            recorder.step(loss=1.0)
            recorder.stop_reason = "the loss is low enough"
        assert (recorder.result.status, recorder.result.status_reason) == (
            "complete",
            "the loss is low enough",
        )

    @pytest.mark.parametrize(
        ("error", "status", "reason"),
        [
            (ValueError("bad batch"), "failed", "ValueError: bad batch"),
            (KeyboardInterrupt(), "incomplete", "interrupted (Ctrl-C)"),
            (
                torch.cuda.OutOfMemoryError("no room"),
                "failed",
                "out of memory: OutOfMemoryError: no room",
            ),
        ],
    )
    def test_an_exception_leaves_a_result_and_goes_on(self, record, error, status, reason):
        recorder = record()
        with pytest.raises(type(error)), recorder:  # noqa: PT012 - the block is what is tested
            recorder.step(loss=1.0)
            raise error
        run = store.read(recorder.path)[-1]
        assert (run.status, run.status_reason, run.steps) == (status, reason, (1,))

    @pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM to catch")
    def test_sigterm(self, repository, tmp_path):
        program = f"""
            import os, signal, time
            from benchmark_utils import record
            with record(model="mine", output_dir={str(tmp_path)!r}, quiet=True) as recorder:
                recorder.step(loss=1.0)
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(3600)
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)], cwd=repository, timeout=1800
        )
        assert done.returncode == -signal.SIGTERM
        run = store.read(tmp_path / "train_own_mine.json")[-1]
        assert (run.status, run.status_reason, run.steps) == (
            "incomplete",
            "terminated (SIGTERM)",
            (1,),
        )

    def test_a_folder_that_cannot_be_written_is_said_before_the_first_step(self, record, tmp_path):
        (tmp_path / "file").write_text("in the way")
        recorder = record(output_dir=tmp_path / "file" / "output")
        with pytest.raises(UsageError, match=r"result can't be written.*choose another output_dir"):
            recorder.__enter__()

    def test_another_process_than_the_first_writes_nothing(self, record, tmp_path, monkeypatch):
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "2")
        recorder = record()
        run = trained(recorder)
        assert run.steps == (1, 2, 3)
        assert recorder.path is None
        assert list(tmp_path.iterdir()) == []


def compiled_by_call():
    return torch.compile(torch.nn.Linear(2, 2))


def compiled_in_place():
    module = torch.nn.Linear(2, 2)
    module.compile()
    return module


def compiled_in_part():
    return torch.nn.Sequential(torch.nn.Linear(2, 2), compiled_by_call())


def unwrapped_by_lightning():
    module = torch.nn.Linear(2, 2)
    module._compiler_ctx = {"compiler": "dynamo"}
    return module


@pytest.fixture
def nothing_compiled():
    """A process in which no earlier test has compiled anything."""
    if (dynamo := sys.modules.get("torch._dynamo.utils")) is not None:
        dynamo.counters.clear()


@pytest.mark.parametrize(
    ("make", "is_compiled"),
    [
        (lambda: torch.nn.Linear(2, 2), False),
        (compiled_by_call, True),
        (compiled_in_place, True),
        (compiled_in_part, True),
        (unwrapped_by_lightning, True),
        (lambda: None, None),
    ],
)
@pytest.mark.usefixtures("nothing_compiled")
def test_i1_compilation_is_noted(record, make, is_compiled):
    assert trained(record(module=make())).framework_config.get("torch_compile") is is_compiled


def test_i1_what_the_caller_states_of_compilation_stays(record):
    stated = Run(framework_config={"torch_compile": True})
    assert trained(record(module=torch.nn.Linear(2, 2), setup=stated)).framework_config == {
        "torch_compile": True
    }


def test_i1_an_eager_module_in_a_compiled_step_is_not_called_eager(record, monkeypatch):
    import torch._dynamo.utils as dynamo

    monkeypatch.setitem(dynamo.counters["frames"], "total", 1)
    assert "torch_compile" not in trained(record(module=torch.nn.Linear(2, 2))).framework_config


@pytest.mark.usefixtures("nothing_compiled")
def test_i1_compiled_and_eager_runs_of_one_loop_have_files_of_their_own(record, tmp_path):
    for make in (compiled_by_call, lambda: torch.nn.Linear(2, 2), compiled_by_call):
        trained(record(module=make()))
    runs = {path.stem: len(store.read(path)) for path in tmp_path.glob("*.json")}
    assert sorted(runs.values()) == [1, 2]
    assert [name.rpartition("_")[2] for name, count in runs.items() if count == 1] == ["eager"]
