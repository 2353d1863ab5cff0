"""One optimizer step of the encoder-decoder, in the requested precision."""

from __future__ import annotations

import os

import torch

from tprimat.frameworks.encdec import model
from tprimat.frameworks.encdec.settings import OPTIMIZER, Settings
from tprimat.frameworks.loops import building
from tprimat.record.ranks import Process


class Step:
    """One optimizer step: forward, backward, update.

    Args:
        settings: sizes and precision.
        process: which one this is, with its device.
    """

    def __init__(self, settings: Settings, process: Process) -> None:
        self._device = device = process.device
        self._source = settings.seq_len
        module: torch.nn.Module = model.build(settings, device)
        # Each process drops other activations.
        torch.manual_seed(settings.seed + process.rank)
        if process.world_size > 1:
            module = torch.nn.parallel.DistributedDataParallel(
                module, device_ids=[device] if device.type == "cuda" else None, gradient_as_bucket_view=True
            )
        self._module = module
        # The fused kernel unscales gradients itself, so that no step waits for the host to check them.
        self._optimizer = building.optimizer(module, OPTIMIZER, fused=True)
        self._scaler = torch.amp.GradScaler(device.type, enabled=settings.precision == "fp16")
        self._dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(settings.precision)
        self._calls = 0

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        """Train on a batch of pairs, shape (batch, 2 × seq_len + 1); return the loss, on the device."""
        tokens = tokens.to(self._device, non_blocking=True)
        source, target = tokens[:, : self._source], tokens[:, self._source :]
        with torch.autocast(self._device.type, dtype=self._dtype, enabled=self._dtype is not None):
            loss: torch.Tensor = self._module(source, target)
        self._scaler.scale(loss).backward()
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._optimizer.zero_grad(set_to_none=True)
        self._calls += 1
        return loss

    def loss_scaling(self) -> tuple[float | None, int | None]:
        """Return the loss scale, and how many steps were skipped because gradients overflowed; None without scaling."""
        if not self._scaler.is_enabled():
            return None, None
        updates = [float(state["step"]) for state in self._optimizer.state.values()]
        return self._scaler.get_scale(), self._calls - round(max(updates, default=0.0))


def set_precision(settings: Settings) -> str:
    """Set the precision of fp32 products; return the whole precision in torch's terms."""
    if settings.precision != "fp32":
        name = "float16, with loss scaling" if settings.precision == "fp16" else "bfloat16"
        return f"torch.autocast to {name}"
    if settings.platform == "cpu":
        return "float32"
    # Some containers set NVIDIA_TF32_OVERRIDE, which turns float32 into TF32.
    torch.set_float32_matmul_precision("highest")
    forced = os.environ.get("NVIDIA_TF32_OVERRIDE") == "1"
    return "float32, computed in TF32 by NVIDIA_TF32_OVERRIDE" if forced else "float32, without TF32"
