"""Bytes of a log -> clean, numbered lines of text, as a stream of bounded memory.

A log that reaches us was colored for a terminal, went through torchrun, Slurm, docker or kubectl,
was pasted into a chat (which eats escape bytes), was saved by PowerShell as UTF-16, or is cut off.
The result is the text that the training wrote. No log format is known here. Secrets are still in
it, so that no value is lost: the kept parts are redacted later.
"""

from __future__ import annotations

import codecs
import datetime
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

LONGEST_LINE = 1 << 20
"""Bytes that are kept of a line; a file without line ends must not fill the memory."""


class Line(NamedTuple):
    """A line of a log.

    Attributes:
        number: in the file, from 1. Pieces that a carriage return parts share one.
        text: without colors, line end and NUL bytes; prefixes are still there.
        whole: False when the file ends before the line does: its last word may be cut.
    """

    number: int
    text: str
    whole: bool


def lines(chunks: Iterable[bytes]) -> Iterator[Line]:
    """Yield the lines of a file that comes in chunks of any size.

    UTF-8, or the encoding that a byte order mark or the first zeros show; bytes that don't decode
    become U+FFFD. A carriage return within a line, as progress bars write it, parts it into pieces.
    """
    number = 1
    for block, whole in blocks_of(chunks):
        yield from lines_of(block, number, whole=whole)
        number += block.count(b"\n")


def blocks_of(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield the blocks that the chunks of a file make, each with whether its last line is whole."""
    blocks = Blocks()
    for chunk in chunks:
        for block in blocks.feed(chunk):
            yield block, True
    yield from blocks.finish()


def lines_of(block: bytes, number: int, *, whole: bool = True) -> Iterator[Line]:
    """Yield the lines of a block; `number` is that of the first, `whole` whether a last one without
    an end is whole.
    """
    if len(block) > LONGEST_LINE:
        block = _PIECE.sub(lambda piece: piece[0][:LONGEST_LINE], block)
    text = clean(block.decode("utf-8", "replace"))
    pieces = text.split("\n")
    last = pieces.pop()
    if "\r" not in text and _WRAPPED not in text:
        for index, piece in enumerate(pieces):
            yield Line(number + index, piece, True)
        if last:
            yield Line(number + len(pieces), last, whole)
        return
    for index, (piece, raw) in enumerate(zip((*pieces, last), block.split(b"\n"), strict=True)):
        has_end = index < len(pieces)
        shown = _unwrapped(piece)
        if shown or has_end:
            yield from _parts(number + index, shown, raw, whole=whole or has_end)


_PIECE = re.compile(rb"[^\r\n]+")
_WRAPPED = '{"log":'


def _unwrapped(piece: str) -> str:
    """Return a line of a docker log file, one JSON object per line, as `docker logs --timestamps`
    shows it.
    """
    if not piece.startswith(_WRAPPED):
        return piece
    try:
        entry = json.loads(piece)
    except (ValueError, RecursionError):
        return piece
    message = entry["log"]
    time = entry.get("time")
    if not isinstance(message, str):
        return piece
    shown = message.rstrip("\n").replace("\n", "\r")
    is_stamped = isinstance(time, str) and last_stamp_span(time) == (0, len(time))
    return clean(f"{time} {shown}" if is_stamped else shown)


def _parts(number: int, piece: str, raw: bytes, *, whole: bool) -> Iterator[Line]:
    """Yield the visible parts of a line between carriage returns; an empty line counts as one."""
    *ended, rest = piece.split("\r")
    visible = [Line(number, part, True) for part in ended if part]
    yield from visible
    if rest:
        yield Line(number, rest, whole)
    elif not visible and b"\r" not in raw[:-1]:
        yield Line(number, "", True)


_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is the beginning of this one
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Without a mark every other byte of plain letters is 0: text that was appended to a file has none,
# or the file's head was lost.
_ZEROS: dict[tuple[bool, ...], str] = {
    (False, True, False, True): "utf-16-le",
    (True, False, True, False): "utf-16-be",
}


def _encoding(head: bytes) -> tuple[bytes, str]:
    """Return a file's byte order mark, or empty bytes, and its encoding."""
    unmarked = b"", _ZEROS.get(tuple(byte == 0 for byte in head[:4]), "utf-8")
    return next((row for row in _MARKS if head.startswith(row[0])), unmarked)


def decoded(content: bytes) -> str:
    """Return a whole log as text, decoded as lines() does."""
    mark, encoding = _encoding(content)
    return content[len(mark) :].decode(encoding, "replace")


_LARGER_THAN_CHUNKS = 4 << 20


class Blocks:
    """Puts the chunks of a file together into blocks of whole lines, in UTF-8 and without a mark.

    The lines of a log are the same wherever its chunks end. The beginning of a line that is longer
    than LONGEST_LINE is kept; a progress bar of that length goes on in the next block, parted at a
    carriage return. More of these are put at either side of the cut, which show nothing and tell
    both from empty lines.
    """

    def __init__(self) -> None:
        # glibc gives memory back to the system, and faults it in again, from a size on that follows
        # the largest block that was freed. Without this some 15 % of the time that a large log
        # takes went there.
        bytes(_LARGER_THAN_CHUNKS)
        self._head: bytes | None = b""
        self._decoder: codecs.IncrementalDecoder | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._dropping = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next chunk; return the blocks that it completes, mostly one."""
        if self._head is not None:
            self._head += chunk
            if len(self._head) < 4:
                return []
            chunk = self._begin(self._head)
        if self._decoder is not None:
            chunk = self._decoder.decode(chunk).encode("utf-8", "replace")
        return self._cut(chunk)

    def finish(self) -> list[tuple[bytes, bool]]:
        """Return the rest, once the file is over: blocks, and whether their last line is whole."""
        blocks = self._cut(self._begin(self._head)) if self._head is not None else []
        if self._decoder is not None:
            blocks += self._cut(self._decoder.decode(b"", final=True).encode("utf-8", "replace"))
        rest = b"".join(self._parts)
        self._parts = []
        self._size = 0
        return [*((block, True) for block in blocks), *([(rest, False)] if rest else [])]

    def _begin(self, head: bytes) -> bytes:
        self._head = None
        mark, encoding = _encoding(head)
        if encoding != "utf-8":
            self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        return head[len(mark) :]

    def _cut(self, chunk: bytes) -> list[bytes]:
        if self._dropping:
            ends = [end for end in (chunk.find(b"\n"), chunk.find(b"\r")) if end >= 0]
            if not ends:
                return []
            chunk = chunk[min(ends) :]
            self._dropping = False
        end = chunk.rfind(b"\n") + 1
        blocks = []
        if end:
            blocks.append(b"".join((*self._parts, memoryview(chunk)[:end])))
            chunk = chunk[end:]
            self._parts = []
            self._size = 0
        if chunk:
            self._parts.append(chunk)
            self._size += len(chunk)
        if self._size > LONGEST_LINE:
            rest = b"".join(self._parts)
            # A carriage return that is the last byte may be the first half of a line end.
            end = rest.rfind(b"\r", 0, -1) + 1
            if end:
                blocks += [rest[:end] + b"\r"] if rest[:end].strip(b"\r") else []
                rest = rest[end:]
            if len(rest) > LONGEST_LINE:
                self._dropping = not rest.endswith(b"\r")
                rest = rest[:LONGEST_LINE] + (b"" if self._dropping else b"\r")
            self._parts, self._size = [b"\r\r", rest] if end else [rest], len(rest)
        return blocks


class Numbers:
    """The numbers of the lines of a block, of which `number` is the first. Places are asked for in
    ascending order.

    The module numpy counts line ends several times as fast; it is None if it isn't installed or
    worth its start.
    """

    def __init__(self, number: int, block: bytes, numpy: Any = None) -> None:
        self._number = number
        self._block = block
        self._at = 0
        self._numpy = numpy
        self._ends: Any = None

    def at(self, place: int) -> int:
        """Return the number of the line that begins at a place."""
        if self._numpy is not None and place - self._at > _WORTH_NUMPY:
            if self._ends is None:
                self._ends = self._numpy.frombuffer(self._block, self._numpy.uint8) == 0x0A
            self._number += int(self._numpy.count_nonzero(self._ends[self._at : place]))
        else:
            self._number += self._block.count(b"\n", self._at, place)
        self._at = place
        return self._number


_WORTH_NUMPY = 16_384
"""Bytes."""


def numpy_if_there() -> Any:
    """Return the module numpy, or None if it isn't installed."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


_COLOR = re.compile(r"\x1b\[[0-9;]*m")
# The escape byte itself, and what other programs turn it into: cat -v, JSON, a bad decoding.
_STAND_INS = ("^[[", "\\u001b[", "\\u001B[", "\\x1b[", "\\x1B[", "\\033[", "\\e[", "␛[", "\x9b")
_CONTROL = re.compile(
    r"(?:(?:\x1b|␛|\^\[|\\u001[bB]|\\x1[bB]|\\033|\\e)\[|\x9b(?=\d))[0-9;?]*[ -/]*[@-~]"
    r"|\x1b\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)"  # window titles and hyperlinks
    r"|\x1b[()][A-Z0-9]|\x1b[=>]"
)
# Colors that lost their escape byte, several in a row too. A reset can follow a word; others only
# what is no letter or digit, since rate[5m] is no color.
_BARE = re.compile(r"\[(?:(?:0|39|49)m|(?<!\w\[)\d{1,3}(?:;\d{1,3})*m)(?:\[\d{1,3}(?:;\d{1,3})*m)*")


def clean(text: str) -> str:
    """Return a text without colors and NUL bytes (a log that was emptied while in use begins with
    them).
    """
    if "\x1b" in text:
        text = _COLOR.sub("", text)
    if "\x1b" in text or any(mark in text for mark in _STAND_INS):
        text = _CONTROL.sub("", text)
    if "\x00" in text:
        text = text.replace("\x00", "")
    if "[" in text:
        return _BARE.sub("", text)
    return text


_PREFIX = re.compile(
    r"\s*\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\s(?:\s*std(?:out|err)"
    r" [FP]\s)?"  # docker, CRI
    r"|\s*\[pod/[^\]\s]+\]\s?"  # kubectl logs --prefix
    r"|\s*[\w.-]+[-_]\d+\s+\|\s"  # docker compose
    r"|\s*\[(?:default|rank|trainer)?\d+\]:\s?"  # torchrun --tee, and torch's own
    r"|\s*\[\d+,\d+\]<std(?:out|err)>:\s?"  # mpirun --tag-output
    r"|\s*\d{1,6}: (?=\S)|\s*\d{1,6}:  ?"  # srun --label
    r"|\s*std(?:out|err): "
    r"|\s*[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]+ [\w./-]+(?:\[\d+\])?:\s"  # journalctl
    r"|\s*[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?\s"  # ts
    r"|\s*\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?\s"
    # Primus' launcher: [time] [NODE-0(host)] [LEVEL]
    r"|\s*(?:\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,\d]*\]"
    r" )?\[NODE-[\d?]+\([^)]*\)\]\s?(?:\[[A-Z]+\]\s?)?"
    # Primus: [time][team/user]…[rank-R/W][LEVEL] [---file.py:line] :
    r"|\s*\[\d{8}"
    r" \d\d:\d\d:\d\d\](?:\[[^\]]*\])*?\[rank-\d+/\d+\]\s*\[\s*[A-Z]+\s*\]\s*(?:\[[-\w./<>]*:\d+\]\s*:\s?)?"
)


ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
"""Table that translates a line to its spelling: lines of one spelling differ in digits alone."""


def spelling_of(text: str) -> bytes:
    """Return the spelling of a line."""
    return text.encode("utf-8", "surrogatepass").translate(ZEROS)


def without_prefixes(text: str) -> str:
    """Return a line without the prefixes of launchers and loggers, in any order."""
    for _ in range(8):
        match = _PREFIX.match(text)
        if match is None:
            break
        text = text[match.end() :]
    return text


NO_YEAR = 2000
"""The year of times that are written without one: it has a 29 February, and no training."""


_NAIVE_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH = _NAIVE_EPOCH.replace(tzinfo=datetime.timezone.utc)


class Stamp(NamedTuple):
    """A time that a line states.

    Attributes:
        time: as written: aware where the line states an offset, naive where it doesn't.
        resolution: s, of the way it is written.
    """

    time: datetime.datetime
    resolution: float

    @property
    def seconds(self) -> float:
        """Seconds since 1970; of a time without an offset on its own clock."""
        return (self.time - (_EPOCH if self.time.tzinfo else _NAIVE_EPOCH)).total_seconds()

    def seconds_after(self, earlier: Stamp) -> float | None:
        """Return the seconds from another timestamp to this one; None if only one states an
        offset.
        """
        if (self.time.tzinfo is None) != (earlier.time.tzinfo is None):
            return None
        return (self.time - earlier.time).total_seconds()


# A match begins at the second colon, as that is found much more quickly than a digit.
_STAMP = re.compile(
    r":(?:(?<=(?<!\d)(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):)"
    r"(\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?(?!\d)"
    r"|(?<=\[(\d{4})(\d\d)(\d\d) (\d\d):(\d\d):)(\d\d)\])"
)
_RESOLUTIONS = tuple(10.0**-digits for digits in range(7))


def utc(seconds: float | None) -> str | None:
    """Return a time in s since 1970 as results have it; None for one that no clock of a training
    shows.
    """
    if not seconds or not 0 < seconds < 1 << 32:
        return None
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat(
        timespec="seconds"
    )


def last_stamp(text: str) -> Stamp | None:
    """Return the last timestamp in a text: the one nearest to the training's own message."""
    return _as_stamp(_last_stamp(text))


def last_stamp_span(text: str) -> tuple[int, int] | None:
    """Return the span of the last timestamp in a text, valid or not."""
    match = _last_stamp(text)
    if match:
        return _span(match)
    return None


def first_stamp(text: str) -> Stamp | None:
    """Return the first timestamp in a text; None if it is no valid one."""
    return _as_stamp(_STAMP.search(text))


def _span(match: re.Match[str]) -> tuple[int, int]:
    """Return the span of a whole timestamp."""
    bracketed = match.start(9)
    return (match.start(1) if bracketed < 0 else bracketed - 1), match.end()


def _last_stamp(text: str) -> re.Match[str] | None:
    matches = list(_STAMP.finditer(text))
    if matches:
        return matches[-1]
    return None


def _as_stamp(match: re.Match[str] | None) -> Stamp | None:
    if match is None:
        return None
    groups = match.groups("")
    year, month, day, hour, minute, second = map(int, groups[:6] if groups[0] else groups[8:])
    fraction = groups[6]
    offset = groups[7]
    zone = datetime.timezone.utc if offset == "Z" else None
    if offset and offset != "Z":
        minutes = int(offset[1:3]) * 60 + int(offset[-2:])
        # Out of a day's range is no offset but digits that look like one.
        if minutes < 1440:
            zone = datetime.timezone(
                (1 if offset[0] == "+" else -1) * datetime.timedelta(minutes=minutes)
            )
    try:
        microsecond = int(fraction[:6].ljust(6, "0"))
        time = datetime.datetime(year, month, day, hour, minute, second, microsecond, zone)
    except ValueError:
        return None
    return Stamp(time, _RESOLUTIONS[min(len(fraction), 6)])
