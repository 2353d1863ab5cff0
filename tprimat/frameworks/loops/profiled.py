"""The window of steps after the measured ones that is profiled. Knows no framework.

A profiler slows the steps that it profiles, so they come after the measured ones, and no metric
includes them.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import gzip
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tprimat.analysis.traces.breakdown import Breakdown, breakdown_of
from tprimat.frameworks import profiling
from tprimat.frameworks.loops.time_limit import TimeLimit
from tprimat.frameworks.request import NSYS, TORCH, TRACED, WINDOW, Request
from tprimat.notes import Note, noted
from tprimat.read.kineto.timeline import read_timeline
from tprimat.results.run import Run
from tprimat.results.trace import Trace

ROCTX = (
    "librocprofiler-sdk-roctx.so.1",
    "librocprofiler-sdk-roctx.so",
    "/opt/rocm/lib/librocprofiler-sdk-roctx.so",
)
"""Through which rocprofv3 is switched on and off."""

MEMORY_EVENTS = 100_000

Profile = contextlib.AbstractContextManager[Callable[[], object]]
"""A running profiler; it yields a function to call at the end of each step."""


@contextlib.contextmanager
def torch_profile(prefix: Path, traces: dict[str, str]) -> Iterator[Callable[[], object]]:
    """Profile by torch.profiler: operators, kernels, shapes and memory; on a GPU also what holds
    its memory.

    The first step, in which the profiler warms up, is skipped. Adds the paths of its files to the
    traces, by kind.
    """
    import torch

    def write(profile: Any) -> None:
        path = f"{prefix}.trace.json.gz"
        profile.export_chrome_trace(path)
        traces[TORCH] = path

    prefix.parent.mkdir(parents=True, exist_ok=True)
    activities = [torch.profiler.ProfilerActivity.CPU]
    memory = torch.cuda.memory if torch.cuda.is_available() else None
    if memory:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
        memory._record_memory_history(max_entries=MEMORY_EVENTS)
    profile = torch.profiler.profile(
        activities=activities,
        schedule=torch.profiler.schedule(wait=0, warmup=WINDOW - TRACED, active=TRACED, repeat=1),
        on_trace_ready=write,
        record_shapes=True,
        profile_memory=True,
    )
    profile.start()
    yield profile.step
    profile.stop()
    if memory:
        path = f"{prefix}.memory.pickle"
        memory._dump_snapshot(path)
        memory._record_memory_history(enabled=None)
        traces["torch_memory"] = path


@contextlib.contextmanager
def outer_profile(
    kind: str, prefix: Path, traces: dict[str, str]
) -> Iterator[Callable[[], object]]:
    """Switch a profiler around the training, nsys or rocprof, on and off; it writes when the
    process has ended.
    """
    switch = _switch_cuda if kind == NSYS else _switch_roctx
    switch(True)
    traces[kind] = profiling.PROGRAMS[kind].trace.format(prefix=prefix)
    yield lambda: None
    switch(False)


def _switch_cuda(on: bool) -> None:
    import torch

    # What the host has queued is of the steps before.
    torch.cuda.synchronize()
    (torch.cuda.profiler.start if on else torch.cuda.profiler.stop)()


def _switch_roctx(on: bool) -> None:
    import torch

    torch.cuda.synchronize()
    for name in ROCTX:
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(name)
            break
    else:
        raise OSError(f"{ROCTX[0]} cannot be loaded")
    # 0: those of all threads.
    status = (library.roctxProfilerResume if on else library.roctxProfilerPause)(ctypes.c_uint64(0))
    if status:
        raise RuntimeError(
            f"rocprofv3 didn't {'begin' if on else 'end'} to record: status {status}"
        )


def read_trace(path: str) -> tuple[Trace | None, list[Note]]:
    """Return the division of the profiled steps' time, by a trace of torch.profiler, and notes on
    its doubtful values.
    """
    with gzip.open(path) as stream:
        timeline, doubts = read_timeline(stream)  # type: ignore[arg-type]
    breakdown = Breakdown()
    breakdown.add(timeline)
    trace = breakdown.trace()
    if trace is None:
        doubts = [*doubts, "no breakdown: the trace has no GPU work"]
    return trace, [Note("profile-doubt", {"profiler": TORCH, "problem": doubt}) for doubt in doubts]


@dataclasses.dataclass
class Window:
    """The profiled steps, after those of the training or when its time is up; then it ends.

    Without a profile the time alone decides.

    Attributes:
        profile: entered and left by the window.
        traces: paths of the profile's files, by kind.
        kind: name of the profiler, for messages.
        steps, limit: those of the training; it goes on for WINDOW more steps.
        before: called before the profiler starts.
    """

    profile: Profile | None
    traces: Mapping[str, str]
    kind: str | None
    steps: int
    limit: TimeLimit
    before: Callable[[], object] | None = None
    _time_is_up: bool = dataclasses.field(default=False, init=False)
    _opened_at: int | None = dataclasses.field(default=None, init=False)
    _last: int = dataclasses.field(default=0, init=False)
    _problem: Note | None = dataclasses.field(default=None, init=False)
    _trace: Trace | None = dataclasses.field(default=None, init=False)
    _doubts: list[Note] = dataclasses.field(default_factory=list, init=False)

    def reached(self, step: int) -> str | None:
        """Return why the training is to end early after a step; None to continue.

        To be called by every process, after every batch, once the step's time was taken.
        """
        if self.profile is None:
            return self.limit.reached(step)
        if self._opened_at is None:
            self._time_is_up = self.limit.reached(step) is not None
            if self._time_is_up or step == self.steps:
                self._opened_at = self._last = step
                if self.before is not None:
                    self.before()
                with self._any_problem():
                    self._end_step = self.profile.__enter__()
            return None
        end = self._opened_at + WINDOW
        if self._last < min(step, end) and self._problem is None:
            self._last = step
            with self._any_problem():
                self._end_step()
                if step >= end:
                    self.profile.__exit__(None, None, None)
                    if TORCH in self.traces:
                        self._trace, self._doubts = read_trace(self.traces[TORCH])
        is_over = self._last >= end or self._problem is not None
        is_early = self._time_is_up and step < self.steps + WINDOW
        if is_early and is_over:
            return self.limit.reason(self._opened_at)
        return None

    def noted(self, run: Run) -> Run:
        """Return the run with its profiled steps marked, and where the traces are."""
        if self._opened_at is None:
            return run
        # From the attempt on: starting a profiler takes time too.
        steps = tuple(step for step in run.steps if step > self._opened_at)
        problems = [*self._doubts, *([] if self._problem is None else [self._problem])]
        return run.but(
            profile={**run.profile, **self.traces},
            profiled_steps=steps,
            notes=noted((*run.notes, *problems)),
            trace=self._trace,
            breakdown={**run.breakdown, **(breakdown_of(self._trace) if self._trace else {})},
        )

    @contextlib.contextmanager
    def _any_problem(self) -> Iterator[None]:
        """Keep a problem of the profiler, which may not end a training, whatever it raises."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever a profiler raises, what was measured before it holds
            problem = f"{type(error).__name__}: {error}".splitlines()[0]
            self._problem = Note("profile-doubt", {"profiler": self.kind, "problem": problem})


def window(
    request: Request,
    limit: TimeLimit,
    *,
    first_process: bool,
    before: Callable[[], object] | None = None,
) -> Window:
    """Return the window of a request's training; `before` is called when it begins."""
    kind = request.profile
    traces = dict[str, str]()
    profile: Profile | None = None
    if kind == TORCH and first_process:
        profile = torch_profile(profiling.prefix(request), traces)
    elif kind == TORCH:
        # One process leaves the trace; the others keep step with it.
        profile = contextlib.nullcontext(lambda: None)
    elif kind is not None:
        profile = outer_profile(kind, profiling.prefix(request), traces)
    return Window(profile, traces, kind, request.steps, limit, before)
