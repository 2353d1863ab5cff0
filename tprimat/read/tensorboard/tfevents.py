"""TensorBoard's event files -> scalars and texts; a reader of the format itself, without TensorBoard.

A file is a sequence of records: length (8 bytes), masked CRC-32C of the length (4), a protocol
buffer Event of that length, its masked CRC-32C (4). Of an Event these fields are read:

    1 wall_time (double)   2 step (varint)   5 summary: 1 value: 1 tag, 2 simple_value (float),
    8 tensor, 9 metadata   7 session_log: 1 status

A training that is running leaves a part of a record at the end: reading stops before it, as at a
record whose checksum is wrong.
"""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

LONGEST_RECORD = 1 << 28
"""Bytes. Graphs and images take some megabytes; a length beyond is no length."""

CHECKED = 2048
"""Bytes. The checksum of a longer record (a graph, a picture) isn't computed: no scalar is in it."""


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
        first_time, last_time: wall times of the first and the last event, s since 1970.
        cut: why reading ended before the end of a file, or None.
    """

    scalars: dict[str, list[Point]] = dataclasses.field(default_factory=dict)
    texts: dict[str, str] = dataclasses.field(default_factory=dict)
    first_time: float | None = None
    last_time: float | None = None
    cut: str | None = None


def _table() -> tuple[int, ...]:
    remainders = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        remainders.append(value)
    return tuple(remainders)


_TABLE = _table()


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
    """Add what a file holds. Never raises for its content: events.cut tells what can't be read."""
    for content in _records(stream, events):
        try:
            _event(content, events)
        except _MalformedError:
            events.cut = "a record is no event"
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
        content = stream.read(length + 4)
        if len(content) < length + 4:
            events.cut = "the file ends within a record"
            return
        body = content[:length]
        if length <= CHECKED and struct.unpack("<I", content[length:])[0] != masked_crc(body):
            events.cut = "the checksum of a record is wrong"
            return
        yield body


class _MalformedError(ValueError):
    """Bytes that are no protocol buffer."""


def _varint(content: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        if place >= len(content):
            break
        byte = content[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise _MalformedError


def _fields(content: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yield the number, wire type and value of each field: an integer for wire type 0, else the bytes."""
    place = 0
    while place < len(content):
        key, place = _varint(content, place)
        kind = key & 7
        if kind == 0:
            value, place = _varint(content, place)
            yield key >> 3, kind, value
            continue
        size = {1: 8, 5: 4}.get(kind, 0)
        if kind == 2:
            size, place = _varint(content, place)
        if kind not in (1, 2, 5) or place + size > len(content):
            raise _MalformedError
        yield key >> 3, kind, content[place : place + size]
        place += size


def _event(content: bytes, events: Events) -> None:
    wall_time, step = 0.0, 0
    summaries: list[bytes] = []
    restarted = False
    for field in _fields(content):
        match field:
            case 1, 1, value:
                wall_time = struct.unpack("<d", value)[0]
            case 2, 0, value:
                step = value - (1 << 64) if value >= 1 << 63 else value
            case 5, 2, value:
                summaries.append(value)
            case 7, 2, value:
                restarted = any(number == 1 and status == 1 for number, _, status in _fields(value))
    if wall_time > 0:
        events.first_time = wall_time if events.first_time is None else min(events.first_time, wall_time)
        events.last_time = wall_time if events.last_time is None else max(events.last_time, wall_time)
    if restarted:
        # A session that starts at a step takes back what was written for it and later ones.
        for tag, points in events.scalars.items():
            events.scalars[tag] = [point for point in points if point.step < step]
    for summary in summaries:
        for number, kind, value in _fields(summary):
            if (number, kind) == (1, 2):
                _value(value, wall_time, step, events)


def _value(content: bytes, wall_time: float, step: int, events: Events) -> None:
    tag, scalar, tensor = "", None, None
    for field in _fields(content):
        match field:
            case 1, 2, value:
                tag = value.decode("utf-8", errors="replace")
            case 2, 5, value:
                scalar = struct.unpack("<f", value)[0]
            case 8, 2, value:
                tensor = value
    if tensor is not None:
        read = _tensor(tensor)
        if isinstance(read, str):
            events.texts[tag] = read
            return
        scalar = read
    if scalar is not None:
        events.scalars.setdefault(tag, []).append(Point(wall_time, step, scalar))


_PACKED = {5: "f", 6: "d", 7: None, 10: None}
"""Fields of a tensor that hold numbers: floats, doubles, and two kinds of integers as varints."""

_RAW = {1: "f", 2: "d", 3: "i", 9: "q"}
"""Types of a tensor whose numbers stand in tensor_content."""


def _tensor(content: bytes) -> float | str | None:
    """Return a scalar tensor's number or text; None for other shapes and types."""
    kind_of_data, raw, size = 0, b"", 1
    numbers: list[float] = []
    texts: list[str] = []
    for field in _fields(content):
        match field:
            case 1, 0, value:
                kind_of_data = value
            case 2, 2, value:
                size = _size(value)
            case 4, 2, value:
                raw = value
            case 8, 2, value:
                texts.append(value.decode("utf-8", errors="replace"))
            case number, _, value if number in _PACKED:
                numbers += _numbers(_PACKED[number], value)
    if texts:
        return texts[0]
    form = _RAW.get(kind_of_data)
    if form and len(raw) == struct.calcsize("<" + form):
        return float(struct.unpack("<" + form, raw)[0])
    return numbers[0] if len(numbers) == 1 and size == 1 else None


def _numbers(form: str | None, value: int | bytes) -> list[float]:
    """Return the first two numbers of a field at most: a scalar has one."""
    if isinstance(value, int):
        return [float(value)]
    numbers: list[float] = []
    if form is not None:
        width = struct.calcsize("<" + form)
        whole = min(len(value) // width, 2) * width
        return [float(number) for (number,) in struct.iter_unpack("<" + form, value[:whole])]
    place = 0
    while place < len(value) and len(numbers) < 2:
        number, place = _varint(value, place)
        numbers.append(float(number))
    return numbers


def _size(shape: bytes) -> int:
    """Return the number of elements: the product of the sizes of a shape's dimensions."""
    return math.prod(
        next((size for field, wire, size in _fields(dimension) if (field, wire) == (1, 0)), 1)
        for number, kind, dimension in _fields(shape)
        if (number, kind) == (2, 2)
    )
