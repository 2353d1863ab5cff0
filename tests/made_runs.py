"""Runs of our own making for the tests of comparisons and reports. No random numbers: equal
everywhere.
"""

from __future__ import annotations

import math
import zlib

import msgspec
from stored_runs import series

from tprimat.compare import Comparison, Loaded, compare
from tprimat.results.account import Timing
from tprimat.results.run import GpuInfo, MemoryMetrics, ModelConfig, Run, TrainingConfig, setup_key

H100 = "NVIDIA H100 80GB HBM3"
MI300X = "AMD Instinct MI300X"


def make_run(
    device: str | None = H100,
    *,
    step_time: float = 3.2,
    warmup: tuple[float, ...] = (30.0, 9.0, 5.0),
    steps: int = 60,
    gpus: int | None = 8,
    batch: int | None = 64,
    length: int | None = 2048,
    precision: str | None = "bf16",
    stack: str | None = "cuda",
    losses: bool = True,
    **fields: object,
) -> Run:
    """A run whose step times swing by 1 % around step_time after the warm-up.

    Runs of two configurations differ in their first step by less than a microsecond: with equal
    times they would be copies.
    """
    times = [
        *warmup,
        *(step_time * (1 + 0.01 * math.sin(index)) for index in range(steps - len(warmup))),
    ][:steps]
    run = Run(
        platform={"cuda": "nvd", "rocm": "amd", "cpu": "cpu"}.get(stack or ""),
        framework="nemo" if stack == "cuda" else "primus" if stack == "rocm" else "lightning",
        model="llama",
        scale="full",
        gpu_info=GpuInfo(
            device_name=device, device_count=gpus, software_stack=stack, total_memory_gb=85.0
        ),
        training_config=TrainingConfig(
            max_steps=steps or None,
            global_batch_size=batch,
            sequence_length=length,
            micro_batch_size=1,
            num_gpus=gpus,
            precision=precision,
        ),
        timing=Timing(clock="monotonic", covers="a whole step"),
        memory_metrics=MemoryMetrics(avg_memory_allocated_gb=36.1, peak_memory_allocated_gb=40.25),
        timestamp="2026-02-02T21:44:16+00:00",
        **series(
            times,
            loss_values=tuple(
                2.0 + 9.8 * math.exp(-index / 15) if losses else None for index in range(steps)
            ),
        ),
    )
    run = msgspec.structs.replace(run, **fields)
    if "step_times" in fields or not times:
        return run
    times[0] += 1e-7 * zlib.crc32(setup_key(run)) / 2**32
    return msgspec.structs.replace(run, step_times=tuple(times))


def failed_run(device: str | None = MI300X, *, stack: str = "rocm", **fields: object) -> Run:
    """A run that ended before its first step."""
    return make_run(
        device,
        stack=stack,
        steps=0,
        warmup=(),
        status="failed",
        status_reason="out of memory",
        **fields,
    )


def shape(**fields: object) -> ModelConfig:
    """The shape of Llama 3.1 8B, with changes."""
    known = {
        "num_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_query_groups": 8,
        "ffn_hidden_size": 14336,
        "vocab_size": 128256,
    }
    return ModelConfig(**{**known, **fields})  # type: ignore[arg-type]


SMALL = ModelConfig(
    num_layers=1,
    hidden_size=32,
    num_attention_heads=4,
    num_query_groups=2,
    head_dim=8,
    ffn_hidden_size=64,
    vocab_size=64,
    tie_word_embeddings=False,
    num_parameters=2 * 64 * 32 + 2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 64 + 3 * 32,
)
"""A Llama that a CPU trains at once."""


def comparison(*groups: Run | tuple[Run, ...], **options: object) -> Comparison:
    """The comparison of files that hold a run or several each."""
    files = [
        Loaded(
            f"results/file_{number}.json",
            f"{number:x}" * 64,
            group if isinstance(group, tuple) else (group,),
        )
        for number, group in enumerate(groups, start=1)
    ]
    return compare(files, **options)  # type: ignore[arg-type]


HOSTILE = (
    "\x1b[31mEvil\x1b[0m \x1b]0;title\x07|`<script>alert(1)</script> [bold]x[/bold] $a$ _b_ **c**"
    " \u202egnp.exe\n# d"
)
"""Colors, a window title, a table's border, markup of four kinds, text turned around, a new line.
"""


def said(run, *parts: str) -> bool:
    """Whether one warning of a run holds all these words."""
    return any(all(part in warning for part in parts) for warning in run.warnings)
