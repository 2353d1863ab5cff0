"""TrainerBenchmarkCallback: the adapter of transformers.Trainer.

    trainer = Trainer(…, callbacks=[TrainerBenchmarkCallback(sequence_length=2048)])

It only watches: no step is made to wait for the GPU and nothing is logged. The Trainer gives its
callbacks no loss; it is read from what the model returns, and checked against the Trainer's own log.
"""

from __future__ import annotations

import atexit
import contextlib
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
from tprimat.record.options import Benchmark, errors_of
from tprimat.record.outcome import Outcome
from tprimat.record.ranks import Process
from tprimat.record.recorder import Record
from tprimat.record.scalars import LOSS, NORM, StepValues, learning_rate

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
    _recording: Recording | None = None
    _norm: Any = None

    def note_grad_norm(self, norm: Any) -> None:
        """Take the step's gradient norm from a Trainer that knows it: its log is rarely of each step."""
        self._norm = norm

    def failed(self, exception: BaseException) -> None:
        """Write the result of a training that raised; needed only where that is caught and the program goes on."""
        if self._recording:
            self._end(outcome.of_exception(exception, terminated=self._recording.sigterm.received))

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the first step."""
        self._end(outcome.ENDED_SILENTLY)
        self.result = self.path = None
        if args.n_gpu > 1:
            raise UsageError(
                f"{NAME}: this Trainer divides each batch over {args.n_gpu} GPUs within one process (DataParallel), "
                f"which is not measured: start it with torchrun --nproc-per-node={args.n_gpu}, or let "
                "CUDA_VISIBLE_DEVICES name one GPU",
                heading=HEADING,
            )
        model: Any = kwargs.get("model")
        self._optimizer = kwargs.get("optimizer")
        self._args = args
        self._norm = None
        self._rate: float | None = None
        self._losses: list[Any] = []
        self._logged: dict[str, dict[int, float]] = {"loss": {}, "grad_norm": {}}
        self._each_step_is_logged = (
            args.logging_steps == 1 and str(args.logging_strategy).rpartition(".")[2].lower() == "steps"
        )
        self._loss_doubt: str | None = None
        self._norms_seen = self._batch_varies = False
        with errors_of(NAME, HEADING):
            recording = Recording(
                self._options,
                Process(args.process_index, args.world_size, device=args.device),
                module=model,
                warnings=lambda: self._warnings(recording),
                amend=lambda records: self._amend(records, recording),
                complete=lambda run: result.without_global_batch(run) if self._batch_varies else run,
            )
            description = describe(
                args, model, self._optimizer, self._options.sizes, recording.platform, state.max_steps
            )
            self._values = StepValues(recording.scalars)
            recording.start(description, step=state.global_step, planned=state.max_steps)
        self._recording = recording
        # A hook within a compiled graph would break it in two.
        self._hook: Any = None
        if model is not None and not args.torch_compile:
            self._hook = model.register_forward_hook(self._forward_seen, with_kwargs=True)
        sys.excepthook, self._usual_hook = self._on_uncaught, sys.excepthook
        atexit.register(self._at_exit)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the next step, with the loader's start."""
        if self._recording:
            self._recording.resume()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the pause of an evaluation or of saving."""
        if self._recording:
            self._recording.resume()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note the learning rate that is about to be used."""
        if self._recording and self._optimizer is not None:
            self._rate = learning_rate(self._optimizer)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End an optimizer step; what the Trainer does before the next is no part of one."""
        recording = self._recording
        if recording is None:
            return
        if state.global_step != recording.step:
            losses, self._losses = self._losses, []
            norm, self._norm = self._values.take(NORM, self._norm), None
            scale = 1.0
            if losses and all(summed for _, summed in losses):
                # Each is a share of the whole batch's mean: their sum, not their mean, is the loss. And where
                # the tokens of all processes were counted, of all of those.
                everywhere = args.world_size if getattr(args, "average_tokens_across_devices", False) else 1
                scale = float(len(losses) * everywhere)
            rate, self._rate = self._rate, None
            values = self._values.of([loss for loss, _ in losses], norm, scale)
            recording.step_end(state.global_step, values, rate)
        # The Trainer's own callbacks come first and have decided this.
        if control.should_evaluate or control.should_save:
            recording.pause()

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Pause: evaluation is no part of a step."""
        if self._recording:
            self._recording.pause()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Pause: what an epoch ends with is no part of a step."""
        if self._recording:
            self._recording.pause()
            whole = sizes_of(args, self._options.sizes).global_batch_size
            dataset: Any = getattr(kwargs.get("train_dataloader"), "dataset", None)
            if whole and hasattr(dataset, "__len__") and len(dataset) % whole and state.global_step < state.max_steps:
                self._batch_varies = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Keep what the Trainer logs of a step after its end."""
        if self._recording and isinstance(logs, Mapping):
            for name, values in self._logged.items():
                # Newer versions give some of them as text.
                if isinstance(logs.get(name), (int, float, str)):
                    with contextlib.suppress(ValueError):
                        values[state.global_step] = float(logs[name])

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write the result."""
        cause = "the training stopped itself"
        self._end(outcome.of_end(state.global_step, state.max_steps, self.stop_reason, cause), regular=True)

    def _end(self, ended: Outcome, *, regular: bool = False) -> None:
        recording, self._recording = self._recording, None
        if recording is None:
            return
        atexit.unregister(self._at_exit)
        if sys.excepthook == self._on_uncaught:
            sys.excepthook = self._usual_hook
        if self._hook is not None:
            self._hook.remove()
        recording.end(ended, regular=regular)
        self.result, self.path = recording.run, recording.path

    def _on_uncaught(self, kind: type[BaseException], exception: BaseException, trace: TracebackType | None) -> None:
        """Write the result: the Trainer tells its callbacks of no exception."""
        usual = self._usual_hook
        self.failed(exception)
        usual(kind, exception, trace)

    def _at_exit(self) -> None:
        self._end(outcome.PROGRAM_ENDED)

    def _forward_seen(self, module: Any, inputs: Any, named: Mapping[str, Any], output: Any) -> None:
        if not module.training or self._recording is None or self._recording.recorder.paused:
            return
        self._recording.lap()
        loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
        if loss is None and isinstance(output, tuple) and output:
            loss = output[0] if getattr(output[0], "numel", lambda: 0)() == 1 else None
        if loss is not None:
            # At once: the Trainer multiplies it in place.
            self._losses.append((self._values.take(LOSS, loss), named.get("num_items_in_batch") is not None))

    def _amend(self, records: Sequence[Record], recording: Recording) -> Sequence[Record]:
        self._check_losses(records, recording.first_step)
        amended = []
        for record in records:
            loss, norm = None if self._loss_doubt else record.loss, record.grad_norm
            if loss is None and self._each_step_is_logged:
                loss = self._logged["loss"].get(record.step)
            if norm is None:
                norm = self._logged["grad_norm"].get(record.step)
            amended.append(record._replace(loss=loss, grad_norm=norm))
        self._norms_seen = self._norms_seen or any(record.grad_norm is not None for record in amended)
        return amended

    def _check_losses(self, records: Sequence[Record], last: int) -> None:
        """Ignore the model's loss where the training adds to it or computes its own; `last` step was done before."""
        losses = {record.step: record.loss for record in records}
        logged, returned = [], []
        for step, loss in sorted(self._logged["loss"].items()):
            window = [losses.get(each) for each in range(last + 1, step + 1)]
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

    def _warnings(self, recording: Recording) -> list[str]:
        if recording.step == recording.first_step:
            return []
        absent = {}
        if self._loss_doubt is None and not self._each_step_is_logged:
            absent[LOSS] = "the model returns none; with logging_steps=1 each step's is in the Trainer's log"
        if not self._norms_seen:
            absent[NORM] = "the Trainer tells it in its log alone: with logging_steps=1, of each step"
        warnings = self._values.warnings(absent, 1 if self._loss_doubt else self._args.world_size)
        if self._loss_doubt is not None:
            instead = ": those of its log are taken" if self._each_step_is_logged else ""
            warnings.append(f"the model's losses are not those that are trained on: {self._loss_doubt}{instead}")
        if self._batch_varies:
            warnings.append(
                "steps at the end of an epoch are of fewer sequences: there is no one global batch size, and therefore "
                "no throughput in tokens; let dataloader_drop_last be true and the epoch hold whole global batches"
            )
        return warnings
