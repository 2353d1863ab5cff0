"""The record of a training's start, next to its log: the machine, the software, the configuration.

The logs of Primus name neither the GPU nor ROCm nor torch. Whoever reads one, on any machine, finds
these facts of the machine that trained in a small file: output/training_llama.log has
output/training_llama.env.json.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import msgspec

from tprimat import files
from tprimat.catalog import gpus
from tprimat.errors import UnreadableError
from tprimat.notes import Note, noted
from tprimat.redaction import REMOVED, redacted
from tprimat.results.fields import JsonObject
from tprimat.results.result_file import without_secrets
from tprimat.results.run import (
    Environment,
    GpuInfo,
    ModelConfig,
    ParallelismConfig,
    Platform,
    Run,
    TrainingConfig,
)

SUFFIX = ".env.json"
_LOG_ENDINGS = re.compile(r"(?:\.(?:log|txt|out))?(?:\.(?:gz|bz2|xz|zst))?$")
_LINES_WITH_NAME = 5000
"""The name of the experiment stands in the command line, at the head of the log."""

_MACHINE = ("device_name", "architecture", "software_stack")
"""What can't differ between a log and the record of its own start."""

_NOT_FILLED = ("max_steps", "global_batch_size", "seed")
"""Iteration lines state these themselves; a batch that they leave open is one that changes."""

_ANSWERED = ("timestamp-unknown", "machine-unstated", "mlperf-gpus-unstated", "gpus-of-this-memory")
"""Codes of what readers don't know and a record answers, the moment first."""


class StartRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Facts recorded when a training was started: the machine, as platforms.detect() saw it, and
    the configuration.

    Attributes:
        experiment: a name that stands in the log it belongs to, and in no other.
        started: the moment, ISO 8601 with offset.
    """

    experiment: str
    started: str
    platform: Platform | None = None
    gpu_info: GpuInfo = GpuInfo()
    environment: Environment = Environment()
    model: str | None = None
    scale: str | None = None
    model_config: ModelConfig = ModelConfig()
    training_config: TrainingConfig = TrainingConfig()
    parallelism_config: ParallelismConfig = ParallelismConfig()
    framework_config: JsonObject = {}
    command: tuple[str, ...] = ()


def path_for(log: Path) -> Path:
    """Return where the record of a log's training is."""
    return log.with_name(_LOG_ENDINGS.sub("", log.name) + SUFFIX)


def encode(record: StartRecord) -> bytes:
    """Return a record as indented JSON."""
    return (
        msgspec.json.format(msgspec.json.encode(_known(msgspec.to_builtins(record))), indent=2)
        + b"\n"
    )


def _known(fields: JsonObject) -> JsonObject:
    """Return fields without those that hold nothing."""
    inner = {}
    for name, value in fields.items():
        inner[name] = _known(value) if isinstance(value, dict) else value
    return {name: value for name, value in inner.items() if value not in (None, {}, [])}


def read(path: Path) -> StartRecord | None:
    """Return the record in a file; None if there is no such file. Raises UnreadableError for
    another file.
    """
    try:
        record: StartRecord = without_secrets(
            msgspec.json.decode(files.read_plain(path), type=StartRecord)
        )
        return record
    except FileNotFoundError:
        return None
    except OSError as error:
        raise files.unreadable(path, error) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise not_one(path, error) from error


def not_one(path: Path, error: Exception) -> UnreadableError:
    """Return the error for a file that is no record, or of no run."""
    return UnreadableError(
        path, f"is not a start record: {error}: move it away from the log", heading="start-record"
    )


def belongs(record: StartRecord, lines: Iterable[str]) -> bool:
    """Return whether a log with these first lines belongs to the training of a record."""
    is_shortened = REMOVED in record.experiment
    return any(
        record.experiment in (redacted(line) if is_shortened else line)
        for line in islice(lines, _LINES_WITH_NAME)
    )


def _same_gpu(one: str, other: str) -> bool:
    """Return whether two names are of one GPU in the catalog, such as MI300X and AMD Instinct
    MI300X.
    """
    rows = [gpus.match(GpuInfo(device_name=name)).gpu for name in (one, other)]
    return rows[0] is not None and rows[0] == rows[1]


def applied(run: Run, record: StartRecord) -> Run:
    """Return a run that was read from a log, with the values in the record of its start that the
    log doesn't state.
    """
    for name in _MACHINE:
        logged = getattr(run.gpu_info, name)
        recorded = getattr(record.gpu_info, name)
        if (
            logged is not None
            and recorded is not None
            and logged != recorded
            and not _same_gpu(logged, recorded)
        ):
            fields = {"field": name, "recorded": recorded, "logged": logged}
            ignored = Note("start-record-contradicts", fields)
            return run.but(notes=noted((*run.notes, ignored)))
    training = run.training_config.over(record.training_config.but(**dict.fromkeys(_NOT_FILLED)))
    parallelism = run.parallelism_config.over(record.parallelism_config)
    changes: JsonObject = {
        # The log of Primus' torchtitan is one of torchtitan's.
        "framework": "primus",
        "framework_config": {**record.framework_config, **run.framework_config},
        "platform": run.platform or record.platform,
        "gpu_info": run.gpu_info.over(record.gpu_info.but(device_count=None)),
        "environment": run.environment.over(record.environment).but(
            versions={**run.environment.versions, **record.environment.versions},
        ),
        "training_config": training,
        "parallelism_config": parallelism,
        "timestamp": run.timestamp or record.started,
    }
    configured = []
    for logged, filled in (
        (run.training_config, training),
        (run.parallelism_config, parallelism),
    ):
        for name, value in filled.known().items():
            if getattr(logged, name) is None:
                configured.append(f"{name.replace('_', ' ')} {value}")
    if run.model_config.num_layers is None and run.model in (None, record.model):
        # The dump of the arguments is printed by the first rank, the iteration lines by the last
        # one.
        changes |= {"model": record.model, "scale": run.scale or record.scale}
        if record.model_config.num_layers is not None:
            changes["model_config"] = record.model_config
            configured.append("the model's shape")
    named = record.gpu_info.device_name is not None
    answered = _ANSWERED if named else _ANSWERED[:1]
    notes = [note for note in run.notes if note.code not in answered]
    if configured:
        notes.append(Note("from-start-record", {"facts": ", ".join(configured)}))
    if run.source is not None and not run.source.command:
        changes["source"] = run.source.but(command=record.command)
    return run.but(notes=noted(notes), **changes)
