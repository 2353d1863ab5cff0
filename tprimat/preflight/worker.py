"""The process of one device, as a program, alone or one of several that torchrun has started:

    python -m tprimat.preflight.worker OUTPUT.json PLATFORM [quick]

All processes measure at the same time, as they would train: their devices share power, cooling and
buses. The first one writes what all have measured. Barriers and answers travel through gloo, so
that a GPU is first touched after the first process of each machine has read who else holds it.
"""

from __future__ import annotations

import functools
import os
import platform as system
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from tprimat import files
from tprimat.machine import gpu_processes, platforms, torch_build
from tprimat.machine.cpu import CpuReader
from tprimat.machine.gpu import GpuProcess, GpuState
from tprimat.machine.host import Host, available_bytes
from tprimat.machine.platforms import Machine
from tprimat.machine.telemetry.trace import Sample
from tprimat.preflight import kernels
from tprimat.preflight.collective import Peers, all_reduce, backend_of
from tprimat.preflight.kernels import Kernel
from tprimat.preflight.plan import Plan, Shape, plan_of
from tprimat.preflight.timing import call_seconds, clock_of, elapsed, rate_of, repeat
from tprimat.record import telemetry
from tprimat.record.ranks import Process, from_environment
from tprimat.results.preflight import (
    COPY,
    FROM_DEVICE,
    TO_DEVICE,
    TRIAD,
    AllReduce,
    DevicePreflight,
    NodePreflight,
    Rate,
)
from tprimat.results.run import STACKS, Platform

LOAD_S = 1.0
"""For how long the GPUs are loaded while their clocks are read, s."""

MOST_CALLS = 10_000

Say = Callable[[str], None]
_Value = TypeVar("_Value")


class Measured(msgspec.Struct, frozen=True):
    """What all processes have measured, in the order of their ranks."""

    devices: tuple[DevicePreflight, ...]
    nodes: tuple[NodePreflight, ...]
    all_reduce: tuple[AllReduce, ...] = ()
    backend: str | None = None


def measure(
    process: Process, platform: Platform, plan: Plan, say: Say = lambda _: None
) -> Measured | None:
    """Measure this process's device among those of all; return what all have measured in the first
    process alone.
    """
    peers = Peers(process)
    machine = None
    node = None
    # torchrun has started all processes of this machine.
    cpus = CpuReader(Host(), os.getppid() if process.world_size > 1 else os.getpid())
    before = Sample(time.perf_counter(), cpu=cpus.read())
    if process.local_rank == 0:
        say("machine")
        machine, node = _read_node()
    peers.barrier()
    process = process.with_device(platform)
    worker = _Worker(process, plan, peers, say)
    worker.measure()
    reduced = []
    if process.world_size > 1:
        say("all-reduce")
        reduced = all_reduce(peers, process.device, plan.messages, plan.message_s)
    if process.local_rank == 0 and node is not None:
        after = Sample(time.perf_counter(), cpu=cpus.read(last=True))
        used = telemetry.disturbance([before, after], before.at, after.at)
        node = node.but(
            other_programs_cpu_share=used.other_programs_cpu_share,
            steal_cpu_share=used.steal_cpu_share,
        )
    # The first process of a machine knows the devices of all there.
    machines = {}
    nodes = []
    for number, there, states, its_node in peers.gather(
        (process.node_rank, machine, worker.states, node)
    ):
        if there is not None and its_node is not None:
            machines[number] = (there, states)
            nodes.append(its_node)
    devices = peers.gather((process.node_rank, worker.device()))
    peers.leave()
    if not process.is_first:
        return None
    described = []
    for number, device in devices:
        described.append(_described(device, *machines.get(number, (None, ()))))
    return Measured(
        devices=tuple(described),
        nodes=tuple(nodes),
        all_reduce=tuple(reduced),
        backend=backend_of(process.device) if reduced else None,
    )


def platform_here() -> Platform:
    """Return the platform by torch alone: eight processes that ask the drivers take seconds."""
    import torch

    if torch.cuda.is_available():
        return torch_build.platform_of_gpus(torch)
    return "cpu"


class _Worker:
    def __init__(self, process: Process, plan: Plan, peers: Peers, say: Say) -> None:
        self._process = process
        self._plan = plan
        self._peers = peers
        self._say = say
        self._device = process.device
        self._on_gpu = self._device.type == "cuda"
        self._clock = clock_of(self._device)
        self._rates: dict[str, Rate] = {}
        self._unknown: dict[str, str] = {}
        self.states: tuple[GpuState, ...] = ()

    def device(self) -> DevicePreflight:
        """Return the measurements."""
        return DevicePreflight(
            rank=self._process.rank,
            local_rank=self._process.local_rank,
            host=system.node(),
            rates=self._rates,
            unknown=self._unknown,
        )

    def measure(self) -> None:
        """Measure products, memory and transfers, each with all processes at once."""
        for precision in self._plan.precisions:
            self._product(precision)
        self._say("memory")
        size = min(self._plan.array_bytes, self._free_bytes() // 8)
        streams = self._attempt("memory", lambda: kernels.streams(self._device, size)) or {}
        for name in (COPY, TRIAD):
            self._sustain(name, streams.get(name), self._plan.stream_s)
        del streams
        for name in (TO_DEVICE, FROM_DEVICE) if self._on_gpu else ():
            copy = functools.partial(
                kernels.transfer,
                self._device,
                self._plan.transfer_bytes,
                to_device=name == TO_DEVICE,
            )
            self._sustain(name, self._attempt(name, copy), self._plan.transfer_s)

    def _product(self, precision: str) -> None:
        """Find the fastest shape, which all take from the first process, and sustain it."""
        self._say(f"{precision} product")
        best = None
        highest = 0.0
        for shape in self._plan.shapes:
            if kernels.bytes_of(precision, *shape) > self._free_bytes() // 2:
                continue
            probe = functools.partial(self._probe, precision, shape)
            rate, is_slow = self._attempt(precision, probe) or (0.0, True)
            if rate > highest:
                best, highest = shape, rate
            if is_slow:
                break
        chosen = self._peers.of_first(best)
        kernel = None
        if chosen is None:
            self._unknown.setdefault(precision, "rank 0 cannot compute it")
        else:
            kernel = self._attempt(
                precision, lambda: kernels.product(self._device, precision, *chosen)
            )
        self._sustain(precision, kernel, self._plan.product_s)
        if precision == "bf16" and self._on_gpu:
            self._read_under_load(kernel)

    def _probe(self, precision: str, shape: Shape) -> tuple[float, bool]:
        """Return the highest rate of a shape, and whether larger ones would take too long."""
        kernel = kernels.product(self._device, precision, *shape)
        seconds = call_seconds(kernel, self._clock)
        # The next larger shape takes up to eight times as long; a slow CPU would be at it for
        # minutes.
        if seconds > self._plan.product_s / 8:
            return kernel.work / seconds, True
        return max(repeat(kernel, self._clock, self._plan.probe_s)), False

    def _sustain(self, name: str, kernel: Kernel | None, seconds: float) -> None:
        """Repeat an operation at the same time as all others do; one that can't waits with them all
        the same.
        """
        self._peers.barrier()
        if kernel is None:
            return
        rates = self._attempt(name, lambda: repeat(kernel, self._clock, seconds))
        if rates is not None:
            self._rates[name] = rate_of(rates, kernel.shape)

    def _read_under_load(self, kernel: Kernel | None) -> None:
        """Read the states of the machine's GPUs, in its first process, while all of them
        compute.
        """
        self._peers.barrier()
        if kernel is None:
            return
        calls = max(1, min(MOST_CALLS, round(LOAD_S / call_seconds(kernel, self._clock))))
        start = self._clock.mark()
        for _ in range(calls):
            kernel.run()
        end = self._clock.mark()
        if self._process.local_rank == 0:
            self.states = platforms.states(Host())
        elapsed(self._clock, start, end)

    def _attempt(self, name: str, run: Callable[[], _Value]) -> _Value | None:
        """Return the rates of a device; None for an operation that it can't do, with the reason
        kept.
        """
        try:
            return run()
        except (RuntimeError, NotImplementedError, AttributeError, ValueError, TypeError) as error:
            # An out-of-memory error is a RuntimeError too.
            self._unknown[name] = torch_build.first_line(error)
            return None

    def _free_bytes(self) -> int:
        if self._on_gpu:
            import torch

            # What torch keeps of earlier products is free too.
            torch.cuda.empty_cache()
            return torch_build.memory_info(torch.cuda, self._device)[0]
        return available_bytes() // self._process.local_world_size


def _read_node() -> tuple[Machine, NodePreflight]:
    """Return this machine, and what of it may slow a benchmark; before any process has touched a
    GPU.
    """
    host = Host()
    machine = platforms.detect(host=host)
    processes = gpu_processes.list_processes(host) if machine.devices else ()
    return machine, NodePreflight(
        host=system.node(),
        versions=machine.environment.versions,
        partition=machine.environment.gpu_partition,
        numa_balancing=machine.environment.numa_balancing,
        processes=tuple(map(_named, processes or ())),
        warnings=machine.warnings,
    )


def _named(process: GpuProcess) -> str:
    what = process.command or process.name or "a process"
    return f"GPU {process.gpu or '?'}: {what} ({process.pid})"[:120]


def _described(
    device: DevicePreflight, machine: Machine | None, loaded: Sequence[GpuState]
) -> DevicePreflight:
    """Return a device with the values that the first process of its machine has."""
    if machine is None:
        return device
    if not machine.devices:
        return device.but(name=machine.gpu_info.device_name)
    here = next((gpu for gpu in machine.devices if gpu.index == device.local_rank), None)
    if here is None:
        return device
    state = next((state for state in loaded if here.id and state.id == here.id), None)
    return device.but(
        name=here.info.device_name,
        id=here.id,
        partition=here.partition,
        memory_held_gb=here.memory_held_gb,
        power_cap_w=state and state.power_cap_w,
        power_default_w=state and state.power_default_w,
        clock_max_mhz=state and state.clock_max_mhz,
        clock_under_load_mhz=state and state.clock_mhz,
    )


def main(arguments: Sequence[str]) -> int:
    """Measure, and write what all have measured."""
    path, platform, *rest = arguments
    process = from_environment(os.environ) or Process()
    kind = next(stack for stack in STACKS if stack == platform)

    def say(text: str) -> None:
        if process.is_first:
            print(f"stage: {text}", flush=True)

    measured = measure(process, kind, plan_of(kind, quick="quick" in rest), say)
    if measured is not None:
        files.write_atomically(Path(path), msgspec.json.encode(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
