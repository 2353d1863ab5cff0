"""Reader of a W&B run's own file, wandb/offline-run-*/run-*.wandb, without the wandb package.

It begins with “:W&B”, and is a log of records in blocks of 32 KiB, as in LevelDB: CRC-32 (4 bytes),
length (2), kind (1: whole; 2, 3, 4: first, middle, last part), content, a protocol buffer Record.
Of a Record these fields are read:

    2 history: 1 item (1 key, 2 nested_key, 16 value_json), 2 step (1 num)
    5 config: 1 update (as item), 2 remove   17 run: 4 config, 8 display_name, 17 start_time (1 seconds)
    18 exit: 1 exit_code   26 environment: 12 host, 24 gpu_nvidia (1 name), 26 gpu_amd (8 series)

A run that is killed leaves a part of a record; what follows damage is read from the next block on.
Source: wandb/proto/wandb_internal.proto and core/pkg/leveldb of wandb/wandb; checked with files of
versions 0.17.9 and 0.31.0.
"""

from __future__ import annotations

import functools
import json
import struct
import zlib
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from typing import Any, BinaryIO

from tprimat.notes import Note
from tprimat.read import tracked
from tprimat.read.parsing.options import state_config
from tprimat.read.parsing.parsed_log import Beside, FileFormat, InputFile, ParsedLog, each_of
from tprimat.read.parsing.protobuf import fields_of
from tprimat.read.parsing.text import utc
from tprimat.read.parsing.values import LoggedValues, json_object, state
from tprimat.results.fields import FieldValues
from tprimat.results.outcome import Cause

_MAGIC = b":W&B"
_FILE_HEADER, _BLOCK = 7, 1 << 15
_HEADER = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_VALUE = b"\x82\x01"
"""What begins field 16, the value, of an item; it comes last."""

_LONGEST = 1 << 25
"""Bytes of a record; longer ones hold media, if they are records at all."""

_METADATA = "files/wandb-metadata.json"
"""Of older versions: the machine's GPUs, which newer ones keep in the record of the environment."""

Message = defaultdict[tuple[int, int], list[Any]]


def _contents(stream: BinaryIO, warnings: list[Note]) -> Iterator[bytes]:
    """Yield the records' contents; for what can't be read, a warning is added."""
    whole = bytearray()
    is_open = False
    damaged = 0
    stream.seek(_FILE_HEADER)
    block = stream.read(_BLOCK - _FILE_HEADER)
    while block:
        place = 0
        while place + _HEADER.size <= len(block):
            crc, length, kind = _HEADER.unpack_from(block, place)
            content = block[place + _HEADER.size : place + _HEADER.size + length]
            if kind == 0 == length:
                # Room at the end of a block, or of a file that was allocated before it was written.
                break
            if (
                len(content) < length
                or zlib.crc32(bytes((kind,)) + content) != crc
                or not _WHOLE <= kind <= _LAST
            ):
                damaged = damaged + 1
                is_open = False
                break
            place += _HEADER.size + length
            if kind in (_WHOLE, _FIRST):
                damaged += is_open
                whole = bytearray()
                is_open = True
            if is_open and len(whole) <= _LONGEST:
                whole += content
            if kind in (_WHOLE, _LAST):
                if is_open and len(whole) <= _LONGEST:
                    yield bytes(whole)
                is_open = False
        block = stream.read(_BLOCK)
    damaged += is_open
    if damaged:
        warnings.append(Note("records-damaged", {"count": damaged}))


def _text(values: list[Any]) -> str:
    return b"".join(values[-1:]).decode("utf-8", "replace")


@functools.lru_cache(4096)
def _name(keys: bytes) -> str:
    """Return the name in the keys of an item, dotted if it is nested; a history repeats them in
    each row.
    """
    fields = fields_of(keys)
    return ".".join(key.decode("utf-8", "replace") for key in fields[2, 2]) or _text(fields[1, 2])


def _item(content: bytes, wanted: Container[str] | None = None) -> tuple[str, object]:
    """Return the name and the value of an item; no value if its name is not wanted."""
    keys, _, rest = content.partition(_VALUE)
    if keys and rest and rest[0] == len(rest) - 1 < 0x80:
        name = _name(keys)
        value = rest[1:].decode("utf-8", "replace")
    else:
        name = _name(content)
        value = _text(fields_of(content)[16, 2])
    if wanted is not None and name not in wanted:
        return name, None
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, None


class _Contents:
    def __init__(self, stream: BinaryIO, wanted: Container[str] | None) -> None:
        """Read what a stream holds; of the history the wanted values, all for None."""
        self._wanted = wanted
        self.rows: list[tuple[int, dict[str, object]]] = []
        self.config: dict[str, object] = {}
        self.warnings: list[Note] = []
        self.name = ""
        self.host = ""
        self.started = 0
        self.exit_code: int | None = None
        self.devices: set[str] = set()
        for content in _contents(stream, self.warnings):
            try:
                self._add(fields_of(content))
            except (ValueError, LookupError, AttributeError, TypeError):
                self.warnings.append(Note("record-skipped"))

    def _add(self, record: Message) -> None:
        for history in record[2, 2]:
            fields = fields_of(history)
            row = dict(_item(item, self._wanted) for item in fields[1, 2])
            if fields[2, 2] and "_step" not in row:
                row["_step"] = (fields_of(fields[2, 2][-1])[1, 0] or [0])[-1]
            self.rows.append(
                (0, {name: value for name, value in row.items() if isinstance(value, (int, float))})
            )
        for run in record[17, 2]:
            fields = fields_of(run)
            self.name = _text(fields[8, 2])
            for time in fields[17, 2]:
                self.started = (fields_of(time)[1, 0] or [0])[-1]
            for config in fields[4, 2]:
                self._add_config(config)
        for config in record[5, 2]:
            self._add_config(config)
        for ending in record[18, 2]:
            code = (fields_of(ending)[1, 0] or [0])[-1]
            self.exit_code = code - (1 << 64) if code >> 63 else code
        for environment in record[26, 2]:
            fields = fields_of(environment)
            self.host = _text(fields[12, 2]) or self.host
            self.devices |= {_text(fields_of(gpu)[1, 2]) for gpu in fields[24, 2]}
            self.devices |= {_text(fields_of(gpu)[8, 2]) for gpu in fields[26, 2]}

    def _add_config(self, content: bytes) -> None:
        fields = fields_of(content)
        self.config |= dict(map(_item, fields[1, 2]))
        for removed in fields[2, 2]:
            self.config.pop(_item(removed)[0], None)

    def state(self, stated: LoggedValues, metadata: Mapping[str, Any]) -> None:
        state_config(self.config, stated, "W&B's config")
        gpu = metadata.get("gpu")
        names = self.devices - {""} or ({gpu} if isinstance(gpu, str) and gpu else set())
        if len(names) == 1:
            state(stated, "device_name", min(names), f"W&B's environment: {min(names)}")
        state(stated, "hostname", self.host or None)


def history(stream: BinaryIO) -> list[tuple[int, dict[str, object]]]:
    """Return the rows of a run's history with all their numbers, counted from 1."""
    rows = _Contents(stream, None).rows
    return [(number, row) for number, (_, row) in enumerate(rows, 1)]


def _read(part: InputFile, beside: Beside) -> list[ParsedLog]:
    run = _Contents(part.stream, tracked.READ)
    metadata = json_object(beside.get(_METADATA, b"").decode("utf-8", "replace")) or {}
    try:
        trainings = tracked.trainings_of(run.rows)
    except ValueError as error:
        raise tracked.with_columns(error, history(part.stream)) from error
    known: FieldValues = {"timestamp": utc(run.started), "ended": run.exit_code == 0 or None}
    if run.exit_code:
        known["cause"] = Cause("failed", f"the run ended with exit code {run.exit_code}")
    known["notes"] = (f"{len(run.rows)} rows of history, {len(run.config)} entries of config",)
    known["notes"] += (f"W&B run {run.name}",) if run.name else ()
    for training in trainings:
        run.state(training.around.stated, metadata)
        training.warnings[:0] = run.warnings
    return [
        tracked.parsed(training, "wandb", "run file", lines=False, **known)
        for training in trainings
    ]


def recognizes(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is that of a run."""
    return head.startswith(_MAGIC)


FILE_FORMATS = (
    FileFormat(
        "wandb",
        "the file of a W&B run (run-*.wandb)",
        recognizes,
        each_of(_read),
        beside=(_METADATA,),
    ),
)
