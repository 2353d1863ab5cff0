"""The window of steps at a training's end that is profiled. Knows no framework.

A profiler slows what it profiles, so its steps come last, and no metric includes them.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tprimat.frameworks import profiling
from tprimat.frameworks.loops.time_limit import TimeLimit
from tprimat.frameworks.profiling import TRACED, WINDOW
from tprimat.frameworks.request import NSYS, TORCH, Request
from tprimat.results.run import Run

ROCTX = ("librocprofiler-sdk-roctx.so.1", "librocprofiler-sdk-roctx.so", "/opt/rocm/lib/librocprofiler-sdk-roctx.so")
"""Through which rocprofv3 is switched on and off."""

MEMORY_EVENTS = 100_000


class Profiler:
    """Base of the profilers of the window; this one does nothing.

    Attributes:
        traces: paths of what it leaves, by kind.
    """

    def __init__(self) -> None:
        self.traces: dict[str, str] = {}

    def start(self) -> None:
        """Start to profile."""

    def step(self) -> None:
        """Note the end of a step."""

    def stop(self) -> None:
        """Stop, and write what this process leaves."""


class TorchProfiler(Profiler):
    """torch.profiler: operators, kernels, shapes and memory; on a GPU also what holds its memory."""

    def __init__(self, prefix: Path) -> None:
        super().__init__()
        self._prefix = prefix

    def start(self) -> None:
        """Start to profile; the first step is skipped, in which the profiler warms up."""
        torch: Any = importlib.import_module("torch")
        self._prefix.parent.mkdir(parents=True, exist_ok=True)
        activities = [torch.profiler.ProfilerActivity.CPU]
        self._memory = torch.cuda.memory if torch.cuda.is_available() else None
        if self._memory:
            activities.append(torch.profiler.ProfilerActivity.CUDA)
            self._memory._record_memory_history(max_entries=MEMORY_EVENTS)
        self._profile = torch.profiler.profile(
            activities=activities,
            schedule=torch.profiler.schedule(wait=0, warmup=WINDOW - TRACED, active=TRACED, repeat=1),
            on_trace_ready=self._write,
            record_shapes=True,
            profile_memory=True,
        )
        self._profile.start()

    def step(self) -> None:
        """Note the end of a step."""
        self._profile.step()

    def stop(self) -> None:
        """Write the memory's snapshot; the trace was written after the last step."""
        self._profile.stop()
        if self._memory:
            path = f"{self._prefix}.memory.pickle"
            self._memory._dump_snapshot(path)
            self._memory._record_memory_history(enabled=None)
            self.traces["torch_memory"] = path

    def _write(self, profile: Any) -> None:
        path = f"{self._prefix}.trace.json.gz"
        profile.export_chrome_trace(path)
        self.traces[TORCH] = path


class OuterProfiler(Profiler):
    """A profiler around the training, nsys or rocprof, which this process switches on (True) and off."""

    def __init__(self, kind: str, prefix: Path, switch: Callable[[bool], None] | None = None) -> None:
        super().__init__()
        self._trace = {kind: profiling.PROGRAMS[kind].trace.format(prefix=prefix)}
        self._switch = switch or (_switch_cuda if kind == NSYS else _switch_roctx)

    def start(self) -> None:
        """Start to record."""
        self._switch(True)
        self.traces = self._trace

    def stop(self) -> None:
        """Stop to record; the profiler writes when the training's process has ended."""
        self._switch(False)


def _switch_cuda(on: bool) -> None:
    torch: Any = importlib.import_module("torch")
    # What the host has queued is of the steps before.
    torch.cuda.synchronize()
    (torch.cuda.profiler.start if on else torch.cuda.profiler.stop)()


def _switch_roctx(on: bool) -> None:
    torch: Any = importlib.import_module("torch")
    torch.cuda.synchronize()
    for name in ROCTX:
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(name)
            break
    else:
        raise OSError(f"{ROCTX[0]} can't be loaded")
    # 0: of all threads.
    status = (library.roctxProfilerResume if on else library.roctxProfilerPause)(ctypes.c_uint64(0))
    if status:
        raise RuntimeError(f"rocprofv3 didn't {'begin' if on else 'end'} to record: status {status}")


class Window:
    """The profiled steps; the training ends after its steps or when its time is up, and then not before they are over.

    `kind` is the profiler's name, for messages.
    """

    def __init__(self, profiler: Profiler, kind: str, steps: int, limit: TimeLimit) -> None:
        self._profiler = profiler
        self._kind = kind
        self._steps = steps
        self._limit = limit
        self._time_is_up = False
        self._opened_at: int | None = None
        self._last = 0
        self._problem: str | None = None

    def reached(self, step: int) -> str | None:
        """Return why the training is to end early after a step; None to go on.

        To be called by every process, after every batch, once the step's time was taken.
        """
        if self._opened_at is None:
            self._time_is_up = self._limit.reached(step) is not None
            if self._time_is_up or step == self._steps - WINDOW:
                self._opened_at = self._last = step
                self._call(self._profiler.start)
            return None
        end = self._opened_at + WINDOW
        if self._last < min(step, end) and self._problem is None:
            self._last = step
            self._call(self._profiler.step)
            if step >= end and self._problem is None:
                self._call(self._profiler.stop)
        is_over = self._last >= end or self._problem is not None
        return self._limit.reason(step) if self._time_is_up and is_over and step < self._steps else None

    def noted(self, run: Run) -> Run:
        """Return the run with its profiled steps marked, and where the traces are."""
        if self._opened_at is None:
            return run
        # From the attempt on: starting a profiler takes time too.
        steps = tuple(step for step in run.steps if self._opened_at < step <= self._last)
        warnings = run.warnings if self._problem is None else (*run.warnings, self._problem)
        return msgspec.structs.replace(
            run, profile={**run.profile, **self._profiler.traces}, profiled_steps=steps, warnings=warnings
        )

    def _call(self, method: Callable[[], None]) -> None:
        """Call the profiler, which may not end a training, whatever it raises."""
        try:
            method()
        except Exception as error:  # noqa: BLE001 - whatever a profiler raises, what was measured before it holds
            self._problem = f"--profile {self._kind}: {type(error).__name__}: {error}".splitlines()[0]


def window(request: Request, limit: TimeLimit, *, first_process: bool) -> Window | None:
    """Return the window of a request's training; None where no profiler was requested."""
    kind = request.profile
    if kind is None:
        return None
    prefix = profiling.prefix(request)
    profiler = OuterProfiler(kind, prefix) if kind != TORCH else TorchProfiler(prefix) if first_process else Profiler()
    return Window(profiler, kind, request.steps, limit)
