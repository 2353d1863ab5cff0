"""Layouts: where iteration lines have their numbers, so that most need not be parsed again.

Lines of one log differ in their digits and in little else. With its digits replaced by zeros, a
line that was parsed in full stands for all lines of that spelling: their values are in the same
places.
"""

from __future__ import annotations

import datetime
import operator
import re
from collections.abc import Callable
from typing import NamedTuple

from tprimat.read.megatron.line import ANCHOR, Kind, Record, micros
from tprimat.read.megatron.training import SAME_MOMENT
from tprimat.read.parsing.text import ZEROS, clean, last_stamp, last_stamp_span

_SIGN = b"elapsed"
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
# With other digits these may be colors, or none.
_AMBIGUOUS = re.compile(r"\[[0-9;]+m|[\\\r\x00]|^\{")
# Figures in plain digits, which every pattern of LABELS reads alike and none finds too large.
_PLAIN = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?(?:[eE][-+]?[0-9]{1,2})?")


def find_line(block: bytes, at: int) -> tuple[int, int] | None:
    """Return start and end of the next line of a block that may be an iteration line; None if there
    is none.
    """
    # Few lines but these have a bar, and nothing is found more quickly than one byte.
    sign = b"|"
    while (place := block.find(sign, at)) >= 0:
        end = block.find(b"\n", place)
        if end < 0:
            end = len(block)
        start = block.rfind(b"\n", at, place) + 1 or at
        if block.find(_SIGN, start, end) >= 0:
            return start, end
        at = end + 1
        sign = _SIGN
    return None


class Layout(NamedTuple):
    """Where the numbers of a line are.

    Attributes:
        kind: that of the line that it was learned from.
        names: names of its values; `figures` returns their texts.
        iteration, stamp, rank: bytes of these; empty if the line lacks them.
    """

    spelling: bytes
    kind: Kind
    names: tuple[str, ...]
    figures: Callable[[str], tuple[str, ...]]
    iteration: slice
    stamp: slice
    rank: slice

    def record(self, raw: bytes, number: int) -> Record | None:
        """Return the record of a line, given its number in the log; None if its numbers need a
        closer look.
        """
        text = raw.decode()
        iteration = int(text[self.iteration])
        time = _micros(text[self.stamp])
        if not iteration or time is None:
            return None
        figures = dict(zip(self.names, map(float, self.figures(text)), strict=True))
        return Record(iteration, number, time, self.kind, figures)


class ParsedLine(NamedTuple):
    """A line with its layout, what it has at some of its places, and its record."""

    layout: Layout
    iteration: bytes
    stamp: bytes
    rank: bytes
    record: Record

    @classmethod
    def of(cls, raw: bytes, layout: Layout, record: Record) -> ParsedLine:
        """Return a line that was parsed."""
        return cls(layout, raw[layout.iteration], raw[layout.stamp], raw[layout.rank], record)

    def is_repeated_by(self, raw: bytes, layout: Layout) -> bool:
        """Return whether another rank surely printed the same iteration at the same moment, and
        nothing more.
        """
        if raw[layout.iteration] != self.iteration or raw[layout.rank] == self.rank:
            return False
        own = self.layout
        stamp = raw[layout.stamp]
        if layout is not own and not (
            layout.kind.aware is own.kind.aware and set(layout.names) <= set(own.names)
        ):
            return False
        if not stamp:
            return bool(raw[layout.rank] and self.rank)
        if stamp == self.stamp:
            return True
        time = _micros(stamp.decode())
        apart = max(SAME_MOMENT * (self.record.seconds or 0.0), own.kind.resolution)
        return time is not None and abs(time - self.record.micros) / 1e6 <= apart


def layout_of(raw: bytes, record: Record, places: dict[str, slice]) -> Layout | None:
    """Return the layout of a line without its end; None if the spelling is ambiguous.

    `record` is its only one, whose values have these places in the clean text.
    """
    if record.kind.garbled or record.kind.not_finite or not raw.isascii():
        return None
    spelled = raw.decode().rstrip("\r")
    text = _COLOR.sub("", spelled)
    if text != clean(spelled) or _AMBIGUOUS.search(text) or len(ANCHOR.findall(text)) != 1:
        return None
    if any(not _PLAIN.fullmatch(text[place]) for place in places.values()):
        return None
    stamp = last_stamp_span(text[: places["iteration"].start])
    if (stamp is None) != (record.kind.aware is None):
        return None
    if stamp:
        bracket = text[stamp[0]] == "["
        places = {**places, "stamp": slice(stamp[0] + bracket, stamp[1] - bracket)}
    colored = {place for color in _COLOR.finditer(spelled) for place in range(*color.span())}
    plain = [place for place in range(len(spelled)) if place not in colored]
    moved = {}
    for name, place in places.items():
        moved[name] = slice(plain[place.start], plain[place.stop - 1] + 1)
    if any(spelled[moved[name]] != text[place] for name, place in places.items()):
        return None
    iteration = moved.pop("iteration")
    time = moved.pop("stamp", slice(0))
    if _micros(spelled[time]) != record.micros:
        return None
    figures = operator.itemgetter(*moved.values())
    return Layout(
        raw.translate(ZEROS),
        record.kind,
        tuple(moved),
        figures,
        iteration,
        time,
        moved.get("rank", slice(0)),
    )


def _micros(stamp: str) -> int | None:
    """Return microseconds since 1970 of a time; 0 of none, None if no clock shows it."""
    if not stamp:
        return 0
    try:
        return micros(datetime.datetime.fromisoformat(stamp))
    except ValueError:
        read = last_stamp(stamp) or last_stamp(f"[{stamp}]")
        if read:
            return micros(read.time)
        return None
