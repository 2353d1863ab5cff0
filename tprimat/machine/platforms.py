"""Detect the platform (CUDA, ROCm or CPU), the devices, and memory held by others.

Never fails: what is unknown is None, with a reason among the notes. Creates no CUDA context if the
vendor's library or tool answers: the process that only starts runs takes no memory from them.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import platform
import shutil
import warnings as python_warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tprimat.location import REPOSITORY
from tprimat.machine import amd, held_memory, nvidia, torch_build
from tprimat.machine import host as hosts
from tprimat.machine.gpu import DRIVER_FILES, WSL, Device, GpuState
from tprimat.machine.host import Host
from tprimat.machine.torch_build import first_line
from tprimat.notes import Note, NoteValue
from tprimat.results.run import (
    PLATFORMS,
    VENDORS,
    Environment,
    GpuInfo,
    Platform,
    SoftwareStack,
    sentences,
)
from tprimat.units import round_figure

INSTALLED = object()
"""Stands for the installed torch, which is imported when it is needed."""

DESCRIBED = object()
"""Stands for the installed torch of a command that doesn't train with it: one that is built for no
GPU isn't imported.
"""

_DRIVER = {"nvd": nvidia.driver_version, "amd": amd.driver_version}
_VISIBLE = {
    "cuda": ("CUDA_VISIBLE_DEVICES",),
    "rocm": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
}


@dataclasses.dataclass(frozen=True)
class Machine:
    """This machine, as a training would find it.

    Attributes:
        gpu_info: the first device and how many there are; without a GPU, the CPU.
        devices: the GPUs; empty without any.
        notes: doubtful or unknown facts, and why.
        unusable_gpu: why torch can't train on a GPU that is here and not hidden; None without such
            a GPU.
    """

    platform: Platform
    gpu_info: GpuInfo
    environment: Environment
    devices: tuple[Device, ...] = ()
    notes: tuple[Note, ...] = ()
    unusable_gpu: str | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """The sentences of its notes."""
        return sentences(self.notes)


def detect(torch: Any = INSTALLED, host: Host | None = None) -> Machine:
    """Return what this machine trains on, seen through another torch (None: without torch) or host
    if given.
    """
    host = host or Host()
    notes = []
    if torch is INSTALLED:
        torch, problem = torch_build.import_torch()
        if problem:
            notes.append(problem)
    elif torch is DESCRIBED:
        torch, problem = torch_build.described_or_imported()
        if problem:
            notes.append(problem)
    if torch is None:
        return _without_torch(host, notes)
    stack = torch_build.stack_of(torch)
    devices, problems, is_found = _devices(torch, stack, host)
    notes += problems
    if not devices:
        machine = _without_gpu(host, notes, str(torch.__version__))
        if is_found:
            return dataclasses.replace(machine, unusable_gpu="; ".join(sentences(problems)))
        return machine
    notes += _device_notes(devices)
    info = devices[0].info.but(device_count=len(devices))
    return _machine(
        host, PLATFORMS[stack], info, notes, torch_build.versions(torch, stack, host), devices
    )


def states(host: Host) -> tuple[GpuState, ...]:
    """Return the state of all GPUs of this machine, without torch, NVIDIA's first; none if no
    driver answers.
    """
    return (*nvidia.states(host), *amd.states(host))


def refreshed(machine: Machine, host: Host | None = None) -> Machine:
    """Return the machine with the memory of its GPUs that others hold now."""
    torch = None
    if machine.devices:
        torch, _ = torch_build.import_torch()
    if torch is None:
        return machine
    devices, _ = held_memory.with_held_memory(
        torch, machine.platform, machine.devices, host or Host()
    )
    return dataclasses.replace(machine, devices=devices)


def held_by_others(machine: Machine, host: Host | None = None) -> str | None:
    """Return the warning before a run when other processes hold device memory; None if they hold
    next to none.
    """
    return held_memory.held_memory_warning(machine.devices, machine.platform, host or Host())


def _devices(
    torch: Any, stack: SoftwareStack, host: Host
) -> tuple[tuple[Device, ...], list[Note], bool]:
    """Return the GPUs that torch can use, notes, and whether there are any for it, usable or
    not.
    """
    if stack == "cpu":
        signs = signs_of_gpus(stack, host)
        return (), _why_no_gpu(torch, stack, signs, host), _has_gpu(stack, signs, host)
    failure = None
    properties = []
    with python_warnings.catch_warnings(record=True) as torch_warnings:
        python_warnings.simplefilter("always")
        try:
            count = torch.cuda.device_count() if torch.cuda.is_available() else 0
            properties = list(map(torch.cuda.get_device_properties, range(count)))
            failure = torch_build.without_kernels(torch, properties) if stack == "cuda" else None
        except (RuntimeError, AssertionError) as error:
            failure = Note("torch-refuses-gpu", {"why": first_line(error)})
    if failure or not properties:
        signs = {} if failure else signs_of_gpus(stack, host)
        reasons = [failure] if failure else _why_no_gpu(torch, stack, signs, host)
        for warning in torch_warnings:
            reasons.append(Note("torch-warns", {"what": first_line(warning.message)}))
        return (), reasons, failure is not None or _has_gpu(stack, signs, host)
    clock = amd.peak_clock_mhz(host) if stack == "rocm" else None
    devices = []
    for index, stated in enumerate(properties):
        devices.append(torch_build.device_of(torch, stack, index, stated, clock))
    return *held_memory.with_held_memory(torch, PLATFORMS[stack], devices, host), True


def _device_notes(devices: Sequence[Device]) -> Iterator[Note]:
    """Yield what makes the devices differ from whole GPUs of one kind."""
    models = collections.Counter(
        (device.info.device_name, device.info.compute_units, device.info.total_memory_gb)
        for device in devices
    )
    if len(models) > 1:
        listed = []
        for (name, _, memory), count in models.items():
            listed.append(f"{count} × {name} ({memory:.0f} GB)")
        yield Note("gpus-differ", {"gpus": ", ".join(listed)})
    parts = collections.defaultdict(list)
    for device in devices:
        if device.partition:
            parts[device.partition].append(str(device.index))
    for partition, indices in parts.items():
        yield Note("gpu-partitioned", {"gpus": ", ".join(indices), "partition": partition})
    if devices[0].info.gpu_cores is None:
        yield Note("gpu-cores-unknown", {"architecture": devices[0].info.architecture})


def signs_of_gpus(stack: SoftwareStack, host: Host) -> dict[SoftwareStack, str]:
    """Return what shows that GPUs are here, for each stack that drives them: a driver's file, or
    else what lists them.

    What isn't certain counts for the stack that torch is built for: Windows' file, which any GPU
    has, and an AMD GPU without a driver's file, which may be the one that is part of a CPU.
    """
    wsl = host.path("/usr/lib/wsl/lib")
    absent = {"cuda": wsl.exists() and not (wsl / "libcuda.so.1").exists(), "rocm": stack != "rocm"}
    signs = {}
    for name, files in DRIVER_FILES.items():
        present = [file for file in files if host.path(file).exists()]
        if absent[name] and WSL in present:
            present.remove(WSL)
        if present:
            signs[name] = present[0]
        elif name == "cuda" and (
            nvidia.states(host) or (host.command(["nvidia-smi", "-L"]) or "").startswith("GPU ")
        ):
            signs[name] = "nvidia-smi"
        elif name == stack == "rocm" and amd.states(host):
            signs[name] = amd.SOURCES
    return signs


def _why_no_gpu(
    torch: Any, stack: SoftwareStack, signs: Mapping[SoftwareStack, str], host: Host
) -> list[Note]:
    """Return why a torch trains on the CPU where a person would expect a GPU."""
    version = str(torch.__version__)
    if stack == "cpu":
        notes = []
        for name, sign in signs.items():
            fields = {"torch": version, "vendor": VENDORS[PLATFORMS[name]], "sign": sign}
            notes.append(Note("torch-without-gpus", {**fields, "build": name.upper()}))
        return notes
    return [_why_not_found({"torch": version}, stack, signs, host)]


def _why_not_found(
    fields: dict[str, NoteValue],
    stack: SoftwareStack,
    signs: Mapping[SoftwareStack, str],
    host: Host,
) -> Note:
    """Return why a torch that is built for GPUs finds none; `fields` holds its version."""
    vendor = VENDORS[PLATFORMS[stack]]
    sign = signs.get(stack, "")
    fields["build"] = "ROCm" if stack == "rocm" else "CUDA"
    variable = _hiding(stack, host)
    if variable is not None:
        return Note("gpus-hidden", {**fields, "variable": variable})
    if not sign or sign == amd.SOURCES:
        other = next((name for name in signs if name != stack), None)
        if other is not None:
            fields["other"] = other.upper()
            return Note("gpus-of-other-vendor", {**fields, "vendor": VENDORS[PLATFORMS[other]]})
        fields["flags"] = "--gpus all" if stack == "cuda" else "--device /dev/kfd --device /dev/dri"
        fields["file"] = DRIVER_FILES[stack][0]
        return Note("gpu-driver-absent", {**fields, "vendor": vendor})
    path = host.path(sign)
    wanted = os.R_OK if path.is_dir() else os.R_OK | os.W_OK
    if path.exists() and not os.access(path, wanted):
        return Note("gpu-not-permitted", {**fields, "file": sign})
    gpus = nvidia.states(host) if stack == "cuda" else ()
    if gpus and all(gpu.partitioned for gpu in gpus):
        indices = ", ".join(str(gpu.index) for gpu in gpus)
        return Note("mig-without-instance", {**fields, "gpus": indices})
    return Note("gpu-driver-unfit", {**fields, "vendor": vendor, "sign": sign})


def _hiding(stack: str, host: Host) -> str | None:
    """Return the variable that hides all GPUs; None for none."""
    for name in _VISIBLE[stack]:
        if host.environ.get(name, "unset").strip() in ("", "-1"):
            return name
    return None


def _has_gpu(stack: SoftwareStack, signs: Iterable[SoftwareStack], host: Host) -> bool:
    """Return whether there are GPUs to train on; without a ROCm build AMD's may be part of a CPU,
    but for Instincts.
    """
    wanted = {"rocm": stack == "rocm" or amd.has_instinct(host), "cuda": stack != "rocm"}
    return any(wanted[name] and _hiding(name, host) is None for name in signs)


def _without_torch(host: Host, notes: list[Note]) -> Machine:
    """Describe a machine if nothing can be trained: the platform by the signs of its GPUs."""
    notes = notes or [Note("torch-not-installed", {"install": ""})]
    path = host.environ.get("PATH", "")
    hints = []
    for tool in ("nvidia-smi", "amd-smi", "rocm-smi"):
        if shutil.which(tool, path=path):
            hints.append(tool)
    stack, sign = next(iter(signs_of_gpus("cpu", host).items()), (None, ""))
    if stack is None:
        if hints:
            notes.append(Note("driver-file-absent", {"tools": " and ".join(hints)}))
        return _without_gpu(host, notes, None)
    all_signs = ", ".join(dict.fromkeys([sign, *hints]))
    notes.append(Note("platform-from-signs", {"signs": all_signs}))
    info = GpuInfo(software_stack=stack)
    # AMD's driver has no name for most GPUs that a training would report.
    states = nvidia.states(host) if stack == "cuda" else ()
    if states:
        info = info.but(
            device_name=states[0].name,
            device_count=len(states),
            total_memory_gb=round_figure(states[0].memory_total_gb),
        )
    else:
        notes.append(Note("gpus-unknown"))
    return _machine(host, PLATFORMS[stack], info, notes, {}, ())


def cpu_info(host: Host, pytorch_version: str | None) -> GpuInfo:
    """Return the device that a training on the CPU reports."""
    return GpuInfo(
        device_name=hosts.cpu_name(host),
        device_count=1,
        total_memory_gb=round_figure(hosts.memory_gb()),
        software_stack="cpu",
        pytorch_version=pytorch_version,
        architecture=platform.machine() or None,
    )


def _without_gpu(host: Host, notes: list[Note], pytorch_version: str | None) -> Machine:
    info = cpu_info(host, pytorch_version)
    limit = hosts.memory_limit_gb(host)
    if limit is not None:
        notes.append(Note("memory-limited", {"limit": limit, "memory": hosts.memory_gb()}))
    if info.device_name is None:
        notes.append(Note("cpu-unnamed"))
    versions = {"torch": pytorch_version} if pytorch_version else {}
    return _machine(host, "cpu", info, notes, versions, ())


def _machine(
    host: Host,
    vendor: Platform,
    info: GpuInfo,
    notes: list[Note],
    versions: dict[str, str],
    devices: tuple[Device, ...],
) -> Machine:
    versions = {**hosts.versions(host), **versions}
    cpu, numa_balancing = info.device_name, None
    if vendor != "cpu":
        cpu, numa_balancing = hosts.cpu_name(host), hosts.numa_balancing(host)
        driver = _DRIVER[vendor](host)
        if driver:
            versions["driver"] = driver
    environment = Environment(
        versions=versions,
        hostname=platform.node() or None,
        os=hosts.operating_system(host),
        container=hosts.container(host),
        tprimat_commit=hosts.commit(host, REPOSITORY),
        cpu=cpu,
        cpu_threads=hosts.cpu_threads(host),
        cpu_instructions=hosts.cpu_instructions(host),
        memory_held_by_others_gb=held_memory.most_held_gb(devices),
        gpu_partition=amd.partition(host) if vendor == "amd" else None,
        numa_balancing=numa_balancing,
        settings=hosts.settings(host.environ),
    )
    return Machine(vendor, info, environment, devices, tuple(notes))
