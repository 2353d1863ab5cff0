"""The processes of a training: who this one is, where it trains, and their common group from start to end."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

PATIENCE_S = 600.0
"""How long a process waits for the others within a step; torch's own half an hour is long for a GPU
that stands still. Drawing the largest model's weights, and compiling, take less."""


@dataclasses.dataclass(frozen=True)
class Process:
    """One process of a training.

    Attributes:
        device: that it trains on.
    """

    rank: int
    local_rank: int
    world_size: int
    device: torch.device

    def agree(self, said: bool) -> bool:
        """Whether any process says yes; to be called by all of them."""
        import torch
        import torch.distributed as dist

        if self.world_size == 1:
            return said
        vote = torch.tensor(int(said), device=self.device)
        dist.all_reduce(vote, dist.ReduceOp.MAX)
        return bool(vote.item())


def this_one(platform: str) -> Process:
    """By what torchrun has set; one process alone where it didn't start this one. Selects the GPU."""
    import torch

    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if platform == "cpu":
        device = torch.device("cpu")
    else:
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
    return Process(int(os.environ.get("RANK", "0")), local_rank, int(os.environ.get("WORLD_SIZE", "1")), device)


@contextlib.contextmanager
def joined(process: Process) -> Iterator[None]:
    """The default process group, for one process too, which frameworks that shard ask for.

    At a regular end the processes leave it together: one that goes while another still talks to it
    ends that one with SIGABRT. After an error nobody waits.
    """
    import torch.distributed as dist

    alone: dict[str, Any] = {}
    if process.world_size == 1:
        # No port, so that nothing else on the machine can be met.
        alone = {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    backend = "gloo" if process.device.type == "cpu" else "nccl"
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=PATIENCE_S), **alone)
    yield
    dist.barrier()
    dist.destroy_process_group()
