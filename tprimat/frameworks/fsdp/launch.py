"""The framework `fsdp`: PyTorch's FSDP2 (fully_shard) around the model of transformers."""

from __future__ import annotations

from tprimat.frameworks import builtin_frameworks
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.request import Launch, Request

NAME = "fsdp"
MODULE = "tprimat.frameworks.fsdp.loop"

PRECISIONS = ("fp32", "bf16")
"""fp16 would take a gradient scaler that knows of sharded gradients."""

OLDEST = (2, 6)
"""Version of torch from which on fully_shard is at its public place, torch.distributed.fsdp."""


def unavailable() -> str | None:
    """Why it can't run here, and what to do. torch itself is not imported: that takes a second."""
    reason = builtin_frameworks.missing(("torch", "transformers"))
    if reason is not None:
        return reason
    from importlib import metadata

    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None
    digits = [int(part) for part in version.split(".")[:2] if part.isdecimal()]
    if tuple(digits) < OLDEST:
        return f"it needs torch {'.'.join(map(str, OLDEST))} or newer, and this is {version}: take a newer one"
    return None


def launch(request: Request) -> Launch:
    """The command for a request."""
    return builtin_frameworks.command(MODULE, request)


FSDP = Framework(
    NAME, unavailable, builtin_frameworks.settle_as(NAME, PRECISIONS), launch, automatic_on=(), precisions=PRECISIONS
)
