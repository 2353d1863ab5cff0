"""Options of `benchmark` that only NeMo takes, and what becomes of them."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprimat.errors import UsageError
from tprimat.frameworks.nemo.defaults import PERFORMANCE, PRESETS
from tprimat.frameworks.request import DATA, MOCK, Device, Request
from tprimat.machine.emulation import is_emulated
from tprimat.units import GB

if TYPE_CHECKING:
    from tprimat.catalog.gpus import Gpu
    from tprimat.frameworks.framework import Framework
    from tprimat.machine.platforms import Machine

DIVISION = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")
WISHES = ("num_nodes", *DIVISION, "data", "preset", "settings")
"""Fields of Wishes that are NeMo's."""

EXECUTORS = ("local", "slurm")
GPUS_OF_A_NODE = 8
"""Where it isn't said and can't be seen: what machines of this kind commonly have."""


def add(parser: argparse.ArgumentParser, at_least: Callable[[int], Callable[[str], int]]) -> None:
    """Adds the options.

    Args:
        parser: of `benchmark`.
        at_least: makes a reader of whole numbers with a least one.
    """
    group = parser.add_argument_group("with NeMo (--framework nemo, pretrain_*.py)")
    for name, short in zip(DIVISION, ("tp", "pp", "cp"), strict=True):
        what = name.split("_")[0]
        group.add_argument(
            f"--{name.replace('_', '-')}",
            f"--{short}",
            type=at_least(1),
            metavar="N",
            help=f"{what} parallelism (default: that of the preset, less where there are fewer GPUs)",
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


def wished(options: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """What was said, as fields of Wishes."""
    said = {name: getattr(options, name) for name in WISHES}
    said["settings"] = tuple(options.settings) if options.settings else None
    said["num_gpus"] = options.gpus
    if under_torchrun(environ):
        said["num_gpus"] = int(environ["WORLD_SIZE"])
        said["num_nodes"] = int(environ["WORLD_SIZE"]) // int(environ.get("LOCAL_WORLD_SIZE", environ["WORLD_SIZE"]))
    return said


def check(framework: str, divides: bool, options: argparse.Namespace) -> None:
    """Raises UsageError for options that a framework has no use for."""
    said = wished(options)
    given = [name for name in WISHES if said[name] is not None]
    if given and not divides:
        option = {"settings": "set", "num_nodes": "nodes"}.get(given[0], given[0]).replace("_", "-")
        raise UsageError(
            f"--{option} is for NeMo, and {framework} trains here: say --framework nemo, or leave it out",
            heading="nemo-options",
        )
    if options.executor != "local" and not divides:
        raise UsageError(
            f"--executor {options.executor} is for NeMo, and {framework} trains here: say --framework nemo, or leave "
            "it out",
            heading="nemo-options",
        )
    if options.executor == "local" and (options.num_nodes or 1) > 1 and not under_torchrun(os.environ):
        raise UsageError(
            "--nodes takes --executor slurm: without Slurm, start the script under torchrun on each node",
            heading="nemo-options",
        )


def under_torchrun(environ: Mapping[str, str]) -> bool:
    """Whether torchrun has started this process, as one of several that train together."""
    return "TORCHELASTIC_RUN_ID" in environ and "WORLD_SIZE" in environ


def place(seen: Device, options: argparse.Namespace, notes: list[str]) -> Device:
    """The machine that will train, which isn't this one for a Slurm job, and needn't be for a dry run."""
    elsewhere = options.executor == "slurm" or options.gpu is not None
    if not elsewhere and (seen.platform != "cpu" or not options.dry_run or is_emulated()):
        return seen
    if not elsewhere:
        notes.append(
            f"no GPU is here: this is shown for {options.gpus or GPUS_OF_A_NODE} NVIDIA GPUs; --gpus and --gpu NAME "
            "say which"
        )
    nodes = options.num_nodes or 1
    on_each = (options.gpus or GPUS_OF_A_NODE * nodes) // nodes
    if options.gpu is None:
        return Device("nvd", max(1, on_each), None)
    card = _card(options.gpu)
    return Device("nvd", max(1, on_each), card.memory_gb * GB, card.architecture, card.short_name)


def _card(name: str) -> Gpu:
    """The row of a card by its short name or its key. Raises UsageError where there is none."""
    from tprimat.catalog import gpus

    cards = [gpu for gpu in gpus.gpus() if gpu.vendor == "NVIDIA"]
    for gpu in cards:
        if name.lower() in (gpu.short_name.lower(), gpu.key.lower(), gpu.title.lower()):
            return gpu
    names = list(dict.fromkeys(gpu.short_name for gpu in cards))
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    meant = f"the nearest are {', '.join(near)}" if near else f"choose from {', '.join(names)}"
    raise UsageError(f"there is no NVIDIA card {name!r} in the table: {meant}", heading="nemo-options")


def show(framework: Framework, requests: Sequence[Request]) -> None:
    """Prints the recipes that would be run, field by field, where NeMo is here to make them."""
    from tprimat.cli import _benchmark_display as display

    if not framework.divides:
        return
    reason = framework.unavailable()
    if reason is not None:
        display.note(f"the recipe itself can only be shown where NeMo is: {reason}")
        return
    from tprimat.frameworks.nemo import recipe as nemo_recipe

    for request in requests:
        display.say(f"\nThe recipe of {request.model}, as NeMo will get it:")
        for line in nemo_recipe.lines(nemo_recipe.build(request)):
            display.say(f"  {line}")


def submit(options: argparse.Namespace, requests: Sequence[Request], notes: Sequence[str]) -> None:
    """Hands each training to Slurm, or shows the job."""
    from tprimat.cli import _benchmark_display as display
    from tprimat.cli import _display
    from tprimat.cli._display import Verbosity
    from tprimat.frameworks import slurm
    from tprimat.frameworks.nemo import submit as nemo_submit

    output = _display.current()
    job = slurm.job(options.slurm, {name: getattr(options, name, None) for name in slurm.NAMES})
    for note in notes:
        display.note(note)
    for request in requests:
        # A job that is only shown is itself the outcome.
        quiet = options.dry_run and output.verbosity is Verbosity.QUIET
        with output.standard_output() if quiet else contextlib.nullcontext():
            nemo_submit.submit(request, job, dry_run=options.dry_run)
        submitted = {"model": request.model, "folder": str(request.output_dir), "submitted": not options.dry_run}
        output.values.setdefault("jobs", []).append(submitted)
        if not options.dry_run:
            display.say(f"submitted; the result will be in {request.output_dir}")
            _display.summary(str(request.output_dir))


def train_here(requests: Sequence[Request], runs: int, notes: Sequence[str], machine: Machine) -> int:
    """Trains in this process, one of those that torchrun has started; the exit status.

    Raises:
        UsageError: more than one training was asked for.
    """
    if len(requests) * runs > 1:
        raise UsageError("under torchrun one training is run: name one --model, and --runs 1", heading="nemo-options")
    from tprimat.cli import _benchmark_display as display
    from tprimat.cli import _display
    from tprimat.cli._benchmark_session import identity
    from tprimat.cli._display import Verbosity
    from tprimat.frameworks.nemo import training as nemo_training
    from tprimat.machine import platforms
    from tprimat.store import store

    request = requests[0]
    first = os.environ.get("RANK", "0") == "0"

    if first:
        held = platforms.held_by_others(machine)
        for note in [*notes, *([held] if held else [])]:
            display.note(note)
    status = nemo_training.main(request.to_arguments())
    path = request.output_dir / store.file_name(identity(request))
    output = _display.current()
    output.speaks = first
    if first and status == 0 and path.is_file() and output.verbosity in (Verbosity.QUIET, Verbosity.JSON):
        _display.record(store.read(path)[-1], path)
    return status
