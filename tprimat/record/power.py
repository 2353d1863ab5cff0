"""Power cap and clocks of the GPUs that train, read while they do; no step waits for their driver."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from tprimat.machine.gpu import Device, GpuState

EVERY_S = 5.0
"""Between two readings of the clocks."""


class PowerAndClocks:
    """Reads the GPUs of a training now and then, in a thread of its own.

    Args:
        devices: that train; none where the driver isn't to be asked.
        states: returns all GPUs of the machine.
    """

    def __init__(self, devices: Sequence[Device], states: Callable[[], Sequence[GpuState]]) -> None:
        self._ids = {device.id for device in devices if device.id and device.partition is None}
        self._states = states
        self._clocks: list[float] = []
        self._thread: threading.Thread | None = None
        self._due = 0.0
        self._newest: Sequence[GpuState] = ()

    def start(self) -> None:
        """Read the power caps, before the first step."""
        if self._ids:
            self._newest = self._read()
            self._due = time.monotonic() + EVERY_S

    def sample(self) -> None:
        """Have the clocks read, unless they were just now."""
        is_reading = self._thread is not None and self._thread.is_alive()
        if self._ids and not is_reading and time.monotonic() >= self._due:
            self._due = time.monotonic() + EVERY_S
            self._thread = threading.Thread(target=self._sample, daemon=True)
            self._thread.start()

    def metrics(self) -> dict[str, float | None]:
        """Return what is known, for a result's energy_metrics: of the GPU with the lowest cap, the clocks of all."""
        gpu = min(self._newest, key=lambda each: each.power_cap_w or float("inf"), default=None)
        if gpu is None:
            return {}
        clocks = self._clocks
        known = {
            "power_cap_watts": gpu.power_cap_w,
            "power_default_watts": gpu.power_default_w,
            "clock_mhz": round(sum(clocks) / len(clocks), 1) if clocks else None,
            "clock_max_mhz": gpu.clock_max_mhz,
        }
        return {name: value for name, value in known.items() if value is not None}

    def warnings(self) -> list[str]:
        """Return what makes the GPUs slower than others of their kind."""
        return [
            f"the power of GPU {gpu.index} is capped at {gpu.power_cap_w:.0f} W, below its "
            f"{gpu.power_default_w:.0f} W: it is slower than the same GPU without a cap"
            for gpu in self._newest
            if gpu.is_capped
        ]

    def _read(self) -> list[GpuState]:
        return [gpu for gpu in self._states() if gpu.id in self._ids]

    def _sample(self) -> None:
        gpus = self._read()
        self._clocks += [gpu.clock_mhz for gpu in gpus if gpu.clock_mhz is not None]
