"""Reasons for failed trainings, and the log lines that show them."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from tprimat import units
from tprimat.measure.process import TAIL_LINES, ProcessResult
from tprimat.results.run import Run


def why_failed(run: Run | None, child: ProcessResult) -> str:
    """Return why a training failed, in a few words."""
    if child.overdue:
        return "it went on far beyond its time limit, without an end, and was ended"
    if run is not None and run.status_reason:
        return run.status_reason
    if child.status < 0:
        try:
            name = signal.Signals(-child.status).name
        except ValueError:
            name = str(-child.status)
        memory = "; the system does that when memory runs out" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{memory}"
    if child.status == 0:
        return "it ended without writing a result"
    return f"its process ended with status {child.status} before it could write a result"


def why_stopped(child: ProcessResult, limit_s: float | None) -> str | None:
    """Return why a training was ended from here; None where it ended by itself."""
    if child.overdue:
        return f"ended, since it ran longer than {units.duration(limit_s)}"
    return "interrupted by the user" if child.interrupted else None


def shell_status(child: ProcessResult) -> int:
    """Return a process's exit status as shells report it: 130 for Ctrl-C, 128 + N for signal N."""
    if child.interrupted:
        return 128 + signal.SIGINT
    return child.status if child.status >= 0 else 128 - child.status


def last_words(log: Path, tail: Iterable[str]) -> list[str]:
    """Return the lines that say what went wrong: those that begin with `error: `, then the last ones.

    torchrun reports on several processes at length; the first error of the failed one matters.
    """
    errors: list[str] = []
    with contextlib.suppress(OSError), log.open(encoding="utf-8", errors="replace") as lines:
        errors = list(islice((line.rstrip("\n") for line in lines if line.startswith("error: ")), TAIL_LINES))
    return list(dict.fromkeys([*errors, *tail]))
