"""BenchmarkCallback: the adapter of lightning.pytorch, and of NeMo, which is built on it.

It only watches: no step is made to wait for the GPU, nothing is logged, no random number is drawn.
Optimizer steps are counted by trainer.global_step, since batches are something else under
gradient accumulation and in NeMo, whose hooks fire once a step with one micro-batch or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lightning.pytorch.callbacks import Callback

from tprimat.errors import UsageError
from tprimat.frameworks.lightning.description import describe
from tprimat.frameworks.lightning.step_metrics import ABSENT, StepMetrics
from tprimat.notes import Note
from tprimat.record import outcome
from tprimat.record.options import Benchmark
from tprimat.record.ranks import Process


class BenchmarkCallback(Benchmark, Callback):  # type: ignore[misc]
    """Time the optimizer steps of a training and write its result. Arguments and attributes are
    those of Benchmark.
    """

    _metrics: StepMetrics
    _in_batch = False
    _rate_unseen = True

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Find out where the training runs; from here on its end leaves a result."""
        if stage != "fit":
            return
        if type(trainer).__module__.split(".")[0] == "pytorch_lightning":
            raise UsageError(
                "BenchmarkCallback needs a Trainer of lightning.pytorch, not of pytorch_lightning",
                hint="import Trainer and LightningModule from lightning.pytorch",
                heading="benchmark-callback",
            )
        self._in_batch = False
        self._rate_unseen = True
        # The process that Lightning calls the first one writes.
        rank = 0 if trainer.is_global_zero else max(1, trainer.global_rank)
        recording = self._begin(
            Process(
                rank,
                trainer.world_size,
                local_world_size=trainer.num_devices,
                device=trainer.strategy.root_device,
            ),
            module=pl_module,
            absent=ABSENT,
        )
        self._metrics = StepMetrics(trainer, pl_module, recording)
        recording.prepare()

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Step aside: the trainer is about to set its own handler of SIGTERM, over the first
        one.
        """
        if self._recording:
            self._recording.sigterm.remove()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Start the first step."""
        if self._recording:
            shown = describe(
                trainer, pl_module, self._recording.platform, self._options.known.training_config
            )
            self._recording.start(shown, step=trainer.global_step)

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """End a pause whose end no other hook marks: that of a checkpoint."""
        self._recorder.resume()
        if self._recording:
            self._in_batch = True
            if self._rate_unseen and trainer.optimizers:
                self._recording.values.note_rate(trainer.optimizers[0])

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        """Mark, among several processes, the end of what this one does alone."""
        self._recorder.lap()

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Note the learning rate that is about to be used; at the step's end it is the next
        one's.
        """
        if self._recording:
            if self._rate_unseen:
                self._rate_unseen = False
                self._recording.values.rate = None
            self._recording.values.note_rate(optimizer)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """End a step if the count of optimizer steps rose."""
        self._in_batch = False
        if self._recording:
            self._metrics.batch_end(outputs)
            step = trainer.global_step
            if step != self._recording.step:
                self._recording.step_end(step, self._metrics.step_end(step))

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Pause: validation is no part of a step."""
        self._recorder.pause("evaluation")

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Pause: what an epoch ends with is no part of a step."""
        self._recorder.pause()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Go on with the step, or with the next one and its loader's start."""
        self._recorder.resume()

    on_train_epoch_start = on_validation_end

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        """Pause: saving is no part of a step, unless the training does it within one."""
        if self._in_batch:
            self._metrics.saved_within.append(trainer.global_step + 1)
        else:
            self._recorder.pause("checkpoint")

    def notes(self) -> Sequence[Note]:
        """Return notes on doubtful values of the steps."""
        return self._metrics.notes()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Write the result."""
        if self._recording:
            stopped = outcome.stopped_by(self.stop_reason) if self.stop_reason else None
            self._recording.end(stopped or outcome.of_trainer(trainer), regular=True)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Write what there is, with the reason."""
        if self._recording:
            self._recording.fail(exception)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Leave nothing behind."""
        if self._recording:
            self._recording.discard()
