"""The result of a recorded training: its setup as a Run, and the result file."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from tprimat.analysis.summary import Summary
from tprimat.errors import TensorPrimatError
from tprimat.machine.platforms import Machine
from tprimat.record import shapes
from tprimat.record.describe import Description
from tprimat.record.options import Options
from tprimat.results.run import Run, Source
from tprimat.store import store

NOTHING_KNOWN = Description("lightning")

COVERS = (
    "from one optimizer step's end to the next, waiting for data included; the first from the start of the "
    "training, with compilation; without validation, saving, and what lies between epochs; a step that follows "
    "a checkpoint starts at its first batch"
)


def setup_of(options: Options, description: Description | None, module: Any, machine: Machine) -> Run:
    """Return a Run without what was measured. The caller's options override what the training shows.

    The description is None where the training never started; the module gives a model its name.
    """
    known, shown = options.known, description or NOTHING_KNOWN
    shape = options.model_config.over(known.model_config.over(shown.model_config))
    return Run(
        warnings=(*known.warnings, *shown.warnings),
        source=known.source or Source(kind="live", command=tuple(sys.orig_argv)),
        environment=known.environment.over(machine.environment),
        energy_metrics=known.energy_metrics,
        native_metrics=known.native_metrics,
        profile=known.profile,
        platform=machine.platform,
        framework=known.framework or shown.framework,
        model=options.model_name or known.model or shapes.name_of(shape, module),
        scale=known.scale,
        label=options.label or known.label,
        gpu_info=known.gpu_info.over(machine.gpu_info),
        model_config=shape,
        training_config=options.sizes.over(known.training_config.over(shown.training_config)),
        parallelism_config=known.parallelism_config.over(shown.parallelism_config),
        optimizer=known.optimizer.over(shown.optimizer),
        data=known.data.over(shown.data),
        framework_config=known.framework_config,
    )


def without_global_batch(run: Run) -> Run:
    """Return the run without its global batch size, which varied between steps."""
    training = msgspec.structs.replace(run.training_config, global_batch_size=None)
    return msgspec.structs.replace(run, training_config=training)


def write(run: Run, summary: Summary, folder: Path) -> tuple[Path | None, list[str]]:
    """Write the result, if necessary to a temporary folder; return its file, and the lines to print as errors."""
    try:
        saved = store.save(run, folder, summary)
    except TensorPrimatError as first:
        try:
            saved = store.save(run, Path(tempfile.mkdtemp(prefix="tensorprimat-")), summary)
        except TensorPrimatError as error:
            return None, [first.line(), error.line()]
        except OSError as error:
            return None, [first.line(), f"error: nor is there a temporary folder: {error.strerror or error}"]
        return saved.path, [f"{first.line()}: the result is in {saved.path}"]
    return saved.path, [f"the result of another setup that was there is now {saved.moved}"] if saved.moved else []
