"""What the machine's operating system says: processor, memory, container, versions, settings.

Knows no GPU framework. Everything is asked of a Host, which a test replaces by a folder of its own.
"""

from __future__ import annotations

import dataclasses
import math
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tprimat.units import GB

COMMAND_SECONDS = 10.0
"""Longest wait for a vendor's tool: without its daemon nvidia-smi takes seconds on eight GPUs."""

PACKAGES = (
    "torch",
    "lightning",
    "pytorch-lightning",
    "transformers",
    "accelerate",
    "numpy",
    "nemo_toolkit",
    "nemo_run",
    "megatron-core",
    "megatron-bridge",
    "transformer_engine",
    "deepspeed",
    "torchtitan",
    "torchao",
    "flash-attn",
    "triton",
    "pytorch-triton-rocm",
)
"""Distributions whose version bears on speed, named as they are installed."""

CPU_INSTRUCTIONS = (
    "avx2",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_tile",
    "amx_bf16",
    "asimdhp",
    "sve",
    "i8mm",
    "bf16",
)
"""Instruction sets that bear on training, as Linux names them in /proc/cpuinfo."""

_SETTING = re.compile(
    r"(PYTORCH|TORCH|TORCHINDUCTOR|TORCHDYNAMO|ATEN|NVTE|NCCL|RCCL|UCX|NVSHMEM|CUBLAS|CUBLASLT|CUDNN|TRITON|OMP|GOMP|KMP"
    r"|MKL|OPENBLAS|MALLOC|HSA|HIP|HIPBLASLT|ROCR|ROCBLAS|MIOPEN|AMD|TE|PRIMUS_TURBO|FLASH_ATTENTION)_.+"
    r"|CUDA_(DEVICE_MAX_CONNECTIONS|DEVICE_ORDER|VISIBLE_DEVICES|LAUNCH_BLOCKING|MODULE_LOADING|MPS_.+)"
    r"|GPU_MAX_HW_QUEUES|NVIDIA_TF32_OVERRIDE|LD_PRELOAD"
)
_NO_SETTING = re.compile(r".*_(VERSION|HOME|ROOT|LOGS|CACHE_DIR|ARCH_LIST)")
_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|(?<![A-Z])KEY(?![A-Z])", re.IGNORECASE)
_SECRET_VALUE = re.compile(
    r"\b(hf_|sk-|ghp_|gho_|github_pat_|glpat-|xox[abp]-|nvapi-|AKIA|eyJ)[\w-]{8,}|://[^/\s:@]*:[^/\s@]+@|[0-9a-fA-F]{32,}"
)


def run_bounded(argv: Sequence[str]) -> str | None:
    """What a command prints, or None where it is missing, fails, or takes longer than COMMAND_SECONDS."""
    import subprocess

    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMMAND_SECONDS,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def installed_version(package: str) -> str | None:
    """The version of a distribution, or None where it isn't installed. Nothing is imported."""
    import importlib.metadata

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@dataclasses.dataclass(frozen=True)
class Host:
    """Where facts are asked for.

    Attributes:
        environ: environment variables.
        root: folder that stands for /, below which system files are read.
        command: runs argv; its output, or None.
        package: version of a distribution, or None.
    """

    environ: Mapping[str, str] = dataclasses.field(default_factory=lambda: os.environ)
    root: Path = Path("/")
    command: Callable[[Sequence[str]], str | None] = run_bounded
    package: Callable[[str], str | None] = installed_version

    def path(self, name: str) -> Path:
        """A system file, named from /."""
        return self.root / name.lstrip("/")

    def read(self, name: str) -> str | None:
        """A system file's text, or None where it is missing or closed to us."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def exists(self, name: str) -> bool:
        """Whether a system file is there."""
        return self.path(name).exists()

    def finds(self, tool: str) -> bool:
        """Whether a command is on PATH."""
        return shutil.which(tool, path=self.environ.get("PATH", "")) is not None


def versions(host: Host) -> dict[str, str]:
    """Python and the packages of PACKAGES that are installed, by name."""
    found = {name: version for name in PACKAGES if (version := host.package(name))}
    return {"python": platform.python_version(), **found}


def cpu_name(host: Host) -> str | None:
    """The processor's name, or None where the system states only what kind it is."""
    if found := re.search(r"^model name\s*:\s*(.+)$", host.read("/proc/cpuinfo") or "", re.MULTILINE):
        return found[1].strip()
    if sys.platform == "darwin":
        return (host.command(["sysctl", "-n", "machdep.cpu.brand_string"]) or "").strip() or None
    # Linux names no model for ARM processors; lscpu knows them by their numbers.
    listed = host.command(["lscpu"]) if sys.platform == "linux" else None
    if found := re.search(r"^Model name:\s*(.+)$", listed or "", re.MULTILINE):
        return found[1].strip()
    return host.environ.get("PROCESSOR_IDENTIFIER") or platform.processor() or None


def cpu_threads(host: Host) -> int | None:
    """Threads that this process may run at once: its affinity, cut to its control group's quota."""
    # Only Linux has affinities, hence the name is looked up.
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    allowed = len(affinity(0)) if affinity else os.cpu_count()
    quota = _cpu_quota(host)
    if allowed is None or quota is None:
        return allowed
    return max(1, min(allowed, math.ceil(quota)))


def cpu_instructions(host: Host) -> tuple[str, ...] | None:
    """Those of CPU_INSTRUCTIONS that the processor has, or None where the system doesn't say."""
    if found := re.search(r"^(?:flags|Features)\s*:\s*(.+)$", host.read("/proc/cpuinfo") or "", re.MULTILINE):
        return tuple(name for name in CPU_INSTRUCTIONS if name in found[1].split())
    if sys.platform == "darwin" and platform.machine() == "arm64":
        answers = {"bf16": "hw.optional.arm.FEAT_BF16", "i8mm": "hw.optional.arm.FEAT_I8MM"}
        said = {name: host.command(["sysctl", "-n", key]) for name, key in answers.items()}
        if None in said.values():
            return None
        return tuple(name for name, text in said.items() if (text or "").strip() == "1")
    return None


def busy_share(host: Host, wait: Callable[[], None]) -> float | None:
    """Share of all processors' time that was in use while this process waited; None where the system doesn't say.

    Args:
        host: where to ask.
        wait: returns after a while, half a second or so.
    """
    before = _processor_times(host)
    wait()
    after = _processor_times(host)
    if before is None or after is None or after[1] <= before[1]:
        return None
    return (after[0] - before[0]) / (after[1] - before[1])


def memory_gb(host: Host) -> float | None:
    """The machine's memory, GB of 10⁹ bytes."""
    if found := re.search(r"^MemTotal:\s*(\d+) kB", host.read("/proc/meminfo") or "", re.MULTILINE):
        return int(found[1]) * 1024 / GB
    if sys.platform == "win32":
        return _windows_memory_gb()
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" in names and "SC_PAGE_SIZE" in names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / GB
    return None


def memory_limit_gb(host: Host) -> float | None:
    """What the control group (a container, a Slurm job) may use, GB of 10⁹ bytes; None where unbounded."""
    limits = [
        int(text)
        for folder in _control_groups(host, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
        if (text := (host.read(f"{folder}/{name}") or "").strip()).isdigit()
    ]
    total = memory_gb(host)
    limit = min(limits) / GB if limits else None
    # The first version of control groups says "unbounded" with a number near 2⁶³.
    return limit if limit is not None and (total is None or limit < total) else None


def operating_system(host: Host) -> str:
    """System, release and architecture, with the distribution's name on Linux."""
    text = f"{platform.system()} {platform.release()} {platform.machine()}"
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)"?', host.read("/etc/os-release") or "", re.MULTILINE)
    return f"{text} ({found[1]})" if found else text


def container(host: Host) -> str | None:
    """The kind of container that this runs in, with its image where one is stated; None outside of any."""
    kinds = ["kubernetes"] if "KUBERNETES_SERVICE_HOST" in host.environ else []
    podman = host.read("/run/.containerenv")
    apptainer = host.environ.get("APPTAINER_CONTAINER") or host.environ.get("SINGULARITY_CONTAINER")
    image = None
    if podman is not None:
        kinds.append("podman")
        found = re.search(r'^image="?([^"\n]+)', podman, re.MULTILINE)
        image = found[1] if found else None
    elif apptainer:
        kinds.append("apptainer")
        image = re.split(r"[/\\]", apptainer)[-1]
    elif host.exists("/.dockerenv"):
        kinds.append("docker")
    elif named := host.environ.get("container"):
        kinds.append(named)
    elif found := re.search(r"docker|containerd|libpod|lxc|kubepods", host.read("/proc/1/cgroup") or ""):
        kinds.append({"libpod": "podman", "kubepods": "kubernetes"}.get(found[0], found[0]))
    product = host.environ.get("NVIDIA_PRODUCT_NAME", "PyTorch")
    stated = [
        image,
        f"NVIDIA {product} {version}" if (version := host.environ.get("NVIDIA_PYTORCH_VERSION")) else None,
        f"NeMo {version}" if (version := host.environ.get("NEMO_VERSION")) else None,
    ]
    text = ", ".join(dict.fromkeys(kinds)) or ("container" if any(stated) else "")
    details = ", ".join(each for each in stated if each)
    return f"{text} ({details})" if details else text or None


def commit(host: Host, repository: Path) -> str | None:
    """The git commit of a clone, ending in -dirty with local changes; None where it is no clone, or git is missing."""
    if not (repository / ".git").exists():
        return None
    # A clone that is mounted into a container belongs to another user, which git would refuse.
    git = ["git", "-c", f"safe.directory={repository}", "--no-optional-locks", "-C", str(repository)]
    head = host.command([*git, "rev-parse", "HEAD"])
    changes = host.command([*git, "status", "--porcelain", "--untracked-files=no"])
    if not head or changes is None:
        return None
    return head.strip() + ("-dirty" if changes.strip() else "")


def driver_version(host: Host, vendor: str | None) -> str | None:
    """The GPU driver's version with its maker, such as "NVIDIA 550.54.15"; None where nothing states it.

    Args:
        host: where to ask.
        vendor: nvd, amd, or anything else for no driver.
    """
    if vendor == "nvd":
        text = host.read("/proc/driver/nvidia/version") or ""
        found = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)", text)
        if not found:
            listed = host.command(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]) or ""
            found = re.match(r"\s*(\d+\.[\d.]+)", listed)
        return f"NVIDIA {found[1]}" if found else None
    if vendor == "amd":
        version = (host.read("/sys/module/amdgpu/version") or "").strip()
        return f"amdgpu {version}" if version else None
    return None


def settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that change speed, sorted. What may be a secret is left out."""
    return {
        name: value
        for name, value in sorted(environ.items())
        if _SETTING.fullmatch(name)
        and not _NO_SETTING.fullmatch(name)
        and not _SECRET_NAME.search(name)
        and not _SECRET_VALUE.search(value)
    }


def _processor_times(host: Host) -> tuple[int, int] | None:
    """Time of all processors together since the start, in use and in all, in the kernel's ticks."""
    words = (host.read("/proc/stat") or "").partition("\n")[0].split()
    # user nice system idle iowait irq softirq steal; the guests' time is already within the user's.
    if len(words) < 9 or words[0] != "cpu" or not all(word.isdigit() for word in words[1:9]):
        return None
    times = [int(word) for word in words[1:9]]
    return sum(times) - times[3] - times[4], sum(times)


def _control_groups(host: Host, controller: str) -> Iterator[str]:
    """Folders of this process's control group and all above it, for both versions of the interface."""
    for line in (host.read("/proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        mounts = (
            [f"/sys/fs/cgroup/{controllers}", f"/sys/fs/cgroup/{controller}"] if controllers else ["/sys/fs/cgroup"]
        )
        parts = [part for part in path.split("/") if part]
        for mount in dict.fromkeys(mounts):
            for depth in range(len(parts), -1, -1):
                yield "/".join([mount, *parts[:depth]])


def _cpu_quota(host: Host) -> float | None:
    """Processors' worth of time that the control group grants, the least of all levels."""
    quotas = []
    for folder in _control_groups(host, "cpu"):
        words = (host.read(f"{folder}/cpu.max") or "").split()
        if not words:
            quota, period = (host.read(f"{folder}/cpu.cfs_{name}_us") for name in ("quota", "period"))
            words = [(quota or "").strip(), (period or "").strip()]
        if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]) > 0:
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def _windows_memory_gb() -> float | None:
    if sys.platform != "win32":
        return None
    import ctypes

    class Status(ctypes.Structure):
        """MEMORYSTATUSEX of the Windows API."""

        _fields_ = [
            ("length", ctypes.c_ulong),
            ("load", ctypes.c_ulong),
            *((name, ctypes.c_ulonglong) for name in ("total", "free", "c", "d", "e", "f", "g")),
        ]

    status = Status()
    status.length = ctypes.sizeof(status)
    return status.total / GB if ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)) else None
