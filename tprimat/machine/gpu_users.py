"""Who is on the GPUs: memory that other processes hold, and which they are."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tprimat.machine.host import Host
from tprimat.results.run import GpuInfo, Platform
from tprimat.units import GB

HELD_SHARE = 0.01
"""Share of a device's memory in the hands of others from which a run is warned of it."""

OWN_CONTEXT_GB = 1.0
"""What this process's own context may take, GB: some 0.3 to 0.8 on today's GPUs. Where only torch
tells what is in use, less than this can't be told from it."""


@dataclasses.dataclass(frozen=True)
class Device:
    """One GPU as torch numbers it.

    Attributes:
        index: torch's number.
        info: what is known of it; device_count is 1.
        partition: which part of a GPU it is (MIG slice, CPX partition, …); None for a whole one.
        uuid: as the driver names it, without GPU-; None where torch doesn't tell.
        pci_address: domain:bus:device.function; None where torch doesn't tell.
        memory_held_gb: what others held when this was read, GB; None where that can't be told.
    """

    index: int
    info: GpuInfo
    partition: str | None = None
    uuid: str | None = None
    pci_address: str | None = None
    memory_held_gb: float | None = None


def with_held_memory(
    torch: Any, stack: str, devices: Sequence[Device], host: Host
) -> tuple[tuple[Device, ...], list[str]]:
    """The devices with what others hold of their memory, and what could not be told.

    Best told by the vendor's own figures before this process has a context: all of it is then in
    the hands of others (or of the driver). torch's figure needs a context, which it counts.
    """
    # Ranks of one job start at different moments: a rank looks at its own GPU alone.
    rank = host.environ.get("LOCAL_RANK", "")
    asked = [
        device for device in devices if not rank.isdigit() or int(rank) >= len(devices) or device.index == int(rank)
    ]
    in_use = bool(torch.cuda.is_initialized()) and any(torch.cuda.memory_reserved(device.index) for device in asked)
    stated = _stated_use(stack, asked, host)
    own = _own_use(asked, host) if in_use and stack == "cuda" else {}
    held: dict[int, float] = {}
    for device in asked:
        used = stated.get(device.index)
        if used is not None and not in_use:
            held[device.index] = used
        elif used is not None and device.index in own:
            held[device.index] = max(0.0, used - own[device.index])
        elif not in_use and (seen := _seen_by_torch(torch, device)) is not None:
            held[device.index] = seen
    unknown = [str(device.index) for device in asked if device.index not in held]
    why = (
        "this process itself already holds some"
        if in_use
        else "no more is in use than this process's own context takes"
    )
    return (
        tuple(dataclasses.replace(device, memory_held_gb=held.get(device.index)) for device in devices),
        [f"memory held by other processes is unknown on GPU {', '.join(unknown)}: {why}"] if unknown else [],
    )


def sentence(devices: Sequence[Device], vendor: Platform, host: Host) -> str | None:
    """What is said of memory in the hands of others; None where they hold next to none."""
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
    processes = _processes(held, vendor, host)
    named = ", ".join(f"{name} (process {pid}, {gigabytes})" for pid, name, gigabytes in processes)
    variable = "HIP_VISIBLE_DEVICES" if vendor == "amd" else "CUDA_VISIBLE_DEVICES"
    # rocm-smi lists the processes of all GPUs together.
    start = "; on this machine's GPUs run " if vendor == "amd" else ": "
    who = (
        f"{start}{named}" if named else "; which ones the driver doesn't tell here (in a container, ask outside of it)"
    )
    return (
        f"other processes hold memory of {amounts}{who}. They slow this run and leave it less memory: "
        f"end them, or choose other GPUs with {variable} (docs/troubleshooting.md#memory-held)"
    )


def _seen_by_torch(torch: Any, device: Device) -> float | None:
    """What torch sees in use beyond its own allocations, GB; None where that is but a context's size."""
    try:
        free, total = torch.cuda.mem_get_info(device.index)
    except RuntimeError:
        return None
    held = (total - free - torch.cuda.memory_reserved(device.index)) / GB
    return held if held > max(OWN_CONTEXT_GB, HELD_SHARE * total / GB) else None


def _stated_use(stack: str, devices: Sequence[Device], host: Host) -> dict[int, float]:
    """Memory in use by device index, GB, as the driver states it without a context of ours."""
    if stack == "cuda":
        listed = host.command(["nvidia-smi", "--query-gpu=uuid,memory.used", "--format=csv,noheader,nounits"]) or ""
        rows = [line.split(",") for line in listed.splitlines() if line.count(",") == 1]
        mebibytes = {uuid.strip().removeprefix("GPU-").lower(): used.strip() for uuid, used in rows}
        return {
            device.index: int(used) * 2**20 / GB
            for device in devices
            if (used := mebibytes.get(device.uuid or "", "")).isdigit()
        }
    # Partitions of one card share its address: what is in use is then the whole card's.
    shared = collections.Counter(device.pci_address for device in devices)
    return {
        device.index: int(used) / GB
        for device in devices
        if device.pci_address
        and shared[device.pci_address] == 1
        and device.partition is None
        and (
            used := (host.read(f"/sys/bus/pci/devices/{device.pci_address}/mem_info_vram_used") or "").strip()
        ).isdigit()
    }


def _own_use(devices: Sequence[Device], host: Host) -> dict[int, float]:
    """Memory that this process holds, GB by device index, where NVIDIA's driver knows it by our number."""
    return {
        device.index: float(gigabytes)
        for device in devices
        for uuid, pid, _, gigabytes in nvidia_processes(host)
        if uuid == device.uuid and pid == os.getpid() and gigabytes is not None
    }


def nvidia_processes(host: Host) -> Iterator[tuple[str, int, str, float | None]]:
    """GPU, process, name and memory in GB of every process that computes."""
    listed = host.command(
        ["nvidia-smi", "--query-compute-apps=gpu_uuid,pid,process_name,used_memory", "--format=csv,noheader,nounits"]
    )
    for line in (listed or "").splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) >= 4 and words[1].isdigit():
            # A name may hold commas; the memory is [N/A] where the driver hides it.
            used = int(words[-1]) * 2**20 / GB if words[-1].isdigit() else None
            yield words[0].removeprefix("GPU-").lower(), int(words[1]), ",".join(words[2:-1]), used


def _processes(held: Sequence[Device], vendor: Platform, host: Host) -> list[tuple[int, str, str]]:
    """Other processes on these devices: number, name, memory."""
    if vendor == "nvd":
        uuids = {device.uuid for device in held}
        found = [(pid, name, used) for uuid, pid, name, used in nvidia_processes(host) if uuid in uuids]
    else:
        found = list(amd_processes(host))
    return [
        (pid, _program(name), f"{used:.1f} GB" if used is not None else "size not told")
        for pid, name, used in found
        if pid != os.getpid()
    ]


def _program(name: str) -> str:
    """The last part of a path; the driver writes [Not Found] where it can't see the process's container."""
    return "a process of unknown name" if name.startswith("[") or not name else re.split(r"[/\\]", name)[-1]


def amd_processes(host: Host) -> Iterator[tuple[int, str, float]]:
    """Process, name and memory in GB, of all GPUs together: rocm-smi doesn't say which."""
    listed = host.command(["rocm-smi", "--showpids", "--json"]) or ""
    try:
        # Warnings may stand before the JSON.
        stated = json.loads(listed[listed.index("{") :])
    except ValueError:
        return
    system = stated.get("system", {}) if isinstance(stated, Mapping) else {}
    for key, value in system.items() if isinstance(system, Mapping) else ():
        words = [word.strip() for word in str(value).split(",")]
        if key.startswith("PID") and key[3:].isdigit() and len(words) >= 3 and words[2].isdigit() and int(words[2]):
            yield int(key[3:]), words[0], int(words[2]) / GB
