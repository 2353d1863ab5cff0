"""`gpu-memory`: list who holds the GPUs' memory; on request, stop the caller's own processes
there.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence

from tprimat import console, units
from tprimat.cli._arguments import prints_outcome
from tprimat.cli.options import gpu_memory as memory_options
from tprimat.console import Verbosity
from tprimat.errors import ExitStatus, UsageError
from tprimat.machine import amd, gpu_processes, nvidia
from tprimat.machine.gpu import GpuProcess, GpuState
from tprimat.machine.host import Host
from tprimat.text import plain


@prints_outcome()
def main(options: argparse.Namespace) -> int:
    """List who holds GPU memory; stop the caller's own processes there on request."""
    if options.yes and not options.kill:
        raise UsageError("--yes needs --kill", heading="wrong-usage")
    host = Host()
    output = console.current()
    processes = gpu_processes.list_processes(host)
    if processes is None:
        raise UsageError(
            "found none of nvidia-smi, amd-smi and rocm-smi",
            hint="run it on a machine with a GPU driver",
            heading="memory-held",
        )
    own = [process for process in processes if gpu_processes.can_terminate(process, host)]
    output.values["processes"] = [
        {**vars(process), "may_be_ended": process in own} for process in processes
    ]
    for values in output.values["processes"]:
        del values["gpu_id"]
    states = nvidia.states(host) or amd.states(host)
    gpus = []
    for state in states:
        gpus.append(
            {
                "index": state.index,
                "name": state.name,
                "memory_used_gb": state.memory_used_gb,
                "memory_total_gb": state.memory_total_gb,
            }
        )
    output.values["gpus"] = gpus
    for line in _memory(states):
        console.info(line)
    for number, line in enumerate(_lines(processes, own)):
        console.info(line)
        if number > 0 or not processes:
            console.summary(line)
    if not options.kill:
        if own:
            console.info(f"\nTo stop your own: {memory_options.parser().prog} --kill")
        return ExitStatus.OK
    if not own:
        console.info(
            "\nNone of them can be stopped from here: they belong to other users or run outside"
            " this container."
        )
        return ExitStatus.OK
    if not options.yes and not _is_confirmed(own):
        console.info("No process was stopped.")
        return ExitStatus.OK
    remaining = gpu_processes.terminate(own, host, report=console.info)
    output.values["still_there"] = [process.pid for process in remaining]
    for process in remaining:
        console.warn(f"process {process.pid} is still running")
    if remaining:
        return ExitStatus.TRAINING_FAILED
    return ExitStatus.OK


def _memory(states: Sequence[GpuState]) -> list[str]:
    """Return a table of each GPU's memory and a blank line; nothing if the driver states no GPU."""
    rows = []
    for state in states:
        rows.append(
            [
                str(state.index),
                plain(state.name, 40),
                *map(units.gigabytes, (state.memory_used_gb, state.memory_total_gb)),
            ]
        )
    if rows:
        return [*console.table([["GPU", "name", "used", "total"], *rows]), ""]
    return []


def _lines(processes: Sequence[GpuProcess], own: Sequence[GpuProcess]) -> list[str]:
    if not processes:
        return ["No processes are using GPU memory."]
    is_verbose = console.verbosity() is Verbosity.VERBOSE
    rows = [
        ["GPU", "process", "user", "memory", *(["can be stopped"] if is_verbose else []), "command"]
    ]
    for process in processes:
        user = plain(process.user or units.UNKNOWN, 24)
        ended = ["yes" if process in own else "no"] if is_verbose else []
        command = plain(
            process.command or process.name or units.UNKNOWN, None if is_verbose else 60
        )
        numbers = [process.gpu or units.UNKNOWN, str(process.pid)]
        rows.append([*numbers, user, units.gigabytes(process.memory_gb), *ended, command])
    return console.table(rows)


def _is_confirmed(processes: Sequence[GpuProcess]) -> bool:
    """Ask the user. Raises UsageError if there is nobody to ask."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            "--kill needs a terminal to ask for confirmation",
            hint="add --yes",
            heading="memory-held",
        )
    numbers = ", ".join(str(process.pid) for process in processes)
    noun = "process" if len(processes) == 1 else "processes"
    # The question is for a person, even if the output of the command is for a program.
    visible = console.verbosity() in (Verbosity.NORMAL, Verbosity.VERBOSE)
    with contextlib.nullcontext() if visible else contextlib.redirect_stdout(sys.stderr):
        answer = input(f"\nTerminate your {noun} {numbers}? [y/N] ")
    return answer.strip().lower() in ("y", "yes")
