"""GPUs and their processes: the rows that every vendor's module fills, and the helpers that both
share.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from tprimat.machine.host import Host
from tprimat.results.fields import Fixed
from tprimat.results.run import GpuInfo, SoftwareStack

WSL = "/dev/dxg"
DRIVER_FILES: Mapping[SoftwareStack, tuple[str, ...]] = {
    "cuda": ("/dev/nvidiactl", "/dev/nvhost-gpu", "/dev/nvgpu", WSL),
    "rocm": ("/dev/kfd", WSL),
}
"""What the drivers make while a GPU is there: Jetsons' too, and Windows' in its Linux, for a GPU of
any vendor.
"""


@dataclasses.dataclass(frozen=True)
class Device:
    """One GPU as torch numbers it.

    Attributes:
        partition: which part of a GPU it is (MIG slice, CPX partition, …); None for a whole one.
        id: unique identifier, as in GpuState.id; empty if torch doesn't state it.
        memory_held_gb: memory in use by others when this was read, GB; None if unknown.
        is_integrated: whether its memory is the system's and its driver states nothing of it (GB10,
            Jetson).
    """

    index: int
    info: GpuInfo
    partition: str | None = None
    id: str = ""
    memory_held_gb: float | None = None
    is_integrated: bool = False


class GpuState(Fixed, frozen=True, omit_defaults=True):
    """One GPU as its driver states it; None if it doesn't. Counters count up from an unknown start.

    Attributes:
        memory_used_gb: by all processes.
        power_cap_w, power_default_w, power_max_w: the cap that holds now, the factory's, and the
            highest that may be set.
        clock_mhz, clock_max_mhz: clock of the compute units, now and at most.
        partitioned: whether it is cut into parts (MIG).
        id: the UUID without GPU- (NVIDIA) or the PCI address (AMD); lower case.
        utilisation_percent: share of the time in which at least one kernel ran, as the vendor
            defines it.
        power_w: the newest reading; power_is_average: whether it averages the time since the last
            one (False: it covers a part of the time only, as on A100 and H100; None: unknown).
        energy_j: counter of the energy; energy_range_j: where it starts again.
        counter_is_shared: whether one of the dies of a package counts the energy of both (MI250,
            MI250X).
        throttle: why the clock is low: power-cap, thermal, hardware-slowdown, power-brake,
            clock-setting, sync-boost.
        ecc_corrected, ecc_uncorrected, retired_pages, pcie_replays, link_errors: counters.
        pcie_width, pcie_width_max: lanes.
        xids: NVIDIA's codes of errors since the last reading.
        pids: processes that compute on it; None if the driver doesn't report them.
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
    power_w: float | None = None
    power_is_average: bool | None = None
    energy_j: float | None = None
    energy_range_j: float | None = None
    counter_is_shared: bool = False
    temperature_c: float | None = None
    memory_temperature_c: float | None = None
    memory_clock_mhz: float | None = None
    throttle: tuple[str, ...] = ()
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    retired_pages: int | None = None
    pcie_replays: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    link_errors: int | None = None
    xids: tuple[int, ...] = ()
    pids: tuple[int, ...] | None = None

    @property
    def is_capped(self) -> bool:
        """Whether somebody set the cap below the factory's."""
        cap = self.power_cap_w
        default = self.power_default_w
        return cap is not None and default is not None and cap < 0.99 * default


@dataclasses.dataclass(frozen=True)
class GpuProcess:
    """A process that holds GPU memory, as the driver states it; None if it doesn't.

    Attributes:
        pid: its number; in a container it may mean another process.
        gpu: the vendor's number of the GPU.
        gpu_id: the GpuState.id of the GPU.
        user, command: those of the process that has this number here.
        started: its start time, seconds since the epoch, to recognize a reused number.
    """

    pid: int
    gpu: str | None = None
    gpu_id: str | None = None
    name: str | None = None
    memory_gb: float | None = None
    user: str | None = None
    command: str | None = None
    started: float | None = None


class VendorLibrary:
    """A vendor's Python library, ready to be asked until the block ends; without one, its answers
    are None.
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
            except (getattr(self.module, self.error, OSError), OSError, AttributeError):
                # OSError: from ROCm 7.14 on, amdsmi can be imported without its shared object.
                # AttributeError: another package of the name.
                self.module = None

    def __enter__(self) -> VendorLibrary:
        return self

    def __exit__(self, *_: object) -> None:
        self.ask(self.stop)

    def ask(self, function: str, *arguments: Any) -> Any:
        """Return the library's answer; None if it has none or refuses it."""
        if self.module is None or None in arguments:
            return None
        try:
            answer = getattr(self.module, function)(*arguments)
            # Older releases of pynvml give strings as bytes.
            if isinstance(answer, bytes):
                return answer.decode(errors="replace")
            return answer
        except (getattr(self.module, self.error), AttributeError, TypeError, UnicodeDecodeError):
            # Older releases lack functions and arguments; newer ones decode names, which may be in
            # any encoding.
            return None
