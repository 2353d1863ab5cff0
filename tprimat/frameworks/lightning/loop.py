"""The training loop of the framework `lightning`, as a program of its own:

    python -m tprimat.frameworks.lightning.loop --model=llama --scale=tiny …

Its options are a Request's. Under torchrun each process runs this module, and the first one writes
the result. What it trains, on what and how is in loops/recipe.py.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tprimat.frameworks.loops import processes, recipe
from tprimat.frameworks.loops.processes import TIMEOUT, this_one
from tprimat.frameworks.loops.recipe import Recipe
from tprimat.frameworks.request import Request

if TYPE_CHECKING:
    import torch


def main(arguments: list[str]) -> int:
    """Train a request; return the exit status of the process."""
    return processes.main(arguments, train)


def train(request: Request) -> None:
    """Train, with the recorder watching, and write the result to the request's folder."""
    import lightning.pytorch as pl

    from tprimat.frameworks.loops.requested import RequestedBenchmark

    process = this_one(request.platform)
    training = recipe.of(request)
    loader = training.loader(process.rank)
    module = _module(training, training.weights(process.device))
    recording = RequestedBenchmark(request, training.setup())
    trainer = pl.Trainer(
        accelerator="gpu" if training.on_gpu else "cpu",
        devices=request.num_gpus,
        strategy=_strategy(request),
        plugins=_cluster(request),
        precision=recipe.MIXED[request.precision],
        max_steps=request.steps,
        accumulate_grad_batches=request.gradient_accumulation_steps,
        gradient_clip_val=training.settings.gradient_clipping,
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
    trainer.fit(module, loader)


def _module(training: Recipe, model: Any) -> Any:
    """Return the model as Lightning's module: loss by the model itself, shifted cross entropy over the tokens."""
    import lightning.pytorch as pl
    import torch

    class Pretraining(pl.LightningModule):  # type: ignore[misc]  # untyped here
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.grad_norm: torch.Tensor | None = None

        def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
            loss: torch.Tensor = self.model(input_ids=batch, labels=batch).loss
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return training.optimizer(self.model)

        def configure_gradient_clipping(
            self,
            optimizer: torch.optim.Optimizer,
            gradient_clip_val: float | None = None,
            gradient_clip_algorithm: str | None = None,
        ) -> None:
            # The norm is a by-product of clipping, which Lightning's own would throw away.
            assert gradient_clip_val is not None
            self.grad_norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), gradient_clip_val)

    return Pretraining()


def _strategy(request: Request) -> Any:
    if request.num_gpus == 1:
        return "auto"
    from lightning.pytorch.strategies import DDPStrategy

    # Without the view the gradients would lie in memory twice.
    return DDPStrategy(gradient_as_bucket_view=True, timeout=TIMEOUT)


def _cluster(request: Request) -> list[Any]:
    """Return who started the processes, since Lightning would take a Slurm job for its own launcher."""
    from lightning.pytorch.plugins.environments import LightningEnvironment, TorchElasticEnvironment

    return [TorchElasticEnvironment() if request.num_gpus > 1 else LightningEnvironment()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
