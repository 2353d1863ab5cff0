"""What this machine trains on: CUDA, ROCm or a CPU; the devices; what others hold of their memory.

detect() never fails: what is unknown is None, with a reason among the warnings. It leaves no CUDA
context behind where the vendor's library or tool answers, so that the process that only starts
trainings takes no memory from them.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import platform
import re
import warnings as python_warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tprimat.catalog import gpus
from tprimat.errors import INSTALL
from tprimat.machine import amd, gpu_users, nvidia
from tprimat.machine import host as hosts
from tprimat.machine.gpu import Device
from tprimat.machine.host import Host
from tprimat.results.run import Environment, GpuInfo, Platform
from tprimat.units import GB, round_figure

INSTALLED = object()
"""Stands for the installed torch, which is imported when it is needed."""

_VENDOR: dict[str, tuple[Platform, str]] = {"cuda": ("nvd", "NVIDIA"), "rocm": ("amd", "AMD")}
_DRIVER = {"nvd": nvidia.driver_version, "amd": amd.driver_version}
_DRIVER_FILE = {"cuda": "/dev/nvidiactl", "rocm": "/dev/kfd"}
_VISIBLE = {
    "cuda": ("CUDA_VISIBLE_DEVICES",),
    "rocm": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
}


@dataclasses.dataclass(frozen=True)
class Machine:
    """This machine, as a training would find it.

    Attributes:
        platform: nvd, amd or cpu.
        gpu_info: the first device and how many there are; without a GPU, the CPU.
        environment: software and surroundings.
        devices: the GPUs; empty without any.
        warnings: what is doubtful or unknown, and why.
    """

    platform: Platform
    gpu_info: GpuInfo
    environment: Environment
    devices: tuple[Device, ...] = ()
    warnings: tuple[str, ...] = ()


def detect(torch: Any = INSTALLED, host: Host | None = None) -> Machine:
    """Return what this machine trains on.

    Args:
        torch: a module to use instead of the installed torch; None stands for no torch.
        host: where to read instead of this machine's operating system.
    """
    host = host or Host()
    warnings: list[str] = []
    if torch is INSTALLED:
        torch, problem = _import_torch()
        if problem:
            warnings.append(problem)
    if torch is None:
        return _without_torch(host, warnings)
    stack = _stack(torch)
    devices: tuple[Device, ...] = ()
    if stack in _VENDOR:
        devices, problems = _devices(torch, stack, host)
        warnings += problems
    else:
        warnings += _why_no_gpu(torch, stack, host)
    if not devices:
        return _without_gpu(host, warnings, str(torch.__version__))
    vendor = _VENDOR[stack][0]
    held = [device.memory_held_gb for device in devices if device.memory_held_gb is not None]
    environment = _environment(
        host,
        hosts.cpu_name(host),
        versions={**_torch_versions(torch, stack), **_driver(host, vendor)},
        memory_held_by_others_gb=round_figure(max(held)) if held else None,
    )
    warnings += _device_warnings(devices)
    info = msgspec.structs.replace(devices[0].info, device_count=len(devices))
    return Machine(vendor, info, environment, devices, tuple(warnings))


def refreshed(machine: Machine, host: Host | None = None) -> Machine:
    """Return the machine with what others hold of its GPUs' memory now."""
    torch, _ = _import_torch()
    if torch is None or not machine.devices:
        return machine
    devices, _ = gpu_users.with_held_memory(torch, machine.platform, machine.devices, host or Host())
    return dataclasses.replace(machine, devices=devices)


def held_by_others(machine: Machine, host: Host | None = None) -> str | None:
    """Return the warning before a run when other processes hold device memory; None where they hold next to none."""
    return gpu_users.held_memory_warning(machine.devices, machine.platform, host or Host())


def _import_torch() -> tuple[Any, str | None]:
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            return None, f"torch is installed but lacks the package {error.name}: install it again"
        return None, f"torch is not installed: nothing can be trained here ({INSTALL})"
    except (ImportError, OSError) as error:
        return None, f"torch is installed but can't be loaded ({_first_line(error)}): install it again"
    return torch, None


def _stack(torch: Any) -> str:
    # A ROCm build answers to torch.cuda as well; only torch.version tells them apart.
    if getattr(torch.version, "hip", None):
        return "rocm"
    return "cuda" if getattr(torch.version, "cuda", None) else "cpu"


def _devices(torch: Any, stack: str, host: Host) -> tuple[tuple[Device, ...], list[str]]:
    """Return the GPUs that torch can use, and warnings."""
    failure = None
    properties: list[Any] = []
    with python_warnings.catch_warnings(record=True) as torch_warnings:
        python_warnings.simplefilter("always")
        try:
            count = torch.cuda.device_count() if torch.cuda.is_available() else 0
            properties = [torch.cuda.get_device_properties(index) for index in range(count)]
        except (RuntimeError, AssertionError) as error:
            failure = f"torch found a GPU but can't use it: {_first_line(error)}"
    if not properties:
        reasons = [failure] if failure else _why_no_gpu(torch, stack, host)
        return (), [*reasons, *(f"torch says: {_first_line(each.message)}" for each in torch_warnings)]
    software = _software_version(torch, stack)
    kfd_clock = amd.peak_clock_mhz(host) if stack == "rocm" else None
    devices = []
    for index, each in enumerate(properties):
        info = _info(each, stack, software, str(torch.__version__), kfd_clock)
        devices.append(
            Device(
                index=index,
                info=info,
                partition=gpus.match(info).partition,
                uuid=_uuid(each),
                pci_address=_pci_address(each),
            )
        )
    return gpu_users.with_held_memory(torch, _VENDOR[stack][0], devices, host)


def _info(properties: Any, stack: str, software: str | None, version: str, kfd_clock: float | None) -> GpuInfo:
    units = getattr(properties, "multi_processor_count", None)
    clock = getattr(properties, "clock_rate", None)
    architecture = f"sm_{properties.major}{properties.minor}"
    if stack == "rocm":
        architecture = getattr(properties, "gcnArchName", "").split(":")[0]
    return GpuInfo(
        device_name=properties.name or None,
        device_count=1,
        total_memory_gb=round_figure(properties.total_memory / GB),
        gpu_cores=gpus.cores(architecture, units),
        software_stack="rocm" if stack == "rocm" else "cuda",
        software_version=software,
        pytorch_version=version,
        compute_units=units,
        architecture=architecture or None,
        # torch states kHz, and 0 where the driver states nothing.
        clock_mhz=clock / 1e3 if clock else kfd_clock,
    )


def _software_version(torch: Any, stack: str) -> str | None:
    """Return the version of CUDA or ROCm that this torch was built with."""
    if stack == "cuda":
        return str(torch.version.cuda)
    if stated := getattr(torch.version, "rocm", None):
        return str(stated)
    if match := re.search(r"\+rocm(\d+(\.\d+)*)", str(torch.__version__)):
        return match[1]
    # HIP's first two numbers are those of the ROCm that it belongs to.
    return ".".join(str(torch.version.hip).split(".")[:2])


def _uuid(properties: Any) -> str | None:
    text = str(getattr(properties, "uuid", "") or "")
    return text.removeprefix("GPU-").lower() or None


def _pci_address(properties: Any) -> str | None:
    domain, bus, device = (getattr(properties, f"pci_{part}_id", None) for part in ("domain", "bus", "device"))
    if not isinstance(domain, int) or not isinstance(bus, int) or not isinstance(device, int):
        return None
    return f"{domain:04x}:{bus:02x}:{device:02x}.0"


def _device_warnings(devices: Sequence[Device]) -> Iterator[str]:
    """Yield what makes the devices differ from whole GPUs of one kind."""
    models = collections.Counter(
        (device.info.device_name, device.info.compute_units, device.info.total_memory_gb) for device in devices
    )
    if len(models) > 1:
        listed = ", ".join(f"{count} × {name} ({memory:.0f} GB)" for (name, _, memory), count in models.items())
        yield f"the GPUs differ: {listed}; the slowest sets the pace of all, and the first one is recorded"
    parts = collections.defaultdict(list)
    for device in devices:
        if device.partition:
            parts[device.partition].append(str(device.index))
    for partition, indices in parts.items():
        yield f"GPU {', '.join(indices)} is a part of a GPU: {partition}; peaks of the whole don't apply to it"
    if devices[0].info.gpu_cores is None:
        yield f"gpu_cores is unknown: how many a compute unit of {devices[0].info.architecture} has isn't known here"


def _why_no_gpu(torch: Any, stack: str, host: Host) -> list[str]:
    """Return why a torch trains on the CPU where a person would expect a GPU."""
    if stack == "cpu":
        return [
            f"torch {torch.__version__} is a build without GPU support, though {vendor} devices are here "
            f"({_DRIVER_FILE[name]}): install the {name.upper()} build to train on them"
            for name, (_, vendor) in _VENDOR.items()
            if host.exists(_DRIVER_FILE[name])
        ]
    vendor, file = _VENDOR[stack][1], _DRIVER_FILE[stack]
    start = f"torch {torch.__version__} is a {'ROCm' if stack == 'rocm' else 'CUDA'} build but found no GPU"
    for variable in _VISIBLE[stack]:
        if host.environ.get(variable, "unset").strip() in ("", "-1"):
            return [f"{start}: {variable} hides all: unset it to train on a GPU"]
    if not host.exists(file):
        other = next((name for name in _VENDOR if name != stack and host.exists(_DRIVER_FILE[name])), None)
        if other:
            return [f"{start}: the devices here are of {_VENDOR[other][1]}: install the {other.upper()} build"]
        flags = "--gpus all" if stack == "cuda" else "--device /dev/kfd --device /dev/dri"
        return [f"{start}: no {vendor} driver is here (no {file}); a container must be started with {flags}"]
    if not os.access(host.path(file), os.R_OK | os.W_OK):
        return [f"{start}: this user may not open {file}: join its group (on AMD machines render and video)"]
    return [f"{start}, though the {vendor} driver is here ({file}): is it older than this build needs?"]


def _without_torch(host: Host, warnings: list[str]) -> Machine:
    """Describe a machine where nothing can be trained: the platform by the driver's device files."""
    hints = [tool for tool in ("nvidia-smi", "amd-smi", "rocm-smi") if host.finds(tool)]
    stack = next((name for name in ("cuda", "rocm") if host.exists(_DRIVER_FILE[name])), None)
    if not warnings:
        warnings.append("there is no torch: nothing can be trained here")
    if stack is None:
        if hints:
            warnings.append(f"{' and '.join(hints)} is here, but no driver's device file: taken for a processor alone")
        return _without_gpu(host, warnings, None)
    warnings.append(
        f"platform taken from {_DRIVER_FILE[stack]}{', ' + ', '.join(hints) if hints else ''}, without torch"
    )
    vendor = _VENDOR[stack][0]
    # AMD's driver has no name for most GPUs that a training would report.
    states = nvidia.states(host) if stack == "cuda" else ()
    if states:
        info = GpuInfo(
            device_name=states[0].name,
            device_count=len(states),
            total_memory_gb=round_figure(states[0].memory_total_gb),
            software_stack="cuda",
        )
    else:
        info = GpuInfo(software_stack="cuda" if stack == "cuda" else "rocm")
        warnings.append("the GPUs' name, number and memory are unknown without torch")
    environment = _environment(host, hosts.cpu_name(host), versions=_driver(host, vendor))
    return Machine(vendor, info, environment, (), tuple(warnings))


def cpu_info(host: Host, pytorch_version: str | None) -> GpuInfo:
    """Return what a training on the CPU reports as its device."""
    return GpuInfo(
        device_name=hosts.cpu_name(host),
        device_count=1,
        total_memory_gb=round_figure(hosts.memory_gb()),
        software_stack="cpu",
        pytorch_version=pytorch_version,
        architecture=platform.machine() or None,
    )


def _without_gpu(host: Host, warnings: list[str], pytorch_version: str | None) -> Machine:
    info = cpu_info(host, pytorch_version)
    limit = hosts.memory_limit_gb(host)
    if limit is not None:
        warnings.append(f"this process may use {limit:.1f} GB of the machine's {hosts.memory_gb():.1f} GB of memory")
    if info.device_name is None:
        warnings.append("the processor's name is unknown: the system doesn't state it")
    versions = {"torch": pytorch_version} if pytorch_version else {}
    return Machine("cpu", info, _environment(host, info.device_name, versions=versions), (), tuple(warnings))


def _environment(
    host: Host, cpu: str | None, *, versions: Mapping[str, str], memory_held_by_others_gb: float | None = None
) -> Environment:
    return Environment(
        versions={**hosts.versions(host), **versions},
        hostname=platform.node() or None,
        os=hosts.operating_system(host),
        container=hosts.container(host),
        tprimat_commit=hosts.commit(host, Path(__file__).resolve().parents[2]),
        cpu=cpu,
        cpu_threads=hosts.cpu_threads(host),
        cpu_instructions=hosts.cpu_instructions(host),
        memory_held_by_others_gb=memory_held_by_others_gb,
        settings=hosts.settings(host.environ),
    )


def _driver(host: Host, vendor: Platform) -> dict[str, str]:
    version = _DRIVER[vendor](host)
    return {"driver": version} if version else {}


def _torch_versions(torch: Any, stack: str) -> dict[str, str]:
    """Return the versions of torch's libraries: cuDNN and NCCL, or MIOpen and RCCL, which have the same names there."""
    versions = {"torch": str(torch.__version__)}
    if stack == "rocm":
        versions["hip"] = str(torch.version.hip)
    # Builds lack one or the other, and raise different errors.
    with contextlib.suppress(AttributeError, ImportError, RuntimeError):
        if number := torch.backends.cudnn.version():
            versions["miopen" if stack == "rocm" else "cudnn"] = _dnn_version(int(number), stack)
    with contextlib.suppress(AttributeError, ImportError, RuntimeError):
        numbers = torch.cuda.nccl.version()
        text = ".".join(str(number) for number in numbers) if isinstance(numbers, tuple) else str(numbers)
        versions["rccl" if stack == "rocm" else "nccl"] = text
    return versions


def _dnn_version(number: int, stack: str) -> str:
    """Return 9.1.0 of 90100 (cuDNN from 9 on), 8.9.7 of 8907 (before), 3.5.0 of 3005000 (MIOpen)."""
    thousand, hundred = (1_000_000, 1_000) if stack == "rocm" else (10_000, 100) if number >= 90_000 else (1_000, 100)
    return f"{number // thousand}.{number % thousand // hundred}.{number % hundred}"


def _first_line(error: object) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
