"""The options of `benchmark` that only NeMo takes."""

from __future__ import annotations

import argparse
from pathlib import Path

from tprimat.cli.options._parser import option
from tprimat.cli.options._training import at_least
from tprimat.frameworks.nemo.defaults import PERFORMANCE, PRESETS
from tprimat.frameworks.request import DATA, MOCK

EXECUTORS = ("local", "slurm")


def add_options(group: argparse._ArgumentGroup) -> None:
    """Add them to a group."""
    for name, short in (("tensor-model", "tp"), ("pipeline-model", "pp"), ("context", "cp")):
        text = f"{name.split('-')[0]} parallelism (default: that of the preset, less where there are fewer GPUs)"
        option(group, f"--{name}-parallel-size --{short} N", text, type=at_least(1))
    option(group, "--max-steps N", "the same as --steps", dest="steps", type=at_least(1))
    presets = "; ".join(f"{name}: {text}" for name, text in PRESETS.items())
    text = f"what is left open is taken from: {presets} (default: {PERFORMANCE})"
    option(group, "--preset NAME", text, choices=tuple(PRESETS))
    option(
        group,
        "--data NAME",
        "mock: NeMo's random tokens; tokens: the token source of TensorPrimat, written once as a file that "
        f"Primus reads too (default: {MOCK})",
        choices=DATA,
    )
    text = "any field of NeMo's recipe, such as trainer.strategy.sequence_parallel=true; may be given again"
    option(group, "--set PATH=VALUE", text, dest="settings", action="append")
    option(group, "--gpu NAME", 'card that the defaults are for, such as "H100", where another machine trains')
    option(group, "--executor", "here, or as a Slurm job", choices=EXECUTORS, default="local")
    option(group, "--nodes N", "machines (with slurm)", dest="num_nodes", type=at_least(1))
    option(group, "--slurm FILE", "what a Slurm job is told: NAME = VALUE lines", type=Path)
    option(group, "--account NAME", "of Slurm")
    option(group, "--partition NAME", "of Slurm")
    option(group, "--time TIME", "wall time of the job, such as 00:30:00 (default: 01:00:00)")
    option(group, "--container IMAGE", "image that the job runs in")
    option(group, "--mounts A:B,...", "folders for the container, beyond this clone and the output")
