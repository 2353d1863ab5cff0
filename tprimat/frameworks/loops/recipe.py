"""The training that every framework with a loop of ours is given, spelled out once.

- weights: drawn from the seed on the CPU (up to the size LARGEST_FROM_CPU), before the framework
  sees the model: the same ones, whatever wraps them then;
- samples: those of MicroBatches, in its order, however many processes share them;
- loss: cross entropy of the next token, the mean over the tokens of a micro-batch, and over the
  micro-batches of a step;
- AdamW with the settings of hyperparameters(): weight decay on matrices alone, a constant learning
  rate, and the norm of the whole gradient clipped at 1.0; no dropout.

Models are real architectures of transformers, made from their configurations: nothing is
downloaded. What a framework does in another way, its loop states in the result, and a comparison
shows it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tprimat.catalog import models
from tprimat.catalog.models import Model
from tprimat.frameworks import scales
from tprimat.frameworks.loops.tokens import TokenSource
from tprimat.frameworks.request import Request
from tprimat.results.run import ModelConfig, Optimizer, ParallelismConfig, Run, Source
from tprimat.settings.rows import names

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch.utils.data import DataLoader
    from transformers import PreTrainedModel

LOADER_WORKERS_ON_GPU = 1
"""A micro-batch of 2048 tokens takes some milliseconds; a worker makes it while the GPU is busy. On
a CPU a worker would only take time from the training.
"""

PREFETCHED = 8

LARGEST_FROM_CPU = 500_000_000
"""Parameters up to which weights are drawn on the CPU, some seconds at most: the same seed then
gives the same weights on every platform. Larger models are drawn on their device, whose generator
may give other ones.
"""

LEARNING_RATE = 1e-3
LEARNING_RATE_UP_TO = 512
"""The hidden size from which the learning rate falls as 1 / hidden size, as wider models need it
(Yang et al., arXiv 2203.03466). Without that, the first steps of the full models would diverge:
there is no warm-up.
"""

MIXED = {
    "fp32": "32-true",
    # The products in half precision, weights and AdamW's states in fp32: what Megatron does too,
    # and what small updates need. Pure bf16 would lose most of them.
    "bf16": "bf16-mixed",
    "fp16": "16-mixed",
}
"""Lightning's names for torch's autocast over weights in fp32; a result states them for whatever
framework trains in that way, so that equal precisions are called equal."""


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A training with every choice made, of which nothing is built yet; `settings` are the
    optimizer's.
    """

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
        """Return the data of a process, in order: tensors of token numbers, (micro-batch,
        sequence).
        """
        return loader(MicroBatches(self, rank), self.loader_workers, PREFETCHED, self.on_gpu)

    @property
    def loader_workers(self) -> int:
        """Processes that make micro-batches ahead."""
        if self.on_gpu:
            return LOADER_WORKERS_ON_GPU
        return 0

    def weights(self, device: torch.device) -> PreTrainedModel:
        """Return the model with its first weights."""
        module = build(
            self.model,
            self.shape,
            self.request.sequence_length,
            seed=self.request.seed,
            device=device,
            attention=self.request.attention,
        )
        if self.request.recomputation == "full":
            checkpoint(module)
        return module

    def optimizer(self, module: torch.nn.Module) -> torch.optim.Optimizer:
        """Return AdamW over the module's parameters."""
        # torch's fused kernel would have to unscale fp16 gradients itself, after they were clipped.
        return adamw(module, self.settings, fused=self.request.precision != "fp16")

    def setup(self) -> Run:
        """Return the values that the training itself doesn't show: a Run without records.
        compile_and_fit.py adds its own.

        Precision, parallelism and optimizer are left to the recorder, which reads those in use.
        """
        facts: dict[str, bool | int | float | str | None] = {}
        if self.on_gpu:
            facts = {"torch_compile": False, "chunked_cross_entropy": False}
        if self.request.attention != Request.attention:
            facts["attention"] = self.request.attention
        return self.request.to_run(
            model_config=self.shape,
            training_config=self.request.training_config(),
            data=self.source.described(
                self.request.global_batch_size, self.request.sequence_length
            ),
            source=Source(kind="live", command=tuple(sys.orig_argv)),
            framework_config=facts,
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
        return self.training.request.all_steps * self.training.request.gradient_accumulation_steps

    def __getitem__(self, index: int) -> NDArray[np.int64]:
        """Return tokens, shape (micro_batch_size, sequence_length)."""
        import numpy as np

        if not 0 <= index < len(self):
            raise IndexError(index)
        first = (
            index * self.training.request.num_gpus + self.rank
        ) * self.training.request.micro_batch_size
        positions = np.arange(first, first + self.training.request.micro_batch_size)
        return self.training.source.in_order(
            positions,
            self.training.request.global_batch_size,
            self.training.request.sequence_length,
        )


def loader(
    batches: Any, workers: int, prefetched: int, on_gpu: bool, **more: Any
) -> DataLoader[Any]:
    """Return a DataLoader of a data set's batches, of which each worker process keeps `prefetched`
    ready.
    """
    from torch.utils.data import DataLoader

    prefetch_factor = prefetched if workers else None
    return DataLoader(
        batches,
        batch_size=None,
        num_workers=workers,
        prefetch_factor=prefetch_factor,
        pin_memory=on_gpu,
        **more,
    )


def of(request: Request) -> Recipe:
    """Return the training of a request. Raises UsageError for an unknown model."""
    model = models.by_name(request.model)
    shape = shape_of(request)
    source = TokenSource(shape.vocab_size or 0, request.seed)
    return Recipe(request, model, shape, hyperparameters(shape), source)


def shape_of(request: Request) -> ModelConfig:
    """Return the model's shape: that of the scale, or the requested one."""
    return request.shape or scales.shape(
        models.by_name(request.model), scales.by_name(request.scale)
    )


def hyperparameters(shape: ModelConfig) -> Optimizer:
    """Return AdamW as the pretraining of such models commonly has it (Llama 2, arXiv 2307.09288,
    section 2.2).

    But with a constant learning rate: under a schedule the first steps would depend on their
        number.
    """
    narrow = min(1.0, LEARNING_RATE_UP_TO / (shape.hidden_size or LEARNING_RATE_UP_TO))
    return Optimizer(
        name="AdamW",
        learning_rate=float(f"{LEARNING_RATE * narrow:.4g}"),
        schedule="constant",
        beta1=0.9,
        beta2=0.95,
        epsilon=1e-8,
        weight_decay=0.1,
        gradient_clipping=1.0,
    )


def described(request: Request, *divided: str, **training: str) -> Run:
    """Return a Run without records that has the settings of a training, for launches of other
    programs.

    `divided` are fields of its parallelism_config, `training` is more of its training_config.
    """
    shape = shape_of(request)
    return request.to_run(
        model_config=shape,
        training_config=request.training_config(**training),
        parallelism_config=ParallelismConfig(**{name: getattr(request, name) for name in divided}),
        optimizer=hyperparameters(shape),
    )


def checkpoint(module: Any) -> None:
    """Let a model compute its layers again in the backward pass, instead of keeping their
    activations.
    """
    # Newer releases of transformers have the first name, older ones the second.
    kind = "activation" if hasattr(module, "activation_checkpointing_enable") else "gradient"
    getattr(module, f"{kind}_checkpointing_enable")(
        **{f"{kind}_checkpointing_kwargs": {"use_reentrant": False}}
    )


def build(
    model: Model,
    shape: ModelConfig,
    sequence_length: int,
    *,
    seed: int,
    device: torch.device,
    attention: str = Request.attention,
) -> PreTrainedModel:
    """Return the model on a device (meta for the shapes alone), in fp32, without dropout and cache.

    The global generator of torch is left as it was.
    """
    import transformers

    config = configuration(model, shape, sequence_length)
    with drawing(shape.num_parameters or 0, seed, device):
        module: PreTrainedModel = transformers.AutoModelForCausalLM.from_config(
            config, attn_implementation=attention
        )
    return module.to(device).train()


def configuration(model: Model, shape: ModelConfig, sequence_length: int) -> Any:
    """Return the model's configuration of transformers, without dropout and cache."""
    import transformers

    return getattr(transformers, model.architecture)(
        **configuration_fields(model, shape, sequence_length)
    )


def configuration_fields(
    model: Model, shape: ModelConfig, sequence_length: int
) -> dict[str, object]:
    """Return the fields of that configuration."""
    return {
        **{name: getattr(shape, field) for name, field in names("transformers").items()},
        "tie_word_embeddings": bool(shape.tie_word_embeddings),
        "max_position_embeddings": sequence_length,
        "attention_dropout": 0.0,
        "use_cache": False,
        **model.settings,
    }


@contextlib.contextmanager
def drawing(parameters: int, seed: int, device: torch.device) -> Iterator[None]:
    """Draw the weights that a model initializes within this context from a seed; keep torch's
    global generators.
    """
    import torch

    is_small = device.type != "meta" and parameters <= LARGEST_FROM_CPU
    drawn_on = torch.device("cpu") if is_small else device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), drawn_on:
        torch.manual_seed(seed)
        yield


def adamw(
    module: torch.nn.Module, settings: Optimizer, *, fused: bool | None
) -> torch.optim.Optimizer:
    """Return AdamW with weight decay on matrices only, not on norms and biases; `fused` None is
    torch's own choice.
    """
    import torch

    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    groups = [
        {
            "params": [parameter for parameter in trained if parameter.dim() >= 2],
            "weight_decay": settings.weight_decay,
        },
        {
            "params": [parameter for parameter in trained if parameter.dim() < 2],
            "weight_decay": 0.0,
        },
    ]
    return torch.optim.AdamW(
        groups,
        lr=settings.learning_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
        fused=fused,
    )
