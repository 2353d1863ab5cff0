"""The machine as this training uses it: a GPU may be idle during a training on the CPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tprimat.errors import UsageError
from tprimat.machine.gpu import Device
from tprimat.machine.held_memory import most_held_gb
from tprimat.machine.host import Host
from tprimat.machine.platforms import Machine, cpu_info
from tprimat.machine.torch_build import platform_of_gpus
from tprimat.results.run import STACKS, Platform


def platform_of(device: Any, torch: Any, stated: Platform | None) -> Platform:
    """Return the platform of the torch.device that a training runs on.

    Raises UsageError for a device that can't be measured, and where the user named another
    platform.
    """
    if device.type not in ("cuda", "cpu"):
        raise UsageError(
            f"BenchmarkCallback: the training runs on {device.type}, which can't be measured",
            heading="benchmark-callback",
            hint="use an NVIDIA or AMD GPU, or accelerator='cpu'",
        )
    actual: Platform = "cpu" if device.type == "cpu" else platform_of_gpus(torch)
    if stated not in (None, actual):
        raise UsageError(
            f"BenchmarkCallback: platform={STACKS[stated]!r} was requested, but the training runs"
            f" on {STACKS[actual]} (torch {torch.__version__})",
            heading="benchmark-callback",
            hint=f"use platform={STACKS[actual]!r} or 'auto'",
        )
    return actual


def own_devices(machine: Machine, device: Any, processes: int) -> Sequence[Device]:
    """Return the GPUs of the training's processes on this machine; for one process, that of its
    device.
    """
    if processes > 1:
        return machine.devices[:processes]
    return [gpu for gpu in machine.devices if gpu.index == (device.index or 0)]


def restrict_to_devices(
    machine: Machine, platform: Platform, device: Any, processes: int
) -> Machine:
    """Return the detected machine restricted to the devices of this training: one for each process
    on GPUs.
    """
    if platform != "cpu":
        own = own_devices(machine, device, 1)
        info = own[0].info if own else machine.gpu_info
        info = info.but(device_count=processes)
        held = most_held_gb(own_devices(machine, device, processes))
        environment = machine.environment.but(memory_held_by_others_gb=held)
        return dataclasses.replace(machine, gpu_info=info, environment=environment)
    if machine.platform == "cpu":
        return machine
    environment = machine.environment.but(memory_held_by_others_gb=None)
    return Machine("cpu", cpu_info(Host(), machine.gpu_info.pytorch_version), environment, (), ())
