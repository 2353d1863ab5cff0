"""The commands, one file each, main(options) -> exit status; and run(), which scripts and `tprimat
COMMAND` call.
"""

from tprimat import current_directory

current_directory.forget()

import argparse
import errno
import importlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from tprimat.errors import (
    INSTALL,
    INSTALL_ANALYSIS,
    ExitStatus,
    TensorPrimatError,
    UsageError,
    missing_package,
)
from tprimat.files import unreadable
from tprimat.location import go_on_in_own_environment
from tprimat.redaction import INCLUDE_HOST, redacted
from tprimat.text import plain

COMMANDS = {
    "audit": "find contradictions in published training results",
    "benchmark": "measure LLM training on this machine",
    "collect": "collect the results of a Slurm job",
    "compare": "compare results: which system is faster, by how much",
    "compare-frameworks": "compare the frameworks in a directory of results",
    "convert": "convert a model between Hugging Face and NeMo formats",
    "doctor": "check this machine: hardware, software, frameworks",
    "efficiency": "compute MFU, cost, energy, memory and time to train",
    "explain": "explain the difference of two profiler traces",
    "export": "export steps as CSV, JSON lines or Parquet",
    "extract-primus": "import a Primus or Megatron-LM log",
    "gpu-memory": "list processes using GPU memory, and stop yours",
    "nvd-compare": "compare the frameworks in results of NVIDIA GPUs",
    "preflight": "measure what this machine sustains",
    "primus-config": "resolve a Primus configuration",
    "project": "project throughput to higher GPU counts",
    "publish": "publish results as a static site",
    "read": "import training logs from any supported framework",
    "run-primus": "train with AMD Primus and save the result",
    "verify": "recompute the values of a bundle from its logs",
    "watch": "follow a training while it runs",
}
"""The text of each command in `tprimat --help`; its module has the same name, with underscores."""

ALIASES = {"enhanced-metrics": "efficiency"}
"""Older names of commands."""

FIRST_ERROR_S = 3.0
"""Seconds that torchrun's other processes on a machine wait for the one that prints an error of the
user, which occurs in all of them.
"""

_ANALYSIS_TIER = {
    "filelock",
    "jinja2",
    "matplotlib",
    "msgspec",
    "numpy",
    "openpyxl",
    "psutil",
    "rich",
    "scipy",
}


def run(command: str, argv: Sequence[str] | None = None, again: Sequence[str] = ()) -> int:
    """Run the command of this name in COMMANDS; turn errors into an exit status and messages.

    Args:
        command: a key of COMMANDS, or an alias.
        argv: its arguments; None for those of this process.
        again: the file and the arguments that start this program again.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    # A stream that the caller closed (`>&-`) is None in Python.
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open until the end
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    status: int = ExitStatus.OK
    try:
        name = ALIASES.get(command, command).replace("-", "_")
        parser = importlib.import_module(f"tprimat.cli.options.{name}").parser()
        options = parser.parse_args(arguments)
        if getattr(options, "include_host", False):
            os.environ[INCLUDE_HOST] = "1"
        _recover_lost_trainings(options)
        status = int(importlib.import_module(f"tprimat.cli.{name}").main(options))
        sys.stdout.flush()  # what can't be written fails here, not after the status is given
        return status
    except TensorPrimatError as error:
        local_rank = os.environ.get("LOCAL_RANK", os.environ.get("RANK", "0"))
        if isinstance(error, UsageError) and "WORLD_SIZE" in os.environ and local_rank != "0":
            time.sleep(FIRST_ERROR_S)
        else:
            print(error.line(), file=sys.stderr)
        return error.status
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package in ("", "tprimat"):
            return _internal_error(error)
        if again or argv is None:
            go_on_in_own_environment(again or sys.argv)
        install = INSTALL_ANALYSIS if package in _ANALYSIS_TIER else INSTALL
        print(missing_package(package, install, f"tprimat {command}").line(), file=sys.stderr)
        return ExitStatus.USAGE
    except MemoryError as error:
        print(unreadable(f"tprimat {command}", error).line(), file=sys.stderr)
        return ExitStatus.USAGE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return ExitStatus.TRAINING_FAILED
    except BrokenPipeError:  # the output pipe was closed (`… | head`)
        drop_output()
        return status
    except OSError as error:
        return _system_error(error)
    except Exception as error:  # noqa: BLE001 - the last line of defence: an internal error, reported in short
        return _internal_error(error)


def _system_error(error: OSError) -> int:
    """Report what the system refused, and return the exit status."""
    refused = (errno.ENAMETOOLONG, errno.EACCES, errno.EPERM)
    if error.filename is not None and error.errno in refused:
        print(unreadable(plain(str(error.filename), 120), error).line(), file=sys.stderr)
        return ExitStatus.USAGE
    if error.errno == errno.EIO and error.filename is None and not sys.stdout.isatty():
        # The terminal has hung up.
        drop_output(sys.stdout, sys.stderr)
        return ExitStatus.TRAINING_FAILED
    if error.errno not in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)):
        return _internal_error(error)
    drop_output()
    no_space = UsageError(
        error.strerror or "disk full", heading="unwritable-directory", hint="free some space"
    )
    print(no_space.line(), file=sys.stderr)
    return ExitStatus.USAGE


def drop_output(*streams: TextIO) -> None:
    """Discard what these streams (by default stdout) still have to write; Python would report the
    error again when it exits.
    """
    for stream in streams or (sys.stdout,):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _recover_lost_trainings(options: argparse.Namespace) -> None:
    """Write the results of runs that were killed, found in the results directories, and report
    them.

    Any value of an option may name such a directory, as in `tprimat compare DIR` and `tprimat
    publish FILE`.
    """
    from tprimat.record import folders

    named = []
    for name, value in vars(options).items():
        if name not in ("argv", "passed", "words_of_nodes"):
            values = value if isinstance(value, (list, tuple)) else [value]
            named += [Path(text) for text in values if text and isinstance(text, (str, Path))]
    journal_folders = folders.with_journals(named)
    if not journal_folders:
        return
    from tprimat.record import recovery

    for folder in journal_folders:
        for recovered in recovery.recover(folder):
            print(f"note: {plain(recovered.line)}", file=sys.stderr)


def _internal_error(error: Exception) -> int:
    import tempfile  # here, since each --help would pay for them
    import traceback

    summary = " ".join(redacted(f"{type(error).__name__}: {error}").split())[:200]
    try:
        descriptor, where = tempfile.mkstemp(".txt", "tprimat-error-")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(redacted("".join(traceback.format_exception(error))))
    except OSError:
        where = "this line"  # no space for more
    hint = f"hint:  please report it and attach {where}\nsee:   docs/troubleshooting.md#fault"
    print(f"internal error: {summary}\n{hint}", file=sys.stderr)
    return ExitStatus.INTERNAL_ERROR
