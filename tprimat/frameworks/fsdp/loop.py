"""The training loop of the framework `fsdp`: PyTorch's FSDP2 (fully_shard), as a program of its
own:

    torchrun --standalone --nproc-per-node=2 -m tprimat.frameworks.fsdp.loop --model=llama
    --scale=tiny …

Its options are a Request's. What it trains is in recipe.py.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from tprimat.frameworks.loops import compile_and_fit, own_loop
from tprimat.frameworks.loops.recipe import MIXED, Recipe
from tprimat.record.ranks import Process


class FullyShard:
    """The model sharded layer by layer. See own_loop.Engine.

    In bf16, FSDP's own mixed precision: it gathers the weights in bf16 and reduces the gradients in
    fp32; shards and optimizer stay in fp32.
    """

    strategy = "fully_shard"

    def __init__(self, training: Recipe, process: Process) -> None:
        half = training.request.precision == "bf16"
        if half:
            policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
        else:
            policy = MixedPrecisionPolicy()
        mesh = init_device_mesh(process.device.type, (process.world_size,))
        self.model = self.module = training.weights(process.device)
        if training.request.compiled:
            # It gathers the weights in bf16 itself; autocast, for which other frameworks have
            # copies, isn't used.
            compile_and_fit.install_eager_kernels(self.module, None)
            compile_and_fit.compile_layers(self.module)
        for layer in (*self.module.model.layers, self.module):
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        self.optimizer = training.optimizer(self.module)
        if half:
            self.precision_detail = "bf16 parameters and activations, fp32 reduction"
        else:
            self.precision_detail = MIXED["fp32"]
        self._accumulation = training.request.gradient_accumulation_steps
        self._clipping = training.settings.gradient_clipping

    def backward(self, loss: torch.Tensor, *, is_last: bool) -> None:
        """Do the backward pass of a micro-batch; the processes add their gradients up in the last
        one.
        """
        self.module.set_requires_gradient_sync(is_last)
        (loss / self._accumulation).backward()

    def step(self) -> Any:
        """Do the optimizer's step; return the gradient norm before clipping."""
        norm: Any = torch.nn.utils.clip_grad_norm_(self.module.parameters(), self._clipping)
        self.optimizer.step()
        self.optimizer.zero_grad()
        # Every process takes part here, as it must: the norm is spread over them.
        if hasattr(norm, "full_tensor"):
            return norm.full_tensor()
        return norm


if __name__ == "__main__":
    sys.exit(own_loop.main(sys.argv[1:], FullyShard))
