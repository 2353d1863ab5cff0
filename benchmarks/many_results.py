#!/usr/bin/env python3
"""What loading and summarizing many results costs: CPU time and memory of each, at two numbers of
results.

Every result is a file of its own, of 60 to 500 steps, as a long series of measurements leaves
behind. Equal figures at both numbers show that the cost is linear. Limits: 4 ms and 50 kB for each
result.
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

import child

sys.path.insert(0, str(child.ROOT))

from tprimat.analysis.summary import summarize
from tprimat.results.account import Timing
from tprimat.results.result_file import encode
from tprimat.results.run import (
    Data,
    Environment,
    GpuInfo,
    MemoryMetrics,
    ModelConfig,
    Optimizer,
    ParallelismConfig,
    Run,
    Source,
    TrainingConfig,
)
from tprimat.store import store

LIMIT_MS, LIMIT_KB = 4.0, 50.0
FEWEST_STEPS, MOST_STEPS = 60, 500
SYSTEMS = (
    ("nvd", "nemo", "NVIDIA H100 80GB HBM3", "cuda"),
    ("amd", "primus", "AMD Instinct MI300X", "rocm"),
)
MODELS = ("llama", "qwen", "mistral")
PACKAGES = "torch lightning transformers nemo_toolkit megatron-core transformer-engine numpy python"
VERSIONS = {name: f"{number}.{number % 7}.0" for number, name in enumerate(PACKAGES.split(), 1)}


def make_run(number: int, setups: int | None = None) -> Run:
    """Return a run with the fields that a measurement fills, and step times with a warm-up, noise
    and outliers.

    Each is a system of its own, or a run of one of so many setups.
    """
    setup = number if setups is None else number % setups
    base = random.Random(f"setup {setup}").uniform(10.0, 40.0)
    source = random.Random(number)
    steps = source.randint(FEWEST_STEPS, MOST_STEPS)
    planned = steps if setups is None else MOST_STEPS
    platform, framework, device, stack = SYSTEMS[setup % 2]
    base, noise = base * source.gauss(1, 0.01), source.choice((0.002, 0.005, 0.01, 0.02))
    times, before = [], 0.0
    for step in range(steps):
        before = 0.3 * before + source.gauss(0, noise)
        warm_up = 8 * math.exp(-step / 2)
        outlier = 0.3 if source.random() < 0.01 else 0.0
        slower = 0.05 if number % 10 == 0 and step > steps // 2 else 0.0
        times.append(base * (1 + before + warm_up + outlier + slower))
    losses = [2.0 + 9.8 * math.exp(-step / 15) + source.gauss(0, 0.02) for step in range(steps)]
    return Run(
        platform=platform,  # type: ignore[arg-type]
        framework=framework,
        model=MODELS[setup % 3],
        scale="full",
        label=f"build {setup}",
        gpu_info=GpuInfo(
            device_name=device, device_count=8, total_memory_gb=85.02, software_stack=stack,  # type: ignore[arg-type]
            pytorch_version="2.9.0", architecture="sm_90", clock_mhz=1980.0,
        ),
        environment=Environment(
            versions=VERSIONS, hostname=f"node{number % 64}", os="Linux 6.8 x86_64", cpu="Xeon 8480C", cpu_threads=224,
            settings={"NCCL_DEBUG": "WARN", "CUDA_DEVICE_MAX_CONNECTIONS": "1"},
        ),
        model_config=ModelConfig(
            num_layers=32, hidden_size=4096, num_attention_heads=32, num_query_groups=8, head_dim=128,
            ffn_hidden_size=14336, vocab_size=128256, num_parameters=8_030_261_248, source="the recipe",
        ),
        training_config=TrainingConfig(
            max_steps=planned, global_batch_size=128, micro_batch_size=1, sequence_length=8192, num_gpus=8,
            precision="bf16", seed=1234,
        ),
        parallelism_config=ParallelismConfig(
            tensor_model_parallel_size=1, pipeline_model_parallel_size=1, data_parallel_size=8,
            gradient_accumulation_steps=16,
        ),
        optimizer=Optimizer(name="AdamW", learning_rate=3e-4, schedule="cosine", beta1=0.9, beta2=0.95),
        data=Data(kind="mock", seed=1),
        timing=Timing(clock="device_event", covers="a whole step", over_ranks="max over ranks"),
        memory_metrics=MemoryMetrics(avg_memory_allocated_gb=36.1, peak_memory_allocated_gb=40.25),
        timestamp=f"2026-02-{number % 28 + 1:02}T{number % 24:02}:44:16+00:00",
        source=Source(kind="live", command=("python3", "benchmark.py", "--model", "llama")),
        steps=tuple(range(1, steps + 1)),
        window_steps=(1,) * steps,
        step_times=tuple(times),
        loss_values=tuple(losses),
        learning_rates=tuple(3e-4 * min(1.0, (step + 1) / 50) for step in range(steps)),
        grad_norms=tuple(source.uniform(0.3, 3.0) for _ in range(steps)),
        lines=(None,) * steps,
    )  # fmt: skip


def load(folder: Path) -> None:
    """Load and summarize all results of a directory; print CPU time in s and peak memory in
    bytes.
    """
    # The first result pays for the modules that are loaded when they are needed.
    first = next(folder.rglob("*.json"))
    summarize(store.read(first)[0])
    before, started = _peak_bytes(), time.process_time()
    loaded, _ = store.find([folder])
    read = time.process_time()
    summaries = [summarize(run) for each in loaded for run in each.runs]
    ended = time.process_time()
    print(len(summaries), read - started, ended - read, _peak_bytes() - before)


def _peak_bytes() -> int:
    # Linux has KiB here, macOS bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def main() -> int:
    """Print the table: CPU time and growth of the peak memory, for each result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
    parser.add_argument(
        "--results", type=int, nargs=2, default=[500, 2000], help="(default: 500 2000)"
    )
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.folder:
        load(arguments.folder)
        return 0
    print(f"{'results':>8} {'load ms':>8} {'summary ms':>11} {'together ms':>12} {'memory kB':>10}")
    with tempfile.TemporaryDirectory() as parent:
        for count in arguments.results:
            folder = Path(parent, str(count))
            for number in range(count):
                path = folder / f"{number // 500}" / f"result_{number}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(encode(store.as_file([make_run(number)])))
            runs, read, summary, memory = map(
                float, child.measure([__file__, "--folder", str(folder)]).output.split()
            )
            print(
                f"{count:>8} {read / runs * 1e3:>8.2f} {summary / runs * 1e3:>11.2f} "
                f"{(read + summary) / runs * 1e3:>12.2f} {memory / runs / 1e3:>10.1f}"
            )
    print(f"{'limit':>8} {'':>8} {'':>11} {LIMIT_MS:>12.2f} {LIMIT_KB:>10.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
