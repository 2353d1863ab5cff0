"""Protocol buffers without their schema: the fields of a message by number and wire type."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

_SIZES = {1: 8, 5: 4}
"""Bytes of the wire types of fixed size."""

MOST_FIELDS = 1000
"""Numbers of fields in a message: each takes a hundred times as much memory as in the file."""


def varint(content: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place after it. Raises ValueError or LookupError if
    there is none.
    """
    value = content[at]
    shift = 0
    # The highest bit of a byte isn't part of the number: it shows that another byte follows.
    while value >> shift >= 0x80:
        at += 1
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than ten bytes")
        value += (content[at] - 1) << shift
    return value, at + 1


def fields_of(content: bytes) -> defaultdict[tuple[int, int], list[Any]]:
    """Return the values by number and wire type of their fields: integers for wire type 0, else
    bytes.

    Raises ValueError or LookupError if the bytes are no message.
    """
    fields: defaultdict[tuple[int, int], list[Any]] = defaultdict(list)
    value: Any
    at = 0
    while at < len(content):
        key, at = varint(content, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(content, at)
        else:
            size, at = varint(content, at) if kind == 2 else (_SIZES[kind], at)
            value = content[at : at + size]
            at += size
        fields[key >> 3, kind].append(value)
        if len(fields) > MOST_FIELDS:
            raise ValueError("more fields than any message has")
    if at > len(content):
        raise ValueError("a field exceeds the record")
    return fields
