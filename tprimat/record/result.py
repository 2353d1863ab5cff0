"""Conversion of a recorded training to a Run and a result file."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tprimat.analysis.summary import Summary
from tprimat.errors import TensorPrimatError
from tprimat.machine.platforms import Machine
from tprimat.record import shapes
from tprimat.record.describe import Description
from tprimat.record.options import Options
from tprimat.record.outcome import Outcome
from tprimat.record.ranks import Gathered
from tprimat.results.run import MemoryMetrics, Run, Source, Timing
from tprimat.store import store

NOTHING_KNOWN = Description("lightning")

COVERS = (
    "from one optimizer step's end to the next, waiting for data included; the first from the start of the "
    "training, with compilation; without validation, saving, and what lies between epochs; a step that follows "
    "a checkpoint starts at its first batch"
)


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The measurement of a training.

    Attributes:
        timestamp: start of the training, ISO 8601.
        clock: name of the clock.
        covers: the scope of the step timer.
        gathered: one record per step, and which ranks' times they hold.
        outcome: how it ended.
        warnings: doubts about the measurement.
    """

    machine: Machine
    timestamp: str
    clock: str
    covers: str
    gathered: Gathered
    memory: MemoryMetrics
    outcome: Outcome
    warnings: Sequence[str]


def assemble(options: Options, description: Description | None, module: Any, measurement: Measurement) -> Run:
    """Return the Run of a training.

    Args:
        options: from the caller; they override what the training shows.
        description: from the training's configuration; None where it never started.
        module: the trained module, for its name.
        measurement: the rest.
    """
    known, machine, records = options.known, measurement.machine, measurement.gathered.records
    shown = description or NOTHING_KNOWN
    shape = _override(_override(shown.model_config, known.model_config), options.model_config)
    shapeless = shapes.missing(shape)
    warnings = (*known.warnings, *shown.warnings, *measurement.warnings, *([shapeless] if shapeless else []))
    stated = {name: value for name, value in known.environment.known().items() if value}
    return Run(
        timestamp=measurement.timestamp,
        status=measurement.outcome.status,
        status_reason=measurement.outcome.reason,
        warnings=tuple(dict.fromkeys(warnings)),
        source=known.source or Source(kind="live", command=tuple(sys.orig_argv)),
        environment=msgspec.structs.replace(machine.environment, **stated),
        memory_metrics=measurement.memory,
        energy_metrics=known.energy_metrics,
        native_metrics=known.native_metrics,
        profile=known.profile,
        platform=machine.platform,
        framework=known.framework or shown.framework,
        model=options.model_name or known.model or shapes.name_of(shape, module),
        scale=known.scale,
        label=options.label or known.label,
        gpu_info=_override(machine.gpu_info, known.gpu_info),
        model_config=shape,
        training_config=_override(_override(shown.training_config, known.training_config), options.sizes),
        parallelism_config=_override(shown.parallelism_config, known.parallelism_config),
        optimizer=_override(shown.optimizer, known.optimizer),
        data=_override(shown.data, known.data),
        framework_config=known.framework_config,
        timing=Timing(clock=measurement.clock, covers=measurement.covers, over_ranks=measurement.gathered.over_ranks),
        steps=tuple(record.step for record in records),
        window_steps=tuple(record.window for record in records),
        step_times=tuple(record.seconds for record in records),
        loss_values=tuple(record.loss for record in records),
        learning_rates=tuple(record.learning_rate for record in records),
        grad_norms=tuple(record.grad_norm for record in records),
        lines=(None,) * len(records),
    )


def without_global_batch(run: Run) -> Run:
    """Return the run without its global batch size, which varied between steps."""
    training = msgspec.structs.replace(run.training_config, global_batch_size=None)
    return msgspec.structs.replace(run, training_config=training)


def write(run: Run, summary: Summary, folder: Path) -> tuple[Path | None, list[str]]:
    """Write the result, if necessary to a temporary folder.

    Returns:
        The file, or None where nothing could be written; and the lines to print as errors.
    """
    try:
        saved = store.save(run, folder, summary)
    except TensorPrimatError as error:
        return _write_elsewhere(run, summary, error)
    if saved.moved:
        return saved.path, [f"the result of another setup that was there is now {saved.moved}"]
    return saved.path, []


def _write_elsewhere(run: Run, summary: Summary, first: TensorPrimatError) -> tuple[Path | None, list[str]]:
    try:
        saved = store.save(run, Path(tempfile.mkdtemp(prefix="tensorprimat-")), summary)
    except TensorPrimatError as error:
        return None, [first.line(), error.line()]
    except OSError as error:
        return None, [first.line(), f"error: nor is there a temporary folder: {error.strerror or error}"]
    return saved.path, [f"{first.line()}: the result is in {saved.path}"]


def _override(shown: Any, stated: Any) -> Any:
    """Return a group of fields overridden by the stated ones, field by field."""
    return msgspec.structs.replace(shown, **stated.known())
