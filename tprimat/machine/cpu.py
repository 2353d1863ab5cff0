"""The CPUs that a training may use, read again and again: time by program, hypervisor, stalls,
frequency, energy.

Times are the system's counters (/proc/stat, /proc/pressure, control group), so what lies between
two readings is exact to a tick of 10 ms, however seldom one reads. Energy is RAPL's, which Intel's
and AMD's CPUs have; kernels since 5.10 let only root read it.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Any

import msgspec
import psutil

from tprimat.machine.host import Host, control_groups
from tprimat.results.fields import known_items
from tprimat.text import for_encoding

Readings = dict[str, float]
"""What each of several counters or programs has, by name."""

SCAN_SHARE = 0.002
"""Share of one CPU's time that may be spent on finding out which process used the CPUs. 100
processes take some 6 ms.
"""

MOST_PROGRAMS = 16

_POWERCAP = "/sys/class/powercap"
_STALLS = {"cpu": "some", "memory": "full", "io": "full"}
"""Pressure stall information: some: at least one task waits; full: all of them do."""


class CpuState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The CPUs that may be used, as the system counts them; seconds and joules count up from an
    unknown start.

    Attributes:
        total_s, busy_s, stolen_s: time of all of them; in use; taken by the hypervisor.
        own_s: time used by the training and its child processes; None in readings that don't look
            at processes.
        programs: used since the first reading by the processes of others that used most, by name
            and number.
        stalled_s: time in which tasks waited for cpu, memory or io, on the whole machine.
        held_back_s: time in which the control group had used up its quota.
        energy_j, energy_range_j: counters of each package and its memory, and the values at which
            they start again.
    """

    total_s: float = 0.0
    busy_s: float = 0.0
    stolen_s: float = 0.0
    own_s: float | None = None
    programs: Readings = {}
    stalled_s: Readings = {}
    held_back_s: float | None = None
    frequency_mhz: float | None = None
    load_average: float | None = None
    energy_j: Readings = {}
    energy_range_j: Readings = {}

    def share_of_others(self, before: CpuState) -> float:
        """Return the share of the time since another reading that other programs used; both must
        know own_s.
        """
        used = self.busy_s - before.busy_s - (self.own_s or 0.0) + (before.own_s or 0.0)
        return max(used, 0.0) / (self.total_s - before.total_s)

    def share_stolen(self, before: CpuState) -> float:
        """Return the share of the time since another reading that the hypervisor took."""
        return max(self.stolen_s - before.stolen_s, 0.0) / (self.total_s - before.total_s)


class CpuReader:
    """Reads the CPUs that this process may use. The process `root` and its children are the
    training's own.

    Attributes:
        unknown: what can't be read, and why.
    """

    def __init__(self, host: Host, root: int) -> None:
        self.unknown: list[str] = []
        self._host = host
        self._root = root
        self._due = 0.0
        self._used_before: dict[tuple[int, float, str], float] | None = None
        self._packages = self._find_packages()

    def read(self, *, last: bool = False) -> CpuState | None:
        """Return the counters now; None if the system states none. The last reading looks at the
        processes too.
        """
        try:
            total, busy, stolen = _seconds()
        except (OSError, RuntimeError, LookupError, AttributeError):
            return None
        own = None
        programs: Readings = {}
        if last or time.monotonic() >= self._due:
            own, programs = self._scan()
        joules = {name: self._joules(file) for name, file in self._packages}
        return CpuState(
            total,
            busy,
            stolen,
            own,
            programs,
            stalled_s=self._stalls(),
            held_back_s=self._held_back_s(),
            frequency_mhz=_frequency_mhz(),
            load_average=_load_average(),
            energy_j=known_items(joules),
            energy_range_j=self._ranges,
        )

    def _scan(self) -> tuple[float | None, Readings]:
        """Return the time used by the training so far, and by other programs since the first
        look.
        """
        began = time.process_time()
        processes = {}
        for process in psutil.process_iter(["ppid", "name", "cpu_times", "create_time"]):
            if process.info["cpu_times"]:
                processes[process.pid] = process.info
        own = 0.0
        others = {}
        for pid, info in processes.items():
            times = info["cpu_times"]
            if self._is_own(pid, processes):
                own += sum(times[:4])  # user and system, then those of children that have exited
            else:
                name = for_encoding(info["name"] or "?", "utf-8")
                others[pid, info["create_time"], name] = times[0] + times[1]
        if self._used_before is None:
            self._used_before = others
        used = {key: seconds - self._used_before.get(key, 0.0) for key, seconds in others.items()}
        at_all = [key for key in used if used[key] > 0]
        busiest = sorted(at_all, key=lambda key: -used[key])[:MOST_PROGRAMS]
        self._due = time.monotonic() + (time.process_time() - began) / SCAN_SHARE
        return round(own, 2), {
            f"{name} ({pid})": round(used[pid, start, name], 2) for pid, start, name in busiest
        }

    def _is_own(self, pid: int, processes: dict[int, Any]) -> bool:
        for _ in range(64):  # deeper than any family; a circle is no family
            if pid == self._root:
                return True
            if pid not in processes:
                return False
            pid = processes[pid]["ppid"]
        return False

    def _stalls(self) -> Readings:
        stalls = {}
        for name, kind in _STALLS.items():
            text = self._host.read(f"/proc/pressure/{name}") or ""
            match = re.search(rf"^{kind} .*total=(\d{{1,18}})", text, re.MULTILINE)
            if match is not None:
                stalls[name] = int(match[1]) / 1e6
        return stalls

    def _held_back_s(self) -> float | None:
        """Return the time of the group that was held back most, of this process's and those above
        it.
        """
        seconds = []
        for words in control_groups(self._host, "cpu", "cpu.stat"):
            counters = dict(zip(words[::2], words[1::2], strict=False))
            # The first version of control groups counts nanoseconds.
            for name, unit in (("throttled_usec", 1e-6), ("throttled_time", 1e-9)):
                if counters.get(name, "").isdigit():
                    seconds.append(int(counters[name]) * unit)
        return max(seconds, default=None)

    def _find_packages(self) -> list[tuple[str, str]]:
        """Return names and files of the counters: the packages, and their memory if that isn't part
        of them.
        """
        self._ranges: Readings = {}
        counters = []
        refused = False
        # AMD's CPUs are under this name too. intel-rapl-mmio:0 is a second view of the same
        # package.
        for path in sorted(self._host.path(_POWERCAP).glob("intel-rapl:*")):
            base = f"{_POWERCAP}/{path.name}"
            name = (self._host.read(f"{base}/name") or "").strip()
            if not (name.startswith("package-") or name == "dram"):
                continue  # core and uncore are parts of the package; psys is the board
            if self._joules(f"{base}/energy_uj") is None:
                refused = True
                continue
            label = name if name != "dram" else f"dram-{path.name.split(':')[1]}"
            top = self._joules(f"{base}/max_energy_range_uj")
            if top is not None:
                self._ranges[label] = top
            counters.append((label, f"{base}/energy_uj"))
        if refused:
            self.unknown.append("CPU energy: RAPL's counters can be read only by root (energy_uj)")
            return []
        if not counters:
            self.unknown.append(
                f"CPU energy: no RAPL counter here ({_POWERCAP}), as in most virtual machines"
            )
        return counters

    def _joules(self, file: str) -> float | None:
        text = (self._host.read(file) or "").strip()
        if re.fullmatch(r"\d{1,20}", text):
            return int(text) / 1e6
        return None


def _seconds() -> tuple[float, float, float]:
    """Return the time of the CPUs that may be used: in all, in use, and taken by the hypervisor."""
    cpus = psutil.cpu_times(percpu=True)
    with contextlib.suppress(AttributeError, OSError):  # only Linux has affinities
        cpus = [cpus[index] for index in os.sched_getaffinity(0)]
    total = idle = stolen = 0.0
    for times in cpus:
        spent = times._asdict()
        # A guest's time is part of the user's.
        total += sum(seconds for name, seconds in spent.items() if not name.startswith("guest"))
        idle += spent["idle"] + spent.get("iowait", 0.0)
        stolen += spent.get("steal", 0.0)
    return round(total, 2), round(total - idle - stolen, 2), round(stolen, 2)


def _frequency_mhz() -> float | None:
    try:
        frequency = psutil.cpu_freq()
    except (OSError, RuntimeError, AttributeError, ValueError):
        return None
    if frequency and frequency.current > 0:
        return round(float(frequency.current), 1)
    return None


def _load_average() -> float | None:
    try:
        return round(os.getloadavg()[0], 2)
    except (OSError, AttributeError):
        return None
