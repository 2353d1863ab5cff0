"""TrainerBenchmarkCallback: the adapter of transformers.Trainer.

    trainer = Trainer(…, callbacks=[TrainerBenchmarkCallback(sequence_length=2048)])

It only watches: no step is made to wait for the GPU and nothing is logged. The Trainer gives its
callbacks no loss; it is read from what the model returns, and checked against the Trainer's own
log.
"""

from __future__ import annotations

import atexit
import contextlib
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any

from transformers import TrainerCallback

from tprimat.errors import UsageError
from tprimat.frameworks.transformers.description import NAME, describe, sizes_of
from tprimat.notes import Note
from tprimat.record import outcome
from tprimat.record.options import Benchmark
from tprimat.record.ranks import Process
from tprimat.record.recorder import Record
from tprimat.record.scalars import LOSS, NORM
from tprimat.results.fields import LARGEST_VALUE, FieldValues
from tprimat.results.outcome import Outcome

HEADING = "trainer-benchmark-callback"

ALONE_TOLERANCE = 0.02
AMONG_OTHERS_TOLERANCE = 0.2
"""Shares by which the model's losses may differ from the Trainer's log. The log is rounded, and a
mean over all processes; the losses are those of one.
"""

ROUNDED = 1e-3

ABSENT = {NORM: "the Trainer reports it only in its log; with logging_steps=1, of each step"}
NO_LOSS = "the model returns none; with logging_steps=1 each step's is in the Trainer's log"


class TrainerBenchmarkCallback(Benchmark, TrainerCallback):  # type: ignore[misc]
    """Time the optimizer steps of a training and write its result.

    Arguments and attributes are those of Benchmark. Batch sizes are taken from the
    TrainingArguments; the sequence length is not, since they don't state it.
    """

    _name, _heading = NAME, HEADING
    _optimizer: Any = None
    _norm: Any = None
    _loss_doubt: dict[str, float] | None = None
    _undo = contextlib.ExitStack()

    def note_grad_norm(self, norm: Any) -> None:
        """Take the step's gradient norm from a Trainer that knows it: its log is rarely of each
        step.
        """
        self._norm = norm

    def failed(self, exception: BaseException) -> None:
        """Write the result of a training that raised; needed only if the exception is caught and
        the program continues.
        """
        if self._recording:
            self._undo.close()
            self._recording.fail(exception)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the first step."""
        self._end(outcome.ENDED_SILENTLY)
        if args.n_gpu > 1:
            raise UsageError(
                f"{NAME}: this Trainer divides each batch over {args.n_gpu} GPUs within one process"
                " (DataParallel), which is not measured: start it with torchrun"
                f" --nproc-per-node={args.n_gpu}, or set CUDA_VISIBLE_DEVICES to a single GPU",
                heading=HEADING,
            )
        model = kwargs.get("model")
        self._optimizer = kwargs.get("optimizer")
        self._args = args
        self._norm = self._loss_doubt = None
        self._losses: list[Any] = []
        self._logged: dict[str, dict[int, float]] = {"loss": {}, "grad_norm": {}}
        strategy = str(args.logging_strategy).rpartition(".")[2].lower()
        self._each_step_is_logged = args.logging_steps == 1 and strategy == "steps"
        recording = self._begin(
            Process(args.process_index, args.world_size, device=args.device),
            module=model,
            absent=ABSENT if self._each_step_is_logged else {LOSS: NO_LOSS, **ABSENT},
            amend=self._amend,
        )
        self._values = recording.values
        with self._errors():
            stated = self._options.known.training_config
            shown = describe(
                args, model, self._optimizer, stated, recording.platform, state.max_steps
            )
            recording.start(shown, step=state.global_step)
        self._undo = contextlib.ExitStack()
        # A hook within a compiled graph would break it in two.
        if model is not None and not args.torch_compile:
            self._undo.callback(
                model.register_forward_hook(self._forward_seen, with_kwargs=True).remove
            )
        self._undo.enter_context(
            _watched_program(self.failed, partial(self._end, outcome.PROGRAM_ENDED))
        )

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the pause of an evaluation, of saving, or between epochs: the loader's start is part
        of a step.
        """
        self._recorder.resume()

    on_epoch_begin = on_step_begin

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note the learning rate that is about to be used."""
        if self._optimizer is not None:
            self._values.note_rate(self._optimizer)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End an optimizer step; what the Trainer does before the next is no part of one."""
        if self._recording and state.global_step != self._recording.step:
            losses = self._losses
            self._losses = []
            norm = self._values.take(NORM, self._norm)
            self._norm = None
            scale = 1.0
            if losses and all(summed for _, summed in losses):
                # Each is a share of the whole batch's mean: their sum, not their mean, is the loss.
                # And if the tokens of all processes were counted, of all of those.
                if getattr(args, "average_tokens_across_devices", False):
                    everywhere = args.world_size
                else:
                    everywhere = 1
                scale = float(len(losses) * everywhere)
            self._recording.step_end(
                state.global_step, self._values.of([loss for loss, _ in losses], norm, scale)
            )
        # The Trainer's own callbacks come first and have decided this.
        if control.should_evaluate or control.should_save:
            self._recorder.pause("evaluation" if control.should_evaluate else "checkpoint")

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Pause: evaluation, which is over now, is no part of a step, and saving follows it."""
        self._recorder.pause("checkpoint" if control.should_save else None)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Pause: what an epoch ends with is no part of a step."""
        self._recorder.pause(
            "evaluation"
            if control.should_evaluate
            else "checkpoint"
            if control.should_save
            else None
        )
        whole = sizes_of(args, self._options.known.training_config).global_batch_size
        dataset: Any = getattr(kwargs.get("train_dataloader"), "dataset", None)
        if self._recording and whole and hasattr(dataset, "__len__"):
            self._recording.batch_varies |= (
                len(dataset) % whole > 0 and state.global_step < state.max_steps
            )

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Keep what the Trainer logs of a step after its end."""
        if self._recording and isinstance(logs, Mapping):
            for name, values in self._logged.items():
                # Newer versions give some of them as text.
                if isinstance(logs.get(name), (int, float, str)):
                    with contextlib.suppress(ValueError):
                        value = float(logs[name])
                        if abs(value) <= LARGEST_VALUE:
                            values[state.global_step] = value
                        else:
                            self._recorder.not_finite[name].append(state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write the result."""
        self._end(
            outcome.of_end(
                state.global_step, state.max_steps, self.stop_reason, "the training stopped early"
            ),
            regular=True,
        )

    def _end(self, ended: Outcome, *, regular: bool = False) -> None:
        self._undo.close()
        if self._recording:
            self._recording.end(ended, regular=regular)

    def _forward_seen(self, module: Any, inputs: Any, named: FieldValues, output: Any) -> None:
        if not module.training or self._recorder.paused:
            return
        self._recorder.lap()
        loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
        if loss is None and isinstance(output, tuple) and output:
            loss = output[0] if getattr(output[0], "numel", lambda: 0)() == 1 else None
        if loss is not None:
            # At once: the Trainer multiplies it in place.
            self._losses.append(
                (self._values.take(LOSS, loss), named.get("num_items_in_batch") is not None)
            )

    def _amend(self, records: Sequence[Record]) -> Sequence[Record]:
        """Return the records with what the Trainer logged of them, and without losses that are
        doubtful.
        """
        self._check_losses(records)
        amended = []
        for record in records:
            loss = None if self._loss_doubt else record.loss
            norm = record.grad_norm
            if loss is None and self._each_step_is_logged:
                loss = self._logged["loss"].get(record.step)
            if norm is None:
                norm = self._logged["grad_norm"].get(record.step)
            if norm is not None:
                self._values.seen.add(NORM)
            amended.append(record._replace(loss=loss, grad_norm=norm))
        return amended

    def _check_losses(self, records: Sequence[Record]) -> None:
        """Ignore the model's loss if the training adds to it or computes its own."""
        losses = {record.step: record.loss for record in records if record.loss is not None}
        logged = []
        returned = []
        last = records[0].step - records[0].window if records else 0
        for step, loss in sorted(self._logged["loss"].items()):
            window = [losses[number] for number in range(last + 1, step + 1) if number in losses]
            if window and len(window) == step - last:
                logged.append(loss)
                returned.append(statistics.fmean(window))
            last = step
        if not logged:
            return
        reference = statistics.fmean(logged)
        own = statistics.fmean(returned)
        tolerance = ALONE_TOLERANCE if self._args.world_size == 1 else AMONG_OTHERS_TOLERANCE
        if abs(reference - own) > ROUNDED + tolerance * abs(reference):
            self._loss_doubt = {"own": own, "logged": reference}
            self._values.is_global = True

    def notes(self) -> list[Note]:
        """Return what is doubtful of the losses and of the batch."""
        notes = []
        if self._loss_doubt is not None:
            if self._each_step_is_logged:
                instead = ": losses from the Trainer's log are used"
            else:
                instead = ""
            notes.append(Note("losses-differ", {**self._loss_doubt, "instead": instead}))
        if self._recording and self._recording.batch_varies:
            notes.append(Note("epoch-ends-short"))
        return notes


@contextlib.contextmanager
def _watched_program(
    failed: Callable[[BaseException], None], ended: Callable[[], None]
) -> Iterator[None]:
    """Call these if the program ends early: the Trainer calls no callback for an exception."""
    usual = sys.excepthook

    def uncaught(
        kind: type[BaseException], exception: BaseException, trace: TracebackType | None
    ) -> None:
        failed(exception)
        usual(kind, exception, trace)

    sys.excepthook = uncaught
    atexit.register(ended)
    yield
    atexit.unregister(ended)
    if sys.excepthook == uncaught:
        sys.excepthook = usual
