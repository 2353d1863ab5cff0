"""Where am I: CUDA, ROCm or a processor; the devices; who else is on them.

detect() never fails: what can't be found out is None, with a reason among the warnings. It leaves
no CUDA context behind where the vendor's tools answer, so that the process that only starts
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
from tprimat.machine import gpu_users
from tprimat.machine import host as hosts
from tprimat.machine.gpu_users import Device
from tprimat.machine.host import Host
from tprimat.results.run import Environment, GpuInfo, Platform
from tprimat.units import GB, round_figure

INSTALLED = object()
"""Stands for the torch that is installed, which is imported when it is asked for."""

_VENDOR = {"cuda": ("nvd", "NVIDIA"), "rocm": ("amd", "AMD")}
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
        gpu_info: the first device and how many there are; on a processor, the processor.
        environment: software and surroundings.
        devices: the GPUs; empty on a processor.
        warnings: what is doubtful or unknown, and why.
    """

    platform: Platform
    gpu_info: GpuInfo
    environment: Environment
    devices: tuple[Device, ...] = ()
    warnings: tuple[str, ...] = ()


def detect(torch: Any = INSTALLED, host: Host | None = None) -> Machine:
    """Finds out where this runs.

    Args:
        torch: a module to ask instead of the installed torch; None stands for no torch.
        host: what to ask instead of this machine's operating system.
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
        return _processor(host, warnings, str(torch.__version__))
    vendor: Platform = "nvd" if stack == "cuda" else "amd"
    held = [device.memory_held_gb for device in devices if device.memory_held_gb is not None]
    environment = _environment(
        host,
        versions={**_torch_versions(torch, stack), **_driver(host, vendor)},
        memory_held_by_others_gb=round_figure(max(held)) if held else None,
    )
    warnings += _about(devices)
    info = msgspec.structs.replace(devices[0].info, device_count=len(devices))
    return Machine(vendor, info, environment, devices, tuple(warnings))


def refreshed(machine: Machine, host: Host | None = None) -> Machine:
    """Return the machine with what others hold of its GPUs' memory now."""
    torch, _ = _import_torch()
    stack = machine.gpu_info.software_stack
    if torch is None or not machine.devices or stack is None:
        return machine
    devices, _ = gpu_users.with_held_memory(torch, stack, machine.devices, host or Host())
    return dataclasses.replace(machine, devices=devices)


def held_by_others(machine: Machine, host: Host | None = None) -> str | None:
    """What is said before a run when other processes hold device memory; None where they hold next to none."""
    return gpu_users.sentence(machine.devices, machine.platform, host or Host())


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
    """The GPUs that torch can use, and what was wrong on the way."""
    failure = None
    properties: list[Any] = []
    with python_warnings.catch_warnings(record=True) as said:
        python_warnings.simplefilter("always")
        try:
            count = torch.cuda.device_count() if torch.cuda.is_available() else 0
            properties = [torch.cuda.get_device_properties(index) for index in range(count)]
        except (RuntimeError, AssertionError) as error:
            failure = f"torch found a GPU but can't use it: {_first_line(error)}"
    if not properties:
        reasons = [failure] if failure else _why_no_gpu(torch, stack, host)
        return (), [*reasons, *(f"torch says: {_first_line(each.message)}" for each in said)]
    software = _software_version(torch, stack)
    kfd_clock = _kfd_clock_mhz(host) if stack == "rocm" else None
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
    return gpu_users.with_held_memory(torch, stack, devices, host)


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
        # torch states kHz, and 0 where the driver tells nothing.
        clock_mhz=clock / 1e3 if clock else kfd_clock,
    )


def _software_version(torch: Any, stack: str) -> str | None:
    """The version of CUDA or ROCm that this torch was built with."""
    if stack == "cuda":
        return str(torch.version.cuda)
    if stated := getattr(torch.version, "rocm", None):
        return str(stated)
    if found := re.search(r"\+rocm(\d+(\.\d+)*)", str(torch.__version__)):
        return found[1]
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


def _kfd_clock_mhz(host: Host) -> float | None:
    """The highest clock of this machine's AMD GPUs where they agree, MHz: older torch doesn't state it."""
    folder = host.path("/sys/class/kfd/kfd/topology/nodes")
    clocks = set()
    with contextlib.suppress(OSError):
        for node in folder.iterdir():
            words = (host.read(f"/sys/class/kfd/kfd/topology/nodes/{node.name}/properties") or "").split()
            stated = dict(zip(words[::2], words[1::2], strict=False))
            # Processors are nodes too, without SIMD units.
            if int(stated.get("simd_count", 0)) > 0:
                clocks.add(int(stated.get("max_engine_clk_fcompute", 0)))
    return float(clocks.pop()) if len(clocks) == 1 and 0 not in clocks else None


def _about(devices: Sequence[Device]) -> Iterator[str]:
    """What must be said of the devices."""
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
    """Why a torch trains on the processor, where a person would expect a GPU."""
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
    """What can be said where nothing can be trained: the platform by the driver's device files."""
    hints = [tool for tool in ("nvidia-smi", "amd-smi", "rocm-smi") if host.finds(tool)]
    stack = next((name for name in ("cuda", "rocm") if host.exists(_DRIVER_FILE[name])), None)
    if not warnings:
        warnings.append("there is no torch: nothing can be trained here")
    if stack is None:
        if hints:
            warnings.append(f"{' and '.join(hints)} is here, but no driver's device file: taken for a processor alone")
        return _processor(host, warnings, None)
    warnings.append(
        f"platform taken from {_DRIVER_FILE[stack]}{', ' + ', '.join(hints) if hints else ''}, without torch"
    )
    vendor: Platform = "nvd" if stack == "cuda" else "amd"
    listed = None
    if stack == "cuda":
        listed = host.command(["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"])
    rows = [line.rsplit(",", 1) for line in (listed or "").splitlines() if "," in line]
    if rows:
        memory = rows[0][1].strip()
        info = GpuInfo(
            device_name=rows[0][0].strip(),
            device_count=len(rows),
            total_memory_gb=round_figure(int(memory) * 2**20 / GB) if memory.isdigit() else None,
            software_stack="cuda",
        )
    else:
        info = GpuInfo(software_stack="cuda" if stack == "cuda" else "rocm")
        warnings.append("the GPUs' name, number and memory are unknown without torch")
    return Machine(vendor, info, _environment(host, versions=_driver(host, vendor)), (), tuple(warnings))


def _processor(host: Host, warnings: list[str], pytorch_version: str | None) -> Machine:
    memory, limit = hosts.memory_gb(host), hosts.memory_limit_gb(host)
    if memory is not None and limit is not None:
        warnings.append(f"this process may use {limit:.1f} GB of the machine's {memory:.1f} GB of memory")
    info = GpuInfo(
        device_name=hosts.cpu_name(host),
        device_count=1,
        total_memory_gb=round_figure(memory),
        software_stack="cpu",
        pytorch_version=pytorch_version,
        architecture=platform.machine() or None,
    )
    if info.device_name is None:
        warnings.append("the processor's name is unknown: the system doesn't state it")
    versions = {"torch": pytorch_version} if pytorch_version else {}
    return Machine("cpu", info, _environment(host, versions=versions), (), tuple(warnings))


def _environment(
    host: Host, *, versions: Mapping[str, str], memory_held_by_others_gb: float | None = None
) -> Environment:
    return Environment(
        versions={**hosts.versions(host), **versions},
        hostname=platform.node() or None,
        os=hosts.operating_system(host),
        container=hosts.container(host),
        tprimat_commit=hosts.commit(host, Path(__file__).resolve().parents[2]),
        cpu=hosts.cpu_name(host),
        cpu_threads=hosts.cpu_threads(host),
        cpu_instructions=hosts.cpu_instructions(host),
        memory_held_by_others_gb=memory_held_by_others_gb,
        settings=hosts.settings(host.environ),
    )


def _driver(host: Host, vendor: Platform) -> dict[str, str]:
    version = hosts.driver_version(host, vendor)
    return {"driver": version} if version else {}


def _torch_versions(torch: Any, stack: str) -> dict[str, str]:
    """The libraries that torch brings: cuDNN and NCCL, or MIOpen and RCCL, which answer to the same names."""
    found = {"torch": str(torch.__version__)}
    if stack == "rocm":
        found["hip"] = str(torch.version.hip)
    # Builds lack one or the other, and say so in different ways.
    with contextlib.suppress(AttributeError, ImportError, RuntimeError):
        if number := torch.backends.cudnn.version():
            found["miopen" if stack == "rocm" else "cudnn"] = _dnn_version(int(number), stack)
    with contextlib.suppress(AttributeError, ImportError, RuntimeError):
        numbers = torch.cuda.nccl.version()
        text = ".".join(str(number) for number in numbers) if isinstance(numbers, tuple) else str(numbers)
        found["rccl" if stack == "rocm" else "nccl"] = text
    return found


def _dnn_version(number: int, stack: str) -> str:
    """9.1.0 of 90100 (cuDNN from 9 on), 8.9.7 of 8907 (before), 3.5.0 of 3005000 (MIOpen)."""
    thousand, hundred = (1_000_000, 1_000) if stack == "rocm" else (10_000, 100) if number >= 90_000 else (1_000, 100)
    return f"{number // thousand}.{number % thousand // hundred}.{number % hundred}"


def _first_line(error: object) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
