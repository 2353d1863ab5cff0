"""The options of `benchmark` that only NeMo takes."""

from __future__ import annotations

import argparse
from pathlib import Path

from tprimat.cli.options._parser import option
from tprimat.cli.options._training import at_least, one_or_several
from tprimat.frameworks.nemo.defaults import PERFORMANCE, PRESETS
from tprimat.frameworks.request import DATA, MOCK

EXECUTORS = ("local", "slurm")


def add_options(group: argparse._ArgumentGroup) -> None:
    """Add them to a group."""
    for name, short in (("tensor-model", "tp"), ("pipeline-model", "pp"), ("context", "cp")):
        text = f"set {name.split('-')[0]} parallelism (default: from the preset)"
        option(group, f"--{name}-parallel-size --{short} N", text, type=at_least(1))
    option(group, "--max-steps N", "alias of --steps", dest="steps", type=at_least(1))
    text = f"source of defaults: {', '.join(PRESETS)} (default: {PERFORMANCE}, with a smaller global batch)"
    option(group, "--preset NAME", text, choices=tuple(PRESETS))
    text = f"use NeMo's mock data, or tokens shared with Primus (default: {MOCK})"
    option(group, "--data NAME", text, choices=DATA)
    text = "set a field of NeMo's recipe; repeatable"
    option(group, "--set PATH=VALUE", text, dest="settings", action="append")
    option(group, "--gpu NAME", "use the defaults of this GPU, e.g. H100 (default: detected)")
    text = "run here or as a Slurm job (default: local)"
    option(group, "--executor", text, choices=EXECUTORS, default="local")
    option(
        group, "--nodes N", "use N nodes (with slurm); or several", dest="num_nodes", type=one_or_several(at_least(1))
    )
    option(group, "--slurm FILE", "read Slurm settings from FILE: NAME = VALUE lines", type=Path)
    option(group, "--account NAME", "set the Slurm account")
    option(group, "--partition NAME", "set the Slurm partition")
    option(group, "--time TIME", "set the wall time of the job (default: 01:00:00)")
    option(group, "--container IMAGE", "run the job in this image")
    option(group, "--mounts A:B,...", "mount more directories in the container")
