"""The framework `transformers`: transformers.Trainer, alone or under torchrun with DDP."""

from __future__ import annotations

from tprimat.launch import embedded
from tprimat.launch.framework import Framework
from tprimat.launch.request import Launch, Request

NAME = "transformers"
MODULE = "tprimat.train.transformers_loop"
PRECISIONS = ("fp32", "bf16", "fp16")


def unavailable() -> str | None:
    """Why it can't run here, and what to do."""
    return embedded.missing(("torch", "transformers", "accelerate"))


def launch(request: Request) -> Launch:
    """The command for a request."""
    return embedded.command(MODULE, request)


TRANSFORMERS = Framework(
    NAME, unavailable, embedded.settle_as(NAME, PRECISIONS), launch, automatic_on=(), precisions=PRECISIONS
)
