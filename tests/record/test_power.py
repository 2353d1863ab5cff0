"""Power cap and clocks of the GPUs that train reach the result."""

from __future__ import annotations

import gpu_fakes
import pytest

from tprimat.machine import nvidia
from tprimat.machine.gpu import Device
from tprimat.record.power import PowerAndClocks
from tprimat.results.run import GpuInfo


@pytest.fixture
def power(tmp_path):
    """GPU 0 of two, capped at 500 of 700 W, whose clock is 1755 of 1980 MHz."""
    other = {**gpu_fakes.H100, "uuid": "BB-1", "power": (300, 700, 700), "clocks": (210, 1980)}
    host = gpu_fakes.fake_host(tmp_path, libraries={"pynvml": gpu_fakes.FakeNvml([gpu_fakes.H100, other])})
    return PowerAndClocks([Device(0, GpuInfo(), id="aa-0")], lambda: nvidia.states(host))


def sampled(power):
    power._due = 0.0
    power.sample()
    power._thread.join()


def test_of_the_gpus_that_train_alone(power):
    power.start()
    sampled(power)
    assert power.metrics() == {
        "power_cap_watts": 500.0,
        "power_default_watts": 700.0,
        "clock_mhz": 1755.0,
        "clock_max_mhz": 1980,
    }
    assert power.warnings() == [
        "the power of GPU 0 is capped at 500 W, below its 700 W: it is slower than the same GPU without a cap"
    ]


def test_clocks_are_those_under_load(power):
    power.start()
    assert "clock_mhz" not in power.metrics()


def test_readings_keep_their_distance(power):
    power.start()
    power.sample()
    assert power._thread is None


def test_no_driver_is_asked_for_a_cpu():
    power = PowerAndClocks([], lambda: pytest.fail("asked"))
    power.start()
    power.sample()
    assert (power.metrics(), power.warnings()) == ({}, [])
