"""`benchmark --model encdec`: the encoder-decoder, started from here or by torchrun.

Where RANK and WORLD_SIZE are set, this process is one of those that train. Where they aren't, it
starts them, watches, and sums up.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import os
import time
from pathlib import Path

from tprimat import console
from tprimat.cli.options import encdec as encdec_options
from tprimat.errors import ExitStatus, TensorPrimatError, UsageError
from tprimat.frameworks.encdec import launch as encdec
from tprimat.frameworks.encdec.request import MODEL, RequestedSettings
from tprimat.machine import platforms
from tprimat.measure import session, torchrun
from tprimat.measure.plan import Plan, cooldown, device_of
from tprimat.record.ranks import Process, from_environment
from tprimat.text import counted


def measure(options: argparse.Namespace) -> int:
    """Measure, or show what would be run; the exit status."""
    process = from_environment(os.environ)
    if process is None:
        return _start(options, requested_config(options))
    console.current().is_main_process = process.is_first
    try:
        requested = requested_config(options)
        _check_ranks(options, process)
        _check_packages()
        return torchrun.train_encdec(requested, process, options.output_dir)
    except TensorPrimatError as error:
        if process.local_rank == 0:
            raise
        # All of them meet the same error: one prints it, before torchrun ends it because of another.
        time.sleep(encdec_options.FIRST_ERROR_S)
        return error.status


def requested_config(options: argparse.Namespace) -> RequestedSettings:
    """Return the options as settings of the training. Raises UsageError for wrong ones."""
    if options.model != MODEL:
        raise UsageError(
            f"this trains the encoder-decoder, not {options.model}: ./benchmark.py --model {options.model}",
            heading="encoder-decoder",
        )
    if options.single and options.gpus not in (None, 1):
        raise UsageError(f"--single and --gpus {options.gpus} contradict each other", heading="encoder-decoder")
    data_dir = options.data_dir or (Path(encdec_options.DISK_FOLDER) if options.disk else None)
    names = {field.name for field in dataclasses.fields(RequestedSettings)}
    fields = {name: value for name, value in vars(options).items() if name in names and value is not None}
    fields |= {
        "data_dir": data_dir.expanduser().resolve() if data_dir is not None else None,
        "num_gpus": 1 if options.single else options.gpus,
        "time_limit_s": options.time_limit,
    }
    requested = RequestedSettings(**fields)
    encdec.check(requested)
    return requested


def _start(options: argparse.Namespace, requested: RequestedSettings) -> int:
    """Start the processes, from here."""
    _check_packages()
    machine = platforms.detect()
    request, notes = encdec.resolve_config(requested, device_of(machine), Path.cwd() / options.output_dir)
    plan = Plan(
        frameworks=(encdec.ENCDEC,),
        requests=(request,),
        output_dir=options.output_dir,
        runs=options.runs,
        cooldown_s=cooldown(options.cooldown, request.platform),
        notes=(*machine.warnings, *notes),
    )
    if options.dry_run:
        session.show(plan, machine)
        return ExitStatus.WELL
    return session.measure(plan, machine)[0]


def _check_ranks(options: argparse.Namespace, process: Process) -> None:
    """Refuse options that say what torchrun has said already."""
    world = process.world_size
    processes = counted(world, "process")
    wrong = None
    if options.single and world > 1:
        wrong = f"--single, and {processes} were started: start one (torchrun --nproc_per_node=1)"
    elif options.gpus not in (None, world) and not options.single:
        wrong = f"--gpus {options.gpus}, and {processes} were started: leave --gpus out"
    elif options.runs > 1:
        wrong = f"--runs {options.runs} takes fresh processes for each run: leave torchrun out"
    elif options.dry_run:
        wrong = "--dry-run shows what would be started, and torchrun has started it already: leave torchrun out"
    if wrong is not None:
        raise UsageError(wrong, heading="torchrun")


def _check_packages() -> None:
    """End here, with the command that brings it, where a package is missing; what looks for a GPU goes on without."""
    for package in ("numpy", "torch"):
        importlib.import_module(package)
