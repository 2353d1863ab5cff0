"""Fast path for iteration lines with the layout of an earlier one, without parsing them anew.

Lines of one log differ in their digits and in little else. With its digits replaced by zeros, a line
that was parsed in full stands for all lines of that spelling: their figures are in the same places.
Almost every line of a long log repeats, from another rank, the last iteration, or is the first line
of the next one. Both are taken here; every other line is the reader's, which knows all cases.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
import re

from tprimat.read.megatron.line import ANCHOR, RANK, TIMED, USAGE, Kind, Record, labelled, micros, seconds_of
from tprimat.read.megatron.table import FIGURES
from tprimat.read.megatron.training import MOST_CONFLICTS, SAME_MOMENT, MegatronTraining
from tprimat.read.parsing.text import Numbers, clean, last_stamp, last_stamp_span

BYTES_PER_OTHER, OTHERS_ALLOWED = 2048, 128
"""Other lines with bars that a block may have: so many, and one more for so many bytes."""

MOST_LAYOUTS = 4096
"""Spellings that are kept."""

ATTEMPTS, LINES_PER_ATTEMPT = 256, 1024
"""Lines that are learnt from at first, and lines that must have matched for one more: learning is slow."""

_SIGN, _TIMED = b"elapsed", TIMED.encode()
_MAY_COLOUR = re.compile(rb"[\x00\x1b\[\\^\x9b\xe2]")
_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# With other digits these may be colours, or none.
_AMBIGUOUS = re.compile(r"\[[0-9;]+m|[\\\r\x00]|^\{")
# Figures in plain digits, which every pattern of LABELS reads alike and none finds too large.
_PLAIN = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?(?:[eE][-+]?[0-9]{1,2})?")
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{3}(?:\d{3})?)?")

_NOTHING = slice(0, 0)


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Layout:
    """Where the parts of a line are.

    Attributes:
        iteration, planned, stamp, rank, world: bytes of the line; none where it doesn't have them.
        figures: the same of each of FIGURES; None where the line doesn't have it.
        fields: names of the figures that it has.
        iso: whether the stamp is written in the plainest way.
        kind: of the line that it was learnt from.
    """

    iteration: slice
    planned: slice
    stamp: slice
    rank: slice
    world: slice
    figures: tuple[slice | None, ...]
    fields: frozenset[str]
    iso: bool
    kind: Kind

    def micros(self, stamp: bytes) -> int | None:
        """Return microseconds since 1970 of a stamp in this layout; None where no clock shows it."""
        text = stamp.decode()
        if self.iso:
            try:
                return micros(datetime.datetime.fromisoformat(text))
            except ValueError:
                return None
        known = last_stamp(text) or last_stamp(f"[{text}]")
        return micros(known.time) if known else None


def layout_of(raw: bytes, record: Record) -> Layout | None:
    """Return the layout of a line without its end, given its only record; None where the spelling doesn't tell all."""
    if record.kind.garbled or record.kind.not_finite or not raw.isascii():
        return None
    spelled = raw.decode().rstrip("\r")
    coloured = {place for colour in _COLOUR.finditer(spelled) for place in range(*colour.span())}
    places = [place for place in range(len(spelled)) if place not in coloured]
    text = _COLOUR.sub("", spelled)
    anchors = list(ANCHOR.finditer(text))
    if text != clean(spelled) or _AMBIGUOUS.search(text) or len(anchors) != 1:
        return None
    whole = True

    def span(start: int, end: int) -> slice:
        """Return the place in the line of a part of the clean text, which no colour may split."""
        nonlocal whole
        first, last = places[start], places[end - 1]
        whole = whole and last - first == end - 1 - start
        return slice(first, last + 1)

    anchor = anchors[0]
    before = text[: anchor.start()]
    figures: dict[str, slice] = {}
    for label, match in labelled(text, anchor.end(), len(text)):
        groups = ((label.field, 1), ("memory_total_gib", 3)) if label.pattern is USAGE else ((label.field, 1),)
        for field, group in groups:
            if match is None or not _PLAIN.fullmatch(match[group]):
                return None
            figures[field] = span(*match.span(group))
    stamp, rank = last_stamp_span(before), RANK.search(before)
    if (stamp is None) != (record.kind.aware is None):
        return None
    if stamp and before[stamp[0]] == "[":
        stamp = (stamp[0] + 1, stamp[1] - 1)
    layout = Layout(
        iteration=span(*anchor.span(1)),
        planned=span(*anchor.span(2)),
        stamp=span(*stamp) if stamp else _NOTHING,
        rank=span(*rank.span(1)) if rank else _NOTHING,
        world=span(*rank.span(2)) if rank else _NOTHING,
        figures=tuple(figures.get(name) for name in FIGURES),
        fields=frozenset(figures),
        iso=bool(stamp and _ISO.fullmatch(text, *stamp)),
        kind=record.kind,
    )
    return layout if whole else None


class _LastLine:
    """The line of the last record of a training.

    Attributes:
        micros: of its stamp.
        common: from the iteration to the last bar: what other ranks print of the same iteration is equal up to there.
        head, rest: what stands before and behind that, spelled with zeros.
    """

    __slots__ = ("common", "head", "iteration", "layout", "micros", "planned", "rank", "raw", "rest", "stamp", "world")

    def __init__(self, raw: bytes, layout: Layout, micros: int) -> None:
        self.raw, self.layout, self.micros = raw, layout, micros
        self.iteration, self.planned = raw[layout.iteration], raw[layout.planned]
        self.stamp, self.rank, self.world = raw[layout.stamp], raw[layout.rank], raw[layout.world]
        begin, end = layout.iteration.start, raw.rfind(b"|")
        self.common = raw[begin:end]
        self.head, self.rest = raw[:begin].translate(_ZEROS), raw[end:].translate(_ZEROS)

    def is_same_moment(self, micros: int | None) -> bool:
        """Return whether another line of the same iteration, of that time, was surely written at this moment."""
        if micros is None:
            return False
        elapsed = self.layout.figures[0]
        seconds = (seconds_of(float(self.raw[elapsed])) or 0.0) if elapsed else 0.0
        return abs(micros - self.micros) / 1e6 <= max(SAME_MOMENT * seconds, self.layout.kind.resolution)


class FastPath:
    """What is known of the lines of one log."""

    def __init__(self) -> None:
        self._layouts: dict[bytes, Layout] = {}
        self._attempts = ATTEMPTS
        self._matched = 0
        self._last: _LastLine | None = None
        self._training: MegatronTraining | None = None
        self._introduced: set[Layout] = set()
        self._kinds: dict[tuple[Layout, bytes, bytes, bytes], int] = {}
        self._by_bars = True
        self._others = 0

    def forget(self) -> None:
        """Forget the last record: the training may have another one now."""
        self._last = None

    def learn(self, raw: bytes, record: Record, training: MegatronTraining, *, is_last: bool) -> None:
        """Remember a line that was parsed and given to a training; `is_last`: as the last record that it has now."""
        spelling = raw.translate(_ZEROS)
        layout = self._layouts.get(spelling)
        if layout is None and self._attempts + self._matched // LINES_PER_ATTEMPT > 0:
            self._attempts -= 1
            layout = layout_of(raw, record)
            if layout is not None:
                if len(self._layouts) >= MOST_LAYOUTS:
                    self._layouts.clear()
                self._layouts[spelling] = layout
        if training is not self._training:
            self._training, self._introduced, self._kinds = training, set(), {}
        if layout is not None and is_last:
            # What the words of such lines show is known to the training from here on.
            self._introduced.add(layout)
            self._last = _LastLine(raw, layout, record.micros)

    def next_line(self, block: bytes, at: int) -> tuple[int, int] | None:
        """Return start and end of the next line that may be an iteration line; None where there is none."""
        if not at:
            self._others = 0
        # Few lines but these have a bar, and nothing is found more quickly than one byte.
        while (place := block.find(b"|" if self._by_bars else _SIGN, at)) >= 0:
            end = block.find(b"\n", place)
            if end < 0:
                end = len(block)
            start = block.rfind(b"\n", at, place) + 1 or at
            if block.find(_TIMED, start, end) >= 0:
                return start, end
            if block.find(_SIGN, start, end) >= 0 and _MAY_COLOUR.search(block, start, end):
                return start, end
            at = end + 1
            self._others += 1
            if self._others * BYTES_PER_OTHER > len(block) + OTHERS_ALLOWED * BYTES_PER_OTHER:
                self._by_bars = False
        return None

    def take(self, training: MegatronTraining, raw: bytes, start: int, numbers: Numbers) -> bool:
        """Take a line into the training that goes on; return False, with nothing done, where it needs the reader.

        Nothing between the lines of that training needs to be read; `start` is the line's place in its block.
        """
        layout = self._layouts.get(raw.translate(_ZEROS))
        last = self._last
        if layout is None or last is None or training is not self._training:
            return False
        if raw[layout.iteration] == last.iteration:
            return self._repeats(training, raw, layout, last)
        return self._append(training, raw, layout, last, start, numbers)

    def take_repeats(self, training: MegatronTraining, block: bytes, at: int, numbers: Numbers) -> int:
        """Take the lines from a place on as long as they repeat the last one; return where the next one begins."""
        last = self._last
        if last is None or training is not self._training:
            return at
        before, width = len(last.head), len(last.head) + len(last.common)
        begin, lines = at, 0
        while block.startswith(last.common, at + before):
            end = block.find(b"\n", at + width)
            raw = block[at : end if end >= 0 else len(block)]
            if raw[:before].translate(_ZEROS) != last.head or raw[width:].translate(_ZEROS) != last.rest:
                break
            if not self._repeats(training, raw, last.layout, last):
                break
            at += len(raw) + 1
            lines += 1
        if lines:
            numbers.skip(lines, begin, at)
        return at

    def _repeats(self, training: MegatronTraining, raw: bytes, layout: Layout, last: _LastLine) -> bool:
        """Count a line of the last iteration as a double, if it surely is one and says nothing new."""
        stamp, rank = raw[layout.stamp], raw[layout.rank]
        of_other_rank = rank != last.rank
        former = last.layout
        if layout is not former and not layout.fields <= former.fields:
            return False
        repeats = not of_other_rank and raw[layout.iteration.start :] == last.raw[former.iteration.start :]
        if not (of_other_rank or repeats or len(training.conflicts) >= MOST_CONFLICTS):
            return False
        if layout.kind.aware is None or layout.kind.aware is not former.kind.aware:
            if not repeats and not (of_other_rank and rank and last.rank):
                return False
        elif stamp != last.stamp and not last.is_same_moment(layout.micros(stamp)):
            return False
        training.doubles += 1
        training.lines_of_other_ranks += of_other_rank
        self._matched += 1
        return True

    def _append(
        self, training: MegatronTraining, raw: bytes, layout: Layout, last: _LastLine, start: int, numbers: Numbers
    ) -> bool:
        """Append a record if its iteration is higher than all before it."""
        table = training.table
        iteration, planned, world = int(raw[layout.iteration]), raw[layout.planned], raw[layout.world]
        if iteration <= table.last or layout not in self._introduced:
            return False
        # Where the plan or the GPUs are others, or the plan was done, the line may be of another training.
        if planned != last.planned or world != last.world or table.last >= int(planned):
            return False
        stamp, rank = raw[layout.stamp], raw[layout.rank]
        if (world and training.world is None) or (stamp and training.around.first_stamp is None):
            return False
        time = layout.micros(stamp) if stamp else 0
        if time is None:
            return False
        key = (layout, planned, rank, world)
        if key not in self._kinds:
            ranked = layout.kind._replace(rank=int(rank) if rank else None, world=int(world) if world else None)
            self._kinds[key] = table.number_of(ranked._replace(planned=int(planned)))
        figures = [math.nan if place is None else float(raw[place]) for place in layout.figures]
        table.insert(iteration, numbers.at(start), time, self._kinds[key], figures)
        training.since_start += 1
        self._matched += 1
        self._last = _LastLine(raw, layout, time)
        return True
