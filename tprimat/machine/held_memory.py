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
    used_gb = {state.id: state.memory_used_gb for state in (nvidia if platform == "nvd" else amd).states(host)}
    # NVIDIA's driver states what this process holds, where it knows it by our number; AMD's doesn't.
    listed = nvidia.processes(host) or () if in_use and platform == "nvd" else ()
    own_gb = {process.gpu_id: process.memory_gb for process in listed if process.pid == os.getpid()}
    # Partitions of one card share its address: what is in use is then the whole card's.
    sharing = collections.Counter(device.id for device in read)

    def held_of(device: Device) -> float | None:
        is_whole = sharing[device.id] == 1 and not (platform == "amd" and device.partition)
        used, own = used_gb.get(device.id) if is_whole else None, own_gb.get(device.id)
        if in_use:
            return None if used is None or own is None else max(0.0, used - own)
        return _seen_by_torch(torch, device) if used is None else used

    held = {device.index: held_of(device) for device in read}
    unknown = [str(index) for index, gigabytes in held.items() if gigabytes is None]
    own = "this process itself already holds some"
    why = own if in_use else "no more is in use than this process's own context takes"
    return (
        tuple(dataclasses.replace(device, memory_held_gb=held.get(device.index)) for device in devices),
        [f"memory held by other processes is unknown on GPU {', '.join(unknown)}: {why}"] if unknown else [],
    )


def held_memory_warning(devices: Sequence[Device], platform: Platform, host: Host) -> str | None:
    """Return the warning about memory that others hold; None where they hold next to none."""
    amounts, ids = [], set()
    for device in devices:
        held, total = device.memory_held_gb or 0.0, device.info.total_memory_gb or 0.0
        if held > HELD_SHARE * total:
            amounts.append(f"GPU {device.index} ({held:.1f} of {total:.1f} GB)")
            ids.add(device.id)
    if not amounts:
        return None
    listed = (nvidia if platform == "nvd" else amd).processes(host) or ()
    others = [process for process in listed if process.pid != os.getpid()]
    # AMD's tools don't state a GPU's address: their processes are those of all GPUs.
    located = platform == "nvd" or all(process.gpu_id is not None for process in others)
    named = ", ".join(_description(process) for process in others if not located or process.gpu_id in ids)
    variable = "HIP_VISIBLE_DEVICES" if platform == "amd" else "CUDA_VISIBLE_DEVICES"
    who = "; the driver doesn't list them here (in a container, check on the host)"
    if named:
        who = f": {named}" if located else f"; running on this machine's GPUs: {named}"
    return (
        f"other processes hold memory of {', '.join(amounts)}{who}; they slow this run and leave it less "
        f"memory: stop them, or select other GPUs with {variable} (docs/troubleshooting.md#memory-held)"
    )


def _seen_by_torch(torch: Any, device: Device) -> float | None:
    """Return what torch sees in use beyond its own allocations, GB; None where that is but a context's size."""
    try:
        free, total = torch.cuda.mem_get_info(device.index)
    except RuntimeError:
        return None
    held = (total - free - torch.cuda.memory_reserved(device.index)) / GB
    return held if held > max(OWN_CONTEXT_GB, HELD_SHARE * total / GB) else None


def _description(process: GpuProcess) -> str:
    name = re.split(r"[/\\]", process.name)[-1] if process.name else "an unnamed process"
    memory = f"{process.memory_gb:.1f} GB" if process.memory_gb is not None else "size unknown"
    return f"{name} (process {process.pid}, {memory})"
