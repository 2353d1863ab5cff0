"""The checks of first_gpu_run.py: a row each, in the order in which they run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from gpu_checks import collective, compute, kernels, memory, power, product, timing, vendor
from gpu_checks.report import Report


@dataclasses.dataclass(frozen=True)
class Check:
    """One check; it runs in a process of its own.

    Attributes:
        name: what --only takes.
        title: what is checked.
        limit_s: seconds until it is killed.
        run: fills a Report.
        needs_gpu: whether it is pointless without a GPU that torch can use.
    """

    name: str
    title: str
    limit_s: float
    run: Callable[[Report], None]
    needs_gpu: bool = True


CHECKS = (
    Check("machine", "what torch and the catalogue make of the GPU", 60, vendor.machine, needs_gpu=False),
    Check(
        "tools", "nvidia-smi, amd-smi, rocm-smi: raw output and what our parsers make of it", 90, vendor.tools, False
    ),
    Check("events", "device events against wall time", 60, timing.events),
    Check("recorder", "our DeviceClock, DeviceScalars and Recorder against wall time", 60, timing.recorder),
    Check("memory", "memory: allocator, driver and vendor's tool", 60, memory.memory),
    Check(
        "matmul", "matrix products in fp32, tf32, bf16 and fp16 against the catalogue's dense peaks", 90, compute.matmul
    ),
    Check("fp8", "matrix products in fp8 against the catalogue's dense peak", 60, compute.fp8),
    Check("training", "an embedded training through ./benchmark.py, compiled, with its MFU", 330, product.training),
    Check("recording-cost", "what recording costs a training loop of one's own", 60, timing.recording_cost),
    Check("callback-cost", "what BenchmarkCallback costs a Lightning training", 120, timing.callback_cost),
    Check("plans", "./benchmark.py --dry-run for every framework", 120, product.plans, needs_gpu=False),
    Check("power", "power, clocks, throttling and energy under load", 60, power.power),
    Check("attention", "which attention kernels run, and what FlopCounterMode counts", 60, kernels.attention),
    Check("graphs", "CUDA graphs with expandable segments", 45, kernels.graphs),
    Check("compile", "torch.compile", 90, kernels.compiled),
    Check("profilers", "torch's profiler, nsys, rocprofv3 and the options that we pass", 60, product.profilers),
    Check(
        "options", "what the installed Megatron and torchtitan accept", 90, product.framework_options, needs_gpu=False
    ),
    Check("collective", "all-reduce over all GPUs", 90, collective.all_reduce),
    Check("frameworks", "a training with every framework that is installed, on all GPUs", 3600, product.frameworks),
)
