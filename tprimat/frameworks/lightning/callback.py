"""BenchmarkCallback: the adapter of lightning.pytorch, and of NeMo, which is built on it.

It only watches: no step is made to wait for the GPU, nothing is logged, no random number is drawn.
Optimizer steps are counted by trainer.global_step, since batches are something else under
gradient accumulation and in NeMo, whose hooks fire once a step with one micro-batch or none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import Callback

from tprimat.errors import UsageError
from tprimat.frameworks.lightning.description import describe, planned_steps
from tprimat.frameworks.lightning.step_metrics import StepMetrics
from tprimat.record import options, outcome, result
from tprimat.record.lifecycle import Processes, Recording
from tprimat.record.outcome import Outcome
from tprimat.record.recorder import format_steps
from tprimat.results.run import Run


class BenchmarkCallback(Callback):  # type: ignore[misc]
    """Time the optimizer steps of a training and write its result.

    Args:
        output_dir: folder of the result file.
        platform: auto, cuda, rocm or cpu; a platform other than the training's is an error.
        model_name: llama, qwen, mistral, or any name; None to take it from the model itself.
        global_batch_size: sequences per optimizer step, over all devices.
        micro_batch_size: sequences per forward pass of one replica.
        sequence_length: tokens per sequence.
        model_config: the model's shape, as a transformers configuration, a ModelConfig or a dict.
        log_every: a line is printed every so many steps, and memory is read that often where
            reading it costs.
        label: a name for this setup; stored, shown, and added to the file's name.
        setup: a Run without records that holds whatever else the caller knows.
        quiet: print nothing but errors.
        on_step: called on the first process with (step, steps requested, time in s, mean time after
            the first step, loss, newest reading of the memory in GB), as soon as a step's time is known.

    What is stated here overrides `setup`, and both override the trainer's configuration. Sizes
    that nobody states stay unknown: then there are step times, and no throughput in tokens.

    Attributes:
        result: the Run, once the training has ended.
        path: the file that it was written to; None on other processes than the first.
        stop_reason: set by whoever ends the training early on purpose, such as a time limit; the
            run then counts as complete, with this reason.

    Raises UsageError, one line, for an argument that is wrong.
    """

    def __init__(
        self,
        output_dir: str | Path = "./output",
        platform: str = "auto",
        model_name: str | None = None,
        *,
        global_batch_size: int | None = None,
        micro_batch_size: int | None = None,
        sequence_length: int | None = None,
        model_config: Any = None,
        log_every: int = 10,
        label: str | None = None,
        setup: Run | None = None,
        quiet: bool = False,
        on_step: options.OnStep | None = None,
    ) -> None:
        super().__init__()
        self._options = options.checked(
            output_dir=output_dir,
            platform=platform,
            model_name=model_name,
            global_batch_size=global_batch_size,
            micro_batch_size=micro_batch_size,
            sequence_length=sequence_length,
            model_config=model_config,
            log_every=log_every,
            label=label,
            setup=setup,
            quiet=quiet,
            on_step=on_step,
        )
        self.result: Run | None = None
        self.path: Path | None = None
        self.stop_reason: str | None = None
        self._fit: _Fit | None = None
        self._in_batch = False
        self._rate: float | None = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Find out where the training runs; from here on its end leaves a result."""
        self._fit = None
        if stage != "fit":
            return
        if type(trainer).__module__.split(".")[0] == "pytorch_lightning":
            raise UsageError(
                "BenchmarkCallback is a callback of lightning.pytorch, and this Trainer is one of pytorch_lightning: "
                "import Trainer and LightningModule from lightning.pytorch",
                heading="benchmark-callback",
            )
        self.result = self.path = None
        self._fit = _Fit(self, trainer, pl_module, self._options)
        self._fit.recording.prepare()

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Step aside: the trainer is about to set its own handler of SIGTERM, over the first one."""
        if self._fit:
            self._fit.recording.sigterm.remove()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Start the first step."""
        fit = self._fit
        if fit:
            description = describe(trainer, pl_module, fit.recording.platform, self._options.sizes)
            fit.recording.start(description, step=trainer.global_step, planned=planned_steps(trainer))
            fit.started = True

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """End a pause whose end no other hook marks: that of a checkpoint."""
        fit = self._fit
        if fit is None:
            return
        self._in_batch = True
        if fit.recorder.paused:
            fit.recorder.resume()
        if fit.rate_unseen:
            self._rate = fit.metrics.learning_rate()

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        """Mark, among several processes, the end of what this one does alone."""
        if self._fit:
            self._fit.recording.lap()

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Note the learning rate that is about to be used; at the step's end it is the next one's."""
        fit = self._fit
        if fit is not None and (fit.rate_unseen or self._rate is None):
            fit.rate_unseen = False
            self._rate = fit.metrics.rate_of(optimizer)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """End a step where the count of optimizer steps rose."""
        self._in_batch = False
        fit = self._fit
        if fit is None:
            return
        fit.metrics.batch_end(outputs)
        step, recording = trainer.global_step, fit.recording
        if step != recording.step:
            recording.step_end(step, fit.metrics.step_end(step, step - recording.step), self._rate)
            self._rate = None

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Pause: validation is no part of a step."""
        if self._fit and not trainer.sanity_checking:
            self._fit.recording.pause()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Go on with the step."""
        if self._fit and not trainer.sanity_checking:
            self._fit.recording.resume()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Pause: what an epoch ends with is no part of a step."""
        if self._fit:
            self._fit.recording.pause()

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Go on with the next step, the loader's start included."""
        if self._fit:
            self._fit.recording.resume()

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        """Pause: saving is no part of a step, unless the training does it within one."""
        if self._fit and self._fit.started:
            if self._in_batch:
                self._fit.saved_within.append(trainer.global_step + 1)
            else:
                self._fit.recording.pause()

    def completed(self, run: Run) -> Run:
        """Return the run with what a subclass knows of it beyond this class; called before each writing."""
        return run

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Write the result."""
        if self._fit:
            stopped = self.stop_reason and Outcome("complete", self.stop_reason)
            self._fit.recording.end(stopped or outcome.of_trainer(trainer), regular=True)
            self._publish(self._fit)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Write what there is, with the reason."""
        if self._fit:
            self._fit.recording.fail(exception)
            self._publish(self._fit)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Leave nothing behind."""
        if self._fit:
            self._fit.recording.discard()
            self._fit = None

    def _publish(self, fit: _Fit) -> None:
        self.result, self.path = fit.recording.run, fit.recording.path


class _Fit:
    """One call of trainer.fit: its recording, and what the hooks have shown of its steps."""

    def __init__(self, callback: BenchmarkCallback, trainer: Any, module: Any, options: options.Options) -> None:
        # The process that Lightning calls the first one writes.
        rank = 0 if trainer.is_global_zero else max(1, trainer.global_rank)
        self.recording = Recording(
            options,
            trainer.strategy.root_device,
            Processes(rank, trainer.world_size),
            module=module,
            warnings=self._warnings,
            complete=self._complete,
        )
        self.recorder = self.recording.recorder
        self.metrics = StepMetrics(trainer, module, self.recording.scalars)
        self.rate_unseen = True
        self.started = False
        self.saved_within: list[int] = []
        self._callback = callback

    def _warnings(self) -> list[str]:
        warnings = self.metrics.warnings()
        if self.saved_within:
            warnings.append(
                f"the time of {format_steps(self.saved_within)} holds the saving of a checkpoint, which the "
                "training does within it"
            )
        return warnings

    def _complete(self, run: Run) -> Run:
        return self._callback.completed(run if self.metrics.batch_is_one_size else result.without_global_batch(run))
