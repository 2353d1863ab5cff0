"""The window of steps at a training's end that a profiler watches. Knows no framework.

A profiler slows what it watches, so its steps come last, and no figure is of them.
"""

from __future__ import annotations

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
"""Through which rocprofv3 is told when to record."""

MEMORY_EVENTS = 100_000


class Profiler(Protocol):
    """What watches.

    Attributes:
        traces: paths of what it leaves, by kind.
    """

    traces: dict[str, str]

    def start(self) -> None:
        """Watches from now on."""

    def step(self) -> None:
        """A step has ended."""

    def stop(self) -> None:
        """Watches no longer; what it leaves in this process is written."""


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
        """Watches from now on; the first step is let pass, in which the profiler comes to its pace."""
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
        """A step has ended."""
        if self._profile is not None:
            self._profile.step()

    def stop(self) -> None:
        """Writes the memory's snapshot; the trace was written after the last step."""
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
    """A profiler around the training, which is told when to record.

    Args:
        kind: nsys or rocprof.
        prefix: of its files.
        tell: tells it to begin (True) or to end (False); None for the way of its kind.
    """

    def __init__(self, kind: str, prefix: Path, tell: Callable[[bool], None] | None = None) -> None:
        self.traces: dict[str, str] = {}
        self._kind = kind
        self._prefix = prefix
        self._tell = tell or (_tell_cuda if kind == NSYS else _tell_roctx)

    def start(self) -> None:
        """Records from now on."""
        self._tell(True)
        self.traces = profiling.traces(self._kind, self._prefix)

    def step(self) -> None:
        """A step has ended."""

    def stop(self) -> None:
        """Records no longer; the profiler writes when the training's process has ended."""
        self._tell(False)


def _tell_cuda(begin: bool) -> None:
    torch: Any = importlib.import_module("torch")
    # What the host has queued is of the steps before.
    torch.cuda.synchronize()
    (torch.cuda.profiler.start if begin else torch.cuda.profiler.stop)()


def _tell_roctx(begin: bool) -> None:
    torch: Any = importlib.import_module("torch")
    torch.cuda.synchronize()
    library = _roctx()
    # 0: of all threads.
    status = (library.roctxProfilerResume if begin else library.roctxProfilerPause)(ctypes.c_uint64(0))
    if status:
        raise RuntimeError(f"rocprofv3 didn't {'begin' if begin else 'end'} to record: status {status}")


def _roctx() -> Any:
    for name in ROCTX:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise OSError(f"{ROCTX[0]} can't be loaded")


class Window:
    """The watched steps.

    Args:
        profiler: what watches.
        kind: its name, for messages.
    """

    def __init__(self, profiler: Profiler, kind: str) -> None:
        self._profiler = profiler
        self._kind = kind
        self._opened: int | None = None
        self._last = 0
        self._trouble: str | None = None
        self._watching = False

    @property
    def is_open(self) -> bool:
        """Whether it has been opened, whatever came of that."""
        return self._opened is not None

    @property
    def is_over(self) -> bool:
        """Whether all of its steps have ended, or it could not be opened."""
        return self._opened is not None and (self._last >= self._opened + WINDOW or not self._watching)

    def open(self, step: int) -> None:
        """Watches the steps after this one, which has ended."""
        self._opened = self._last = step
        self._watching = self._safely(self._profiler.start)

    def step_end(self, step: int) -> None:
        """A step has ended. To be called after its time was taken; more than once does no harm."""
        if self._opened is None or step <= self._last or self.is_over:
            return
        self._last = step
        self._watching = self._watching and self._safely(self._profiler.step)
        if self.is_over and self._watching:
            self._safely(self._profiler.stop)
            self._watching = False

    def noted(self, run: Run) -> Run:
        """The run with its watched steps marked, and where the traces are."""
        if self._opened is None:
            return run
        # From the attempt on: starting a profiler takes time too.
        steps = tuple(step for step in run.steps if self._opened < step <= self._last)
        warnings = run.warnings if self._trouble is None else (*run.warnings, self._trouble)
        return msgspec.structs.replace(
            run, profile={**run.profile, **self._profiler.traces}, profiled_steps=steps, warnings=warnings
        )

    def _safely(self, call: Callable[[], None]) -> bool:
        """Whether a call of the profiler went well: no profiler may end a training."""
        try:
            call()
        except Exception as error:  # noqa: BLE001 - whatever a profiler raises, what was measured before it holds
            self._trouble = f"--profile {self._kind}: {type(error).__name__}: {error}".splitlines()[0]
            return False
        return True


class Ending:
    """When a training ends: after its steps or when its time is up, and then not before the window is over.

    Args:
        steps: that were asked for.
        limit: of its time.
        window: that a profiler watches; None for none.
    """

    def __init__(self, steps: int, limit: TimeLimit, window: Window | None) -> None:
        self._steps = steps
        self._limit = limit
        self._window = window
        self._time_is_up = False

    def reached(self, step: int) -> str | None:
        """Whether the training is to end early after a step, with the reason; None to go on.

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
    """The window of a request's training; None where no profiler was asked for."""
    kind = request.profile
    if kind is None:
        return None
    prefix = profiling.prefix(request)
    if kind == TORCH:
        return Window(TorchProfiler(prefix, writes=first_process), kind)
    return Window(OuterProfiler(kind, prefix), kind)
