"""This machine as its operating system describes it to a Host: CPU, memory, container, versions,
settings; no GPU.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.util
import io
import math
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import psutil

from tprimat.redaction import is_secret
from tprimat.results.fields import FieldValues
from tprimat.text import for_encoding
from tprimat.units import GB

Environ = Mapping[str, str]
"""Variables of an environment, by name."""

COMMAND_SECONDS = 10.0
"""Longest wait for a vendor's tool: without its daemon nvidia-smi takes seconds on eight GPUs."""

ROCM_LIBRARIES = "share/amd_smi"
"""Where ROCm keeps its Python package amdsmi, below its own directory."""

PACKAGES = (
    "torch", "lightning", "pytorch-lightning", "transformers", "accelerate", "numpy", "nemo_toolkit", "nemo_run",
    "megatron-core", "megatron-bridge", "nemo_automodel", "transformer_engine", "deepspeed", "torchtitan", "torchao",
    "flash-attn", "triton", "pytorch-triton-rocm",
)  # fmt: skip
"""Distributions whose version affects speed, named as they are installed."""

CPU_INSTRUCTIONS = (
    "avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "asimdhp", "sve", "i8mm",
    "bf16",
)  # fmt: skip
"""Instruction sets that affect training, as Linux names them in /proc/cpuinfo."""

EMULATED = "TPRIMAT_EMULATED"
"""Set to 1 by a program that simulates a device. Times are invalid then, and no comparison shows
them.
"""

_SETTING = re.compile(
    r"(PYTORCH|TORCH|TORCHINDUCTOR|TORCHDYNAMO|ATEN|NVTE|NCCL|RCCL|UCX|NVSHMEM|CUBLAS|CUBLASLT|CUDNN|TRITON|OMP|GOMP|KMP"
    r"|MKL|OPENBLAS|MALLOC|HSA|HIP|HIPBLASLT|ROCR|ROCBLAS|MIOPEN|AITER|AMD|TE|PRIMUS_TURBO|PRIMUS_HIPBLASLT|FLASH_ATTENTION)_.+"
    r"|CUDA_(DEVICE_MAX_CONNECTIONS|DEVICE_ORDER|VISIBLE_DEVICES|LAUNCH_BLOCKING|MODULE_LOADING|MPS_.+)"
    r"|GPU_MAX_HW_QUEUES|NVIDIA_TF32_OVERRIDE|LD_PRELOAD"
)
_NO_SETTING = re.compile(
    r".*_(VERSION|HOME|ROOT|LOGS|LOG_LEVEL|CACHE_DIR|ARCH_LIST)"
    # Of a machine, an account or a service: NCCL_COMM_ID and NCCL_RAS_ADDR are addresses,
    # NCCL_HOSTID is a name.
    r"|.*_(COMM_ID|HOST_?(ID|NAME)?|HOSTS|ADDR(ESS)?|URL|URI|ENDPOINT|SERVER|USER(NAME)?|ACCOUNT|EMAIL|NODELIST|SESSION_ID)"
)


def is_emulated() -> bool:
    """Return whether this process trains on an emulated device, as in tests without a GPU."""
    return os.environ.get(EMULATED) == "1"


def run_bounded(argv: Sequence[str]) -> str | None:
    """Return the output of a command, or None if it is missing, fails, or takes longer than
    COMMAND_SECONDS.
    """
    try:
        quiet: FieldValues = {
            "stdin": subprocess.DEVNULL,
            "capture_output": True,
            "timeout": COMMAND_SECONDS,
        }
        done = subprocess.run(list(argv), **quiet, encoding="utf-8", errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def installed_version(package: str) -> str | None:
    """Return the version of a distribution, or None if it isn't installed. Imports nothing."""
    # Imported here: each --help would pay for it.
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def package_folders(name: str) -> list[Path]:
    """Return the directories of a package; none if it isn't installed. Imports nothing."""
    spec = importlib.util.find_spec(name)
    return list(map(Path, (spec and spec.submodule_search_locations) or ()))


def vendor_library(name: str) -> Any | None:
    """Import pynvml or amdsmi; None if it isn't installed or can't load the vendor's library."""
    # amdsmi looks for its library in the current directory too, which may be that of somebody's
    # logs.
    if os.path.lexists("libamd_smi.so"):
        return None
    rocm = str(Path(os.environ.get("ROCM_PATH", "/opt/rocm"), ROCM_LIBRARIES))
    sys.path.append(rocm)
    try:
        # amdsmi prints what it can't find, and ends in a KeyError then.
        with contextlib.redirect_stdout(io.StringIO()):
            return importlib.import_module(name)
    except (ImportError, OSError, KeyError, AttributeError):
        return None
    finally:
        sys.path.remove(rocm)


@dataclasses.dataclass(frozen=True)
class Host:
    """Where facts are read: environment, files below a root, commands, packages, vendors'
    libraries; or a test's.
    """

    environ: Environ = dataclasses.field(default_factory=lambda: os.environ)
    root: Path = Path("/")
    command: Callable[[Sequence[str]], str | None] = run_bounded
    package: Callable[[str], str | None] = installed_version
    library: Callable[[str], Any | None] = vendor_library

    def path(self, name: str) -> Path:
        """Return the path of a system file, named from /."""
        return self.root / name.lstrip("/")

    def read(self, name: str) -> str | None:
        """Return a system file's text, or None if it is missing or not readable."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None


def versions(host: Host) -> dict[str, str]:
    """Return the versions of Python and of the installed PACKAGES, by name."""
    installed = {name: version for name in PACKAGES if (version := host.package(name))}
    return {"python": platform.python_version(), **installed}


def cpu_name(host: Host) -> str | None:
    """Return the CPU's name, or None if the system states only its architecture."""
    if name := _stated(r"^model name\s*:\s*(.+)$", host.read("/proc/cpuinfo")):
        return name
    if sys.platform == "darwin":
        return (host.command(["sysctl", "-n", "machdep.cpu.brand_string"]) or "").strip() or None
    # Linux names no model for ARM processors; lscpu knows them by their numbers.
    name = _stated(
        r"^Model name:\s*(.+)$", host.command(["lscpu"]) if sys.platform == "linux" else None
    )
    return name or host.environ.get("PROCESSOR_IDENTIFIER") or platform.processor() or None


def cpu_threads(host: Host) -> int | None:
    """Return how many threads this process may run at once: its affinity, cut to its control
    group's quota.
    """
    # Only Linux has affinities, hence the name is looked up.
    affinity = getattr(os, "sched_getaffinity", None)
    allowed = len(affinity(0)) if affinity else os.cpu_count()
    levels = control_groups(host, "cpu", "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")
    # Unbounded is "max", or -1.
    pairs = []
    for words in levels:
        if len(words) == 2 and all(map(str.isdigit, words)):
            pairs.append(tuple(map(int, words)))
    quotas = [math.ceil(quota / period) for quota, period in pairs if period > 0]
    if allowed is None:
        return None
    return max(1, min([allowed, *quotas]))


def cpu_instructions(host: Host) -> tuple[str, ...] | None:
    """Return those of CPU_INSTRUCTIONS that the CPU has, or None if the system doesn't state
    them.
    """
    if flags := _stated(r"^(?:flags|Features)\s*:\s*(.+)$", host.read("/proc/cpuinfo")):
        return tuple(name for name in CPU_INSTRUCTIONS if name in flags.split())
    if sys.platform == "darwin" and platform.machine() == "arm64":
        keys = {"bf16": "hw.optional.arm.FEAT_BF16", "i8mm": "hw.optional.arm.FEAT_I8MM"}
        answers = {name: host.command(["sysctl", "-n", key]) for name, key in keys.items()}
        if None in answers.values():
            return None
        return tuple(name for name, text in answers.items() if (text or "").strip() == "1")
    return None


def memory_gb() -> float:
    """Return the machine's memory, GB of 10⁹ bytes."""
    return int(psutil.virtual_memory().total) / GB


def available_bytes() -> int:
    """Return the memory of the machine that programs could get now, including the page cache,
    bytes.
    """
    return int(psutil.virtual_memory().available)


def memory_limit_gb(host: Host) -> float | None:
    """Return the memory that the control group (a container, a Slurm job) may use, GB of 10⁹ bytes;
    None if unbounded.
    """
    levels = control_groups(host, "memory", "memory.max", "memory.limit_in_bytes")
    limit = min((int(word) for words in levels for word in words if word.isdigit()), default=None)
    # The first version of control groups states "unbounded" as a number near 2⁶³.
    if limit is not None and limit / GB < memory_gb():
        return limit / GB
    return None


def free_space(folder: Path) -> tuple[float | None, Path]:
    """Return the free space of a directory, GB (None if unknown), and the existing directory that
    it is in.
    """
    folders = (folder, *folder.absolute().parents)
    where = next(existing for existing in folders if existing.is_dir() or not existing.name)
    try:
        return shutil.disk_usage(where).free / GB, where
    except OSError:
        return None, where


def operating_system(host: Host) -> str:
    """Return system, release and architecture, with the distribution's name on Linux."""
    text = f"{platform.system()} {platform.release()} {platform.machine()}"
    name = _stated(r'^PRETTY_NAME="?([^"\n]+)"?', host.read("/etc/os-release"))
    if name:
        return f"{text} ({name})"
    return text


def container(host: Host) -> str | None:
    """Return the kind of container that this runs in, with its image if one is stated; None outside
    of any.
    """
    podman = host.read("/run/.containerenv")
    apptainer = (
        host.environ.get("APPTAINER_CONTAINER") or host.environ.get("SINGULARITY_CONTAINER") or ""
    )
    group = re.search(r"docker|containerd|libpod|lxc|kubepods", host.read("/proc/1/cgroup") or "")
    kinds = []
    if "KUBERNETES_SERVICE_HOST" in host.environ:
        kinds.append("kubernetes")
    details = []
    if podman is not None:
        kinds.append("podman")
        details.append(_stated(r'^image="?([^"\n]+)', podman))
    elif apptainer:
        kinds.append("apptainer")
        details.append(re.split(r"[/\\]", apptainer)[-1])
    elif host.path("/.dockerenv").exists():
        kinds.append("docker")
    elif host.environ.get("container"):
        kinds.append(host.environ["container"])
    elif group:
        kinds.append({"libpod": "podman", "kubepods": "kubernetes"}.get(group[0], group[0]))
    product = host.environ.get("NVIDIA_PRODUCT_NAME", "PyTorch")
    stated = {
        f"NVIDIA {product}": host.environ.get("NVIDIA_PYTORCH_VERSION"),
        "NeMo": host.environ.get("NEMO_VERSION"),
    }
    details += [f"{name} {version}" for name, version in stated.items() if version]
    text = ", ".join(dict.fromkeys(kinds))
    detail = ", ".join(filter(None, details))
    if detail:
        return f"{text or 'container'} ({detail})"
    return text or None


def commit(host: Host, repository: Path) -> str | None:
    """Return a clone's git commit, ending in -dirty with local changes; None if it is no clone or
    git is missing.
    """
    if not (repository / ".git").exists():
        return None
    # A clone that is mounted into a container belongs to another user, which git would refuse.
    git = [
        "git",
        "-c",
        f"safe.directory={repository}",
        "--no-optional-locks",
        "-C",
        str(repository),
    ]
    head = host.command([*git, "rev-parse", "HEAD"])
    changes = host.command([*git, "status", "--porcelain", "--untracked-files=no"])
    if not head or changes is None:
        return None
    if changes.strip():
        return f"{head.strip()}-dirty"
    return head.strip()


def numa_balancing(host: Host) -> bool | None:
    """Return whether Linux moves memory between NUMA nodes on its own; None if unknown."""
    text = (host.read("/proc/sys/kernel/numa_balancing") or "").strip()
    if text.isdigit():
        return text != "0"
    return None


def settings(environ: Environ) -> dict[str, str]:
    """Return the environment variables that change speed, sorted, without what may be a secret."""
    shown = {}
    for name, value in sorted(environ.items()):
        hidden = _NO_SETTING.fullmatch(name)
        if _SETTING.fullmatch(name) and not hidden and not is_secret(name, value):
            shown[name] = for_encoding(value, "utf-8")
    return shown


def _stated(pattern: str, text: str | None) -> str | None:
    """Return the value in a line of a system's file or tool."""
    match = re.search(pattern, text or "", re.MULTILINE)
    if match:
        return match[1].strip()
    return None


def control_groups(host: Host, controller: str, *files: str) -> Iterator[list[str]]:
    """Yield the words in files of this process's control group, and of each above it.

    The files are those of both versions of the interface, of which one is there.
    """
    for controllers, path in re.findall(
        r"^\d+:([^:]*):(.*)$", host.read("/proc/self/cgroup") or "", re.MULTILINE
    ):
        if controllers and controller not in controllers.split(","):
            continue
        group = PurePosixPath("/", path)
        for mount in (f"/{controllers}", f"/{controller}") if controllers else ("",):
            for level in (group, *group.parents):
                texts = (host.read(f"/sys/fs/cgroup{mount}{level}/{name}") or "" for name in files)
                yield " ".join(texts).split()
