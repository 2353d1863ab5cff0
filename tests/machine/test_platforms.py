"""Where am I: on machines that are made up, without a GPU."""

from __future__ import annotations

import json
import os
import platform
import sys
import types
from pathlib import Path

import psutil
import pytest
from gpu_fakes import MI300X as AMDSMI_MI300X
from gpu_fakes import (
    NVIDIA_APPS,
    NVIDIA_QUERY,
    ROCM_PROCESSES,
    FakeAmdsmi,
    FakeCuda,
    FakeNvml,
    amd_files,
    fake_host,
    fake_torch,
    nvidia_row,
    rocm_torch,
)

from tprimat.catalog import gpus
from tprimat.machine import held_memory, platforms
from tprimat.machine.platforms import detect, held_by_others

GIB = 2**30
H100 = {
    "name": "NVIDIA H100 80GB HBM3",
    "major": 9,
    "minor": 0,
    "multi_processor_count": 132,
    "clock_rate": 1_980_000,
}
V100 = {**H100, "name": "Tesla V100-SXM2-32GB", "major": 7, "multi_processor_count": 80}
CUDA_13 = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120", "compute_120")
"""Architectures of a build of torch."""

MI300X = {
    "name": "AMD Instinct MI300X",
    "major": 9,
    "minor": 4,
    "multi_processor_count": 304,
    "gcnArchName": "gfx942:sramecc+:xnack-",
    "total_memory": 206_141_652_992,
}
NVIDIA_VERSION = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build "
    " (dvs-builder)\nGCC version:  gcc version 12.3.0\n"
)


def rows(*used: object) -> str:
    """What nvidia-smi prints of GPUs aa-0, aa-1, … with so many MiB in use."""
    return "".join(nvidia_row(index, f"aa-{index}", each) for index, each in enumerate(used))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A machine made of files, answers of commands and variables."""

    def make(files=None, commands=None, environ=None, packages=None, libraries=None):
        return fake_host(
            tmp_path,
            commands,
            libraries,
            {"/proc/cpuinfo": "model name\t: Test CPU 9000\n", **(files or {})},
            environ=environ or {},
            package=lambda name: (packages or {}).get(name),
        )

    monkeypatch.setattr(
        psutil, "virtual_memory", lambda: types.SimpleNamespace(total=32_768_000_000)
    )
    monkeypatch.setattr(held_memory, "_READ", {})
    return make


def test_cuda(here):
    cuda = FakeCuda([{**H100, "uuid": "aa-0"}, {**H100, "uuid": "aa-1"}])
    host = here(
        files={"/proc/driver/nvidia/version": NVIDIA_VERSION},
        commands={NVIDIA_QUERY: rows(4, 0)},
        packages={"nemo_toolkit": "2.7.3", "transformer_engine": "2.1"},
    )
    machine = detect(fake_torch(cuda), host)
    assert machine.platform == "nvd"
    assert machine.gpu_info.known() == {
        "device_name": "NVIDIA H100 80GB HBM3",
        "device_count": 2,
        "total_memory_gb": 85.018,
        "gpu_cores": 16896,
        "software_stack": "cuda",
        "software_version": "12.8",
        "pytorch_version": "2.7.0a0+7c8ec84dab.nv25.03",
        "compute_units": 132,
        "architecture": "sm_90",
        "clock_mhz": 1980.0,
    }
    assert machine.environment.versions == {
        "python": platform.python_version(),
        "torch": "2.7.0a0+7c8ec84dab.nv25.03",
        "nemo_toolkit": "2.7.3",
        "transformer_engine": "2.1",
        "driver": "NVIDIA 570.86.15",
        "cudnn": "9.8.0",
        "nccl": "2.21.5",
    }
    assert machine.environment.memory_held_by_others_gb == pytest.approx(0.004, abs=1e-3)
    assert machine.warnings == ()
    assert cuda.asked_for_memory == []
    assert held_by_others(machine, host) is None


def test_rocm(here):
    host = here(files={"/sys/module/amdgpu/version": "6.14.14\n"})
    machine = detect(rocm_torch(FakeCuda([MI300X] * 8)), host)
    assert machine.platform == "amd"
    info = machine.gpu_info
    assert (info.device_count, info.total_memory_gb, info.gpu_cores) == (8, 206.142, 19456)
    assert (info.software_stack, info.software_version, info.architecture) == (
        "rocm",
        "7.1",
        "gfx942",
    )
    assert machine.environment.versions["driver"] == "amdgpu 6.14.14"
    assert machine.environment.versions["miopen"] == "3.5.0"
    assert machine.environment.versions["rccl"] == "2.21.5"
    assert machine.environment.versions["hip"] == "7.1.25424-4179531dcd"
    assert info.clock_mhz is None


@pytest.mark.parametrize(
    ("changes", "version"),
    [
        ({"rocm": "7.1.0"}, "7.1.0"),
        ({"version": "2.9.1+rocm7.2.0.git7e1940d4"}, "7.2.0"),
        ({"version": "2.8.0a0+gitabc"}, "7.1"),
    ],
)
def test_rocm_version_is_never_hips_own(here, changes, version):
    assert (
        detect(rocm_torch(FakeCuda([MI300X]), **changes), here()).gpu_info.software_version
        == version
    )


def test_clock_of_an_older_rocm_torch_comes_from_the_kernel(here):
    nodes = "/sys/class/kfd/kfd/topology/nodes"
    gpu = (
        "cpu_cores_count 0\nsimd_count 1024\nmax_engine_clk_fcompute 2400\ngfx_target_version"
        " 90500\n"
    )
    properties = {
        "name": "AMD Radeon Graphics",
        "major": 9,
        "minor": 5,
        "multi_processor_count": 256,
        "gcnArchName": "gfx950:sramecc+:xnack-",
        "total_memory": int(287.98 * GIB),
    }
    host = here(
        files={
            f"{nodes}/0/properties": (
                "cpu_cores_count 96\nsimd_count 0\nmax_engine_clk_fcompute 0\n"
            ),
            f"{nodes}/1/properties": gpu,
            f"{nodes}/2/properties": gpu,
        }
    )
    machine = detect(rocm_torch(FakeCuda([properties])), host)
    assert machine.gpu_info.clock_mhz == 2400
    found = gpus.match(machine.gpu_info)
    assert found.gpu is not None, found.reason
    assert found.gpu.key == "mi355x"


def test_differing_gpus_are_named(here):
    a100 = {
        **H100,
        "name": "NVIDIA A100-SXM4-40GB",
        "multi_processor_count": 108,
        "total_memory": 42_298_834_944,
    }
    machine = detect(fake_torch(FakeCuda([H100, H100, a100])), here())
    assert machine.gpu_info.device_count == 3
    assert machine.gpu_info.device_name == "NVIDIA H100 80GB HBM3"
    (said,) = (each for each in machine.warnings if "differ" in each)
    assert "2 × NVIDIA H100 80GB HBM3 (85 GB)" in said
    assert "1 × NVIDIA A100-SXM4-40GB (42 GB)" in said


def test_a_mig_slice_is_named(here):
    slice_of = {
        **H100,
        "name": "NVIDIA H100 80GB HBM3 MIG 3g.40gb",
        "multi_processor_count": 60,
        "total_memory": 42_000_000_000,
    }
    machine = detect(fake_torch(FakeCuda([slice_of])), here())
    assert machine.devices[0].partition == "MIG 3g.40gb"
    assert machine.gpu_info.gpu_cores == 60 * 128
    assert any("partitioned GPU 0 (MIG 3g.40gb" in said for said in machine.warnings)


def test_cpx_partitions_are_named(here):
    part = {**MI300X, "multi_processor_count": 38, "total_memory": 25_753_026_560}
    machine = detect(rocm_torch(FakeCuda([part] * 8)), here())
    said = "partitioned GPU 0, 1, 2, 3, 4, 5, 6, 7 (CPX partition (38 of 304 compute units)"
    assert any(said in each for each in machine.warnings)


def test_cores_that_nobody_knows_are_none_with_a_reason(here):
    radeon = {
        **MI300X,
        "name": "AMD Radeon RX 6800",
        "gcnArchName": "gfx1030",
        "multi_processor_count": 30,
    }
    machine = detect(rocm_torch(FakeCuda([radeon])), here())
    assert machine.gpu_info.gpu_cores is None
    assert any("gpu_cores unknown" in said for said in machine.warnings)


def test_u7_libraries_of_rocm_have_their_versions_in_their_names(here, tmp_path):
    (tmp_path / "torch" / "lib").mkdir(parents=True)
    for name in ("libaotriton_v2.so", "libaotriton_v2.so.0.10.0", "libhipblaslt-d.so.9"):
        (tmp_path / "torch" / "lib" / name).touch()
    assert "hipblaslt" not in detect(rocm_torch(FakeCuda([MI300X])), here()).environment.versions
    files = {f"/opt/rocm/lib/libhipblaslt.so{number}": "" for number in ("", ".1", ".1.0.60402")}
    torch = rocm_torch(FakeCuda([MI300X]))
    torch.__path__ = [str(tmp_path / "torch")]
    found = detect(torch, here(files)).environment.versions
    assert (found["hipblaslt"], found["aotriton"]) == ("1.0.60402", "0.10.0")
    elsewhere = here({"/opt/mine/lib/libhipblaslt.so.2": ""}, environ={"ROCM_PATH": "/opt/mine"})
    assert (
        detect(rocm_torch(FakeCuda([MI300X])), elsewhere).environment.versions["hipblaslt"] == "2"
    )
    assert "hipblaslt" not in detect(fake_torch(FakeCuda([H100])), here(files)).environment.versions


def test_a_library_that_is_missing_from_torch_is_left_out(here):
    torch = fake_torch(FakeCuda([H100]), dnn=None)
    del torch.cuda.nccl
    found = detect(torch, here()).environment.versions
    assert "cudnn" not in found
    assert "nccl" not in found
    assert "driver" not in found


def test_an_older_cudnn_counts_its_version_otherwise(here):
    assert (
        detect(fake_torch(FakeCuda([H100]), dnn=8907), here()).environment.versions["cudnn"]
        == "8.9.7"
    )


@pytest.mark.parametrize(
    ("torch", "files", "environ", "said"),
    [
        (
            fake_torch(),
            {},
            {},
            "no NVIDIA driver found (no /dev/nvidiactl); start a container with --gpus",
        ),
        (fake_torch(), {"/dev/kfd": ""}, {}, "the GPUs are AMD's: install the ROCM build"),
        (
            fake_torch(),
            {"/dev/nvidiactl": ""},
            {"CUDA_VISIBLE_DEVICES": ""},
            "CUDA_VISIBLE_DEVICES hides all",
        ),
        (
            fake_torch(),
            {"/dev/nvidiactl": ""},
            {"CUDA_VISIBLE_DEVICES": "0"},
            "though the NVIDIA driver is installed",
        ),
        (rocm_torch(FakeCuda([])), {}, {}, "--device /dev/kfd --device /dev/dri"),
        (
            rocm_torch(FakeCuda([])),
            {"/dev/kfd": ""},
            {"HIP_VISIBLE_DEVICES": "-1"},
            "HIP_VISIBLE_DEVICES hides all",
        ),
        (
            fake_torch(build=None, version="2.13.0+cpu"),
            {"/dev/nvidiactl": ""},
            {},
            "a build without GPU support",
        ),
        (
            fake_torch(
                FakeCuda(
                    [H100], available=False, complaint="CUDA initialization: driver too old\nmore"
                )
            ),
            {"/dev/nvidiactl": ""},
            {},
            "torch says: CUDA initialization: driver too old",
        ),
        (
            fake_torch(FakeCuda([H100, V100], built=CUDA_13)),
            {"/dev/nvidiactl": ""},
            {},
            "has no kernels for Tesla V100-SXM2-32GB (sm_70), only for sm_75, sm_80, sm_90",
        ),
        (
            fake_torch(
                FakeCuda(
                    [H100], failure="CUDA error: uncorrectable ECC error encountered\nCompile with"
                )
            ),
            {"/dev/nvidiactl": ""},
            {},
            "torch found a GPU but cannot use it: CUDA error: uncorrectable ECC error encountered",
        ),
    ],
)
def test_torch_without_a_usable_gpu_is_a_processor_and_says_why(here, torch, files, environ, said):
    machine = detect(torch, here(files=files, environ=environ))
    assert machine.platform == "cpu"
    assert machine.gpu_info.software_stack == "cpu"
    assert machine.gpu_info.pytorch_version == torch.__version__
    assert any(said in each for each in machine.warnings), machine.warnings
    assert not any("\n" in each for each in machine.warnings)
    is_usable = not files or "hides all" in said or "AMD's" in said
    assert (machine.unusable_gpu is None) is is_usable


CPU_BUILD = fake_torch(build=None, version="2.13.0+cpu")
WSL = "/usr/lib/wsl/lib"
KFD = [f"/sys/class/kfd/kfd/topology/nodes/{number}/properties" for number in range(3)]
LISTED = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aa-0)\n"


@pytest.mark.parametrize(
    ("torch", "files", "commands", "unusable"),
    [
        # What only nvidia-smi shows, in words that this driver knows.
        (fake_torch(), [], {NVIDIA_QUERY: rows(4)}, "nvidia-smi"),
        (CPU_BUILD, [], {NVIDIA_QUERY: rows(4)}, "install the CUDA build"),
        (fake_torch(), [], {"nvidia-smi -L": LISTED}, "nvidia-smi"),
        (fake_torch(), [], {"nvidia-smi -L": "No devices found.\n"}, None),
        # Windows' Linux; /dev/dxg is there for any vendor's GPU.
        (fake_torch(), ["/dev/dxg"], {}, "(/dev/dxg)"),
        (fake_torch(), ["/dev/dxg", f"{WSL}/libcuda.so.1"], {}, "(/dev/dxg)"),
        (CPU_BUILD, ["/dev/dxg", f"{WSL}/libcuda.so.1"], {}, "install the CUDA build"),
        (CPU_BUILD, ["/dev/dxg", f"{WSL}/libd3d12.so"], {}, None),
        (fake_torch(), ["/dev/dxg", f"{WSL}/libd3d12.so"], {}, None),
        (rocm_torch(FakeCuda([])), ["/dev/dxg", f"{WSL}/libd3d12.so"], {}, "(/dev/dxg)"),
        # Jetsons, before and after JetPack 6.
        (fake_torch(), ["/dev/nvhost-gpu"], {}, "(/dev/nvhost-gpu)"),
        (CPU_BUILD, ["/dev/nvhost-gpu"], {}, "install the CUDA build"),
        (
            fake_torch(),
            ["/dev/nvgpu/igpu0/ctrl"],
            {},
            "though the NVIDIA driver is installed (/dev/nvgpu)",
        ),
        # What torch itself has found.
        (
            fake_torch(FakeCuda([H100], failure="CUDA error: unknown error")),
            [],
            {},
            "torch found a GPU but cannot use",
        ),
        (fake_torch(FakeCuda([V100], built=CUDA_13)), [], {}, "has no kernels for Tesla V100"),
        # A ROCm build without the device file, as in a container that was not given it.
        (rocm_torch(FakeCuda([])), list(amd_files("0000:c1:00.0")), {}, "--device /dev/kfd"),
        (CPU_BUILD, list(amd_files("0000:c1:00.0")), {}, None),
        (CPU_BUILD, ["/dev/kfd"], {}, None),
        # An Instinct is no small part of a CPU.
        (CPU_BUILD, ["/dev/kfd", KFD[0], KFD[1]], {}, "install the ROCM build"),
        (fake_torch(), ["/dev/kfd", KFD[0], KFD[1]], {}, "install the ROCM build"),
        (fake_torch(), ["/dev/kfd", KFD[0], KFD[2]], {}, None),
        (CPU_BUILD, [KFD[1]], {}, None),
    ],
)
def test_a_gpu_that_is_here_in_any_way_is_never_a_benchmark_of_the_cpu(
    here, torch, files, commands, unusable
):
    nodes = dict(zip(KFD, (0, 90402, 110003), strict=True))
    properties = {
        name: f"simd_count {bool(version):d}\ngfx_target_version {version}\n"
        for name, version in nodes.items()
    }
    contents = {**amd_files("0000:c1:00.0"), **properties}
    machine = detect(
        torch, here(files={name: contents.get(name, "") for name in files}, commands=commands)
    )
    assert machine.platform == "cpu"
    assert (machine.unusable_gpu is None) is (unusable is None), machine.unusable_gpu
    assert unusable is None or unusable in machine.unusable_gpu
    assert unusable is None or unusable in " ".join(machine.warnings)


@pytest.mark.parametrize(
    ("modes", "said"),
    [
        (("Enabled", "Enabled"), "GPU 0, 1 is in MIG mode and has no instance"),
        (("Enabled", "Disabled"), "may be too old for this build"),
    ],
)
def test_mig_mode_without_an_instance_is_not_an_old_driver(here, modes, said):
    text = "".join(nvidia_row(index, f"aa-{index}", mig=mode) for index, mode in enumerate(modes))
    machine = detect(
        fake_torch(), here(files={"/dev/nvidiactl": ""}, commands={NVIDIA_QUERY: text})
    )
    assert said in machine.unusable_gpu


def test_no_torch_beside_a_gpu_that_only_the_tool_shows(here):
    machine = detect(None, here(commands={NVIDIA_QUERY: rows(4)}))
    assert (machine.platform, machine.gpu_info.device_name) == ("nvd", "NVIDIA H100 80GB HBM3")
    assert any("platform taken from nvidia-smi" in said for said in machine.warnings)


@pytest.mark.parametrize(
    ("version", "built", "trains"),
    [
        ((7, 5), CUDA_13, True),
        ((8, 9), CUDA_13, True),
        ((10, 3), CUDA_13, True),
        ((12, 1), CUDA_13, True),
        ((6, 1), CUDA_13, False),
        ((12, 0), ("sm_80", "sm_90"), False),
        ((12, 0), ("sm_80", "compute_90"), True),
        ((7, 0), ("an unknown form",), True),
    ],
)
def test_a_build_has_kernels_for_later_gpus_of_a_generation(here, version, built, trains):
    device = {**H100, "name": "a GPU", "major": version[0], "minor": version[1]}
    machine = detect(
        fake_torch(FakeCuda([device], built=built)), here(files={"/dev/nvidiactl": ""})
    )
    assert (machine.platform == "nvd") is trains
    assert (machine.unusable_gpu is None) is trains


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may open every file"
)
def test_a_device_file_that_is_closed_to_the_user(here):
    host = here(files={"/dev/kfd": ""})
    host.path("/dev/kfd").chmod(0)
    assert "render and video" in detect(rocm_torch(FakeCuda([])), host).warnings[0]


def test_a_processor(here):
    host = here()
    machine = detect(fake_torch(build=None, version="2.13.0+cpu"), host)
    assert machine.platform == "cpu"
    assert machine.devices == ()
    assert machine.warnings == ()
    assert machine.gpu_info.known() == {
        "device_name": "Test CPU 9000",
        "device_count": 1,
        "total_memory_gb": 32.768,
        "software_stack": "cpu",
        "pytorch_version": "2.13.0+cpu",
        "architecture": platform.machine(),
    }
    assert machine.environment.cpu == "Test CPU 9000"
    assert held_by_others(machine, host) is None


def test_a_container_with_less_memory_than_the_machine(here):
    host = here(
        files={
            "/proc/self/cgroup": "0::/\n",
            "/sys/fs/cgroup/memory.max": "8000000000\n",
        }
    )
    said = detect(fake_torch(build=None), host).warnings
    assert said == ("this process may use 8.0 GB of the machine's 32.8 GB of memory",)


def test_no_torch(here):
    machine = detect(None, here())
    assert machine.platform == "cpu"
    assert machine.gpu_info.pytorch_version is None
    assert "torch" not in machine.environment.versions
    assert any("nothing can be trained here" in said for said in machine.warnings)


def test_no_torch_beside_an_nvidia_driver(here):
    host = here(
        files={"/dev/nvidiactl": "", "/proc/driver/nvidia/version": NVIDIA_VERSION},
        commands={NVIDIA_QUERY: rows(*[4] * 8)},
    )
    machine = detect(None, host)
    assert machine.platform == "nvd"
    assert machine.gpu_info.known() == {
        "device_name": "NVIDIA H100 80GB HBM3",
        "device_count": 8,
        "total_memory_gb": 85.521,
        "software_stack": "cuda",
    }
    assert any("/dev/nvidiactl" in said for said in machine.warnings)
    assert machine.environment.versions["driver"] == "NVIDIA 570.86.15"


def test_no_torch_beside_an_amd_driver(here):
    machine = detect(None, here(files={"/dev/kfd": ""}))
    assert machine.platform == "amd"
    assert machine.gpu_info.known() == {"software_stack": "rocm"}
    assert any("unknown without torch" in said for said in machine.warnings)


def test_a_tool_without_a_driver_is_a_hint_only(here, tmp_path):
    tool = tmp_path / "bin" / ("nvidia-smi.exe" if sys.platform == "win32" else "nvidia-smi")
    tool.parent.mkdir()
    tool.write_text("")
    tool.chmod(0o755)
    machine = detect(None, here(environ={"PATH": str(tool.parent)}))
    assert machine.platform == "cpu"
    assert any("nvidia-smi found, but no driver's device file" in said for said in machine.warnings)


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (ModuleNotFoundError("No module named 'torch'", name="torch"), "torch is not installed"),
        (ModuleNotFoundError("No module named 'sympy'", name="sympy"), "lacks the package sympy"),
        (
            ImportError("libcudart.so.12: cannot open shared object file"),
            "cannot be loaded (libcudart.so.12",
        ),
        (
            OSError("[WinError 126] The specified module could not be found"),
            "cannot be loaded ([WinError 126]",
        ),
    ],
)
def test_a_torch_that_cannot_be_imported(here, monkeypatch, problem, said):
    class Refusing:
        def find_spec(self, name, path=None, target=None):
            if name == "torch":
                raise problem

    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Refusing(), *sys.meta_path])
    machine = detect(host=here())
    assert machine.platform == "cpu"
    assert machine.gpu_info.pytorch_version is None
    assert said in machine.warnings[0]


VERSION = "__version__ = '2.9.0{}'\ncuda: Optional[str] = {}\nhip: Optional[str] = {}\n"
"""Of torch/version.py."""


@pytest.mark.parametrize(
    ("version", "imported"),
    [
        (VERSION.format("+cpu", None, None), False),
        (VERSION.format("+cu128", "'12.8'", None), True),
        (VERSION.format("+rocm6.4", None, "'6.4.43482'"), True),
        ("__version__ = '2.9.0'", True),
        ("__version__ = (", True),
        (None, True),
    ],
)
def test_a_torch_without_gpus_need_not_be_imported(here, tmp_path, monkeypatch, version, imported):
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('it was imported')")
    if version is not None:
        (package / "version.py").write_text(version)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    machine = detect(platforms.DESCRIBED, here())
    assert ("it was imported" in " ".join(machine.warnings)) == imported
    if not imported:
        assert machine == detect(fake_torch(build=None, version="2.9.0+cpu"), here())


def test_memory_of_others_is_said_with_its_holders(here):
    host = here(
        commands={
            NVIDIA_QUERY: rows(12000, 3),
            NVIDIA_APPS: (
                "GPU-aa-0, 4242, /usr/bin/python3, 11000\n"
                "GPU-bb-9, 7, other, 5\n"
                "GPU-aa-0, 4343, [Not Found], [N/A]\n"
            ),
        }
    )
    cuda = FakeCuda([{**H100, "uuid": "aa-0"}, {**H100, "uuid": "AA-1"}])
    machine = detect(fake_torch(cuda), host)
    assert machine.environment.memory_held_by_others_gb == pytest.approx(12.583, abs=1e-3)
    assert machine.devices[1].memory_held_gb == pytest.approx(0.003, abs=1e-3)
    said = held_by_others(machine, host)
    assert "GPU 0 (12.6 of 85.0 GB)" in said
    assert "GPU 1" not in said
    assert "python3 (process 4242, 11.5 GB)" in said
    assert "an unnamed process (process 4343, size unknown)" in said
    assert "other" not in said.split("of GPU 0")[1].split("; they")[0]
    assert "CUDA_VISIBLE_DEVICES" in said
    assert "docs/troubleshooting.md#memory-held" in said


def test_memory_of_others_on_an_amd_machine(here):
    listed = json.dumps(
        {
            "system": {
                "PID77": "VLLM::Engine, 1, 77420392448, 0, UNKNOWN",
                "PID78": "gunicorn, 0, 0, 0, 0",
            }
        }
    )
    host = here(
        files=amd_files("0002:1f:00.0", used=77_720_392_448),
        commands={ROCM_PROCESSES: "WARNING: low-power state\n" + listed},
    )
    properties = {**MI300X, "pci_domain_id": 2, "pci_bus_id": 0x1F, "pci_device_id": 0}
    cuda = FakeCuda([properties])
    machine = detect(rocm_torch(cuda), host)
    assert machine.environment.memory_held_by_others_gb == pytest.approx(77.720, abs=1e-3)
    assert cuda.asked_for_memory == []
    said = held_by_others(machine, host)
    assert (
        "GPU 0 (77.7 of 206.1 GB); running on this machine's GPUs: VLLM::Engine (process 77, 77.4"
        " GB);" in said
    )
    assert "gunicorn" not in said
    assert "HIP_VISIBLE_DEVICES" in said


def test_processes_that_amdsmi_locates_are_those_of_the_held_gpus(here):
    other = {
        **AMDSMI_MI300X,
        "bdf": "0000:c2:00.0",
        "processes": [{"name": "b", "pid": 9, "memory_usage": {"vram_mem": 5}}],
    }
    libraries = {"amdsmi": FakeAmdsmi([AMDSMI_MI300X, other])}
    files = {**amd_files("0000:c1:00.0", used=77_000_000_000), **amd_files("0000:c2:00.0", used=10)}
    places = [{"pci_domain_id": 0, "pci_bus_id": bus, "pci_device_id": 0} for bus in (0xC1, 0xC2)]
    host = here(files=files, libraries=libraries)
    machine = detect(rocm_torch(FakeCuda([{**MI300X, **place} for place in places])), host)
    said = held_by_others(machine, host)
    assert (
        "GPU 0 (77.0 of 206.1 GB): python3 (process 77, 5.0 GB); they leave this run less memory"
        in said
    )


def test_memory_is_read_anew_before_another_run(here, monkeypatch):
    cuda = FakeCuda([{**H100, "uuid": "aa-0"}])
    commands = {NVIDIA_QUERY: rows(4)}
    host = here(commands=commands)
    machine = detect(fake_torch(cuda), host)
    commands[NVIDIA_QUERY] = rows(12000)
    monkeypatch.setitem(sys.modules, "torch", fake_torch(cuda))
    assert held_by_others(machine, host) is None
    assert "GPU 0 (12.6 of 85.0 GB)" in held_by_others(platforms.refreshed(machine, host), host)


def test_without_the_vendors_tools_torch_is_asked(here):
    host = here(files={"/.dockerenv": ""})
    machine = detect(fake_torch(FakeCuda([H100], free=85_017_755_648 - 30_000_000_000)), host)
    assert machine.environment.memory_held_by_others_gb == 30
    said = held_by_others(machine, host)
    assert "GPU 0 (30.0 of 85.0 GB)" in said
    assert "on the host" in said


def test_a_context_of_our_own_is_not_held_by_others(here):
    host = here()
    machine = detect(fake_torch(FakeCuda([H100], free=85_017_755_648 - 600_000_000)), host)
    assert machine.environment.memory_held_by_others_gb is None
    assert any("this process's context" in said for said in machine.warnings)
    assert held_by_others(machine, host) is None


def test_memory_of_this_very_process_is_not_held_by_others(here):
    cuda = FakeCuda([{**H100, "uuid": "aa-0"}], reserved=20 * GIB, free=0)
    commands = {
        NVIDIA_QUERY: rows(22000),
        NVIDIA_APPS: f"GPU-aa-0, {os.getpid()}, python3, 21500\n",
    }
    machine = detect(fake_torch(cuda), here(commands=commands))
    assert machine.environment.memory_held_by_others_gb == pytest.approx(0.524, abs=1e-3)
    unknown = detect(fake_torch(cuda), here(commands={NVIDIA_QUERY: rows(22000)}))
    assert unknown.environment.memory_held_by_others_gb is None
    assert any("this process itself already holds some" in said for said in unknown.warnings)


def test_a_rank_looks_at_its_own_gpu_alone(here):
    cuda = FakeCuda([{**H100, "uuid": "aa-0"}, {**H100, "uuid": "aa-1"}])
    host = here(commands={NVIDIA_QUERY: rows(60000, 2)}, environ={"LOCAL_RANK": "1"})
    machine = detect(fake_torch(cuda), host)
    assert [device.memory_held_gb is None for device in machine.devices] == [True, False]
    assert held_by_others(machine, host) is None
    assert machine.warnings == ()


TWO_H100 = [{**H100, "uuid": "aa-0"}, {**H100, "uuid": "aa-1"}]
TWO_MI300X = [
    {**MI300X, "pci_domain_id": 0, "pci_bus_id": bus, "pci_device_id": 0} for bus in (0xC1, 0xC2)
]


@pytest.mark.parametrize(("build", "devices"), [(fake_torch, TWO_H100), (rocm_torch, TWO_MI300X)])
def test_a_training_knows_what_its_parent_read_before_the_start(here, monkeypatch, build, devices):
    files = {
        **amd_files("0000:c1:00.0", used=300_000_000),
        **amd_files("0000:c2:00.0", used=60_000_000_000),
    }
    files = files if build is rocm_torch else {}
    host = here(
        files=files, commands={NVIDIA_QUERY: rows(286, 57220)} if build is fake_torch else {}
    )
    before = detect(build(FakeCuda(devices)), host)
    assert [device.memory_held_gb for device in before.devices] == pytest.approx(
        [0.3, 60.0], abs=0.01
    )
    # In the training the model is in memory, and in a container no driver says whose that is.
    cuda = FakeCuda(devices, reserved=20 * GIB, free=0)
    commands = {NVIDIA_QUERY: rows(30000, 80000), NVIDIA_APPS: "GPU-aa-0, 1, python3, 29000\n"}
    same_process = detect(build(cuda), here(files=files, commands=commands))
    assert [each.memory_held_gb for each in same_process.devices] == [
        each.memory_held_gb for each in before.devices
    ]
    handed_over = held_memory.handed_over()
    for rank in ({}, {"LOCAL_RANK": "1"}):
        monkeypatch.setattr(held_memory, "_READ", {})
        alone = detect(build(cuda), here(files=files, commands=commands, environ=rank))
        assert any("is unknown on GPU" in said for said in alone.warnings)
        handed = here(files=files, commands=commands, environ={**rank, **handed_over})
        machine = detect(build(cuda), handed)
        assert [each.memory_held_gb for each in machine.devices] == [
            each.memory_held_gb for each in before.devices
        ]
        assert machine.environment.memory_held_by_others_gb == pytest.approx(60.0, abs=0.01)
        assert machine.warnings == ()
    assert cuda.asked_for_memory == []


def test_what_a_parent_could_not_read_is_not_read_under_worse_conditions(here):
    detect(fake_torch(FakeCuda([H100], free=85_017_755_648 - 600_000_000)), here())
    machine = detect(
        fake_torch(FakeCuda([H100], free=40_000_000_000)), here(environ=held_memory.handed_over())
    )
    assert machine.environment.memory_held_by_others_gb is None
    assert any("this process's context" in said for said in machine.warnings)


@pytest.mark.parametrize(
    "text", ['{"0:bb-7": 5.0}', "no JSON", "[]", '{"0:aa-0": "much"}', '{"1:aa-0": 5.0}']
)
def test_what_was_handed_over_for_another_machine_is_ignored(here, text):
    host = here(commands={NVIDIA_QUERY: rows(4)}, environ={held_memory.VARIABLE: text})
    machine = detect(fake_torch(FakeCuda([{**H100, "uuid": "aa-0"}])), host)
    assert machine.environment.memory_held_by_others_gb == pytest.approx(0.004, abs=1e-3)


def test_memory_read_anew_is_what_is_handed_over(here, monkeypatch):
    cuda, commands = FakeCuda([{**H100, "uuid": "aa-0"}]), {NVIDIA_QUERY: rows(4)}
    host = here(commands=commands)
    machine = detect(fake_torch(cuda), host)
    commands[NVIDIA_QUERY] = rows(12000)
    monkeypatch.setitem(sys.modules, "torch", fake_torch(cuda))
    platforms.refreshed(machine, host)
    held = (
        detect(fake_torch(cuda), here(environ=held_memory.handed_over())).devices[0].memory_held_gb
    )
    assert held == pytest.approx(12.583, abs=1e-3)


GB10 = {
    **H100,
    "name": "NVIDIA GB10",
    "major": 12,
    "minor": 1,
    "multi_processor_count": 48,
    "uuid": "aa-0",
}
GB10.update(total_memory=130_662_000_000, is_integrated=1)


@pytest.mark.parametrize(
    ("available_gb", "held_gb", "is_said"),
    [(124.0, 6.7, False), (117.7, 13.0, False), (117.5, 13.2, True)],
)
def test_the_page_cache_holds_no_memory_of_a_gpu_that_shares_the_systems(
    here, monkeypatch, available_gb, held_gb, is_said
):
    system = types.SimpleNamespace(total=130_662_000_000, available=available_gb * 1e9)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: system)
    monkeypatch.setattr(
        psutil.Process, "memory_info", lambda self: types.SimpleNamespace(rss=10_000_000)
    )
    # The driver states no memory of it, and CUDA takes what is cached, 115 GB, for used.
    host = here(commands={NVIDIA_QUERY: nvidia_row(0, "aa-0", used="[N/A]", name="NVIDIA GB10")})
    machine = detect(fake_torch(FakeCuda([GB10], free=9_000_000_000)), host)
    assert machine.devices[0].memory_held_gb == pytest.approx(held_gb, abs=0.1)
    assert machine.warnings == ()
    said = held_by_others(machine, host)
    assert (said is not None) is is_said
    assert (
        said is None
        or "processes hold memory of GPU 0 (13.2 of 130.7 GB), which is the system's" in said
    )


def test_what_a_training_itself_holds_of_the_systems_memory_is_not_held_by_others(
    here, monkeypatch
):
    system = types.SimpleNamespace(total=130_662_000_000, available=80_000_000_000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: system)
    monkeypatch.setattr(
        psutil.Process, "memory_info", lambda self: types.SimpleNamespace(rss=4_000_000_000)
    )
    machine = detect(fake_torch(FakeCuda([GB10], reserved=40_000_000_000)), here())
    assert machine.devices[0].memory_held_gb == pytest.approx(6.7, abs=0.1)
    assert machine.warnings == ()


@pytest.mark.parametrize(
    ("held", "said"), [(0.4, None), (0.99, None), (1.01, "Xorg (process 900, 1.0 GB)")]
)
def test_a_desktop_is_no_other_process_in_a_container(here, held, said):
    gpu = {
        "uuid": "aa-0",
        "name": "NVIDIA GeForce RTX 4090",
        "memory": (25_250_000_000, 0, int(held * 1e9)),
    }
    gpu.update(processes=[], graphics=[(900, int(held * 1e9))], names={900: "/usr/lib/xorg/Xorg"})
    host = here(libraries={"pynvml": FakeNvml([gpu])})
    machine = detect(
        fake_torch(FakeCuda([{**H100, "uuid": "aa-0", "total_memory": 25_250_000_000}])), host
    )
    warning = held_by_others(machine, host)
    assert said in warning if said else warning is None
    assert "container" not in (warning or "")


@pytest.mark.parametrize("files", [{}, {"/.dockerenv": ""}])
def test_processes_that_are_not_listed_are_elsewhere_only_in_a_container(here, files):
    host = here(files=files, commands={NVIDIA_QUERY: rows(12000), NVIDIA_APPS: ""})
    said = held_by_others(detect(fake_torch(FakeCuda([{**H100, "uuid": "aa-0"}])), host), host)
    assert ("on the host" in said) is bool(files)
    assert ("a desktop" in said) is not bool(files)


def test_partitions_of_one_card_are_not_charged_with_the_whole(here):
    part = {**MI300X, "multi_processor_count": 38, "total_memory": 25_753_026_560}
    part.update(pci_domain_id=0, pci_bus_id=1, pci_device_id=0)
    host = here(files=amd_files("0000:01:00.0", used=100_000_000_000))
    machine = detect(rocm_torch(FakeCuda([part, part])), host)
    assert machine.environment.memory_held_by_others_gb is None


@pytest.mark.parametrize(
    "answer", ["", "Failed to initialize NVML: Driver/library version mismatch", rows("[N/A]")]
)
def test_a_tool_that_answers_nonsense_is_no_figure(here, answer):
    cuda = FakeCuda([{**H100, "uuid": "aa-0"}])
    machine = detect(fake_torch(cuda), here(commands={NVIDIA_QUERY: answer, NVIDIA_APPS: answer}))
    assert machine.environment.memory_held_by_others_gb is None
    assert machine.platform == "nvd"


def test_this_machine():
    machine = detect()
    assert machine.platform in ("nvd", "amd", "cpu")
    assert machine.environment.hostname
    assert machine.environment.versions["python"] == platform.python_version()
    assert machine.gpu_info.total_memory_gb > 0
    if (
        Path(platforms.__file__).parents[2] / ".git"
    ).exists() and machine.environment.tprimat_commit:
        assert len(machine.environment.tprimat_commit.removesuffix("-dirty")) == 40
