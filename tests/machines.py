"""Machines on which somebody types the first command, and what should happen there: a row each.

What a row expects is reasoned by hand from data sheets and documentation, not copied from what the
product prints. The rows are stand-ins: none of this has run on such a machine.
tests/cli/test_machines.py builds them, and docs/generate.py makes a table of docs/frameworks.md
from them.
"""

from __future__ import annotations

import dataclasses

CUDA_13, CUDA_12_6, CUDA_12_8 = "CUDA 13", "CUDA 12.6", "torch 2.11, CUDA 12.8"
KEPT, REFUSED = "nothing: the container's own", "nothing: an error"

GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Gpu:
    """A GPU as torch states it; memory in bytes."""

    name: str
    architecture: str
    memory: int
    units: int
    is_integrated: bool = False


V100 = Gpu("Tesla V100-SXM2-32GB", "sm_70", 34_072_559_616, 80)
T4 = Gpu("Tesla T4", "sm_75", 15_828_320_256, 40)
A100 = Gpu("NVIDIA A100-SXM4-80GB", "sm_80", 85_094_694_912, 108)
A100_HALF = Gpu("NVIDIA A100-SXM4-80GB MIG 3g.40gb", "sm_80", 42_144_366_592, 42)
RTX_4090 = Gpu("NVIDIA GeForce RTX 4090", "sm_89", 25_393_692_672, 128)
RTX_5090 = Gpu("NVIDIA GeForce RTX 5090", "sm_120", 33_661_911_040, 170)
H100 = Gpu("NVIDIA H100 80GB HBM3", "sm_90", 85_017_755_648, 132)
GB200 = Gpu("NVIDIA GB200", "sm_100", 197_900_000_000, 152)
GB10 = Gpu("NVIDIA GB10", "sm_121", 128_500_000_000, 48, is_integrated=True)
MI300X = Gpu("AMD Instinct MI300X", "gfx942", 206_141_652_992, 304)
MI355X = Gpu("AMD Instinct MI355X", "gfx950", 309_220_868_096, 256)


@dataclasses.dataclass(frozen=True)
class Machine:
    """A machine, and what its user should get.

    Attributes:
        name: in the documentation.
        gpu, count: what is built in.
        driver: as nvidia-smi states it; empty if there is no such tool.
        processor: as platform.machine() names it.
        seen: whether torch finds the GPUs.
        files: device files and the like.
        used_mib: GPU memory in use before anything starts, MiB.
        holder: the program that holds it, where the driver names it.
        mig: whether the GPU is in MIG mode.
        container: torch of the container; empty where `make run` installs torch.
        primus: micro-batch and batch of Primus' own configuration of Llama, where Primus is
            installed.
        installs: the build of torch that `make run` installs.
        framework, scale, precision: what is trained; empty if nothing is.
        batch, tokens: sequences of a step, on all GPUs, and the length of each.
        compiled: whether torch.compile makes the kernels.
        memory_gb: peak of a GPU for Llama by calculation; None if no data sheet applies.
        notes: what is said, each by a part of it; beyond that a scaled-down model is not the full
            one.
        status: exit status of ./benchmark.py, given that a training succeeds.
    """

    name: str
    gpu: Gpu
    installs: str
    framework: str = "lightning"
    scale: str = "1b"
    batch: int = 8
    tokens: int = 2048
    precision: str = "bf16"
    compiled: bool = True
    memory_gb: float | None = None
    notes: tuple[str, ...] = ()
    status: int = 0
    count: int = 1
    driver: str = "580.95.05"
    processor: str = "x86_64"
    seen: bool = True
    files: tuple[str, ...] = ("/dev/nvidiactl",)
    used_mib: int = 4
    holder: str = ""
    mig: bool = False
    container: str = ""
    primus: tuple[int, int] | None = None


# What is trained at scale 1b: 8 sequences a GPU, so that 8 GPUs have 64. Llama's 1.135·10⁹
# parameters take 18 bytes each, 20.4 GB; the driver 1 GB; 1024 logits of 64,128 tokens 0.7 GB at 10
# bytes; compiled layers keep 7 values of the hidden state (2048) and 3 of the width (7168), 2 bytes
# each, in 16 layers: 2.35 GB a sequence (2.34 on an H200).
_STATES_GB, _SEQUENCE_GB = 22.1, 2.35
# Eager layers keep 4.3 GB a sequence, and decide how many are trained at once. Where not even one
# fits, one layer's activations and the inputs of all others are kept: 0.4 GB.
_RECOMPUTED_GB = 0.4
_EIGHT_GB = _STATES_GB + 8 * _SEQUENCE_GB
# Of Llama alone on an RTX 4090; of Qwen too where less is free.
_TIGHT = "less than 20% is left, activations are recomputed if they don't fit"
# Less than a gigabyte in use may be what this process itself takes.
_UNKNOWN = (
    "memory held by other processes is unknown on GPU 0: memory in use is no more than this"
    " process's context"
)
_PRIMUS = (
    "llama3.1_8B-BF16-pretrain.yaml",
    "qwen2.5_7B-BF16-pretrain.yaml",
    "no configuration for Mistral 7B",
)
_WSL = ("/dev/dxg", "/usr/lib/wsl/lib/libcuda.so.1")
_ROCM = ("/dev/kfd", "/dev/dri/renderD128")
_NONE = {
    "framework": "",
    "scale": "",
    "batch": 0,
    "tokens": 0,
    "precision": "",
    "compiled": False,
    "status": 2,
}
_FULL = {
    "framework": "primus",
    "scale": "full",
    "tokens": 8192,
    "compiled": False,
    "count": 8,
    "driver": "",
}

MACHINES = (
    Machine("H100, bare", H100, CUDA_13, memory_gb=_EIGHT_GB),
    Machine("8 × H100, driver 535", H100, CUDA_12_6, count=8, driver="535.183.01", batch=64, memory_gb=_EIGHT_GB),
    # 24 GB hold the states, but not a sequence's activations in eager layers.
    Machine(
        "RTX 4090, driver 550", RTX_4090, CUDA_12_6, driver="550.144.03", notes=(_TIGHT,),
        memory_gb=_STATES_GB + 4 * _RECOMPUTED_GB,
    ),
    # CUDA 12.6 has no kernels for Blackwell, CUDA 13 needs driver 580. Two sequences fit beside the
    # states.
    Machine(
        "RTX 5090, driver 575", RTX_5090, CUDA_12_8, driver="575.57.08", memory_gb=_STATES_GB + 2 * _SEQUENCE_GB
    ),
    Machine(
        "GB200 node (aarch64, 4 GPUs)", GB200, CUDA_13, count=4, processor="aarch64", batch=32, memory_gb=_EIGHT_GB
    ),
    # Half a GPU has half the peak, or not: no data sheet says so.
    Machine(
        "A100 in MIG mode, an instance of 40 GB", A100_HALF, CUDA_12_6, driver="550.144.03", mig=True,
        notes=(_UNKNOWN, "partitioned GPU 0 (MIG 3g.40gb): the peak of the whole GPU does not apply"),
    ),
    Machine(
        "A100 in MIG mode, without an instance", A100, CUDA_12_6, driver="550.144.03", mig=True, seen=False,
        notes=("GPU 0 is in MIG mode and has no instance that it may use",), **_NONE,
    ),
    # CUDA 13 has no kernels for Volta, and Volta no bf16 matrix units.
    Machine("V100 32 GB", V100, CUDA_12_6, precision="fp16", memory_gb=_STATES_GB + 2 * _SEQUENCE_GB),
    # 16 GB don't hold the states of scale 1b. Medium: 284·10⁶ parameters take 5.1 GB, 32,064 logits
    # 0.3 GB, layers half as wide 0.59 GB for 1024 tokens.
    Machine(
        "T4", T4, CUDA_13, scale="medium", batch=4, tokens=1024, precision="fp16", memory_gb=5.1 + 1 + 0.3 + 4 * 0.59,
        notes=("scale medium is trained: Llama 3.1 8B at 1b, the default on larger GPUs, takes 20.43 GB",
               "scale medium is trained: Qwen 2.5 7B at 1b", "scale medium is trained: Mistral 7B at 1b"),
    ),
    Machine("H100, driver too old (470)", H100, REFUSED, driver="470.82.01", seen=False,
            notes=("the NVIDIA driver is installed (/dev/nvidiactl): it may be too old for this build",), **_NONE),
    # 30 GB are free: room for the states and one sequence in eager layers, not for two.
    Machine(
        "H100, another process holds 55 GB", H100, CUDA_13, used_mib=52_450, holder="/usr/bin/vllm",
        memory_gb=_STATES_GB + _SEQUENCE_GB,
        notes=("other processes hold memory of GPU 0 (55.0 of 85.0 GB): vllm (process 4242, 55.0 GB)",),
    ),
    Machine("H100, filled by another process", H100, CUDA_13, used_mib=81_050, holder="/usr/bin/vllm",
            notes=("no scale fits; tprimat gpu-memory lists the processes that hold memory",), **_NONE),
    # A container that was started with NVIDIA_DRIVER_CAPABILITIES=compute.
    Machine("H100, NVIDIA's container without NVML and nvidia-smi", H100, KEPT, driver="",
            container="2.10.0a0+b4e4ee81d3.nv25.12", memory_gb=_EIGHT_GB, notes=(_UNKNOWN,)),
    # Windows' desktop holds memory, and its driver doesn't list who does.
    Machine(
        "RTX 4090 in WSL2", RTX_4090, CUDA_13, driver="581.29", files=_WSL, used_mib=1200,
        memory_gb=_STATES_GB + 2 * _RECOMPUTED_GB,
        notes=(_TIGHT, _TIGHT, "other processes hold memory of GPU 0 (1.3 of 25.4 GB)"),
    ),
    Machine("RTX 4090 in WSL2, torch finds no GPU", RTX_4090, CUDA_13, driver="581.29", files=_WSL, seen=False,
            notes=("the NVIDIA driver is installed (/dev/dxg): it may be too old for this build",), **_NONE),
    # The page cache gives back what a training needs. No citable peak is known.
    Machine("GB10 (aarch64, unified memory)", GB10, CUDA_13, processor="aarch64"),
    Machine("8 × MI300X, rocm/pytorch", MI300X, KEPT, count=8, driver="", files=_ROCM,
            container="2.9.1+rocm7.2.0.git7e1940d4", batch=64, memory_gb=_EIGHT_GB),
    Machine("8 × MI300X, rocm/primus", MI300X, KEPT, files=_ROCM, container="2.10.0.dev20251112+rocm7.1",
            primus=(2, 128), batch=128, notes=_PRIMUS, **_FULL),
    Machine("8 × MI355X, rocm/primus", MI355X, KEPT, files=_ROCM, container="2.10.0.dev20251112+rocm7.1",
            primus=(4, 256), batch=256, notes=_PRIMUS, **_FULL),
)  # fmt: skip
