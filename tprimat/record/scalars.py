"""Loss, gradient norm and learning rate of a step, from tensors or numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from tprimat.record.clocks import Scalars
from tprimat.record.recorder import Values

LOSS, NORM = "loss", "gradient norm"


class StepValues:
    """Collects the loss and gradient norm of steps; none is read before its step's mark is ready.

    Attributes:
        rejected: values that could not be read, and why.
        seen: names of values that came at least once.
    """

    def __init__(self, scalars: Scalars) -> None:
        self.rejected: dict[str, str] = {}
        self.seen: set[str] = set()
        self._scalars = scalars

    def of(self, losses: Sequence[Any], grad_norm: Any = None, scale: float = 1.0) -> Values:
        """Return what reads a step's loss and gradient norm later; on a CPU, read them at once.

        Args:
            losses: of its micro-batches, each as take() has kept it; with a None among them the step has no loss.
            grad_norm: of the whole gradient, before clipping, kept in the same way.
            scale: what the mean of the losses is multiplied by.
        """
        if self._scalars.at_once:
            return self._read(losses, scale, grad_norm)
        return partial(self._read, losses, scale, grad_norm)

    def take(self, what: str, value: Any) -> Any:
        """Take one value as it is now; return None for none, and for what is no single number."""
        # The usual case first: each step comes here.
        if type(value) is Tensor and value.numel() == 1:
            self.seen.add(what)
            return self._scalars.copy(value.detach() if value.requires_grad else value)
        if value is None:
            return None
        if hasattr(value, "full_tensor"):
            # Bringing it together is work that each process would have to take part in.
            self.rejected[what] = "it is spread over the processes: give .full_tensor() of it"
            return None
        is_tensor = isinstance(value, Tensor) and value.numel() == 1
        if not is_tensor and (isinstance(value, bool) or not isinstance(value, (int, float))):
            self.rejected[what] = f"it is no single number but {type(value).__name__}"
            return None
        self.seen.add(what)
        return self._scalars.copy(value.detach() if is_tensor else value)

    def warnings(self, absent: Mapping[str, str], processes: int) -> list[str]:
        """Return what is unknown or doubtful of the values.

        Args:
            absent: why a value is unknown, if it never came.
            processes: that train, each with losses of its own; 1 where the losses are those of all.
        """
        never = {what: why for what, why in absent.items() if what not in self.seen}
        warnings = [f"{what} unknown: {why}" for what, why in {**never, **self.rejected}.items()]
        if processes > 1 and LOSS in self.seen:
            warnings.append(f"loss_values are those of the first of {processes} processes, not the mean over all")
        return warnings

    def _read(self, losses: Sequence[Any], scale: float, norm: Any) -> tuple[float | None, float | None]:
        read = self._scalars.read
        loss: float | None = None
        # The usual case first. By identity: to compare a tensor with None takes longer than to read it.
        if len(losses) == 1:
            loss = None if losses[0] is None else read(losses[0]) * scale
        elif losses and all(each is not None for each in losses):
            loss = sum(map(read, losses)) / len(losses) * scale
        return loss, None if norm is None else read(norm)


def learning_rate(optimizer: Any) -> float | None:
    """Return that of the first group of parameters; None for one on the device, which would have to be waited for."""
    rate = optimizer.param_groups[0]["lr"]
    if type(rate) is float:
        return rate
    return None if isinstance(rate, Tensor) and rate.device.type != "cpu" else float(rate)
