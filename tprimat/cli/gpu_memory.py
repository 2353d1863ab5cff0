"""`gpu-memory`: who holds the GPUs' memory; and, when asked to, ends the caller's own processes there."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tprimat import console
from tprimat.cli import _display
from tprimat.cli._arguments import verbosity
from tprimat.cli._display import Verbosity
from tprimat.cli.options._parser import Parser, add_output_options
from tprimat.errors import ExitStatus, UsageError

if TYPE_CHECKING:
    from tprimat.machine.gpu_processes import Process

DESCRIPTION = """\
Shows which processes hold GPU memory. With --kill, and after a question, ends those
of the calling user: by their numbers, never by name, and never those of others.
"""

EPILOG = """\
Asks nvidia-smi, amd-smi or rocm-smi, whichever is here. A process is first asked to end (TERM), and
killed only when it is still there after a while. Exit status: 0 well, 2 wrong usage or none of the
tools is here, 5 a process is still there.
"""


def main(argv: Sequence[str]) -> int:
    """Shows who holds GPU memory; ends the caller's own processes there when asked to.

    Args:
        argv: arguments, without the program's name.
    """
    options = _parser().parse_args(argv)
    if options.yes and not options.kill:
        raise UsageError("--yes answers the question of --kill: give both", heading="wrong-usage")
    with _display.capture_output(verbosity(options)) as output:
        return output.finish(_looked(options))


def _looked(options: argparse.Namespace) -> int:
    from tprimat.machine import gpu_processes
    from tprimat.machine.host import Host

    host, output = Host(), _display.current()
    listed = gpu_processes.listed(host)
    if listed is None:
        raise UsageError(
            "none of nvidia-smi, amd-smi and rocm-smi is here: run this where the GPUs' driver is installed",
            heading="memory-held",
        )
    ours = [process for process in listed if gpu_processes.may_end(process, host)]
    output.values["processes"] = [{**dataclasses.asdict(each), "may_be_ended": each in ours} for each in listed]
    for number, line in enumerate(_shown(listed, ours)):
        console.info(line)
        if number > 0 or not listed:
            _display.summary(line)
    if not options.kill:
        if ours:
            console.info(f"\nTo end those of yours: {_program()} --kill")
        return ExitStatus.WELL
    if not ours:
        console.info(
            "\nNone of them can be ended from here: they are another user's, or run outside of this container."
        )
        return ExitStatus.WELL
    if not options.yes and not _agreed(ours):
        console.info("Nothing was ended.")
        return ExitStatus.WELL
    left = gpu_processes.end(ours, host, say=console.info)
    output.values["still_there"] = [process.pid for process in left]
    for process in left:
        _display.warn(f"process {process.pid} is still there")
    return ExitStatus.TRAINING_FAILED if left else ExitStatus.WELL


def _shown(processes: Sequence[Process], ours: Sequence[Process]) -> list[str]:
    from tprimat import units
    from tprimat.text import plain

    if not processes:
        return ["No process holds GPU memory."]
    everything = _display.verbosity() is Verbosity.VERBOSE
    rows = [["GPU", "process", "user", "memory", *(["may be ended"] if everything else []), "command"]]
    rows += [
        [
            process.gpu or units.UNKNOWN,
            str(process.pid),
            plain(process.user or units.UNKNOWN, 24),
            units.gigabytes(process.memory_gb),
            *(["yes" if process in ours else "no"] if everything else []),
            plain(process.command or process.name or units.UNKNOWN, None if everything else 60),
        ]
        for process in processes
    ]
    return console.table(rows)


def _agreed(processes: Sequence[Process]) -> bool:
    """Asks the user. Raises UsageError where there is nobody to ask."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            "--kill asks before it ends anything, and nobody is here to ask: add --yes", heading="memory-held"
        )
    numbers = ", ".join(str(process.pid) for process in processes)
    what = "process" if len(processes) == 1 else "processes"
    # The question is for a person, also where the answer of the command is for a program.
    aloud = _display.verbosity() in (Verbosity.NORMAL, Verbosity.VERBOSE)
    with contextlib.nullcontext() if aloud else contextlib.redirect_stdout(sys.stderr):
        answer = input(f"\nEnd {what} {numbers} of yours? [y/N] ")
    return answer.strip().lower() in ("y", "yes")


def _program() -> str:
    program = Path(sys.argv[0]).name
    return os.environ.get("TPRIMAT_SCRIPT") or (
        "tprimat gpu-memory" if program in ("tprimat", "__main__.py") else program
    )


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=_program(),
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--kill", action="store_true", help="end the processes of the calling user that hold GPU memory"
    )
    parser.add_argument("--yes", action="store_true", help="with --kill: don't ask")
    add_output_options(
        parser,
        quiet="print the processes alone, a line each",
        verbose="print whole command lines, and which processes may be ended from here",
        json="print one document for a program: the processes, exit status",
    )
    return parser
