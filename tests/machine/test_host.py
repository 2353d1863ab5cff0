"""What the operating system says, on machines that are made up."""

from __future__ import annotations

import os
import platform
import sys
import types

import psutil
import pytest
from gpu_fakes import fake_host

from tprimat.machine import host as hosts
from tprimat.machine.host import Host
from tprimat.results.run import Environment


@pytest.fixture
def here(tmp_path):
    def make(files=None, environ=None, commands=None, packages=None):
        for name, text in (files or {}).items():
            path = tmp_path / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Host(
            environ=environ or {},
            root=tmp_path,
            command=lambda argv: (commands or {}).get(argv[0]),
            package=lambda name: (packages or {}).get(name),
        )

    return make


@pytest.fixture
def eight_threads(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


@pytest.mark.parametrize(
    ("files", "threads"),
    [
        ({}, 8),
        ({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "max 100000\n"}, 8),
        ({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2),
        ({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "150000 100000\n"}, 2),
        ({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "10000 100000\n"}, 1),
        ({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "1600000 100000\n"}, 8),
        # The least of all levels counts.
        (
            {
                "/proc/self/cgroup": "0::/job/step\n",
                "/sys/fs/cgroup/job/cpu.max": "400000 100000\n",
            },
            4,
        ),
        (
            {
                "/proc/self/cgroup": "3:cpu,cpuacct:/docker/ab\n2:memory:/\n",
                "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "300000\n",
                "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            3,
        ),
        (
            {
                "/proc/self/cgroup": "3:cpu:/\n",
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            8,
        ),
    ],
)
@pytest.mark.usefixtures("eight_threads")
def test_threads_respect_affinity_and_quota(here, files, threads):
    assert hosts.cpu_threads(here(files)) == threads


@pytest.mark.parametrize(
    ("cpuinfo", "instructions", "lacks_bf16"),
    [
        ("flags\t\t: fpu sse2 avx2 bmi1\n", ("avx2",), True),
        (
            "flags\t\t: avx2 avx512f avx512_bf16 amx_bf16\n",
            ("avx2", "avx512f", "avx512_bf16", "amx_bf16"),
            False,
        ),
        ("Features\t: fp asimd asimdhp sve i8mm bf16\n", ("asimdhp", "sve", "i8mm", "bf16"), False),
        ("Features\t: fp asimd\n", (), True),
    ],
)
def test_instructions_of_the_processor(here, cpuinfo, instructions, lacks_bf16):
    found = hosts.cpu_instructions(here({"/proc/cpuinfo": f"processor\t: 0\n{cpuinfo}"}))
    assert found == instructions
    assert Environment(cpu_instructions=found).lacks_bf16 is lacks_bf16


def test_unknown_instructions_are_no_lack(here, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    assert hosts.cpu_instructions(here()) is None
    assert Environment(cpu_instructions=None).lacks_bf16 is False


def test_threads_without_affinities(here, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 12)
    assert hosts.cpu_threads(here()) == 12


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, None),
        ({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "max\n"}, None),
        ({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "4000000000\n"}, 4.0),
        (
            {
                "/proc/self/cgroup": "4:memory:/a\n",
                "/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "5000000000\n",
            },
            5.0,
        ),
        (
            {
                "/proc/self/cgroup": "4:memory:/\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2**63 - 4096}",
            },
            None,
        ),
    ],
)
def test_memory_limit_of_a_container(here, monkeypatch, files, limit):
    monkeypatch.setattr(
        psutil, "virtual_memory", lambda: types.SimpleNamespace(total=16_384_000_000)
    )
    assert hosts.memory_limit_gb(here(files)) == limit


@pytest.mark.parametrize(
    ("files", "environ", "said"),
    [
        ({}, {}, None),
        ({"/.dockerenv": ""}, {}, "docker"),
        ({"/.dockerenv": ""}, {"NVIDIA_PYTORCH_VERSION": "25.03"}, "docker (NVIDIA PyTorch 25.03)"),
        (
            {"/run/.containerenv": 'engine="podman-5"\nimage="quay.io/x/rocm:7.1"\n'},
            {},
            "podman (quay.io/x/rocm:7.1)",
        ),
        ({"/run/.containerenv": ""}, {}, "podman"),
        ({}, {"APPTAINER_CONTAINER": "/scratch/me/nemo_25.11.sif"}, "apptainer (nemo_25.11.sif)"),
        ({}, {"SINGULARITY_CONTAINER": "/scratch/primus.sif"}, "apptainer (primus.sif)"),
        ({"/.dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes, docker"),
        (
            {"/proc/1/cgroup": "0::/kubepods/besteffort/pod1\n"},
            {"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
            "kubernetes",
        ),
        ({"/proc/1/cgroup": "4:cpu:/docker/0123\n"}, {}, "docker"),
        ({}, {"container": "systemd-nspawn"}, "systemd-nspawn"),
        (
            {},
            {"NVIDIA_PYTORCH_VERSION": "25.03", "NEMO_VERSION": "25.04"},
            "container (NVIDIA PyTorch 25.03, NeMo 25.04)",
        ),
    ],
)
def test_container(here, files, environ, said):
    assert hosts.container(here(files, environ)) == said


@pytest.mark.parametrize(
    ("value", "is_emulated"), [(None, False), ("", False), ("0", False), ("1", True)]
)
def test_an_emulated_device_is_one_that_its_variable_names(monkeypatch, value, is_emulated):
    monkeypatch.delenv("TPRIMAT_EMULATED", raising=False)
    if value is not None:
        monkeypatch.setenv("TPRIMAT_EMULATED", value)
    assert hosts.is_emulated() is is_emulated


def test_a_setting_that_is_no_utf8_can_be_written():
    assert hosts.settings({"LD_PRELOAD": "/opt/\udce4/lib.so"}) == {"LD_PRELOAD": "/opt/?/lib.so"}


def test_settings_are_those_that_change_speed():
    environ = {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "NVTE_FUSED_ATTN": "1",
        "NCCL_ALGO": "Ring",
        "RCCL_MSCCL_ENABLE": "0",
        "OMP_NUM_THREADS": "8",
        "HSA_NO_SCRATCH_RECLAIM": "1",
        "HIP_VISIBLE_DEVICES": "0",
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        "TORCH_NCCL_HIGH_PRIORITY": "1",
        "GPU_MAX_HW_QUEUES": "2",
        "NVIDIA_TF32_OVERRIDE": "0",
        "PRIMUS_HIPBLASLT_TUNING": "1",
        "AITER_ENABLE": "1",
        "HSA_ENABLE_SDMA": "1",
    }
    noise = {
        "AITER_LOG_LEVEL": "ERROR",
        "PATH": "/bin",
        "HOME": "/home/me",
        "NCCL_VERSION": "2.25.1",
        "CUDA_HOME": "/usr/local/cuda",
        "TORCH_CUDA_ARCH_LIST": "9.0",
        "TORCH_HOME": "/cache",
        "HF_TOKEN": "hf_abcdefghijkl",
    }
    environ = dict(sorted(environ.items()))
    found = hosts.settings({**environ, **noise})
    assert found == environ
    assert list(found) == sorted(found)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_AUTH_TOKEN", "1"),
        ("TORCH_API_KEY", "abc"),
        ("PYTORCH_SECRET", "x"),
        ("HSA_PASSWORD", "x"),
        ("TORCH_EXTRA", "hf_AbCdEfGhIjKlMnOp"),
        ("TORCH_EXTRA", "ghp_0123456789abcdef"),
        ("TORCH_STORE", "https://me:pass@example.org/x"),
        ("NCCL_NET_PLUGIN_ID", "0123456789abcdef0123456789abcdef01234567"),
    ],
)
def test_secrets_are_never_recorded(name, value):
    assert hosts.settings({name: value, "OMP_NUM_THREADS": "2"}) == {"OMP_NUM_THREADS": "2"}


@pytest.mark.parametrize(
    "name",
    [
        *(
            "NCCL_COMM_ID",
            "NCCL_HOSTID",
            "NCCL_RAS_ADDR",
            "UCX_HOST",
            "TORCH_HOSTNAME",
            "NCCL_HOST_ID",
            "TORCH_STORE_URL",
        ),
        *(
            "TRITON_CACHE_ENDPOINT",
            "TORCHINDUCTOR_REDIS_HOST",
            "TORCHINDUCTOR_REMOTE_SERVER",
            "NVSHMEM_BOOTSTRAP_SESSION_ID",
        ),
        *(
            "NCCL_PW",
            "NVTE_PW",
            "TORCH_PWD",
            "UCX_ACCOUNT",
            "HIP_USERNAME",
            "MASTER_ADDR",
            "SLURM_NODELIST",
        ),
    ],
)
def test_x7_addresses_accounts_and_passwords_are_no_settings(name):
    assert hosts.settings({name: "gpu17.acme.corp:1234", "NCCL_IB_HCA": "mlx5_0"}) == {
        "NCCL_IB_HCA": "mlx5_0"
    }


@pytest.mark.parametrize(
    "name",
    ["NCCL_SOCKET_IFNAME", "NCCL_IB_ADDR_FAMILY", "CUDA_VISIBLE_DEVICES", "NCCL_HOST_PINNED_X"],
)
def test_x7_settings_with_other_names_stay(name):
    assert hosts.settings({name: "1"}) == {name: "1"}


def test_versions_are_those_that_are_installed(here):
    found = hosts.versions(
        here(packages={"torch": "2.7.0", "megatron-core": "0.15.3", "rich": "13"})
    )
    assert found == {
        "python": platform.python_version(),
        "torch": "2.7.0",
        "megatron-core": "0.15.3",
    }
    assert hosts.installed_version("no-such-distribution-anywhere") is None
    assert hosts.installed_version("pytest") == pytest.__version__


@pytest.mark.skipif(
    sys.platform != "linux", reason="the processor's name is asked for in Linux's way"
)
def test_name_of_an_arm_processor_comes_from_lscpu(here):
    listed = (
        "Architecture:  aarch64\nVendor ID:     ARM\n  Model name:  Neoverse-V2\nModel name:   "
        " Neoverse-V2\n"
    )
    host = here(
        {"/proc/cpuinfo": "processor\t: 0\nBogoMIPS\t: 2000.00\n"}, commands={"lscpu": listed}
    )
    assert hosts.cpu_name(host) == "Neoverse-V2"


@pytest.mark.parametrize(
    ("answers", "commit"),
    [
        ({"rev-parse": "a" * 40 + "\n", "status": ""}, "a" * 40),
        (
            {"rev-parse": "a" * 40 + "\n", "status": " M tprimat/results/run.py\n"},
            "a" * 40 + "-dirty",
        ),
        ({"rev-parse": None, "status": None}, None),
        ({"rev-parse": "a" * 40 + "\n", "status": None}, None),
    ],
)
def test_commit(tmp_path, answers, commit):
    (tmp_path / ".git").mkdir()
    host = Host(
        command=lambda argv: next(answer for word, answer in answers.items() if word in argv)
    )
    assert hosts.commit(host, tmp_path) == commit


def test_an_installed_copy_has_no_commit(tmp_path):
    assert hosts.commit(Host(command=lambda argv: "b" * 40), tmp_path) is None


def test_a_command_is_bounded(monkeypatch):
    monkeypatch.setattr(hosts, "COMMAND_SECONDS", 0.2)
    assert hosts.run_bounded([sys.executable, "-c", "import time; time.sleep(30)"]) is None
    assert hosts.run_bounded([sys.executable, "-c", "import sys; sys.exit(3)"]) is None
    assert hosts.run_bounded(["no-such-command-anywhere"]) is None


def test_a_command_gives_what_it_prints():
    assert hosts.run_bounded([sys.executable, "-c", "print('well')"]).strip() == "well"


def test_a_library_that_prints_and_fails_is_none(tmp_path, monkeypatch, capsys):
    """As amdsmi does without ROCm's library."""
    folder = tmp_path / hosts.ROCM_LIBRARIES
    folder.mkdir(parents=True)
    (folder / "amdsmi_of_a_test.py").write_text(
        "print('Unable to find libamd_smi.so')\n{}['libamd_smi.so']\n"
    )
    (folder / "amdsmi_that_works.py").write_text("value = 3\n")
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    before = list(sys.path)
    assert hosts.vendor_library("amdsmi_of_a_test") is None
    assert hosts.vendor_library("no_such_library") is None
    assert hosts.vendor_library("amdsmi_that_works").value == 3
    assert capsys.readouterr().out == ""
    assert sys.path == before


@pytest.mark.parametrize(
    ("text", "is_on"), [("0\n", False), ("1\n", True), ("2\n", True), (None, None), ("?", None)]
)
def test_numa_balancing(tmp_path, text, is_on):
    files = {"/proc/sys/kernel/numa_balancing": text} if text else {}
    assert hosts.numa_balancing(fake_host(tmp_path, files=files)) is is_on
