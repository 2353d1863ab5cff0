"""Loss, gradient norm and learning rate of Lightning's steps, collected at the ends of batches."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from torch import Tensor

from tprimat.record.clocks import Scalars
from tprimat.record.recorder import Values, format_steps

LOOKED_FOR_IN = 2
"""Steps in which a loss or a gradient norm that the training logs is looked for."""

LOGGED_LOSS = "reduced_train_loss"
"""NeMo's name for the loss over the whole global batch, valid on each pipeline stage."""

GRAD_NORM = "grad_norm"
"""Name under which NeMo logs it, and of the attribute where the built-in training keeps it."""


class StepMetrics:
    """Collects the scalars of the step in progress; none is read before its step's mark is ready.

    Args:
        trainer: Lightning's trainer.
        module: the module that it trains.
        scalars: takes the tensors' values.
    """

    def __init__(self, trainer: Any, module: Any, scalars: Scalars) -> None:
        self._trainer = trainer
        self._module = module
        self._scalars = scalars
        self._losses: list[Any] = []
        self._batches = 0
        self._automatic = True
        self._steps_seen = 0
        self._logged: dict[str, str] = {}
        self._norm_is_attribute = False
        self._newest: dict[str, Any] = {}
        self._rejected: dict[str, str] = {}
        self._partial: list[int] = []
        self._most_steps_per_batch = 1
        self._has_loss = self._has_norm = self._has_rate = False

    @property
    def batch_is_one_size(self) -> bool:
        """Whether each optimizer step was of one global batch."""
        return not self._partial and self._most_steps_per_batch == 1

    def batch_end(self, outputs: Any) -> None:
        """Take the loss of a batch, as training_step returned it."""
        self._batches += 1
        if type(outputs) is dict:
            outputs = outputs.get("loss")
        if type(outputs) is Tensor and outputs.numel() == 1:
            self._has_loss = True
            self._losses.append(self._scalars.copy(outputs))
        elif outputs is not None:
            self._keep_loss(outputs)

    def step_end(self, step: int, window: int) -> Values:
        """Close a step; return what reads its loss and gradient norm later.

        Args:
            step: its number.
            window: by how much the count of steps rose.
        """
        trainer = self._trainer
        if self._steps_seen < LOOKED_FOR_IN:
            # A module may decide this as late as its own set-up.
            self._automatic = bool(self._module.automatic_optimization)
            self._look_for_logged()
        self._steps_seen += 1
        scale = 1
        if self._automatic:
            # Lightning hands out each micro-batch's loss divided by their number.
            scale = trainer.accumulate_grad_batches
            if self._batches < scale:
                self._partial.append(step)
        if window > self._most_steps_per_batch:
            self._most_steps_per_batch = window
        if self._logged:
            logged_loss = self._from_log(LOGGED_LOSS)
            if logged_loss is not None:
                self._losses, scale = [logged_loss], 1
        losses, self._losses, self._batches = self._losses, [], 0
        grad_norm = self._grad_norm() if self._norm_is_attribute or self._logged else None
        if self._scalars.at_once:
            return self._read(losses, scale, grad_norm)
        return partial(self._read, losses, scale, grad_norm)

    def learning_rate(self) -> float | None:
        """Return that of the first optimizer, now."""
        optimizers = self._trainer.optimizers
        return self.rate_of(optimizers[0]) if optimizers else None

    def rate_of(self, optimizer: Any) -> float | None:
        """Return that of the optimizer's first group of parameters."""
        rate = optimizer.param_groups[0]["lr"]
        if type(rate) is not float:
            if isinstance(rate, Tensor) and rate.device.type != "cpu":
                self._rejected["learning rates"] = "the optimizer keeps it on the device"
                return None
            rate = float(rate)
        self._has_rate = True
        return rate

    def warnings(self) -> list[str]:
        """Return what is unknown or doubtful of the steps so far."""
        warnings = [f"{what} unknown: {why}" for what, why in self._rejected.items()]
        if not self._steps_seen:
            return warnings
        if not self._has_loss and "loss" not in self._rejected:
            warnings.append("loss unknown: what training_step returns holds none")
        if not self._has_norm and "gradient norm" not in self._rejected:
            warnings.append("gradient norm unknown: the training logs none as grad_norm")
        if self._partial:
            warnings.append(
                f"{format_steps(self._partial)} of fewer than {self._trainer.accumulate_grad_batches} micro-batches "
                "(the end of an epoch): there is no one global batch size, and therefore no throughput in tokens; let "
                "limit_train_batches be a multiple of accumulate_grad_batches"
            )
        if self._most_steps_per_batch > 1:
            warnings.append(
                f"up to {self._most_steps_per_batch} optimizer steps in one call of training_step: steps are counted "
                "as trainer.global_step counts them, a record averages those of one call, and the sequences per "
                "step are unknown"
            )
        replicas = self._trainer.world_size
        if replicas > 1 and self._has_loss and LOGGED_LOSS not in self._logged:
            warnings.append(f"loss_values are those of the first of {replicas} processes, not the mean over all")
        return warnings

    def _keep_loss(self, value: Any) -> None:
        if isinstance(value, Mapping):
            value = value.get("loss")
        kept = None if value is None else self._unusual("loss", value)
        if kept is not None:
            self._has_loss = True
            self._losses.append(kept)

    def _grad_norm(self) -> Any:
        if self._norm_is_attribute:
            value = self._fresh(GRAD_NORM, self._module.grad_norm)
            if value is None:
                return None
            if type(value) is not Tensor or value.numel() != 1:
                return self._unusual("gradient norm", value)
            self._has_norm = True
            return self._scalars.copy(value)
        return self._from_log(GRAD_NORM)

    def _from_log(self, name: str) -> Any:
        """Return the newest value that was logged under a name; None where none came since the last step."""
        key = self._logged.get(name)
        if key is None:
            return None
        # Not trainer.callback_metrics: reading that turns the progress bar's values into numbers,
        # for which the host waits until the GPU has done all its work.
        metric = (self._trainer._results or {}).get(key)
        value = self._fresh(name, getattr(metric, "_forward_cache", None))
        if type(value) is not Tensor or value.numel() != 1:
            return None
        if name == GRAD_NORM:
            self._has_norm = True
        else:
            self._has_loss = True
        return self._scalars.copy(value)

    def _look_for_logged(self) -> None:
        results = getattr(self._trainer, "_results", None) or {}
        for key, metric in results.items():
            name = getattr(getattr(metric, "meta", None), "name", None)
            if name in (LOGGED_LOSS, GRAD_NORM):
                self._logged[name] = key
        if GRAD_NORM not in self._logged:
            self._norm_is_attribute = isinstance(getattr(self._module, GRAD_NORM, None), (Tensor, float))

    def _fresh(self, name: str, value: Any) -> Any:
        """Return the value, unless it is the one that the last step had: then this step has none."""
        if value is self._newest.get(name):
            return None
        self._newest[name] = value
        return value

    def _unusual(self, what: str, value: Any) -> Any:
        """Take a value that is no plain tensor with one element: numbers are kept, others refused."""
        if isinstance(value, (int, float)):
            return float(value)
        if hasattr(value, "full_tensor"):
            # Bringing it together is work that each process would have to take part in.
            self._rejected[what] = "it is spread over the processes"
        elif isinstance(value, Tensor) and value.numel() == 1:
            return self._scalars.copy(value)
        else:
            self._rejected[what] = f"it is no single number but {type(value).__name__}"
        return None

    def _read(self, losses: list[Any], scale: int, grad_norm: Any) -> tuple[float | None, float | None]:
        read = self._scalars.read
        loss: float | None
        if len(losses) == 1:
            loss = read(losses[0]) * scale
        else:
            loss = sum(map(read, losses)) / len(losses) * scale if losses else None
        return loss, None if grad_norm is None else read(grad_norm)
