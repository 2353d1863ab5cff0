from __future__ import annotations

import time

import pytest
from fake_gpu import Gpu

from tprimat.record.clocks import SLOTS, DeviceClock, DeviceScalars, HostClock, HostScalars
from tprimat.record.recorder import Recorder


@pytest.fixture
def gpu():
    return Gpu()


def test_the_hosts_clock_tells_seconds():
    clock = HostClock()
    before = clock.mark()
    time.sleep(0.002)
    after = clock.mark()
    assert clock.seconds(before, after) >= 0.002
    assert clock.seconds(1_000_000_000, 2_500_000_000) == 1.5
    assert clock.is_ready(after)
    assert clock.wait(after, None)
    assert clock.name == "monotonic"


def test_events_lie_on_the_devices_own_stream(gpu):
    DeviceClock("cuda:3", gpu).mark()
    assert gpu.streams == ["cuda:3"]


def test_a_gpu_is_waited_for_at_the_two_ends_only(gpu):
    recorder = Recorder(DeviceClock("cuda:0", gpu))
    recorder.start()
    for number in range(1, 6):
        gpu.host_ms += 100.0
        gpu.gpu_ms = gpu.host_ms - 150.0  # one to two steps behind
        recorder.step_end(number)
        assert gpu.waits == 1
    assert [record.step for record in recorder.records] == [1, 2, 3]
    recorder.finish()
    assert gpu.waits == 2
    assert [record.seconds for record in recorder.records] == pytest.approx([0.1] * 5)


def test_a_gpu_that_hangs_is_waited_for_no_longer_than_asked(gpu):
    clock = DeviceClock("cuda:0", gpu)
    event = clock.mark()
    assert clock.wait(event, 0.0)
    gpu.host_ms = 5.0
    late = clock.mark()
    assert not clock.wait(late, 0.02)
    gpu.gpu_ms = 5.0
    assert clock.wait(late, 0.02)


def test_a_value_on_the_cpu_is_taken_at_once():
    torch = pytest.importorskip("torch")
    value = torch.tensor([2.5])
    copied = HostScalars.copy(value)
    value += 1
    assert HostScalars.read(copied) == 2.5


def test_a_value_on_its_way_is_not_reached_by_later_changes():
    torch = pytest.importorskip("torch")
    scalars = DeviceScalars(pin=False)
    value = torch.tensor([2.5], dtype=torch.bfloat16, requires_grad=True)
    copied = scalars.copy(value)
    with torch.no_grad():
        value += 1
    assert scalars.read(copied) == 2.5
    assert scalars.read(scalars.copy(0.125)) == 0.125


def test_more_values_than_places_are_on_their_way():
    torch = pytest.importorskip("torch")
    scalars = DeviceScalars(pin=False)
    copied = [scalars.copy(torch.tensor(float(number))) for number in range(2 * SLOTS + 5)]
    assert [scalars.read(each) for each in copied] == list(range(2 * SLOTS + 5))
    # Places are used again.
    assert scalars.read(scalars.copy(torch.tensor(7.0))) == 7.0
