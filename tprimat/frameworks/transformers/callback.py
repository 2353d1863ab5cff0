"""TrainerBenchmarkCallback: the adapter of transformers.Trainer.

    trainer = Trainer(…, callbacks=[TrainerBenchmarkCallback(sequence_length=2048)])

It only watches: no step is made to wait for the GPU and nothing is logged. The Trainer gives its
callbacks no loss; it is read from what the model returns, and checked against the Trainer's own log.
"""

from __future__ import annotations

import atexit
import statistics
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from transformers import TrainerCallback

from tprimat.errors import UsageError
from tprimat.frameworks.transformers.description import NAME, describe, sizes_of
from tprimat.record import outcome, result
from tprimat.record.lifecycle import Recording
from tprimat.record.options import Benchmark, Options, errors_of
from tprimat.record.outcome import Outcome
from tprimat.record.ranks import Process
from tprimat.record.recorder import Record
from tprimat.record.scalars import LOSS, NORM, StepValues, learning_rate
from tprimat.results.run import Run

HEADING = "trainer-benchmark-callback"

ALONE_TOLERANCE = 0.02
AMONG_OTHERS_TOLERANCE = 0.2
"""Shares by which the model's losses may differ from the Trainer's log. The log is rounded, and a mean
over all processes; the losses are those of one."""

ROUNDED = 1e-3


class TrainerBenchmarkCallback(Benchmark, TrainerCallback):  # type: ignore[misc]
    """Time the optimizer steps of a training and write its result.

    Arguments and attributes are those of Benchmark. Batch sizes are taken from the TrainingArguments; the
    sequence length is not, since they don't state it.
    """

    _name, _heading = NAME, HEADING
    _training: _Training | None = None

    def note_grad_norm(self, norm: Any) -> None:
        """Take the step's gradient norm from a Trainer that knows it: its log is rarely of each step."""
        if self._training:
            self._training.norm = norm

    def failed(self, exception: BaseException) -> None:
        """Write the result of a training that raised; needed only where that is caught and the program goes on."""
        if self._training:
            self._end(outcome.of_exception(exception, terminated=self._training.recording.sigterm.received))

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the first step."""
        if self._training:
            self._end(outcome.ENDED_SILENTLY)
        self.result = self.path = None
        if args.n_gpu > 1:
            raise UsageError(
                f"{NAME}: this Trainer divides each batch over {args.n_gpu} GPUs within one process (DataParallel), "
                f"which is not measured: start it with torchrun --nproc-per-node={args.n_gpu}, or let "
                "CUDA_VISIBLE_DEVICES name one GPU",
                heading=HEADING,
            )
        with errors_of(NAME, HEADING):
            self._training = _Training(self._options, args, state, kwargs)
        sys.excepthook, self._usual_hook = self._on_uncaught, sys.excepthook
        atexit.register(self._at_exit)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the next step, with the loader's start."""
        if self._training:
            self._training.recording.resume()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the pause of an evaluation or of saving."""
        if self._training:
            self._training.recording.resume()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note the learning rate that is about to be used."""
        if self._training:
            self._training.note_rate()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End an optimizer step; what the Trainer does before the next is no part of one."""
        training = self._training
        if training is None:
            return
        training.step_end(state.global_step)
        # The Trainer's own callbacks come first and have decided this.
        if control.should_evaluate or control.should_save:
            training.recording.pause()

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Pause: evaluation is no part of a step."""
        if self._training:
            self._training.recording.pause()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Pause: what an epoch ends with is no part of a step."""
        if self._training:
            self._training.epoch_end()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Keep what the Trainer logs of a step after its end."""
        if self._training and isinstance(logs, Mapping):
            self._training.note_log(state.global_step, logs)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write the result."""
        if self._training:
            cause = "the training stopped itself"
            self._end(outcome.of_end(state.global_step, state.max_steps, self.stop_reason, cause), regular=True)

    def _end(self, ended: Outcome, *, regular: bool = False) -> None:
        training, self._training = self._training, None
        if training is None:
            return
        atexit.unregister(self._at_exit)
        if sys.excepthook == self._on_uncaught:
            sys.excepthook = self._usual_hook
        training.end(ended, regular=regular)
        self.result, self.path = training.recording.run, training.recording.path

    def _on_uncaught(self, kind: type[BaseException], exception: BaseException, trace: TracebackType | None) -> None:
        """Write the result: the Trainer tells its callbacks of no exception."""
        usual = self._usual_hook
        self.failed(exception)
        usual(kind, exception, trace)

    def _at_exit(self) -> None:
        self._end(outcome.PROGRAM_ENDED)


class _Training:
    """One call of trainer.train: its recording, and what the hooks have shown of its steps."""

    def __init__(self, options: Options, args: Any, state: Any, given: Mapping[str, Any]) -> None:
        self.norm: Any = None
        self._args = args
        self._options = options
        self._model = given.get("model")
        self._optimizer = given.get("optimizer")
        self._loader = given.get("train_dataloader")
        self._losses: list[Any] = []
        self._rate: float | None = None
        self._logged_losses: dict[int, float] = {}
        self._logged_norms: dict[int, float] = {}
        self._loss_doubt: str | None = None
        self._norms_seen = self._batch_varies = False
        self.recording = Recording(
            options,
            Process(args.process_index, args.world_size, device=args.device),
            module=self._model,
            warnings=self._warnings,
            amend=self._amend,
            complete=self._complete,
        )
        self._values = StepValues(self.recording.scalars)
        self._hook = None
        # A hook within a compiled graph would break it in two.
        if self._model is not None and not args.torch_compile:
            self._hook = self._model.register_forward_hook(self._forward_seen, with_kwargs=True)
        self._max_steps = state.max_steps
        description = describe(
            args, self._model, self._optimizer, options.sizes, self.recording.platform, state.max_steps
        )
        self.recording.start(description, step=state.global_step, planned=state.max_steps)

    def note_rate(self) -> None:
        if self._optimizer is not None:
            self._rate = learning_rate(self._optimizer)

    def step_end(self, step: int) -> None:
        if step == self.recording.step:
            return
        losses, self._losses = self._losses, []
        norm, self.norm = self._values.take(NORM, self.norm), None
        scale = 1.0
        if losses and all(summed for _, summed in losses):
            # Each is a share of the whole batch's mean: their sum, not their mean, is the loss. And where
            # the tokens of all processes were counted, of all of those.
            everywhere = self._args.world_size if getattr(self._args, "average_tokens_across_devices", False) else 1
            scale = float(len(losses) * everywhere)
        values = self._values.of([loss for loss, _ in losses], norm, scale)
        rate, self._rate = self._rate, None
        self.recording.step_end(step, values, rate)

    def epoch_end(self) -> None:
        self.recording.pause()
        whole = sizes_of(self._args, self._options.sizes).global_batch_size
        dataset: Any = getattr(self._loader, "dataset", None)
        if whole and hasattr(dataset, "__len__") and len(dataset) % whole and self.recording.step < self._max_steps:
            self._batch_varies = True

    def note_log(self, step: int, logs: Mapping[str, Any]) -> None:
        for name, kept in (("loss", self._logged_losses), ("grad_norm", self._logged_norms)):
            value = logs.get(name)
            if isinstance(value, (int, float, str)):
                # Newer versions give some of them as text.
                try:
                    kept[step] = float(value)
                except ValueError:
                    continue

    def end(self, ended: Outcome, *, regular: bool) -> None:
        if self._hook is not None:
            self._hook.remove()
        self.recording.end(ended, regular=regular)

    def _forward_seen(self, module: Any, inputs: Any, named: Mapping[str, Any], output: Any) -> None:
        if not module.training or self.recording.recorder.paused:
            return
        self.recording.lap()
        loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
        if loss is None and isinstance(output, tuple) and output:
            loss = output[0] if getattr(output[0], "numel", lambda: 0)() == 1 else None
        if loss is not None:
            # At once: the Trainer multiplies it in place.
            self._losses.append((self._values.take(LOSS, loss), named.get("num_items_in_batch") is not None))

    def _amend(self, records: Sequence[Record]) -> Sequence[Record]:
        self._check_losses(records)
        amended = []
        each_is_logged = self._each_step_is_logged()
        for record in records:
            loss, norm = record.loss, record.grad_norm
            if self._loss_doubt is not None:
                loss = None
            if loss is None and each_is_logged:
                loss = self._logged_losses.get(record.step)
            if norm is None:
                norm = self._logged_norms.get(record.step)
            self._norms_seen = self._norms_seen or norm is not None
            amended.append(record._replace(loss=loss, grad_norm=norm))
        return amended

    def _each_step_is_logged(self) -> bool:
        return self._args.logging_steps == 1 and str(self._args.logging_strategy).rpartition(".")[2].lower() == "steps"

    def _check_losses(self, records: Sequence[Record]) -> None:
        """Ignore the model's loss where the training adds to it or computes its own."""
        seen = {record.step: record.loss for record in records if record.loss is not None}
        logged, returned, last = [], [], self.recording.first_step
        for step, loss in sorted(self._logged_losses.items()):
            window = [seen.get(each) for each in range(last + 1, step + 1)]
            last = step
            known = [each for each in window if each is not None]
            if known and len(known) == len(window):
                logged.append(loss)
                returned.append(statistics.fmean(known))
        if not logged:
            return
        reference, own = statistics.fmean(logged), statistics.fmean(returned)
        tolerance = ALONE_TOLERANCE if self._args.world_size == 1 else AMONG_OTHERS_TOLERANCE
        if abs(reference - own) > ROUNDED + tolerance * abs(reference):
            self._loss_doubt = f"the model returns {own:.4f} on the average, and the Trainer logs {reference:.4f}"

    def _complete(self, run: Run) -> Run:
        return result.without_global_batch(run) if self._batch_varies else run

    def _warnings(self) -> list[str]:
        if self.recording.step == self.recording.first_step:
            return []
        each_is_logged, absent = self._each_step_is_logged(), {}
        if self._loss_doubt is None and not each_is_logged:
            absent[LOSS] = "the model returns none; with logging_steps=1 each step's is in the Trainer's log"
        if not self._norms_seen:
            absent[NORM] = "the Trainer tells it in its log alone: with logging_steps=1, of each step"
        warnings = self._values.warnings(absent, 1 if self._loss_doubt else self._args.world_size)
        if self._loss_doubt is not None:
            instead = ": those of its log are taken" if each_is_logged else ""
            warnings.append(f"the model's losses are not those that are trained on: {self._loss_doubt}{instead}")
        if self._batch_varies:
            warnings.append(
                "steps at the end of an epoch are of fewer sequences: there is no one global batch size, and therefore "
                "no throughput in tokens; let dataloader_drop_last be true and the epoch hold whole global batches"
            )
        return warnings
