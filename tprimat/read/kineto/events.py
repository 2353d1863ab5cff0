"""Events of a trace from a stream of its bytes, a few megabytes at a time.

Kineto's traces reach gigabytes, so a whole one is never held. The array `traceEvents` is cut
between two events, and msgspec decodes each piece. Where to cut is guessed and then proven: a piece
of the array that is valid JSON by itself ends between two elements of the array, and nowhere within
one.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

PIECE = 1 << 22
"""Bytes that are decoded at once."""

LONGEST = 1 << 25
"""Most bytes of a single event, and of the text before all events or after them."""

GUESSES = 8
"""Cuts that are tried at the end of a piece before each bracket of it is counted."""

_BEGIN = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*\\?(?:"|\Z)|[{}\[\]]', re.DOTALL)
"""A string, also one that is cut off, or a bracket outside of strings."""

_REPAIRS = (
    (re.compile(rb"(:\s*)-?(?:nan|inf(?:inity)?)\b", re.IGNORECASE), rb"\1null"),
    (
        re.compile(rb'\\((?:["\\/bfnrt]|u[0-9a-fA-F]{4})?)'),
        lambda escape: escape[0] if escape[1] else rb"\\",
    ),
    (re.compile(rb"[\x00-\x1f]"), b" "),
)
"""What Kineto writes and JSON doesn't know: numbers that are none, paths and names with bare
backslashes.
"""


class Arguments(msgspec.Struct, gc=False):
    """The arguments of an event that are used. Shapes and types stay undecoded: most are alike."""

    correlation: int = -1
    device: int = -1
    shapes: msgspec.Raw = msgspec.field(name="Input Dims", default=msgspec.Raw())
    types: msgspec.Raw = msgspec.field(name="Input type", default=msgspec.Raw())
    collective: str = msgspec.field(name="Collective name", default="")


class Event(msgspec.Struct, gc=False):
    """An event. Times are in µs, as in the file; NaN if it has none."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float = math.nan
    dur: float = math.nan
    tid: int | str = 0
    args: Arguments | None = None


class Device(msgspec.Struct, gc=False):
    """A row of deviceProperties."""

    id: int = -1
    name: str = ""
    memory: int = msgspec.field(name="totalGlobalMem", default=0)
    compute_units: int = msgspec.field(name="numSms", default=0)


class DistributedInfo(msgspec.Struct, gc=False):
    """The process among those of the training."""

    rank: int | None = None
    world_size: int | None = None


class Properties(msgspec.Struct, gc=False):
    """Values of a trace besides its events."""

    devices: list[Device] = msgspec.field(name="deviceProperties", default_factory=list)
    distributed: DistributedInfo = msgspec.field(
        name="distributedInfo", default_factory=DistributedInfo
    )
    cuda_version: int | None = msgspec.field(name="cuda_runtime_version", default=None)
    hip_version: int | None = msgspec.field(name="hip_runtime_version", default=None)


_MANY = msgspec.json.Decoder(list[Event], strict=False)
_ONE = msgspec.json.Decoder(Event, strict=False)


class EventStream:
    """The events of a trace, and its other values.

    Attributes:
        properties: complete when all events were read.
        skipped: events that can't be decoded.
        cut: whether the trace ends within its events.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.properties = Properties()
        self.skipped = 0
        self.cut = False
        self._stream = stream

    def pieces(self) -> Iterator[list[Event]]:
        """Yield the events in their order, many at a time. Raises ValueError if the content is no
        trace.
        """
        head, rest = self._head()
        tail = b""
        at_end = False
        while not at_end:
            chunk = self._stream.read(max(PIECE, len(rest)))
            at_end = not chunk
            rest += chunk
            decoded = None if at_end else _guess(rest)
            if decoded is not None:
                events, size = decoded
            else:
                ends, closed = _scan(rest)
                if not ends and closed is None and not at_end:
                    if len(rest) > LONGEST:
                        raise ValueError(f"an event is longer than {LONGEST >> 20} MiB")
                    continue
                size = ends[-1] if ends else 0
                events = self._decoded(rest, ends)
                if closed is not None:
                    tail = rest[closed + 1 :]
                    at_end = True
                self.cut = at_end and closed is None
            yield events
            rest = rest[size:].lstrip(b", \t\r\n")
        self._finish(head, tail)

    def _head(self) -> tuple[bytes, bytes]:
        """Return the text before the array of events, and the part of it that was read."""
        head = b""
        while chunk := self._stream.read(1 << 16 if not head else PIECE):
            head += chunk
            if begin := _BEGIN.search(head):
                return head[: begin.start()], head[begin.end() :]
            if head.lstrip()[:1] == b"[":
                # The array alone is a trace too.
                return b"{", head.lstrip()[1:]
            if len(head) > LONGEST:
                break
        raise ValueError("it has no traceEvents")

    def _decoded(self, content: bytes, ends: list[int]) -> list[Event]:
        """Return the events of a piece by their ends; those that are no JSON are repaired or
        skipped.
        """
        piece = content[: ends[-1]] if ends else b""
        for repair in (bytes, _repaired):
            with contextlib.suppress(msgspec.DecodeError, RecursionError):
                return _MANY.decode(b"[" + repair(piece) + b"]")
        events = []
        for begin, end in zip([0, *ends], ends, strict=False):
            try:
                events.append(_ONE.decode(_repaired(content[begin:end].lstrip(b", \t\r\n"))))
            except (msgspec.DecodeError, RecursionError):
                self.skipped += 1
        return events

    def _finish(self, head: bytes, tail: bytes) -> None:
        while len(tail) < LONGEST and (chunk := self._stream.read(PIECE)):
            tail += chunk
        for end in (tail, b"}"):
            try:
                self.properties = msgspec.json.decode(
                    head + b'"traceEvents":[]' + end, type=Properties, strict=False
                )
                return
            except (msgspec.DecodeError, RecursionError):
                continue


def _guess(content: bytes) -> tuple[list[Event], int] | None:
    """Return the events before one of the last likely cuts, and where they end; None if each guess
    is wrong.
    """
    cuts = []
    for match in _BETWEEN.finditer(content, max(len(content) - (1 << 16), 0)):
        cuts.append(match.start() + 1)
    for cut in reversed(cuts[-GUESSES:]):
        try:
            return _MANY.decode(b"[" + content[:cut] + b"]"), cut
        except (msgspec.DecodeError, RecursionError):
            continue
    return None


def _scan(content: bytes) -> tuple[list[int], int | None]:
    """Return where the whole events end, by counting brackets, and where the array is closed if it
    is.
    """
    depth = 0
    ends: list[int] = []
    for token in _TOKEN.finditer(content):
        sign = content[token.start()]
        if sign in b"{[":
            depth += 1
        elif sign in b"}]":
            if depth == 0:
                return ends, token.start()
            depth -= 1
            if depth == 0:
                ends.append(token.end())
    return ends, None


def _repaired(content: bytes) -> bytes:
    content = content.decode("utf-8", "replace").encode()
    for pattern, replacement in _REPAIRS:
        content = pattern.sub(replacement, content)
    return content
