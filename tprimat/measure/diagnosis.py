"""Diagnosis of this machine: what it has, what can run, and how to get what is missing."""

from __future__ import annotations

import collections
import dataclasses
import importlib.util
from collections.abc import Sequence
from pathlib import Path

from tprimat import units
from tprimat.frameworks import FRAMEWORKS
from tprimat.machine import amd, nvidia, platforms, torch_build
from tprimat.machine import host as hosts
from tprimat.machine.gpu import GpuState
from tprimat.machine.host import Host
from tprimat.machine.platforms import Machine

LEAST_FREE_GB = 5.0
"""GB that a folder of results and logs should have; checkpoints are never written."""

REPORTS = {
    "matplotlib": "the picture",
    "plotly": "the charts of the HTML report",
    "rich": "tables on the terminal",
    "scipy": "intervals",
    "openpyxl": "reports of traces as workbooks",
}
"""Packages of the analysis tier, and what they are for."""


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """A machine's facts and problems.

    Attributes:
        facts: titles and texts, in the order in which they are shown.
        able: frameworks that can train here.
        unable: the others, with the reason and the command.
        missing: other missing packages, each with its purpose and the command.
        warnings: what will weaken a measurement made now.
        analyses_only: whether it has neither a GPU nor torch, so that nobody means to train there.
    """

    facts: tuple[tuple[str, str], ...]
    gpus: tuple[GpuState, ...]
    able: tuple[str, ...]
    unable: tuple[tuple[str, str], ...]
    missing: tuple[str, ...]
    warnings: tuple[str, ...]
    analyses_only: bool = False


def diagnose(output: Path, host: Host | None = None, machine: Machine | None = None) -> Diagnosis:
    """Examine the machine, or a host and what a training would find there; and the disk that holds the output."""
    host = host or Host()
    machine = machine or platforms.detect(host=host)
    gpus = platforms.states(host)
    reasons = [(framework.name, framework.unavailable()) for framework in FRAMEWORKS]
    free, where = hosts.free_space(output)
    warnings = _warnings(host, machine, gpus, free, where)
    analyses_only = not gpus and torch_build.NOT_INSTALLED in warnings
    if analyses_only:
        warnings.remove(torch_build.NOT_INSTALLED)
    return Diagnosis(
        facts=tuple(_facts(host, machine, free, where)),
        gpus=gpus,
        able=tuple(name for name, reason in reasons if reason is None),
        unable=tuple((name, reason) for name, reason in reasons if reason is not None),
        missing=tuple(
            f"{package}, for {purpose}: pip install {package}"
            for package, purpose in REPORTS.items()
            if importlib.util.find_spec(package) is None
        ),
        warnings=tuple(warnings),
        analyses_only=analyses_only,
    )


def _facts(host: Host, machine: Machine, free: float | None, where: Path) -> list[tuple[str, str]]:
    info = machine.gpu_info
    processor = f"{hosts.cpu_name(host) or 'unknown'}, {hosts.cpu_threads(host) or 'unknown'} threads for us"
    names = collections.Counter(device.info.device_name or "unknown GPU" for device in machine.devices)
    settings = [f"{name}={text}" for name, text in machine.environment.settings.items()]
    drivers = [driver for vendor in (nvidia, amd) if (driver := vendor.driver_version(host))]
    stack = (
        f"{info.software_stack} {info.software_version or ''}".strip() if machine.devices else "no GPU that torch sees"
    )
    packages = {name: host.package(name) for name in ("torch", "lightning", "transformers", "nemo-toolkit")}
    entries = [
        ("System", hosts.operating_system(host)),
        ("Container", hosts.container(host) or "none"),
        ("Processor", f"{processor}, {units.gigabytes(hosts.memory_gb())} of memory"),
        ("GPUs", ", ".join(f"{count}× {name}" for name, count in names.items()) or "none"),
        ("Driver", ", ".join(drivers) or "none was found"),
        ("CUDA or ROCm", stack),
        *((name, version or "not installed") for name, version in packages.items()),
        ("Disk", f"{units.gigabytes(free)} free at {where}"),
        ("Versions", ", ".join(f"{name} {version}" for name, version in hosts.versions(host).items())),
        ("Settings", ", ".join(settings) or "none that change speed"),
    ]
    return [(title, text) for title, text in entries if text]


def _warnings(host: Host, machine: Machine, gpus: Sequence[GpuState], free: float | None, where: Path) -> list[str]:
    warnings = list(machine.warnings)
    if gpus and not machine.devices:
        warnings.append(f"the driver sees {len(gpus)} GPUs and torch none: is this torch built for them?")
    held = platforms.held_by_others(machine, host) if machine.devices else None
    if held:
        warnings.append(f"{held}; tprimat gpu-memory shows who it is")
    warnings += [
        f"GPU {gpu.index} is capped at {gpu.power_cap_w:.0f} W, below its {gpu.power_default_w:.0f} W: it will be "
        "slower than others of its kind"
        for gpu in gpus
        if gpu.is_capped
    ]
    if free is not None and free < LEAST_FREE_GB:
        warnings.append(f"only {units.gigabytes(free)} are free at {where}: results and logs may not fit")
    return list(dict.fromkeys(warnings))
