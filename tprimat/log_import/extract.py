"""Convert parsed logs and the user's values to trainings, with what lies beside a log: the record of a Primus or
Megatron training's start, the description of an MLPerf system.
"""

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
from tprimat.log_import.inputs import STANDARD_INPUT, Log, read_small
from tprimat.read.mlperf import system as mlperf_system
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.values import LoggedValue, json_object
from tprimat.results.run import Run

_OPTIONS = {
    "model": ("--model-name", "the model"),
    "num_gpus": ("--num-gpus", "the number of GPUs"),
    "global_batch_size": ("--global-batch-size", "the global batch size"),
    "sequence_length": ("--sequence-length", "the sequence length"),
}
"""What a user can give for a log, by field: the option, and its name in a message."""

SYSTEM_LEVELS = 5
"""How many folders up `systems` is looked for: results/<system>/<benchmark>/<folder of a run>/result.txt."""


@dataclasses.dataclass(frozen=True)
class GivenValues:
    """Values from the user for a log: used where it leaves them open, or in any case with `override`.

    `columns` says which column of a table is what, by mapped.VALUES.
    """

    model: str | None = None
    num_gpus: int | None = None
    global_batch_size: int | None = None
    sequence_length: int | None = None
    label: str | None = None
    override: bool = False
    columns: Mapping[str, str] | None = None


NOTHING_GIVEN = GivenValues()


@dataclasses.dataclass(frozen=True)
class ImportedRun:
    """A training read from a source of this title.

    Attributes:
        notes: what the reader did.
        lines: where the log states a field.
        structured: whether the source is machine-readable.
    """

    title: str
    run: Run
    notes: tuple[str, ...]
    lines: Mapping[str, int]
    structured: bool = False


def extract(log: Log, given: GivenValues) -> list[ImportedRun]:
    """Return the trainings of a log, with the record of their start where that is beside it.

    Raises:
        UnreadableError: it can't be read, or holds no training.
        UsageError: a given value contradicts the log, and `override` is not set.
    """
    logs = read.parse_chunks(log.chunks(), log.name)
    titles = [f"{log.name}, training {number} of {len(logs)}" for number in range(1, len(logs) + 1)]
    titles = titles if len(logs) > 1 else [log.name]
    extracted = [imported(title, parsed, [log], given) for title, parsed in zip(titles, logs, strict=True)]
    path = start_record.path_for(Path(log.path))
    record = start_record.read(path) if log.path != STANDARD_INPUT else None
    if record is None:
        return extracted
    if len(logs) == 1 and start_record.belongs(record, Log(log.path).lines()):
        return [dataclasses.replace(each, run=start_record.applied(each.run, record)) for each in extracted]
    doubt = f"{path.name} beside the log ignored: it belongs to another run"
    return [
        dataclasses.replace(each, run=msgspec.structs.replace(each.run, warnings=(*each.run.warnings, doubt)))
        for each in extracted
    ]


def imported(
    title: str, parsed: ParsedLog, logs: Sequence[Log], given: GivenValues = NOTHING_GIVEN, *, structured: bool = False
) -> ImportedRun:
    """Return a training with the files that it comes from, warnings of how they were read, and the given values.

    Raises UsageError when one contradicts the log and `override` is not set.
    """
    used: dict[str, Any] = {}
    overrides: dict[str, str] = {}
    warnings = []
    for name, (option, what) in _OPTIONS.items():
        value, statement = getattr(given, name), parsed.stated.get(name)
        if value is None or (statement is not None and _agrees(name, value, statement)):
            continue
        used[name] = value
        if statement is None or (name == "model" and statement.weight == 0):
            warnings.append(f"{what} ({value}) is from the command line; the log doesn't state it")
            continue
        place = f"{logs[0].name}:{statement.line}"
        if not given.override:
            raise UsageError(
                f"{place}: the log gives {what} as {statement.value} (“{statement.text[:120]}”), {option} as {value}",
                heading="option-against-log",
                hint="remove the option, or add --override",
            )
        overrides[name] = f"{value} on the command line, {statement.value} in the log ({place})"
        warnings.append(f"{what} was overridden: {overrides[name]}")
    run = parsed.run(used)
    assert run.source is not None
    run = msgspec.structs.replace(
        run,
        label=given.label or run.label,
        warnings=(*warnings, *(warning for log in logs for warning in log.warnings), *run.warnings),
        source=msgspec.structs.replace(run.source, overrides=overrides, files=tuple(log.source_file() for log in logs)),
    )
    lines = {name: value.line for name, value in parsed.stated.items()}
    return ImportedRun(title, with_system(run, Path(logs[0].path)), parsed.notes, lines, structured)


def _agrees(name: str, value: Any, statement: LoggedValue) -> bool:
    """Return whether an option says the same as the log, if less exactly."""
    if name != "model":
        return bool(value == statement.value)
    stated = str(statement.value)
    row = models.recognize(value)
    # "llama" is no contradiction of llama3.2_1B, whose name the log gives more exactly.
    plain = [re.sub(r"[^a-z0-9]", "", name.lower()) for name in (value, stated)]
    return (row is not None and row.name == stated) or (bool(plain[0]) and plain[1].startswith(plain[0]))


def with_system(run: Run, log: Path) -> Run:
    """Return an MLPerf run completed from the system description beside its log; any other run unchanged.

    A folder `systems` is looked for beside the log and in the folders above; a description may lie
    beside the log itself too. Which file belongs to the log follows from the names alone, and
    nothing is taken where several may.
    """
    if run.framework != "mlperf" or (run.num_gpus and run.gpu_info.device_name and run.training_config.precision):
        return run
    log = log.absolute()
    for place in (log.parent, *(folder / "systems" for folder in log.parents[:SYSTEM_LEVELS])):
        chosen = mlperf_system.choose(log, sorted(path for path in place.glob("*.json") if path.is_file()))
        content = read_small(Path(chosen)) if chosen else None
        if chosen and content and (system := mlperf_system.of(json_object(content.decode("utf-8-sig", "replace")))):
            return mlperf_system.applied(run, system, f"{place.name}/{chosen.name} beside the log")
    return run
