"""What is known of a GPU and of a process on it: rows that every vendor's module fills alike."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

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
        id: what tells it from all others: the UUID without GPU- (NVIDIA), the PCI address (AMD); lower case.
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


def decode_json(text: str | None) -> Any:
    """Decode what a vendor's tool prints as JSON, with warnings before it or not; None where there is none."""
    starts = [position for position in ((text or "").find(mark) for mark in "[{") if position >= 0]
    try:
        return json.loads((text or "")[min(starts) :]) if starts else None
    except ValueError:
        return None
