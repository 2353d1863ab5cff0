"""Loss, gradient norm and learning rate of a step, from tensors or numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from tprimat.notes import Note
from tprimat.record.clocks import Scalars
from tprimat.record.recorder import Values

LOSS, NORM = "loss", "gradient norm"


class StepValues:
    """Collects the loss and gradient norm of steps; none is read before its step's mark is ready.

    `scalars` takes the values of tensors; `absent` is why a value is unknown, if it never came.

    Attributes:
        seen: names of values that came at least once.
        is_global: whether the losses are those of all processes, rather than of this one.
        rate: learning rate of the step in progress.
    """

    def __init__(self, scalars: Scalars, absent: Mapping[str, str], processes: int) -> None:
        self.seen: set[str] = set()
        self.is_global = processes == 1
        self.rate: float | None = None
        self._rejected: dict[str, str] = {}
        self._scalars = scalars
        self._absent = absent
        self._processes = processes

    def of(self, losses: Sequence[Any], grad_norm: Any = None, scale: float = 1.0) -> Values:
        """Return what reads a step's loss and gradient norm later; on a CPU, read them at once.

        Args:
            losses: those of its micro-batches, each as take() has kept it; with a None among them
                the step has no loss.
            grad_norm: norm of the whole gradient, before clipping, kept in the same way.
            scale: factor for the mean of the losses.
        """
        if self._scalars.at_once:
            return self._read(losses, scale, grad_norm)
        return partial(self._read, losses, scale, grad_norm)

    def take(self, what: str, value: Any) -> Any:
        """Take one value as it is now; return None if there is none, or no single number."""
        # The usual case first: each step comes here.
        if type(value) is Tensor and value.numel() == 1:
            self.seen.add(what)
            return self._scalars.copy(value.detach() if value.requires_grad else value)
        if value is None:
            return None
        if hasattr(value, "full_tensor"):
            # Bringing it together is work that each process would have to take part in.
            self._rejected[what] = "it is sharded over the processes: pass its .full_tensor()"
            return None
        is_tensor = isinstance(value, Tensor) and value.numel() == 1
        if not is_tensor and (isinstance(value, bool) or not isinstance(value, (int, float))):
            self._rejected[what] = f"it is not a single number but {type(value).__name__}"
            return None
        self.seen.add(what)
        return self._scalars.copy(value.detach() if is_tensor else value)

    def note_rate(self, optimizer: Any) -> None:
        """Note the learning rate of an optimizer's first parameters, if none is known of this
        step.
        """
        if self.rate is None:
            rate = optimizer.param_groups[0]["lr"]
            if type(rate) is float:
                self.rate = rate
            elif isinstance(rate, Tensor) and rate.device.type != "cpu":
                # It would have to be waited for.
                self._rejected["learning rates"] = "the optimizer keeps it on the device"
            else:
                self.rate = float(rate)

    def notes(self, *, has_steps: bool) -> list[Note]:
        """Return notes on unknown and doubtful values."""
        never = {}
        for what, why in self._absent.items():
            if has_steps and what not in self.seen:
                never[what] = why
        notes = []
        for what, why in {**never, **self._rejected}.items():
            notes.append(Note("step-values-unknown", {"what": what, "why": why}))
        if has_steps and not self.is_global and LOSS in self.seen:
            notes.append(Note("loss-of-one-process", {"processes": self._processes}))
        return notes

    def _read(
        self, losses: Sequence[Any], scale: float, norm: Any
    ) -> tuple[float | None, float | None]:
        read = self._scalars.read
        loss = None
        # The usual case first. By identity: to compare a tensor with None takes longer than to read
        # it.
        if len(losses) == 1:
            loss = None if losses[0] is None else read(losses[0]) * scale
        elif losses and all(loss is not None for loss in losses):
            loss = sum(map(read, losses)) / len(losses) * scale
        return loss, None if norm is None else read(norm)
