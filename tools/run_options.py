#!/usr/bin/env python3
"""Prints the options with which `make run` calls ./benchmark.py: on a CPU two setups of Llama, five
runs of each.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tprimat.machine import host
from tprimat.results.run import BF16_INSTRUCTIONS

CPU = "--model llama --runs 5 --time-limit 12s"
"""Ten runs in less than five minutes on two cores that are shared with other programs."""

PRECISIONS = "--precision fp32,bf16"
MICRO_BATCHES = "--micro-batch-size 1,2 --global-batch-size 2"
"""Where the CPU has no bf16 instructions: the same work in one forward pass or in two."""


def options(*, gpu: bool, instructions: tuple[str, ...] | None) -> str:
    """Return the options for a machine with a GPU, or with a CPU that has these instructions."""
    if gpu:
        return ""
    return (
        f"{CPU}"
        f" {PRECISIONS if BF16_INSTRUCTIONS.intersection(instructions or ()) else MICRO_BATCHES}"
    )


if __name__ == "__main__":
    import torch

    print(options(gpu=torch.cuda.is_available(), instructions=host.cpu_instructions(host.Host())))
