"""NVIDIA's GPUs: read through NVML (the package nvidia-ml-py), and where that fails through nvidia-smi.

NVML makes no CUDA context. Its functions and units: docs.nvidia.com/deploy/nvml-api; what nvidia-smi
prints: `nvidia-smi --help-query-gpu`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tprimat.machine.gpu import GpuProcess, GpuState, VendorLibrary, drop_unknown
from tprimat.machine.host import Host
from tprimat.units import GB

SOURCES = "NVML and nvidia-smi"
"""Where utilisation is read, in words."""

_MIB = 2**20
_NUMBERS = {
    "memory.total": "memory_total_gb",
    "memory.used": "memory_used_gb",
    "power.limit": "power_cap_w",
    "power.default_limit": "power_default_w",
    "power.max_limit": "power_max_w",
    "clocks.current.sm": "clock_mhz",
    "clocks.max.sm": "clock_max_mhz",
    "utilization.gpu": "utilisation_percent",
}
"""Numbers that nvidia-smi prints, and the fields of GpuState that hold them; memory is in MiB."""

_QUERY = ("index", "name", "uuid", *_NUMBERS, "mig.mode.current")
_APPS = "gpu_uuid,pid,process_name,used_memory"


class _Nvml(VendorLibrary):
    name, error, start, stop = "pynvml", "NVMLError", "nvmlInit", "nvmlShutdown"


def states(host: Host) -> tuple[GpuState, ...]:
    """Return all GPUs in the driver's order; none where neither NVML nor nvidia-smi answers."""
    with _Nvml(host) as nvml:
        devices = _handles(nvml)
        if devices and None not in devices:
            return tuple(_state(nvml, index, handle) for index, handle in enumerate(devices))
        # One that has fallen off the bus fails alone.
        rows = {index: _state(nvml, index, handle) for index, handle in enumerate(devices) if handle is not None}
    return tuple(row for _, row in sorted({**{row.index: row for row in _smi_states(host)}, **rows}.items()))


def processes(host: Host) -> tuple[GpuProcess, ...] | None:
    """Return the processes that compute, in the order of their GPUs; None where nothing answers."""
    with _Nvml(host) as nvml:
        devices = _handles(nvml)
        by_device = [_processes(nvml, index, handle) for index, handle in enumerate(devices)]
    known = tuple(process for each in by_device if each is not None for process in each)
    # A GPU in MIG mode shows its processes to root alone.
    if by_device and None not in by_device:
        return known
    listed = _smi_processes(host)
    return (known or None) if listed is None else listed


def driver_version(host: Host) -> str | None:
    """Return the driver's version, such as "NVIDIA 550.54.15"; None where nothing states it."""
    text = host.read("/proc/driver/nvidia/version") or ""
    match = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)", text)
    if not match:
        with _Nvml(host) as nvml:
            text = nvml.ask("nvmlSystemGetDriverVersion") or ""
        text = text or host.command(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]) or ""
        match = re.match(r"\s*(\d+\.[\d.]+)", text)
    return f"NVIDIA {match[1]}" if match else None


def utilisation_readers(host: Host, ids: list[str]) -> Iterator[Callable[[], Mapping[str, float]]]:
    """Yield functions that read utilisation in percent by GpuState.id, the cheapest first."""
    nvml = _Nvml(host)
    handles = {each: nvml.ask("nvmlDeviceGetHandleByUUID", f"GPU-{each}".encode()) for each in ids}
    if None not in handles.values():
        yield lambda: drop_unknown({each: _utilisation(nvml, handle) for each, handle in handles.items()})
    yield lambda: drop_unknown({row.id: row.utilisation_percent for row in _smi_states(host) if row.id})


def _handles(nvml: VendorLibrary) -> list[Any]:
    """Return the handle of each GPU; None for one that fails."""
    return [nvml.ask("nvmlDeviceGetHandleByIndex", index) for index in range(nvml.ask("nvmlDeviceGetCount") or 0)]


def _state(nvml: VendorLibrary, index: int, handle: Any) -> GpuState:
    # Version 2 counts what the driver reserves apart, as nvidia-smi does.
    version = getattr(nvml.module, "nvmlMemory_v2", None)
    memory = nvml.ask("nvmlDeviceGetMemoryInfo", handle, version) or nvml.ask("nvmlDeviceGetMemoryInfo", handle)
    _, most = nvml.ask("nvmlDeviceGetPowerManagementLimitConstraints", handle) or (None, None)
    cap, default = (nvml.ask(f"nvmlDeviceGetPowerManagement{which}Limit", handle) for which in ("", "Default"))
    clock, clock_max = (
        nvml.ask(f"nvmlDeviceGet{which}ClockInfo", handle, nvml.module.NVML_CLOCK_SM) for which in ("", "Max")
    )
    mig = nvml.ask("nvmlDeviceGetMigMode", handle)
    return GpuState(
        index=index,
        name=nvml.ask("nvmlDeviceGetName", handle) or "unknown GPU",
        memory_total_gb=memory.total / GB if memory else None,
        memory_used_gb=memory.used / GB if memory else None,
        power_cap_w=_watts(cap),
        power_default_w=_watts(default),
        power_max_w=_watts(most),
        clock_mhz=clock,
        clock_max_mhz=clock_max,
        partitioned=bool(mig and mig[0]),
        id=_id(nvml.ask("nvmlDeviceGetUUID", handle)),
        utilisation_percent=_utilisation(nvml, handle),
    )


def _utilisation(nvml: VendorLibrary, handle: Any) -> float | None:
    rates = nvml.ask("nvmlDeviceGetUtilizationRates", handle)
    return None if rates is None else float(rates.gpu)


def _processes(nvml: VendorLibrary, index: int, handle: Any) -> list[GpuProcess] | None:
    listed = nvml.ask("nvmlDeviceGetComputeRunningProcesses", handle)
    if listed is None:
        return None
    gpu_id = _id(nvml.ask("nvmlDeviceGetUUID", handle))
    return [
        GpuProcess(
            pid=each.pid,
            gpu=str(index),
            gpu_id=gpu_id,
            name=nvml.ask("nvmlSystemGetProcessName", each.pid),
            memory_gb=None if each.usedGpuMemory is None else each.usedGpuMemory / GB,
        )
        for each in listed
    ]


def _smi_states(host: Host) -> list[GpuState]:
    text = host.command(["nvidia-smi", f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits"]) or ""
    rows = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(", ")]
        if len(cells) == len(_QUERY) and cells[0].isdigit():
            index, name, uuid, *texts, mig = cells
            numbers: dict[str, Any] = {
                field: number * _MIB / GB if field.endswith("_gb") else number
                for text, field in zip(texts, _NUMBERS.values(), strict=True)
                if (number := _number(text)) is not None
            }
            rows.append(GpuState(int(index), name, partitioned=mig == "Enabled", id=_id(uuid), **numbers))
    return rows


def _smi_processes(host: Host) -> tuple[GpuProcess, ...] | None:
    text = host.command(["nvidia-smi", f"--query-compute-apps={_APPS}", "--format=csv,noheader,nounits"])
    if text is None:
        return None
    indices = {row.id: str(row.index) for row in _smi_states(host)} if text.strip() else {}
    processes = []
    for line in text.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) >= 4 and words[1].isdigit():
            # A name may hold commas, and is [Not Found] where it belongs to another container.
            name, memory, gpu_id = ",".join(words[2:-1]), _number(words[-1]), _id(words[0])
            program = None if name.startswith("[") else name or None
            memory_gb = None if memory is None else memory * _MIB / GB
            processes.append(GpuProcess(int(words[1]), indices.get(gpu_id), gpu_id, program, memory_gb))
    return tuple(processes)


def _id(uuid: str | None) -> str | None:
    return uuid.removeprefix("GPU-").lower() if uuid and uuid.startswith("GPU-") else None


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _number(text: str) -> float | None:
    """Return a plain number; None for [N/A], [Not Supported] and the like."""
    return float(text) if re.fullmatch(r"\d{1,18}(\.\d{1,6})?", text) else None
