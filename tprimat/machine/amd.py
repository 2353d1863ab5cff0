"""AMD's GPUs: read from the amdgpu driver's files, through the library amdsmi, or through amd-smi and rocm-smi.

The files come first where they state a value: the kernel fixes their form and units (docs.kernel.org, gpu/amdgpu/),
while those of amdsmi changed between releases of ROCm. Processes are known to amdsmi and the tools alone. ROCm brings
amdsmi (rocm.docs.amd.com/projects/amdsmi); the package of that name on PyPI is not AMD's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tprimat.machine.gpu import GpuProcess, GpuState, VendorLibrary, drop_unknown
from tprimat.machine.host import Host
from tprimat.units import GB

SOURCES = "amdsmi, the driver's files and rocm-smi"
"""Where utilisation is read, in words."""

_PCI = "/sys/bus/pci/devices"
_KFD = "/sys/class/kfd/kfd/topology/nodes"
_UNITS = {"B": 1, "KB": 2**10, "KIB": 2**10, "MB": 2**20, "MIB": 2**20, "GB": 2**30, "GIB": 2**30}


class _Amdsmi(VendorLibrary):
    name, error, start, stop = "amdsmi", "AmdSmiException", "amdsmi_init", "amdsmi_shut_down"


def states(host: Host) -> tuple[GpuState, ...]:
    """Return all GPUs in the order of their PCI addresses; none where neither driver nor amdsmi answers."""
    addresses = sorted(path.parent.name for path in host.path(_PCI).glob("*/mem_info_vram_total"))
    cards = [each for each in addresses if (host.read(f"{_PCI}/{each}/vendor") or "").strip() == "0x1002"]
    return tuple(_driver_state(host, index, each) for index, each in enumerate(cards)) or tuple(_library_states(host))


def processes(host: Host) -> tuple[GpuProcess, ...] | None:
    """Return the processes that hold memory, in the order of their GPUs; None where nothing answers."""
    # rocm-smi doesn't state on which GPU a process runs.
    for read in (_library_processes, _amd_smi_processes, _rocm_smi_processes):
        if (listed := read(host)) is not None:
            return tuple(process for process in listed if process.memory_gb != 0)
    return None


def driver_version(host: Host) -> str | None:
    """Return the driver's version, such as "amdgpu 6.10.5"; None where nothing states it."""
    version = (host.read("/sys/module/amdgpu/version") or "").strip()
    return f"amdgpu {version}" if version else None


def peak_clock_mhz(host: Host) -> float | None:
    """Return the highest clock of this machine's GPUs where they agree, MHz: older torch doesn't state it."""
    clocks = set()
    for path in host.path(_KFD).glob("*/properties"):
        words = (host.read(f"{_KFD}/{path.parent.name}/properties") or "").split()
        properties = dict(zip(words[::2], words[1::2], strict=False))
        # CPUs are nodes too, without SIMD units.
        if int(properties.get("simd_count", 0)) > 0:
            clocks.add(int(properties.get("max_engine_clk_fcompute", 0)))
    return float(clocks.pop()) if len(clocks) == 1 and 0 not in clocks else None


def partition(host: Host) -> str | None:
    """Return the compute and memory partition of this machine's GPUs, such as SPX/NPS1; None where they differ."""
    found = set()
    for path in host.path(_PCI).glob("*/current_compute_partition"):
        names = [host.read(f"{_PCI}/{path.parent.name}/current_{which}_partition") for which in ("compute", "memory")]
        found.add("/".join(name.strip() for name in names if name))
    return found.pop() if len(found) == 1 else None


def utilisation_readers(host: Host, ids: list[str]) -> Iterator[Callable[[], Mapping[str, float]]]:
    """Yield functions that read utilisation in percent by GpuState.id, the cheapest first."""
    handles = dict(_handles(smi := _Amdsmi(host)))
    if set(ids) <= set(handles):
        yield lambda: drop_unknown({each: _activity(smi, handles[each]) for each in ids})
    yield lambda: drop_unknown({each: _read(host, f"{_PCI}/{each}/gpu_busy_percent") for each in ids})
    yield lambda: _rocm_smi_utilisation(host)


def _driver_state(host: Host, index: int, address: str) -> GpuState:
    base = f"{_PCI}/{address}"
    sensors = next((path.name for path in sorted(host.path(f"{base}/hwmon").glob("hwmon*"))), None)
    hwmon = f"{base}/hwmon/{sensors}"
    clocks = re.findall(r"^\d+:\s*(\d+)Mhz", host.read(f"{base}/pp_dpm_sclk") or "", re.MULTILINE | re.IGNORECASE)
    name = (host.read(f"{base}/product_name") or "").strip()
    return GpuState(
        index=index,
        name=name or f"AMD {(host.read(f'{base}/device') or '').strip()}",
        memory_total_gb=_read(host, f"{base}/mem_info_vram_total", 1 / GB),
        memory_used_gb=_read(host, f"{base}/mem_info_vram_used", 1 / GB),
        power_cap_w=_read(host, f"{hwmon}/power1_cap", 1e-6),
        power_default_w=_read(host, f"{hwmon}/power1_cap_default", 1e-6),
        power_max_w=_read(host, f"{hwmon}/power1_cap_max", 1e-6),
        clock_mhz=_read(host, f"{hwmon}/freq1_input", 1e-6),
        clock_max_mhz=max(map(float, clocks), default=None),
        id=address.lower(),
        utilisation_percent=_read(host, f"{base}/gpu_busy_percent"),
    )


def _read(host: Host, name: str, factor: float = 1.0) -> float | None:
    """Return the number that a file holds, scaled; None where it holds none."""
    text = (host.read(name) or "").strip()
    return int(text) * factor if re.fullmatch(r"\d{1,18}", text) else None


def _handles(smi: VendorLibrary) -> list[tuple[str, Any]]:
    """Return PCI address and handle of each GPU, in the order in which amd-smi numbers them."""
    handles = smi.ask("amdsmi_get_processor_handles") or ()
    return [(str(smi.ask("amdsmi_get_gpu_device_bdf", handle)).lower(), handle) for handle in handles]


def _activity(smi: VendorLibrary, handle: Any) -> float | None:
    # "N/A" where the firmware doesn't state it.
    value = (smi.ask("amdsmi_get_gpu_activity", handle) or {}).get("gfx_activity")
    return float(value) if isinstance(value, (int, float)) else None


def _library_states(host: Host) -> Iterator[GpuState]:
    with _Amdsmi(host) as smi:
        for index, (address, handle) in enumerate(_handles(smi)):
            total, used = (
                # In bytes; the pair that amdsmi_get_gpu_vram_usage() returns is in MiB.
                smi.ask(f"amdsmi_get_gpu_memory_{which}", handle, smi.module.AmdSmiMemoryType.VRAM)
                for which in ("total", "usage")
            )
            name = (smi.ask("amdsmi_get_gpu_asic_info", handle) or {}).get("market_name") or "unknown GPU"
            percent, total_gb, used_gb = _activity(smi, handle), _gigabytes(total), _gigabytes(used)
            yield GpuState(index, name, total_gb, used_gb, id=address, utilisation_percent=percent)


def _library_processes(host: Host) -> list[GpuProcess] | None:
    with _Amdsmi(host) as smi:
        handles = _handles(smi)
        processes = []
        for index, (address, handle) in enumerate(handles):
            listed = smi.ask("amdsmi_get_gpu_process_list", handle)
            # Before ROCm 6.1 these were handles, of which amd-smi knows more.
            if listed is None or not all(isinstance(each, Mapping) for each in listed):
                return None
            for each in listed:
                memory = (each.get("memory_usage") or {}).get("vram_mem")
                processes.append(GpuProcess(each["pid"], str(index), address, _name(each), _gigabytes(memory)))
        return processes if handles else None


def _amd_smi_processes(host: Host) -> list[GpuProcess] | None:
    gpus = _json(host.command(["amd-smi", "process", "--json"]))
    if isinstance(gpus, Mapping):
        # Since 2025 the list has a name.
        gpus = next((each for each in gpus.values() if isinstance(each, list)), None)
    if not isinstance(gpus, list):
        return None
    processes = []
    for gpu in map(_mapping, gpus):
        for entry in gpu.get("process_list") or ():
            # Without any process this is a sentence.
            info = _mapping(_mapping(entry).get("process_info"))
            if str(info.get("pid", "")).isdigit():
                usage = info.get("memory_usage")
                memory = usage.get("vram_mem") if isinstance(usage, Mapping) else info.get("mem_usage")
                number = str(gpu.get("gpu", "")) or None
                processes.append(GpuProcess(int(info["pid"]), number, None, _name(info), _gigabytes(memory)))
    return processes


def _rocm_smi_processes(host: Host) -> list[GpuProcess] | None:
    text = host.command(["rocm-smi", "--showpids", "--json"])
    if text is None:
        return None
    processes = []
    for key, value in _mapping(_mapping(_json(text)).get("system")).items():
        words = [word.strip() for word in str(value).split(",")]
        if key.startswith("PID") and key[3:].isdigit() and len(words) >= 3 and words[2].isdigit():
            processes.append(GpuProcess(int(key[3:]), None, None, words[0] or None, int(words[2]) / GB))
    return processes


def _rocm_smi_utilisation(host: Host) -> dict[str, float]:
    cards = _mapping(_json(host.command(["rocm-smi", "--showuse", "--showbus", "--json"]))).values()
    stated = [(str(card.get("PCI Bus", "")), str(card.get("GPU use (%)", ""))) for card in map(_mapping, cards)]
    return {address.lower(): float(percent) for address, percent in stated if address and percent.isdigit()}


def _json(text: str | None) -> Any:
    """Decode the JSON that a tool prints, after warnings or not; None where there is none."""
    start = re.search(r"[\[{]", text or "")
    try:
        return json.loads((text or "")[start.start() :]) if start else None
    except ValueError:
        return None


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return an object of JSON; an empty one for what is none."""
    return value if isinstance(value, Mapping) else {}


def _name(info: Mapping[str, Any]) -> str | None:
    name = str(info.get("name") or "N/A")
    return None if name == "N/A" else name


def _gigabytes(memory: Any) -> float | None:
    value = memory.get("value") if isinstance(memory, Mapping) else memory
    unit = str(_mapping(memory).get("unit", "B")).upper()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or unit not in _UNITS:
        return None
    return value * _UNITS[unit] / GB
