#!/usr/bin/env python3
"""Make a virtual environment with requirement files and dependency groups installed, with venv and
pip only.

    make_venv.py --venv .venv --requirements requirements.txt --groups dev

On a machine with a GPU whose Python already has a PyTorch that drives it (NeMo's and AMD's
containers), the environment is laid over that Python, and none of the versions there is
replaced. Everywhere else constraints.txt decides. TORCH_INDEX_URL names the package index
that PyTorch alone is taken from.

Standard library only. Its first lines run on Python 3.7 too, to refuse it in one sentence.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


class Build(NamedTuple):
    """A build of torch for NVIDIA GPUs.

    Attributes:
        torch: its requirement; empty for the one that constraints.txt pins.
        index: the package index that has it; empty for the default one.
        driver: the least that its CUDA needs: CUDA Toolkit release notes, table of minimum driver
            versions.
        kernels: the compute capabilities that it has kernels for, by the kind of processor; they
            run on later GPUs of their generation too: PyTorch's RELEASE.md, CUDA support matrix.
        compiles: whether it can compile kernels for later generations (PTX).
    """

    torch: str
    index: str
    driver: int
    kernels: dict[str, tuple[float, ...]]
    compiles: bool = False

    def drives(self, capability: float) -> bool:
        """Return whether it has kernels for a GPU."""
        known = self.kernels[
            "aarch64" if platform.machine().lower() in ("aarch64", "arm64") else "x86_64"
        ]
        return any(int(each) == int(capability) and each <= capability for each in known) or (
            self.compiles and capability > max(known)
        )


CUDA_13_DRIVER = 580
# On Windows the package index has a build without CUDA under this name.
CUDA_13_INDEX = "https://download.pytorch.org/whl/cu130"
# The first is the one to have. Only CUDA 12.6 has Volta and older GPUs. Blackwell needs CUDA 12.8,
# and the last release of torch with a build for that is 2.11.
BUILDS = (
    Build("", "", CUDA_13_DRIVER, {
        "x86_64": (7.5, 8.0, 8.6, 9.0, 10.0, 12.0), "aarch64": (8.0, 9.0, 10.0, 11.0, 12.0)
    }, compiles=True),
    Build("", "https://download.pytorch.org/whl/cu126", 525, {
        "x86_64": (5.0, 6.0, 7.0, 7.5, 8.0, 8.6, 9.0), "aarch64": (8.0, 9.0)
    }),
    Build("torch==2.11.0", "https://download.pytorch.org/whl/cu128", 570, {
        "x86_64": (7.5, 8.0, 8.6, 9.0, 10.0, 12.0), "aarch64": (8.0, 9.0, 10.0, 12.0)
    }),
)  # fmt: skip
# What that release takes, where constraints.txt pins a later one.
OLDER_TORCH_TAKES = "setuptools<82"
# Files of a Jetson's driver, of which nvidia-smi knows little or nothing; DRIVER_FILES of
# tprimat/machine/gpu.py has them too.
JETSON_FILES = ("/dev/nvhost-gpu", "/dev/nvgpu")
# Files of the driver itself: a container may have these alone, without nvidia-smi
# (NVIDIA_DRIVER_CAPABILITIES=compute).
DEVICE_FILE = "/dev/nvidiactl"
DRIVER_FILE = "/proc/driver/nvidia/version"
KFD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")
MEASURE = "requirements.txt"
OUTER_VERSIONS = "outer-versions.txt"

# What a GPU container is chosen for: no version of these may change under a person's hands.
KEPT = re.compile(
    r"(torch|torch[-_.].*|torchvision|torchaudio|triton|triton[-_.].*|pytorch[-_.].*|nvidia[-_.].*|lightning|numpy"
    r"|transformers|transformer[-_.]engine.*|flash[-_.]attn|apex|nemo[-_.].*|megatron[-_.].*|primus.*|aiter|rccl.*)",
    re.IGNORECASE,
)


class SetupError(Exception):
    """What stops the set-up, in one sentence with what to do."""


def main(argv: list[str] | None = None) -> int:
    """Make the environment; return 0, or 2 after one sentence about what stops it."""
    parser = argparse.ArgumentParser(
        description="Make a virtual environment with requirement files installed."
    )
    parser.add_argument(
        "--venv", type=Path, default=Path(".venv"), help="its directory (default: .venv)"
    )
    parser.add_argument(
        "--requirements",
        nargs="+",
        default=[MEASURE],
        metavar="FILE",
        help=f"files to install (default: {MEASURE})",
    )
    parser.add_argument(
        "--groups",
        nargs="+",
        default=[],
        metavar="GROUP",
        help="dependency groups of pyproject.toml to install too",
    )
    arguments = parser.parse_args(argv)
    try:
        check_python()
        Environment(arguments.venv.absolute(), arguments.requirements, arguments.groups).make()
    except SetupError as error:
        print("error: %s (docs/troubleshooting.md#setting-up)" % error, file=sys.stderr)
        return 2
    return 0


def check_python() -> None:
    """Raise SetupError when the running Python can't make the environment."""
    if sys.version_info < (3, 10):
        raise SetupError(
            "TensorPrimat needs Python 3.10 or newer and this is %d.%d: name a newer one, as in"
            " make PYTHON=python3.12" % sys.version_info[:2]
        )
    try:
        import ensurepip  # noqa: F401 - Debian ships venv without it, and then venv fails with a page of text
        import venv  # noqa: F401
    except ImportError:
        version = "%d.%d" % sys.version_info[:2]
        raise SetupError(
            f"this Python {version} has no venv module: install it (Debian and Ubuntu: apt install "
            f"python{version}-venv) and run the same command again"
        ) from None


class Environment:
    """One virtual environment on its way.

    Args:
        folder: where it shall be.
        requirements: names of requirement files, relative to the repository.
        groups: names of dependency groups in pyproject.toml.
    """

    def __init__(self, folder: Path, requirements: list[str], groups: Sequence[str] = ()) -> None:
        self.folder = folder
        self.requirements = requirements
        self.groups = groups
        self.python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        self.constraints = ROOT / "constraints.txt"

    def make(self) -> None:
        """Create what is missing and install; a second call installs nothing."""
        wants_torch = MEASURE in self.requirements
        kept = outer_gpu_torch() if wants_torch else None
        self._create(over_outer=kept is not None)
        if kept is not None:
            show(
                f"this machine has a GPU and its Python has torch {kept}: {self.folder.name} is"
                " laid over that Python"
            )
            show("and replaces neither torch nor anything that belongs to it")
            self.constraints = self._outer_versions()
        # Older releases of pip download a package whole to answer a dry run; PyTorch's is
        # gigabytes.
        self._pip("install", "--upgrade", "pip", "-c", str(self.constraints))
        if wants_torch and kept is None:
            self._install_torch()
        self._install("-c", str(self.constraints))
        if kept is not None and self._version("torch") != kept:
            raise SetupError(
                f"torch {kept} was hidden by torch {self._version('torch')}: remove {self.folder},"
                " report it"
            )

    def lay_over(self, packages: list[str]) -> None:
        """Create it over the running Python's environment, which has a few packages in other
        versions.

        Args:
            packages: as pip takes them; what they need beyond themselves is taken from the outer
                environment where that has it.
        """
        self._create(over_outer=True)
        show(
            f"installing {' '.join(packages)} into {self.folder.name}, over {Path(sys.prefix).name}"
        )
        # What of the outer environment another version contradicts is nothing that is used in this
        # one.
        self._pip("install", "--no-warn-conflicts", *packages, "-c", str(self.constraints))

    def _install(self, *options: str) -> None:
        """Install the requirement files and groups, in one call so that pip resolves them
        together.
        """
        files = [part for name in self.requirements for part in ("-r", str(ROOT / name))]
        show(
            f"installing {' and '.join([*self.requirements, *self.groups])} into {self.folder.name}"
        )
        self._pip(
            "install", *files, *(one for name in self.groups for one in group(name)), *options
        )

    def _create(self, over_outer: bool) -> None:
        if self.python.exists() and _starts(self.python):
            return
        show(f"making {self.folder.name} with Python {platform.python_version()}")
        options = ["--clear"] if (self.folder / "pyvenv.cfg").exists() else []
        if over_outer:
            options.append("--system-site-packages")
        if (
            subprocess.run([sys.executable, "-m", "venv", *options, str(self.folder)]).returncode
            != 0
        ):
            raise SetupError(f"{self.folder} could not be made, for the reason above")
        if over_outer and sys.prefix != sys.base_prefix:
            # The outer Python is itself an environment (NeMo's containers), which
            # --system-site-packages looks through to the Python below it.
            self._reach_outer_environment()

    def _reach_outer_environment(self) -> None:
        import sysconfig

        outer = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        inner = _output(
            [str(self.python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        )
        lines = "".join(f"import site; site.addsitedir({folder!r})\n" for folder in sorted(outer))
        Path(inner, "outer-environment.pth").write_text(lines, encoding="utf-8")

    def _outer_versions(self) -> Path:
        """Write the exact versions that must stay, as a constraints file."""
        from importlib import metadata

        pins = set()
        for distribution in metadata.distributions():
            name = distribution.metadata["Name"]
            if name and KEPT.fullmatch(name):
                pins.add(f"{name}=={distribution.version}\n")
        path = self.folder / OUTER_VERSIONS
        path.write_text("".join(sorted(pins)), encoding="utf-8")
        return path

    def _install_torch(self) -> None:
        """Install the one torch of constraints.txt: from TORCH_INDEX_URL, or saying what it will
        cost.
        """
        if sys.platform == "darwin" and platform.machine() == "x86_64":
            raise SetupError(
                "PyTorch has no current build for Macs with an Intel processor: compare results"
                " there with pip install -r requirements-analysis.txt, and measure elsewhere"
            )
        torch, index = pinned("torch"), os.environ.get("TORCH_INDEX_URL", "").strip()
        if not index:
            torch, index = fitting_torch()
        if torch != pinned("torch"):
            pins = self.constraints.read_text(encoding="utf-8").replace(pinned("torch"), torch)
            pins = re.sub(r"^setuptools==.*$", OLDER_TORCH_TAKES, pins, flags=re.MULTILINE)
            self.constraints = self.folder / "constraints.txt"
            self.constraints.write_text(pins, encoding="utf-8")
        installed = self._version("torch")
        if installed and installed.split("+")[0] == torch.split("==")[1]:
            return
        if index:
            show(f"installing {torch} from {index}")
            self._pip("install", torch, "--index-url", index)
            return
        if sys.platform != "linux":
            return
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder, "report.json")
            command = [
                "install",
                "--dry-run",
                "--report",
                str(report),
                torch,
                "-c",
                str(self.constraints),
            ]
            if self._pip(*command, fails=True) == 0:
                for line in announcement(json.loads(report.read_text(encoding="utf-8"))):
                    show(line)

    def _version(self, name: str) -> str:
        code = f"from importlib.metadata import version; print(version({name!r}))"
        return _output([str(self.python), "-c", code])

    def _pip(self, *arguments: str, fails: bool = False) -> int:
        # On a terminal pip shows how far a long download is; in a log its lines are noise.
        quiet = [] if sys.stdout.isatty() and "--dry-run" not in arguments else ["-qq"]
        done = subprocess.run(
            [str(self.python), "-m", "pip", *arguments, *quiet], stdin=subprocess.DEVNULL
        )
        if done.returncode != 0 and not fails:
            raise SetupError(
                f"pip {arguments[0]} ended with status {done.returncode}, for the reason above"
            )
        return done.returncode


def fitting_torch() -> tuple[str, str]:
    """Return the torch that drives the GPUs with their driver, and the index with that build; no
    index for the default.

    Raises SetupError where no build would.
    """
    # A driver may not know compute_cap, or not state it of this GPU; what it does drive is then of
    # its time.
    answer = _smi("driver_version,compute_cap") or _smi("driver_version") or _kernel_driver()
    drivers = [int(each) for each in re.findall(r"^(\d+)\.[\d.]+", answer, re.MULTILINE)]
    instead = f"or for a benchmark of the CPU set TORCH_INDEX_URL={CPU_INDEX}"
    if (
        any(Path(each).exists() for each in JETSON_FILES)
        and min(drivers, default=0) < CUDA_13_DRIVER
    ):
        raise SetupError(
            "PyTorch's builds drive a Jetson from JetPack 7 on: work in NVIDIA's container for"
            f" this JetPack, set TORCH_INDEX_URL to the index with its builds, {instead}"
        )
    if not drivers and has_instinct():
        raise SetupError(
            "PyTorch's default build doesn't drive AMD's GPUs: work in AMD's container, set"
            f" TORCH_INDEX_URL to PyTorch's index for your ROCm version, {instead}"
        )
    if not drivers:
        return pinned("torch"), ""
    driver = drivers[0]
    capabilities = sorted(
        {float(each) for each in re.findall(r", *(\d+\.\d+)$", answer, re.MULTILINE)}
    )
    builds = [build for build in BUILDS if all(map(build.drives, capabilities))]
    if not builds:
        named = " and ".join(map(str, capabilities)) + (
            " together" if len(capabilities) > 1 else ""
        )
        raise SetupError(
            f"no build of PyTorch has kernels for compute capability {named} on"
            f" {platform.machine()}: set TORCH_INDEX_URL to the index of a build for a part of"
            f" these GPUs, and hide the others with CUDA_VISIBLE_DEVICES, {instead}"
        )
    build = next((build for build in builds if driver >= build.driver), None)
    if build is None:
        raise SetupError(
            f"NVIDIA's driver {driver} is too old for PyTorch: update it to {CUDA_13_DRIVER} or"
            f" newer ({min(each.driver for each in builds)} at least), {instead}"
        )
    torch = build.torch or pinned("torch")
    if build is BUILDS[0]:
        return torch, "" if sys.platform == "linux" else CUDA_13_INDEX
    stated = ", ".join(map(str, capabilities)) or "unknown"
    show(
        f"driver {driver}, compute capability {stated}: {torch} with CUDA 12, as CUDA 13 doesn't"
        " support these"
    )
    if build.torch:
        show(f"(later releases of torch need driver {CUDA_13_DRIVER} for this GPU)")
    return torch, build.index


def _smi(fields: str) -> str:
    return _output(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"])


def _kernel_driver() -> str:
    file = Path(DRIVER_FILE)
    stated = (
        re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)", file.read_text(encoding="utf-8"))
        if file.exists()
        else None
    )
    return stated[1] if stated else ""


def announcement(report: dict[str, Any]) -> list[str]:
    """Return what a person should know before a big download starts; nothing if it is small.

    Args:
        report: what `pip install --dry-run --report` says of installing torch.
    """
    packages = report["install"]
    torch = next((one for one in packages if one["metadata"]["name"] == "torch"), None)
    if (
        torch is None
        or "+cpu" in torch["metadata"]["version"]
        or torch["download_info"]["url"].startswith("file:")
    ):
        return []
    if not any(one["metadata"]["name"].startswith("nvidia-") for one in packages):
        return []
    size = download_size([one["download_info"]["url"] for one in packages])
    amount = f"about {size / 1e9:.1f} GB" if size else "two to four GB"
    lines = [
        f"this will download {amount}: on Linux torch comes with CUDA unless it is told otherwise"
    ]
    if has_nvidia_gpu():
        return lines
    lines.append(
        "this machine has no NVIDIA GPU, and the build for a CPU is some 0.2 GB: to take that, stop"
        " this and run"
    )
    lines.append(f"make run TORCH_INDEX_URL={CPU_INDEX}")
    if has_amd_gpu():
        lines.append(
            "it has an AMD GPU, which that build can't drive: work in AMD's container, or set"
            " TORCH_INDEX_URL"
        )
        lines.append("to PyTorch's index for your ROCm version")
    return lines


def download_size(urls: list[str]) -> int | None:
    """Return the size of the packages at these addresses, bytes; None when one is unknown."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        sizes = list(pool.map(_size_of, urls))
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(urls) else None


def _size_of(url: str) -> int | None:
    if url.startswith("file:"):
        return 0
    try:
        request = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(request, timeout=10) as answer:
            length = answer.headers.get("Content-Length")
    except OSError:
        return None
    return int(length) if length else None


def pinned(name: str) -> str:
    """Return the requirement that constraints.txt pins a package to, as `torch==2.13.0`."""
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        requirement = line.split(";")[0].strip()
        if requirement.startswith(name + "=="):
            return requirement
    raise SetupError(f"constraints.txt has no pin for {name}: restore the file from the repository")


def group(name: str) -> list[str]:
    """Return the requirements of a dependency group of pyproject.toml, those of the groups that it
    includes too.

    Pip before 25.1 has no --group and Python 3.10 no tomllib, so this reads the plain lists that
    stand there.
    """
    text = (
        (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[dependency-groups]\n")[2]
    )
    listed = re.search(
        rf"^{re.escape(name)} = \[(.*?)\]$", text.partition("\n[")[0], re.MULTILINE | re.DOTALL
    )
    if listed is None:
        raise SetupError(
            f"pyproject.toml has no dependency group {name}: restore the file from the repository"
        )
    requirements = []
    for included, requirement in re.findall(r'{ include-group = "([^"]+)" }|"([^"]+)"', listed[1]):
        requirements += group(included) if included else [requirement]
    return requirements


def outer_gpu_torch() -> str | None:
    """Return the version of the torch that the running Python has, when it drives a GPU that is
    here; else None.
    """
    if not (has_nvidia_gpu() or has_amd_gpu()):
        return None
    code = (
        "import torch; print(torch.__version__ if torch.version.cuda or torch.version.hip else '')"
    )
    if not _output([sys.executable, "-c", code]):
        return None
    # The version by the metadata, which is what pip compares: a build from source may say less in
    # torch itself.
    return _output(
        [sys.executable, "-c", "from importlib.metadata import version; print(version('torch'))"]
    )


def has_nvidia_gpu() -> bool:
    """Return whether the NVIDIA driver sees a GPU."""
    files = (DEVICE_FILE, *JETSON_FILES)
    return _output(["nvidia-smi", "-L"]).startswith("GPU") or any(
        Path(each).exists() for each in files
    )


def has_amd_gpu() -> bool:
    """Return whether the kernel offers an AMD GPU to compute programs; an integrated one counts
    too.
    """
    return Path("/dev/kfd").exists()


def has_instinct() -> bool:
    """Return whether an AMD GPU is here that is made to compute alone, as tprimat/machine/amd.py
    does.
    """
    texts = (
        [each.read_text(encoding="utf-8") for each in KFD_NODES.glob("*/properties")]
        if has_amd_gpu()
        else []
    )
    versions = [
        int(version) for text in texts for version in re.findall(r"gfx_target_version (\d+)", text)
    ]
    return any(version in (90008, 90010) or 90400 <= version < 100000 for version in versions)


def show(text: str) -> None:
    """Print one line of progress at once, before pip's own lines."""
    print(text, flush=True)


def _starts(python: Path) -> bool:
    return _output([str(python), "-c", "print('yes')"]) == "yes"


def _output(command: list[str]) -> str:
    """Return what a command prints, or "" when it can't be started or fails."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=120,
            encoding="utf-8",
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(main())
