"""The summary that Primus' MLPerf benchmark of a diffusion model writes: figures of a whole run, no steps.

FLUX MLPerf benchmark summary
local_batch_size: 64
mean_step_time_s: 1.4824
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tprimat.read.mlperf.streams import number
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.values import LoggedValue
from tprimat.results.run import GpuInfo, Run, Source, TrainingConfig


def summary_reading(found: Mapping[str, tuple[str, int]]) -> ParsedLog:
    """Return the summary of a diffusion benchmark: figures of the whole run, no steps."""

    def value(name: str) -> float | None:
        return number(found[name][0]) if name in found else None

    def count(name: str) -> int | None:
        known = value(name)
        return int(known) if known is not None and known >= 1 and known == int(known) else None

    nodes, devices = count("nnodes"), count("gpus_per_node")
    world = nodes * devices if nodes and devices else None
    line = next(iter(found.values()))[1]
    native = {
        name: known
        for name in found
        if name.startswith(("mean_", "max_", "steps_")) and (known := value(name)) is not None and name != "max_steps"
    }

    def build(given: Mapping[str, Any]) -> Run:
        warnings = [
            "a summary without records of steps: its means stand in native_metrics as printed; a mean of rates is not "
            "the rate of the mean time",
            "timestamp unknown: the summary has no times",
            "the sequence length and the global batch size are not stated",
        ]
        return Run(
            status="incomplete",
            status_reason="a summary, not a log: it doesn't say how the training ended",
            framework="primus",
            model=given.get("model") or "flux",
            warnings=tuple(warnings),
            source=Source(kind="log", dialect="mlperf (summary)"),
            gpu_info=GpuInfo(device_count=given.get("num_gpus") or world),
            training_config=TrainingConfig(
                max_steps=count("max_steps"),
                micro_batch_size=count("local_batch_size"),
                num_gpus=given.get("num_gpus") or world,
                global_batch_size=given.get("global_batch_size"),
                sequence_length=given.get("sequence_length"),
            ),
            native_metrics=dict(native),
        )

    shown = {"num_gpus": LoggedValue(world, line, f"nnodes: {nodes}, gpus_per_node: {devices}")} if world else {}
    return ParsedLog(0, shown, (), build)
