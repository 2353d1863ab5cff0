"""Options of `benchmark` for several nodes, for NeMo and for the search."""

from __future__ import annotations

from pathlib import Path

from tprimat.cli.options._parser import Group, Parser
from tprimat.cli.options._training import add_setting, at_least, duration, one_or_several
from tprimat.frameworks.nemo.defaults import PERFORMANCE, PRESETS
from tprimat.frameworks.request import DATA, MOCK, BenchmarkOptions
from tprimat.settings.rows import DIVISION

DEFAULT_BUDGET = "30m"

FOR_THE_SUBMITTER = (
    *(
        "executor",
        "wait",
        "slurm",
        "account",
        "partition",
        "time",
        "container",
        "mounts",
        "num_nodes",
    ),
    *("output_dir", "gpus", "dry_run", "quiet", "json"),
)
"""Options that the nodes of a Slurm job get in another way, or not at all."""


def add_nodes(group: Group) -> None:
    """Add those for several nodes."""
    add_setting(group, "num_nodes", type=one_or_several(at_least(1, 10**5)))
    group.option(
        "--executor",
        "run here or submit a Slurm job (default: local)",
        choices=("local", "slurm"),
        default="local",
    )
    group.option("--wait", "follow the Slurm job until it ends")
    group.option("--slurm FILE", "read Slurm settings from FILE: NAME = VALUE lines", type=Path)
    group.option("--account NAME", "set the Slurm account (default: the cluster's)")
    group.option("--partition NAME", "set the Slurm partition (default: the cluster's)")
    group.option("--time TIME", "set the wall time of the job (default: 01:00:00)")
    group.option("--container IMAGE", "run in this image: with pyxis, or apptainer for a .sif file")
    group.option("--mounts A:B,...", "mount more directories in the container")


def with_words_of_nodes(options: BenchmarkOptions, parser: Parser) -> BenchmarkOptions:
    """Return options with what the nodes of a Slurm job are told: the words without those for its
    submitter.
    """
    own = [action for action in parser._actions if action.dest in FOR_THE_SUBMITTER]
    takes_value = {flag: action.nargs != 0 for action in own for flag in action.option_strings}
    options.words_of_nodes, left = [], iter(options.argv)
    for word in left:
        name, sign, _ = word.partition("=")
        if name not in takes_value:
            options.words_of_nodes.append(word)
        elif takes_value[name] and not sign:
            next(left, None)
    return options


def add_nemo(group: Group) -> None:
    """Add those that only NeMo takes."""
    for key in DIVISION:
        add_setting(group, key)
    group.option("--max-steps N", "alias of --steps", dest="steps", type=at_least(1))
    add_setting(group, "preset", ", ".join(PRESETS), PERFORMANCE, choices=tuple(PRESETS))
    add_setting(group, "data", MOCK, choices=DATA)
    add_setting(group, "settings", action="append")
    group.option("--gpu NAME", "use the defaults of this GPU, e.g. H100 (default: detected)")


def add_search(group: Group) -> None:
    """Add the search and its budget."""
    group.option("--tune", "search for the fastest configuration and save it for --config")
    group.option(
        "--budget TIME",
        f"time for the search of each model (default: {DEFAULT_BUDGET})",
        type=duration,
    )
