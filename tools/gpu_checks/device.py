"""The GPU as the checks use it, and a stand-in on the CPU that answers to the same calls."""

from __future__ import annotations

import math
import time
import types
import weakref
from collections.abc import Callable
from typing import Any


class Device:
    """Device 0 of torch.cuda, which is ROCm's interface too, or its stand-in.

    Attributes:
        torch: the module.
        cuda: torch.cuda, or what stands in for it.
        torch_device: the torch.device.
        is_stand_in: whether this is no GPU.
    """

    def __init__(self, torch: Any, is_stand_in: bool) -> None:
        self.torch = torch
        self.is_stand_in = is_stand_in
        self.torch_device = torch.device("cpu") if is_stand_in else torch.device("cuda", 0)
        self.cuda = StandIn(torch) if is_stand_in else torch.cuda

    @property
    def stack(self) -> str:
        """cuda, rocm or cpu."""
        if self.is_stand_in:
            return "cpu"
        return "rocm" if self.torch.version.hip else "cuda"

    def synchronize(self) -> None:
        """Wait for the device."""
        self.cuda.synchronize()

    def event(self) -> Any:
        """Return an event behind all work that was queued so far."""
        event = self.cuda.Event(enable_timing=True)
        event.record(self.cuda.current_stream(self.torch_device))
        return event

    def bytes(self, count: int) -> Any:
        """Return a tensor of that many bytes."""
        if self.is_stand_in:
            return self.cuda.allocate(count)
        return self.torch.empty(count, dtype=self.torch.uint8, device=self.torch_device)

    def free_bytes(self) -> int:
        """Return what the driver says is free."""
        return int(self.cuda.mem_get_info(self.torch_device)[0])

    def normal(self, *sizes: int, dtype: str = "float32") -> Any:
        """Return normally distributed values: on zeros a GPU draws less power and clocks higher."""
        values = self.torch.randn(*sizes, device=self.torch_device, dtype=self.torch.float32)
        return values.to(getattr(self.torch, dtype))

    def work(self, target_s: float) -> Callable[[], None]:
        """Return a function that queues matrix products for about that long."""
        size = 64 if self.is_stand_in else 4096
        dtype = "float32" if self.is_stand_in else "bfloat16"
        left, right, product = (self.normal(size, size, dtype=dtype) for _ in range(3))

        def queue(times: int) -> None:
            for _ in range(times):
                self.torch.mm(left, right, out=product)

        queue(3)
        self.synchronize()
        started = time.perf_counter()
        queue(10)
        self.synchronize()
        each = (time.perf_counter() - started) / 10
        times = max(1, math.ceil(target_s / each))
        return lambda: queue(times)

    def seconds_of(self, function: Callable[[], object], budget_s: float = 0.5) -> float:
        """Return the mean time of a call by device events, after a warm-up. Units: s."""
        for _ in range(3):
            function()
        self.synchronize()
        started = time.perf_counter()
        function()
        self.synchronize()
        each = max(time.perf_counter() - started, 1e-6)
        times = max(3, min(200, int((0.01 if self.is_stand_in else budget_s) / each)))
        before = self.event()
        for _ in range(times):
            function()
        after = self.event()
        self.synchronize()
        return float(before.elapsed_time(after)) / 1e3 / times


def find_device(dry_run: bool) -> Device:
    """Return the device. Raises ModuleNotFoundError without torch, RuntimeError where torch has no
    GPU.
    """
    import torch

    if not dry_run and not torch.cuda.is_available():
        raise RuntimeError(f"torch {torch.__version__} has no GPU that it can use")
    return Device(torch, is_stand_in=dry_run)


class StandIn:
    """Stands for torch.cuda on a CPU: what was queued is done when the call returns."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._allocated = self._peak = self._reserved = 0
        self.memory = self

    def allocate(self, count: int) -> Any:
        """Return a tensor that the statistics know of until it is freed."""
        tensor = self._torch.empty(count, dtype=self._torch.uint8)
        self._allocated += count
        self._peak = max(self._peak, self._allocated)
        self._reserved = max(self._reserved, self._allocated)
        weakref.finalize(tensor, self._free, count)
        return tensor

    def _free(self, count: int) -> None:
        self._allocated -= count

    def memory_stats_as_nested_dict(self, device: Any) -> dict[str, Any]:
        """Return what the allocator would. Units: bytes."""
        return {
            "allocated_bytes": {"all": {"current": self._allocated, "peak": self._peak}},
            "reserved_bytes": {"all": {"current": self._reserved, "peak": self._reserved}},
        }

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        """Return free and total bytes."""
        total = 8 * 2**30
        return total - self._reserved, total

    def get_device_properties(self, device: Any = None) -> object:
        """Return no property."""
        return object()

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        """Let peaks count from here."""
        self._peak = self._allocated

    def empty_cache(self) -> None:
        """Give what is free back to the driver."""
        self._reserved = self._allocated

    def synchronize(self, device: Any = None) -> None:
        """Return: a CPU's work is done."""

    def current_stream(self, device: Any = None) -> None:
        """Return no stream: there is none."""

    def device_count(self) -> int:
        """Return two, so that a collective can be tried."""
        return 2

    @staticmethod
    def Event(enable_timing: bool) -> Any:  # noqa: N802 - torch's name
        """Return an event on the host's clock."""
        event = types.SimpleNamespace(at=0.0, query=lambda: True, synchronize=lambda: None)

        def record(stream: Any = None) -> None:
            event.at = time.perf_counter()

        event.record = record
        event.elapsed_time = lambda later: (later.at - event.at) * 1e3
        return event
