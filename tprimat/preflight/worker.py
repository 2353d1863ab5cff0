"""The process of one device, as a program, alone or one of several that torchrun has started:

    python -m tprimat.preflight.worker OUTPUT.json PLATFORM [quick]

All processes measure at the same time, as they would train: their devices share power, cooling and buses. The first
one writes what all have measured. Barriers and answers travel through gloo, so that a GPU is first touched after the
first process of each machine has read who else holds it.
"""

from __future__ import annotations

import datetime
import os
import platform as system
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tprimat import files
from tprimat.machine import gpu_processes, platforms
from tprimat.machine.cpu_load import CpuLoad
from tprimat.machine.gpu import GpuState
from tprimat.machine.host import Host
from tprimat.machine.platforms import Machine
from tprimat.preflight import kernels
from tprimat.preflight.kernels import Kernel
from tprimat.preflight.plan import Plan, plan_of
from tprimat.preflight.timing import Stopwatch, call_seconds, rate_of, repeat
from tprimat.record.ranks import Process, from_environment
from tprimat.results.preflight import (
    FROM_DEVICE,
    TO_DEVICE,
    AllReduce,
    DevicePreflight,
    NodePreflight,
    Rate,
)
from tprimat.results.run import Platform
from tprimat.units import GB

TIMEOUT_S = 300.0
"""How long the processes wait for each other; loading a GPU's libraries takes a minute on a slow disk."""

MOST_CALLS = 200
LOAD_S = 1.0

Say = Callable[[str], None]
_Value = TypeVar("_Value")


class Measured(msgspec.Struct, frozen=True):
    """What all processes have measured, in the order of their ranks."""

    devices: tuple[DevicePreflight, ...]
    nodes: tuple[NodePreflight, ...]
    all_reduce: tuple[AllReduce, ...] = ()
    backend: str | None = None
    unknown: str | None = None


class Peers:
    """This process among all: barriers and answers, which cost nothing where it is alone."""

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
        """Leave together: one that goes while another still talks to it ends that one with SIGABRT."""
        if self._dist is not None:
            self._dist.barrier()
            self._dist.destroy_process_group()


def measure(process: Process, platform: Platform, plan: Plan, say: Say = lambda _: None) -> Measured | None:
    """Measure this process's device among those of all; return what all have measured in the first process alone."""
    import torch

    peers = Peers(process)
    machine, node, load = None, None, CpuLoad(with_siblings=process.world_size > 1)
    if process.local_rank == 0:
        say("machine")
        machine, node = _read_node()
    peers.barrier()
    process = process.on(platform)
    worker = _Worker(torch, process, plan, peers, say)
    worker.measure()
    reduced, unknown = worker.all_reduce()
    if process.local_rank == 0 and node is not None:
        used = load.disturbance()
        node = msgspec.structs.replace(
            node,
            other_programs_cpu_share=used.other_programs_cpu_share,
            steal_cpu_share=used.steal_cpu_share,
        )
    # The first process of a machine knows the devices of all there.
    known = [each for each in peers.gather((process.machine, machine, worker.states, node)) if each[1] is not None]
    devices = peers.gather((process.machine, worker.device()))
    peers.leave()
    if not process.is_first:
        return None
    machines = {number: (found, states) for number, found, states, _ in known}
    return Measured(
        devices=tuple(_described(device, *machines.get(number, (None, ()))) for number, device in devices),
        nodes=tuple(each for _, _, _, each in known if each is not None),
        all_reduce=tuple(reduced),
        backend=worker.backend if process.world_size > 1 else None,
        unknown=unknown,
    )


def platform_here() -> Platform:
    """Return the platform by what torch says alone: eight processes that ask the drivers take seconds."""
    import torch

    return "cpu" if not torch.cuda.is_available() else "amd" if torch.version.hip else "nvd"


class _Worker:
    """The measurements of one device."""

    def __init__(self, torch: Any, process: Process, plan: Plan, peers: Peers, say: Say) -> None:
        self._torch, self._process, self._plan, self._peers, self._say = torch, process, plan, peers, say
        self._device = process.device
        self._on_gpu = self._device.type == "cuda"
        self._watch = Stopwatch(torch, self._device)
        self._rates: dict[str, Rate] = {}
        self._unknown: dict[str, str] = {}
        self.states: tuple[GpuState, ...] = ()
        self.backend = "gloo" if not self._on_gpu else "rccl" if torch.version.hip else "nccl"

    def device(self) -> DevicePreflight:
        """Return what was measured."""
        return DevicePreflight(
            rank=self._process.rank,
            local_rank=self._process.local_rank,
            host=system.node(),
            rates=self._rates,
            unknown=self._unknown,
        )

    def measure(self) -> None:
        """Measure products, memory and transfers, each with all processes at once."""
        torch, device, plan = self._torch, self._device, self._plan
        for precision in plan.precisions:
            self._product(precision)
        size = min(plan.array_bytes, self._free_bytes() // 8)
        for name, kernel in self._attempt("memory", lambda: kernels.streams(torch, device, size), {}).items():
            self._sustain(name, kernel, plan.stream_s)
        for name in (TO_DEVICE, FROM_DEVICE) if self._on_gpu else ():
            size, is_to = plan.transfer_bytes, name == TO_DEVICE
            moved = self._attempt(
                name, lambda size=size, is_to=is_to: kernels.transfer(torch, device, size, to_device=is_to), None
            )
            self._sustain(name, moved, plan.transfer_s)

    def all_reduce(self) -> tuple[list[AllReduce], str | None]:
        """Return the all-reduces over all devices by size, or why there are none."""
        if self._process.world_size == 1:
            return [], "one device alone"
        torch, peers = self._torch, self._peers
        import torch.distributed as dist

        self._say("all-reduce")
        # RCCL answers to the name of NCCL.
        group = dist.new_group(backend="nccl" if self._on_gpu else "gloo")
        count, reduced = self._process.world_size, []
        for size in self._plan.messages:
            values = torch.ones(size // 4, device=self._device)
            dist.all_reduce(values, group=group)
            is_right = bool((values == count).all())
            # Sums of ones would grow beyond all bounds.
            values.zero_()
            kernel = Kernel(lambda values=values: dist.all_reduce(values, group=group), 1.0)
            each = peers.of_first(call_seconds(kernel, self._watch))
            calls = max(2, min(MOST_CALLS, round(self._plan.message_s / each)))
            peers.barrier()
            start = self._watch.mark()
            for _ in range(calls):
                kernel.run()
            slowest = max(peers.gather(self._watch.seconds(start, self._watch.mark()))) / calls
            bus = size / slowest / GB * 2 * (count - 1) / count
            right = all(peers.gather(is_right))
            reduced.append(AllReduce(bytes=size, seconds=slowest, bus_gb_per_s=bus, is_right=right))
        return reduced, None

    def _product(self, precision: str) -> None:
        """Find the fastest shape, which all take from the first process, and sustain it."""
        torch, device, plan = self._torch, self._device, self._plan
        self._say(f"matrix product, {precision}")
        best, highest = None, 0.0
        for shape in plan.shapes:
            if kernels.bytes_of(precision, *shape) > self._free_bytes() // 2:
                continue
            kernel = self._attempt(
                precision, lambda shape=shape: kernels.product(torch, device, precision, *shape), None
            )
            seconds = kernel and self._attempt(
                precision, lambda kernel=kernel: call_seconds(kernel, self._watch), None
            )
            if kernel is None or seconds is None:
                break
            # A larger shape takes at least eight times as long; a slow CPU would be at it for minutes.
            is_slow = seconds > plan.product_s / 8
            rates = [kernel.work / seconds] if is_slow else repeat(kernel, self._watch, plan.probe_s)
            if max(rates) > highest:
                best, highest = shape, max(rates)
            if is_slow:
                break
        if (chosen := self._peers.of_first(best)) is None:
            self._unknown.setdefault(precision, "the first process can't compute it")
            self._peers.barrier()
            return
        kernel = self._attempt(precision, lambda: kernels.product(torch, device, precision, *chosen), None)
        self._sustain(precision, kernel, plan.product_s)
        if precision == "bf16" and self._on_gpu and kernel is not None:
            self._read_under_load(kernel)

    def _sustain(self, name: str, kernel: Kernel | None, seconds: float) -> None:
        """Repeat an operation at the same time as all others do; one that can't waits with them all the same."""
        self._peers.barrier()
        if kernel is None:
            return
        rates = self._attempt(name, lambda: repeat(kernel, self._watch, seconds), None)
        if rates is not None:
            self._rates[name] = rate_of(rates, kernel.shape)

    def _read_under_load(self, kernel: Kernel) -> None:
        """Read the states of the machine's GPUs, in its first process, while all of them compute."""
        each = call_seconds(kernel, self._watch)
        self._peers.barrier()
        start = self._watch.mark()
        for _ in range(max(1, min(10_000, round(LOAD_S / each)))):
            kernel.run()
        end = self._watch.mark()
        if self._process.local_rank == 0:
            self.states = platforms.states(Host())
        self._watch.seconds(start, end)

    def _attempt(self, name: str, run: Callable[[], _Value], otherwise: _Value) -> _Value:
        """Return what a device can do; otherwise keep why not."""
        try:
            return run()
        except (RuntimeError, NotImplementedError, AttributeError, ValueError, TypeError) as error:
            # An out-of-memory error is a RuntimeError too.
            self._unknown[name] = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
            return otherwise

    def _free_bytes(self) -> int:
        if self._on_gpu:
            return int(self._torch.cuda.mem_get_info(self._device)[0])
        import psutil

        return int(psutil.virtual_memory().available) // self._process.local_world_size


def _read_node() -> tuple[Machine, NodePreflight]:
    """Return this machine, and what of it may slow a benchmark; before any process has touched a GPU."""
    host = Host()
    machine = platforms.detect(host=host)
    environment = machine.environment
    processes = gpu_processes.list_processes(host) if machine.devices else ()
    return machine, NodePreflight(
        host=system.node(),
        versions=environment.versions,
        partition=environment.gpu_partition,
        numa_balancing=environment.numa_balancing,
        processes=tuple(
            f"GPU {each.gpu or '?'}: {each.command or each.name or 'a process'} ({each.pid})"[:120]
            for each in processes or ()
        ),
        warnings=machine.warnings,
    )


def _described(device: DevicePreflight, machine: Machine | None, loaded: Sequence[GpuState]) -> DevicePreflight:
    """Return a device with what the first process of its machine knows of it."""
    if machine is None:
        return device
    if not machine.devices:
        return msgspec.structs.replace(device, name=machine.gpu_info.device_name)
    here = next((each for each in machine.devices if each.index == device.local_rank), None)
    if here is None:
        return device
    state = next((each for each in loaded if here.id and each.id == here.id), None)
    return msgspec.structs.replace(
        device,
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
    kind: Platform = "nvd" if platform == "nvd" else "amd" if platform == "amd" else "cpu"
    say: Say = (lambda text: print(f"stage: {text}", flush=True)) if process.is_first else (lambda _: None)
    measured = measure(process, kind, plan_of(kind, quick="quick" in rest), say)
    if measured is not None:
        files.write_atomically(Path(path), msgspec.json.encode(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
