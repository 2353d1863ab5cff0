"""GPUs and their processes: the rows that every vendor's module fills, and shared helpers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, ClassVar

from tprimat.machine.host import Host
from tprimat.results.run import GpuInfo


@dataclasses.dataclass(frozen=True)
class Device:
    """One GPU as torch numbers it.

    Attributes:
        index: torch's number.
        info: what is known of it; device_count is 1.
        partition: which part of a GPU it is (MIG slice, CPX partition, …); None for a whole one.
        uuid: as the driver names it, without GPU-; None where torch doesn't state it.
        pci_address: domain:bus:device.function; None where torch doesn't state it.
        memory_held_gb: what others held when this was read, GB; None where unknown.
    """

    index: int
    info: GpuInfo
    partition: str | None = None
    uuid: str | None = None
    pci_address: str | None = None
    memory_held_gb: float | None = None


@dataclasses.dataclass(frozen=True)
class GpuState:
    """One GPU as its driver states it; None where it doesn't.

    Attributes:
        index: the vendor's number.
        name: the driver's name, or what the bus calls it.
        memory_total_gb, memory_used_gb: GB of 10⁹ bytes; used by all processes.
        power_cap_w, power_default_w, power_max_w: the cap that holds now, the factory's, and the
            highest that may be set.
        clock_mhz, clock_max_mhz: of the compute units, now and at most.
        partitioned: whether it is cut into parts (MIG).
        id: unique: the UUID without GPU- (NVIDIA) or the PCI address (AMD); lower case.
        utilisation_percent: share of the time in which at least one kernel ran, as the vendor defines it.
    """

    index: int
    name: str
    memory_total_gb: float | None = None
    memory_used_gb: float | None = None
    power_cap_w: float | None = None
    power_default_w: float | None = None
    power_max_w: float | None = None
    clock_mhz: float | None = None
    clock_max_mhz: float | None = None
    partitioned: bool = False
    id: str | None = None
    utilisation_percent: float | None = None

    @property
    def is_capped(self) -> bool:
        """Whether somebody set the cap below the factory's."""
        return (
            self.power_cap_w is not None
            and self.power_default_w is not None
            and self.power_cap_w < 0.99 * self.power_default_w
        )


@dataclasses.dataclass(frozen=True)
class GpuProcess:
    """A process that holds GPU memory, as the driver states it.

    Attributes:
        pid: its number; in a container it may mean another process.
        gpu: the vendor's number of the GPU; None where unknown.
        gpu_id: the GpuState.id of the GPU; None where unknown.
        name: None where unknown.
        memory_gb: GB of 10⁹ bytes; None where hidden.
    """

    pid: int
    gpu: str | None = None
    gpu_id: str | None = None
    name: str | None = None
    memory_gb: float | None = None


class VendorLibrary:
    """A vendor's Python library, ready to be asked until the block ends; without one, its answers are None.

    Attributes:
        name, error, start, stop: of its module, its errors' base, and the functions that open and close it.
        module: None where it isn't installed or finds no driver.
    """

    name: ClassVar[str]
    error: ClassVar[str]
    start: ClassVar[str]
    stop: ClassVar[str]

    def __init__(self, host: Host) -> None:
        self.module: Any = host.library(self.name)
        if self.module is not None:
            try:
                getattr(self.module, self.start)()
            except getattr(self.module, self.error):
                self.module = None

    def __enter__(self) -> VendorLibrary:
        return self

    def __exit__(self, *_: object) -> None:
        self.ask(self.stop)

    def ask(self, function: str, *arguments: Any) -> Any:
        """Return the library's answer; None where it can't or may not tell."""
        if self.module is None or None in arguments:
            return None
        try:
            return getattr(self.module, function)(*arguments)
        except (getattr(self.module, self.error), AttributeError, TypeError):
            # Older releases lack functions and arguments.
            return None


def drop_unknown(percents: Mapping[str, float | None]) -> dict[str, float]:
    """Return the values that are known."""
    return {each: percent for each, percent in percents.items() if percent is not None}


def decode_json(text: str | None) -> Any:
    """Decode what a vendor's tool prints as JSON, with warnings before it or not; None where there is none."""
    starts = [position for position in ((text or "").find(mark) for mark in "[{") if position >= 0]
    try:
        return json.loads((text or "")[min(starts) :]) if starts else None
    except ValueError:
        return None
