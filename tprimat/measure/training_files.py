"""The files of a training: its log, the copy of the newest log, and its result, which the training
or its log makes.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import math
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from tprimat import console
from tprimat.errors import TensorPrimatError, UsageError
from tprimat.files import lock_folder, unwritable
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.loops import recipe
from tprimat.frameworks.request import Request
from tprimat.log_import import extract as log_extract
from tprimat.log_import.given import GivenValues
from tprimat.log_import.inputs import Log
from tprimat.machine.platforms import Machine
from tprimat.measure.output import TAIL_LINES, OnLine, OnMessage
from tprimat.read.megatron import line as megatron_line
from tprimat.read.parsing.text import Line, clean
from tprimat.record import recovery
from tprimat.record.outcome import of_log
from tprimat.record.progress import Saved, Step
from tprimat.redaction import redacted
from tprimat.results.run import Data, Run
from tprimat.store import start_record, store
from tprimat.store.history import UNFINISHED
from tprimat.store.store import StoredRun


def recover(request: Request, earlier: set[str]) -> StoredRun | None:
    """Return the run that a killed training has left in its journal, which wasn't there before."""
    recovered = None
    for result in recovery.recover(request.output_dir):
        console.note(result.line, weakens=True)
        run = result.run
        if (
            run
            and result.path
            and result.journal not in earlier
            and (run.model, run.label) == (request.model, request.label)
        ):
            recovered = run, result.path
    return recovered


def log_path(framework: Framework, request: Request) -> Path:
    """Make a new log: next to the results if a copy of the newest is kept there, else in a
    directory of logs.

    Raises UsageError if it can't be written.
    """
    beside_results = framework.launcher.latest_log(request) is not None
    folder = request.output_dir if beside_results else request.output_dir / "logs"
    stem = framework.launcher.log_name(request, f"{datetime.datetime.now():%Y%m%d_%H%M%S}")
    path = folder / f"{stem}.log"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number in itertools.count(2):
            with contextlib.suppress(FileExistsError):
                path.touch(exist_ok=False)
                break
            path = folder / f"{stem}_{number}.log"
    except OSError as error:
        raise unwritable(path, error) from error
    return path


def last_words(log: Path, tail: Iterable[str]) -> list[str]:
    """Return the lines that state what went wrong: those that begin with `error: `, then the last
    ones.

    torchrun reports on several processes at length; the first error of the failed one matters.
    """
    errors = []
    with contextlib.suppress(OSError), log.open(encoding="utf-8", errors="replace") as lines:
        errors = list(
            itertools.islice(
                (line.rstrip("\n") for line in lines if line.startswith("error: ")), TAIL_LINES
            )
        )
    return list(dict.fromkeys(redacted("\n".join([*errors, *tail])).splitlines()))


def keep_latest(log: Path, latest: Path) -> None:
    """Copy a log, and the record of its start, to the names that are always those of the newest
    training.
    """
    for source, target in (
        (log, latest),
        (start_record.path_for(log), start_record.path_for(latest)),
    ):
        if not source.exists():
            continue
        part = target.with_name(f".{target.name}{UNFINISHED}")
        try:
            with lock_folder(target.parent):
                shutil.copy2(source, part)
                os.replace(part, target)
        except (OSError, UsageError) as error:
            why = getattr(error, "strerror", None) or error
            console.note(f"{target}: can't be written: {why}; the log is in {source}", weakens=True)


def read_back(saved: list[Saved]) -> StoredRun | None:
    """Return the run that a training reports to have written, and the file that has it now; others
    write to that file too.
    """
    last = next((message for message in reversed(saved) if message.fingerprint), saved[-1])
    path = Path(last.path)
    if last.fingerprint is not None:
        return store.locate(path, last.fingerprint)
    return store.read(path)[-1], path


def follower(on_line: OnLine, on_step: OnMessage) -> OnLine:
    """Return what reads each line of a running training: it hands the line on, and Megatron's
    iterations as steps.
    """
    last = 0
    times = []

    def follow(text: str) -> None:
        nonlocal last
        on_line(text)
        for record in (
            megatron_line.records(Line(1, clean(text), True)) if megatron_line.TIMED in text else ()
        ):
            if record.iteration <= last:
                continue
            last = record.iteration
            # The first iterations compile kernels, so the remaining time doesn't follow from them.
            if record.seconds is not None and record.iteration > 2:
                times.append(record.seconds)
            average = sum(times) / len(times) if times else None
            on_step(Step(record.iteration, max(record.planned, 1), record.seconds, average))

    return follow


def read_log(
    framework: Framework,
    request: Request,
    log: Path,
    machine: Machine,
    succeeded: bool,
    complete: Callable[[Run], Run],
) -> StoredRun | None:
    """Read a log and write its results; the last run, or None, with an error, if it holds no
    training.

    `succeeded` is whether the training's process did; `complete` adds values that no log states to
    a Run.
    """
    try:
        for training in log_extract.extract(Log(str(log)), GivenValues(label=request.label)):
            run = training.run
            if not start_record.path_for(log).exists():
                run = _completed(run, framework, request, machine, complete=succeeded)
            run = complete(run)
            saved = store.save(run, request.output_dir)
            for note in training.notes:
                console.debug(f"note: {note}")
    except TensorPrimatError as error:
        console.error(error.line())
        return None
    return run, saved.path


def _completed(
    run: Run, framework: Framework, request: Request, machine: Machine, *, complete: bool
) -> Run:
    """Return a log's Run with the values that the log lacks and the machine or the request has."""
    requested = request.training_config(num_gpus=request.num_gpus, precision=request.precision)
    outcome = of_log(run, request.steps, succeeded=complete)
    changes = {
        "framework": request.framework,
        "model": request.model,
        "scale": request.scale,
        "label": request.label,
        "platform": run.platform or request.platform,
        "timestamp": run.timestamp or _started(run),
        "training_config": run.training_config.over(requested),
        "model_config": run.model_config.over(recipe.shape_of(request)),
        "gpu_info": run.gpu_info.over(machine.gpu_info.but(device_count=request.num_gpus)),
        "environment": run.environment.over(machine.environment),
        "data": run.data.over(Data(kind=framework.data)),
        "status": outcome.status,
        "status_reason": outcome.reason,
        "ending": outcome.ending,
    }
    return run.but(**changes)


def _started(run: Run) -> str:
    """Estimate when a training started: the log doesn't state it, and it has just finished."""
    seconds = math.fsum(time or 0.0 for time in run.step_times)
    moment = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=seconds)
    return moment.astimezone().isoformat(timespec="seconds")
