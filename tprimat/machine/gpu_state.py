"""How the GPUs are set and how they stand: power cap, clocks, memory. By the driver, so without torch.

NVIDIA is asked through nvidia-smi, AMD through the files of the amdgpu kernel driver
(docs.kernel.org, gpu/amdgpu/thermal.html and driver-misc.html), whose form is fixed.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from tprimat.machine.host import Host
from tprimat.units import GB

_NVIDIA = (
    "index,name,memory.total,memory.used,power.limit,power.default_limit,power.max_limit,clocks.current.sm,"
    "clocks.max.sm,mig.mode.current"
)


@dataclasses.dataclass(frozen=True)
class GpuState:
    """One GPU as its driver states it; None where it doesn't.

    Attributes:
        name: the driver's name, or what the bus calls it.
        memory_total_gb, memory_used_gb: GB of 10⁹ bytes; all processes.
        power_cap_w, power_default_w, power_max_w: the cap that holds now, the factory's, and the
            highest that may be set.
        clock_mhz, clock_max_mhz: of the compute units, now and at most.
        partitioned: whether it is cut into parts (MIG).
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

    @property
    def capped(self) -> bool:
        """Whether somebody set the cap below the factory's."""
        return (
            self.power_cap_w is not None
            and self.power_default_w is not None
            and self.power_cap_w < 0.99 * self.power_default_w
        )


def states(host: Host) -> tuple[GpuState, ...]:
    """All GPUs of this machine, NVIDIA's first; none where no driver answers."""
    return (*_nvidia(host), *_amd(host))


def _nvidia(host: Host) -> Iterator[GpuState]:
    listed = host.command(["nvidia-smi", f"--query-gpu={_NVIDIA}", "--format=csv,noheader,nounits"]) or ""
    for line in listed.splitlines():
        fields = [field.strip() for field in line.split(", ")]
        if len(fields) != _NVIDIA.count(",") + 1 or not fields[0].isdigit():
            continue
        numbers = [_number(field) for field in fields[2:9]]
        total, used = (None if each is None else each * 2**20 / GB for each in numbers[:2])
        cap, default, most, clock, clock_max = numbers[2:]
        yield GpuState(
            index=int(fields[0]),
            name=fields[1],
            memory_total_gb=total,
            memory_used_gb=used,
            power_cap_w=cap,
            power_default_w=default,
            power_max_w=most,
            clock_mhz=clock,
            clock_max_mhz=clock_max,
            partitioned=fields[9] == "Enabled",
        )


def _amd(host: Host) -> Iterator[GpuState]:
    folder = host.path("/sys/class/drm")
    cards = sorted(
        (path for path in folder.glob("card*") if re.fullmatch(r"card\d+", path.name)),
        key=lambda path: int(path.name.removeprefix("card")),
    )
    index = 0
    for card in cards:
        base = f"/sys/class/drm/{card.name}/device"
        if (host.read(f"{base}/vendor") or "").strip() != "0x1002" or not host.exists(f"{base}/mem_info_vram_total"):
            continue
        sensors = next((path.name for path in sorted(host.path(f"{base}/hwmon").glob("hwmon*"))), None)
        hwmon = f"{base}/hwmon/{sensors}"
        levels = re.findall(r"^\d+:\s*(\d+)Mhz", host.read(f"{base}/pp_dpm_sclk") or "", re.MULTILINE | re.IGNORECASE)
        name = (host.read(f"{base}/product_name") or "").strip()
        yield GpuState(
            index=index,
            name=name or f"AMD {(host.read(f'{base}/device') or '').strip()}",
            memory_total_gb=_scaled(host, f"{base}/mem_info_vram_total", 1 / GB),
            memory_used_gb=_scaled(host, f"{base}/mem_info_vram_used", 1 / GB),
            power_cap_w=_scaled(host, f"{hwmon}/power1_cap", 1e-6),
            power_default_w=_scaled(host, f"{hwmon}/power1_cap_default", 1e-6),
            power_max_w=_scaled(host, f"{hwmon}/power1_cap_max", 1e-6),
            clock_mhz=_scaled(host, f"{hwmon}/freq1_input", 1e-6),
            clock_max_mhz=max(map(float, levels), default=None),
        )
        index += 1


def _scaled(host: Host, name: str, factor: float) -> float | None:
    number = _number((host.read(name) or "").strip())
    return None if number is None else number * factor


def _number(text: str) -> float | None:
    """A plain number; None for [N/A], [Not Supported] and the like."""
    return float(text) if re.fullmatch(r"\d{1,18}(\.\d{1,6})?", text) else None
