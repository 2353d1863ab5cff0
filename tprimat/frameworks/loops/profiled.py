"""The window of steps at a training's end that is profiled. Knows no framework.

A profiler slows what it profiles, so its steps come last, and no metric includes them.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from tprimat.frameworks import profiling
from tprimat.frameworks.loops.time_limit import TimeLimit
from tprimat.frameworks.profiling import TRACED, WINDOW
from tprimat.frameworks.request import NSYS, TORCH, Request
from tprimat.results.run import Run

ROCTX = ("librocprofiler-sdk-roctx.so.1", "librocprofiler-sdk-roctx.so", "/opt/rocm/lib/librocprofiler-sdk-roctx.so")
"""Through which rocprofv3 is switched on and off."""

MEMORY_EVENTS = 100_000


class Profiler(Protocol):
    """What profiles the window.

    Attributes:
        traces: paths of what it leaves, by kind.
    """

    traces: dict[str, str]

    def start(self) -> None:
        """Start to profile."""

    def step(self) -> None:
        """Note the end of a step."""

    def stop(self) -> None:
        """Stop, and write what this process leaves."""


class TorchProfiler:
    """torch.profiler: operators, kernels, shapes and memory; on a GPU also what holds its memory.

    Args:
        prefix: of the files.
        writes: whether this process is the one that leaves a trace.
    """

    def __init__(self, prefix: Path, *, writes: bool) -> None:
        self.traces: dict[str, str] = {}
        self._prefix = prefix
        self._writes = writes
        self._profile: Any = None

    def start(self) -> None:
        """Start to profile; the first step is skipped, in which the profiler warms up."""
        if not self._writes:
            return
        torch: Any = importlib.import_module("torch")
        self._prefix.parent.mkdir(parents=True, exist_ok=True)
        activities = [torch.profiler.ProfilerActivity.CPU]
        self._on_gpu = torch.cuda.is_available()
        if self._on_gpu:
            activities.append(torch.profiler.ProfilerActivity.CUDA)
            torch.cuda.memory._record_memory_history(max_entries=MEMORY_EVENTS)
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
        if self._profile is not None:
            self._profile.step()

    def stop(self) -> None:
        """Write the memory's snapshot; the trace was written after the last step."""
        if self._profile is None:
            return
        self._profile.stop()
        self._profile = None
        if self._on_gpu:
            torch: Any = importlib.import_module("torch")
            path = f"{self._prefix}.memory.pickle"
            torch.cuda.memory._dump_snapshot(path)
            torch.cuda.memory._record_memory_history(enabled=None)
            self.traces["torch_memory"] = path

    def _write(self, profile: Any) -> None:
        path = f"{self._prefix}.trace.json.gz"
        profile.export_chrome_trace(path)
        self.traces[TORCH] = path


class OuterProfiler:
    """A profiler around the training, which this process switches on and off.

    Args:
        kind: nsys or rocprof.
        prefix: of its files.
        switch: switches it on (True) or off (False); None for that of its kind.
    """

    def __init__(self, kind: str, prefix: Path, switch: Callable[[bool], None] | None = None) -> None:
        self.traces: dict[str, str] = {}
        self._kind = kind
        self._prefix = prefix
        self._switch = switch or (_switch_cuda if kind == NSYS else _switch_roctx)

    def start(self) -> None:
        """Start to record."""
        self._switch(True)
        self.traces = profiling.traces(self._kind, self._prefix)

    def step(self) -> None:
        """Note the end of a step."""

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
    library = _roctx()
    # 0: of all threads.
    status = (library.roctxProfilerResume if on else library.roctxProfilerPause)(ctypes.c_uint64(0))
    if status:
        raise RuntimeError(f"rocprofv3 didn't {'begin' if on else 'end'} to record: status {status}")


def _roctx() -> Any:
    for name in ROCTX:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    raise OSError(f"{ROCTX[0]} can't be loaded")


class Window:
    """The profiled steps.

    Args:
        profiler: what profiles them.
        kind: its name, for messages.
    """

    def __init__(self, profiler: Profiler, kind: str) -> None:
        self._profiler = profiler
        self._kind = kind
        self._opened_at: int | None = None
        self._last = 0
        self._problem: str | None = None
        self._is_running = False

    @property
    def is_open(self) -> bool:
        """Whether it has been opened, even if the profiler failed."""
        return self._opened_at is not None

    @property
    def is_over(self) -> bool:
        """Whether all of its steps have ended, or it could not be opened."""
        return self._opened_at is not None and (self._last >= self._opened_at + WINDOW or not self._is_running)

    def open(self, step: int) -> None:
        """Profile the steps after this one, which has ended."""
        self._opened_at = self._last = step
        self._is_running = self._safely(self._profiler.start)

    def step_end(self, step: int) -> None:
        """Note the end of a step. To be called after its time was taken; more than once does no harm."""
        if self._opened_at is None or step <= self._last or self.is_over:
            return
        self._last = step
        self._is_running = self._is_running and self._safely(self._profiler.step)
        if self.is_over and self._is_running:
            self._safely(self._profiler.stop)
            self._is_running = False

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

    def _safely(self, call: Callable[[], None]) -> bool:
        """Return whether a call of the profiler succeeded: no profiler may end a training."""
        try:
            call()
        except Exception as error:  # noqa: BLE001 - whatever a profiler raises, what was measured before it holds
            self._problem = f"--profile {self._kind}: {type(error).__name__}: {error}".splitlines()[0]
            return False
        return True


class Ending:
    """When a training ends: after its steps or when its time is up, and then not before the window is over.

    Args:
        steps: that were requested.
        limit: of its time.
        window: that is profiled; None for none.
    """

    def __init__(self, steps: int, limit: TimeLimit, window: Window | None) -> None:
        self._steps = steps
        self._limit = limit
        self._window = window
        self._time_is_up = False

    def reached(self, step: int) -> str | None:
        """Return why the training is to end early after a step; None to go on.

        To be called by every process, after every batch, once the step's time was taken.
        """
        window = self._window
        if window is None:
            return self._limit.reached(step)
        if not window.is_open:
            self._time_is_up = self._limit.reached(step) is not None
            if self._time_is_up or step == self._steps - WINDOW:
                window.open(step)
            return None
        window.step_end(step)
        if not self._time_is_up or not window.is_over or step >= self._steps:
            return None
        return self._limit.reason(step)


def window(request: Request, *, first_process: bool) -> Window | None:
    """Return the window of a request's training; None where no profiler was requested."""
    kind = request.profile
    if kind is None:
        return None
    prefix = profiling.prefix(request)
    if kind == TORCH:
        return Window(TorchProfiler(prefix, writes=first_process), kind)
    return Window(OuterProfiler(kind, prefix), kind)
