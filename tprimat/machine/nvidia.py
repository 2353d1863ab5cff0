"""NVIDIA's GPUs: read through NVML (the package nvidia-ml-py), and where that fails through
nvidia-smi.

NVML makes no CUDA context. Its functions and units: docs.nvidia.com/deploy/nvml-api; what
nvidia-smi prints: `nvidia-smi --help-query-gpu`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tprimat.machine.gpu import GpuProcess, GpuState, VendorLibrary
from tprimat.machine.host import Host
from tprimat.results.fields import FieldValues, known_values
from tprimat.units import GB

SOURCES = "NVML and nvidia-smi"
"""Where GPUs are read, in words."""

_MIB = 2**20
_DRIVER_VERSION = re.compile(r"Kernel Module.{0,200}?\s(\d{1,9}\.[\d.]{1,40})")
_NUMBERS = {
    "memory.total": "memory_total_gb",
    "memory.used": "memory_used_gb",
    "power.limit": "power_cap_w",
    "power.default_limit": "power_default_w",
    "power.max_limit": "power_max_w",
    "clocks.current.sm": "clock_mhz",
    "clocks.max.sm": "clock_max_mhz",
    "utilization.gpu": "utilisation_percent",
    "power.draw": "power_w",
    "temperature.gpu": "temperature_c",
    "clocks.current.memory": "memory_clock_mhz",
}
"""Numbers that nvidia-smi prints, and the fields of GpuState that hold them; memory is in MiB."""

_QUERY = ("index", "name", "uuid", *_NUMBERS, "mig.mode.current")
_REASONS = {
    0x2: "clock-setting", 0x4: "power-cap", 0x8: "hardware-slowdown", 0x10: "sync-boost", 0x20: "thermal",
    0x40: "thermal", 0x80: "power-brake", 0x100: "clock-setting",
}  # fmt: skip
"""Bits of nvmlDeviceGetCurrentClocksEventReasons, of all that NVML documents but idleness (0x1)."""

_XID, _POWER_AVERAGE, _MOST_EVENTS = 0x8, 185, 16
# NVML's constants for events and fields, which older releases of the package lack.

_ASKED = {
    "temperature_c": ("nvmlDeviceGetTemperature", (0,)),
    "memory_clock_mhz": ("nvmlDeviceGetClockInfo", (2,)),
    "ecc_corrected": ("nvmlDeviceGetTotalEccErrors", (0, 0)),
    "ecc_uncorrected": ("nvmlDeviceGetTotalEccErrors", (1, 0)),
    "pcie_replays": ("nvmlDeviceGetPcieReplayCounter", ()),
    "pcie_width": ("nvmlDeviceGetCurrPcieLinkWidth", ()),
    "pcie_width_max": ("nvmlDeviceGetMaxPcieLinkWidth", ()),
}
"""Fields of GpuState that NVML has as they are, and what it is asked: a function, and numbers for
the GPU's own sensor, the memory's clock, and the kind of error, counted since the driver was
loaded.
"""

_PARTLY_SAMPLED = re.compile(r"\b(A100|A800|H100|H800|H200|H20|GH200)\b")
"""GPUs whose power readings cover about a quarter of the time (Yang et al., arXiv 2312.02741: A100
and H100).
"""

_LINK_COUNTERS = tuple(
    f"NVML_FI_DEV_NVLINK_{kind}_ERROR_COUNT_TOTAL" for kind in ("CRC_FLIT", "REPLAY", "RECOVERY")
)

_APPS = "gpu_uuid,pid,process_name,used_memory"


class _Nvml(VendorLibrary):
    name, error, start, stop = "pynvml", "NVMLError", "nvmlInit", "nvmlShutdown"


def states(host: Host) -> tuple[GpuState, ...]:
    """Return all GPUs in the driver's order; none if neither NVML nor nvidia-smi answers."""
    with _Nvml(host) as nvml:
        handles = _handles(nvml)
        rows = {}
        for index, handle in enumerate(handles):
            if handle is not None:
                rows[index] = _state(nvml, index, handle)
    if not handles or None in handles:
        # One that has fallen off the bus fails alone.
        for row in _smi_states(host):
            rows.setdefault(row.index, row)
    return tuple(rows[index] for index in sorted(rows))


def processes(host: Host, *, graphics: bool = False) -> tuple[GpuProcess, ...] | None:
    """Return the processes that compute, and by NVML those that draw, in the order of their GPUs;
    None: no answer.
    """
    kinds = ("Compute", "Graphics") if graphics else ("Compute",)
    with _Nvml(host) as nvml:
        by_device = []
        for index, handle in enumerate(_handles(nvml)):
            by_device.append(_processes(nvml, index, handle, kinds))
    processes: list[GpuProcess] = []
    for of_device in by_device:
        processes += of_device or ()
    # A GPU in MIG mode shows its processes to root alone.
    if by_device and None not in by_device:
        return tuple(processes)
    listed = _smi_processes(host)
    if listed is None:
        return tuple(processes) or None
    return listed


def driver_version(host: Host) -> str | None:
    """Return the driver's version, such as "NVIDIA 550.54.15"; None if nothing states it."""
    text = host.read("/proc/driver/nvidia/version") or ""
    match = _DRIVER_VERSION.search(text)
    if not match:
        with _Nvml(host) as nvml:
            text = nvml.ask("nvmlSystemGetDriverVersion")
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        match = re.match(r"\s*(\d+\.[\d.]+)", text or host.command(query) or "")
    if match:
        return f"NVIDIA {match[1]}"
    return None


class Reader:
    """Reads the GPUs with these ids through NVML, which stays open, or else through nvidia-smi."""

    def __init__(self, host: Host, ids: Sequence[str]) -> None:
        self._host = host
        self._ids = ids
        self._nvml = nvml = _Nvml(host)
        self._handles = [
            nvml.ask("nvmlDeviceGetHandleByUUID", f"GPU-{uuid}".encode()) for uuid in ids
        ]
        self._events = nvml.ask("nvmlEventSetCreate")
        for handle in self._handles:
            nvml.ask("nvmlDeviceRegisterEvents", handle, _XID, self._events)

    def read(self) -> tuple[GpuState, ...]:
        """Return the GPUs that answer."""
        if None in self._handles:
            return tuple(row for row in _smi_states(self._host) if row.id in self._ids)
        states = [_state(self._nvml, index, handle) for index, handle in enumerate(self._handles)]
        xids = self._new_xids()
        # A GPU that has fallen off the bus still has its handle, and no UUID.
        answering = []
        for state in states:
            if state.id:
                state = state.but(xids=tuple(xids.get(state.id, ())))
                answering.append(state)
        return tuple(answering)

    def _new_xids(self) -> dict[str | None, list[int]]:
        xids: dict[str | None, list[int]] = {}
        for _ in range(_MOST_EVENTS):
            event = self._nvml.ask("nvmlEventSetWait_v2", self._events, 0)
            if event is None:
                break
            gpu_id = _id(self._nvml.ask("nvmlDeviceGetUUID", event.device))
            xids.setdefault(gpu_id, []).append(int(event.eventData))
        return xids


def _handles(nvml: VendorLibrary) -> list[Any]:
    """Return the handle of each GPU; None for one that fails."""
    return [
        nvml.ask("nvmlDeviceGetHandleByIndex", index)
        for index in range(nvml.ask("nvmlDeviceGetCount") or 0)
    ]


def _state(nvml: VendorLibrary, index: int, handle: Any) -> GpuState:
    # Version 2 counts the driver's reserve separately, as nvidia-smi does.
    version = getattr(nvml.module, "nvmlMemory_v2", None)
    memory = nvml.ask("nvmlDeviceGetMemoryInfo", handle, version) or nvml.ask(
        "nvmlDeviceGetMemoryInfo", handle
    )
    _, most = nvml.ask("nvmlDeviceGetPowerManagementLimitConstraints", handle) or (None, None)
    clock = nvml.module.NVML_CLOCK_SM
    mig = nvml.ask("nvmlDeviceGetMigMode", handle)
    name = nvml.ask("nvmlDeviceGetName", handle) or "unknown GPU"
    fields = _power(nvml, handle, name)
    for field, (function, numbers) in _ASKED.items():
        fields[field] = nvml.ask(function, handle, *numbers)
    if memory:
        fields |= {"memory_total_gb": memory.total / GB, "memory_used_gb": memory.used / GB}
    rates = nvml.ask("nvmlDeviceGetUtilizationRates", handle)
    if rates is not None:
        fields["utilisation_percent"] = float(rates.gpu)
    # Ampere and later remap rows; (corrected, uncorrected, pending, failed).
    remapped = nvml.ask("nvmlDeviceGetRemappedRows", handle)
    if remapped is not None:
        fields["retired_pages"] = int(remapped[0]) + int(remapped[1])
    counters = [_field(nvml, handle, getattr(nvml.module, name, None)) for name in _LINK_COUNTERS]
    link_errors = known_values(counters)
    if link_errors:
        fields["link_errors"] = sum(link_errors)
    running = nvml.ask("nvmlDeviceGetComputeRunningProcesses", handle)
    if running is not None:
        fields["pids"] = tuple(process.pid for process in running)
    return GpuState(
        index=index,
        name=name,
        power_cap_w=_watts(nvml.ask("nvmlDeviceGetPowerManagementLimit", handle)),
        power_default_w=_watts(nvml.ask("nvmlDeviceGetPowerManagementDefaultLimit", handle)),
        power_max_w=_watts(most),
        clock_mhz=nvml.ask("nvmlDeviceGetClockInfo", handle, clock),
        clock_max_mhz=nvml.ask("nvmlDeviceGetMaxClockInfo", handle, clock),
        partitioned=bool(mig and mig[0]),
        id=_id(nvml.ask("nvmlDeviceGetUUID", handle)),
        throttle=_throttle_reasons(nvml, handle),
        **fields,
    )


def _power(nvml: VendorLibrary, handle: Any, name: str) -> FieldValues:
    """Return the energy counter and the power, averaged over a second if the driver has that."""
    fields: FieldValues = {}
    energy = nvml.ask("nvmlDeviceGetTotalEnergyConsumption", handle)
    if energy is not None:
        fields["energy_j"] = energy / 1000
    average = _field(nvml, handle, _POWER_AVERAGE)
    if average is not None:
        fields |= {"power_w": average / 1000, "power_is_average": True}
    else:
        fields["power_w"] = _watts(nvml.ask("nvmlDeviceGetPowerUsage", handle))
        if _PARTLY_SAMPLED.search(name):
            fields["power_is_average"] = False
    return fields


def _field(nvml: VendorLibrary, handle: Any, field: Any) -> int | None:
    values = nvml.ask("nvmlDeviceGetFieldValues", handle, [field])
    return values[0].value.uiVal if values and values[0].nvmlReturn == 0 else None


def _throttle_reasons(nvml: VendorLibrary, handle: Any) -> tuple[str, ...]:
    bits = nvml.ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if bits is None:
        # Its name before the package's release 12.
        bits = nvml.ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    return tuple(sorted({name for bit, name in _REASONS.items() if (bits or 0) & bit}))


def _processes(
    nvml: VendorLibrary, index: int, handle: Any, kinds: Sequence[str]
) -> list[GpuProcess] | None:
    answers = [nvml.ask(f"nvmlDeviceGet{kind}RunningProcesses", handle) for kind in kinds]
    if answers[0] is None:
        return None
    gpu_id = _id(nvml.ask("nvmlDeviceGetUUID", handle))
    processes = {}
    for answer in answers:
        for row in answer or ():
            name = nvml.ask("nvmlSystemGetProcessName", row.pid)
            memory_gb = None if row.usedGpuMemory is None else row.usedGpuMemory / GB
            # Some compute and draw: they are listed twice.
            processes[row.pid] = GpuProcess(row.pid, str(index), gpu_id, name, memory_gb)
    return list(processes.values())


def _smi_states(host: Host) -> list[GpuState]:
    query = ["nvidia-smi", f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits"]
    rows = []
    for line in (host.command(query) or "").splitlines():
        cells = [cell.strip() for cell in line.split(", ")]
        if len(cells) == len(_QUERY) and cells[0].isdigit():
            index, name, uuid, *texts, mig = cells
            numbers: FieldValues = {}
            for text, field in zip(texts, _NUMBERS.values(), strict=True):
                number = _number(text)
                if number is not None:
                    numbers[field] = number * _MIB / GB if field.endswith("_gb") else number
            rows.append(
                GpuState(int(index), name, partitioned=mig == "Enabled", id=_id(uuid), **numbers)
            )
    return rows


def _smi_processes(host: Host) -> tuple[GpuProcess, ...] | None:
    text = host.command(
        ["nvidia-smi", f"--query-compute-apps={_APPS}", "--format=csv,noheader,nounits"]
    )
    if text is None:
        return None
    indices = {row.id: str(row.index) for row in _smi_states(host)} if text.strip() else {}
    processes = []
    for line in text.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) >= 4 and words[1].isdigit():
            # A name may hold commas, and is [Not Found] where it belongs to another container.
            name = ",".join(words[2:-1])
            memory = _number(words[-1])
            gpu_id = _id(words[0])
            program = None if name.startswith("[") else name or None
            memory_gb = None if memory is None else memory * _MIB / GB
            processes.append(
                GpuProcess(int(words[1]), indices.get(gpu_id), gpu_id, program, memory_gb)
            )
    return tuple(processes)


def _id(uuid: str | None) -> str | None:
    if uuid and uuid.startswith("GPU-"):
        return uuid.removeprefix("GPU-").lower()
    return None


def _watts(milliwatts: int | None) -> float | None:
    if milliwatts is None:
        return None
    return milliwatts / 1000


def _number(text: str) -> float | None:
    """Return a plain number; None for [N/A], [Not Supported] and the like."""
    if re.fullmatch(r"\d{1,18}(\.\d{1,6})?", text):
        return float(text)
    return None
