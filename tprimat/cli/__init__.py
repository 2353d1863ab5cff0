"""The commands: one file each, main(options) -> exit status; and how one is run.

Every way in calls run(): the scripts at the root and in scripts/, and `tprimat <command>`.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tprimat.errors import INSTALL, INSTALL_ANALYSIS, ExitStatus, TensorPrimatError, missing_package
from tprimat.text import plain

COMMANDS = {
    "benchmark": "measure the training of language models on this machine",
    "compare": "set results against each other: console, picture, report",
    "compare-frameworks": "set the frameworks in train_*.json against each other, model by model",
    "convert": "turn a model from Hugging Face's form into NeMo's, and back",
    "doctor": "what this machine has, what it can run, what is missing and how to get it",
    "enhanced-metrics": "MFU, cost, energy, memory and time to train of results",
    "extract-primus": "turn the log of a Primus training into a result",
    "gpu-memory": "show who holds GPU memory, and end your own processes there",
    "nvd-compare": "the frameworks in train_*.json of NVIDIA's GPUs against each other",
    "primus-config": "show what a configuration of Primus really trains",
    "read": "turn the logs of trainings, of whatever framework, into results",
    "run-primus": "train with AMD's Primus: check, run, keep the log, make the result",
}
"""What `tprimat --help` lists; the module is the name with underscores."""

_ANALYSIS_TIER = {"filelock", "matplotlib", "msgspec", "numpy", "openpyxl", "plotly", "psutil", "rich", "scipy"}


def run(command: str, argv: Sequence[str] | None = None) -> int:
    """Run a command and turn whatever happens into an exit status and at most one line.

    Args:
        command: a name in COMMANDS.
        argv: its arguments, without the program's name; None for those of this process.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    # Python has None for a stream that the caller closed (`>&-`).
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open until the end
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    status: int = ExitStatus.WELL
    try:
        name = command.replace("-", "_")
        options = importlib.import_module(f"tprimat.cli.options.{name}").parser().parse_args(arguments)
        _recover_lost_trainings(arguments)
        status = int(importlib.import_module(f"tprimat.cli.{name}").main(options))
        sys.stdout.flush()  # what can't be written fails here, not after the status is given
        return status
    except TensorPrimatError as error:
        print(error.line(), file=sys.stderr)
        return error.status
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package in ("", "tprimat"):
            return _fault(error)
        if argv is None:
            _go_on_in_own_environment()
        install = INSTALL_ANALYSIS if package in _ANALYSIS_TIER else INSTALL
        print(missing_package(package, install, f"tprimat {command}").line(), file=sys.stderr)
        return ExitStatus.USAGE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return ExitStatus.TRAINING_FAILED
    except BrokenPipeError:
        # The reader of our output has gone (`… | head`).
        _drop_output()
        return status
    except OSError as error:
        if error.errno not in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)):
            return _fault(error)
        _drop_output()
        print(f"error: {error.strerror}: free some space (docs/troubleshooting.md#unwritable-folder)", file=sys.stderr)
        return ExitStatus.USAGE
    except Exception as error:  # noqa: BLE001 - the last line of defence: a fault of ours, said in one line
        return _fault(error)


def _drop_output() -> None:
    """Sends what stdout still holds nowhere; Python would complain again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _recover_lost_trainings(arguments: Sequence[str]) -> None:
    """Recover killed trainings in the results folders into results, and report them."""
    from tprimat.record import folders

    journal_folders = [] if {"-h", "--help"} & set(arguments) else folders.with_journals(arguments)
    if not journal_folders:
        return
    from tprimat.record import recovery

    for folder in journal_folders:
        for each in recovery.recover(folder):
            print(f"note: {plain(each.line)}", file=sys.stderr)


def _go_on_in_own_environment() -> None:
    """Restart this script with the clone's .venv, unless there is none or this is it.

    Only called when a package is missing, so a container's own Python is never left.
    """
    folder = Path(__file__).resolve().parents[2] / ".venv"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists() or Path(sys.prefix).resolve() == folder.resolve() or not Path(sys.argv[0]).is_file():
        return
    command = [str(python), *sys.argv]
    if os.name == "nt":
        # Windows has no exec that keeps the caller waiting.
        import subprocess

        sys.exit(subprocess.run(command, check=False).returncode)
    os.execv(command[0], command)


def _fault(error: Exception) -> int:
    # Imported here: each --help would pay for them.
    import tempfile
    import traceback

    summary = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="tprimat-fault-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            traceback.print_exception(error, file=file)
        where = file.name
    except OSError:
        where = "this line"  # no space for more
    print(
        f"fault of TensorPrimat: {summary}: please report it with {where} (docs/troubleshooting.md#fault)",
        file=sys.stderr,
    )
    return ExitStatus.FAULT
