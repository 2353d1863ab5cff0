"""The summary that Primus' MLPerf benchmark of a diffusion model writes: figures of a whole run, no steps.

FLUX MLPerf benchmark summary
local_batch_size: 64
mean_step_time_s: 1.4824
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tprimat.read.parsing.records import LoggedTraining
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.values import count, number, state
from tprimat.results.run import ModelConfig, Timing, TrainingConfig


@dataclasses.dataclass
class SummaryRun(RunBuilder):
    """Builder of the Run of a summary."""

    def model(self, shape: ModelConfig, given: Mapping[str, Any]) -> tuple[str | None, str | None, list[str]]:
        """Return the model, which a summary doesn't name."""
        return given.get("model") or "flux", None, []

    def unknowns(self, sizes: TrainingConfig, series: Mapping[str, Any]) -> list[str]:
        """Return what no summary has."""
        return [
            "a summary without records of steps: its means stand in native_metrics as printed; a mean of rates is not "
            "the rate of the mean time",
            "timestamp unknown: the summary has no times",
            "the sequence length and the global batch size are not stated",
        ]

    def started(self, warnings: list[str]) -> str | None:
        """Return None: a summary has no times."""
        return None


def builder(printed: Mapping[str, tuple[str, int]]) -> RunBuilder:
    """Return what makes the Run of a summary, from its values and their lines by name."""
    training = LoggedTraining()
    stated = training.around.stated
    for name, field in (("max_steps", "max_steps"), ("local_batch_size", "micro_batch_size")):
        if name in printed:
            state(stated, field, count(printed[name][0]), f"{name}: {printed[name][0]}", printed[name][1])
    nodes, devices = (count(printed[name][0]) if name in printed else None for name in ("nnodes", "gpus_per_node"))
    if nodes and devices:
        line = next(iter(printed.values()))[1]
        state(stated, "num_gpus", nodes * devices, f"nnodes: {nodes}, gpus_per_node: {devices}", line)
    means = (name for name in printed if name.startswith(("mean_", "max_", "steps_")) and name != "max_steps")
    figures = {name: number(printed[name][0]) for name in means}
    return SummaryRun(
        framework="primus",
        log_format="mlperf (summary)",
        training=training,
        timing=Timing(),
        rate=None,
        figures={name: value for name, value in figures.items() if value is not None},
        fixed_status=("incomplete", "a summary, not a log: it doesn't say how the training ended"),
    )
