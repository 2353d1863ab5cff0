"""The window of a profiler: which steps it is, what becomes of it, and that no figure is of
them.
"""

from __future__ import annotations

import contextlib
import gzip
import json

import pytest
from made_runs import SMALL
from stored_runs import series

from tprimat.analysis.records import trained
from tprimat.analysis.summary import summarize
from tprimat.frameworks import profiling
from tprimat.frameworks.loops import profiled
from tprimat.frameworks.loops.profiled import Window
from tprimat.frameworks.loops.time_limit import TimeLimit
from tprimat.frameworks.profiling import WINDOW
from tprimat.frameworks.request import Request
from tprimat.record import memory
from tprimat.results.run import Run
from tprimat.store import store

GPU_WORK = {
    "ph": "X",
    "cat": "kernel",
    "name": "gemm",
    "ts": 10.0,
    "dur": 5.0,
    "tid": 7,
    "args": {"device": 0},
}
CPU_WORK = {
    "ph": "X",
    "cat": "cpu_op",
    "name": "aten::mm",
    "ts": 1.0,
    "dur": 5.0,
    "tid": 1,
    "args": {},
}


class Watching:
    def __init__(self, trouble=None, folder=None, event=GPU_WORK):
        self.traces, self.calls, self.trouble = {}, [], trouble
        self.folder, self.event = folder, event

    def __enter__(self):
        self.calls.append("start")
        if self.trouble:
            raise self.trouble
        if self.folder:
            path = self.folder / "trace.json.gz"
            path.write_bytes(gzip.compress(json.dumps({"traceEvents": [self.event]}).encode()))
            self.traces["torch"] = str(path)
        return lambda: self.calls.append("step")

    def __exit__(self, *_):
        self.calls.append("stop")


def run_of(steps, **more):
    times = more.pop("step_times")
    return Run(**series(times, steps=tuple(steps)), **more)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def train(steps, profiler, kind="torch", limit_s=None, batches_a_step=1, before=None):
    """The steps that ran, the reason for their end, and the window; each takes a second."""
    clock = Clock()
    limit = TimeLimit(steps, limit_s, 1, lambda over: over, clock)
    window = Window(profiler, profiler.traces if profiler else {}, kind, steps, limit, before)
    last = steps + WINDOW if profiler else steps
    for step in range(1, last + 1):
        clock.now += 1.0
        for _ in range(batches_a_step):
            reason = window.reached(step)
        if reason is not None:
            return step, reason, window
    return last, None, window


class TestWindow:
    def test_the_steps_after_the_measured_ones_are_watched(self, tmp_path):
        watching = Watching(folder=tmp_path)
        *ended, window = train(20, watching, before=lambda: watching.calls.append("before"))
        assert ended == [24, None]
        assert watching.calls == ["before", "start", *["step"] * WINDOW, "stop"]
        noted = window.noted(run_of(range(1, 25), step_times=(1.0,) * 24))
        assert noted.profiled_steps == (21, 22, 23, 24)
        assert noted.profile == {"torch": str(tmp_path / "trace.json.gz")}
        assert noted.warnings == ()

    def test_the_breakdown_of_the_trace_joins_the_result(self, tmp_path):
        *_, window = train(20, Watching(folder=tmp_path))
        noted = window.noted(run_of(range(1, 25), step_times=(1.0,) * 24))
        assert noted.breakdown["category matrix_multiplication"] == pytest.approx(5e-6)
        assert noted.trace.steps[0].parts == {"matrix_multiplication": pytest.approx(5e-6)}

    def test_a_trace_without_gpu_work_says_so(self, tmp_path):
        *_, window = train(20, Watching(folder=tmp_path, event=CPU_WORK))
        noted = window.noted(run_of(range(1, 25), step_times=(1.0,) * 24))
        assert (noted.breakdown, noted.trace) == ({}, None)
        assert noted.warnings == ("--profile torch: no breakdown: the trace has no GPU work",)

    def test_a_step_of_several_batches_counts_once(self):
        watching = Watching()
        train(20, watching, batches_a_step=3)
        assert watching.calls == ["start", *["step"] * WINDOW, "stop"]

    def test_when_the_time_is_up_the_window_still_comes(self):
        watching = Watching()
        ended, reason, window = train(100, watching, limit_s=30.0)
        assert ended == 30 + WINDOW
        assert reason == "30 of max_steps=100 steps: the time limit of 30.0 s was reached"
        assert watching.calls[-1] == "stop"
        assert window.noted(run_of(range(1, 35), step_times=(1.0,) * 34)).profiled_steps == (
            31,
            32,
            33,
            34,
        )

    def test_time_that_is_up_within_the_window_changes_nothing(self):
        assert train(20, Watching(), limit_s=21.0)[:2] == (24, None)

    def test_without_a_window_the_limit_alone_decides(self):
        assert train(100, None, limit_s=30.0)[0] == 30

    @pytest.mark.parametrize("limit_s", [None, 30.0])
    def test_a_profiler_that_fails_ends_no_training(self, limit_s):
        trouble = RuntimeError("CUPTI: insufficient privileges\nand more")
        ended, _, window = train(60, Watching(trouble), "nsys", limit_s=limit_s)
        assert ended == (64 if limit_s is None else 31)
        noted = window.noted(run_of(range(1, ended + 1), step_times=(1.0,) * ended))
        assert noted.warnings == ("--profile nsys: RuntimeError: CUPTI: insufficient privileges",)
        assert noted.profile == {}
        assert noted.profiled_steps == tuple(range(61, 65)) if limit_s is None else (31,)

    def test_a_training_that_fails_before_its_window_has_none(self):
        window = Window(Watching(), {}, "torch", 20, TimeLimit(20, None, 1, lambda over: over))
        assert [window.reached(step) for step in (1, 2, 3)] == [None] * 3
        run = run_of(range(1, 4), step_times=(1.0,) * 3)
        assert window.noted(run) is run

    @pytest.mark.parametrize(
        ("kind", "ending", "switch"), [("nsys", ".nsys-rep", "cuda"), ("rocprof", "", "roctx")]
    )
    def test_what_outer_profilers_leave(self, tmp_path, monkeypatch, kind, ending, switch):
        told = []
        monkeypatch.setattr(profiled, f"_switch_{switch}", told.append)
        monkeypatch.setenv(profiling.TRACE, str(tmp_path / "trace"))
        request = Request(
            "nemo", "nvd", "llama", "full", "bf16", 9, 1, 1, 8, 1, 1, tmp_path, profile=kind
        )
        window = profiled.window(
            request, TimeLimit(9, None, 1, lambda over: over), first_process=True
        )
        assert [window.reached(step) for step in range(1, 14)] == [None] * 13
        assert told == [True, False]
        noted = window.noted(run_of(range(1, 10), step_times=(1.0,) * 9))
        assert noted.profile == {kind: f"{tmp_path}/trace{ending}"}


class TestFigures:
    def test_no_figure_is_of_them(self):
        plain = run_of(
            range(1, 61), step_times=(5.0, *[1.0] * 59), native_metrics={"timer": (1.0,) * 60}
        )
        watched = run_of(
            range(1, 65),
            step_times=(5.0, *[1.0] * 59, 9.0, 9.0, 9.0, 9.0),
            native_metrics={"timer": (1.0,) * 64},
            profiled_steps=(61, 62, 63, 64),
        )
        without, found = summarize(plain), summarize(watched)
        assert found.performance == without.performance
        assert found.steady == without.steady
        assert "steps 61 to 64 were profiled and are excluded from the results" in found.warnings
        assert trained(watched).native_metrics == plain.native_metrics

    def test_the_steps_stay_in_the_file(self, tmp_path):
        watched = run_of(
            range(1, 9), step_times=(1.0,) * 8, model="llama", platform="cpu", profiled_steps=(7, 8)
        )
        read = store.read(store.save(watched, tmp_path).path)[-1]
        assert read.profiled_steps == (7, 8)
        assert read.step_times == (1.0,) * 8


@pytest.fixture
def train_lightning(tmp_path, monkeypatch):
    """Train ten steps of a tiny model on the CPU, profiled by torch; return the result."""
    pytest.importorskip("torch")
    pytest.importorskip("lightning")
    pytest.importorskip("transformers")
    from tprimat.frameworks.lightning import loop as lightning_loop

    monkeypatch.delenv("TPRIMAT_PROGRESS", raising=False)
    monkeypatch.setenv(profiling.TRACE, str(tmp_path / "profile" / "trace"))
    request = Request(
        framework="lightning",
        platform="cpu",
        model="llama",
        scale="other",
        precision="fp32",
        steps=10,
        global_batch_size=4,
        micro_batch_size=2,
        sequence_length=16,
        seed=1,
        num_gpus=1,
        output_dir=tmp_path,
        shape=SMALL,
        profile="torch",
    )

    def train():
        lightning_loop.train(request)
        (path,) = tmp_path.glob("*.json")
        return store.read(path)[-1]

    return train


def test_nothing_after_the_measured_steps_reaches_the_memory(train_lightning, monkeypatch):
    highest = [50e9]

    @contextlib.contextmanager
    def profile(*_):
        highest.append(90e9)
        yield lambda: None

    monkeypatch.setattr(memory, "peak_resident_bytes", lambda: int(highest[-1]))
    monkeypatch.setattr(profiled, "torch_profile", profile)
    run = train_lightning()
    assert highest == [50e9, 90e9]
    assert run.profiled_steps == (11, 12, 13, 14)
    assert run.memory_metrics.peak_memory_process_gb == 50.0


def test_torchs_trace_of_a_training(train_lightning, tmp_path):
    run = train_lightning()
    assert run.status == "complete"
    assert run.steps == tuple(range(1, 15))
    assert run.profiled_steps == (11, 12, 13, 14)
    assert run.training_config.max_steps == 10
    assert "--profile torch: no breakdown: the trace has no GPU work" in run.warnings
    (trace,) = run.profile.values()
    events = json.loads(
        gzip.decompress((tmp_path / "profile" / "trace.trace.json.gz").read_bytes())
    )["traceEvents"]
    assert trace == str(tmp_path / "profile" / "trace.trace.json.gz")
    names = {event["name"] for event in events}
    assert "ProfilerStep#1" in names  # step 0 is the one in which the profiler comes to its pace
    assert any(name.startswith("aten::") for name in names)
    assert any(name == "[memory]" for name in names)


def test_no_request_no_window(tmp_path):
    request = Request("nemo", "nvd", "llama", "full", "bf16", 9, 1, 1, 8, 1, 1, tmp_path)
    window = profiled.window(request, TimeLimit(9, None, 1, lambda over: over), first_process=True)
    assert [window.reached(step) for step in range(1, 10)] == [None] * 9
    run = run_of(range(1, 10), step_times=(1.0,) * 9)
    assert window.noted(run) is run


def test_only_the_first_process_leaves_a_trace_of_torch(tmp_path):
    request = Request(
        "lightning", "cpu", "llama", "tiny", "fp32", 9, 1, 1, 8, 1, 2, tmp_path, profile="torch"
    )
    window = profiled.window(request, TimeLimit(9, None, 2, lambda over: over), first_process=False)
    assert [window.reached(step) for step in range(1, 14)] == [None] * 13
    noted = window.noted(run_of(range(1, 14), step_times=(1.0,) * 13))
    assert (noted.profiled_steps, noted.profile, noted.warnings) == ((10, 11, 12, 13), {}, ())
    assert list(tmp_path.iterdir()) == []
