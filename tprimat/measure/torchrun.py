"""Runs whose processes the user's torchrun has started: this process is one of them, and trains
itself.
"""

from __future__ import annotations

import os
from pathlib import Path

from tprimat import console
from tprimat.analysis.summary import summarize
from tprimat.console import Verbosity
from tprimat.errors import ExitStatus, UsageError
from tprimat.files import check_writable
from tprimat.frameworks.encdec import launch as encdec
from tprimat.frameworks.encdec.request import EncDecRequest, RequestedEncDec
from tprimat.frameworks.loops.launch import cores
from tprimat.frameworks.request import Device
from tprimat.machine import platforms, torch_build
from tprimat.machine.platforms import Machine
from tprimat.measure import display
from tprimat.measure.plan import Plan
from tprimat.record.ranks import Process
from tprimat.results.run import Environment
from tprimat.store import store


def train_nemo(plan: Plan, machine: Machine) -> int:
    """Train with NeMo in this process; the exit status. Raises UsageError for more than one
    training.
    """
    if len(plan.requests) * plan.runs > 1:
        raise UsageError(
            "torchrun starts a single run: use one --model and --runs 1", heading="nemo-options"
        )
    from tprimat.frameworks.loops import processes
    from tprimat.frameworks.nemo import training as nemo_training

    request = plan.requests[0]
    first = os.environ.get("RANK", "0") == "0"
    if first:
        for note in filter(None, (*plan.notes, platforms.held_by_others(machine))):
            console.note(note)
    status = processes.main(request.to_arguments(), nemo_training.train)
    usual = Path(plan.framework_of(request).launcher.result_name(request)).stem
    output = console.current()
    output.is_main_process = first
    if first and status == 0 and output.verbosity in (Verbosity.QUIET, Verbosity.JSON):
        # Another configuration may have the usual name.
        written = sorted(
            request.output_dir.glob(f"{usual}*.json"), key=lambda path: path.stat().st_mtime
        )
        for path in written[-1:]:
            console.record(store.read(path)[-1], path)
    return status


def train_encdec(requested: RequestedEncDec, process: Process, output_dir: Path) -> int:
    """Train the encoder-decoder in this process; the exit status."""
    from tprimat.frameworks.encdec import loop

    request, notes = encdec.resolve_config(
        requested.but(num_gpus=process.world_size), device_of_rank(process), Path.cwd() / output_dir
    )
    if process.is_first:
        check_writable(request.output_dir)
        notes = (*notes, *_threads_note(request, process))
        display.introduce_requests(
            Plan((encdec.ENCDEC,), (request,), output_dir, notes=notes), Environment()
        )
    trained = loop.train(request, process, say=console.info)
    run = trained.result
    if run is None or not process.is_first:
        return ExitStatus.OK
    console.record(run, trained.path)
    summary = summarize(run)
    display.figures(encdec.LAUNCHER.figures(run, summary))
    for text in dict.fromkeys((*run.warnings, *summary.warnings)):
        console.note(text)
    if trained.path is None:
        console.warn("result not saved")
    console.info(f"\nResults: {trained.path or 'not saved'}")
    if run.status == "complete":
        console.info(f"Next:    {display.comparison_of(output_dir)}")
        return ExitStatus.OK
    console.error(f"{run.status_reason}; partial results saved (status: incomplete)")
    return ExitStatus.TRAINING_FAILED


def device_of_rank(process: Process) -> Device:
    """Return the device of one of several processes; raises UsageError if it has no GPU.

    It asks torch alone: eight processes that ask the drivers take seconds.
    """
    import torch

    if not torch.cuda.is_available():
        return Device("cpu", max(process.world_size, cores()), None)
    count = torch.cuda.device_count()
    if process.local_rank >= count:
        raise UsageError(
            f"process {process.local_rank + 1} has no GPU: this machine has {count}",
            hint=f"use torchrun --nproc_per_node={count}",
            heading="torchrun",
        )
    properties = torch.cuda.get_device_properties(process.local_rank)
    return Device(
        torch_build.platform_of_gpus(torch),
        process.world_size,
        float(properties.total_memory),
        None if torch.version.hip else f"sm_{properties.major}{properties.minor}",
    )


def _threads_note(request: EncDecRequest, process: Process) -> list[str]:
    """Return a note where torchrun gave each process fewer threads than the machine has."""
    import torch

    threads = torch.get_num_threads()
    share = cores() // process.local_world_size
    if request.platform != "cpu" or threads >= share:
        return []
    return [
        f"each process uses {threads} of {share} available threads: set OMP_NUM_THREADS={share}"
    ]
