"""Loss and gradient norm of Lightning's steps, collected at the ends of batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from tprimat.notes import Note, NoteValue
from tprimat.record.lifecycle import Recording
from tprimat.record.recorder import Values, format_steps
from tprimat.record.scalars import LOSS, NORM
from tprimat.results.fields import FieldValues

LOOKED_FOR_IN = 2
"""Steps in which a loss or a gradient norm that the training logs is looked for."""

LOGGED_LOSS = "reduced_train_loss"
"""NeMo's name for the loss over the whole global batch, valid on each pipeline stage."""

GRAD_NORM = "grad_norm"
"""Name under which NeMo logs it, and of the attribute where the built-in training keeps it."""

ABSENT = {LOSS: "training_step returns none", NORM: "the training logs none as grad_norm"}


class StepMetrics:
    """Collects the scalars of the step in progress; none is read before its step's mark is ready.

    Attributes:
        saved_within: steps within which a checkpoint was saved.
    """

    def __init__(self, trainer: Any, module: Any, recording: Recording) -> None:
        self.saved_within: list[int] = []
        self._trainer = trainer
        self._module = module
        self._recording = recording
        self._values = recording.values
        self._losses: list[Any] = []
        self._batches = 0
        self._automatic = True
        self._steps_seen = 0
        self._logged: dict[str, str] = {}
        self._norm_is_attribute = False
        self._newest: FieldValues = {}
        self._partial: list[int] = []
        self._most_steps_per_batch = 1

    def batch_end(self, outputs: Any) -> None:
        """Take the loss of a batch, as training_step returned it."""
        self._batches += 1
        # A check for dict is quick: one for an abstract Mapping takes longer.
        loss = self._values.take(
            LOSS, outputs.get("loss") if isinstance(outputs, (dict, Mapping)) else outputs
        )
        if loss is not None:
            self._losses.append(loss)

    def step_end(self, step: int) -> Values:
        """Close a step; return what reads its loss and gradient norm later."""
        if self._steps_seen < LOOKED_FOR_IN:
            # A module may decide this as late as its own set-up.
            self._automatic = bool(self._module.automatic_optimization)
            self._look_for_logged()
        self._steps_seen += 1
        scale = 1
        if self._automatic:
            # Lightning hands out each micro-batch's loss divided by their number.
            scale = self._trainer.accumulate_grad_batches
            if self._batches < scale:
                self._partial.append(step)
                self._recording.batch_varies = True
        window = step - self._recording.step
        if window > self._most_steps_per_batch:
            self._most_steps_per_batch = window
            self._recording.batch_varies = True
        losses = self._losses
        self._losses = []
        self._batches = 0
        grad_norm = None
        if self._logged:
            logged_loss = self._take_logged(LOSS, LOGGED_LOSS)
            if logged_loss is not None:
                losses = [logged_loss]
                scale = 1
            grad_norm = self._take_logged(NORM, GRAD_NORM)
        if self._norm_is_attribute:
            grad_norm = self._take_new(NORM, self._module.grad_norm)
        return self._values.of(losses, grad_norm, scale)

    def notes(self) -> list[Note]:
        """Return notes on doubtful values of the steps so far."""
        notes = []
        if self._partial:
            fields: dict[str, NoteValue] = {"steps": format_steps(self._partial)}
            fields["accumulated"] = self._trainer.accumulate_grad_batches
            notes.append(Note("batch-is-short", fields))
        if self._most_steps_per_batch > 1:
            notes.append(Note("several-steps-a-call", {"steps": self._most_steps_per_batch}))
        if self.saved_within:
            steps = format_steps(self.saved_within)
            notes.append(Note("checkpoint-within-steps", {"steps": steps}))
        return notes

    def _look_for_logged(self) -> None:
        results = getattr(self._trainer, "_results", None) or {}
        for key, metric in results.items():
            name = getattr(getattr(metric, "meta", None), "name", None)
            if name in (LOGGED_LOSS, GRAD_NORM):
                self._logged[name] = key
        self._values.is_global |= LOGGED_LOSS in self._logged
        if GRAD_NORM not in self._logged:
            self._norm_is_attribute = isinstance(
                getattr(self._module, GRAD_NORM, None), (Tensor, float)
            )

    def _take_logged(self, what: str, name: str) -> Any:
        """Take the newest value that was logged under a name; return None if none came since the
        last step.
        """
        # Not trainer.callback_metrics: reading that turns the progress bar's values into numbers,
        # for which the host waits until the GPU has done all its work.
        metric = (self._trainer._results or {}).get(self._logged.get(name))
        return self._take_new(what, getattr(metric, "_forward_cache", None))

    def _take_new(self, what: str, value: Any) -> Any:
        """Take a value, unless it is that of the last step: then this step has none."""
        if value is self._newest.get(what):
            return None
        self._newest[what] = value
        return self._values.take(what, value)
