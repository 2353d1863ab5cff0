"""Linear layers that multiply in half precision by a copy of their weights, which is made once a
step.

torch.autocast makes it again in each micro-batch. Weights, gradients and optimizer states stay in
fp32.
"""

from __future__ import annotations

from typing import Any

import torch


class _Product(torch.autograd.Function):  # type: ignore[misc,unused-ignore]
    @staticmethod
    def forward(ctx: Any, values: Any, weight: Any, half: Any) -> Any:
        """Return values (…, inputs) multiplied by `half`, (outputs, inputs); the gradient is that
        of `weight`.
        """
        products = values.to(half.dtype)
        ctx.save_for_backward(products, half)
        ctx.dtypes = values.dtype, weight.dtype
        return products @ half.t()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """Return the gradients of values and weight."""
        products, half = ctx.saved_tensors
        gradient = gradient.to(half.dtype)
        weight = gradient.flatten(0, -2).t() @ products.flatten(0, -2)
        return (gradient @ half).to(ctx.dtypes[0]), weight.to(ctx.dtypes[1]), None


class HalfLinear(torch.nn.Linear):  # type: ignore[misc,unused-ignore]
    """A linear layer with `rounded`, its weights in half precision."""

    rounded: torch.Tensor

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Return the product, in half precision."""
        product: torch.Tensor = _Product.apply(values, self.weight, self.rounded)
        if self.bias is None:
            return product
        return product + self.bias.to(product.dtype)


def install(module: torch.nn.Module, dtype: torch.dtype) -> None:
    """Make the linear layers of a model HalfLinear, and its activations half precision from the
    embedding on.
    """
    for layer in module.modules():
        if type(layer) is torch.nn.Linear:
            layer.__class__ = HalfLinear
            # No buffer: DDP would send it around in each step.
            layer.rounded = layer.weight.detach().to(dtype)
        elif isinstance(layer, torch.nn.Embedding):
            layer.register_forward_hook(lambda module, inputs, output: output.to(dtype))


@torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
def refresh(module: torch.nn.Module) -> None:
    """Copy the weights again, after an optimizer step."""
    layers = [layer for layer in module.modules() if isinstance(layer, HalfLinear)]
    if layers:
        torch._foreach_copy_(
            [layer.rounded for layer in layers], [layer.weight for layer in layers]
        )
