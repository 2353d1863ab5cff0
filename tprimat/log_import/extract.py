"""Convert parsed logs and the user's values to runs, with the files next to a log: the record of a
Primus or Megatron training's start, the description of an MLPerf system.
"""

from __future__ import annotations

import dataclasses
import math
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from tprimat import read
from tprimat.catalog import gpus, models
from tprimat.log_import.given import (
    NOTHING_GIVEN,
    OPTIONS,
    GivenValues,
    agrees,
    checked,
    completed,
    from_command_line,
    of_family,
    overridden,
    overriding,
    with_machine,
)
from tprimat.log_import.inputs import Log
from tprimat.log_import.named import STANDARD_INPUT, read_small
from tprimat.machine import platforms
from tprimat.notes import Note, noted
from tprimat.read import mapped
from tprimat.read.mlperf import system as mlperf_system
from tprimat.read.parsing.events import Moment
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.values import json_object, number
from tprimat.redaction import redacted_start
from tprimat.results.result_file import readable, without_secrets
from tprimat.results.run import Run, StatedValues
from tprimat.store import start_record
from tprimat.store.start_record import StartRecord
from tprimat.units import GB, GIB

SCALING = "scaling.json"

SYSTEM_LEVELS = 5
"""How many directories up `systems` is looked for: results/<system>/<benchmark>/<directory of a
run>/result.txt.
"""


@dataclasses.dataclass(frozen=True)
class ImportedRun:
    """A training read from a source of this title.

    Attributes:
        notes: actions of the reader.
        lines: where the log states a field.
        structured: whether the source is machine-readable.
        resumed, began, dated: those of a ParsedLog.
    """

    title: str
    run: Run
    notes: tuple[str, ...]
    lines: Mapping[str, int]
    structured: bool = False
    resumed: int | None = None
    began: Moment | None = None
    dated: Moment | None = None


def extract(log: Log, given: GivenValues) -> list[ImportedRun]:
    """Return the runs of a log, with the record of their start if that is next to it.

    Raises UnreadableError if it has no training, UsageError if a given value contradicts it and
    `override` is not set.
    """
    logs = read.parse_chunks(log.chunks(), log.name)
    trainings = []
    for position, parsed in enumerate(logs, 1):
        title = f"{log.name}, training {position} of {len(logs)}" if len(logs) > 1 else log.name
        trainings.append(imported(title, parsed, [log], given))
    return with_start(trainings, log)


def with_start(trainings: list[ImportedRun], log: Log) -> list[ImportedRun]:
    """Return the runs of a log with further values from the record of their start, if next to it,
    and from their machine.

    Raises UnreadableError for a record that can't be read.
    """
    path = start_record.path_for(Path(log.path))
    record = None
    if log.path != STANDARD_INPUT:
        record = start_record.read(path)
    doubts: tuple[Note, ...] = ()
    if record and not (len(trainings) == 1 and _is_of(record, log)):
        record = None
        doubts = (Note("start-record-ignored", {"file": path.name}),)
    completed_runs = []
    for training in trainings:
        try:
            run = training.run
            if record:
                run = start_record.applied(training.run, record)
        except ValueError as error:
            raise start_record.not_one(path, error) from error
        if not run.gpu_info.device_name:
            run = with_inferred_gpu(run)
        run = mlperf_system.inferred(run, Path(log.path).absolute())
        run = readable(run.but(notes=noted((*run.notes, *doubts))))
        completed_runs.append(dataclasses.replace(training, run=run))
    return completed_runs


def _is_of(record: StartRecord, log: Log) -> bool:
    """Return whether a log belongs to the training of a record."""
    return start_record.belongs(record, (line.text for line in Log(log.path).lines()))


def imported(
    title: str,
    parsed: ParsedLog,
    logs: Sequence[Log],
    given: GivenValues = NOTHING_GIVEN,
    *,
    structured: bool = False,
) -> ImportedRun:
    """Return a training with the files that it comes from, warnings of how they were read, and the
    given values.

    Raises UsageError when one contradicts the log and `override` is not set.
    """
    given = given.of(logs[0].path)
    # A size that agrees counts too: a value that a log only implies may change with another value.
    used = {}
    for size in ("num_gpus", "global_batch_size", "sequence_length"):
        if getattr(given, size):
            used[size] = getattr(given, size)
    overrides = {}
    warnings = []
    for name, (_, what) in OPTIONS.items():
        if name in ("gpu", "precision", "model_shape"):
            continue
        value = getattr(given, name)
        statement = parsed.stated.get(name)
        if value is None or (statement is not None and agrees(name, value, statement.value)):
            continue
        used[name] = value
        if statement is None or (name == "model" and statement.weight == 0):
            warnings.append(from_command_line(what, value, "log"))
            continue
        where = f"{logs[0].name}:{statement.line}"
        quoted = f" (“{redacted_start(statement.text, 120)}”)"
        text = overriding(given, name, statement.value, where, quoted)
        overrides[name] = f"{text} ({where})"
        warnings.append(overridden(given, name, statement.value, f" ({where})"))
    run = parsed.run(used)
    warnings += of_family(used.get("model"), run, given)
    assert run.source is not None
    cuts = (Note("log-read-in-part", {"why": log.cut}) for log in logs if log.cut)
    run = run.but(
        label=given.label or run.label,
        notes=noted((*warnings, *cuts, *run.notes)),
        source=run.source.but(
            overrides=overrides,
            given=as_stated(given),
            files=tuple(log.source_file() for log in logs),
        ),
    )
    lines = {name: value.line for name, value in parsed.stated.items()}
    run = completed(checked(with_system(run, Path(logs[0].path)), given, logs[0].name), given)
    # Parsed with its secrets, so that no figure is lost; kept without them.
    run, notes = readable(without_secrets((_with_directory_model(run, logs[0].path), parsed.notes)))
    return ImportedRun(
        title, run, notes, lines, structured, parsed.resumed, parsed.began, parsed.dated
    )


def as_stated(given: GivenValues) -> StatedValues:
    """Return a user's values as source.given has them, by field; of a shape its file."""
    values = {}
    for field in (*OPTIONS, "override", "as_read"):
        if value := getattr(given, field):
            values[field] = value
    if given.model_shape:
        values["model_shape"] = given.model_shape.source or "a file"
    return values | mapped.stated(given.columns)


def given_again(stated: StatedValues) -> GivenValues:
    """Return the values of a source.given, without a shape.

    Raises msgspec.ValidationError for wrong types, UsageError for columns or a pattern that can't
    be.
    """
    values = {}
    for field in (*OPTIONS, "override", "as_read"):
        if field in stated:
            values[field] = stated[field]
    texts = msgspec.convert(
        {key: stated[key] for key in mapped.STATED if key in stated}, dict[str, str]
    )
    again = msgspec.convert({**values, "model_shape": None, "trained": True}, GivenValues)
    return dataclasses.replace(
        again, columns=mapped.given(texts.get("columns"), texts.get("pattern"))
    )


def _with_directory_model(run: Run, path: str) -> Run:
    """Return a run, whose log states neither model nor shape, with the model that the log's
    directory is named after.

    Such a directory is amd-logs/llama or nvi-logs/qwen25_7b_test_fp8.
    """
    shape = run.model_config
    if run.model is not None or path == STANDARD_INPUT or shape.num_layers or shape.num_parameters:
        return run
    name = Path(path).absolute().parent.name
    row = models.find(name.lower()) or models.recognize(name)
    if row is None:
        return run
    warning = Note("model-from-directory", {"directory": name, "model": row.title})
    notes = (note for note in run.notes if note.code != "model-unnamed")
    return run.but(model=row.name, notes=noted((warning, *notes)))


def with_inferred_gpu(run: Run) -> Run:
    """Return a run whose log doesn't name its GPU with the GPU of this machine, if the log was
    written here.

    Otherwise with the only AMD GPU that has its memory; unchanged if there are several.
    """
    name = note = None
    if (host := run.environment.hostname) and host.split(".")[0] == socket.gethostname().split(".")[
        0
    ]:
        names = set()
        for device in platforms.detect(torch=None).devices:
            names.add(device.info.device_name)
        name = names.pop() if len(names) == 1 else None
        note = Note("gpu-of-this-machine", {"gpu": name, "host": host})
    if name is None and run.platform == "amd" and (memory := run.gpu_info.total_memory_gb):
        gib = memory * GB / GIB
        fitting = gpus.amd_gpus_by_memory(gib)
        name = fitting[0].title if len(fitting) == 1 else None
        note = Note("gpu-by-memory", {"gpu": name, "gib": gib})
    if name is None or note is None:
        return run
    run = run.but(notes=noted((note, *run.notes)))
    return with_machine(run, name, None)


def with_system(run: Run, log: Path) -> Run:
    """Return an MLPerf run with the values in its path and in the files of its submission; any
    other run unchanged.

    scaling.json lies next to the logs of a set and normalizes their score. One of the system
    descriptions is used: a directory `systems` is looked for next to the log and in the directories
    above; a description may also lie next to the log itself. Which file belongs to the log follows
    from the names alone, and nothing is taken if several may.
    """
    if run.framework != "mlperf":
        return run
    log = log.absolute()
    factor = (
        json_object((read_small(log.parent / SCALING) or b"").decode("utf-8-sig", "replace")) or {}
    )
    if (value := number(factor.get("scaling_factor"))) is not None and 0 < value < math.inf:
        run = run.but(native_metrics={**run.native_metrics, "scaling_factor": value})
    if of_round := mlperf_system.round_of(log):
        run = run.but(framework_config={**run.framework_config, "mlperf_round": of_round})
    for directory in (log.parent, *(folder / "systems" for folder in log.parents[:SYSTEM_LEVELS])):
        chosen = mlperf_system.choose(
            log, sorted(path for path in directory.glob("*.json") if path.is_file())
        )
        content = read_small(Path(chosen)) if chosen else None
        if (
            chosen
            and content
            and (system := mlperf_system.of(json_object(content.decode("utf-8-sig", "replace"))))
        ):
            return mlperf_system.applied(
                run, system, f"{directory.name}/{chosen.name} beside the log"
            )
    return run
