"""Frameworks that only write a log: the log of a training that `benchmark` has run becomes its result."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Any

import msgspec

from tprimat.cli import _benchmark_display as display
from tprimat.errors import TensorPrimatError
from tprimat.frameworks.framework import Framework
from tprimat.frameworks.loops import recipe
from tprimat.frameworks.request import Request
from tprimat.log_import import sources
from tprimat.machine import platforms
from tprimat.results.run import Data, Run, TrainingConfig
from tprimat.store import store


def result(framework: Framework, request: Request, log: Path, *, complete: bool) -> tuple[Run | None, Path | None]:
    """Reads a log and writes its result; (None, None) where it holds no training, which is said.

    Args:
        framework: that trained.
        request: what it was asked for.
        log: all that it printed.
        complete: whether its process ended well.
    """
    outcome = sources.read_unit(sources.LogSource((str(log),), None, str(log.parent), True, log.stat().st_size))
    if outcome.error is not None:
        display.note(outcome.error, wrong=True)
        return None, None
    found = [each.run for each in outcome.found if each.run.steps]
    if not found:
        display.note(f"{log}: no step is in it", wrong=True)
        return None, None
    run = completed(found[-1], framework, request, complete=complete)
    try:
        saved = store.save(run, request.output_dir)
    except TensorPrimatError as error:
        display.say(error.line(), error=True)
        return None, None
    return run, saved.path


def completed(run: Run, framework: Framework, request: Request, *, complete: bool) -> Run:
    """A log's Run with what the log leaves open and this machine or the request says.

    What the log states itself is not touched.
    """
    machine = platforms.detect()
    asked = TrainingConfig(
        max_steps=request.steps,
        global_batch_size=request.global_batch_size,
        micro_batch_size=request.micro_batch_size,
        sequence_length=request.sequence_length,
        num_gpus=request.num_gpus,
        precision=request.precision,
        seed=request.seed,
    )
    changed: dict[str, Any] = {
        "framework": request.framework,
        "model": request.model,
        "scale": request.scale,
        "label": request.label,
        "platform": run.platform or request.platform,
        "timestamp": run.timestamp or _started(request, run),
        "training_config": _under(run.training_config, asked),
        "model_config": _under(run.model_config, recipe.shape_of(request)),
        "gpu_info": _under(run.gpu_info, msgspec.structs.replace(machine.gpu_info, device_count=request.num_gpus)),
        "environment": _under(run.environment, machine.environment),
        "data": _under(run.data, Data(kind=framework.data)),
    }
    if not complete and run.status == "complete":
        changed |= {"status": "failed", "status_reason": "its process ended with an error"}
    elif run.status == "complete" and run.steps[-1] < request.steps:
        reason = f"{run.steps[-1]} of max_steps={request.steps} steps are in the log"
        changed |= {"status": "incomplete", "status_reason": reason}
    return msgspec.structs.replace(run, **changed)


def _under(stated: Any, asked: Any) -> Any:
    """One group of fields over another of its kind: what the log states wins, field by field."""
    return msgspec.structs.replace(asked, **{name: value for name, value in stated.known().items() if value})


def _started(request: Request, run: Run) -> str:
    """Roughly: the log doesn't say when it began, and its training has just ended."""
    seconds = math.fsum(time or 0.0 for time in run.step_times)
    moment = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=seconds)
    return moment.astimezone().isoformat(timespec="seconds")
