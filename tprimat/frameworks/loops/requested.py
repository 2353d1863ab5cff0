"""BenchmarkCallback for the runs that TensorPrimat itself starts: it knows the request.

Its own part: the time limit, the window of a profiler, and the marks by which the parent process
follows a training.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tprimat.frameworks.lightning.callback import BenchmarkCallback
from tprimat.frameworks.loops import profiled
from tprimat.frameworks.loops.time_limit import TimeLimit
from tprimat.frameworks.request import Request
from tprimat.record.progress import reporter
from tprimat.results.run import Run


class RequestedBenchmark(BenchmarkCallback):  # type: ignore[misc,unused-ignore]
    """Times the steps of a training that a request describes; `setup` has the values that the
    training itself doesn't show.
    """

    def __init__(self, request: Request, setup: Run) -> None:
        super().__init__(request.output_dir, setup=setup, on_step=reporter())
        self.request = request
        self._window: profiled.Window | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Start the first step."""
        limit = TimeLimit(
            self.request.steps,
            self.request.time_limit_s,
            trainer.world_size,
            self.agreement(trainer),
        )
        super().on_train_start(trainer, pl_module)
        before = self._recording.end_measuring if self._recording else None
        self._window = profiled.window(
            self.request, limit, first_process=bool(trainer.is_global_zero), before=before
        )

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """End a step, whose time is taken before a profiler is started or stopped."""
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
        reason = self._window.reached(trainer.global_step) if self._window else None
        if reason is not None:
            self.stop_reason = reason
            trainer.should_stop = True

    def agreement(self, trainer: Any) -> Callable[[bool], bool]:
        """Return a function by which all processes vote whether the time is up; it returns whether
        any does.
        """
        return lambda vote: bool(trainer.strategy.reduce_boolean_decision(vote, all=False))

    def completed(self, run: Run) -> Run:
        """Mark the steps that were profiled."""
        if self._window is None:
            return super().completed(run)
        return self._window.noted(super().completed(run))
