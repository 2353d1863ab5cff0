"""The framework `transformers`: transformers.Trainer, alone or under torchrun with DDP."""

from __future__ import annotations

from tprimat.frameworks import builtin_frameworks
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.request import Launch, Request

NAME = "transformers"
MODULE = "tprimat.frameworks.transformers.loop"
PRECISIONS = ("fp32", "bf16", "fp16")


def unavailable() -> str | None:
    """Why it can't run here, and what to do."""
    return builtin_frameworks.missing(("torch", "transformers", "accelerate"))


def launch(request: Request) -> Launch:
    """The command for a request."""
    return builtin_frameworks.command(MODULE, request)


TRANSFORMERS = Framework(
    NAME, unavailable, builtin_frameworks.settle_as(NAME, PRECISIONS), launch, automatic_on=(), precisions=PRECISIONS
)
