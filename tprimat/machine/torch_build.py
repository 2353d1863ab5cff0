"""Facts from torch about itself and its GPUs."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tprimat.catalog import gpus
from tprimat.errors import INSTALL
from tprimat.machine.gpu import Device
from tprimat.machine.host import Host, available_bytes, is_emulated, package_folders
from tprimat.notes import Note
from tprimat.results.run import GpuInfo, Platform, SoftwareStack
from tprimat.units import GB, round_figure

_STATEMENT = re.compile(r"^(\w+)(?:: [\w\[\]]+)? = (?:'([^'\n]*)'|None)$", re.MULTILINE)
"""In torch/version.py: `__version__ = '2.9.0+cpu'` and `cuda: Optional[str] = None`."""

NOT_INSTALLED = Note("torch-not-installed", {"install": f" ({INSTALL})"})


def import_torch() -> tuple[Any, Note | None]:
    """Return torch; or None, and why it can't be imported."""
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            return None, Note("torch-incomplete", {"package": error.name})
        return None, NOT_INSTALLED
    except (ImportError, OSError) as error:
        return None, Note("torch-not-loaded", {"why": first_line(error)})
    return torch, None


def described_or_imported() -> tuple[Any, Note | None]:
    """Return torch as import_torch() does; but one that is built for no GPU as its own file
    describes it: its version, and that it has neither CUDA nor ROCm.

    Importing torch takes seconds, and such a one is asked nothing further.
    """
    if "torch" not in sys.modules and not is_emulated():
        for folder in package_folders("torch"):
            stated = _stated(folder / "version.py")
            if {"__version__", "cuda", "hip"} <= stated.keys():
                build = SimpleNamespace(
                    __version__=stated["__version__"], version=SimpleNamespace(**stated)
                )
                if stack_of(build) == "cpu":
                    return build, None
    return import_torch()


def _stated(path: Path) -> dict[str, str | None]:
    """Return the texts that torch's file of its versions states, by name; None for None."""
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return {}
    return {name: text or None for name, text in _STATEMENT.findall(content)}


def stack_of(torch: Any) -> SoftwareStack:
    """Return cuda, rocm or cpu: what this torch was built for."""
    # A ROCm build has torch.cuda as well; only torch.version distinguishes the two.
    if getattr(torch.version, "hip", None):
        return "rocm"
    if getattr(torch.version, "cuda", None):
        return "cuda"
    return "cpu"


def platform_of_gpus(torch: Any) -> Platform:
    """Return the platform of the GPUs that this torch sees, in a build for none too: one may be
    emulated.
    """
    if torch.version.hip:
        return "amd"
    return "nvd"


def device_of(
    torch: Any, stack: SoftwareStack, index: int, properties: Any, peak_clock_mhz: float | None
) -> Device:
    """Return a GPU from what torch.cuda.get_device_properties() states, and its peak clock if torch
    states none.
    """
    units = getattr(properties, "multi_processor_count", None)
    clock = getattr(properties, "clock_rate", None)
    architecture = f"sm_{properties.major}{properties.minor}"
    if stack == "rocm":
        architecture = getattr(properties, "gcnArchName", "").split(":")[0]
    info = GpuInfo(
        device_name=properties.name or None,
        device_count=1,
        total_memory_gb=round_figure(properties.total_memory / GB),
        gpu_cores=gpus.cores(architecture, units),
        software_stack=stack,
        software_version=_software_version(torch, stack),
        pytorch_version=str(torch.__version__),
        compute_units=units,
        architecture=architecture or None,
        # torch states kHz, and 0 if the driver states nothing.
        clock_mhz=clock / 1e3 if clock else peak_clock_mhz,
    )
    uuid = str(getattr(properties, "uuid", "") or "").removeprefix("GPU-").lower()
    is_integrated = stack == "cuda" and bool(getattr(properties, "is_integrated", False))
    identity = _pci_address(properties) if stack == "rocm" else uuid
    return Device(index, info, gpus.match(info).partition, identity, is_integrated=is_integrated)


def memory_info(cuda: Any, device: Any) -> tuple[int, int]:
    """Return free and total memory of a device, bytes, by torch.cuda; the page cache counts as
    free.
    """
    free, total = cuda.mem_get_info(device)
    if getattr(cuda.get_device_properties(device), "is_integrated", False):
        free = max(free, min(total, available_bytes()))
    return free, total


def without_kernels(torch: Any, properties: Sequence[Any]) -> Note | None:
    """Return which GPU a CUDA build of torch has no kernels for, and what to do; None if it has
    them, or is silent.

    Binaries (sm_…) run on later GPUs of their generation too, PTX (compute_…) on all later ones.
    """
    names = torch.cuda.get_arch_list()
    built = [re.fullmatch(r"(sm|compute)_(\d+)(\d)[a-z]?", name) for name in names]
    versions = [(match[1], (int(match[2]), int(match[3]))) for match in built if match]
    for gpu in properties if versions and all(built) else ():
        own = gpu.major, gpu.minor
        if not any(
            version <= own and (kind == "compute" or version[0] == own[0])
            for kind, version in versions
        ):
            return Note(
                "torch-without-kernels",
                {
                    "torch": str(torch.__version__),
                    "gpu": gpu.name,
                    "architecture": f"sm_{own[0]}{own[1]}",
                    "built": ", ".join(names),
                },
            )
    return None


def versions(torch: Any, stack: str, host: Host) -> dict[str, str]:
    """Return the versions of torch's libraries: cuDNN and NCCL, or MIOpen and RCCL, which have the
    same names there.

    ROCm's hipBLASLt and AOTriton have theirs in the names of their files:
    libhipblaslt.so.1.0.60402.
    """
    libraries = {"torch": str(torch.__version__)}
    if stack == "rocm":
        libraries["hip"] = str(torch.version.hip)
        folders = (
            host.path(host.environ.get("ROCM_PATH", "/opt/rocm")),
            *map(Path, getattr(torch, "__path__", ())),
        )
        for name in ("hipblaslt", "aotriton"):
            files = []
            for folder in folders:
                for file in folder.glob(f"lib/lib{name}*.so.*"):
                    files.append(file.name)
            if files:
                libraries[name] = max(files, key=len).partition(".so.")[2]
    # Builds lack one or the other, and raise different errors.
    with contextlib.suppress(AttributeError, ImportError, RuntimeError):
        if number := torch.backends.cudnn.version():
            libraries["miopen" if stack == "rocm" else "cudnn"] = _dnn_version(int(number), stack)
    with contextlib.suppress(AttributeError, ImportError, RuntimeError):
        numbers = torch.cuda.nccl.version()
        if isinstance(numbers, tuple):
            text = ".".join(map(str, numbers))
        else:
            text = str(numbers)
        libraries["rccl" if stack == "rocm" else "nccl"] = text
    return libraries


def _dnn_version(number: int, stack: str) -> str:
    """Return 9.1.0 of 90100 (cuDNN from 9 on), 8.9.7 of 8907 (before), 3.5.0 of 3005000
    (MIOpen).
    """
    if stack == "rocm":
        thousand = 1_000_000
        hundred = 1_000
    elif number >= 90_000:
        thousand = 10_000
        hundred = 100
    else:
        thousand = 1_000
        hundred = 100
    return f"{number // thousand}.{number % thousand // hundred}.{number % hundred}"


def first_line(error: object) -> str:
    """Return the first line of an error's text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _software_version(torch: Any, stack: str) -> str | None:
    """Return the version of CUDA or ROCm that this torch was built with."""
    if stack == "cuda":
        return str(torch.version.cuda)
    if stated := getattr(torch.version, "rocm", None):
        return str(stated)
    if match := re.search(r"\+rocm(\d+(\.\d+)*)", str(torch.__version__)):
        return match[1]
    # HIP's first two numbers are those of the ROCm that it belongs to.
    return ".".join(str(torch.version.hip).split(".")[:2])


def _pci_address(properties: Any) -> str:
    domain, bus, device = (
        getattr(properties, f"pci_{part}_id", None) for part in ("domain", "bus", "device")
    )
    if isinstance(domain, int) and isinstance(bus, int) and isinstance(device, int):
        return f"{domain:04x}:{bus:02x}:{device:02x}.0"
    return ""
