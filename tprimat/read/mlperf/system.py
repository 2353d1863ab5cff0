"""The machine in an MLPerf system description: systems/*.json, or :::SYSJSON within a log.

A submission keeps them apart: results/<system>/<benchmark>/result_0.txt and systems/<system>.json.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

import msgspec

from tprimat.results.run import Platform, Run, SoftwareStack
from tprimat.units import gib_to_gb, round_figure

MARK = ":::SYSJSON"


@dataclasses.dataclass(frozen=True)
class System:
    """A machine as its submitter describes it. None: it isn't stated.

    Attributes:
        device: name of the accelerator.
        memory_gb: of one accelerator, GB of 10⁹ bytes.
        framework: framework, versions and stack in the submitter's words.
        notes: on the software; often the precision.
    """

    device: str | None = None
    nodes: int | None = None
    devices_per_node: int | None = None
    memory_gb: float | None = None
    framework: str | None = None
    notes: str | None = None
    cpu: str | None = None
    os: str | None = None

    @property
    def devices(self) -> int | None:
        """Accelerators of the whole system."""
        return self.nodes * self.devices_per_node if self.nodes and self.devices_per_node else None

    @property
    def platform(self) -> Platform | None:
        """The vendor, by the accelerator's name."""
        name = (self.device or "").lower()
        if re.search(r"\bamd\b|instinct|\bmi\d{3}", name):
            return "amd"
        return "nvd" if re.search(r"nvidia|tesla|\b[abhg]b?\d{3}\b", name) else None

    @property
    def stack(self) -> SoftwareStack | None:
        """What drives the accelerator, by the vendor."""
        return {"amd": "rocm", "nvd": "cuda"}.get(self.platform or "")  # type: ignore[return-value]


def parse(text: str) -> System | None:
    """Return a description in JSON; None where it is none."""
    try:
        description = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return of(description) if isinstance(description, dict) else None


def of(description: Mapping[str, Any]) -> System | None:
    """Return a description as a dictionary; None where it isn't one of a system."""
    if "accelerator_model_name" not in description:
        return None

    def word(name: str) -> str | None:
        value = description.get(name)
        text = " ".join(str(value).split())[:200] if isinstance(value, (str, int, float)) else ""
        return None if not text or text.lower() in ("n/a", "none") or "UNKNOWN_MLPERF" in text else text

    def count(name: str) -> int | None:
        value = word(name) or ""
        return int(value) or None if re.fullmatch(r"\d{1,12}", value) else None

    return System(
        device=word("accelerator_model_name"),
        nodes=count("number_of_nodes"),
        devices_per_node=count("accelerators_per_node"),
        memory_gb=_memory(word("accelerator_memory_capacity")),
        framework=word("framework"),
        notes=word("sw_notes"),
        cpu=word("host_processor_model_name"),
        os=word("operating_system"),
    )


def _memory(text: str | None) -> float | None:
    """Return the memory of a device in GB: driver tools write MiB; data sheets write GB of either kind."""
    match = re.match(r"(\d{1,9}(?:\.\d{1,6})?)\s*([MGT])(i?)B", text or "")
    if not match:
        return None
    value, scale, binary = float(match[1]), match[2], match[3]
    gib = value / 1024 if scale == "M" else value * 1024 if scale == "T" else value
    # What a vendor calls 80 GB or 192 GB of HBM is its nominal size: kept as it is called.
    return round_figure(gib_to_gb(gib)) if binary else round_figure(value if scale == "G" else gib)


def choose(log: PurePath, descriptions: Iterable[PurePath]) -> PurePath | None:
    """Return the description that belongs to a result file, by their paths; None where none or several may."""
    folders = {part.lower() for part in log.parts[:-1]}
    paths = list(descriptions)
    within = [path for path in paths if path.stem.lower() in folders]
    if len(within) != 1:
        words = _words(log.stem)
        fitting = [path for path in paths if _words(path.stem) <= words and len(_words(path.stem)) > 1]
        longest = max((len(_words(path.stem)) for path in fitting), default=0)
        within = [path for path in fitting if len(_words(path.stem)) == longest]
    return within[0] if len(within) == 1 else None


def _words(stem: str) -> frozenset[str]:
    return frozenset(word for word in stem.lower().split("_") if word)


def applied(run: Run, system: System, where: str) -> Run:
    """Return an MLPerf run with what its system description, at that place, adds; what the log states wins."""
    gpu, host = run.gpu_info, run.environment
    devices = run.training_config.num_gpus or system.devices
    added = [f"GPUs {devices}"] if devices and not run.training_config.num_gpus else []
    added += [f"GPU {system.device}"] if system.device and not gpu.device_name else []
    warnings = [warning for warning in run.warnings if not (added and warning.startswith(UNSTATED))]
    if added:
        warnings.append(f"from the system description {where}: {', '.join(added)}")
    if system.notes and run.training_config.precision is None:
        warnings.append(f"the system description says of the software: {system.notes}")
    return msgspec.structs.replace(
        run,
        platform=run.platform or system.platform,
        warnings=tuple(dict.fromkeys(warnings)),
        gpu_info=msgspec.structs.replace(
            gpu,
            device_name=gpu.device_name or system.device,
            device_count=gpu.device_count or devices,
            total_memory_gb=gpu.total_memory_gb or system.memory_gb,
            software_stack=gpu.software_stack or system.stack,
        ),
        environment=msgspec.structs.replace(
            host,
            versions={**({"framework": system.framework} if system.framework else {}), **host.versions},
            cpu=host.cpu or system.cpu,
            os=host.os or system.os,
        ),
        training_config=msgspec.structs.replace(run.training_config, num_gpus=devices),
    )


UNSTATED = "the log doesn't state its GPUs"
"""How the warning begins that a system description makes needless."""
