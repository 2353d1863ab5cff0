"""Memory of a training: that of torch's allocator on a GPU, that of the process on a CPU."""

from __future__ import annotations

import sys
import time
from typing import Any

import psutil

from tprimat.machine import torch_build
from tprimat.notes import Note
from tprimat.results.run import MemoryMetrics
from tprimat.units import GB, round_figure

FRESH_S = 0.1
"""A younger reading of a process's memory isn't repeated: it takes some 50 µs, which would show in
steps of a millisecond."""


class _Readings:
    """Mean, highest and newest of some readings, in bytes."""

    def __init__(self) -> None:
        self.count = self.total = self.newest = self.peak = 0

    def add(self, value: int, peak: int) -> None:
        self.count += 1
        self.total += value
        self.newest = value
        if peak > self.peak:
            self.peak = peak

    def newest_gb(self) -> float | None:
        if self.count:
            return self.newest / GB
        return None

    def mean_gb(self) -> float | None:
        if self.count:
            return round_figure(self.total / self.count / GB)
        return None

    def peak_gb(self) -> float | None:
        if self.count:
            return round_figure(self.peak / GB)
        return None


class ProcessMemory:
    """Resident memory of this process; for a training on the CPU."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self._resident = _Readings()
        self._process = psutil.Process()
        self._read_at = -FRESH_S
        self.current_gb = self._resident.newest_gb

    def start(self) -> None:
        """Do nothing: the system keeps the peak of a process's whole life."""

    def sample(self) -> None:
        """Read the resident memory. Not at a step's end: a reading costs more than the rest of the
        recorder's step.
        """
        now = time.monotonic()
        if now - self._read_at >= FRESH_S:
            self._read_at = now
            resident = self._process.memory_info().rss
            self._resident.add(resident, resident)

    def metrics(self) -> MemoryMetrics:
        """Return the mean of the readings, and the system's peak."""
        peak = round_figure(max(peak_resident_bytes(), self._resident.peak) / GB)
        return MemoryMetrics(
            avg_memory_process_gb=self._resident.mean_gb(), peak_memory_process_gb=peak
        )


class DeviceMemory:
    """Memory of torch's allocator, and memory in use on the whole device (of type cuda, also on
    ROCm).

    Attributes:
        notes: what could not be read, and why.
        current_gb: returns the allocated memory at the newest step's end, GB, unrounded.
    """

    def __init__(self, device: Any, cuda: Any) -> None:
        self.notes: list[Note] = []
        self._device = device
        self._cuda = cuda
        self._allocated, self._reserved, self._used = _Readings(), _Readings(), _Readings()
        self._allocator_tells = True
        self.current_gb = self._allocated.newest_gb

    def start(self) -> None:
        """Reset the allocator's peaks."""
        try:
            self._cuda.reset_peak_memory_stats(self._device)
        except RuntimeError as error:
            # Allocators that were plugged in by the user keep no statistics.
            self._allocator_tells = False
            self.notes.append(Note("allocator-unread", {"why": str(error).splitlines()[0]}))
        self.sample()

    def step_end(self) -> None:
        """Read the allocator's host-side counters; the GPU is not queried."""
        if not self._allocator_tells:
            return
        # The nested form: the flat one, which memory_allocated() reads too, costs several times as
        # much.
        stats = self._cuda.memory.memory_stats_as_nested_dict(self._device)
        for readings, name in (
            (self._allocated, "allocated_bytes"),
            (self._reserved, "reserved_bytes"),
        ):
            figures = stats[name]["all"]
            # Peaks are taken each step: a training may reset the allocator's own.
            readings.add(figures["current"], figures["peak"])

    def sample(self) -> None:
        """Read from the driver how much of the device is in use by all processes."""
        free, total = torch_build.memory_info(self._cuda, self._device)
        self._used.add(total - free, total - free)

    def metrics(self) -> MemoryMetrics:
        """Return means at step ends and peaks within steps, GB."""
        return MemoryMetrics(
            avg_memory_allocated_gb=self._allocated.mean_gb(),
            peak_memory_allocated_gb=self._allocated.peak_gb(),
            avg_memory_reserved_gb=self._reserved.mean_gb(),
            peak_memory_reserved_gb=self._reserved.peak_gb(),
            peak_memory_device_used_gb=self._used.peak_gb(),
        )


Memory = ProcessMemory | DeviceMemory


def peak_resident_bytes() -> int:
    """Return the highest resident memory in this process's life."""
    try:
        import resource
    except ModuleNotFoundError:
        # Windows.
        return int(psutil.Process().memory_info().peak_wset)
    peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts KiB, macOS bytes (getrusage(2) of each).
    if sys.platform == "darwin":
        return peak
    return peak * 1024
