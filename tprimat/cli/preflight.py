"""preflight: measure what this machine sustains before a benchmark, and report what may slow it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import msgspec

from tprimat import console
from tprimat.cli._arguments import prints_outcome
from tprimat.errors import ExitStatus, UsageError
from tprimat.machine import platforms
from tprimat.measure import preflight
from tprimat.measure.display import short_path
from tprimat.preflight import worker
from tprimat.preflight.plan import plan_of
from tprimat.record.ranks import from_environment
from tprimat.report import preflight as report
from tprimat.report import terminal
from tprimat.results.preflight import PreflightFile
from tprimat.store import preflight as store
from tprimat.text import counted


@prints_outcome()
def main(options: argparse.Namespace) -> int:
    """Measure, here or as one of torchrun's processes; show and write what was measured."""
    preflight.check_torch()
    output_dir = Path.cwd() / options.output_dir
    process = from_environment(os.environ)
    if process is None:
        file: PreflightFile | None = _start(options, output_dir)
    else:
        console.current().is_main_process = process.is_first
        if options.gpus not in (None, process.world_size):
            raise UsageError(
                f"--gpus {options.gpus}, but {counted(process.world_size, 'process')} were started",
                hint="remove --gpus",
                heading="torchrun",
            )
        file = preflight.measure_here(
            process, worker.platform_here(), output_dir, quick=options.quick
        )
    if file is None:
        return ExitStatus.OK
    path = short_path(store.write(file, output_dir))
    # The file as it was written has pseudonyms.
    file = store.read(path) or file
    output = console.current()
    output.paths.append(str(path))
    output.values.update({**msgspec.to_builtins(file), "path": str(path)})
    console.info(terminal.write(report.document(file, path), verbosity=output.verbosity).rstrip())
    for finding in file.findings:
        console.warn(finding.text)
    if file.is_ready:
        return ExitStatus.OK
    return ExitStatus.SLOWER


def _start(options: argparse.Namespace, output_dir: Path) -> PreflightFile:
    """Start a process for each device. Raises UsageError if there are fewer devices."""
    machine = platforms.detect()
    if machine.unusable_gpu:
        raise UsageError(
            machine.unusable_gpu,
            hint="fix the GPU driver, or set CUDA_VISIBLE_DEVICES=-1 to measure the CPU",
            heading="unusable-gpu",
        )
    count = len(machine.devices)
    if count and (options.gpus or 1) > count:
        raise UsageError(
            f"--gpus {options.gpus}: this machine has {counted(count, 'GPU')}",
            hint=f"use --gpus {count}",
            heading="too-many-gpus",
        )
    processes = options.gpus or count or 1
    seconds = plan_of(machine.platform, quick=options.quick).seconds(processes)
    console.info(f"measuring for about {10 * max(1, round(seconds / 10 + 1))} s")
    return preflight.measure(machine, processes, output_dir, quick=options.quick)
