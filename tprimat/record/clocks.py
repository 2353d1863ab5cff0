"""Clocks for the recorder, and how a tensor's value reaches the host without stopping a GPU.

On a CPU the work is done when the call returns, and the host's clock is enough. On a GPU the host
runs ahead, so an event in the device's queue marks a step's end; torch.cuda is the interface of
ROCm too.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import Any

POLL_S = 0.005
SLOTS = 256
"""Values on their way to the host; a GPU's queue holds fewer steps than that."""


class HostClock:
    """The host's monotonic clock; a stamp is a number of nanoseconds, which is known at once."""

    name = "monotonic"

    mark = staticmethod(time.perf_counter_ns)
    host_ns = staticmethod(time.perf_counter_ns)

    @staticmethod
    def is_ready(stamp: int) -> bool:
        """Return True."""
        return True

    @staticmethod
    def seconds(earlier: int, later: int) -> float:
        """Return the time between two stamps. Units: ns in, s out."""
        return (later - earlier) / 1e9

    @staticmethod
    def wait(stamp: int, timeout_s: float | None) -> bool:
        """Return True."""
        return True


class DeviceClock:
    """Events on the current stream of a torch.device of type cuda; a stamp is a torch.cuda.Event.

    Two events lie at most a step apart when they are subtracted: elapsed_time is float32
    milliseconds, which has lost the microseconds after some minutes.
    """

    name = "device_event"

    host_ns = staticmethod(time.perf_counter_ns)

    def __init__(self, device: Any, cuda: Any) -> None:
        self._cuda = cuda
        self._device = device

    def mark(self) -> Any:
        """Return an event after all work that was queued so far."""
        event = self._cuda.Event(enable_timing=True)
        event.record(self._cuda.current_stream(self._device))
        return event

    @staticmethod
    def is_ready(stamp: Any) -> bool:
        """Ask the driver whether the device has passed the event; doesn't wait."""
        return bool(stamp.query())

    @staticmethod
    def seconds(earlier: Any, later: Any) -> float:
        """Return the time between two events that were passed. Units: ms from the driver, s out."""
        return float(earlier.elapsed_time(later)) / 1e3

    @staticmethod
    def wait(stamp: Any, timeout_s: float | None) -> bool:
        """Wait for the event without a bound, or poll it within one; return whether the device has
        passed it.
        """
        if timeout_s is None:
            stamp.synchronize()
            return True
        deadline = time.monotonic() + timeout_s
        while not stamp.query():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True


Clock = HostClock | DeviceClock


class HostScalars:
    """Reads values immediately, on the CPU: later in-place changes have no effect."""

    at_once = True

    copy = staticmethod(float)
    read = staticmethod(float)


class DeviceScalars:
    """Copies in the order of the stream, so that nothing waits; `pin` uses pinned memory, which
    needs a GPU.
    """

    at_once = False

    def __init__(self, pin: bool = True) -> None:
        import torch

        self._torch = torch
        self._pin = pin
        self._free: deque[Any] = deque(self._block())

    def copy(self, value: Any) -> Any:
        """Queue the copy of a tensor with one element; keep a number as it is."""
        if not isinstance(value, self._torch.Tensor):
            return float(value)
        if not self._free:
            self._free.extend(self._block())
        slot = self._free.popleft()
        slot.copy_(value.detach().reshape(()), non_blocking=True)
        return slot

    def read(self, copied: Any) -> float:
        """Return the value and free its slot; only once a mark set after copy() is ready."""
        if isinstance(copied, float):
            return copied
        value = float(copied)
        self._free.append(copied)
        return value

    def _block(self) -> Iterable[Any]:
        return self._torch.empty(SLOTS, dtype=self._torch.float32, pin_memory=self._pin).unbind()  # type: ignore[no-any-return]


Scalars = HostScalars | DeviceScalars
"""Copy a tensor's current value for the host to read later, or `at_once`."""
