"""The framework `automodel`: its pretraining recipe, in its own environment.

Nothing here imports Automodel, which takes tens of seconds: training.py does, in its own process.
"""

from __future__ import annotations

from tprimat.errors import lacking
from tprimat.frameworks import resolve
from tprimat.frameworks.loops import launch as loops
from tprimat.frameworks.request import Request

CONTAINER = "nvcr.io/nvidia/nemo-automodel:26.06.00"

BYTES_PER_PARAMETER = 8
"""Weights, gradients and Adam's two states, all in bf16 and shared out by FSDP2."""


class Resolver(resolve.Resolver):
    """The choices of Automodel; the batch and sequence length of a scale are those of the other
    frameworks.
    """

    def prepare(self) -> None:
        """Show the choices for NVIDIA's GPUs if there are none."""
        self.show_for_gpus("Automodel")
        self.notes.append(
            "Automodel trains on random tokens with weights and AdamW's states in bf16, as NVIDIA's"
            " benchmark configurations do: its losses are not comparable with those of other"
            " frameworks"
        )

    def bytes_per_parameter(self) -> float:
        """Return the memory of one GPU: its share."""
        return BYTES_PER_PARAMETER / self.gpus


class Automodel(loops.Loop[Request]):
    """Its recipe, started as a program of ours."""

    plans_anywhere = True
    resolver = Resolver
    program = "tprimat.frameworks.automodel.training"

    def unavailable(self) -> str | None:
        """Return why it can't train here and what to do; None if it can."""
        if lacking("nemo_automodel"):
            return (
                f"NeMo Automodel isn't installed: run in {CONTAINER}, or pip install nemo_automodel"
            )
        return None


LAUNCHER = Automodel()
