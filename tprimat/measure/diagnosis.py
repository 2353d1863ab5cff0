"""Diagnosis of this machine: its parts, the frameworks that can run, and how to get missing
ones.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from tprimat import units
from tprimat.errors import lacking
from tprimat.frameworks import FRAMEWORKS
from tprimat.machine import amd, nvidia, platforms, torch_build
from tprimat.machine import host as hosts
from tprimat.machine.gpu import GpuState
from tprimat.machine.host import Host
from tprimat.machine.platforms import Machine
from tprimat.measure import shared_memory

LEAST_FREE_GB = 5.0
"""GB that a directory of results and logs should have; checkpoints are never written."""

REPORTS = {
    "matplotlib": "plots",
    "jinja2": "the HTML report",
    "rich": "tables in the terminal",
    "scipy": "intervals",
    "openpyxl": "trace reports as workbooks",
}
"""Packages of the analysis tier, and their purposes."""


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """A machine's facts and problems, with the names that `doctor --json` gives them.

    Attributes:
        facts: texts by their titles, in the order in which they are shown.
        can_train: frameworks that can train here.
        cannot_train: the others, with the reason and the command.
        missing: other missing packages, each with its purpose and the command.
        doubts: warnings of what will weaken a measurement made now.
        analyses_only: whether it has neither a GPU nor torch, so that it isn't meant for training.
    """

    facts: dict[str, str]
    gpus: tuple[GpuState, ...]
    can_train: list[str]
    cannot_train: dict[str, str]
    missing: list[str]
    doubts: list[str]
    analyses_only: bool = False


def diagnose(output: Path, host: Host | None = None, machine: Machine | None = None) -> Diagnosis:
    """Examine the machine, or a given host as a training would see it; and the disk that holds the
    output.
    """
    host = host or Host()
    machine = machine or platforms.detect(host=host)
    gpus = platforms.states(host)
    can_train = []
    cannot_train = {}
    for framework in FRAMEWORKS:
        reason = framework.unavailable()
        if reason is None:
            can_train.append(framework.name)
        else:
            cannot_train[framework.name] = reason
    free, where = hosts.free_space(output)
    analyses_only = not gpus and torch_build.NOT_INSTALLED in machine.notes
    if analyses_only:
        others = tuple(note for note in machine.notes if note != torch_build.NOT_INSTALLED)
        machine = dataclasses.replace(machine, notes=others)
    doubts = list(dict.fromkeys(_doubts(host, machine, gpus, free, where)))
    return Diagnosis(
        facts=_facts(host, machine, free, where),
        gpus=gpus,
        can_train=can_train,
        cannot_train=cannot_train,
        missing=[
            f"{package}, for {REPORTS[package]}: pip install {package}"
            for package in lacking(*REPORTS)
        ],
        doubts=doubts,
        analyses_only=analyses_only,
    )


def _facts(host: Host, machine: Machine, free: float | None, where: Path) -> dict[str, str]:
    info = machine.gpu_info
    processor = (
        f"{hosts.cpu_name(host) or 'unknown'}, {hosts.cpu_threads(host) or 'unknown'} threads"
        " available"
    )
    names = collections.Counter(
        device.info.device_name or "unknown GPU" for device in machine.devices
    )
    settings = [f"{name}={text}" for name, text in machine.environment.settings.items()]
    drivers = filter(None, (nvidia.driver_version(host), amd.driver_version(host)))
    if machine.devices:
        stack = f"{info.software_stack} {info.software_version or ''}".strip()
    else:
        stack = "no GPU visible to torch"
    packages = {}
    for name in ("torch", "lightning", "transformers", "nemo-toolkit"):
        packages[name] = host.package(name)
    return {
        "System": hosts.operating_system(host),
        "Container": hosts.container(host) or "none",
        "CPU": f"{processor}, {units.gigabytes(hosts.memory_gb())} of memory",
        "GPUs": ", ".join(f"{count}× {name}" for name, count in names.items()) or "none",
        "Driver": ", ".join(drivers) or "none found",
        "CUDA or ROCm": stack,
        **{name: version or "not installed" for name, version in packages.items()},
        "Disk": f"{units.gigabytes(free)} free at {where}",
        "Versions": ", ".join(
            f"{name} {version}" for name, version in hosts.versions(host).items()
        ),
        "Settings": ", ".join(settings) or "none set",
    }


def _doubts(
    host: Host, machine: Machine, gpus: Sequence[GpuState], free: float | None, where: Path
) -> Iterator[str]:
    yield from machine.warnings
    if gpus and not machine.devices:
        yield (
            f"the driver sees {len(gpus)} GPUs, torch sees none: install a torch build for this"
            " driver"
        )
    held = platforms.held_by_others(machine, host)
    if held:
        yield f"{held}; tprimat gpu-memory lists the processes"
    too_small = shared_memory.problem(host, len(machine.devices))
    if too_small:
        yield f"{too_small}: {shared_memory.HINT}"
    for gpu in gpus:
        if gpu.is_capped:
            cap = f"{gpu.power_cap_w:.0f} W, below its {gpu.power_default_w:.0f} W"
            yield f"GPU {gpu.index} power limit lowered to {cap}; expect lower performance"
    if free is not None and free < LEAST_FREE_GB:
        yield f"only {units.gigabytes(free)} free at {where}; results and logs may not fit"
