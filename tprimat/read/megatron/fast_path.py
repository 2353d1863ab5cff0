"""Takes iteration lines that are like others before them into a training, without reading them anew.

Almost every line of a long log says of an iteration what the last line of it said, from another
rank, or is the first line of the next iteration. Both are taken here; every other line is given
back to the reader, which knows all cases.
"""

from __future__ import annotations

import re

from tprimat.read.megatron.layout import Head, Layouts, Tail, micros
from tprimat.read.megatron.line import TIMED, Record, seconds_of
from tprimat.read.megatron.table import Kind
from tprimat.read.megatron.training import MOST_CONFLICTS, SAME_MOMENT, Training
from tprimat.read.parsing.text import Numbers, clean

_SIGN = b"elapsed"
_TIMED = TIMED.encode()
_COLOUR = re.compile(rb"[\x00\x1b\[\\^\x9b\xe2]")

BYTES_PER_OTHER, OTHERS_ALLOWED = 2048, 128
"""Other lines with bars that a block may have: so many, and one more for so many bytes."""


class _Last:
    """The last record of a training, as its line says it.

    Args:
        head: layout of the line.
        tail: layout of the line.
        said: the tail of the line.
        figures: groups of the tail's pattern.
        stamp: of the line.
        micros: of the stamp.
        rank: of the line.
        world: of the line.

    Attributes:
        seconds: of the record, 0 where it has none.
        match, groups: of the head.
        same, size: what the tails of other ranks have in common with this one, and its length.
        rest: matches what follows that in them; None where that isn't known.
    """

    __slots__ = (
        "figures", "groups", "head", "match", "micros", "rank", "rest", "said", "same", "seconds", "size", "stamp",
        "tail", "world",
    )  # fmt: skip

    def __init__(
        self,
        head: Head,
        tail: Tail,
        said: bytes,
        figures: tuple[bytes, ...],
        stamp: bytes,
        micros: int,
        rank: bytes,
        world: bytes,
    ) -> None:
        self.head, self.tail = head, tail
        self.said, self.figures = said, figures
        self.stamp, self.micros, self.rank, self.world = stamp, micros, rank, world
        self.seconds = (seconds_of(float(figures[tail.timed])) or 0.0) if tail.timed is not None else 0.0
        self.match = head.pattern.match
        self.groups = head.groups
        self.same = tail.common(said)
        self.size = len(self.same)
        self.rest = tail.rest


class Quick:
    """What is known of the lines of one log.

    Attributes:
        layouts: that were learnt.
    """

    def __init__(self) -> None:
        self.layouts = Layouts()
        self._by_bars = True
        self._last: _Last | None = None
        self._training: Training | None = None
        self._introduced: set[tuple[Head, Tail]] = set()
        self._kinds: dict[tuple[Head, Tail, bytes, bytes, bytes], int] = {}

    def forget(self) -> None:
        """Forgets the last record: the training may have another one now."""
        self._last = None

    def learn(self, raw: bytes, record: Record, training: Training, *, last: bool) -> None:
        """Takes note of a line that was read in full.

        Args:
            raw: the line.
            record: its only record.
            training: to which it was given.
            last: whether it is now the last record of that training.
        """
        made = self.layouts.of(raw)
        if made is None:
            self.layouts.learn(raw, record)
            made = self.layouts.of(raw)
        if training is not self._training:
            self._training, self._introduced, self._kinds = training, set(), {}
        if made is None or not last:
            return
        head, start, tail, figures = made
        # What the words of its lines show, the training knows from here on.
        self._introduced.add((head, tail))
        stamp, rank, world = start.group(*head.groups)
        time = micros(record.stamp) if record.stamp else 0
        self._last = _Last(head, tail, raw[start.end() :], figures.groups(), stamp, time, rank, world)

    def take(
        self, training: Training | None, block: bytes, at: int, until: int, numbers: Numbers
    ) -> tuple[int, tuple[int, int] | None]:
        """Takes lines into a training, up to the first one that needs a closer look.

        Args:
            training: the one that goes on, if nothing between its lines needs to be read; None: take none.
            block: whole lines.
            at: where the first line begins.
            until: no line that begins here or later is taken.
            numbers: of the block's lines.

        Returns:
            Where the line after the last one that was taken begins; and the line that needs a closer
            look, None where the block has no further one.
        """
        # One loop, with few calls: it sees each iteration line of a log of any length.
        sign = b"|" if self._by_bars else _SIGN
        every = training is not None and len(training.conflicts) >= MOST_CONFLICTS
        known = training if training is self._training else None
        last = self._last if known else None
        taken, line = at, None
        others = doubles = of_others = 0
        find, rfind, starts = block.find, block.rfind, block.startswith
        # A log ends its lines in one way.
        returned = block.endswith(b"\r\n")
        # Where line follows line, their ends need not be counted.
        since, lines = at, 0
        while (place := find(sign, at)) >= 0:
            end = find(b"\n", place)
            if end < 0:
                end = len(block)
            start = rfind(b"\n", at, place) + 1 or at
            at = end + 1
            if known is not None and start < until:
                match = None
                if last is not None and (match := last.match(block, start, end)):
                    stamp, rank, _ = match.group(*last.groups)
                    if (
                        ((other := rank != last.rank) or every)
                        and last.rest is not None
                        and starts(last.same, begin := match.end())
                        and last.rest(block, begin + last.size, end - returned)
                        and (stamp == last.stamp or _same_moment(last, last.head, stamp, rank, alike=False))
                    ):
                        doubles += 1
                        of_others += other
                        if start == taken:
                            lines += 1
                        else:
                            since, lines = start, 1
                        taken = at
                        continue
                found = (last.head, match) if last is not None and match else self.layouts.head(block, start, end)
                if lines:
                    numbers.pass_over(lines, since, taken)
                    lines = 0
                if found is not None and self._take(known, found, block[found[1].end() : end], start, numbers):
                    last = self._last
                    since, lines = start, 1
                    taken = at
                    continue
            if find(_TIMED, start, end) >= 0 or _may_be(block, start, end):
                line = (start, end)
                break
            others += 1
        if training is not None:
            training.doubles += doubles
            training.lines_of_other_ranks += of_others
        # Few lines but these have a bar, and nothing is found more quickly than one byte.
        self._by_bars = self._by_bars and others * BYTES_PER_OTHER <= len(block) + OTHERS_ALLOWED * BYTES_PER_OTHER
        return taken, line

    def _take(
        self, training: Training, found: tuple[Head, re.Match[bytes]], said: bytes, start: int, numbers: Numbers
    ) -> bool:
        """Takes a line; returns False, and has done nothing, where that needs a closer look."""
        head, match = found
        said = said.rstrip(b"\r")
        made = self.layouts.tail(said)
        if made is None:
            return False
        tail, values = made
        figures = values.groups()
        last = self._last
        if last is None or figures[0] != last.figures[0]:
            return self._add(training, (head, tail), match, said, figures, start, numbers)
        stamp, rank, _ = match.group(*head.groups)
        if tail is not last.tail or not _same_moment(last, head, stamp, rank, alike=said == last.said):
            return False
        other = rank != last.rank
        if not other and figures != last.figures and len(training.conflicts) < MOST_CONFLICTS:
            return False
        training.doubles += 1
        training.lines_of_other_ranks += other
        if tail.differs(last.said, said):
            self._last = _Last(head, tail, last.said, last.figures, last.stamp, last.micros, last.rank, last.world)
        return True

    def _add(
        self,
        training: Training,
        layout: tuple[Head, Tail],
        prefix: re.Match[bytes],
        said: bytes,
        figures: tuple[bytes, ...],
        start: int,
        numbers: Numbers,
    ) -> bool:
        """Adds a record, if its iteration is higher than all before it."""
        head, tail = layout
        stamp, rank, world = prefix.group(*head.groups)
        iteration = int(figures[0])
        if iteration <= training.records.last or layout not in self._introduced:
            return False
        # Where the plan or the GPUs are others, or the plan was done, the line may be of another training.
        last = self._last
        if last is None or figures[1] != last.figures[1] or world != last.world:
            return False
        if training.records.last >= int(figures[1]):
            return False
        if (world and training.world is None) or (stamp and training.context.first_stamp is None):
            return False
        time = head.micros(stamp) if stamp else 0
        if time is None:
            return False
        key = (head, tail, figures[1], rank, world)
        kind = self._kinds.get(key)
        if kind is None:
            kind = training.records.number_of(
                Kind(
                    int(figures[1]),
                    int(rank) if rank else None,
                    int(world) if world else None,
                    shape=tail.shape,
                    paired=tail.paired,
                    aware=head.aware,
                    resolution=head.resolution,
                )
            )
            if len(self._kinds) < _MOST_KINDS:
                self._kinds[key] = kind
        training.records.append(iteration, numbers.at(start), time, kind, tail.fields, figures[2:])
        training.since_start += 1
        self.layouts.matched += 1
        self._last = _Last(head, tail, said, figures, stamp, time, rank, world)
        return True


_MOST_KINDS = 4096


def _may_be(block: bytes, start: int, end: int) -> bool:
    """Whether a line may hold a record though colours part its words."""
    if block.find(_SIGN, start, end) < 0 or not _COLOUR.search(block, start, end):
        return False
    return TIMED in clean(block[start:end].decode("utf-8", "replace"))


def _same_moment(last: _Last, head: Head, stamp: bytes, rank: bytes, *, alike: bool) -> bool:
    """Whether a line of the last iteration was surely written at the moment of its record.

    Args:
        last: the record.
        head: layout of the line.
        stamp: of the line.
        rank: of the line.
        alike: whether the two say the same.
    """
    if head.aware is None or head.aware is not last.head.aware:
        return alike or bool(rank and last.rank and rank != last.rank)
    if stamp == last.stamp:
        return True
    time = head.micros(stamp)
    if time is None or last.head.resolution is None:
        return False
    return abs(time - last.micros) / 1e6 <= max(SAME_MOMENT * last.seconds, last.head.resolution)
