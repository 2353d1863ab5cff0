"""Models through transformers, and their optimizer: real architectures with random weights.

Nothing is downloaded: a model is made from its configuration. Knows neither Lightning nor results.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tprimat.catalog.models import Model
from tprimat.results.run import ModelConfig, Optimizer

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

LARGEST_FROM_CPU = 500_000_000
"""Parameters up to which weights are drawn on the CPU, some seconds at most: the same seed then gives
the same weights on every platform. Larger models are drawn on their device, whose generator may
give other ones."""

LEARNING_RATE = 1e-3
LEARNING_RATE_UP_TO = 512
"""The hidden size from which the learning rate falls as 1 / hidden size, as wider models need it
(Yang et al., arXiv 2203.03466). Without that, the first steps of the full models would diverge: there
is no warm-up."""


def hyperparameters(shape: ModelConfig) -> Optimizer:
    """Return AdamW as the pretraining of such models commonly has it (Llama 2, arXiv 2307.09288, section 2.2).

    But with a constant learning rate: under a schedule the first steps would depend on their number.
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


def build(
    model: Model, shape: ModelConfig, sequence_length: int, *, seed: int, device: torch.device
) -> PreTrainedModel:
    """Return the model on a device (meta for the shapes alone), in fp32, without dropout and cache.

    Its attention is torch's scaled_dot_product_attention. The global generator of torch is left as it was.
    """
    import transformers

    architecture: Any = getattr(transformers, model.architecture)
    config = architecture(
        num_hidden_layers=shape.num_layers,
        hidden_size=shape.hidden_size,
        num_attention_heads=shape.num_attention_heads,
        num_key_value_heads=shape.num_query_groups,
        head_dim=shape.head_dim,
        intermediate_size=shape.ffn_hidden_size,
        vocab_size=shape.vocab_size,
        tie_word_embeddings=bool(shape.tie_word_embeddings),
        max_position_embeddings=sequence_length,
        attention_dropout=0.0,
        use_cache=False,
        **model.settings,
    )
    with drawing(shape.num_parameters or 0, seed, device):
        module: PreTrainedModel = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    return module.to(device).train()


@contextlib.contextmanager
def drawing(parameters: int, seed: int, device: torch.device) -> Iterator[None]:
    """Draw the weights that a model initializes within this context from a seed; keep torch's global generators."""
    import torch

    is_small = device.type != "meta" and parameters <= LARGEST_FROM_CPU
    drawn_on = torch.device("cpu") if is_small else device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), drawn_on:
        torch.manual_seed(seed)
        yield


def optimizer(module: torch.nn.Module, settings: Optimizer, *, fused: bool | None) -> torch.optim.Optimizer:
    """Return AdamW with weight decay on matrices only, not on norms and biases; `fused` None is torch's own choice."""
    import torch

    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    groups = [
        {"params": [each for each in trained if each.dim() >= 2], "weight_decay": settings.weight_decay},
        {"params": [each for each in trained if each.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups, lr=settings.learning_rate, betas=(settings.beta1, settings.beta2), eps=settings.epsilon, fused=fused
    )
