#!/usr/bin/env python3
"""Make a virtual environment with requirement files and dependency groups installed, with venv and pip only.

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
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
CUDA_12_INDEX = "https://download.pytorch.org/whl/cu126"
# torch's default build has CUDA 13, which needs driver 580 and drops Volta; its build with CUDA 12.6 needs driver 525.
# CUDA Toolkit release notes, table of minimum driver versions.
CUDA_13_DRIVER, CUDA_12_DRIVER = 580, 525
CUDA_13_CAPABILITY = 7.5
# Blackwell needs CUDA 12.8, and its first driver is 570. The last release of torch with a build for CUDA 12.8 is 2.11:
# PyTorch's RELEASE.md, CUDA support matrix.
BLACKWELL_CAPABILITY, BLACKWELL_DRIVER = 10.0, 570
BLACKWELL_INDEX, BLACKWELL_TORCH = "https://download.pytorch.org/whl/cu128", "torch==2.11.0"
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
    parser = argparse.ArgumentParser(description="Make a virtual environment with requirement files installed.")
    parser.add_argument("--venv", type=Path, default=Path(".venv"), help="its directory (default: .venv)")
    parser.add_argument(
        "--requirements", nargs="+", default=[MEASURE], metavar="FILE", help=f"files to install (default: {MEASURE})"
    )
    parser.add_argument(
        "--groups", nargs="+", default=[], metavar="GROUP", help="dependency groups of pyproject.toml to install too"
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
            "TensorPrimat needs Python 3.10 or newer and this is %d.%d: name a newer one, as in make PYTHON=python3.12"
            % sys.version_info[:2]
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
            show(f"this machine has a GPU and its Python has torch {kept}: {self.folder.name} is laid over that Python")
            show("and replaces neither torch nor anything that belongs to it")
            self.constraints = self._outer_versions()
        # Older releases of pip download a package whole to answer a dry run; PyTorch's is gigabytes.
        self._pip("install", "--upgrade", "pip", "-c", str(self.constraints))
        if wants_torch and kept is None:
            self._install_torch()
        self._install("-c", str(self.constraints))
        if kept is not None and self._version("torch") != kept:
            raise SetupError(
                f"torch {kept} was hidden by torch {self._version('torch')}: remove {self.folder}, report it"
            )

    def lay_over(self, packages: list[str]) -> None:
        """Create it over the running Python's environment, which has a few packages in other versions.

        Args:
            packages: as pip takes them; what they need beyond themselves is taken from the outer environment
                where that has it.
        """
        self._create(over_outer=True)
        show(f"installing {' '.join(packages)} into {self.folder.name}, over {Path(sys.prefix).name}")
        # What of the outer environment another version contradicts is nothing that is used in this one.
        self._pip("install", "--no-warn-conflicts", *packages, "-c", str(self.constraints))

    def _install(self, *options: str) -> None:
        """Install the requirement files and groups, in one call so that pip resolves them together."""
        files = [part for name in self.requirements for part in ("-r", str(ROOT / name))]
        show(f"installing {' and '.join([*self.requirements, *self.groups])} into {self.folder.name}")
        self._pip("install", *files, *(one for name in self.groups for one in group(name)), *options)

    def _create(self, over_outer: bool) -> None:
        if self.python.exists() and _starts(self.python):
            return
        show(f"making {self.folder.name} with Python {platform.python_version()}")
        options = ["--clear"] if (self.folder / "pyvenv.cfg").exists() else []
        if over_outer:
            options.append("--system-site-packages")
        if subprocess.run([sys.executable, "-m", "venv", *options, str(self.folder)]).returncode != 0:
            raise SetupError(f"{self.folder} could not be made, for the reason above")
        if over_outer and sys.prefix != sys.base_prefix:
            # The outer Python is itself an environment (NeMo's containers), which
            # --system-site-packages looks through to the Python below it.
            self._reach_outer_environment()

    def _reach_outer_environment(self) -> None:
        import sysconfig

        outer = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        inner = _output([str(self.python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
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
        """Install the one torch of constraints.txt: from TORCH_INDEX_URL, or saying what it will cost."""
        if sys.platform == "darwin" and platform.machine() == "x86_64":
            raise SetupError(
                "PyTorch has no current build for Macs with an Intel processor: "
                "compare results there with pip install -r requirements-analysis.txt, and measure elsewhere"
            )
        torch, index = pinned("torch"), os.environ.get("TORCH_INDEX_URL", "").strip()
        if not index:
            torch, index = fitting_torch()
        if torch != pinned("torch"):
            pins = self.constraints.read_text(encoding="utf-8").replace(pinned("torch"), torch)
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
            command = ["install", "--dry-run", "--report", str(report), torch, "-c", str(self.constraints)]
            if self._pip(*command, fails=True) == 0:
                for line in announcement(json.loads(report.read_text(encoding="utf-8"))):
                    show(line)

    def _version(self, name: str) -> str:
        code = f"from importlib.metadata import version; print(version({name!r}))"
        return _output([str(self.python), "-c", code])

    def _pip(self, *arguments: str, fails: bool = False) -> int:
        # On a terminal pip shows how far a long download is; in a log its lines are noise.
        quiet = [] if sys.stdout.isatty() and "--dry-run" not in arguments else ["-qq"]
        done = subprocess.run([str(self.python), "-m", "pip", *arguments, *quiet], stdin=subprocess.DEVNULL)
        if done.returncode != 0 and not fails:
            raise SetupError(f"pip {arguments[0]} ended with status {done.returncode}, for the reason above")
        return done.returncode


def fitting_torch() -> tuple[str, str]:
    """Return the torch that drives the GPU with its driver, and the index with that build; no index for the default.

    Raises SetupError for a driver that is too old for every build.
    """
    answer = _output(["nvidia-smi", "--query-gpu=driver_version,compute_cap", "--format=csv,noheader"])
    rows = re.findall(r"^(\d+)\.[\d.]+, *(\d+\.\d+)$", answer, re.MULTILINE)
    if not rows:
        return pinned("torch"), ""
    driver, capability = int(rows[0][0]), min(float(row[1]) for row in rows)
    is_blackwell = capability >= BLACKWELL_CAPABILITY
    least = BLACKWELL_DRIVER if is_blackwell else CUDA_12_DRIVER
    if driver < least:
        raise SetupError(
            f"NVIDIA's driver {driver} is too old for PyTorch: update it to {CUDA_13_DRIVER} or newer "
            f"({least} at least), or for a benchmark of the CPU set TORCH_INDEX_URL={CPU_INDEX}"
        )
    if driver >= CUDA_13_DRIVER and capability >= CUDA_13_CAPABILITY:
        return pinned("torch"), ""
    torch, index = (BLACKWELL_TORCH, BLACKWELL_INDEX) if is_blackwell else (pinned("torch"), CUDA_12_INDEX)
    show(f"driver {driver}, compute capability {capability}: {torch} with CUDA 12, as CUDA 13 doesn't support these")
    if is_blackwell:
        show(f"(later releases of torch need driver {CUDA_13_DRIVER} for this GPU)")
    return torch, index


def announcement(report: dict[str, Any]) -> list[str]:
    """Return what a person should know before a big download starts; nothing where it is small.

    Args:
        report: what `pip install --dry-run --report` says of installing torch.
    """
    packages = report["install"]
    torch = next((one for one in packages if one["metadata"]["name"] == "torch"), None)
    if torch is None or "+cpu" in torch["metadata"]["version"] or torch["download_info"]["url"].startswith("file:"):
        return []
    if not any(one["metadata"]["name"].startswith("nvidia-") for one in packages):
        return []
    size = download_size([one["download_info"]["url"] for one in packages])
    amount = f"about {size / 1e9:.1f} GB" if size else "two to four GB"
    lines = [f"this will download {amount}: on Linux torch comes with CUDA unless it is told otherwise"]
    if has_nvidia_gpu():
        return lines
    lines.append(
        "this machine has no NVIDIA GPU, and the build for a CPU is some 0.2 GB: to take that, stop this and run"
    )
    lines.append(f"make run TORCH_INDEX_URL={CPU_INDEX}")
    if has_amd_gpu():
        lines.append("it has an AMD GPU, which that build can't drive: work in AMD's container, or set TORCH_INDEX_URL")
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
    """Return the requirements of a dependency group of pyproject.toml, those of the groups that it includes too.

    Pip before 25.1 has no --group and Python 3.10 no tomllib, so this reads the plain lists that stand there.
    """
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[dependency-groups]\n")[2]
    listed = re.search(rf"^{re.escape(name)} = \[(.*?)\]$", text.partition("\n[")[0], re.MULTILINE | re.DOTALL)
    if listed is None:
        raise SetupError(f"pyproject.toml has no dependency group {name}: restore the file from the repository")
    requirements = []
    for included, requirement in re.findall(r'{ include-group = "([^"]+)" }|"([^"]+)"', listed[1]):
        requirements += group(included) if included else [requirement]
    return requirements


def outer_gpu_torch() -> str | None:
    """Return the version of the torch that the running Python has, when it drives a GPU that is here; else None."""
    if not (has_nvidia_gpu() or has_amd_gpu()):
        return None
    code = "import torch; print(torch.__version__ if torch.version.cuda or torch.version.hip else '')"
    if not _output([sys.executable, "-c", code]):
        return None
    # The version by the metadata, which is what pip compares: a build from source may say less in torch itself.
    return _output([sys.executable, "-c", "from importlib.metadata import version; print(version('torch'))"])


def has_nvidia_gpu() -> bool:
    """Return whether the NVIDIA driver sees a GPU."""
    return _output(["nvidia-smi", "-L"]).startswith("GPU")


def has_amd_gpu() -> bool:
    """Return whether the kernel offers an AMD GPU to compute programs; an integrated one counts too."""
    return Path("/dev/kfd").exists()


def show(text: str) -> None:
    """Print one line of progress at once, before pip's own lines."""
    print(text, flush=True)


def _starts(python: Path) -> bool:
    return _output([str(python), "-c", "print('yes')"]) == "yes"


def _output(command: list[str]) -> str:
    """Return what a command prints, or "" when it can't be started or fails."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=120
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


if __name__ == "__main__":
    sys.exit(main())
