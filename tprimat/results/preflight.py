"""The preflight file: the rates that the devices of a machine sustained before a benchmark, and
causes that may slow it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Annotated, Literal

import msgspec

from tprimat.notes import Note, NoteValue
from tprimat.notes.catalogue import words
from tprimat.results.conditions import Preflight
from tprimat.results.fields import Fixed, Natural, NonNegative
from tprimat.results.run import Platform
from tprimat.units import round_figure


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """The rates of one operation that a device repeats for some time; TFLOP/s of products, GB/s of
    data.

    Attributes:
        median, mean, best: over windows of equal work.
        error: standard error of the median, relative to it: 1.25 robust standard deviations of the
            windows / √windows.
        drop: by how much the last quarter of the time was below the first, relative; heat lowers
            clocks.
        shape: shape of the product, as m×n×k.
    """

    median: NonNegative
    mean: NonNegative
    best: NonNegative
    error: NonNegative = 0.0
    drop: float = 0.0
    shape: str | None = None


class DevicePreflight(Fixed, frozen=True, kw_only=True):
    """One device, measured by one process while all others were measured too.

    Attributes:
        id: UUID (NVIDIA) or PCI address (AMD); empty if unknown.
        rates: by operation, such as "bf16" (a matrix product), "triad" or "host to device".
        unknown: why an operation has no rate.
        clock_under_load_mhz: while products were queued.
    """

    rank: Natural
    local_rank: Natural
    host: str
    name: str | None = None
    id: str = ""
    rates: dict[str, Rate] = {}
    unknown: dict[str, str] = {}
    partition: str | None = None
    memory_held_gb: NonNegative | None = None
    power_cap_w: NonNegative | None = None
    power_default_w: NonNegative | None = None
    clock_max_mhz: NonNegative | None = None
    clock_under_load_mhz: NonNegative | None = None


class NodePreflight(Fixed, frozen=True, kw_only=True):
    """One machine, by its first process.

    Attributes:
        versions: versions of driver, torch and libraries.
        processes: other processes on its GPUs, in words.
    """

    host: str
    versions: dict[str, str] = {}
    partition: str | None = None
    numa_balancing: bool | None = None
    processes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    other_programs_cpu_share: NonNegative | None = None
    steal_cpu_share: NonNegative | None = None


class AllReduce(msgspec.Struct, frozen=True, kw_only=True):
    """An all-reduce of one message size over all devices, by the slowest process.

    Attributes:
        seconds: mean time of one.
        bus_gb_per_s: bytes / seconds × 2(n − 1)/n, as nccl-tests counts it.
        is_right: whether the sum is.
    """

    bytes: Natural
    seconds: NonNegative
    bus_gb_per_s: NonNegative
    is_right: bool = True


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """Rates of writing a file to the output directory, with fsync, and reading it, not from the
    page cache; GB/s.
    """

    bytes: Natural
    write_gb_per_s: NonNegative | None = None
    read_gb_per_s: NonNegative | None = None
    unknown: str | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that slows benchmarks on this machine, or makes them differ from others.

    Attributes:
        device: the label of the device that it is about; None for the machine.
    """

    code: str
    text: str
    device: str | None = None


def finding(code: str, of: str, device: str | None = None, **fields: NoteValue) -> Finding:
    """Return a finding of a code, as files have it: with the sentence of the note with the code
    `of`.
    """
    return Finding(code=code, text=words(Note(of, {**fields, "device": device})), device=device)


class PreflightFile(Fixed, frozen=True, kw_only=True):
    """Everything that a preflight measured."""

    schema: Literal["preflight/1"] = "preflight/1"
    timestamp: Annotated[str, msgspec.Meta(min_length=10)]
    platform: Platform
    quick: bool
    seconds: NonNegative
    tprimat_commit: str | None = None
    nodes: tuple[NodePreflight, ...]
    devices: Annotated[tuple[DevicePreflight, ...], msgspec.Meta(min_length=1)]
    all_reduce: tuple[AllReduce, ...] = ()
    all_reduce_backend: str | None = None
    disk: Disk | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def slow_devices(self) -> tuple[str, ...]:
        """The devices that are slower than the others, each once."""
        return tuple(
            dict.fromkeys(
                finding.device
                for finding in self.findings
                if finding.code == SLOW and finding.device
            )
        )

    @property
    def is_ready(self) -> bool:
        """Whether no device is slower than the others and no sum is wrong."""
        return not any(finding.code in (SLOW, WRONG_SUM) for finding in self.findings)

    @property
    def operations(self) -> list[str]:
        """The operations that at least one device has a rate for, in the order in which they were
        measured.
        """
        return list(dict.fromkeys(name for device in self.devices for name in device.rates))

    def typical(
        self, name: str, of: Callable[[Rate], float] = lambda rate: rate.median
    ) -> float | None:
        """Return the median over the devices of an operation's rate; None if none has it."""
        rates = [of(device.rates[name]) for device in self.devices if name in device.rates]
        if rates:
            return statistics.median(rates)
        return None

    def label(self, device: DevicePreflight) -> str:
        """Return a device's name among the others: its number, and its host if there are
        several.
        """
        is_cpu = self.platform == "cpu"
        number = f"rank {device.rank}" if is_cpu else f"GPU {device.local_rank}"
        if is_cpu or len({device.host for device in self.devices}) > 1:
            return f"{number} on {device.host}"
        return number

    @property
    def best_all_reduce(self) -> AllReduce | None:
        """The message size with the highest bus bandwidth."""
        return max(self.all_reduce, key=lambda each: each.bus_gb_per_s, default=None)


SLOW, WRONG_SUM = "slow_device", "wrong_sum"
"""The codes of a device that is slower than the others, and of an all-reduce that is wrong."""

PRODUCTS = ("fp32", "tf32", "bf16", "fp16", "fp8")
COPY, TRIAD, TO_DEVICE, FROM_DEVICE = "copy", "triad", "host to device", "device to host"


def unit_of(name: str) -> str:
    """Return the unit of an operation's rate."""
    if name in PRODUCTS:
        return "TFLOP/s"
    return "GB/s"


def in_short(file: PreflightFile) -> Preflight:
    """Return the values of a preflight that a benchmark's result includes."""
    products = {
        name: value for name in PRODUCTS if (value := round_figure(file.typical(name))) is not None
    }
    best = file.best_all_reduce
    disk = file.disk or Disk(bytes=0)
    return Preflight(
        timestamp=file.timestamp,
        devices=len(file.devices),
        matmul_tflops=products,
        memory_gb_per_s=round_figure(file.typical(TRIAD)),
        host_to_device_gb_per_s=round_figure(file.typical(TO_DEVICE)),
        device_to_host_gb_per_s=round_figure(file.typical(FROM_DEVICE)),
        all_reduce_gb_per_s=round_figure(best.bus_gb_per_s if best is not None else None),
        disk_write_gb_per_s=round_figure(disk.write_gb_per_s),
        disk_read_gb_per_s=round_figure(disk.read_gb_per_s),
        slow_devices=file.slow_devices,
        findings=tuple(finding.text for finding in file.findings),
    )
