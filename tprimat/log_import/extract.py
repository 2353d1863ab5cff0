"""Convert parsed logs and the user's values to trainings; a Primus or Megatron log with the record of its start."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tprimat import read
from tprimat.catalog import models
from tprimat.errors import UsageError
from tprimat.frameworks.primus import start_record
from tprimat.log_import.inputs import STANDARD_INPUT, Log
from tprimat.log_import.mlperf_systems import with_system
from tprimat.read.parsing.parsed_log import GIVEN, ParsedLog
from tprimat.read.parsing.values import LoggedValue
from tprimat.results.run import Run

_OPTIONS = {
    "model": ("--model-name", "the model"),
    "num_gpus": ("--num-gpus", "the number of GPUs"),
    "global_batch_size": ("--global-batch-size", "the global batch size"),
    "sequence_length": ("--sequence-length", "the sequence length"),
}


@dataclasses.dataclass(frozen=True)
class GivenValues:
    """Values from the user for a log: used where it leaves them open, or in any case with `override`."""

    model: str | None = None
    num_gpus: int | None = None
    global_batch_size: int | None = None
    sequence_length: int | None = None
    label: str | None = None
    override: bool = False


NOTHING_GIVEN = GivenValues()


@dataclasses.dataclass(frozen=True)
class ImportedRun:
    """A training read from a source of this title.

    Attributes:
        notes: what the reader did.
        structured: whether the source is machine-readable.
        lines: where the log states a field.
    """

    title: str
    run: Run
    notes: tuple[str, ...]
    structured: bool = False
    lines: Mapping[str, int] = dataclasses.field(default_factory=dict)


def extract(log: Log, given: GivenValues) -> list[ImportedRun]:
    """Return the trainings of a log.

    Raises:
        UnreadableError: it can't be read, or holds no training.
        UsageError: a given value contradicts the log, and `override` is not set.
    """
    logs = read.parse_chunks(log.chunks(), log.name)
    runs = _with_start_record([run_of(parsed, [log], log.warnings, given) for parsed in logs], log)
    extracted = []
    for number, (parsed, run) in enumerate(zip(logs, runs, strict=True), start=1):
        title = f"{log.name}, training {number} of {len(logs)}" if len(logs) > 1 else log.name
        lines = {name: value.line for name, value in parsed.stated.items()}
        extracted.append(ImportedRun(title, run, parsed.notes, lines=lines))
    return extracted


def _with_start_record(runs: list[Run], log: Log) -> list[Run]:
    """Return the runs with what was recorded when their training started, if that is beside the log."""
    path = start_record.path_for(Path(log.path))
    record = start_record.read(path) if log.path != STANDARD_INPUT else None
    if record is None:
        return runs
    if len(runs) > 1 or not start_record.belongs(record, Log(log.path).lines()):
        doubt = f"{path.name} beside the log is the record of another training: it is left out"
        return [msgspec.structs.replace(run, warnings=(*run.warnings, doubt)) for run in runs]
    return [start_record.applied(run, record) for run in runs]


def run_of(parsed: ParsedLog, logs: Sequence[Log], notices: Sequence[str], given: GivenValues = NOTHING_GIVEN) -> Run:
    """Return the training with the files that it comes from, warnings of how they were read, and the given values.

    Raises UsageError when one contradicts the log and `override` is not set.
    """
    used: dict[str, Any] = {}
    overrides: dict[str, str] = {}
    warnings = []
    for name in GIVEN:
        value, statement = getattr(given, name), parsed.stated.get(name)
        if value is None or (statement is not None and _agrees(name, value, statement)):
            continue
        used[name] = value
        option, what = _OPTIONS[name]
        if statement is None or (name == "model" and statement.weight == 0):
            warnings.append(f"{what} ({value}) is as given on the command line: the log doesn't state it")
            continue
        place = f"{logs[0].name}:{statement.line}"
        if not given.override:
            raise UsageError(
                f"{place}: the log says that {what} is {statement.value} (“{statement.text[:120]}”), "
                f"{option} says {value}: leave the option out, or add --override",
                heading="option-against-log",
            )
        overrides[name] = f"{value} on the command line, {statement.value} in the log ({place})"
        warnings.append(f"{what} was overridden: {overrides[name]}")
    run = parsed.run(used)
    assert run.source is not None
    source = msgspec.structs.replace(run.source, overrides=overrides, files=tuple(log.source_file() for log in logs))
    run = msgspec.structs.replace(
        run, label=given.label or run.label, warnings=(*warnings, *notices, *run.warnings), source=source
    )
    return with_system(run, Path(logs[0].path))


def _agrees(name: str, value: Any, statement: LoggedValue) -> bool:
    """Return whether an option says the same as the log, if less exactly."""
    if name != "model":
        return bool(value == statement.value)
    stated = str(statement.value)
    row = models.recognize(value)
    # "llama" is no contradiction of llama3.2_1B, whose name the log gives more exactly.
    plain = [re.sub(r"[^a-z0-9]", "", name.lower()) for name in (value, stated)]
    return (row is not None and row.name == stated) or (bool(plain[0]) and plain[1].startswith(plain[0]))
