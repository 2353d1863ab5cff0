"""Frameworks that only write a log: follow it while they train, then convert it to a result."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Any

import msgspec

from tprimat import console
from tprimat.errors import TensorPrimatError
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.loops import recipe
from tprimat.frameworks.primus import start_record
from tprimat.frameworks.request import Request
from tprimat.log_import import extract as log_extract
from tprimat.log_import.extract import GivenValues
from tprimat.log_import.inputs import Log
from tprimat.machine.platforms import Machine
from tprimat.measure.output import OnLine, OnMessage
from tprimat.read.megatron import line as megatron_line
from tprimat.read.parsing.text import Line, clean
from tprimat.record.outcome import of_log
from tprimat.record.progress import Step
from tprimat.results.run import Data, Run
from tprimat.store import store


def follower(on_line: OnLine, on_step: OnMessage) -> OnLine:
    """Return what reads each line of a running training: it hands the line on, and Megatron's iterations as steps."""
    last = 0
    times: list[float] = []

    def follow(text: str) -> None:
        nonlocal last
        on_line(text)
        for record in megatron_line.records(Line(1, clean(text), True)) if megatron_line.TIMED in text else ():
            if record.iteration <= last:
                continue
            last = record.iteration
            # The first iterations compile kernels, and say nothing of the time that is left.
            if record.seconds is not None and record.iteration > 2:
                times.append(record.seconds)
            average = sum(times) / len(times) if times else None
            on_step(Step(record.iteration, max(record.kind.planned, 1), record.seconds, average))

    return follow


def result(
    framework: Framework, request: Request, log: Path, machine: Machine, *, complete: bool
) -> tuple[Run, Path] | None:
    """Read a log and write its results; the last run, or None, with an error, where it holds no training.

    `complete` says whether the training's process succeeded.
    """
    try:
        trainings = log_extract.extract(Log(str(log)), GivenValues(label=request.label))
        for training in trainings:
            run = training.run
            if not start_record.path_for(log).exists():
                run = completed(run, framework, request, machine, complete=complete)
            saved = store.save(run, request.output_dir)
            for note in training.notes:
                console.debug(f"note: {note}")
    except TensorPrimatError as error:
        console.error(error.line())
        return None
    return run, saved.path


def completed(run: Run, framework: Framework, request: Request, machine: Machine, *, complete: bool) -> Run:
    """Return a log's Run with what the log leaves open and the machine or the request knows."""
    requested = request.training_config(num_gpus=request.num_gpus, precision=request.precision)
    status, reason = of_log(run, request.steps, succeeded=complete)
    changes: dict[str, Any] = {
        **{name: getattr(request, name) for name in ("framework", "model", "scale", "label")},
        "platform": run.platform or request.platform,
        "timestamp": run.timestamp or _started(run),
        "training_config": run.training_config.over(requested),
        "model_config": run.model_config.over(recipe.shape_of(request)),
        "gpu_info": run.gpu_info.over(msgspec.structs.replace(machine.gpu_info, device_count=request.num_gpus)),
        "environment": run.environment.over(machine.environment),
        "data": run.data.over(Data(kind=framework.data)),
        "status": status,
        "status_reason": reason,
    }
    return msgspec.structs.replace(run, **changes)


def _started(run: Run) -> str:
    """Estimate when a training started: the log doesn't state it, and it has just finished."""
    seconds = math.fsum(time or 0.0 for time in run.step_times)
    moment = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=seconds)
    return moment.astimezone().isoformat(timespec="seconds")
