"""The training loop of the framework `lightning`, as a program of its own:

    python -m tprimat.frameworks.lightning.loop --model=llama --scale=tiny …

Its options are a Request's. Under torchrun each process runs this module, and the first one writes
the result. What it trains, on what and how is in loops/recipe.py.
"""

from __future__ import annotations

import contextlib
import sys

import lightning.pytorch as pl
import torch
from lightning.pytorch.plugins.environments import LightningEnvironment, TorchElasticEnvironment
from lightning.pytorch.strategies import DDPStrategy

from tprimat.frameworks.loops import processes, recipe
from tprimat.frameworks.loops.compile_and_fit import Prepared, prepare
from tprimat.frameworks.loops.processes import TIMEOUT, joined, this_one
from tprimat.frameworks.loops.requested import RequestedBenchmark
from tprimat.frameworks.request import Request


def train(request: Request) -> None:
    """Train, with the recorder watching, and write the result to the request's directory."""
    process = this_one(request.platform)
    several = request.num_gpus > 1
    # What is tried before the training has the processes agree; Lightning takes the group that is
    # there.
    with joined(process) if several and request.tuned else contextlib.nullcontext():
        _fit(prepare(recipe.of(request), process), process.rank, several=several)


def _fit(prepared: Prepared, rank: int, *, several: bool) -> None:
    request = prepared.training.request
    recording = RequestedBenchmark(request, prepared.setup)
    trainer = pl.Trainer(
        accelerator="gpu" if prepared.training.on_gpu else "cpu",
        devices=request.gpus_per_node,
        num_nodes=request.num_nodes,
        # Without the view the gradients would lie in memory twice.
        strategy=DDPStrategy(gradient_as_bucket_view=True, timeout=TIMEOUT) if several else "auto",
        # Who started the processes: Lightning would take a Slurm job for its own launcher.
        plugins=[TorchElasticEnvironment() if several else LightningEnvironment()],
        precision=recipe.MIXED[request.precision],
        max_steps=request.all_steps,
        accumulate_grad_batches=request.gradient_accumulation_steps,
        gradient_clip_val=prepared.training.settings.gradient_clipping,
        callbacks=[recording],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        # The loader's share of each process is already its own.
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        limit_val_batches=0,
    )
    trainer.fit(Pretraining(prepared), recording.watch(prepared.training.loader(rank)))


class Pretraining(pl.LightningModule):  # type: ignore[misc]  # untyped here
    """The model as Lightning's module: loss by the model itself, shifted cross entropy over the
    tokens.

    Attributes:
        grad_norm: before clipping, as the callback reads it.
    """

    def __init__(self, prepared: Prepared) -> None:
        super().__init__()
        self.model = prepared.module
        self.grad_norm: torch.Tensor | None = None
        self._prepared = prepared

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        """Return the loss of a micro-batch."""
        loss: torch.Tensor = self.model(input_ids=batch, labels=batch).loss
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the recipe's optimizer."""
        optimizer = self._prepared.training.optimizer(self.model)
        optimizer.register_step_post_hook(self._prepared.refresh)
        return optimizer

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip, and keep the norm, a by-product that Lightning's own clipping would throw away."""
        assert gradient_clip_val is not None
        self.grad_norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), gradient_clip_val)

    # At the end Lightning would move weights and optimizer states to the CPU for nothing: 14 GB at
    # scale 1b.
    def on_train_end(self) -> None:
        """Leave the optimizer's states where they are."""
        self.trainer.strategy.optimizers = []

    def cpu(self) -> Pretraining:
        """Leave the weights where they are."""
        return self


if __name__ == "__main__":
    sys.exit(processes.main(sys.argv[1:], train))
