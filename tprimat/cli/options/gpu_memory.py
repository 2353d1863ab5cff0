"""The options of `gpu-memory`."""

from __future__ import annotations

from tprimat.cli.options._parser import Parser

DESCRIPTION = """\
Show the memory of each GPU, and the processes that use it. With --kill, stop your own after a confirmation:
by process ID, never by name, and never those of other users.
"""

EPILOG = """\
Uses nvidia-smi, amd-smi or rocm-smi. Sends SIGTERM first, SIGKILL if the process does not exit.
Exit status: {OK} success, {USAGE} wrong usage or none of the tools is installed, {TRAINING_FAILED} a process is
still running.
"""


def parser() -> Parser:
    """Return the parser of `gpu-memory`."""
    parser = Parser("gpu-memory", description=DESCRIPTION, epilog=EPILOG)
    parser.option("--kill", "stop your own processes that use GPU memory")
    parser.option("--yes", "skip the confirmation of --kill")
    parser.add_output_options(
        False,
        quiet="print only the processes, one per line",
        verbose="print full command lines and which processes can be stopped",
        json="print JSON: GPUs, processes, exit status",
    )
    return parser
