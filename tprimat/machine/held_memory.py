"""GPU memory that other processes hold, and which processes they are."""

from __future__ import annotations

import collections
import dataclasses
import os
import re
from collections.abc import Sequence
from typing import Any

from tprimat.machine import amd, nvidia
from tprimat.machine.gpu import Device, GpuProcess
from tprimat.machine.host import Host
from tprimat.results.run import Platform
from tprimat.units import GB

HELD_SHARE = 0.01
"""Share of a device's memory in the hands of others from which a run is warned of it."""

OWN_CONTEXT_GB = 1.0
"""What this process's own context may take, GB: some 0.3 to 0.8 on today's GPUs. Where only torch
states what is in use, less than this can't be distinguished from it."""


def with_held_memory(
    torch: Any, platform: Platform, devices: Sequence[Device], host: Host
) -> tuple[tuple[Device, ...], list[str]]:
    """Return the devices with what others hold of their memory, and warnings about what is unknown.

    The vendor's own values are best, read before this process has a context: all of it then belongs
    to others (or to the driver). torch's value needs a context, which it counts.
    """
    # Ranks of one job start at different moments: a rank looks at its own GPU alone.
    rank = host.environ.get("LOCAL_RANK", "")
    own_gpu = int(rank) if rank.isdigit() and int(rank) < len(devices) else None
    read = [device for device in devices if own_gpu is None or device.index == own_gpu]
    in_use = bool(torch.cuda.is_initialized()) and any(torch.cuda.memory_reserved(device.index) for device in read)
    used_gb = _used_gb(platform, read, host)
    own_gb = _own_gb(host) if in_use and platform == "nvd" else {}
    held: dict[int, float] = {}
    for device in read:
        used = used_gb.get(device.index)
        if used is not None and not in_use:
            held[device.index] = used
        elif used is not None and device.id in own_gb:
            held[device.index] = max(0.0, used - own_gb[device.id])
        elif not in_use and (seen := _seen_by_torch(torch, device)) is not None:
            held[device.index] = seen
    unknown = [str(device.index) for device in read if device.index not in held]
    own = "this process itself already holds some"
    why = own if in_use else "no more is in use than this process's own context takes"
    return (
        tuple(dataclasses.replace(device, memory_held_gb=held.get(device.index)) for device in devices),
        [f"memory held by other processes is unknown on GPU {', '.join(unknown)}: {why}"] if unknown else [],
    )


def held_memory_warning(devices: Sequence[Device], platform: Platform, host: Host) -> str | None:
    """Return the warning about memory that others hold; None where they hold next to none."""
    held = [
        device
        for device in devices
        if device.memory_held_gb and device.memory_held_gb > HELD_SHARE * (device.info.total_memory_gb or 0)
    ]
    if not held:
        return None
    amounts = ", ".join(
        f"GPU {device.index} ({device.memory_held_gb:.1f} of {device.info.total_memory_gb or 0:.1f} GB)"
        for device in held
    )
    listed = (nvidia if platform == "nvd" else amd).processes(host) or ()
    others = [process for process in listed if process.pid != os.getpid()]
    # AMD's tools don't state a GPU's address: their processes are those of all GPUs.
    located = platform == "nvd" or all(process.gpu_id is not None for process in others)
    ids = {device.id for device in held}
    named = ", ".join(_description(process) for process in others if not located or process.gpu_id in ids)
    variable = "HIP_VISIBLE_DEVICES" if platform == "amd" else "CUDA_VISIBLE_DEVICES"
    who = "; which ones the driver doesn't tell here (in a container, ask outside of it)"
    if named:
        who = f": {named}" if located else f"; on this machine's GPUs run {named}"
    return (
        f"other processes hold memory of {amounts}{who}. They slow this run and leave it less memory: "
        f"end them, or choose other GPUs with {variable} (docs/troubleshooting.md#memory-held)"
    )


def _seen_by_torch(torch: Any, device: Device) -> float | None:
    """Return what torch sees in use beyond its own allocations, GB; None where that is but a context's size."""
    try:
        free, total = torch.cuda.mem_get_info(device.index)
    except RuntimeError:
        return None
    held = (total - free - torch.cuda.memory_reserved(device.index)) / GB
    return held if held > max(OWN_CONTEXT_GB, HELD_SHARE * total / GB) else None


def _used_gb(platform: Platform, devices: Sequence[Device], host: Host) -> dict[int, float]:
    """Return the memory in use by device index, GB, as the driver states it without a context of ours."""
    used = {state.id: state.memory_used_gb for state in (nvidia if platform == "nvd" else amd).states(host)}
    # Partitions of one card share its address: what is in use is then the whole card's.
    shared = collections.Counter(device.id for device in devices)
    return {
        device.index: gigabytes
        for device in devices
        if shared[device.id] == 1
        and not (platform == "amd" and device.partition)
        and (gigabytes := used.get(device.id)) is not None
    }


def _own_gb(host: Host) -> dict[str | None, float]:
    """Return the memory that this process holds, GB by UUID, where NVIDIA's driver knows it by our number."""
    return {
        process.gpu_id: process.memory_gb
        for process in nvidia.processes(host) or ()
        if process.pid == os.getpid() and process.memory_gb is not None
    }


def _description(process: GpuProcess) -> str:
    name = re.split(r"[/\\]", process.name)[-1] if process.name else "a process of unknown name"
    memory = f"{process.memory_gb:.1f} GB" if process.memory_gb is not None else "size not told"
    return f"{name} (process {process.pid}, {memory})"
