"""`gpu-memory`: who holds the GPUs' memory; and, when asked to, ends the caller's own processes there."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tprimat.commands._arguments import Parser
from tprimat.errors import ExitStatus, UsageError

if TYPE_CHECKING:
    from tprimat.gpu_processes import Process

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
    from tprimat import gpu_processes
    from tprimat.commands import _benchmark_display as display
    from tprimat.host import Host

    host = Host()
    listed = gpu_processes.listed(host)
    if listed is None:
        raise UsageError(
            "none of nvidia-smi, amd-smi and rocm-smi is here: run this where the GPUs' driver is installed",
            heading="memory-held",
        )
    for line in _shown(listed):
        display.say(line)
    ours = [process for process in listed if gpu_processes.may_end(process, host)]
    if not options.kill:
        if ours:
            display.say(f"\nTo end those of yours: {_program()} --kill")
        return ExitStatus.WELL
    if not ours:
        display.say("\nNone of them can be ended from here: they are another user's, or run outside of this container.")
        return ExitStatus.WELL
    if not options.yes and not _agreed(ours):
        display.say("Nothing was ended.")
        return ExitStatus.WELL
    left = gpu_processes.end(ours, host, say=display.say)
    return ExitStatus.TRAINING_FAILED if left else ExitStatus.WELL


def _shown(processes: Sequence[Process]) -> list[str]:
    from tprimat import units
    from tprimat.commands import _benchmark_display as display
    from tprimat.text import plain

    if not processes:
        return ["No process holds GPU memory."]
    rows = [("GPU", "process", "user", "memory", "command")]
    rows += [
        (
            process.gpu or units.UNKNOWN,
            str(process.pid),
            plain(process.user or units.UNKNOWN, 24),
            units.gigabytes(process.memory_gb),
            plain(process.command or process.name or units.UNKNOWN, 60),
        )
        for process in processes
    ]
    return display.table(rows)


def _agreed(processes: Sequence[Process]) -> bool:
    """Asks the user. Raises UsageError where there is nobody to ask."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            "--kill asks before it ends anything, and nobody is here to ask: add --yes", heading="memory-held"
        )
    numbers = ", ".join(str(process.pid) for process in processes)
    what = "process" if len(processes) == 1 else "processes"
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
    return parser
