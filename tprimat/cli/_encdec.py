"""`benchmark --model encdec`: the encoder-decoder, started from here or by torchrun.

If RANK and WORLD_SIZE are set, this process is one of those that train. If they aren't, it starts
these processes, watches them, and summarizes their results.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import os
from pathlib import Path

from tprimat import console
from tprimat.cli.options import encdec as encdec_options
from tprimat.errors import ExitStatus, UsageError
from tprimat.frameworks.encdec import launch as encdec
from tprimat.frameworks.encdec.request import MODEL, RequestedEncDec
from tprimat.machine import platforms
from tprimat.measure import session, torchrun
from tprimat.measure.plan import device_of, plan_for
from tprimat.record.ranks import Process, from_environment
from tprimat.text import counted


def measure(options: argparse.Namespace) -> int:
    """Measure, or show what would be run; return the exit status."""
    process = from_environment(os.environ)
    if process is None:
        return _start(options)
    console.current().is_main_process = process.is_first
    requested = requested_config(options)
    _check_ranks(options, process)
    _check_packages()
    return torchrun.train_encdec(requested, process, options.output_dir)


def requested_config(options: argparse.Namespace) -> RequestedEncDec:
    """Return the options as settings of the training. Raises UsageError for wrong ones."""
    model = options.model
    gpus = options.gpus
    if model != MODEL:
        raise UsageError(
            f"these options are for the encoder-decoder, not {model}",
            hint=f"./benchmark.py --model {model}",
            heading="encoder-decoder",
        )
    if options.single and gpus not in (None, 1):
        raise UsageError(
            f"--single and --gpus {gpus} contradict each other", heading="encoder-decoder"
        )
    data_dir = options.data_dir or (Path(encdec_options.DISK_FOLDER) if options.disk else None)
    stated = {
        **vars(options),
        "data_dir": data_dir.expanduser().resolve() if data_dir is not None else None,
        "num_gpus": 1 if options.single else gpus,
        "micro_batch_size": options.batch_size,
        "sequence_length": options.seq_len,
        "time_limit_s": options.time_limit,
    }
    return RequestedEncDec(
        **{name: stated[name] for name in RequestedEncDec.DEFAULTS if stated.get(name) is not None}
    )


def _start(options: argparse.Namespace) -> int:
    requested = requested_config(options)
    _check_packages()
    machine = platforms.detect()
    request, notes = encdec.resolve_config(
        requested, device_of(machine), Path.cwd() / options.output_dir
    )
    plan = plan_for(
        options, encdec.ENCDEC, [request], request.platform, (*machine.warnings, *notes)
    )
    if options.dry_run:
        session.show(plan, machine)
        return ExitStatus.OK
    return session.measure(dataclasses.replace(plan, arguments=options.argv), machine)[0]


def _check_ranks(options: argparse.Namespace, process: Process) -> None:
    """Refuse options for what torchrun has already decided."""
    world = process.world_size
    wrong = None
    processes = counted(world, "process")
    if options.single and world > 1:
        wrong = f"--single, but {processes} were started: use torchrun --nproc_per_node=1"
    elif options.gpus not in (None, world) and not options.single:
        wrong = f"--gpus {options.gpus}, but {processes} were started: remove --gpus"
    elif options.runs > 1:
        wrong = f"--runs {options.runs} starts its own processes: run it without torchrun"
    elif options.dry_run:
        wrong = "--dry-run starts nothing: run it without torchrun"
    if wrong is not None:
        raise UsageError(wrong, heading="torchrun")


def _check_packages() -> None:
    """Fail here if a package is missing, with the command that installs it, since the search for a
    GPU would go on without it.
    """
    for package in ("numpy", "torch"):
        importlib.import_module(package)
