"""GPU memory that other processes hold, and which processes they are.

It is read before a training starts, and handed over to it: the training's own memory would be in
the way.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import psutil

from tprimat.machine import amd, nvidia, torch_build
from tprimat.machine import host as hosts
from tprimat.machine.gpu import Device, GpuProcess
from tprimat.machine.host import Host
from tprimat.notes import Note
from tprimat.results.fields import Figures, known_values
from tprimat.results.run import Platform
from tprimat.units import GB, round_figure

HELD_SHARE = 0.01
"""Share of a device's memory in the hands of others from which it is not free for a run."""

LEAST_WARNED_GB, SYSTEM_SHARE = 1.0, 0.1
"""From where on a run is warned of it: more than a desktop takes, GB; or than the system takes of
memory that it shares with the GPU, as a share.
"""

VARIABLE = "TPRIMAT_MEMORY_HELD"
"""The environment variable by which the process that starts a training passes the memory of each
GPU that others hold to the training: GB by `index:id`, null if unknown.
"""

_READ: Figures = {}
"""What this process has read before it held memory itself, for those that it starts, and for later.
"""

OWN_CONTEXT_GB = 1.0
"""Memory that this process's own context may take, GB: some 0.3 to 0.8 on today's GPUs. If only
torch states the memory in use, less than this can't be distinguished from the context.
"""


def with_held_memory(
    torch: Any, platform: Platform, devices: Sequence[Device], host: Host
) -> tuple[tuple[Device, ...], list[Note]]:
    """Return the devices with the memory that others hold, and notes on unknown values.

    What the process that started this one has read holds. Else the vendor's own values are best,
    read before this process has a context: all of it then belongs to others (or to the driver).
    torch's value counts its own context.
    """
    held = {}
    with contextlib.suppress(msgspec.MsgspecError):
        handed = msgspec.json.decode(host.environ.get(VARIABLE, ""), type=Figures)
        held = {device.index: handed[_key(device)] for device in devices if _key(device) in handed}
    # Ranks of one job start at different moments: a rank looks at its own GPU alone.
    rank = host.environ.get("LOCAL_RANK", "")
    own_gpu = int(rank) if rank.isdigit() and int(rank) < len(devices) else None
    read = []
    for device in devices:
        if device.index not in held and own_gpu in (None, device.index):
            read.append(device)
    in_use = bool(torch.cuda.is_initialized()) and any(
        torch.cuda.memory_reserved(device.index) for device in read
    )
    used_gb = {}
    if read:
        vendor = nvidia if platform == "nvd" else amd
        used_gb = {state.id: state.memory_used_gb for state in vendor.states(host)}
    own_gb = _own_gb(host) if in_use and platform == "nvd" else {}
    # Partitions of one card share its address: the memory in use is then that of the whole card.
    sharing = collections.Counter(device.id for device in read)

    def held_of(device: Device) -> float | None:
        if device.is_integrated:
            return _held_of_shared(torch.cuda.memory_reserved(device.index) if in_use else 0)
        is_whole = sharing[device.id] == 1 and not (platform == "amd" and device.partition)
        used = used_gb.get(device.id) if is_whole else None
        own = own_gb.get(device.id)
        if in_use:
            if used is None or own is None:
                return _READ.get(_key(device))
            return max(0.0, float(used - own))
        return _seen_by_torch(torch, device) if used is None else used

    held |= {device.index: held_of(device) for device in read}
    complete = []
    for device in devices:
        if not in_use and device.index in held:
            _READ[_key(device)] = held[device.index]
        complete.append(dataclasses.replace(device, memory_held_gb=held.get(device.index)))
    unknown = [str(index) for index, gigabytes in held.items() if gigabytes is None]
    if not unknown:
        return tuple(complete), []
    why = "memory in use is no more than this process's context"
    if in_use:
        why = "this process itself already holds some"
    note = Note("held-memory-unknown", {"gpus": ", ".join(unknown), "why": why})
    return tuple(complete), [note]


def _own_gb(host: Host) -> dict[str | None, float | None]:
    """Return what this process holds of each GPU, GB, as NVIDIA's driver states it if it knows the
    process by our number; AMD's driver doesn't.
    """
    own = {}
    for process in nvidia.processes(host) or ():
        if process.pid == os.getpid():
            own[process.gpu_id] = process.memory_gb
    return own


def _held_of_shared(reserved: int) -> float:
    """Return the memory, shared by CPU and GPU, that others hold, GB; torch has reserved a number
    of its bytes.
    """
    ours = int(psutil.Process().memory_info().rss) + reserved
    return max(0.0, hosts.memory_gb() - (hosts.available_bytes() + ours) / GB)


def handed_over() -> dict[str, str]:
    """Return the variable for a process that this one starts; none if this one has read nothing."""
    if _READ:
        return {VARIABLE: msgspec.json.encode(_READ).decode()}
    return {}


def most_held_gb(devices: Sequence[Device]) -> float | None:
    """Return the memory that others hold on the fullest device, GB; None if it is unknown for
    all.
    """
    held = known_values(device.memory_held_gb for device in devices)
    if held:
        return round_figure(max(held))
    return None


def held_memory_warning(devices: Sequence[Device], platform: Platform, host: Host) -> str | None:
    """Return the warning about memory that others hold; None if they hold next to none."""
    amounts = []
    ids = set()
    for device in devices:
        held = device.memory_held_gb or 0.0
        total = device.info.total_memory_gb or 0.0
        if device.is_integrated:
            least = SYSTEM_SHARE * total
        else:
            least = max(LEAST_WARNED_GB, HELD_SHARE * total)
        if held > least:
            amounts.append(f"GPU {device.index} ({held:.1f} of {total:.1f} GB)")
            ids.add(device.id)
    if not amounts:
        return None
    if platform == "nvd":
        listed = nvidia.processes(host, graphics=True)
    else:
        listed = amd.processes(host)
    others = [process for process in listed or () if process.pid != os.getpid()]
    # AMD's tools don't state a GPU's address: their processes are those of all GPUs.
    located = platform == "nvd" or all(process.gpu_id is not None for process in others)
    named = ", ".join(
        _description(process) for process in others if not located or process.gpu_id in ids
    )
    variable = "HIP_VISIBLE_DEVICES" if platform == "amd" else "CUDA_VISIBLE_DEVICES"
    if any(device.is_integrated for device in devices):
        who = ", which is the system's"
    elif named and located:
        who = f": {named}"
    elif named:
        who = f"; running on this machine's GPUs: {named}"
    elif hosts.container(host):
        who = "; the driver doesn't list them here (in a container: check on the host)"
    else:
        who = "; the driver doesn't list them here (a desktop's, or a driver's own)"
    return (
        f"other processes hold memory of {', '.join(amounts)}{who}; they leave this run less"
        f" memory, and slow it while they compute: stop them, or select other GPUs with {variable}"
        " (docs/troubleshooting.md#memory-held)"
    )


def _key(device: Device) -> str:
    return f"{device.index}:{device.id}"


def _seen_by_torch(torch: Any, device: Device) -> float | None:
    """Return what torch sees in use beyond its own allocations, GB; None if it is no more than a
    context.
    """
    try:
        free, total = torch_build.memory_info(torch.cuda, device.index)
    except RuntimeError:
        return None
    held = (total - free - torch.cuda.memory_reserved(device.index)) / GB
    return held if held > max(OWN_CONTEXT_GB, HELD_SHARE * total / GB) else None


def _description(process: GpuProcess) -> str:
    name = re.split(r"[/\\]", process.name)[-1] if process.name else "an unnamed process"
    memory = f"{process.memory_gb:.1f} GB" if process.memory_gb is not None else "size unknown"
    return f"{name} (process {process.pid}, {memory})"
