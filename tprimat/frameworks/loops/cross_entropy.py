"""Cross entropy of the next token from hidden states: the logits of a whole micro-batch are never
in memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from transformers.modeling_outputs import CausalLMOutputWithPast

CHUNK = 1024
"""Tokens whose logits are worked out at once."""

NO_TARGET = -100


class _LinearCrossEntropy(torch.autograd.Function):  # type: ignore[misc,unused-ignore]
    """The last linear layer and the cross entropy after it, chunk by chunk; the forward pass
    computes the gradients.

    So no logits wait for the backward pass, and none are computed twice.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Any, weight: Any, half: Any, targets: Any, compute: Any) -> Any:
        """Return the mean loss of hidden states (n, h), for targets (n,).

        `half`, (v, h), is the factor of the products; the gradient is that of `weight`.
        """
        products = hidden.to(half.dtype)
        hidden_gradient = torch.empty_like(products)
        weight_gradient = torch.zeros(half.shape, dtype=torch.float32, device=half.device)
        total = torch.zeros((), dtype=torch.float32, device=half.device)
        for first in range(0, len(targets), CHUNK):
            rows = slice(first, first + CHUNK)
            loss, gradient = compute(products[rows] @ half.t(), targets[rows])
            total += loss
            hidden_gradient[rows] = gradient @ half
            weight_gradient += gradient.t() @ products[rows]
        count = (targets != NO_TARGET).sum()
        ctx.save_for_backward(hidden_gradient, weight_gradient, count)
        ctx.dtypes = hidden.dtype, weight.dtype
        return total / count

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator,unused-ignore]
    def backward(ctx: Any, gradient: Any) -> Any:
        """Return the gradients of hidden states and weight."""
        hidden, weight, count = ctx.saved_tensors
        # Only here, so that a loss scale keeps small gradients of fp16 from vanishing.
        factor = gradient / count
        return (
            (hidden * factor).to(ctx.dtypes[0]),
            weight.mul_(factor).to(ctx.dtypes[1]),
            None,
            None,
            None,
        )


def of_chunk(logits: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the summed loss of logits (n, v) and its gradient, in the logits' precision."""
    values = logits.float()
    total = values.logsumexp(-1, keepdim=True)
    is_target = (targets != NO_TARGET)[:, None]
    places = targets.clamp(min=0)[:, None]
    loss = ((total - values.gather(-1, places)) * is_target).sum()
    hits = torch.arange(values.shape[-1], device=values.device)[None] == places
    gradient = ((values - total).exp() - hits.float()) * is_target
    return loss, gradient.to(logits.dtype)


def install(module: Any, compute: Callable[..., Any] = of_chunk) -> None:
    """Let a causal language model of transformers work out its loss in chunks; `compute` is
    of_chunk or compiled.
    """
    module.forward = functools.partial(_forward, module, compute)


def _forward(
    module: Any, compute: Any, input_ids: torch.Tensor, labels: torch.Tensor
) -> CausalLMOutputWithPast:
    targets = torch.nn.functional.pad(labels[:, 1:], (0, 1), value=NO_TARGET).reshape(-1)
    head = module.lm_head
    kind = input_ids.device.type
    half = getattr(head, "rounded", head.weight.detach())
    is_on = torch.is_autocast_enabled(kind)
    dtype = torch.get_autocast_dtype(kind)
    # Lightning switches the cache off. Were it on where the layers are compiled first, they would
    # be compiled again.
    with torch.autocast(kind, dtype, enabled=is_on, cache_enabled=False):
        hidden = module.model(input_ids=input_ids).last_hidden_state
        loss = _LinearCrossEntropy.apply(hidden.flatten(0, 1), head.weight, half, targets, compute)
    return CausalLMOutputWithPast(loss=loss)
