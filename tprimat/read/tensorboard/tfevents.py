"""TensorBoard's event files -> scalars and texts; a reader of the format itself, without
TensorBoard.

A file is a sequence of records: length (8 bytes), masked CRC-32C of the length (4), a protocol
buffer Event of that length, its masked CRC-32C (4). These fields of an Event are read:

    1 wall_time (double)   2 step (varint)   5 summary: 1 value: 1 tag, 2 simple_value (float),
    8 tensor, 9 metadata   7 session_log: 1 status

A training that is running leaves a part of a record at the end: reading stops before it, as at a
record whose checksum is wrong.
"""

from __future__ import annotations

import dataclasses
import io
import math
import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from tprimat.read.parsing.protobuf import fields_of, varint

LONGEST_RECORD = 1 << 28
"""Bytes. Graphs and images take some megabytes; a length beyond is no length."""

CHECKED, LONGEST_READ = 2048, 1 << 24
"""Bytes. A longer record (a graph, an image) isn't checked, or isn't even read: no scalar is in it.
"""


class Point(NamedTuple):
    """A scalar: wall time in s since 1970, step, value."""

    wall_time: float
    step: int
    value: float


@dataclasses.dataclass
class Events:
    """What event files hold.

    Attributes:
        scalars: by tag, in the order of the file.
        texts: by tag, the last one.
        first_time: wall time of the first event, s since 1970.
        cut: why reading ended before the end of a file, or None.
    """

    scalars: dict[str, list[Point]] = dataclasses.field(default_factory=dict)
    texts: dict[str, str] = dataclasses.field(default_factory=dict)
    first_time: float | None = None
    cut: str | None = None


def _remainder(value: int) -> int:
    for _ in range(8):
        value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value


_TABLE = tuple(map(_remainder, range(256)))


def masked_crc(content: bytes) -> int:
    """Return the format's checksum: CRC-32C, rotated by 15 bits, plus a constant."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def is_event_file(head: bytes) -> bool:
    """Return whether these first bytes are an event file's: its first length has its checksum."""
    if len(head) < 12:
        return False
    length, crc = struct.unpack("<QI", head[:12])
    return bool(0 < length <= LONGEST_RECORD and crc == masked_crc(head[:8]))


def read_into(stream: BinaryIO, events: Events) -> None:
    """Add what a file holds. Never raises for its content: events.cut states what can't be read."""
    for content in _records(stream, events):
        try:
            _add_event(content, events)
        except (ValueError, LookupError):
            events.cut = "a record is not an event"
            return


def _records(stream: BinaryIO, events: Events) -> Iterator[bytes]:
    while header := stream.read(12):
        if len(header) < 12:
            events.cut = "the file ends within a record"
            return
        if not is_event_file(header):
            events.cut = "the length of a record is damaged"
            return
        (length,) = struct.unpack("<Q", header[:8])
        if length > LONGEST_READ:
            stream.seek(length, io.SEEK_CUR)
            length = 0
        content = stream.read(length + 4)
        if len(content) < length + 4:
            events.cut = "the file ends within a record"
            return
        body = content[:length]
        if 0 < length <= CHECKED and struct.unpack("<I", content[length:])[0] != masked_crc(body):
            events.cut = "the checksum of a record is wrong"
            return
        yield body


def _number(form: str, values: list[bytes]) -> float | None:
    """Return the last of some numbers; None if there is none."""
    if values:
        return float(struct.unpack(form, values[-1])[0])
    return None


def _add_event(content: bytes, events: Events) -> None:
    fields = fields_of(content)
    wall_time = _number("<d", fields[1, 1]) or 0.0
    step = fields[2, 0][-1] if fields[2, 0] else 0
    step -= 1 << 64 if step >= 1 << 63 else 0
    if wall_time > 0:
        events.first_time = min(wall_time, events.first_time or wall_time)
    if any(1 in fields_of(log)[1, 0] for log in fields[7, 2][-1:]):
        # A session that starts at a step discards the values of this step and of later ones.
        for tag, points in events.scalars.items():
            events.scalars[tag] = [point for point in points if point.step < step]
    for summary in fields[5, 2]:
        for value in fields_of(summary)[1, 2]:
            parts = fields_of(value)
            tag = b"".join(parts[1, 2][-1:]).decode("utf-8", errors="replace")
            known = _tensor(parts[8, 2][-1]) if parts[8, 2] else _number("<f", parts[2, 5])
            if isinstance(known, str):
                events.texts[tag] = known
            elif known is not None:
                events.scalars.setdefault(tag, []).append(Point(wall_time, step, known))


_PACKED = {5: "<f", 6: "<d", 7: None, 10: None}
"""Fields of a tensor that hold numbers: floats, doubles, and two kinds of integers as varints."""

_RAW = {1: "<f", 2: "<d", 3: "<i", 9: "<q"}
"""Types of a tensor whose numbers are in tensor_content."""


def _tensor(content: bytes) -> float | str | None:
    """Return a scalar tensor's number or text; None for other shapes and types."""
    fields = fields_of(content)
    if fields[8, 2]:
        return str(fields[8, 2][0], "utf-8", "replace")
    form = _RAW.get(fields[1, 0][-1] if fields[1, 0] else 0)
    if form and fields[4, 2] and len(fields[4, 2][-1]) == struct.calcsize(form):
        return _number(form, fields[4, 2])
    numbers = []
    for (number, _), values in fields.items():
        if number in _PACKED:
            for value in values:
                numbers += _first_two(_PACKED[number], value)
    sizes = []
    for shape in fields[2, 2][-1:]:
        for dimension in fields_of(shape)[2, 2]:
            sizes.append(fields_of(dimension)[1, 0])
    if len(numbers) == 1 and math.prod(size[0] for size in sizes if size) == 1:
        return numbers[0]
    return None


def _first_two(form: str | None, value: int | bytes) -> list[float]:
    """Return the first two numbers of a field at most: a scalar has one."""
    if isinstance(value, int):
        return [float(value)]
    if form is not None:
        width = struct.calcsize(form)
        whole = min(len(value) // width, 2) * width
        return [float(number) for (number,) in struct.iter_unpack(form, value[:whole])]
    numbers: list[float] = []
    place = 0
    while place < len(value) and len(numbers) < 2:
        number, place = varint(value, place)
        numbers.append(float(number))
    return numbers
