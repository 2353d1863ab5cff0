"""Stand-ins for what the vendors bring: NVML, amdsmi, torch.cuda, and the texts that their tools
print.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tprimat.machine.host import Host

NVIDIA_QUERY = (
    "nvidia-smi --query-gpu=index,name,uuid,memory.total,memory.used,power.limit,power.default_limit,power.max_limit,"
    "clocks.current.sm,clocks.max.sm,utilization.gpu,power.draw,temperature.gpu,clocks.current.memory,mig.mode.current "
    "--format=csv,noheader,nounits"
)
NVIDIA_APPS = "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv,noheader,nounits"
AMD_PROCESSES = "amd-smi process --json"
ROCM_PROCESSES = "rocm-smi --showpids --json"
AMD_LIST, AMD_METRIC = "amd-smi list --json", "amd-smi metric --json"


def nvidia_row(
    index: int,
    uuid: str,
    used: object = 4,
    utilisation: object = 0,
    name: str = "NVIDIA H100 80GB HBM3",
    power: str = "700.00, 700.00, 700.00",
    clocks: str = "1980, 1980",
    sensors: str = "[N/A], [N/A], [N/A]",
    mig: str = "Disabled",
) -> str:
    """A line of nvidia-smi's answer to NVIDIA_QUERY."""
    device = f"{index}, {name}, GPU-{uuid}, 81559, {used}"
    return f"{device}, {power}, {clocks}, {utilisation}, {sensors}, {mig}\n"


def fake_host(
    root: Path,
    answers: Mapping[str, str | None] | None = None,
    libraries: Mapping[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
    **options: Any,
) -> Host:
    """A machine made of the answers of commands, libraries and system files."""
    for name, text in (files or {}).items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Host(
        **{"environ": {"PATH": ""}, "package": lambda name: None, **options},
        root=root,
        command=lambda argv: (answers or {}).get(" ".join(argv)),
        library=lambda name: (libraries or {}).get(name),
    )


class NVMLError(Exception):
    """As pynvml's: the base of all its errors."""


class FakeNvml:
    """pynvml, as far as it is used. A device is a mapping; what it lacks is not supported.

    Args:
        devices: uuid, name, memory (total, reserved, used), power (cap, default, max, in W),
            clocks, rates, mig, processes, graphics (pid, bytes), names (by pid), energy (J),
            power_average, power_instant (W), temperature, reasons (bits), ecc (corrected,
            uncorrected), rows (remapped), replays, lanes (now, most), links, xids.
    """

    NVMLError = NVMLError
    NVML_CLOCK_SM = 1
    LINK = NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL = 45
    nvmlMemory_v2 = 0x02000028  # noqa: N815

    def __init__(
        self, devices: Sequence[Mapping[str, Any] | None], driver: str = "570.86.15"
    ) -> None:
        self.devices = list(devices)
        self.driver = driver
        self.open = 0
        self.events: list[Any] = []

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.devices:
            raise NVMLError("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def __getattr__(self, name: str) -> Callable[..., Any]:
        answers: dict[str, Callable[..., Any]] = {
            "nvmlDeviceGetCount": lambda: len(self.devices),
            "nvmlSystemGetDriverVersion": lambda: self.driver.encode(),
            "nvmlDeviceGetHandleByIndex": lambda index: self._known(self.devices[index]),
            "nvmlDeviceGetHandleByUUID": lambda uuid: self._known(
                next(
                    (
                        each
                        for each in self.devices
                        if each and f"GPU-{each['uuid']}".encode() == uuid
                    ),
                    None,
                )
            ),
            "nvmlDeviceGetUUID": lambda device: f"GPU-{device['uuid']}",
            # Version 1 counts what the driver reserves as used.
            "nvmlDeviceGetMemoryInfo": lambda device, version=None: types.SimpleNamespace(
                total=device["memory"][0],
                used=device["memory"][2] + (0 if version else device["memory"][1]),
            ),
            "nvmlDeviceGetName": lambda device: device["name"].encode(),
            "nvmlDeviceGetPowerManagementLimit": lambda device: device["power"][0] * 1000,
            "nvmlDeviceGetPowerManagementDefaultLimit": lambda device: device["power"][1] * 1000,
            "nvmlDeviceGetPowerManagementLimitConstraints": lambda device: [
                200_000,
                device["power"][2] * 1000,
            ],
            "nvmlDeviceGetClockInfo": lambda device, kind: device["clocks"][0],
            "nvmlDeviceGetMaxClockInfo": lambda device, kind: device["clocks"][1],
            "nvmlDeviceGetUtilizationRates": lambda device: types.SimpleNamespace(
                gpu=device["rates"], memory=0
            ),
            "nvmlDeviceGetTotalEnergyConsumption": lambda device: device["energy"] * 1000,
            "nvmlDeviceGetPowerUsage": lambda device: device["power_instant"] * 1000,
            "nvmlDeviceGetFieldValues": lambda device, fields: [
                self._field(device, field) for field in fields
            ],
            "nvmlDeviceGetTemperature": lambda device, sensor: device["temperature"],
            "nvmlDeviceGetCurrentClocksEventReasons": lambda device: device["reasons"],
            "nvmlDeviceGetTotalEccErrors": lambda device, kind, since: device["ecc"][kind],
            "nvmlDeviceGetRemappedRows": lambda device: (*device["rows"], 0, 0),
            "nvmlDeviceGetPcieReplayCounter": lambda device: device["replays"],
            "nvmlDeviceGetCurrPcieLinkWidth": lambda device: device["lanes"][0],
            "nvmlDeviceGetMaxPcieLinkWidth": lambda device: device["lanes"][1],
            "nvmlEventSetCreate": lambda: self.events,
            "nvmlDeviceRegisterEvents": lambda device, kinds, events: events.extend(
                types.SimpleNamespace(device=device, eventData=xid)
                for xid in device.get("xids", ())
            ),
            "nvmlEventSetWait_v2": lambda events, timeout_ms: self._pop(events),
            "nvmlDeviceGetMigMode": lambda device: [device["mig"], device["mig"]],
            "nvmlDeviceGetComputeRunningProcesses": lambda device: [
                types.SimpleNamespace(pid=pid, usedGpuMemory=used)
                for pid, used in device["processes"]
            ],
            "nvmlDeviceGetGraphicsRunningProcesses": lambda device: [
                types.SimpleNamespace(pid=pid, usedGpuMemory=used)
                for pid, used in device.get("graphics", ())
            ],
            "nvmlSystemGetProcessName": lambda pid: next(
                each["names"][pid] for each in self.devices if each and pid in each.get("names", {})
            ).encode(),
        }
        if name not in answers:
            raise AttributeError(name)

        def ask(*arguments: Any) -> Any:
            try:
                return answers[name](*arguments)
            except (KeyError, StopIteration):
                raise NVMLError("Not Supported") from None

        return ask

    @staticmethod
    def _field(device: Mapping[str, Any], field: int) -> Any:
        value = {185: device.get("power_average"), FakeNvml.LINK: device.get("links")}.get(field)
        if value is None:
            return types.SimpleNamespace(nvmlReturn=3, value=types.SimpleNamespace(uiVal=0))
        return types.SimpleNamespace(
            nvmlReturn=0, value=types.SimpleNamespace(uiVal=value * (1000 if field == 185 else 1))
        )

    @staticmethod
    def _pop(events: list[Any]) -> Any:
        if not events:
            raise NVMLError("Timeout")
        return events.pop()

    def _known(self, device: Mapping[str, Any] | None) -> Mapping[str, Any]:
        if device is None:
            raise NVMLError("GPU is lost")
        return device


H100 = {
    "uuid": "AA-0",
    "name": "NVIDIA H100 80GB HBM3",
    "memory": (85_520_809_984, 600_000_000, 12_000_000_000),
    "power": (500, 700, 700),
    "clocks": (1755, 1980),
    "rates": 97,
    "mig": 0,
    "processes": [(4242, 11_000_000_000), (4343, None)],
    "names": {4242: "/usr/bin/python3"},
}


class FakeCuda:
    """torch.cuda as far as it is asked."""

    def __init__(
        self,
        devices,
        *,
        available=True,
        complaint=None,
        failure=None,
        reserved=0,
        free=None,
        built=(),
    ):
        self.devices = [
            types.SimpleNamespace(**{"total_memory": 85_017_755_648, **each}) for each in devices
        ]
        self.available = available
        self.complaint = complaint
        self.failure = failure
        self.reserved = reserved
        self.free = free
        self.built = built
        self.asked_for_memory = []
        self.nccl = types.SimpleNamespace(version=lambda: (2, 21, 5))

    def is_available(self):
        if self.complaint:
            warnings.warn(self.complaint, stacklevel=2)
        return self.available and bool(self.devices)

    def is_initialized(self):
        return True

    def device_count(self):
        return len(self.devices)

    def get_device_properties(self, index):
        if self.failure:
            raise RuntimeError(self.failure)
        return self.devices[index]

    def get_arch_list(self):
        return list(self.built)

    def memory_reserved(self, index):
        return self.reserved

    def mem_get_info(self, index):
        self.asked_for_memory.append(index)
        total = self.devices[index].total_memory
        return (total if self.free is None else self.free), total


def fake_torch(
    cuda=None,
    *,
    build="12.8",
    hip=None,
    version="2.7.0a0+7c8ec84dab.nv25.03",
    dnn=90800,
    **versions,
):
    return types.SimpleNamespace(
        __version__=version,
        version=types.SimpleNamespace(cuda=build, hip=hip, **versions),
        cuda=cuda or FakeCuda([]),
        backends=types.SimpleNamespace(cudnn=types.SimpleNamespace(version=lambda: dnn)),
    )


def rocm_torch(cuda, **changes):
    defaults = {
        "build": None,
        "hip": "7.1.25424-4179531dcd",
        "version": "2.10.0.dev20251112+rocm7.1",
        "dnn": 3_005_000,
    }
    return fake_torch(cuda, **{**defaults, **changes})


class AmdSmiException(Exception):  # noqa: N818 - its name
    """As amdsmi's: the base of all its errors."""


class FakeAmdsmi:
    """amdsmi of ROCm 6.2 and later, as far as it is used. A device is a mapping; what it lacks is
    not supported.
    """

    AmdSmiException = AmdSmiException
    AmdSmiMemoryType = types.SimpleNamespace(VRAM="VRAM")

    def __init__(self, devices: Sequence[Mapping[str, Any]]) -> None:
        self.devices = list(devices)
        self.open = 0

    def amdsmi_init(self) -> None:
        if not self.devices:
            raise AmdSmiException("no driver")
        self.open += 1

    def amdsmi_shut_down(self) -> None:
        self.open -= 1

    def amdsmi_get_processor_handles(self) -> list[Mapping[str, Any]]:
        return self.devices

    def __getattr__(self, name: str) -> Callable[..., Any]:
        keys = {
            "amdsmi_get_gpu_device_bdf": "bdf",
            "amdsmi_get_gpu_asic_info": "asic",
            "amdsmi_get_gpu_memory_total": "total",
            "amdsmi_get_gpu_memory_usage": "used",
            "amdsmi_get_gpu_activity": "activity",
            "amdsmi_get_gpu_process_list": "processes",
            "amdsmi_get_energy_count": "energy",
            "amdsmi_get_power_info": "power",
            "amdsmi_get_gpu_metrics_info": "metrics",
            "amdsmi_get_gpu_total_ecc_count": "ecc",
            "amdsmi_gpu_xgmi_error_status": "links",
        }
        if name not in keys:
            raise AttributeError(name)

        def ask(device: Mapping[str, Any], *_: Any) -> Any:
            if keys[name] not in device:
                raise AmdSmiException("not supported")
            return device[keys[name]]

        return ask


MI300X = {
    "bdf": "0000:C1:00.0",
    "asic": {"market_name": "AMD Instinct MI300X"},
    "total": 206_141_652_992,
    "used": 77_000_000_000,
    "activity": {"gfx_activity": 88, "umc_activity": 3, "mm_activity": "N/A"},
    "processes": [
        {
            "name": "python3",
            "pid": 77,
            "mem": 5_000_000_000,
            "memory_usage": {"vram_mem": 5_000_000_000},
        },
        {"name": "N/A", "pid": 78, "mem": 0, "memory_usage": {"vram_mem": 0}},
    ],
}


def amd_files(address: str = "0000:c1:00.0", used: int = 1_000_000_000) -> dict[str, str]:
    """The files of the amdgpu driver for an MI300X."""
    device = f"/sys/bus/pci/devices/{address}"
    texts = {
        "vendor": "0x1002",
        "device": "0x74a1",
        "product_name": "AMD Instinct MI300X OAM",
        "mem_info_vram_total": str(206_141_652_992),
        "mem_info_vram_used": str(used),
        "gpu_busy_percent": "83",
        "pp_dpm_sclk": "0: 132Mhz *\n1: 2100Mhz\n",
        "hwmon/hwmon3/power1_cap": "750000000",
        "hwmon/hwmon3/power1_cap_default": "750000000",
        "hwmon/hwmon3/freq1_input": "132000000",
    }
    return {f"{device}/{name}": text + "\n" for name, text in texts.items()}
