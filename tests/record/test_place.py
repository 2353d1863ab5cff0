from __future__ import annotations

import types

import pytest

from tprimat.errors import UsageError
from tprimat.machine.platforms import Device, Machine
from tprimat.record import device
from tprimat.results.run import Environment, GpuInfo

CPU = types.SimpleNamespace(type="cpu", index=None)
SECOND_GPU = types.SimpleNamespace(type="cuda", index=1)


def torch(hip=None):
    return types.SimpleNamespace(version=types.SimpleNamespace(hip=hip), __version__="2.10.0")


H100 = GpuInfo(
    device_name="NVIDIA H100 80GB HBM3",
    device_count=1,
    software_stack="cuda",
    pytorch_version="2.10.0",
)
A100 = GpuInfo(
    device_name="NVIDIA A100-SXM4-80GB",
    device_count=1,
    software_stack="cuda",
    pytorch_version="2.10.0",
)
MACHINE = Machine(
    "nvd",
    GpuInfo(
        device_name="NVIDIA H100 80GB HBM3",
        device_count=2,
        software_stack="cuda",
        pytorch_version="2.10.0",
    ),
    Environment(hostname="box", memory_held_by_others_gb=3.0),
    (Device(0, H100, memory_held_gb=3.0), Device(1, A100, memory_held_gb=0.25), Device(2, A100)),
    ("the GPUs differ",),
)


def test_the_trainings_device_tells_the_platform():
    assert device.platform_of(CPU, torch(), None) == "cpu"
    assert device.platform_of(SECOND_GPU, torch(), None) == "nvd"
    assert device.platform_of(SECOND_GPU, torch(hip="7.1"), "amd") == "amd"


def test_another_platform_than_the_one_that_was_named_is_not_obeyed_in_silence():
    with pytest.raises(UsageError) as caught:
        device.platform_of(CPU, torch(), "nvd")
    assert (
        caught.value.message
        == "BenchmarkCallback: platform='cuda' was requested, but the training runs on cpu (torch"
        " 2.10.0): use platform='cpu' or 'auto'"
    )


def test_what_can_not_be_measured_is_said():
    with pytest.raises(UsageError, match="the training runs on mps, which can't be measured"):
        device.platform_of(types.SimpleNamespace(type="mps", index=0), torch(), None)


def test_only_the_devices_that_take_part_count():
    narrowed = device.restrict_to_devices(MACHINE, "nvd", SECOND_GPU, processes=1)
    assert narrowed.gpu_info.device_name == "NVIDIA A100-SXM4-80GB"
    assert narrowed.gpu_info.device_count == 1
    assert (
        device.restrict_to_devices(MACHINE, "nvd", SECOND_GPU, processes=16).gpu_info.device_count
        == 16
    )


@pytest.mark.parametrize(
    ("index", "processes", "held"), [(1, 1, 0.25), (2, 1, None), (0, 1, 3.0), (0, 2, 3.0)]
)
def test_memory_that_others_hold_of_an_idle_gpu_is_not_this_trainings(index, processes, held):
    own = types.SimpleNamespace(type="cuda", index=index)
    narrowed = device.restrict_to_devices(MACHINE, "nvd", own, processes)
    assert narrowed.environment.memory_held_by_others_gb == held


def test_a_training_on_the_processor_is_none_of_the_idle_gpus():
    narrowed = device.restrict_to_devices(MACHINE, "cpu", CPU, processes=1)
    assert narrowed.platform == "cpu"
    assert narrowed.gpu_info.software_stack == "cpu"
    assert narrowed.gpu_info.device_name != "NVIDIA H100 80GB HBM3"
    assert narrowed.gpu_info.pytorch_version == "2.10.0"
    assert narrowed.environment.memory_held_by_others_gb is None
    assert narrowed.environment.hostname == "box"
    assert narrowed.warnings == ()
