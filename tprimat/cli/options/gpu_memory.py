"""The options of `gpu-memory`."""

from __future__ import annotations

import os

from tprimat.cli.options._parser import Parser, add_output_options, option

DESCRIPTION = """\
Shows which processes hold GPU memory. With --kill, and after a question, ends those
of the calling user: by their numbers, never by name, and never those of others.
"""

EPILOG = """\
Asks nvidia-smi, amd-smi or rocm-smi, whichever is here. A process is first asked to end (TERM), and
killed only when it is still there after a while. Exit status: 0 well, 2 wrong usage or none of the
tools is here, 5 a process is still there.
"""


def parser() -> Parser:
    """Return the parser of `gpu-memory`."""
    script = os.environ.get("TPRIMAT_SCRIPT")
    parser = Parser("gpu-memory", prog=script, description=DESCRIPTION, epilog=EPILOG)
    option(parser, "--kill", "end the processes of the calling user that hold GPU memory")
    option(parser, "--yes", "with --kill: don't ask")
    add_output_options(
        parser,
        quiet="print the processes alone, a line each",
        verbose="print whole command lines, and which processes may be ended from here",
        json="print one document for a program: the processes, exit status",
    )
    return parser
