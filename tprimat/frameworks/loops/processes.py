"""The processes of a training: who this one is, their common group from start to end, and how they
agree.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from tprimat.errors import TensorPrimatError, TrainingFailedError
from tprimat.frameworks import out_of_memory_advice
from tprimat.frameworks.request import Request
from tprimat.record.outcome import is_out_of_memory, of_exception
from tprimat.record.ranks import Process, from_environment

TIMEOUT = datetime.timedelta(seconds=600)
"""How long a process waits for the others within a step; torch's own half an hour is long for a GPU
that stands still. Drawing the largest model's weights, and compiling, take less."""


def main(
    arguments: list[str], train: Callable[[Any], int | None], kind: type[Request] = Request
) -> int:
    """Train the request that arguments state; return the exit status of the process: that of
    `train`, or 0.
    """
    try:
        request = kind.from_arguments(arguments)
        try:
            return train(request) or 0
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            reason = of_exception(error, terminated=False).reason or ""
            advice = out_of_memory_advice.advised(reason, request)
            raise TrainingFailedError(advice, heading="training-failed") from error
    except TensorPrimatError as error:
        if isinstance(error, TrainingFailedError) and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)  # for the log
        print(error.line(), file=sys.stderr)
        return error.status


def this_one(platform: str) -> Process:
    """Return this process as torchrun has described it; one alone if torchrun didn't start it.
    Selects the GPU.
    """
    return (from_environment(os.environ) or Process()).with_device(platform)


@contextlib.contextmanager
def joined(process: Process, **more: Any) -> Iterator[None]:
    """Hold the default process group, for one process too, which frameworks that shard ask for.

    At a regular end the processes leave it together: one that goes while another still talks to it
        ends that one with
    SIGABRT. After an error, processes exit without a barrier. `more` are arguments of torch's
    init_process_group.
    """
    import torch.distributed as dist

    if process.world_size == 1:
        # No port, so that nothing else on the machine can be met.
        more = {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    dist.init_process_group(
        "gloo" if process.device.type == "cpu" else "nccl", timeout=TIMEOUT, **more
    )
    yield
    dist.barrier()
    dist.destroy_process_group()


def vote_of_the_first(store: Any, rank: int) -> Callable[[bool], bool]:
    """Return a function that every process calls equally often, and that returns the first one's
    vote to all.

    Through the key-value store of torch.distributed, not through a collective: that would wait for
    the GPU, and could come between those of the training itself. Without a store each process
    decides by itself. It raises RuntimeError if the first process doesn't answer.
    """
    numbers = itertools.count(1)

    def decide(vote: bool) -> bool:
        if store is None:
            return vote
        key = f"tprimat/time-limit/{next(numbers)}"
        if rank == 0:
            store.set(key, "yes" if vote else "no")
            return vote
        store.wait([key], TIMEOUT)
        return bool(store.get(key) == b"yes")

    return decide
