"""The options of `benchmark` that only NeMo takes."""

from __future__ import annotations

import argparse
from pathlib import Path

from tprimat.cli.options._training import at_least
from tprimat.frameworks.nemo.defaults import PERFORMANCE, PRESETS
from tprimat.frameworks.request import DATA, MOCK

EXECUTORS = ("local", "slurm")


def add_options(group: argparse._ArgumentGroup) -> None:
    """Add them to a group."""
    for name, short in (("tensor-model", "tp"), ("pipeline-model", "pp"), ("context", "cp")):
        group.add_argument(
            f"--{name}-parallel-size",
            f"--{short}",
            type=at_least(1),
            metavar="N",
            help=f"{name.split('-')[0]} parallelism (default: that of the preset, less where there are fewer GPUs)",
        )
    group.add_argument("--max-steps", dest="steps", type=at_least(1), metavar="N", help="the same as --steps")
    group.add_argument(
        "--preset",
        choices=tuple(PRESETS),
        metavar="NAME",
        help="what is left open is taken from: "
        + "; ".join(f"{name}: {text}" for name, text in PRESETS.items())
        + f" (default: {PERFORMANCE})",
    )
    group.add_argument(
        "--data",
        choices=DATA,
        metavar="NAME",
        help="mock: NeMo's random tokens; tokens: the token source of TensorPrimat, written once as a file that "
        f"Primus reads too (default: {MOCK})",
    )
    group.add_argument(
        "--set",
        dest="settings",
        action="append",
        metavar="PATH=VALUE",
        help="any field of NeMo's recipe, such as trainer.strategy.sequence_parallel=true; may be given again",
    )
    group.add_argument(
        "--gpu", metavar="NAME", help='card that the defaults are for, such as "H100", where another machine trains'
    )
    group.add_argument("--executor", choices=EXECUTORS, default="local", help="here, or as a Slurm job")
    group.add_argument("--nodes", dest="num_nodes", type=at_least(1), metavar="N", help="machines (with slurm)")
    group.add_argument("--slurm", type=Path, metavar="FILE", help="what a Slurm job is told: NAME = VALUE lines")
    group.add_argument("--account", metavar="NAME", help="of Slurm")
    group.add_argument("--partition", metavar="NAME", help="of Slurm")
    group.add_argument("--time", metavar="TIME", help="wall time of the job, such as 00:30:00 (default: 01:00:00)")
    group.add_argument("--container", metavar="IMAGE", help="image that the job runs in")
    group.add_argument(
        "--mounts", metavar="A:B,...", help="folders for the container, beyond this clone and the output"
    )
