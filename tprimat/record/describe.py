"""What the adapters read of a training before its first step, for the Run that it shows of
itself.
"""

from __future__ import annotations

import sys
from typing import Any

from tprimat.results.run import Optimizer, ParallelismConfig, Platform
from tprimat.settings.rows import DIVISION


def of_fp32(detail: str | None, platform: Platform) -> tuple[str | None, str | None]:
    """Return the real precision of FP32 matrix products, and its description."""
    products = _fp32_products(platform)
    if products in ("highest", "ieee", "none"):
        return "fp32", detail
    # Only NVIDIA's hardware is known to follow this setting as it is written.
    precision = "tf32" if platform == "nvd" else None
    products = f"float32 products {products}"
    return precision, f"{detail}, {products}" if detail else products


def _fp32_products(platform: Platform) -> str:
    """Return torch's setting for FP32 matrix products, by its newer or older name."""
    import torch

    backend = torch.backends.mkldnn if platform == "cpu" else torch.backends.cuda
    setting = str(getattr(getattr(backend, "matmul", None), "fp32_precision", "none"))
    if setting != "none":
        return setting
    try:
        return str(torch.get_float32_matmul_precision())
    except RuntimeError:
        # torch refuses the older question once the newer names were used for another backend.
        return setting


def parameter_dtypes(module: Any) -> list[str]:
    """Return torch's names for the floating-point types of a module's parameters, sorted."""
    dtypes = {param.dtype for param in module.parameters() if param.is_floating_point()}
    return sorted(str(dtype).rpartition(".")[2] for dtype in dtypes)


def is_compiled(module: Any) -> bool | None:
    """Return whether torch.compile() has a module, or one in it; None if it is unknown or something
    else was compiled.

    torch.compile(module) wraps it, module.compile() marks it, and Lightning unwraps it and keeps
    how it was called.
    """
    if not hasattr(module, "modules"):
        return None
    for part in module.modules():
        if hasattr(part, "_orig_mod"):
            return True
        for mark in ("_compiled_call_impl", "_compiler_ctx"):
            if getattr(part, mark, None) is not None:
                return True
    # A compiled function, such as the whole step, has left frames behind once it has run.
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    if counters and counters["frames"].get("total"):
        return None
    return False


def recomputation(module: Any) -> str | None:
    """Return a module's activation recomputation: none, selective or full; None if unknown."""
    config: Any = getattr(module, "config", None) or getattr(
        getattr(module, "model", None), "config", None
    )
    if hasattr(config, "recompute_granularity"):
        return config.recompute_granularity or "none"
    for owner in (module, *module.children()):
        # transformers 5 warns of the older name.
        newer = hasattr(owner, "is_activation_checkpointing")
        name = "is_activation_checkpointing" if newer else "is_gradient_checkpointing"
        checkpointing = getattr(owner, name, None)
        if isinstance(checkpointing, bool):
            if checkpointing:
                return "full"
            return "none"
    return None


def undivided(
    strategy_name: str, replicas: int, gradient_accumulation_steps: int
) -> ParallelismConfig:
    """Return the parallelism of a training with data parallelism only."""
    return ParallelismConfig(
        strategy_name=strategy_name,
        data_parallel_size=replicas,
        gradient_accumulation_steps=gradient_accumulation_steps,
        **dict.fromkeys((*DIVISION, "expert_model_parallel_size"), 1),
    )


def optimizer_settings(optimizer: Any) -> Optimizer:
    """Return an optimizer's settings, without schedule and gradient clipping."""
    groups = getattr(optimizer, "param_groups", None) or [{}]
    group = groups[0]
    betas = group.get("betas") or (None, None)
    # A schedule that warms up has already set `lr` to its first, small value.
    rates = [number(group.get("initial_lr", group.get("lr"))) for group in groups]
    return Optimizer(
        name=type(optimizer).__name__,
        learning_rate=max(rates, default=None, key=lambda rate: rate or 0.0),
        beta1=number(betas[0]),
        beta2=number(betas[1]),
        epsilon=number(group.get("eps")),
        weight_decay=number(group.get("weight_decay")),
    )


def number(value: Any) -> float | None:
    """Return a value as a float, or None."""
    try:
        if value is None:
            return None
        return float(value)
    except (TypeError, ValueError):
        return None
