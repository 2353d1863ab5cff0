"""BenchmarkCallback of a NeMo recipe: made from plain words, so that NeMo-Run can write it down.

Its own part: NeMo's timing of each step as a cross-check, and the settings that NeMo really ran
with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tprimat.frameworks.loops.processes import vote_of_the_first
from tprimat.frameworks.loops.requested import RequestedBenchmark
from tprimat.frameworks.nemo import data
from tprimat.frameworks.nemo.described import optimizer_of, settings_of, shape_and_scale
from tprimat.frameworks.request import Request
from tprimat.machine.host import is_emulated
from tprimat.record import ranks
from tprimat.results.fields import FieldValues
from tprimat.results.run import Environment, Run, TrainingConfig

NATIVE = "train_step_timing_seconds"
"""NeMo's `train_step_timing in s`: host time from one hook to another, without waiting for the GPU.
"""

TIMER = "train_step_timing"


class NemoBenchmark(RequestedBenchmark):
    """Times the steps of a NeMo training, whose request is given as Request.to_arguments() writes
    it.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        request = Request.from_arguments(list(arguments))
        # What the training itself doesn't show. The model's shape, batches, precision, parallelism
        # and optimizer are left to the recorder, which reads what really is: --set may have changed
        # what was asked for.
        setup = request.to_run(
            training_config=TrainingConfig(max_steps=request.steps, seed=request.seed),
            environment=Environment(emulated=is_emulated()),
            data=data.described(request),
        )
        super().__init__(request, setup)
        self._timer: Any = None
        self._native: dict[int, float] = {}
        self._settings: FieldValues = {}
        self._optimizer: Any = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Start the first step; NeMo has made its own changes by now."""
        self._native = {}
        self._timer = None
        for callback in trainer.callbacks:
            if type(callback).__name__ == "TimingCallback":
                self._timer = callback.timer
                break
        owners = getattr(pl_module, "config", None), getattr(trainer.strategy, "ddp_config", None)
        self._settings = dict(settings_of(("model.config", "trainer.strategy.ddp"), owners))
        self._optimizer = getattr(getattr(pl_module, "optim", None), "config", None)
        super().on_train_start(trainer, pl_module)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """End a step."""
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
        if self._timer is not None and TIMER in self._timer.timers:
            self._native[trainer.global_step] = float(self._timer[TIMER])

    def agreement(self, trainer: Any) -> Callable[[bool], bool]:
        """Return a vote through torch's store: NeMo's strategy reduces on the GPU."""
        return vote_of_the_first(ranks.open_store(), trainer.global_rank)

    def completed(self, run: Run) -> Run:
        """Add NeMo's own timing and the settings that ran."""
        run = super().completed(run)
        native = dict(run.native_metrics)
        if self._native and run.steps:
            native[NATIVE] = tuple(map(self._native.get, run.steps))
        shape, scale = shape_and_scale(run.model_config, self.request)
        return run.but(
            native_metrics=native,
            framework_config=self._settings,
            model_config=shape,
            scale=scale,
            optimizer=optimizer_of(run.optimizer, self._optimizer),
        )
