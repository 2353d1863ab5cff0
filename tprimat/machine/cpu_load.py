"""CPU time on this machine while a training runs: its own, that of other programs, and the hypervisor's."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

from tprimat.results.run import Disturbance

SHORTEST_S = 1.0
"""A shorter time says nothing: the system counts CPU time in ticks of 10 ms."""

_Value = TypeVar("_Value")


class CpuLoad:
    """What else uses the CPUs from now on, beside this process and those that it starts.

    Args:
        with_siblings: count what this process's parent has started as the training's own, as torchrun's workers are.
    """

    def __init__(self, *, with_siblings: bool = False) -> None:
        self._with_siblings = with_siblings
        self._load_average = _attempt(lambda: os.getloadavg()[0])
        self._began = time.monotonic()
        self._before = _attempt(self._seconds)

    def disturbance(self) -> Disturbance:
        """Return what has disturbed the training so far."""
        now = None if time.monotonic() - self._began < SHORTEST_S else _attempt(self._seconds)
        shares: dict[str, float | None] = {}
        if now is not None and self._before is not None:
            total, busy, stolen, own = (after - before for after, before in zip(now, self._before, strict=True))
            if total > 0:
                others = min(max(busy - own, 0.0) / total, 1.0)
                shares = {"other_programs_cpu_share": round(others, 4), "steal_cpu_share": round(stolen / total, 4)}
        frequency = _attempt(_frequency_mhz)
        return Disturbance(load_average_at_start=self._load_average, cpu_frequency_mhz=frequency, **shares)

    def _seconds(self) -> tuple[float, float, float, float]:
        """Return the time of the CPUs that may be used: in all, in use, taken by the hypervisor, and used by us."""
        import psutil

        cpus = psutil.cpu_times(percpu=True)
        with contextlib.suppress(AttributeError, OSError):  # only Linux has affinities
            cpus = [cpus[index] for index in os.sched_getaffinity(0)]
        total = idle = stolen = 0.0
        for times in cpus:
            known = times._asdict()
            # A guest's time is part of the user's.
            total += sum(seconds for name, seconds in known.items() if not name.startswith("guest"))
            idle += known["idle"] + known.get("iowait", 0.0)
            stolen += known.get("steal", 0.0)
        return total, total - idle - stolen, stolen, self._own_seconds(psutil)

    def _own_seconds(self, psutil: Any) -> float:
        this = psutil.Process()
        root = this.parent() if self._with_siblings else this
        seconds = 0.0
        for process in (this, *root.children(recursive=True)):
            if process == this and seconds:
                continue
            with contextlib.suppress(psutil.Error):
                seconds += sum(process.cpu_times()[:4])  # user and system, then those of children that have exited
        return seconds


def _frequency_mhz() -> float | None:
    import psutil

    frequency = psutil.cpu_freq()
    return round(frequency.current, 1) if frequency and frequency.current > 0 else None


def _attempt(read: Callable[[], _Value]) -> _Value | None:
    """Return what can be read; None where the system doesn't state it."""
    import psutil

    try:
        return read()
    except (OSError, RuntimeError, ValueError, LookupError, AttributeError, psutil.Error):
        return None
