"""The training that every framework with a loop of ours is given, spelled out once.

- weights: drawn from the seed on the CPU (building.LARGEST_FROM_CPU says up to which size), before
  the framework sees the model: the same ones, whatever wraps them then;
- samples: those of MicroBatches, in its order, however many processes share them;
- loss: cross entropy of the next token, the mean over the tokens of a micro-batch, and over the
  micro-batches of a step;
- AdamW with the settings of building.hyperparameters(): weight decay on matrices alone, a constant
  learning rate, and the norm of the whole gradient clipped at 1.0; no dropout.

What a framework does in another way, its loop states in the result, and a comparison shows it.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

from tprimat.catalog import models
from tprimat.catalog.models import Model
from tprimat.frameworks import scales
from tprimat.frameworks.loops import building
from tprimat.frameworks.loops.tokens import TokenSource
from tprimat.frameworks.request import Request
from tprimat.results.run import ModelConfig, Optimizer, Run, Source

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch.utils.data import DataLoader
    from transformers import PreTrainedModel

LOADER_WORKERS_ON_GPU = 1
"""A micro-batch of 2048 tokens takes some milliseconds; a worker makes it while the GPU is busy. On a
CPU a worker would only take time from the training."""

PREFETCHED = 8

MIXED = {
    "fp32": "32-true",
    # The products in half precision, weights and AdamW's states in fp32: what Megatron does too, and
    # what small updates need. Pure bf16 would lose most of them.
    "bf16": "bf16-mixed",
    "fp16": "16-mixed",
}
"""Lightning's names for torch's autocast over weights in fp32; a result states them for whatever
framework trains in that way, so that equal precisions are called equal."""


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A training with every choice made, of which nothing is built yet; `settings` are the optimizer's."""

    request: Request
    model: Model
    shape: ModelConfig
    settings: Optimizer
    source: TokenSource

    @property
    def on_gpu(self) -> bool:
        """Whether it trains on GPUs."""
        return self.request.platform != "cpu"

    def loader(self, rank: int) -> DataLoader[Any]:
        """Return what a process trains on, in order: tensors of token numbers, (micro batch, sequence)."""
        from torch.utils.data import DataLoader

        workers = self.loader_workers
        return DataLoader(
            MicroBatches(self, rank),
            batch_size=None,
            num_workers=workers,
            prefetch_factor=PREFETCHED if workers else None,
            pin_memory=self.on_gpu,
        )

    @property
    def loader_workers(self) -> int:
        """Processes that make micro-batches ahead."""
        return LOADER_WORKERS_ON_GPU if self.on_gpu else 0

    def weights(self, device: torch.device) -> PreTrainedModel:
        """Return the model with its first weights."""
        request = self.request
        return building.build(self.model, self.shape, request.sequence_length, seed=request.seed, device=device)

    def optimizer(self, module: torch.nn.Module) -> torch.optim.Optimizer:
        """Return AdamW over the module's parameters."""
        # torch's fused kernel would have to unscale fp16 gradients itself, after they were clipped.
        return building.optimizer(module, self.settings, fused=self.request.precision != "fp16")

    def setup(self) -> Run:
        """Return what the training itself doesn't show: a Run without records.

        Precision, parallelism and optimizer are left to the recorder, which reads those in use.
        """
        request = self.request
        return request.to_run(
            model_config=self.shape,
            training_config=request.training_config(),
            data=self.source.described(request.global_batch_size, request.sequence_length),
            source=Source(kind="live", command=tuple(sys.orig_argv)),
        )


@dataclasses.dataclass(frozen=True)
class MicroBatches:
    """The micro-batches of one process: a map-style data set.

    Micro-batch m of process p holds rows (m × processes + p) × micro_batch_size … of the step's
    global batch, so the same global batch is trained on however it is split.
    """

    training: Recipe
    rank: int

    def __len__(self) -> int:
        return self.training.request.steps * self.training.request.gradient_accumulation_steps

    def __getitem__(self, index: int) -> NDArray[np.int64]:
        """Return tokens, shape (micro_batch_size, sequence_length)."""
        import numpy as np

        if not 0 <= index < len(self):
            raise IndexError(index)
        request = self.training.request
        first = (index * request.num_gpus + self.rank) * request.micro_batch_size
        positions = np.arange(first, first + request.micro_batch_size)
        return self.training.source.in_order(positions, request.global_batch_size, request.sequence_length)


def of(request: Request) -> Recipe:
    """Return the training of a request. Raises UsageError for an unknown model."""
    model, shape = models.by_name(request.model), shape_of(request)
    source = TokenSource(shape.vocab_size or 0, request.seed)
    return Recipe(request, model, shape, building.hyperparameters(shape), source)


def shape_of(request: Request) -> ModelConfig:
    """Return the model's shape: that of the scale, or the requested one."""
    return request.shape or scales.shape(models.by_name(request.model), scales.by_name(request.scale))
