"""Layouts of Megatron's iteration lines: what one line of a log teaches about all that are made like it.

Lines of one log differ in their digits and in little else. Of a line that was read segment by
segment (megatron_line) patterns are made that match lines of the same make only: one of its head,
up to the word iteration, with colours, stamp and rank; and one of its tail, with the figures. A
line that both match says what reading it segment by segment would find; any other is read so.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Callable, Sequence

from tprimat.read.megatron.line import USAGE, Record, label_of
from tprimat.read.parsing.text import Stamp, clean, last_stamp, last_stamp_span

MOST = 16
"""Heads, and tails, that are kept."""

ATTEMPTS, LINES_PER_ATTEMPT = 64, 4096
"""Lines that are learnt from at first, and lines that must have matched for one more: learning is slow."""

_WORD = "iteration"
_CONTROL = re.compile(r"\x1b\[[0-9;]*m|(?:\[(?:0|39|49)m|(?<!\w)\[\d{1,3}(?:;\d{1,3})*m)(?:\[\d{1,3}(?:;\d{1,3})*m)*")
_COUNTED = re.compile(r"iteration\s*\d")
_ANCHOR = re.compile(r"iteration +[0-9]{1,12} */ *[0-9]{1,12} *\|")
_RANK = re.compile(r"\[rank-([0-9]+)/([0-9]+)\]")
_DIGITS = re.compile(r"[0-9]+")
# Figures in plain digits, which every pattern of LABELS reads alike and none finds too large.
_PLAIN = r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?(?:[eE][-+]?[0-9]{1,2})?"
_SIZE = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
# What isn't read: blanks before figures grow and shrink, and exponents have either sign.
_LOOSE = re.compile(r" *[-+]?[0-9]{1,9}(?:\.[0-9]{1,9})?[eE][-+][0-9]{1,3}(?![0-9.])| *[0-9]{1,9}(?![0-9])")
_LOOSE_EXPONENT = r" *[-+]?[0-9]{1,9}(?:\.[0-9]{1,9})?[eE][-+][0-9]{1,3}"
_LOOSE_DIGITS = r" *[0-9]{1,9}"

_EPOCH = datetime.datetime(1970, 1, 1)
_AWARE_EPOCH = _EPOCH.replace(tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)


def micros(stamp: Stamp) -> int:
    """Microseconds from 1970 to a stamp; to a naive one on its own clock."""
    return (stamp.time - (_EPOCH if stamp.time.tzinfo is None else _AWARE_EPOCH)) // _MICROSECOND


def stamp_of(count: int, resolution: float, *, aware: bool) -> Stamp:
    """The stamp of so many microseconds since 1970; an aware one in UTC."""
    return Stamp((_AWARE_EPOCH if aware else _EPOCH) + count * _MICROSECOND, resolution)


@dataclasses.dataclass(eq=False)
class Head:
    """The layout of a line up to and with the word iteration.

    Attributes:
        pattern: of its bytes.
        groups: of the pattern: stamp, rank and world; they are empty where the layout has none.
        aware, resolution: of its stamp; None where it has none.
    """

    pattern: re.Pattern[bytes]
    groups: tuple[int, int, int]
    aware: bool | None = None
    resolution: float | None = None
    _minute: bytes = b""
    _minute_micros: int = 0

    def micros(self, said: bytes) -> int | None:
        """Microseconds since 1970 of a stamp in this layout; None where no clock shows that."""
        at = 16 if said[4] == 0x2D else 14  # 2026-05-11 02:18:01.5 or 20260511 02:18:01
        if said[:at] != self._minute:
            whole = (said[: at + 1] + b"00" + said[at + 3 :]).decode()
            stamp = last_stamp(whole if at == 16 else f"[{whole}]")
            if stamp is None:
                return None
            self._minute, self._minute_micros = said[:at], micros(stamp) - stamp.time.microsecond
        second = int(said[at + 1 : at + 3])
        if second > 59:
            return None
        count = self._minute_micros + 1_000_000 * second
        if self.resolution != 1.0:
            digits = said[20:26]
            if not digits.isdigit():  # fewer than six, and what follows them
                found = _DIGITS.match(digits.decode())
                digits = (found[0] if found else "").ljust(6, "0").encode()
            count += int(digits)
        return count


class Tail:
    """The layout of a line after the word iteration.

    Args:
        parts: patterns of its anchor and of its segments.
        fields: of Record, for the groups after iteration and planned.
        shape: of Record.
        paired: of Record.
        timed: whether the time is one that can be.

    Attributes:
        pattern: groups: iteration, planned, and a figure for each of fields.
        timed: which of the groups, counted from 0, is the time; None where none is.
        rest: matches what follows common(); None as long as lines that differ were not seen.
    """

    def __init__(self, parts: Sequence[str], fields: tuple[str, ...], shape: str, *, paired: bool, timed: bool) -> None:
        self.pattern = re.compile("".join(parts).encode())
        self.fields = fields
        self.shape = shape
        self.paired = paired
        self.timed = fields.index("elapsed_ms") + 2 if timed else None
        self._parts = parts
        self._differs = len(parts)
        self.rest: Callable[[bytes, int, int], re.Match[bytes] | None] | None = None

    def differs(self, one: bytes, other: bytes) -> bool:
        """Takes note that two lines of one iteration say this: they are alike up to some segment.

        Returns:
            Whether common() and rest are others now.
        """
        alike = 0
        for size in (256, 64, 16, 4, 1):
            while one[alike : alike + size] == other[alike : alike + size] and alike < len(one):
                alike += size
        segment = min(one.count(b"|", 0, alike), len(self._parts) - 1)
        if not 2 <= segment < self._differs:
            return False
        self._differs = segment
        self.rest = re.compile("".join(self._parts[segment:]).encode()).fullmatch
        return True

    def common(self, said: bytes) -> bytes:
        """What lines of one iteration have in common, if this is one of them."""
        return b"" if self.rest is None else b"|".join(said.split(b"|", self._differs)[: self._differs])


class Layouts:
    """The layouts of one log."""

    def __init__(self) -> None:
        self.heads: list[Head] = []
        self.tails: list[Tail] = []
        self.matched = 0
        self._attempts = 0

    def head(self, block: bytes, start: int, end: int) -> tuple[Head, re.Match[bytes]] | None:
        """The head of the line between two places of a block."""
        for index, head in enumerate(self.heads):
            if match := head.pattern.match(block, start, end):
                if index:
                    self.heads.insert(0, self.heads.pop(index))
                return head, match
        return None

    def tail(self, said: bytes) -> tuple[Tail, re.Match[bytes]] | None:
        """The tail of a line, given what follows the word iteration."""
        for index, tail in enumerate(self.tails):
            if match := tail.pattern.fullmatch(said):
                if index:
                    self.tails.insert(0, self.tails.pop(index))
                return tail, match
        return None

    def of(self, raw: bytes) -> tuple[Head, re.Match[bytes], Tail, re.Match[bytes]] | None:
        """Head and tail of a line."""
        head = self.head(raw, 0, len(raw))
        tail = self.tail(raw[head[1].end() :]) if head else None
        return (*head, *tail) if head and tail else None

    def learn(self, raw: bytes, record: Record) -> None:
        """Makes layouts of a whole line that holds one record; none where the line isn't plain enough."""
        if record.garbled or record.not_finite or not raw.isascii():
            return
        if self._attempts >= ATTEMPTS + self.matched // LINES_PER_ATTEMPT:
            return
        self._attempts += 1
        made = _made_of(raw.decode(), record)
        if made is None:
            return
        head, tail = made
        start = head.pattern.match(raw)
        figures = tail.pattern.fullmatch(raw, start.end()) if start else None
        # The line itself is the first test.
        if start is None or figures is None or record_of(head, start, tail, figures, record.line) != record:
            return
        if all(head.pattern != known.pattern for known in self.heads):
            self.heads = [head, *self.heads[: MOST - 1]]
        if all(tail.pattern != known.pattern for known in self.tails):
            self.tails = [tail, *self.tails[: MOST - 1]]


def record_of(head: Head, start: re.Match[bytes], tail: Tail, figures: re.Match[bytes], line: int) -> Record | None:
    """The record of a line that layouts match; None where its stamp is no time."""
    said, rank, world = start.group(*head.groups)
    stamp = None
    if head.aware is not None and head.resolution is not None:
        count = head.micros(said)
        if count is None:
            return None
        stamp = stamp_of(count, head.resolution, aware=head.aware)
    iteration, planned, *values = figures.groups()
    record = Record(int(iteration), int(planned), line, stamp)
    if rank:
        record.rank, record.world = int(rank), int(world)
    for field, value in zip(tail.fields, values, strict=True):
        setattr(record, field, float(value))
    record.shape, record.paired = tail.shape, tail.paired
    return record


def _made_of(raw: str, record: Record) -> tuple[Head, Tail] | None:
    text = _CONTROL.sub("", raw)
    anchors = list(_ANCHOR.finditer(text))
    # With other digits, brackets may become colours and a second word iteration another anchor.
    if text != clean(raw) or len(anchors) != 1 or len(_COUNTED.findall(text)) != 1 or "[" in text[anchors[0].end() :]:
        return None
    anchor = anchors[0]
    spelling = _Spelling(raw, text)
    if any(anchor.start() < at < anchor.end() for at in spelling.colours):
        return None
    head = _head(spelling, anchor.start(), record)
    tail = _tail(spelling, anchor, record)
    return (head, tail) if head and tail else None


class _Spelling:
    """Spells a line as a pattern, stretch by stretch, from its clean text and the colours in between.

    Args:
        raw: the line.
        text: the same without colours.
    """

    def __init__(self, raw: str, text: str) -> None:
        self.text = text
        self.colours: list[int] = []
        """Where they stand: before which characters of the text."""
        self._controls: list[str] = []
        self._next = 0
        gone = 0
        for control in _CONTROL.finditer(raw):
            self.colours.append(control.start() - gone)
            self._controls.append(control[0])
            gone += len(control[0])

    def stretch(self, start: int, end: int, how: Callable[[str], str]) -> str:
        """The pattern of a stretch of the text, with the colours in it and at its ends."""
        found = []
        while self._next < len(self.colours) and self.colours[self._next] <= end:
            at = self.colours[self._next]
            found += [how(self.text[start:at]), re.escape(self._controls[self._next])]
            start = at
            self._next += 1
        return "".join([*found, how(self.text[start:end])])

    def group(self, start: int, end: int, pattern: str) -> str | None:
        """A group for a stretch of the text; None where a colour stands within, or the text isn't of that form."""
        if any(start < at < end for at in self.colours) or not re.fullmatch(pattern, self.text[start:end]):
            return None
        return f"({pattern})"


def _same_width(text: str) -> str:
    """The same with other digits."""
    return _each(_DIGITS, text, lambda digits: f"[0-9]{{{len(digits)}}}")


def _any_width(text: str) -> str:
    """The same with other numbers of up to nine digits."""
    return _each(_DIGITS, text, lambda digits: "[0-9]{1,9}" if len(digits) <= 9 else digits)


def _any_figure(text: str) -> str:
    """The same with other figures, set apart by more or fewer blanks."""
    return _each(_LOOSE, text, lambda said: _LOOSE_EXPONENT if "e" in said.lower() else _LOOSE_DIGITS)


def _blanks(text: str) -> str:
    """Blanks, as many as there are; text that isn't blank stays."""
    return re.escape(text) if text.strip(" ") else " *"


def _each(pattern: re.Pattern[str], text: str, how: Callable[[str], str]) -> str:
    found, at = [], 0
    for match in pattern.finditer(text):
        found += [re.escape(text[at : match.start()]), how(match[0])]
        at = match.end()
    return "".join([*found, re.escape(text[at:])])


def _head(spelling: _Spelling, end: int, record: Record) -> Head | None:
    before = spelling.text[:end]
    groups: list[tuple[int, int, int]] = []
    span, rank = last_stamp_span(before), _RANK.search(before)
    if (span is None) != (record.stamp is None):
        return None
    if span:
        # Of [20260511 02:18:01] the brackets stay outside: colours begin and end at them.
        inner = before[span[0]] == "["
        groups.append((span[0] + inner, span[1] - inner, 0))
    if rank:
        groups += [(*rank.span(1), 1), (*rank.span(2), 2)]
    at, pattern, numbers = 0, "", [0, 0, 0]
    for place, (start, stop, which) in enumerate(sorted(groups), start=1):
        if start < at:
            return None
        # Widths stay as they are here: a longer number could make a time of what is none.
        pattern += spelling.stretch(at, start, _same_width)
        group = spelling.group(
            start, stop, _stamp(before[start:stop]) if which == 0 else _same_width(before[start:stop])
        )
        if group is None:
            return None
        pattern += group
        numbers[which], at = place, stop
    pattern += spelling.stretch(at, end, _same_width) + _WORD
    if not all(numbers):
        pattern += "()"
        numbers = [number or len(groups) + 1 for number in numbers]
    compiled = re.compile(pattern.encode())
    places = (numbers[0], numbers[1], numbers[2])
    if record.stamp is None:
        return Head(compiled, places)
    return Head(compiled, places, record.stamp.time.tzinfo is not None, record.stamp.resolution)


def _stamp(said: str) -> str:
    """The pattern of a time with as many digits, of the same time zone."""
    zone = re.search(r"(?<=:\d\d)(?:[.,]\d+)?(Z|[+-]\d\d:?\d\d)?$", said)
    at = zone.start(1) if zone and zone[1] else len(said)
    return _same_width(said[:at]) + re.escape(said[at:])


def _tail(spelling: _Spelling, anchor: re.Match[str], record: Record) -> Tail | None:
    text = spelling.text
    if any(text[at - 1 : at].isdigit() and text[at : at + 1].isdigit() for at in spelling.colours if at > anchor.end()):
        return None
    segments = []
    at = anchor.end()
    for segment in text[at:].split("|"):
        name, colon, _ = segment.partition(":")
        segments.append((at + len(name) + 1, at + len(segment), label_of(name) if colon else None))
        at += len(segment) + 1
    usages = [label for *_, label in segments if label and label.pattern is USAGE]
    parts = [" +([0-9]{1,12}) */ *([0-9]{1,12}) *\\|"]
    fields: list[str] = []
    at = anchor.end()
    for value, end, label in segments:
        if label is None or label.field in fields:
            parts.append(spelling.stretch(at, end, _any_figure))
            at = end
            continue
        match = label.pattern.fullmatch(text, value, end)
        if match is None:
            return None
        pattern = spelling.stretch(at, value, re.escape)
        at = value
        wanted = [(1, label.field, _SIZE if label.pattern is USAGE else _PLAIN)]
        if usages and label is usages[-1]:
            wanted.append((3, "memory_total_gib", _SIZE))
        for number, field, form in wanted:
            first, last = match.span(number)
            group = spelling.group(first, last, form)
            if group is None:
                return None
            pattern += spelling.stretch(at, first, _blanks if number == 1 else _any_width) + group
            fields.append(field)
            at = last
        if re.search(r"\d[eE]", text[at:end]):
            return None
        parts.append(pattern + spelling.stretch(at, end, _any_width))
        at = end
    return Tail(parts, tuple(fields), record.shape, paired=record.paired, timed=record.seconds is not None)
