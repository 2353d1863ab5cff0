"""Convert a Primus or Megatron log and the user's values to trainings."""

from __future__ import annotations

import dataclasses
import re
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


@dataclasses.dataclass(frozen=True)
class Extracted:
    """One training of a log; the title says which, `parsed` what the log states, with lines."""

    title: str
    parsed: ParsedLog
    run: Run


def extract(log: Log, given: GivenValues) -> list[Extracted]:
    """Return the trainings of a log.

    Raises:
        UnreadableError: it can't be read, or holds no training.
        UsageError: a given value contradicts the log, and `override` is not set.
    """
    logs = read.parse_chunks(log.chunks(), log.name)
    runs = _with_start_record([with_system(_run(parsed, log, given), Path(log.path)) for parsed in logs], log)
    return [
        Extracted(f"{log.name}, training {number} of {len(logs)}" if len(logs) > 1 else log.name, parsed, run)
        for number, (parsed, run) in enumerate(zip(logs, runs, strict=True), start=1)
    ]


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


def _run(parsed: ParsedLog, log: Log, given: GivenValues) -> Run:
    """Return the training with what the options say.

    Raises UsageError when an option contradicts the log and --override is not given.
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
        place = f"{log.name}:{statement.line}"
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
    return msgspec.structs.replace(
        run,
        label=given.label,
        warnings=(*warnings, *log.warnings, *run.warnings),
        source=msgspec.structs.replace(run.source, overrides=overrides, files=(log.source_file(),)),
    )


def _agrees(name: str, value: Any, statement: LoggedValue) -> bool:
    """Return whether an option says the same as the log, if less exactly."""
    if name != "model":
        return bool(value == statement.value)
    stated = str(statement.value)
    row = models.recognize(value)
    # "llama" is no contradiction of llama3.2_1B, whose name the log gives more exactly.
    plain = [re.sub(r"[^a-z0-9]", "", name.lower()) for name in (value, stated)]
    return (row is not None and row.name == stated) or (bool(plain[0]) and plain[1].startswith(plain[0]))
