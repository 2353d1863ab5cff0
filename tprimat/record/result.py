"""The result of a recorded training: its setup as a Run, and the result file."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tprimat.analysis.summary import Summary
from tprimat.catalog import shapes
from tprimat.errors import TensorPrimatError
from tprimat.machine.platforms import Machine
from tprimat.notes import Note, noted
from tprimat.record import describe, progress
from tprimat.results.run import Run, Source
from tprimat.store import store

COVERS = (
    "from one optimizer step's end to the next, waiting for data included; the first from the start"
    " of the training, with any compilation in it; without validation, saving, and what lies"
    " between epochs; a step that follows a checkpoint starts at its first batch"
)


_SIZES = (
    "global_batch_size",
    "micro_batch_size",
    "sequence_length",
    "num_gpus",
    "num_layers",
    "hidden_size",
    "num_attention_heads",
)


def contradictions(known: Run, shown: Run) -> list[Note]:
    """Return a warning for each size that the caller states otherwise than the training shows
    it.
    """
    notes = []
    for stated, shows in (
        (known.training_config, shown.training_config),
        (known.model_config, shown.model_config),
    ):
        for name, value in stated.known().items():
            seen = getattr(shows, name)
            if name in _SIZES and seen not in (None, value):
                fields = {"name": name, "stated": value, "seen": f"the training shows {seen}"}
                notes.append(Note("stated-against-seen", fields))
    return notes


def setup_of(known: Run, shown: Run, module: object, machine: Machine) -> Run:
    """Return a Run without measurements: the values that the caller knows, else those that the
    training shows.

    The module gives a model its name.
    """
    shape = known.model_config.over(shown.model_config)
    compiled = describe.is_compiled(module)
    seen = {} if compiled is None else {"torch_compile": compiled}
    return known.but(
        **progress.given(os.environ),
        notes=noted((*known.notes, *shown.notes, *contradictions(known, shown))),
        source=known.source or Source(kind="live", command=tuple(sys.orig_argv)),
        environment=known.environment.over(machine.environment),
        platform=machine.platform,
        framework=known.framework or shown.framework,
        model=known.model or shapes.name_of(shape, module),
        gpu_info=known.gpu_info.over(machine.gpu_info),
        model_config=shape,
        training_config=known.training_config.over(shown.training_config),
        parallelism_config=known.parallelism_config.over(shown.parallelism_config),
        optimizer=known.optimizer.over(shown.optimizer),
        data=known.data.over(shown.data),
        framework_config={**seen, **shown.framework_config, **known.framework_config},
    )


def write(run: Run, summary: Summary, folder: Path) -> tuple[store.Saved | None, list[str]]:
    """Write the result, if necessary to a temporary directory; return where, and the lines to print
    as errors.
    """
    try:
        saved = store.save(run, folder, summary)
    except TensorPrimatError as first:
        try:
            saved = store.save(run, Path(tempfile.mkdtemp(prefix="tensorprimat-")), summary)
        except TensorPrimatError as error:
            return None, [first.line(), error.line()]
        except OSError as error:
            return None, [
                first.line(),
                f"error: no temporary directory either: {error.strerror or error}",
            ]
        first.hint = f"the result is in {saved.path}"
        return saved, [first.line()]
    return saved, [f"existing file moved to {saved.moved}"] if saved.moved else []
