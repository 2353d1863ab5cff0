"""The checks of first_gpu_run.py: a row each, in the order in which they run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from gpu_checks import (
    adversities,
    collective,
    compute,
    kernels,
    memory,
    power,
    product,
    timing,
    vendor,
)
from gpu_checks.report import Report


@dataclasses.dataclass(frozen=True)
class Check:
    """One check; it runs in a process of its own.

    Attributes:
        name: what --only takes.
        title: what is checked.
        half: 1 or 2, each of which fits into ten minutes; 0 for one that runs when it is named
            alone.
        expected_s: seconds that it takes on one H100, estimated; the sum of a half leaves a tenth
            of the limit.
        limit_s: seconds until it is killed.
        run: fills a Report.
        needs_gpu: whether it is pointless without a GPU that torch can use.
    """

    name: str
    title: str
    half: int
    expected_s: float
    limit_s: float
    run: Callable[[Report], None]
    needs_gpu: bool = True


CHECKS = (
    Check("machine", "what torch and the catalogue make of the GPU", 1, 15, 60, vendor.machine, needs_gpu=False),
    Check(
        "tools", "nvidia-smi, amd-smi, rocm-smi: raw output and what our parsers make of it",
        1, 30, 90, vendor.tools, needs_gpu=False,
    ),
    Check("events", "device events against wall time", 1, 15, 60, timing.events),
    Check("recorder", "our DeviceClock, DeviceScalars and Recorder against wall time", 1, 20, 60, timing.recorder),
    Check("memory", "memory: allocator, driver and vendor's tool", 1, 20, 60, memory.memory),
    Check(
        "matmul", "matrix products in fp32, tf32, bf16 and fp16 against the catalogue's dense peaks",
        1, 25, 90, compute.matmul,
    ),
    Check("fp8", "matrix products in fp8 against the catalogue's dense peak", 1, 15, 60, compute.fp8),
    Check(
        "training", "what ./benchmark.py --model llama trains by default, twice: its MFU, and its energy against NVML",
        1, 240, 330, product.training,
    ),
    Check("recording-cost", "what recording costs a training loop of one's own", 1, 30, 60, timing.recording_cost),
    Check("callback-cost", "what BenchmarkCallback costs a Lightning training", 1, 60, 120, timing.callback_cost),
    Check(
        "held", "a training while another process holds most of the memory",
        2, 75, 150, adversities.held,
    ),
    Check(
        "killed", "a training that is killed, and the command after it",
        2, 90, 170, adversities.killed,
    ),
    Check(
        "out-of-memory", "a training that runs out of memory",
        2, 40, 100, adversities.out_of_memory,
    ),
    Check(
        "no-compiler", "a training whose compiler fails",
        2, 45, 120, adversities.no_compiler,
    ),
    Check(
        "profile", "--profile torch, whose trace is read back",
        2, 70, 150, adversities.profile,
    ),
    Check("plans", "./benchmark.py --dry-run for every framework", 2, 45, 120, product.plans, needs_gpu=False),
    Check("power", "power, clocks, throttling and energy under load", 2, 20, 60, power.power),
    Check(
        "attention", "which attention kernels run, and what FlopCounterMode counts", 2, 15, 60, kernels.attention
    ),
    Check("graphs", "CUDA graphs with expandable segments", 2, 15, 45, kernels.graphs),
    Check("compile", "torch.compile", 2, 40, 90, kernels.compiled),
    Check("profilers", "torch's profiler, nsys, rocprofv3 and our options for them", 2, 20, 60, product.profilers),
    Check(
        "options", "what the installed Megatron and torchtitan accept",
        2, 20, 90, product.framework_options, needs_gpu=False,
    ),
    Check("collective", "all-reduce over all GPUs", 2, 15, 90, collective.all_reduce),
    Check(
        "frameworks", "a training with every framework that is installed, on all GPUs",
        0, 1800, 3600, product.frameworks,
    ),
)  # fmt: skip
