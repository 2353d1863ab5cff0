"""AMD's GPUs: read from the amdgpu driver's files, through the library amdsmi, or through amd-smi
and rocm-smi.

The files come first if they state a value: the kernel fixes their form and units (docs.kernel.org,
gpu/amdgpu/), while those of amdsmi changed between releases of ROCm. Processes are known to amdsmi
and the tools alone. ROCm brings amdsmi (rocm.docs.amd.com/projects/amdsmi); the package of that
name on PyPI is not AMD's.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tprimat.machine.gpu import GpuProcess, GpuState, VendorLibrary
from tprimat.machine.host import Host
from tprimat.results.fields import FieldValues, known_items
from tprimat.units import GB

Values = Mapping[str, Any]
"""Values of a library or a program of AMD, by name."""

SOURCES = "amdsmi, the driver's files and amd-smi"
"""Where GPUs are read, in words."""

_PCI = "/sys/bus/pci/devices"
_KFD = "/sys/class/kfd/kfd/topology/nodes"
_TWO_DIES = ("0x7408", "0x740c")
"""PCI device numbers of MI250X and MI250, of whose two dies one counts the energy of both (libdrm's
amdgpu.ids).
"""

_RESIDENCIES = {
    "ppt_residency_acc": "power-cap",
    "socket_thm_residency_acc": "thermal",
    "vr_thm_residency_acc": "thermal",
    "hbm_thm_residency_acc": "thermal",
    "prochot_residency_acc": "hardware-slowdown",
}
"""Counters of gpu_metrics, which count together with its accumulation_counter while a limit holds
(MI300 and later).
"""

_INDEPENDENT_BITS = {0xFFFF: "power-cap", 0xFFFF << 16: "power-cap", 0xFFFF << 32: "thermal"}
"""Bits of gpu_metrics' indep_throttle_status (MI200 and earlier): power, current, temperature
(kgd_pp_interface.h).
"""

_BITS = struct.Struct("<xxBB108xQ")
"""The driver's file gpu_metrics of these GPUs, gpu_metrics_v1_3: its revision, 1 and 3, and the
bits.
"""

_LEAST_RESIDENCY = 0.05
"""Share of the time since the last reading from which a limit counts as held."""

_UNITS = {"B": 1, "KB": 2**10, "KIB": 2**10, "MB": 2**20, "MIB": 2**20, "GB": 2**30, "GIB": 2**30}


class _Amdsmi(VendorLibrary):
    name, error, start, stop = "amdsmi", "AmdSmiException", "amdsmi_init", "amdsmi_shut_down"


def states(host: Host) -> tuple[GpuState, ...]:
    """Return all GPUs in the order of their PCI addresses; none if neither driver nor amdsmi
    answers.
    """
    with _Amdsmi(host) as smi:
        return _known_states(host, smi)


def processes(host: Host) -> tuple[GpuProcess, ...] | None:
    """Return the processes that hold memory, in the order of their GPUs; None if nothing
    answers.
    """
    # rocm-smi doesn't state on which GPU a process runs.
    for read in (_library_processes, _amd_smi_processes, _rocm_smi_processes):
        listed = read(host)
        if listed is not None:
            return tuple(process for process in listed if process.memory_gb != 0)
    return None


def driver_version(host: Host) -> str | None:
    """Return the driver's version, such as "amdgpu 6.10.5"; None if nothing states it."""
    version = (host.read("/sys/module/amdgpu/version") or "").strip()
    if version:
        return f"amdgpu {version}"
    return None


def peak_clock_mhz(host: Host) -> float | None:
    """Return the maximum clock of this machine's GPUs if they agree, MHz: older torch doesn't state
    it.
    """
    clocks = {int(node.get("max_engine_clk_fcompute", 0)) for node in _gpu_nodes(host)}
    if len(clocks) == 1 and 0 not in clocks:
        return float(clocks.pop())
    return None


def has_instinct(host: Host) -> bool:
    """Return whether one of the GPUs is made to compute alone (gfx908, gfx90a, gfx94x, gfx950), no
    desktop's.
    """
    versions = [int(node.get("gfx_target_version", 0)) for node in _gpu_nodes(host)]
    return any(version in (90008, 90010) or 90400 <= version < 100000 for version in versions)


def _gpu_nodes(host: Host) -> Iterator[Mapping[str, str]]:
    for path in host.path(_KFD).glob("*/properties"):
        words = (host.read(f"{_KFD}/{path.parent.name}/properties") or "").split()
        properties = dict(zip(words[::2], words[1::2], strict=False))
        # CPUs are nodes too, without SIMD units.
        if int(properties.get("simd_count", 0)) > 0:
            yield properties


def partition(host: Host) -> str | None:
    """Return the compute and memory partition of this machine's GPUs, such as SPX/NPS1; None if
    they differ.
    """
    partitions = set()
    for path in host.path(_PCI).glob("*/current_compute_partition"):
        names = []
        for which in ("compute", "memory"):
            names.append(host.read(f"{_PCI}/{path.parent.name}/current_{which}_partition"))
        partitions.add("/".join(name.strip() for name in names if name))
    if len(partitions) == 1:
        return partitions.pop()
    return None


class Reader:
    """Reads the GPUs at these PCI addresses: the driver's files, with what only amdsmi knows; or
    else amd-smi.
    """

    def __init__(self, host: Host, ids: Sequence[str]) -> None:
        self._host = host
        self._ids = ids
        self._smi = _Amdsmi(host)
        self._handles = dict(_handles(self._smi))
        self._counted: dict[str, Values] = {}

    def read(self) -> tuple[GpuState, ...]:
        """Return the GPUs that answer."""
        states = _known_states(self._host, self._smi)
        completed = tuple(self._completed(state) for state in states if state.id in self._ids)
        if completed:
            return completed
        return tuple(state for state in _amd_smi_states(self._host) if state.id in self._ids)

    def _completed(self, state: GpuState) -> GpuState:
        """Return a state with amdsmi's readings of it."""
        handle = self._handles.get(state.id or "")
        ask = self._smi.ask
        if handle is None:
            return state
        metrics = _mapping(ask("amdsmi_get_gpu_metrics_info", handle))
        power = _mapping(ask("amdsmi_get_power_info", handle))
        ecc = _mapping(ask("amdsmi_get_gpu_total_ecc_count", handle))
        # 0: none since the driver cleared it; else an error or several.
        link = ask("amdsmi_gpu_xgmi_error_status", handle)
        answers = {
            "energy_j": self._energy_j(handle),
            "power_w": _first_number(
                power, "current_socket_power", "socket_power", "average_socket_power"
            ),
            "temperature_c": _first_number(metrics, "temperature_hotspot", "temperature_edge"),
            "memory_temperature_c": _first_number(metrics, "temperature_mem"),
            "utilisation_percent": _activity(self._smi, handle),
            "ecc_corrected": _first_number(ecc, "correctable_count"),
            "ecc_uncorrected": _first_number(ecc, "uncorrectable_count"),
            "pcie_replays": _first_number(metrics, "pcie_replay_count_acc"),
            "link_errors": None if link is None else int(getattr(link, "value", link)),
            "pids": _pids(ask("amdsmi_get_gpu_process_list", handle)),
            "throttle": self._throttle_reasons(state.id or "", metrics) or None,
        }
        return state.but(**known_items(answers))

    def _energy_j(self, handle: Any) -> float | None:
        counter = _mapping(self._smi.ask("amdsmi_get_energy_count", handle))
        # Named power before ROCm 6.2.1.
        ticks = _first_number(counter, "energy_accumulator", "power")
        microjoules = _first_number(counter, "counter_resolution")
        if ticks is None or microjoules is None:
            return None
        return ticks * microjoules / 1e6

    def _throttle_reasons(self, address: str, metrics: Values) -> tuple[str, ...]:
        before = self._counted.get(address, {})
        self._counted[address] = metrics
        elapsed = _counted(before, metrics, "accumulation_counter")
        if elapsed:
            held = set()
            for name, reason in _RESIDENCIES.items():
                if (_counted(before, metrics, name) or 0) > _LEAST_RESIDENCY * elapsed:
                    held.add(reason)
            return tuple(sorted(held))
        bits = self._throttle_bits(address, metrics)
        return tuple(sorted({reason for mask, reason in _INDEPENDENT_BITS.items() if bits & mask}))

    def _throttle_bits(self, address: str, metrics: Values) -> int:
        if metrics.get("indep_throttle_status") is not True:
            return int(_first_number(metrics, "indep_throttle_status") or 0)
        # From ROCm 6.3 on amdsmi states only whether there are any.
        try:
            form, revision, bits = _BITS.unpack_from(
                self._host.path(f"{_PCI}/{address}/gpu_metrics").read_bytes()
            )
        except (OSError, struct.error):
            return 0
        if (form, revision) != (1, 3) or bits == 2**64 - 1:
            return 0
        return int(bits)


def _pids(listed: Any) -> tuple[int, ...] | None:
    """Return the processes that amdsmi lists; None if it lists none, or in another form."""
    if not isinstance(listed, list) or not all(isinstance(row, Mapping) for row in listed):
        return None
    return tuple(row["pid"] for row in listed if "pid" in row)


def _counted(before: Values, after: Values, name: str) -> float | None:
    """Return by how much a counter rose; it has 32 bits on some drivers."""
    first = _first_number(before, name)
    last = _first_number(after, name)
    if first is None or last is None:
        return None
    return (last - first) % 2**32


def _first_number(values: Values, *names: str) -> float | None:
    """Return the first of these that is a number: a value that the firmware doesn't state is "N/A",
    or all ones.
    """
    for name in names:
        value = values.get(name)
        if (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and value not in (0xFFFF, 2**32 - 1)
        ):
            return value
    return None


def _known_states(host: Host, smi: VendorLibrary) -> tuple[GpuState, ...]:
    """Return all GPUs in the order of their PCI addresses, by the driver's files or else by the
    library.
    """
    cards = []
    for path in sorted(host.path(_PCI).glob("*/mem_info_vram_total")):
        address = path.parent.name
        if (host.read(f"{_PCI}/{address}/vendor") or "").strip() == "0x1002":
            cards.append(address)
    if cards:
        return tuple(_driver_state(host, index, card) for index, card in enumerate(cards))
    return tuple(_library_states(smi))


_FILES: Mapping[str, tuple[float, str]] = {
    "memory_total_gb": (1 / GB, "mem_info_vram_total"),
    "memory_used_gb": (1 / GB, "mem_info_vram_used"),
    "power_cap_w": (1e-6, "hwmon/{}/power1_cap"),
    "power_default_w": (1e-6, "hwmon/{}/power1_cap_default"),
    "power_max_w": (1e-6, "hwmon/{}/power1_cap_max"),
    "clock_mhz": (1e-6, "hwmon/{}/freq1_input"),
    "utilisation_percent": (1.0, "gpu_busy_percent"),
    # The first is an average, if the driver has one; the second is the present power.
    "power_w": (1e-6, "hwmon/{0}/power1_average hwmon/{0}/power1_input"),
    "energy_j": (1e-6, "hwmon/{}/energy1_input"),
    "temperature_c": (1e-3, "hwmon/{0}/temp2_input hwmon/{0}/temp1_input"),
    "memory_temperature_c": (1e-3, "hwmon/{}/temp3_input"),
    "memory_clock_mhz": (1e-6, "hwmon/{}/freq2_input"),
    "pcie_replays": (1, "pcie_replay_count"),
    "pcie_width": (1, "current_link_width"),
    "pcie_width_max": (1, "max_link_width"),
}
"""Fields of GpuState: the factor to their unit, and the driver's file, or the one that counts
unless it is empty or 0 and the one to read then; {} is the directory of the sensors.
"""


def _driver_state(host: Host, index: int, address: str) -> GpuState:
    base = f"{_PCI}/{address}"
    sensors = next((path.name for path in sorted(host.path(f"{base}/hwmon").glob("hwmon*"))), None)
    clocks = re.findall(
        r"^\d+:\s*(\d+)Mhz", host.read(f"{base}/pp_dpm_sclk") or "", re.MULTILINE | re.IGNORECASE
    )
    device = (host.read(f"{base}/device") or "").strip()
    numbers: FieldValues = {}
    for field, (factor, files) in _FILES.items():
        for file in files.format(sensors).split():
            numbers[field] = numbers.get(field) or _read(host, f"{base}/{file}", factor)
    return GpuState(
        index=index,
        name=(host.read(f"{base}/product_name") or "").strip() or f"AMD {device}",
        clock_max_mhz=max(map(float, clocks), default=None),
        id=address.lower(),
        counter_is_shared=device in _TWO_DIES,
        **numbers,
    )


def _read(host: Host, name: str, factor: float) -> float | None:
    """Return the number that a file holds, scaled; None if it holds none."""
    text = (host.read(name) or "").strip()
    if re.fullmatch(r"\d{1,18}", text):
        return int(text) * factor
    return None


def _handles(smi: VendorLibrary) -> list[tuple[str, Any]]:
    """Return PCI address and handle of each GPU, in the order in which amd-smi numbers them."""
    handles = smi.ask("amdsmi_get_processor_handles") or ()
    return [
        (str(smi.ask("amdsmi_get_gpu_device_bdf", handle)).lower(), handle) for handle in handles
    ]


def _activity(smi: VendorLibrary, handle: Any) -> float | None:
    # "N/A" if the firmware doesn't state it.
    value = (smi.ask("amdsmi_get_gpu_activity", handle) or {}).get("gfx_activity")
    if isinstance(value, (int, float)):
        return float(value)
    return None


def _library_states(smi: VendorLibrary) -> Iterator[GpuState]:
    for index, (address, handle) in enumerate(_handles(smi)):
        # In bytes; the pair that amdsmi_get_gpu_vram_usage() returns is in MiB.
        kind = smi.module.AmdSmiMemoryType.VRAM
        total_gb = _gigabytes(smi.ask("amdsmi_get_gpu_memory_total", handle, kind))
        used_gb = _gigabytes(smi.ask("amdsmi_get_gpu_memory_usage", handle, kind))
        chip = smi.ask("amdsmi_get_gpu_asic_info", handle) or {}
        name = chip.get("market_name") or "unknown GPU"
        percent = _activity(smi, handle)
        yield GpuState(index, name, total_gb, used_gb, id=address, utilisation_percent=percent)


_PRINTED = {
    "clock_mhz": "clock gfx_0 clk",
    "utilisation_percent": "usage gfx_activity",
    "power_w": "power socket_power",
    "energy_j": "energy total_energy_consumption",
    "temperature_c": "temperature hotspot",
    "memory_temperature_c": "temperature mem",
    "ecc_corrected": "ecc total_correctable_count",
    "ecc_uncorrected": "ecc total_uncorrectable_count",
    "pcie_replays": "pcie replay_count",
}
"""Fields of GpuState, and where `amd-smi metric` prints them."""


def _amd_smi_states(host: Host) -> Iterator[GpuState]:
    """Yield what `amd-smi metric` prints, with the addresses of `amd-smi list`."""
    addresses = {}
    for gpu in _rows(host.command(["amd-smi", "list", "--json"])):
        addresses[gpu.get("gpu")] = str(gpu.get("bdf", "")).lower()
    for gpu in _rows(host.command(["amd-smi", "metric", "--json"])):
        memory = _mapping(gpu.get("mem_usage"))
        numbers: FieldValues = {}
        for field, path in _PRINTED.items():
            number = _amount(_printed(gpu, path))
            is_count = number is not None and path.startswith(("ecc ", "pcie "))
            numbers[field] = int(number or 0) if is_count else number
        yield GpuState(
            index=int(gpu.get("gpu", 0)),
            name="AMD GPU",
            memory_total_gb=_gigabytes(memory.get("total_vram")),
            memory_used_gb=_gigabytes(memory.get("used_vram")),
            id=addresses.get(gpu.get("gpu")) or None,
            **numbers,
        )


def _printed(value: Any, path: str) -> Any:
    """Return the value at a path in an object of JSON; None if there is none."""
    for name in path.split():
        value = _mapping(value).get(name)
    return value


def _rows(text: str | None) -> list[Values]:
    """Return the GPUs in the JSON of amd-smi, with the list's name (since 2025) or without."""
    gpus = _json(text)
    if isinstance(gpus, Mapping):
        gpus = next((listed for listed in gpus.values() if isinstance(listed, list)), None)
    if isinstance(gpus, list):
        return list(map(_mapping, gpus))
    return []


def _amount(value: Any) -> float | None:
    """Return a number of amd-smi's JSON, bare or with its unit."""
    return _first_number({"value": _mapping(value).get("value", value)}, "value")


def _library_processes(host: Host) -> list[GpuProcess] | None:
    with _Amdsmi(host) as smi:
        handles = _handles(smi)
        processes = []
        for index, (address, handle) in enumerate(handles):
            listed = smi.ask("amdsmi_get_gpu_process_list", handle)
            # Before ROCm 6.1 these were handles, of which amd-smi knows more.
            if listed is None or not all(isinstance(process, Mapping) for process in listed):
                return None
            for process in listed:
                memory = (process.get("memory_usage") or {}).get("vram_mem")
                processes.append(
                    GpuProcess(
                        process["pid"], str(index), address, _name(process), _gigabytes(memory)
                    )
                )
        if handles:
            return processes
        return None


def _amd_smi_processes(host: Host) -> list[GpuProcess] | None:
    gpus = _rows(host.command(["amd-smi", "process", "--json"]))
    if not gpus:
        return None
    processes = []
    for gpu in gpus:
        for entry in gpu.get("process_list") or ():
            # Without any process this is a sentence.
            info = _mapping(_mapping(entry).get("process_info"))
            if str(info.get("pid", "")).isdigit():
                usage = info.get("memory_usage")
                if isinstance(usage, Mapping):
                    memory = usage.get("vram_mem")
                else:
                    memory = info.get("mem_usage")
                number = str(gpu.get("gpu", "")) or None
                processes.append(
                    GpuProcess(int(info["pid"]), number, None, _name(info), _gigabytes(memory))
                )
    return processes


def _rocm_smi_processes(host: Host) -> list[GpuProcess] | None:
    text = host.command(["rocm-smi", "--showpids", "--json"])
    if text is None:
        return None
    processes = []
    for key, value in _mapping(_mapping(_json(text)).get("system")).items():
        words = [word.strip() for word in str(value).split(",")]
        if key.startswith("PID") and key[3:].isdigit() and len(words) >= 3 and words[2].isdigit():
            processes.append(
                GpuProcess(int(key[3:]), None, None, words[0] or None, int(words[2]) / GB)
            )
    return processes


def _json(text: str | None) -> Any:
    """Decode the JSON that a tool prints, after warnings or not; None if there is none."""
    start = re.search(r"[\[{]", text or "")
    try:
        if start:
            return json.loads((text or "")[start.start() :])
        return None
    except ValueError:
        return None


def _mapping(value: Any) -> Values:
    """Return an object of JSON; an empty one if the value is none."""
    if isinstance(value, Mapping):
        return value
    return {}


def _name(info: Values) -> str | None:
    name = str(info.get("name") or "N/A")
    if name == "N/A":
        return None
    return name


def _gigabytes(memory: Any) -> float | None:
    value = memory.get("value") if isinstance(memory, Mapping) else memory
    unit = str(_mapping(memory).get("unit", "B")).upper()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or unit not in _UNITS:
        return None
    return value * _UNITS[unit] / GB
