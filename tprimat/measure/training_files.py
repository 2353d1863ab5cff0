"""The files of a training: its log, the copy of the newest log, and the result."""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import tempfile
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from tprimat import console
from tprimat.files import unwritable
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.primus import start_record
from tprimat.frameworks.request import Request
from tprimat.measure import process
from tprimat.measure.output import TAIL_LINES
from tprimat.record import recovery
from tprimat.record.progress import Saved
from tprimat.results.run import Run
from tprimat.store import store

LOGS = "logs"


def check_writable(folder: Path) -> None:
    """Refuse a folder that can't take the result, before an hour was spent on it. Raises UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return
    except OSError as error:
        raise unwritable(folder, error, "the result can't be written") from error


def recover(request: Request, earlier: set[str]) -> tuple[Run, Path] | None:
    """Return what a training that was killed has left in its journal, which wasn't there before."""
    recovered = None
    for each in recovery.recover(request.output_dir):
        console.note(each.line, weakens=True)
        run, path = each.run, each.path
        if run and path and each.journal not in earlier and (run.model, run.label) == (request.model, request.label):
            recovered = run, path
    return recovered


def log_path(framework: Framework, request: Request) -> Path:
    """Make a new log: beside the results where a copy of the newest is kept there, else in a folder of logs."""
    moment = f"{datetime.datetime.now():%Y%m%d_%H%M%S}"
    beside_results = framework.hook("latest_log")(request) is not None
    folder = request.output_dir if beside_results else request.output_dir / LOGS
    return process.new_log(folder, framework.hook("log_name")(request, moment))


def last_words(log: Path, tail: Iterable[str]) -> list[str]:
    """Return the lines that say what went wrong: those that begin with `error: `, then the last ones.

    torchrun reports on several processes at length; the first error of the failed one matters.
    """
    errors: list[str] = []
    with contextlib.suppress(OSError), log.open(encoding="utf-8", errors="replace") as lines:
        errors = list(islice((line.rstrip("\n") for line in lines if line.startswith("error: ")), TAIL_LINES))
    return list(dict.fromkeys([*errors, *tail]))


def keep_latest(log: Path, latest: Path) -> None:
    """Copy a log, and the record of its start, to the names that are always those of the newest training."""
    for source, target in ((log, latest), (start_record.path_for(log), start_record.path_for(latest))):
        if not source.exists():
            continue
        part = target.with_name(f".{target.name}.part")
        try:
            shutil.copy2(source, part)
            os.replace(part, target)
        except OSError as error:
            console.note(f"{target}: can't be written: {error.strerror or error}; the log is in {source}", weakens=True)


def read_back(saved: list[Saved]) -> tuple[Run, Path] | None:
    """Return the run that a training says it wrote, and the file that holds it now; others write to that file too."""
    last = next((each for each in reversed(saved) if each.fingerprint), saved[-1])
    path = Path(last.path)
    if last.fingerprint is not None:
        return store.locate(path, last.fingerprint)
    return store.read(path)[-1], path
