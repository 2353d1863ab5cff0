from __future__ import annotations

import sys
import types

import pytest
from fake_gpu import Cuda

from tprimat.notes.catalogue import words
from tprimat.record import memory
from tprimat.record.memory import DeviceMemory, ProcessMemory


def test_a_gpus_memory_is_the_mean_at_step_ends_and_the_peak_within_steps():
    cuda = Cuda()
    readings = DeviceMemory("cuda:0", cuda)
    readings.start()
    for allocated, peak in ((10_000_000_000, 30_000_000_000), (20_000_000_000, 25_000_000_000)):
        cuda.hold(allocated, peak, 40_000_000_000, 45_000_000_000)
        readings.step_end()
    readings.sample()
    assert cuda.resets == 1
    assert readings.current_gb() == 20.0
    assert readings.metrics().known() == {
        "avg_memory_allocated_gb": 15.0,
        "peak_memory_allocated_gb": 30.0,
        "avg_memory_reserved_gb": 40.0,
        "peak_memory_reserved_gb": 40.0,
        "peak_memory_device_used_gb": 45.0,
    }


def test_the_page_cache_is_no_memory_in_use_of_a_gpu_that_shares_the_systems(monkeypatch):
    monkeypatch.setattr(
        memory.psutil, "virtual_memory", lambda: types.SimpleNamespace(available=70_000_000_000)
    )
    cuda = Cuda()
    cuda.is_integrated = True
    cuda.hold(20_000_000_000, 20_000_000_000, 20_000_000_000, used=90_000_000_000)
    readings = DeviceMemory("cuda:0", cuda)
    readings.sample()
    assert readings.metrics().peak_memory_device_used_gb == 30.0


def test_an_allocator_without_statistics_leaves_what_the_device_says():
    cuda = Cuda()
    cuda.broken = True
    readings = DeviceMemory("cuda:0", cuda)
    readings.start()
    cuda.hold(1, 1, 1, 7_000_000_000)
    readings.step_end()
    readings.sample()
    assert readings.current_gb() is None
    assert readings.metrics().known() == {"peak_memory_device_used_gb": 7.0}
    assert [words(note) for note in readings.notes] == [
        "memory allocated and reserved unknown: CUDAPluggableAllocator does not yet support"
        " resetPeakStats"
    ]


def test_a_process_knows_its_resident_memory():
    readings = ProcessMemory()
    readings.start()
    readings.sample()
    figures = readings.metrics()
    assert 0.005 < figures.avg_memory_process_gb <= figures.peak_memory_process_gb
    assert readings.current_gb() == pytest.approx(figures.avg_memory_process_gb, rel=1e-3)
    assert figures.peak_memory_allocated_gb is None
    assert readings.notes == []


def test_a_fresh_reading_is_not_repeated(monkeypatch):
    asked = []
    readings = ProcessMemory()
    info = types.SimpleNamespace(rss=2_000_000_000)
    readings._process = types.SimpleNamespace(memory_info=lambda: asked.append(1) or info)
    readings.sample()
    readings.sample()
    assert len(asked) == 1
    monkeypatch.setattr(memory, "FRESH_S", 0.0)
    readings.sample()
    assert len(asked) == 2


def test_windows_states_its_peak_by_another_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)
    info = types.SimpleNamespace(rss=1_000_000_000, peak_wset=3_000_000_000)
    monkeypatch.setattr(
        memory.psutil, "Process", lambda: types.SimpleNamespace(memory_info=lambda: info)
    )
    readings = ProcessMemory()
    readings.sample()
    assert readings.metrics().known() == {
        "avg_memory_process_gb": 1.0,
        "peak_memory_process_gb": 3.0,
    }


def test_macos_counts_its_peak_in_bytes(monkeypatch):
    in_kibibytes = memory.peak_resident_bytes()
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    assert memory.peak_resident_bytes() * 1024 == pytest.approx(in_kibibytes, rel=0.5)
