"""Runs with traces from tools/telemetry_faults.py, as the recorder joins them: systems to
compare.
"""

from __future__ import annotations

import itertools
import random

import msgspec
from tool_modules import load_tool

from tprimat.record import telemetry
from tprimat.record.telemetry.timeline import Timeline
from tprimat.results.run import SERIES, GpuInfo, ModelConfig, Run

LLAMA_1B = ModelConfig(
    num_layers=16,
    hidden_size=2048,
    num_attention_heads=32,
    num_query_groups=8,
    head_dim=64,
    ffn_hidden_size=8192,
    vocab_size=128256,
)


def replayed(
    kind: str = "h100",
    fault: str | None = None,
    *,
    seed: int = 1,
    slows: float = 1.25,
    watts: float = 600.0,
    to_s: float = 1e9,
    **fields,
) -> Run:
    """A run of 200 s with steps of 1 s and its trace.

    Args:
        kind: h100, mi300x or cpu.
        fault: a name of FAULTS in the tool; it holds from 80 s on.
        slows: factor of the step times while it holds.
        to_s: when it ends.
    """
    tool = load_tool("telemetry_faults")
    plan = tool.Plan(
        random.Random(f"{kind} {seed}"),
        kind,
        gpus=1 if kind == "cpu" else 2,
        step_s=1.0,
        watts=watts,
    )
    plan.from_s, plan.to_s = 80.0, to_s
    if fault is not None:
        tool.FAULTS[fault].plant(plan)
    made = tool.make(plan)
    seconds = [
        time * (slows if fault is not None and plan.holds(end) else 1.0)
        for end, time in zip(made.steps.ends, made.run.step_times, strict=True)
    ]
    ends = list(itertools.accumulate(seconds, initial=tool.START))[1:]
    count = sum(end <= made.trace.samples[-1].at for end in ends)
    known = {
        "gpu_info": GpuInfo(
            device_name=made.run.gpu_info.device_name,
            device_count=made.run.gpu_info.device_count,
            software_stack={"h100": "cuda", "mi300x": "rocm", "cpu": "cpu"}[kind],
        ),
        "model_config": LLAMA_1B,
        "scale": "1b",
        "training_config": msgspec.structs.replace(
            made.run.training_config, max_steps=200, precision="fp32" if kind == "cpu" else "bf16"
        ),
        "timestamp": f"2026-11-24T22:{seed:02d}:00+00:00",
    }
    series = {name: getattr(made.run, name)[:count] for name in SERIES}
    run = msgspec.structs.replace(
        made.run, **{**series, "step_times": tuple(seconds[:count]), **known, **fields}
    )
    steps = Timeline(run.steps, tuple(ends[:count]), run.step_times, tool.START)
    return telemetry.with_trace(run, steps, made.trace, made.expected_gpus)
