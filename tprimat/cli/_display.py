"""The console of the commands, whose document for a program the reports write."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

from tprimat import console
from tprimat.console import (
    Output,
    Verbosity,
    current,
    debug,
    echo,
    info,
    record,
    summary,
    terminal_size,
    verbosity,
    warn,
)

__all__ = [
    "Output",
    "Verbosity",
    "capture_output",
    "current",
    "debug",
    "echo",
    "info",
    "record",
    "summary",
    "terminal_size",
    "verbosity",
    "warn",
]


def capture_output(level: Verbosity, **values: Any) -> contextlib.AbstractContextManager[Output]:
    """Make everything that is printed follow the verbosity; see console.capture_output()."""
    return console.capture_output(level, lambda: importlib.import_module("tprimat.report.machine"), **values)
