"""The options of `benchmark` for several nodes."""

from __future__ import annotations

import argparse
from pathlib import Path

from tprimat.cli.options._parser import option
from tprimat.cli.options._training import add_setting, at_least, one_or_several

EXECUTORS = ("local", "slurm")


def add_options(group: argparse._ArgumentGroup) -> None:
    """Add them to a group."""
    add_setting(group, "num_nodes", type=one_or_several(at_least(1, 10**5)))
    text = "run here or submit a Slurm job (default: local)"
    option(group, "--executor", text, choices=EXECUTORS, default="local")
    option(group, "--wait", "follow the Slurm job until it ends")
    option(group, "--slurm FILE", "read Slurm settings from FILE: NAME = VALUE lines", type=Path)
    option(group, "--account NAME", "set the Slurm account (default: the cluster's)")
    option(group, "--partition NAME", "set the Slurm partition (default: the cluster's)")
    option(group, "--time TIME", "set the wall time of the job (default: 01:00:00)")
    option(group, "--container IMAGE", "run in this image: with pyxis, or apptainer for a .sif file")
    option(group, "--mounts A:B,...", "mount more directories in the container")
