"""The shared memory of a container, checked before the processes of several GPUs need it."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from types import SimpleNamespace

import pytest
from fake_framework import fake_framework
from gpu_fakes import fake_host

from tprimat.errors import UsageError
from tprimat.frameworks.request import Device, RequestedConfig
from tprimat.machine.host import Host
from tprimat.machine.platforms import Machine
from tprimat.measure import diagnosis, preflight, shared_memory
from tprimat.measure.plan import Plan
from tprimat.measure.session import Session
from tprimat.results.run import Environment, GpuInfo

DOCKER = 64 * 2**20
H100S = Device("nvd", 8, 85.02e9, "sm_90", "NVIDIA H100 80GB HBM3")
MACHINE = Machine(
    "nvd",
    GpuInfo(device_name="NVIDIA H100 80GB HBM3", device_count=8, software_stack="cuda"),
    Environment(),
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="/dev/shm is Linux's")


@pytest.fixture
def container(monkeypatch, tmp_path):
    """A machine whose /dev/shm has so many bytes free."""

    def of(free):
        (tmp_path / "root/dev/shm").mkdir(parents=True)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
        monkeypatch.setattr(shared_memory, "Host", lambda: Host(root=tmp_path / "root"))
        return dataclasses.replace(fake_host(tmp_path, {}), root=tmp_path / "root")

    return of


@pytest.mark.parametrize(
    ("gpus", "free", "needed"),
    [
        (2, DOCKER, 128),
        (8, DOCKER, 256),
        (8, 255.9e6, 256),
        (8, 256e6, None),
        (2, 128e6, None),
        (1, 0, None),
    ],
)
def test_what_several_gpus_need(container, gpus, free, needed):
    found = shared_memory.problem(container(free), gpus)
    if needed is None:
        assert found is None
    else:
        assert (
            found
            == f"/dev/shm has {free / 1e6:.0f} MB free, and {gpus} GPUs that train together need"
            f" {needed} MB there"
        )


def test_a_system_without_it_has_no_problem(tmp_path):
    assert shared_memory.problem(Host(root=tmp_path), 8) is None


def session(tmp_path, device, **requested):
    framework = fake_framework("lightning", lambda request: pytest.fail("it is started"))
    request, _ = framework.resolve_config(
        "llama", RequestedConfig(**requested), device, tmp_path / "output"
    )
    return Session(Plan((framework,), (request,), tmp_path / "output"), MACHINE)


def test_nothing_is_started_in_dockers_64_mb(container, tmp_path):
    container(DOCKER)
    with pytest.raises(UsageError) as refused:
        session(tmp_path, H100S).run()
    lines = refused.value.line().splitlines()
    assert lines[0].startswith(
        "error: /dev/shm has 67 MB free, and 8 GPUs that train together need 256 MB there"
    )
    assert "--ipc=host" in lines[1]
    assert "--shm-size" in lines[1]
    with pytest.raises(UsageError, match="67 MB free"):
        preflight.measure(MACHINE, 8, tmp_path / "output", quick=True)


@pytest.mark.parametrize(
    ("device", "requested"), [(H100S, {"num_gpus": 1}), (Device("cpu", 8, 24e9), {"num_gpus": 8})]
)
def test_one_gpu_and_processors_need_none(container, tmp_path, device, requested):
    container(DOCKER)
    with pytest.raises(pytest.fail.Exception, match="it is started"):
        session(tmp_path, device, **requested).run()


def test_doctor_says_so(container, tmp_path):
    host = container(DOCKER)
    devices = tuple(diagnosis.platforms.Device(index, MACHINE.gpu_info) for index in range(8))
    found = diagnosis.diagnose(tmp_path, host, dataclasses.replace(MACHINE, devices=devices))
    (doubt,) = [each for each in found.doubts if "/dev/shm" in each]
    assert doubt.endswith(
        "need 256 MB there: start the container with --ipc=host, or with --shm-size=8g"
    )
