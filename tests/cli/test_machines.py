"""`make run`, ./benchmark.py and its --dry-run on stand-ins for the machines of
tests/machines.py.
"""

from __future__ import annotations

import re
import sys
import types

import primus_tree
import psutil
import pytest
from gpu_fakes import (
    NVIDIA_APPS,
    NVIDIA_QUERY,
    FakeCuda,
    amd_files,
    fake_host,
    fake_torch,
    nvidia_row,
    rocm_torch,
)
from machines import CUDA_12_6, CUDA_12_8, CUDA_13, KEPT, MACHINES, REFUSED

from tprimat import cli, frameworks
from tprimat.errors import ExitStatus
from tprimat.frameworks.framework import Framework
from tprimat.machine import platforms
from tprimat.measure import session

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Primus is started by bash")

KERNELS = {
    CUDA_13: "75 80 86 90 100 120",
    CUDA_12_6: "50 60 70 75 80 86 90",
    CUDA_12_8: "75 80 86 90 100 120",
}
"""PyTorch's CUDA support matrix: what its builds for x86_64 have kernels for."""

KERNELS_ON_ARM = {CUDA_13: "80 90 100 110 120", CUDA_12_6: "80 90", CUDA_12_8: "80 90 100 120"}
INDEX = {"": CUDA_13, "cu126": CUDA_12_6, "cu128": CUDA_12_8}


def torch_of(row):
    """The torch that is there after `make run`."""
    address = {"pci_domain_id": 0, "pci_device_id": 0}
    major, minor = (
        (9, 4)
        if row.gpu.architecture.startswith("gfx")
        else divmod(int(row.gpu.architecture[3:]), 10)
    )
    devices = [
        {
            "name": row.gpu.name, "major": major, "minor": minor, "multi_processor_count": row.gpu.units,
            "total_memory": row.gpu.memory, "gcnArchName": row.gpu.architecture, "uuid": f"aa-{index}",
            "pci_bus_id": 0x10 + index, "is_integrated": row.gpu.is_integrated, **address,
        }
        for index in range(row.count)
    ]  # fmt: skip
    if row.mig and row.seen:
        for each in devices:
            each["uuid"] = "MIG-" + each["uuid"]
    kernels = (KERNELS_ON_ARM if row.processor == "aarch64" else KERNELS).get(row.installs, "")
    free = row.gpu.memory - row.used_mib * 2**20
    cuda = FakeCuda(
        devices, available=row.seen, free=free, built=[f"sm_{each}" for each in kernels.split()]
    )
    if not row.files[0].startswith("/dev/kfd"):
        return fake_torch(cuda, build="13.0", version=row.container or "2.13.0")
    return rocm_torch(cuda, version=row.container)


def host_of(row, folder):
    """The machine's files and tools."""
    files = dict.fromkeys(row.files, "")
    commands = {}
    if row.gpu.architecture.startswith("gfx"):
        for index in range(row.count):
            files |= amd_files(f"0000:{0x10 + index:02x}:00.0", used=300_000_000)
    elif not row.files[0].endswith("dxg"):
        files["/proc/driver/nvidia/version"] = (
            f"NVRM version: Kernel Module  {row.driver or '580.95.05'}  Release"
        )
    if row.driver:
        mode = "Enabled" if row.mig else "Disabled"
        used = "[N/A]" if row.gpu.is_integrated else row.used_mib
        name = row.gpu.name.partition(" MIG")[0]
        lines = (
            nvidia_row(index, f"aa-{index}", used, name=name, mig=mode)
            for index in range(row.count)
        )
        commands[NVIDIA_QUERY] = "".join(lines)
        commands[NVIDIA_APPS] = (
            f"GPU-aa-0, 4242, {row.holder}, {row.used_mib}\n" if row.holder else ""
        )
    return fake_host(folder, commands, {}, files)


@pytest.fixture
def arrive(tmp_path, monkeypatch, make_venv):
    """Make this process one on a machine; returns its started runs."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HF_TOKEN", "made-up")
    for name in ("HIP_VISIBLE_DEVICES", "TORCH_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)

    def at(row):
        host, torch = host_of(row, tmp_path / "root"), torch_of(row)
        if row.gpu.is_integrated:
            # Most of the memory is page cache.
            memory = types.SimpleNamespace(
                total=row.gpu.memory, available=row.gpu.memory - 6_000_000_000
            )
            monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
        if row.primus:
            tree = primus_tree.make(tmp_path / "Primus", folders=("MI300X", "MI355X"))
            for path in tree.glob(f"examples/megatron/configs/{row.gpu.name.split()[-1]}/llama*"):
                sizes = "micro_batch_size: {}\n      global_batch_size: {}"
                path.write_text(
                    path.read_text().replace(sizes.format(2, 128), sizes.format(*row.primus))
                )
            monkeypatch.setenv("PRIMUS_PATH", str(tree))
        there, known = {row.framework, "lightning"}, (platforms.detect, platforms.held_by_others)
        monkeypatch.setattr(
            Framework, "unavailable", lambda self: None if self.name in there else "it isn't here"
        )
        monkeypatch.setattr(platforms, "detect", lambda *_: known[0](torch, host))
        monkeypatch.setattr(platforms, "held_by_others", lambda machine: known[1](machine, host))
        started = []
        monkeypatch.setattr(session.Session, "run", lambda self: started.extend(self._requests))
        monkeypatch.setattr(session.Session, "sum_up", lambda self: None)

        def output(command):
            if command[0] == "nvidia-smi":
                if not row.driver:
                    return ""
                capability = f"{row.gpu.architecture[3:-1]}.{row.gpu.architecture[-1]}"
                lines = [
                    f"{row.driver}, {capability}" if "compute_cap" in command[1] else row.driver
                ] * row.count
                return "GPU 0: a GPU" if command[1] == "-L" else "\n".join(lines)
            return row.container

        monkeypatch.setattr(make_venv, "_output", output)
        monkeypatch.setattr(make_venv, "Path", lambda name: host.path(name))
        monkeypatch.setattr(make_venv.platform, "machine", lambda: row.processor)
        return started

    return at


def installed(make_venv):
    """What `make run` installs, in the words of the table."""
    if make_venv.outer_gpu_torch():
        return KEPT
    try:
        torch, index = make_venv.fitting_torch()
    except make_venv.SetupError:
        return REFUSED
    assert torch == ("torch==2.11.0" if index.endswith("cu128") else make_venv.pinned("torch"))
    return INDEX[index.rpartition("/")[2]]


def notes_in(text):
    """The notes that were printed, each on one line, but for that on scaled-down models."""
    found = re.findall(r"^note: (.*(?:\n  .*)*)", text, re.MULTILINE)
    return [re.sub(r"\s+", " ", each) for each in found if "is a scaled-down model" not in each]


@pytest.mark.parametrize("row", MACHINES, ids=lambda row: row.name)
def test_make_run_installs_what_drives_the_gpu(row, arrive, make_venv, capsys):
    arrive(row)
    assert installed(make_venv) == row.installs


@pytest.mark.parametrize("row", MACHINES, ids=lambda row: row.name)
def test_the_first_command_trains_what_the_table_says(row, arrive, capsys):
    if row.primus:
        pytest.importorskip("yaml")
    started = arrive(row)
    assert cli.run("benchmark", []) == row.status
    shown = capsys.readouterr()
    notes = notes_in(shown.out)
    if row.status == ExitStatus.USAGE:
        assert not started
        notes = [" ".join(shown.err.split())]
    assert len(notes) == len(row.notes), notes
    for part in row.notes:
        assert any(part in each for each in notes), (part, notes)
    # The dry run says the same of what would be run.
    assert cli.run("benchmark", ["--dry-run"]) == row.status
    dry = capsys.readouterr()
    if row.status == ExitStatus.USAGE:
        assert dry.err == shown.err
        return
    before = shown.out.partition("\nnote: other processes")[0].strip()
    assert before in dry.out
    assert {request.model for request in started} == set(frameworks.by_name(row.framework).models)
    for request in started:
        assert (request.framework, request.scale, request.precision) == (
            row.framework,
            row.scale,
            row.precision,
        )
        assert (request.compiled, request.num_gpus) == (row.compiled, row.count)
    llama = next(request for request in started if request.model == "llama")
    assert (llama.global_batch_size, llama.sequence_length) == (row.batch, row.tokens)
    assert not row.primus or (llama.micro_batch_size, llama.global_batch_size) == row.primus
    calculated = re.findall(r"calculated: llama.*, (\d+) of \d+ GB", shown.out)
    assert len(calculated) == (row.memory_gb is not None)
    if row.memory_gb is not None:
        assert float(calculated[0]) == pytest.approx(row.memory_gb, abs=0.6)
