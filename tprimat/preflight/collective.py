"""The processes of all devices: their barriers and answers, and the all-reduce that is timed."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Sequence
from typing import Any, TypeVar

from tprimat.preflight.kernels import Kernel
from tprimat.preflight.timing import call_seconds, clock_of, elapsed
from tprimat.record.ranks import Process
from tprimat.results.preflight import AllReduce
from tprimat.units import GB

TIMEOUT_S = 300.0
"""How long the processes wait for each other; loading a GPU's libraries takes a minute on a slow
disk.
"""

MOST_CALLS = 200

_Value = TypeVar("_Value")


class Peers:
    """This process among all: barriers and answers, which cost nothing if it is alone."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._dist: Any = None
        if process.world_size > 1:
            import torch.distributed as dist

            self._dist = dist
            dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=TIMEOUT_S))

    def barrier(self) -> None:
        """Wait for all."""
        if self._dist is not None:
            self._dist.barrier()

    def of_first(self, value: _Value) -> _Value:
        """Return the first process's value."""
        values = [value]
        if self._dist is not None:
            self._dist.broadcast_object_list(values)
        return values[0]

    def gather(self, value: _Value) -> list[_Value]:
        """Return the values of all, in the order of their ranks."""
        if self._dist is None:
            return [value]
        values: list[Any] = [None] * self.process.world_size
        self._dist.all_gather_object(values, value)
        return values

    def leave(self) -> None:
        """Leave together: one that goes while another still talks to it ends that one with
        SIGABRT.
        """
        if self._dist is not None:
            self._dist.barrier()
            self._dist.destroy_process_group()


def backend_of(device: Any) -> str:
    """Return the name of the library that reduces on a device."""
    import torch

    if device.type == "cpu":
        return "gloo"
    if torch.version.hip:
        return "rccl"
    return "nccl"


def all_reduce(peers: Peers, device: Any, sizes: Sequence[int], seconds: float) -> list[AllReduce]:
    """Time all-reduces of fp32 sums over all processes, each size for about `seconds`; every
    process must call it.

    Bus bandwidth is counted as nccl-tests counts it (NVIDIA/nccl-tests, doc/PERFORMANCE.md): what
    each link carries.
    """
    import torch
    import torch.distributed as dist

    # RCCL answers to the name of NCCL.
    group = dist.new_group(backend="gloo" if device.type == "cpu" else "nccl")
    count = peers.process.world_size
    clock = clock_of(device)
    reduced = []
    for size in sizes:
        values = torch.ones(size // 4, device=device)
        dist.all_reduce(values, group=group)
        is_right = bool((values == count).all())
        # Sums of ones would grow beyond all bounds.
        values.zero_()
        kernel = Kernel(functools.partial(dist.all_reduce, values, group=group), 1.0)
        calls = max(
            2, min(MOST_CALLS, round(seconds / peers.of_first(call_seconds(kernel, clock))))
        )
        peers.barrier()
        start = clock.mark()
        for _ in range(calls):
            kernel.run()
        slowest = max(peers.gather(elapsed(clock, start, clock.mark()))) / calls
        bus = size / slowest / GB * 2 * (count - 1) / count
        reduced.append(
            AllReduce(
                bytes=size,
                seconds=slowest,
                bus_gb_per_s=bus,
                is_right=all(peers.gather(is_right)),
            )
        )
    return reduced
