"""From what a callback has seen to a Run, and to a file."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tprimat.errors import TensorPrimatError
from tprimat.machine.platforms import Machine
from tprimat.record import shapes
from tprimat.record.describe import Description
from tprimat.record.options import Options
from tprimat.record.recorder import Record, named
from tprimat.results.run import (
    Data,
    MemoryMetrics,
    ModelConfig,
    Optimizer,
    ParallelismConfig,
    Run,
    Source,
    Status,
    Timing,
    TrainingConfig,
)
from tprimat.store import store

NOTHING_FOUND = Description("lightning", ModelConfig(), TrainingConfig(), ParallelismConfig(), Optimizer(), Data(), ())

COVERS = (
    "from one optimizer step's end to the next, waiting for data included; the first from the start of the "
    "training, with compilation; without validation, saving, and what lies between epochs; a step that follows "
    "a checkpoint starts at its first batch"
)


def assemble(
    *,
    said: Options,
    machine: Machine,
    description: Description | None,
    module: Any,
    over_ranks: str,
    clock: str,
    records: Sequence[Record],
    memory: MemoryMetrics,
    timestamp: str,
    status: Status,
    reason: str | None,
    warnings: Sequence[str],
    batch_is_one_size: bool,
) -> Run:
    """The Run of a training.

    Args:
        said: the callback's arguments, which win over all that was found.
        machine: where it ran.
        description: what the trainer's configuration says; None where the training never started.
        module: what was trained.
        over_ranks: whose times the records hold.
        clock: name of the clock.
        records: a record a step.
        memory: what was measured of it.
        timestamp: start of the training.
        status: how it ended.
        reason: why it ended so; None for a complete one.
        warnings: what was doubtful on the way.
        batch_is_one_size: false where steps differ in how many sequences they trained on.
    """
    known = said.known
    found = description or NOTHING_FOUND
    shape = _over(_over(found.model_config, known.model_config), said.model_config)
    sizes = said.sizes
    training = _over(
        _over(found.training_config, known.training_config),
        TrainingConfig(
            global_batch_size=sizes.global_batch_size,
            micro_batch_size=sizes.micro_batch_size,
            sequence_length=sizes.sequence_length,
        ),
    )
    if not batch_is_one_size:
        training = msgspec.structs.replace(training, global_batch_size=None)
    shapeless = shapes.missing(shape)
    return Run(
        timestamp=timestamp,
        status=status,
        status_reason=reason,
        warnings=tuple(
            dict.fromkeys((*known.warnings, *found.warnings, *warnings, *([shapeless] if shapeless else [])))
        ),
        source=known.source or Source(kind="live", command=tuple(sys.orig_argv)),
        environment=msgspec.structs.replace(
            machine.environment, **{name: value for name, value in known.environment.known().items() if value}
        ),
        memory_metrics=memory,
        energy_metrics=known.energy_metrics,
        native_metrics=known.native_metrics,
        profile=known.profile,
        platform=machine.platform,
        framework=known.framework or found.framework,
        model=said.model_name or known.model or shapes.name_of(shape, module),
        scale=known.scale,
        label=said.label or known.label,
        gpu_info=_over(machine.gpu_info, known.gpu_info),
        model_config=shape,
        training_config=training,
        parallelism_config=_over(found.parallelism_config, known.parallelism_config),
        optimizer=_over(found.optimizer, known.optimizer),
        data=_over(found.data, known.data),
        framework_config=known.framework_config,
        timing=Timing(
            clock=clock,
            covers=COVERS,
            over_ranks=over_ranks,
        ),
        steps=tuple(record.step for record in records),
        window_steps=tuple(record.window for record in records),
        step_times=tuple(record.seconds for record in records),
        loss_values=tuple(record.loss for record in records),
        learning_rates=tuple(record.learning_rate for record in records),
        grad_norms=tuple(record.grad_norm for record in records),
        lines=(None,) * len(records),
    )


def said_of_start(first_step: int, saved_within: Sequence[int]) -> list[str]:
    """Warnings of a resumed training, and of checkpoints that are within steps.

    Args:
        first_step: steps that were done before this training started.
        saved_within: steps within which a checkpoint was saved.
    """
    warnings = []
    if first_step:
        warnings.append(f"resumed: the first step recorded is {first_step + 1}")
    if saved_within:
        warnings.append(
            f"the time of {named(saved_within)} holds the saving of a checkpoint, which the training does within it"
        )
    return warnings


def write(run: Run, folder: Path) -> tuple[Path | None, list[str]]:
    """Writes the result, if need be to a temporary folder: what was measured is not given up.

    Returns:
        The file, or None where nothing could be written; and the lines to print as errors.
    """
    try:
        saved = store.save(run, folder)
    except TensorPrimatError as error:
        return _write_elsewhere(run, error)
    if saved.moved:
        return saved.path, [f"the result of another setup that was there is now {saved.moved}"]
    return saved.path, []


def _write_elsewhere(run: Run, first: TensorPrimatError) -> tuple[Path | None, list[str]]:
    try:
        saved = store.save(run, Path(tempfile.mkdtemp(prefix="tensorprimat-")))
    except TensorPrimatError as error:
        return None, [first.line(), error.line()]
    except OSError as error:
        return None, [first.line(), f"error: nor is there a temporary folder: {error.strerror or error}"]
    return saved.path, [f"{first.line()}: the result is in {saved.path}"]


def _over(found: Any, stated: Any) -> Any:
    """One group of fields over another of its kind: what is stated wins, field by field."""
    return msgspec.structs.replace(found, **stated.known())
