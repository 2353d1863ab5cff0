"""BenchmarkCallback: the adapter of lightning.pytorch, and of NeMo, which is built on it.

It only watches: no step is made to wait for the GPU, nothing is logged, no random number is drawn.
Optimizer steps are counted by trainer.global_step, since batches are something else under
gradient accumulation and in NeMo, whose hooks fire once a step with one micro-batch or none.
"""

from __future__ import annotations

from typing import Any

from lightning.pytorch.callbacks import Callback

from tprimat.errors import UsageError
from tprimat.frameworks.lightning.description import describe, planned_steps
from tprimat.frameworks.lightning.step_metrics import StepMetrics
from tprimat.record import outcome, result
from tprimat.record.lifecycle import Recording
from tprimat.record.options import Benchmark
from tprimat.record.outcome import Outcome
from tprimat.record.ranks import Process
from tprimat.results.run import Run


class BenchmarkCallback(Benchmark, Callback):  # type: ignore[misc]
    """Time the optimizer steps of a training and write its result. Arguments and attributes are those of Benchmark."""

    _recording: Recording | None = None
    _metrics: StepMetrics
    _has_started = _in_batch = False
    _rate: float | None = None
    _rate_unseen = True

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Find out where the training runs; from here on its end leaves a result."""
        self._recording = None
        if stage != "fit":
            return
        if type(trainer).__module__.split(".")[0] == "pytorch_lightning":
            raise UsageError(
                "BenchmarkCallback is a callback of lightning.pytorch, and this Trainer is one of pytorch_lightning: "
                "import Trainer and LightningModule from lightning.pytorch",
                heading="benchmark-callback",
            )
        self.result = self.path = None
        self._has_started, self._rate_unseen = False, True
        self._recording = Recording(
            self._options,
            # The process that Lightning calls the first one writes.
            Process(
                0 if trainer.is_global_zero else max(1, trainer.global_rank),
                trainer.world_size,
                device=trainer.strategy.root_device,
            ),
            module=pl_module,
            warnings=lambda: self._metrics.warnings(),
            complete=self._complete,
        )
        self._metrics = StepMetrics(trainer, pl_module, self._recording.scalars)
        self._recording.prepare()

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Step aside: the trainer is about to set its own handler of SIGTERM, over the first one."""
        if self._recording:
            self._recording.sigterm.remove()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Start the first step."""
        if self._recording:
            description = describe(trainer, pl_module, self._recording.platform, self._options.sizes)
            self._recording.start(description, step=trainer.global_step, planned=planned_steps(trainer))
            self._has_started = True

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """End a pause whose end no other hook marks: that of a checkpoint."""
        recording = self._recording
        if recording is None:
            return
        self._in_batch = True
        if recording.recorder.paused:
            recording.resume()
        if self._rate_unseen:
            self._rate = self._metrics.learning_rate()

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        """Mark, among several processes, the end of what this one does alone."""
        if self._recording:
            self._recording.lap()

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Note the learning rate that is about to be used; at the step's end it is the next one's."""
        if self._recording and (self._rate_unseen or self._rate is None):
            self._rate_unseen = False
            self._rate = self._metrics.learning_rate(optimizer)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """End a step where the count of optimizer steps rose."""
        self._in_batch = False
        recording = self._recording
        if recording is None:
            return
        self._metrics.batch_end(outputs)
        step = trainer.global_step
        if step != recording.step:
            recording.step_end(step, self._metrics.step_end(step, step - recording.step), self._rate)
            self._rate = None

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Pause: validation is no part of a step."""
        if self._recording and not trainer.sanity_checking:
            self._recording.pause()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Go on with the step."""
        if self._recording and not trainer.sanity_checking:
            self._recording.resume()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Pause: what an epoch ends with is no part of a step."""
        if self._recording:
            self._recording.pause()

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Go on with the next step, the loader's start included."""
        if self._recording:
            self._recording.resume()

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        """Pause: saving is no part of a step, unless the training does it within one."""
        if self._recording and self._has_started:
            if self._in_batch:
                self._metrics.saved_within.append(trainer.global_step + 1)
            else:
                self._recording.pause()

    def completed(self, run: Run) -> Run:
        """Return the run with what a subclass knows of it beyond this class; called before each writing."""
        return run

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Write the result."""
        if self._recording:
            stopped = self.stop_reason and Outcome("complete", self.stop_reason)
            self._recording.end(stopped or outcome.of_trainer(trainer), regular=True)
            self.result, self.path = self._recording.run, self._recording.path

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Write what there is, with the reason."""
        if self._recording:
            self._recording.fail(exception)
            self.result, self.path = self._recording.run, self._recording.path

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Leave nothing behind."""
        if self._recording:
            self._recording.discard()
            self._recording = None

    def _complete(self, run: Run) -> Run:
        return self.completed(run if self._metrics.batch_is_one_size else result.without_global_batch(run))
