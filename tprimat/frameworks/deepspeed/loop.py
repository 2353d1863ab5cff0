"""The training loop of DeepSpeed with ZeRO 1, 2 or 3, as a program of its own:

    torchrun --standalone --nproc-per-node=2 -m tprimat.frameworks.deepspeed.loop
    --framework=deepspeed-zero3 …

Its options are a Request's. What it trains is in recipe.py; clipping and accumulation are
DeepSpeed's.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import deepspeed

from tprimat.frameworks.loops import own_loop
from tprimat.frameworks.loops.recipe import MIXED, Recipe
from tprimat.record.ranks import Process
from tprimat.results.fields import JsonObject

PRECISION_DETAILS = {
    "fp32": MIXED["fp32"],
    # DeepSpeed casts the whole model and keeps the optimizer's copy of the weights in fp32.
    "bf16": "bf16 parameters and activations, fp32 master weights",
    "fp16": "fp16 parameters and activations, fp32 master weights",
}


def configuration(training: Recipe, stage: int) -> JsonObject:
    """Return DeepSpeed's configuration of the training, with a stage of ZeRO."""
    return {
        "train_batch_size": training.request.global_batch_size,
        "train_micro_batch_size_per_gpu": training.request.micro_batch_size,
        "gradient_accumulation_steps": training.request.gradient_accumulation_steps,
        "gradient_clipping": training.settings.gradient_clipping,
        "zero_optimization": {"stage": stage},
        # torch's AdamW, which all the others use, instead of DeepSpeed's own.
        "zero_allow_untested_optimizer": True,
        **(
            {}
            if training.request.precision == "fp32"
            else {training.request.precision: {"enabled": True}}
        ),
        # Its report of the time would make the host wait for the GPU at each report.
        "steps_per_print": sys.maxsize,
        "wall_clock_breakdown": False,
    }


class Zero:
    """DeepSpeed's engine. See own_loop.Engine."""

    def __init__(self, training: Recipe, process: Process) -> None:
        stage = int(training.request.framework.removeprefix("deepspeed-zero"))
        self.module = training.weights(process.device)
        self.optimizer = training.optimizer(self.module)
        self.strategy = f"ZeRO-{stage}"
        self.precision_detail = PRECISION_DETAILS[training.request.precision]
        # It takes this from torchrun, which doesn't start a process that trains alone.
        os.environ.setdefault("LOCAL_RANK", str(process.local_rank))
        deepspeed.init_distributed(dist_backend=None, auto_mpi_discovery=False, verbose=False)
        self.model, *_ = deepspeed.initialize(
            model=self.module, optimizer=self.optimizer, config=configuration(training, stage)
        )

    def backward(self, loss: Any, *, is_last: bool) -> None:
        """Do the backward pass of a micro-batch; the engine counts them, and does the step after
        the last one.
        """
        self.model.backward(loss)
        self.model.step()

    def step(self) -> Any:
        """Return the gradient norm before clipping."""
        return self.model.get_global_grad_norm()


if __name__ == "__main__":
    sys.exit(own_loop.main(sys.argv[1:], Zero))
