"""The emulated machines of tools/record_golden.py: stand-ins that the product finds by itself.

Packages on sys.path, vendor tools on PATH, device files, directories of frameworks and environment
variables; nothing of the product's own. golden_worker.py makes a process see them.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent

NVIDIA, AMD = "nvidia", "amd"
MACHINES: dict[str, dict[str, Any]] = {
    "none": {},
    "H100": {"vendor": NVIDIA, "count": 8, "name": "NVIDIA H100 80GB HBM3", "major": 9, "minor": 0,
             "multi_processor_count": 132, "clock_rate": 1_980_000, "total_memory": 85_017_755_648, "watts": 700},
    "B200": {"vendor": NVIDIA, "count": 8, "name": "NVIDIA B200", "major": 10, "minor": 0,
             "multi_processor_count": 148, "clock_rate": 1_965_000, "total_memory": 191_514_148_864, "watts": 1000},
    "RTX 4090": {"vendor": NVIDIA, "count": 1, "name": "NVIDIA GeForce RTX 4090", "major": 8, "minor": 9,
                 "multi_processor_count": 128, "clock_rate": 2_520_000, "total_memory": 25_393_692_672, "watts": 450},
    "MI300X": {"vendor": AMD, "count": 8, "name": "AMD Instinct MI300X", "major": 9, "minor": 4,
               "multi_processor_count": 304, "gcnArchName": "gfx942:sramecc+:xnack-", "clock_rate": 2_100_000,
               "total_memory": 206_141_652_992, "watts": 750},
    "MI355X": {"vendor": AMD, "count": 8, "name": "AMD Instinct MI355X", "major": 9, "minor": 5,
               "multi_processor_count": 256, "gcnArchName": "gfx950:sramecc+:xnack-", "clock_rate": 2_400_000,
               "total_memory": 309_220_868_096, "watts": 1400},
}  # fmt: skip
"""Facts as torch and the vendors' tools state them; memory in bytes, clocks in kHz."""

BARE = " bare"
"""Ending of a machine's name: no framework is installed and no clone is there."""
NEMO = " with NeMo"
"""Ending of a machine's name: NeMo is installed as well. Its stand-in has no recipes in it."""
HELD = " held"
"""Ending of a machine's name: another process holds memory of the first GPU."""
HOLDER_PID, HOLDER_BYTES = 2_000_000_001, 5000 * 2**20

PACKAGES = {
    "torch": "2.9.0", "lightning": "2.5.5", "transformers": "4.57.0", "accelerate": "1.11.0", "deepspeed": "0.18.0",
    "nemo": "2.7.3", "nemo_run": "0.6.0", "modelopt": "0.37.0", "megatron": "0.14.0", "transformer_engine": "2.8",
    "torchtitan": "0.2.0", "torchao": "0.14.0", "triton": "3.5.0",
}  # fmt: skip
OF_NEMO = ("nemo", "nemo_run", "modelopt")
DISTRIBUTIONS = {"nemo": "nemo_toolkit", "megatron": "megatron-core"}
HIDDEN = frozenset({*PACKAGES, "pytorch_lightning", "flash_attn"})
"""Packages of this machine that must not be seen."""

TORCH = """
import types
GPU = {gpu!r}
__version__ = {version!r}
version = types.SimpleNamespace(cuda={cuda!r}, hip={hip!r}, git_version=None)
class Tensor: pass
class _Properties:
    def __init__(self, index):
        self.__dict__.update({{k: v for k, v in GPU.items() if k not in ("vendor", "count", "watts")}})
        self.uuid = f"00000000-0000-0000-0000-00000000000{{index}}"
        self.pci_domain_id, self.pci_bus_id, self.pci_device_id = 0xfffe, 0x10 + index, 0
def _unavailable(*_, **__): raise RuntimeError("emulated: no CUDA context here")
cuda = types.SimpleNamespace(
    is_available=lambda: bool(GPU), is_initialized=lambda: False, device_count=lambda: GPU.get("count", 0),
    get_device_properties=_Properties, get_device_name=lambda index=0: GPU["name"],
    get_device_capability=lambda index=0: (GPU["major"], GPU["minor"]), current_device=lambda: 0,
    memory_reserved=lambda index=0: 0, memory_allocated=lambda index=0: 0,
    mem_get_info=lambda index=0: (GPU["total_memory"] - {held} * (index == 0), GPU["total_memory"]),
    is_bf16_supported=lambda *_, **__: bool(GPU), get_arch_list=lambda: [],
    nccl=types.SimpleNamespace(version=lambda: (2, 27, 3)),
)
backends = types.SimpleNamespace(
    cudnn=types.SimpleNamespace(version=lambda: {dnn}, is_available=lambda: bool(GPU)),
    mps=types.SimpleNamespace(is_available=lambda: False), cuda=types.SimpleNamespace(is_built=lambda: bool(GPU)),
)
"""

NVIDIA_SMI = r"""#!/bin/sh
# Answers any --query-gpu and --query-compute-apps in CSV; what it does not know is [N/A].
query= apps= header=1 units=1
for word in "$@"; do
    case "$word" in
        --query-gpu=*) query=${{word#*=}} ;;
        --query-compute-apps=*) apps=${{word#*=}} ;;
        --format=*) case "$word" in *noheader*) header= ;; esac; case "$word" in *nounits*) units= ;; esac ;;
    esac
done
mib() {{ if [ -n "$units" ]; then value="$1 MiB"; else value=$1; fi; }}
field() {{
    index=$2
    case "$1" in
        index) value=$index ;;
        name|gpu_name) value="{name}" ;;
        uuid|gpu_uuid) value="GPU-00000000-0000-0000-0000-00000000000$index" ;;
        memory.total) mib {total_mib} ;;
        memory.used) if [ "$index" = 0 ]; then mib {held_mib}; else mib 4; fi ;;
        memory.free) mib {total_mib} ;;
        power.limit|power.default_limit|power.max_limit) value={watts}.00; [ -z "$units" ] || value="$value W" ;;
        clocks.current.sm|clocks.sm) value=345; [ -z "$units" ] || value="$value MHz" ;;
        clocks.max.sm) value={mhz}; [ -z "$units" ] || value="$value MHz" ;;
        mig.mode.current) value=Disabled ;;
        driver_version) value=580.82.07 ;;
        pci.bus_id) value="0000FFFE:1$index:00.0" ;;
        pid) value={pid} ;;
        process_name) value=/usr/bin/another_training ;;
        used_memory|used_gpu_memory) mib {held_mib} ;;
        *) value="[N/A]" ;;
    esac
}}
row() {{
    line= IFS=,
    for each in $1; do unset IFS; field "$each" "$2"; line="$line, $value"; done
    unset IFS
    echo "${{line#, }}"
}}
if [ -n "$query" ]; then
    [ -z "$header" ] || echo "$query"
    gpu=0
    while [ $gpu -lt {count} ]; do row "$query" $gpu; gpu=$((gpu + 1)); done
elif [ -n "$apps" ]; then
    [ -z "$header" ] || echo "$apps"
    [ {held} = 0 ] || row "$apps" 0
fi
exit 0
"""


def amd_smi(gpu: dict[str, Any], held: bool) -> str:
    """Return a stand-in for amd-smi: process, static, metric and list as JSON."""

    def of(value: float, unit: str) -> dict[str, Any]:
        return {"value": value, "unit": unit}

    total, watts = gpu["total_memory"] // 2**20, of(gpu["watts"], "W")
    answers: dict[str, list[dict[str, Any]]] = {
        "process": [],
        "static": [],
        "metric": [],
        "list": [],
    }
    for index in range(gpu["count"]):
        bdf, is_held = f"fffe:{0x10 + index:02x}:00.0", held and index == 0
        used = HOLDER_BYTES // 2**20 if is_held else 284
        memory = {"vram_mem": of(HOLDER_BYTES, "B")}
        holder: Any = {"name": "another_training", "pid": HOLDER_PID, "memory_usage": memory}
        info = holder if is_held else "No running processes detected"
        clock = {"clk": of(132, "MHz"), "max_clk": of(gpu["clock_rate"] // 1000, "MHz")}
        row = {
            "process": {"process_list": [{"process_info": info}]},
            "static": {
                "asic": {
                    "market_name": gpu["name"], "target_graphics_version": gpu["gcnArchName"].split(":")[0],
                    "num_compute_units": gpu["multi_processor_count"],
                },
                "bus": {"bdf": bdf}, "limit": {"max_power": watts, "socket_power": watts},
                "driver": {"name": "amdgpu", "version": "6.16.6"},
                "vram": {"type": "HBM3", "size": of(total, "MB")},
                "partition": {"compute_partition": "SPX", "memory_partition": "NPS1"},
            },
            "metric": {
                "mem_usage": {
                    "total_vram": of(total, "MB"), "used_vram": of(used, "MB"), "free_vram": of(total - used, "MB"),
                },
                "power": {"socket_power": of(140, "W")}, "clock": {"gfx_0": clock},
            },
            "list": {"bdf": bdf, "uuid": f"00000000-0000-0000-0000-00000000000{index}"},
        }  # fmt: skip
        for name, answer in row.items():
            answers[name].append({"gpu": index, **answer})
    cases = "\n".join(
        f"{name}) cat <<'END'\n{json.dumps(answer)}\nEND\n;;" for name, answer in answers.items()
    )
    return f'#!/bin/sh\ncase "$1" in\n{cases}\n*) exit 1 ;;\nesac\n'


def rocm_smi(held: bool) -> str:
    """Return a stand-in for rocm-smi: the processes alone."""
    system = {f"PID{HOLDER_PID}": f"another_training, 1, {HOLDER_BYTES}, 0, 0"} if held else {}
    return (
        '#!/bin/sh\ncase "$*" in\n'
        f"*--showpids*) cat <<'END'\n{json.dumps({'system': system})}\nEND\n;;\n*) exit 1"
        " ;;\nesac\n"
    )


CPUINFO = "".join(
    f"processor\t: {index}\nvendor_id\t: GenuineIntel\nmodel name\t: Emulated Processor\nphysical"
    f" id\t: 0\ncore id\t\t: {index}\nflags\t\t: fpu sse2 avx2 avx512f avx512_bf16\n\n"
    for index in range(8)
)
SYSTEM_FILES = {
    "/proc/cpuinfo": CPUINFO,
    "/proc/meminfo": (
        "MemTotal:       62500000 kB\nMemFree:        60000000 kB\nMemAvailable:   60000000"
        " kB\nBuffers: 0 kB\nCached: 0 kB\nActive: 0 kB\nInactive: 0 kB\nShmem: 0 kB\nSReclaimable:"
        " 0 kB\nSlab: 0 kB\n"
    ),
    "/proc/self/cgroup": "",
    "/proc/1/cgroup": "",
    "/etc/os-release": 'PRETTY_NAME="Emulated Linux"\n',
}
ABSENT = ("/.dockerenv", "/run/.containerenv", "/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""Files of the real machine that the emulated one hasn't, unless its driver brings them."""


def _executable(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def build(name: str, folder: Path) -> dict[str, str]:
    """Write the stand-ins of a machine and return the whole environment of its processes.

    Args:
        name: key of MACHINES, which BARE, NEMO or HELD may follow.
        folder: an empty directory.
    """
    bare, held = name.endswith(BARE), name.endswith(HELD)
    gpu = MACHINES[name.removesuffix(BARE).removesuffix(HELD).removesuffix(NEMO)]
    vendor = gpu.get("vendor")
    packages, programs, system = folder / "packages", folder / "programs", folder / "system"
    for each in (packages, programs, system, folder / "home"):
        each.mkdir()
    suffix = {NVIDIA: "+cu128", AMD: "+rocm7.1", None: "+cpu"}[vendor]
    for package, version in PACKAGES.items():
        if package != "torch" and (bare or (package in OF_NEMO and not name.endswith(NEMO))):
            continue
        (packages / package).mkdir()
        (packages / package / "__init__.py").write_text("")
        number = version + suffix if package == "torch" else version
        info = (
            packages / f"{DISTRIBUTIONS.get(package, package).replace('-', '_')}-{number}.dist-info"
        )
        info.mkdir()
        metadata = (
            f"Metadata-Version: 2.1\nName: {DISTRIBUTIONS.get(package, package)}\nVersion:"
            f" {number}\n"
        )
        (info / "METADATA").write_text(metadata)
    (packages / "torch" / "__init__.py").write_text(
        TORCH.format(
            gpu=gpu,
            version=PACKAGES["torch"] + suffix,
            cuda="12.8" if vendor == NVIDIA else None,
            hip="7.1.25424-4179531dcd" if vendor == AMD else None,
            dnn=3_005_000 if vendor == AMD else 91_002,
            held=HOLDER_BYTES if held else 0,
        )
    )
    if name.endswith(NEMO):
        recipes = packages / "nemo" / "collections" / "llm" / "recipes"
        recipes.mkdir(parents=True)
    for tool in ("sh", "bash", "cat", "git", "env", "uname", "realpath", "dirname"):
        real = next(
            (Path(each) / tool for each in ("/usr/bin", "/bin") if (Path(each) / tool).exists()),
            None,
        )
        if real is not None:
            (programs / tool).symlink_to(real)
    for tool in ("ninja", "c++", "g++", "gcc", "cc", "nsys", "rocprofv3", "sbatch", "torchrun"):
        _executable(programs / tool, "#!/bin/sh\nexit 1\n")
    for path, text in SYSTEM_FILES.items():
        (system / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        (system / path.lstrip("/")).write_text(text)
    if vendor is not None:
        device = system / ("dev/nvidiactl" if vendor == NVIDIA else "dev/kfd")
        device.parent.mkdir(exist_ok=True)
        device.write_text("")
    if vendor == NVIDIA:
        mib = gpu["total_memory"] // 2**20
        held_mib = HOLDER_BYTES // 2**20 if held else 4
        text = NVIDIA_SMI.format(
            total_mib=mib,
            held_mib=held_mib,
            mhz=gpu["clock_rate"] // 1000,
            pid=HOLDER_PID,
            held=int(held),
            **gpu,
        )
        _executable(programs / "nvidia-smi", text)
    elif vendor == AMD:
        _executable(programs / "amd-smi", amd_smi(gpu, held))
        _executable(programs / "rocm-smi", rocm_smi(held))
    environment = {
        "PATH": str(programs), "HOME": str(folder / "home"), "USER": "somebody", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8",
        "TZ": "UTC", "TERM": "dumb", "NO_COLOR": "1", "PYTHON_COLORS": "0", "COLUMNS": "100", "LINES": "40",
        "TMPDIR": tempfile.gettempdir(), "PYTHONHASHSEED": "0", "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    if not bare:
        environment |= _clones(folder)
    return environment


def _clones(folder: Path) -> dict[str, str]:
    """Write stand-ins for Megatron-LM's, torchtitan's and Primus' directories; return the variables
    that name them.
    """
    (folder / "Megatron-LM").mkdir()
    (folder / "Megatron-LM" / "pretrain_gpt.py").write_text("")
    (folder / "torchtitan" / "torchtitan" / "config").mkdir(parents=True)
    (folder / "torchtitan" / "torchtitan" / "config" / "job_config.py").write_text(
        "class Compile: ..."
    )
    (folder / "torchtitan" / "torchtitan" / "train.py").write_text("")
    sys.path.insert(0, str(REPOSITORY / "tests"))
    try:
        primus_tree = importlib.import_module("primus_tree")
    finally:
        sys.path.pop(0)
    primus_tree.make(folder / "Primus", folders=("MI300X", "MI355X"))
    return {
        "MEGATRON_PATH": str(folder / "Megatron-LM"),
        "TORCHTITAN_PATH": str(folder / "torchtitan"),
        "PRIMUS_PATH": str(folder / "Primus"),
        "HF_TOKEN": "made-up",
    }
