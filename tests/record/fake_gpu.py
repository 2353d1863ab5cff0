"""Stands for torch.cuda where there is no GPU."""

from __future__ import annotations

import types


class Gpu:
    """Stands for torch.cuda: an event is passed once the GPU's time has come to it."""

    def __init__(self):
        self.host_ms = 0.0
        self.gpu_ms = 0.0
        self.waits = 0
        self.streams = []

    def current_stream(self, device):
        self.streams.append(device)
        return self

    def Event(self, *, enable_timing):  # noqa: N802 - torch's name
        assert enable_timing
        return GpuEvent(self)


class GpuEvent:
    def __init__(self, gpu):
        self.gpu, self.at_ms = gpu, None

    def record(self, stream):
        assert stream is self.gpu
        self.at_ms = self.gpu.host_ms

    def query(self):
        return self.at_ms <= self.gpu.gpu_ms

    def synchronize(self):
        self.gpu.waits += 1
        self.gpu.gpu_ms = max(self.gpu.gpu_ms, self.at_ms)

    def elapsed_time(self, later):
        assert self.query()
        assert later.query(), "an event was subtracted before the GPU had passed it"
        return later.at_ms - self.at_ms


class Cuda:
    """Stands for torch.cuda and its allocator."""

    def __init__(self, total=100_000_000_000):
        self.allocated, self.peak, self.reserved, self.free, self.total = 0, 0, 0, total, total
        self.memory = self
        self.resets = 0
        self.broken = self.is_integrated = False

    def hold(self, allocated, peak, reserved, used):
        self.allocated, self.peak, self.reserved, self.free = (
            allocated,
            peak,
            reserved,
            self.total - used,
        )

    def reset_peak_memory_stats(self, device):
        if self.broken:
            raise RuntimeError(
                "CUDAPluggableAllocator does not yet support resetPeakStats\nand a trace"
            )
        self.resets += 1

    def memory_stats_as_nested_dict(self, device):
        return {
            "allocated_bytes": {"all": {"current": self.allocated, "peak": self.peak}},
            "reserved_bytes": {"all": {"current": self.reserved, "peak": self.reserved}},
        }

    def get_device_properties(self, device):
        return types.SimpleNamespace(is_integrated=int(self.is_integrated))

    def mem_get_info(self, device):
        return self.free, self.total
