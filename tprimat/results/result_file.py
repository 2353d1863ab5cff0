"""The result file: one setup and its runs, as JSON.

Knows no directories and no file names: those are store/'s.

History of the schema:

    1   first version (2026-11). Files without `schema_version` are those of an earlier tool;
        store/legacy_results.py reads them.
    2   `notes`, `ending` and `source.given`. `warnings` holds the sentences of the notes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec

from tprimat.notes import SYSTEM, Note
from tprimat.notes.catalogue import note_of
from tprimat.redaction import Names, redacted, relative_words
from tprimat.results.account import Entry
from tprimat.results.fields import Count, JsonObject, Seed
from tprimat.results.run import (
    RECORD_FIELDS,
    RUN_VALUES,
    SERIES,
    SETUP_FIELDS,
    PerformanceMetrics,
    Run,
    RunRecord,
    Steady,
)
from tprimat.text import for_encoding

SCHEMA_VERSION = 2
LONGEST_SHARED = 1000
"""Steps. Longer series are too large to be kept for others like them."""

FIELD_ORDER = (
    "schema_version",
    "status",
    "status_reason",
    *SETUP_FIELDS[:5],
    "timestamp",
    "ending",
    "warnings",
    "notes",
)
"""What a result file begins with."""


class RecordedRepetition(RunRecord, frozen=True, kw_only=True):
    """A run within a file, with the metrics that were computed when it was written."""

    warnings: Annotated[tuple[str, ...], "the sentences of `notes`"] = ()
    max_steps: Annotated[
        Count | msgspec.UnsetType | None, "as in training_config, if not all runs have one"
    ] = msgspec.UNSET
    seed: Annotated[
        Seed | msgspec.UnsetType | None, "as in training_config, if not all runs have one"
    ] = msgspec.UNSET
    steady: Annotated[Steady, "steady-state steps, which the metrics use"] = Steady()
    performance_metrics: Annotated[PerformanceMetrics, "metrics of those steps"] = (
        PerformanceMetrics()
    )

    def __post_init__(self) -> None:
        """Check nothing: runs_of() makes a Run of it, which does."""


class ResultFile(Run, frozen=True, kw_only=True):
    """A result file: one setup and its runs. At the top level stands the run whose mean step time
    is the median one, so that a reader that doesn't know `runs` works.
    """

    schema_version: Annotated[Count, "version of this format"] = SCHEMA_VERSION
    warnings: Annotated[tuple[str, ...], "the sentences of `notes`, and of its metrics"] = ()
    steady: Annotated[Steady, "steady-state steps, which the metrics use"] = Steady()
    performance_metrics: Annotated[PerformanceMetrics, "metrics of those steps"] = (
        PerformanceMetrics()
    )
    runs: Annotated[
        tuple[RecordedRepetition, ...],
        "all runs of this configuration, in the order in which they were saved",
    ] = ()

    def __post_init__(self) -> None:
        # The run at the top level is in `runs` again, and is checked there.
        if not self.runs:
            super().__post_init__()


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A result file that was read, under its path as the user gave it.

    Attributes:
        sha256: digest of the bytes that the runs were read from; by now the file may have more.
    """

    name: str
    sha256: str
    runs: tuple[Run, ...]


def runs_of(file: ResultFile) -> tuple[Run, ...]:
    """Return the runs that a file holds, in the order in which they were made."""
    setup = {name: _shared(getattr(file, name)) for name in SETUP_FIELDS}
    runs = []
    for stored in file.runs or (file,):
        record = {name: _shared(getattr(stored, name)) for name in RECORD_FIELDS}
        own = {name: getattr(stored, name, msgspec.UNSET) for name in RUN_VALUES}
        if msgspec.UNSET not in own.values():
            record["training_config"] = _shared(
                msgspec.structs.replace(file.training_config, **own)
            )
        # Files of schema 1 have sentences alone.
        notes = tuple(map(_of_run, stored.notes)) or tuple(map(note_of, stored.warnings))
        runs.append(Run(**{**setup, **record, "notes": notes}))
    return tuple(runs)


def _of_run(note: Note) -> Note:
    """Return a note of a file without the field that names a system: a file names none."""
    if SYSTEM not in note.fields:
        return note
    fields = {name: value for name, value in note.fields.items() if name != SYSTEM}
    return Note(note.code, fields)


def _shared(value: Any) -> Any:
    """Return one object for equal values: thousands of loaded runs share their machine and count
    their steps alike.
    """
    is_series = isinstance(value, tuple) and 0 < len(value) <= LONGEST_SHARED
    if isinstance(value, msgspec.Struct) or (
        is_series and not isinstance(value[-1], (float, msgspec.Struct))
    ):
        kind: Any = type(value)
        return _decoded(msgspec.json.encode(value), kind)
    return value


@functools.lru_cache(maxsize=2048)
def _decoded(content: bytes, kind: type) -> Any:
    return msgspec.json.decode(content, type=kind)


def decode(content: bytes) -> tuple[Run, ...]:
    """Return the runs of a file with a schema version.

    Raises msgspec.ValidationError or msgspec.DecodeError (both ValueError) whose text names the
    field, when the content has another form.
    """
    file = msgspec.json.decode(content, type=ResultFile)
    try:
        return runs_of(file)
    except ValueError as error:
        raise msgspec.ValidationError(str(error)) from error


Kind = TypeVar("Kind")
Change = Callable[[str], str]


_redacted = functools.lru_cache(1 << 12)(redacted)
"""Thousands of results have the same names and versions."""


def without_secrets(value: Kind) -> Kind:
    """Return a run, or any value in one, without what looks like a secret; the same object if
    nothing does.
    """
    return _changed(value, lambda _: _redacted)


def readable(value: Kind) -> Kind:
    """Return a run, or any value in one, with question marks for bytes that are no UTF-8; the same
    object without such.

    Arguments, paths and variables may have them, such as a name in Latin-1. JSON can't.
    """
    return _changed(value, lambda _: _in_utf8)


def _in_utf8(text: str) -> str:
    return for_encoding(text, "utf-8")


_STATED = (
    "code cpu cpu_instructions dialect digest framework framework_config gpu_info kind label method"
    " model model_config name optimizer os parallelism_config platform scale schema sha256 status"
    " timing tprimat_commit trace training_config varied versions"
)
"""Fields that name no machine, user or place, but the training, its hardware and its settings."""


_OF_MACHINES = ("host", "hostname", "path", "command", "arguments")
"""Fields of notes whose texts are machines, files and commands."""


def without_names(value: Kind, names: Names) -> Kind:
    """Return a run, or any value in one, with pseudonyms and without directories; the same object
    if it has no names.

    What was trained, on what and how stays as it is.
    """
    of: dict[str, Change | None] = dict.fromkeys(_STATED.split())
    of_host = {
        "host": lambda name: names.learn(name, "host"),
        "hostname": lambda name: names.learn(name, "host"),
    }
    # A name that a later field gives away may appear in an earlier one.
    learning = {**of, **of_host}
    _changed(value, lambda field: learning.get(field, names.learn))
    of |= dict.fromkeys(("host", "hostname"), lambda name: names.pseudonym(name, "host"))
    of |= dict.fromkeys(("path", "command", "arguments", "profile"), names.path)
    # A model, and data, may be named by where they lie.
    of |= dict.fromkeys(("model", "kind"), lambda name: relative_words([name])[0])
    return _changed(value, lambda field: of.get(field, names.text))


_NUMBERS = (int, float)


def _changed(value: Kind, change: Callable[[str], Change | None], field: str = "") -> Kind:
    """Return a value in a run whose texts were changed, each by the change of its field, if there
    is one.
    """
    new: Any = value
    to = change(field)
    if to is None or value is None:
        return value
    if isinstance(value, str):
        new = to(value)
    elif isinstance(value, dict):
        new = {to(name): _named(name, member, change, to) for name, member in value.items()}
    elif (
        isinstance(value, (tuple, list))
        and value
        and isinstance(value[0], (str, msgspec.Struct, dict, tuple, list))
    ):
        members = []
        # An option and its value are two words of a command.
        if all(isinstance(member, str) for member in value):
            members = to("\t".join(value)).split("\t")
        if len(members) != len(value):
            members = [_changed(member, change, field) for member in value]
        new = type(value)(members)
    elif isinstance(value, Note):
        # A field of a note may quote anything, whatever it is called: "name" is no model's there.
        def of_field(name: str) -> Change | None:
            return change(name if name in _OF_MACHINES else "fields")

        fields = {name: _changed(member, of_field, name) for name, member in value.fields.items()}
        new = Note(value.code, fields)
    elif isinstance(value, msgspec.Struct):
        # Numbers and empty values stay; they are most of the values in thousands of results.
        changed = {}
        for name, member in msgspec.structs.asdict(value).items():
            if member and not isinstance(member, _NUMBERS):
                other = _changed(member, change, name)
                if other is not member:
                    changed[name] = other
        if changed:
            new = msgspec.structs.replace(value, **changed)
    kept: Kind = new if new is not value and new != value else value
    return kept


def _named(name: str, value: Any, change: Callable[[str], Change | None], to: Change) -> Any:
    """Return a value of a dictionary; its name may distinguish it from other text."""
    if not isinstance(value, str) or change(name) is not to:
        return _changed(value, change, name)
    text = to(f"{name}={value}")
    if text.startswith(f"{name}="):
        return text[len(name) + 1 :]
    return to(value)


def encode(file: ResultFile) -> bytes:
    """Return a result file as indented JSON, each series on one line."""
    return _dump(_arranged(msgspec.to_builtins(file, str_keys=True)), 0).encode() + b"\n"


def json_schema() -> JsonObject:
    """Return the JSON Schema of a result file."""
    return msgspec.json.schema(ResultFile)


def _arranged(fields: JsonObject) -> JsonObject:
    """Return fields in the order in which a person reads them: setup, values, series, runs."""
    if "runs" in fields:
        fields["runs"] = [_arranged(run) for run in fields["runs"]]
    ends = (*SERIES, "runs")
    middle = [name for name in fields if name not in (*FIELD_ORDER, *ends)]
    return {name: fields[name] for name in (*FIELD_ORDER, *middle, *ends) if name in fields}


_ENTRY = frozenset(Entry.__struct_fields__)


def _dump(value: Any, depth: int) -> str:
    """Return JSON with two-space indents in which a list of plain values stays on one line: a
    series of 500 steps is then one line, and a diff of two results shows which series changed. So
    does an entry of the timeline.
    """
    inner = "  " * (depth + 1)
    outer = "  " * depth
    if isinstance(value, dict) and value and value.keys() != _ENTRY:
        rows = (
            f"{inner}{_dump(key, 0)}: {_dump(entry, depth + 1)}" for key, entry in value.items()
        )
        return "{\n" + ",\n".join(rows) + f"\n{outer}}}"
    if isinstance(value, (list, tuple)) and any(
        isinstance(entry, (dict, list, tuple)) for entry in value
    ):
        return (
            "[\n" + ",\n".join(inner + _dump(entry, depth + 1) for entry in value) + f"\n{outer}]"
        )
    return msgspec.json.encode(value).decode()
