"""Records in the order of a log, and the times of those that have none, from the lines around
them.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import itertools
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tprimat.read.parsing.events import ClockKind, Events, Mark
from tprimat.results.account import Entry
from tprimat.results.fields import FieldValues

PAUSE = 0.1
"""Share of the printed time of the steps between two records, and at least the resolution of the
log's times, by which these may lie further apart before the rest is no training.
"""

PAUSES = ("evaluation", "checkpoint")

HELD: Mapping[str, str] = {
    "evaluation": "an evaluation",
    "checkpoint": "a checkpoint",
    "profile": "a profiler's capture",
    "start": "the start of a process",
    "impossible": "more than passed between its time stamps",
}
"""What a record may hold beside its steps, by the kind of mark, as texts name it."""

SHOWN = 25
"""Stretches whose steps show how long others take."""


class Row(NamedTuple):
    """A record: its step and line, when it was printed and the mean time of its steps (s), how many
    these are, and the end of the time in which it may have been printed if that is open.
    """

    step: int
    line: int
    at: float
    seconds: float | None = None
    window: int | None = None
    latest: float | None = None


TimedRow = tuple[Row, ClockKind, float]
"""A record, the clock of its time, and the resolution of that, s."""


def attempts(rows: Sequence[Row], events: Events, again: Sequence[int]) -> list[list[Row]]:
    """Return the records of each attempt; within one, a record that was only logged late takes its
    place.
    """
    starts = set()
    for mark in events.marks:
        if mark.kind == "start" and mark.line > rows[0].line:
            starts.add(mark.line)
    bounds = sorted(starts.union(again))
    return [
        sorted(group, key=lambda row: (row.step, row.line, row.at))
        for _, group in itertools.groupby(rows, lambda row: bisect.bisect_right(bounds, row.line))
    ]


def beside(
    lines: Sequence[int | None], steps: Sequence[int], events: Events, again: Sequence[int]
) -> dict[int, dict[str, float]]:
    """Return what happened between a record and the one before it, s as far as it is stated, by
    place and kind of HELD.

    `lines` and `steps` are those of the records, shape (records,); a source without lines says
    after which step something happened. `again` has the lines with which a restart repeats steps.
    """
    known = [line or 0 for line in lines]
    found: dict[int, dict[str, float]] = {}
    for mark in (*events.marks, *(Mark("start", "begins", line) for line in again)):
        if mark.line:
            place = bisect.bisect_left(known, mark.line)
        else:
            place = bisect.bisect_right(steps, mark.step or 0)
        if mark.kind in HELD and 0 < place < len(steps):
            spent = found.setdefault(place, {})
            spent[mark.kind] = spent.get(mark.kind, 0.0) + (mark.seconds or 0.0)
    return found


@dataclasses.dataclass
class _Stretch:
    """Records between two known times: each with the time that is stated up to it, and how many
    pauses without one.
    """

    begin: float | None
    is_first: bool = False
    end: float = math.inf
    earliest: float = -math.inf
    latest: float | None = None
    records: list[tuple[Row, float, int]] = dataclasses.field(default_factory=list)
    spent: float = 0.0
    count: int = 0
    kinds: set[str] = dataclasses.field(default_factory=set)
    is_plain: bool = True

    def add(self, row: Row, seconds: float) -> None:
        self.spent += max(seconds, 0.0)
        self.records.append((row, self.spent, self.count))

    def pause(self, marks: Sequence[Mark]) -> None:
        """Add what lies between two records."""
        self.spent += sum(mark.seconds or 0.0 for mark in marks)
        unstated = {mark.kind for mark in marks} - {mark.kind for mark in marks if mark.seconds}
        self.kinds |= unstated
        self.count += bool(unstated)
        self.is_plain = self.is_plain and not marks

    def ratio(self) -> float | None:
        """Return the time that its steps took over what is printed of them; None if something else
        lies in it.
        """
        if self.begin is None or self.is_first or not self.is_plain or not self.spent:
            return None
        return (self.end - self.begin) / self.spent

    def leave_open(self, after: float, resolution: float) -> None:
        """Leave its end open up to the next time, `after`, if that is much later."""
        if max(PAUSE * self.spent, resolution) < after - self.end < math.inf:
            self.latest = after

    def placed(self, resolution: float) -> list[Row]:
        """Return the records with times from the beginning to the end.

        What is left went to the pauses, to the start-up, or into each step if it is little; else it
        is unknown, before the last record.
        """
        begin = self.end - self.spent if self.begin is None else self.begin
        slack = self.end - begin - self.spent
        is_open = (
            slack > max(PAUSE * self.spent, resolution) and not self.is_first and not self.kinds
        )
        is_open = is_open or len(self.kinds) > 1
        rows = []
        for row, spent, count in self.records:
            share = 1.0 if self.is_first or not self.spent else spent / self.spent
            if slack > 0 and (is_open or self.kinds):
                share = 0.0 if is_open else count / self.count
            rows.append(row._replace(at=begin + spent + slack * share))
        rows[-1] = rows[-1]._replace(at=self.end, latest=self.latest)
        if is_open and slack > 0 and len(rows) > 1:
            rows[-2] = rows[-2]._replace(latest=rows[-2].at + slack)
        return rows


def placed(rows: Sequence[Row], events: Events, again: Sequence[int]) -> list[TimedRow]:
    """Return records without times as build_timeline() takes them, with times from the lines around
    them.

    A record was printed at the next time behind it, if neither another one nor a pause lies
    between. From one such time to the next, records lie as far apart as their steps took, and the
    pauses whose duration is stated. The last ones of an attempt were printed when their steps were
    over, which is open if no others show how long these take.
    """
    clocks = collections.Counter(clock for _, (_, clock) in events.stamps)
    if not clocks or not rows:
        return []
    clock = clocks.most_common(1)[0][0]
    stamps = [(line, at) for line, (at, other) in events.stamps if other is clock]
    lines = [*(line for line, _ in stamps), sys.maxsize]
    times = [*(at for _, at in stamps), math.inf]
    # That of a line, and how late it may come.
    resolution = 2.0 if all(at == int(at) for _, at in stamps) else 2e-3
    pauses = [mark for mark in events.marks if mark.kind in PAUSES]
    usual = statistics.median([row.seconds for row in rows if row.seconds] or [0.0])
    in_order = []
    ratios: list[float] = []
    scale = 1.0
    for attempt in attempts(rows, events, again):
        index = bisect.bisect_left(lines, attempt[0].line)
        step = attempt[0].step - (attempt[0].window or 1)
        stretch = _Stretch(times[index - 1] if index else None, is_first=True)
        closed = []
        for row, following in itertools.zip_longest(attempt, attempt[1:]):
            stretch.add(row, (row.seconds or usual) * (row.step - step) * scale)
            step = row.step
            end = following.line if following else sys.maxsize
            index = bisect.bisect_right(lines, row.line)
            between = [mark for mark in pauses if row.line < mark.line < end]
            is_dated = lines[index] < end and not _is_paused(lines[index], between)
            resumes = _resumption(lines, times, between, end)
            if following and not is_dated and resumes is None:
                stretch.pause(between)
                continue
            after = times[index]
            is_dated = is_dated and following is not None
            stretch.earliest = times[index - 1] if index else -math.inf
            expected = after if stretch.begin is None else stretch.begin + stretch.spent
            expected = after if is_dated or not usual else expected
            stretch.end = min(max(expected, stretch.earliest), after)
            if math.isfinite(stretch.end):
                if is_dated and (ratio := stretch.ratio()) is not None:
                    ratios.append(ratio * scale)
                    scale = max(1.0, statistics.median(ratios[-SHOWN:]))
                # What follows the last record of an attempt that is not the last one is lost in any
                # case.
                if row is rows[-1] and (not ratios or stretch.kinds):
                    stretch.leave_open(after, resolution)
                closed.append(stretch)
            stretch = _Stretch(stretch.end if resumes is None else resumes)
            stretch.pause(between if resumes is None else ())
        _make_room(closed)
        in_order += [row for part in closed for row in part.placed(resolution)]
    return [(row, clock, resolution) for row in in_order]


def _is_paused(line: int, between: Sequence[Mark]) -> bool:
    """Return whether a pause up to a line lies before its time; one that begins there doesn't."""
    return any(
        mark.line <= line and (mark.phase != "begins" or mark.at is None) for mark in between
    )


def _resumption(
    lines: Sequence[int], times: Sequence[float], between: Sequence[Mark], end: int
) -> float | None:
    """Return the first time behind a pause that is over, at which steps go on; None if no pause is,
    or none comes before the line `end`.
    """
    if not between or between[-1].phase == "begins":
        return None
    index = bisect.bisect_left(lines, between[-1].line)
    if lines[index] < end:
        return times[index]
    return None


def _make_room(stretches: Sequence[_Stretch]) -> None:
    """Move ends of stretches back, as far as the steps of the next one need.

    A record was printed before the steps of the next one, if no line that says so comes before
    these are over.
    """
    for later, former in itertools.pairwise(reversed(stretches)):
        if later.begin == former.end and later.is_plain:
            begin = min(former.end, later.end - later.spent)
            former.end = later.begin = max(begin, former.earliest)


def stated_parts(rows: Sequence[Row], events: Events) -> tuple[Entry, ...]:
    """Return the evaluations and checkpoints of a log without times whose duration it states, each
    behind its steps.
    """
    done = [
        *itertools.accumulate(
            ((row.seconds or 0.0) * (row.window or 1) for row in rows), initial=0.0
        )
    ]
    # A file without lines says after which step.
    places = [row.line or row.step for row in rows]
    entries = []
    spent = 0.0
    for mark in events.marks:
        if mark.kind in PAUSES and mark.seconds:
            start = round(done[bisect.bisect_right(places, mark.line or mark.step or 0)] + spent, 6)
            entry: FieldValues = {"kind": mark.kind, "start": start, "duration": mark.seconds}
            entries.append(Entry(**entry, line=mark.line or None))
            spent += mark.seconds
    return tuple(entries)
