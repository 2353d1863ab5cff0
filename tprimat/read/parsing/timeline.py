"""The timeline of a log: its times, records and events as entries that follow each other, each
second with one owner.

Every entry ends at a time of the log or within two of them, so times in whole seconds add up no
errors.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import datetime
import itertools
import statistics
from collections.abc import Iterable, Sequence

import msgspec

from tprimat.notes import Note
from tprimat.read.parsing.events import Events, Mark, Moment, Time
from tprimat.read.parsing.placing import PAUSE, Row, TimedRow, attempts, placed, stated_parts
from tprimat.read.parsing.remarks import STAMPED_STEPS
from tprimat.results.account import Entry
from tprimat.results.fields import FieldValues
from tprimat.text import counted
from tprimat.units import duration

DOWN, IDLE = "down after step {}", "without another step after step {}"
"""Notes of time that is lost: until the next attempt begins, and before that, to the last line of
the former one.
"""

HOUR, DAY = 3600.0, 86400.0

SET_BACK = 60.0
"""s by which a log's times may go back before a clock must have been set: processes that write one
log are 2 or 20 s behind each other, not 3,600.
"""
"""s by which a log's times may go back, as those of several processes do, before a clock must have
been set.
"""

AGAIN = 5.0
"""s of silence before a start that follows another one. Ranks that start 0.5 s behind each other
are one attempt; a process that starts 30 s behind another one is the next attempt.
"""
"""s of silence before a start that follows another one: shorter, they are processes of one attempt.
"""


@dataclasses.dataclass
class _Event:
    """What the lines of an event between two records say."""

    kind: str
    line: int
    begins: float | None = None
    ends: float | None = None
    stated: float = 0.0
    step: int | None = None


class TimelineBuilder:
    """Builder of the timeline of one training.

    Args as of of(), but all records, at least one, have times on one clock with one resolution, s.
    Lines with times on another clock count as lines without times.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        events: Events,
        clock: Time,
        resolution: float,
        again: Sequence[int] = (),
    ) -> None:
        self._marks = events.marks
        self._lines = [mark.line for mark in events.marks]
        self._clock = clock
        self._resolution = resolution
        first = self._at(events.first)
        last = self._at(events.last)
        self._first = first if first is not None and first <= rows[0].at else None
        self._last = max(rows[-1].at, last or 0.0)
        self._attempts = attempts(rows, events, again)
        apart = []
        for attempt in self._attempts:
            for before, row in itertools.pairwise(attempt):
                apart.append(row.step - before.step)
        self._window = statistics.mode(apart) if apart else 1
        printed = [row.seconds for row in rows if row.seconds]
        self._usual = statistics.median(printed) if printed else 1.0
        self._scale = 1.0
        self._scale = self._measured_scale(is_timed=bool(printed))
        self._spent: dict[str, list[float]] = {"evaluation": [], "checkpoint": []}
        self._entries: list[FieldValues] = []
        self._now = 0.0

    def build(self) -> tuple[Entry, ...]:
        """Return the entries."""
        self._walk()
        if len(self._attempts) > 1:
            # How long an event took before a crash is known from those after it.
            self._walk()
        return tuple(Entry(**entry) for entry in self._entries)

    def _walk(self) -> None:
        self._entries = []
        first = self._attempts[0][0]
        origin = self._first
        if origin is None:
            origin = first.at - (first.seconds or 0.0) * (first.window or 1)
        self._now = origin
        before = None
        for attempt in self._attempts:
            for row in attempt:
                if before is None:
                    self._start(row, self._between(0, row.line), self._resumed(None, row))
                elif row is attempt[0]:
                    self._restart(before, row)
                else:
                    self._go_on(before, row)
                if row.latest is not None:
                    self._put("unknown", row.latest, line=row.line)
                before = row
        assert before is not None
        self._carve(self._between(before.line, None), self._last, "end")
        for entry in self._entries:
            entry["start"] = round(entry["start"] - origin, 6)
            entry["duration"] = round(entry["duration"], 6)

    def _at(self, moment: Moment | None) -> float | None:
        """Return a time on the clock of the records; None for one on another clock."""
        if moment is not None and moment[1] is self._clock:
            return moment[0]
        return None

    def _between(self, line: int, end: int | None) -> list[Mark]:
        last = len(self._lines) if end is None else bisect.bisect_left(self._lines, end)
        return self._marks[bisect.bisect_right(self._lines, line) : last]

    def _measured_scale(self, *, is_timed: bool) -> float:
        """Return the time of steps without an event over what the records print; if they print
        none, of a step.

        Each stretch is at least STAMPED_STEPS resolutions long: with stamps in whole seconds, 20 s
        in which ten steps of 1.9 s are printed give 1.05, and the median of all stretches counts.
        """
        scales = []
        for attempt in self._attempts:
            time = printed = 0.0
            for before, row in itertools.pairwise(attempt):
                if self._between(before.line, row.line):
                    time = printed = 0.0
                    continue
                time = time + row.at - before.at
                printed += self._expected(before, row)
                if time >= STAMPED_STEPS * self._resolution:
                    scales.append(time / printed)
                    time = printed = 0.0
        if not scales:
            return 1.0 if is_timed else 0.0
        scale = statistics.median(scales)
        # A timer misses a part of a step, but counts nothing twice.
        if is_timed:
            return max(scale, 1.0)
        return scale

    def _expected(self, before: Row, row: Row) -> float:
        """Return how long the steps between two records should take, s."""
        return (row.seconds or self._usual) * (row.step - before.step) * self._scale

    def _resumed(self, before: Row | None, row: Row) -> int:
        """Return the step that an attempt goes on from."""
        marks = self._between(before.line if before else 0, row.line)
        stated = [mark.step for mark in marks if mark.kind == "resume" and mark.step is not None]
        if stated and stated[-1] < row.step:
            return stated[-1]
        return max(row.step - (row.window or self._window), 0)

    def _start(self, row: Row, marks: Sequence[Mark], resumed: int) -> None:
        """Add the start-up of an attempt and the steps of its first record."""
        time = self._expected(row._replace(step=resumed), row)
        self._carve(marks, row.at - time, "start-up" if self._scale else "unknown")
        # A log that begins within the steps of its first record, with 30 s left of 100 s for them,
        # is of a part of them: which ones isn't known. With 80 s left, all count: rounding and the
        # first step make such a difference.
        steps = range(resumed + 1, row.step + 1)
        if row.at - self._now <= time / 2:
            steps = range(0)
        self._put("training", row.at, steps, row.line)

    def _restart(self, before: Row, row: Row) -> None:
        """Add what lies between two attempts: what is lost, and how the next one begins."""
        marks = self._between(before.line, row.line)
        starts = [mark for mark in marks if mark.kind == "start"]
        end = marks.index(starts[0]) if starts else len(marks)
        former = marks[:end]
        resumed = self._resumed(before, row)
        _lose_steps(self._entries, resumed)
        down = self._silences(starts, marks)
        until = down[0][1] if down else row.at - self._expected(row._replace(step=resumed), row)
        if resumed > before.step:
            # Steps that no record tells of were saved.
            steps = range(before.step + 1, min(resumed, row.step) + 1)
            saved = self._now + self._usual * self._scale * len(steps)
            for mark in former:
                if mark.kind == "checkpoint" and mark.phase == "begins":
                    saved = self._at(mark.at) or saved
            self._put("training", saved, steps, before.line)
        note = DOWN.format(max(before.step, resumed))
        if down and not former:
            # It lived on without a step until the last time in its log.
            self._put("lost", down[0][0], note=IDLE.format(max(before.step, resumed)))
        self._carve(former, until, "lost", note=note)
        for begins, ends in down[1:]:
            self._put("start-up", begins)
            self._put("lost", ends, note=note)
        self._start(row, marks[end:], resumed)

    def _silences(self, starts: Sequence[Mark], marks: Sequence[Mark]) -> list[tuple[float, float]]:
        """Return from when to when no process ran before each start behind the last record."""
        # What was going on after the record was no silence: a checkpoint that began and usually
        # takes 40 s leaves 20 of 60 silent seconds.
        kinds = {mark.kind for mark in marks if starts and mark.line < starts[0].line}
        busy = self._now + sum(self._typical(kind) or 0.0 for kind in kinds & self._spent.keys())
        down: list[tuple[float, float]] = []
        # Several lines may tell of one start.
        for moment, silence in dict.fromkeys((start.first, start.silence) for start in starts):
            first = self._at(moment)
            silences = []
            if first is not None and not down:
                silences.append((min(busy, first), first))
            if silence:
                begins, ends = map(self._at, silence)
                if begins is not None and ends is not None and (not down or ends - begins >= AGAIN):
                    silences.append((begins, ends))
            # What is printed after the longest silence is of the next attempt, what is before it of
            # the last one.
            if silences:
                down.append(max(silences, key=lambda pair: pair[1] - pair[0]))
        for mark in marks:
            # Megatron's first line with a time says how long ago its process began.
            if mark.kind == "started" and len(down) == 1 and self._at(mark.at) == down[0][1]:
                down = [(self._now, max(self._now, down[0][1] - (mark.seconds or 0.0)))]
        return down

    def _typical(self, kind: str) -> float | None:
        """Return how long events of a kind mostly took, s; None if none has been timed."""
        if self._spent[kind]:
            return statistics.median(self._spent[kind])
        return None

    def _go_on(self, before: Row, row: Row) -> None:
        """Add what lies between two records of an attempt."""
        marks = self._between(before.line, row.line)
        expected = self._expected(before, row)
        steps = range(before.step + 1, row.step + 1)
        excess = row.at - self._now - expected
        is_exact = row.seconds is not None and row.window == len(steps)
        # Ten steps of 2 s, 30 s behind each other: what took 10 s isn't known. 21 s are rounding.
        if not marks and is_exact and excess > max(PAUSE * expected, self._resolution):
            self._put("unknown", self._now + excess, line=before.line)
        if marks:
            self._carve(marks, row.at, "training", steps, expected, row.line)
        else:
            self._put("training", row.at, steps, row.line)

    def _carve(
        self,
        marks: Sequence[Mark],
        until: float,
        rest: str,
        steps: range = range(0),
        expected: float = 0.0,
        line: int | None = None,
        note: str | None = None,
    ) -> None:
        """Add the events of marks up to a time, and the rest of the time around them: steps, which
        take `expected`.

        An event lies behind its step if that is stated; else where its time is in the rest: one
        that begins 8 s after a record of 2 s a step, behind the fourth of its steps.
        """
        begin = self._now
        count = len(steps)
        until = max(until, begin)
        events = self._events(marks)
        spent = self._durations(events, until, rest, expected)
        left = max(until - begin - sum(spent), 0.0)
        past = 0.0
        gone = 0.0
        for event, seconds in zip(events, spent, strict=True):
            begins = event.begins
            if begins is None and event.ends:
                begins = event.ends - seconds
            share = 0.0
            if event.step is not None and count:
                share = (event.step - steps[0] + 1) / count
            elif begins is not None and count and expected:
                share = round((begins - begin - gone) / expected * count) / count
            elif begins is not None and not count and left:
                share = (begins - begin - gone) / left
            share = min(max(share, past), 1.0)
            done = steps[round(past * count) : round(share * count)]
            self._put(rest, self._now + left * (share - past), done, line, note)
            self._put(event.kind, self._now + seconds, line=event.line)
            past = share
            gone += seconds
        self._put(rest, until, steps[round(past * count) :], line, note)

    def _events(self, marks: Sequence[Mark]) -> list[_Event]:
        """Return the events of marks, each kind once."""
        events: dict[str, _Event] = {}
        for mark in marks:
            if mark.kind not in self._spent:
                continue
            event = events.setdefault(mark.kind, _Event(mark.kind, mark.line))
            at = self._at(mark.at)
            if mark.phase != "ends" and event.begins is None:
                event.begins = at
            if mark.phase != "begins" and at is not None:
                event.ends = at
            event.stated += mark.seconds or 0.0
            event.step = event.step if mark.step is None else mark.step
        return list(events.values())

    def _durations(
        self, events: list[_Event], until: float, rest: str, expected: float
    ) -> list[float]:
        """Return how long each event took, s; an unknown one is added if nothing tells which took
        it.

        A single event without a duration has what is left: of 30 s with ten steps of 2 s, a
        checkpoint takes 10 s. Of several, all but the first take what their kind mostly takes, if
        that is known for all of them.
        """
        begin = self._now
        excess = max(until - begin - expected, 0.0)
        timed = [self._duration(event, until, rest, excess) for event in events]
        unknown = [index for index, seconds in enumerate(timed) if seconds is None]
        durations = [seconds or 0.0 for seconds in timed]
        more = excess - sum(durations)
        typical = [self._typical(events[index].kind) for index in unknown[1:]]
        if typical and None not in typical:
            for index, usual in zip(unknown[1:], typical, strict=True):
                durations[index] = min(usual or 0.0, max(more, 0.0))
                more -= durations[index]
            unknown = unknown[:1]
        # Nor if nothing tells how long steps take.
        is_open = len(unknown) > 1 or (bool(unknown) and not self._scale)
        if is_open:
            events.append(_Event("unknown", events[unknown[0]].line))
            durations.append(max(more, 0.0))
        elif unknown:
            index = unknown[0]
            ends = events[index].ends
            if ends is not None and rest == "end":
                more = min(more, ends - begin - sum(durations[:index]) + self._resolution)
            durations[index] = max(more, 0.0)
        elif events and rest == "training" and more > max(PAUSE * expected, self._resolution):
            durations[durations.index(max(durations))] += more
        if rest == "training" and not is_open:
            for event, seconds in zip(events, durations, strict=True):
                self._spent[event.kind].append(seconds)
        return durations

    def _duration(self, event: _Event, until: float, rest: str, excess: float) -> float | None:
        """Return how long an event took, s, as far as its lines or others of its kind say, and at
        most what lies between; None if they don't.
        """
        seconds = event.stated or None
        begins = event.begins
        ends = event.ends
        if seconds is None and begins is not None and ends is not None and ends > begins:
            seconds = ends - begins
        if seconds is None and rest != "training" and (rest != "end" or ends is None):
            # Without a record behind it nothing bounds it but others of its kind.
            seconds = self._typical(event.kind)
            if seconds is None and rest != "end":
                seconds = 0.0
        if seconds is None:
            return None
        most = until - self._now if event.stated else excess
        return max(min(seconds, most, (ends or until) - self._now + self._resolution), 0.0)

    def _put(
        self,
        kind: str,
        until: float,
        steps: range = range(0),
        line: int | None = None,
        note: str | None = None,
    ) -> None:
        """Add an entry up to a time, or lengthen the last one of its kind."""
        seconds = max(until - self._now, 0.0)
        if not seconds and not steps:
            return
        last = self._entries[-1] if self._entries else {}
        if last.get("kind") != kind or last["note"] != note:
            last = {
                "kind": kind,
                "start": self._now,
                "duration": 0.0,
                "first_step": None,
                "last_step": None,
                "line": line or None,
                "note": note,
            }
            self._entries.append(last)
        last["duration"] += seconds
        if steps:
            if last["first_step"] is None:
                last["first_step"] = steps[0]
            last["last_step"] = steps[-1]
        self._now += seconds


def _lose_steps(entries: list[FieldValues], resumed: int) -> None:
    """Count the training behind a step, which another attempt repeats, as lost."""
    for index in reversed(range(len(entries))):
        entry = entries[index]
        first = entry["first_step"]
        last = entry["last_step"]
        if entry["kind"] != "training" or last is None or last <= resumed:
            continue
        lost = {**entry, "kind": "lost", "note": "done twice"}
        if first > resumed:
            entries[index] = lost
            continue
        # Of 20 s for steps 1 to 10, those of steps 8 to 10 are 6 s.
        lost["first_step"] = resumed + 1
        lost["duration"] *= (last - resumed) / (last - first + 1)
        entry["duration"] -= lost["duration"]
        lost["start"] += entry["duration"]
        entry["last_step"] = resumed
        entries.insert(index + 1, lost)


def with_lost_steps(timeline: Sequence[Entry], resumed: int) -> tuple[Entry, ...]:
    """Return the timeline of an attempt whose steps behind one are done again by the next
    attempt.
    """
    entries = [msgspec.structs.asdict(entry) for entry in timeline]
    _lose_steps(entries, resumed)
    return tuple(Entry(**entry) for entry in entries)


def of(rows: Iterable[TimedRow], events: Events, again: Sequence[int] = ()) -> tuple[Entry, ...]:
    """Return the timeline of a training; none if its records have no times.

    Args:
        rows: its records in the order of the log, those that a restart repeats too, each with the
            clock of its time, and the resolution of that, s.
        events: what the lines around them say.
        again: lines of records that repeat a step after a restart.
    """
    rows = list(rows)
    untimed = [row for row, *_ in rows]
    timed = [row for row in rows if row[1] is not None]
    pairs = itertools.pairwise(timed)
    if any(clock == "elapsed" and later.at < row.at for (row, clock, _), (later, *_) in pairs):
        # Another attempt counts from its own start.
        timed = []
    timed = timed or placed(untimed, events, again)
    clocks = collections.Counter(clock for _, clock, _ in timed)
    if not clocks:
        return stated_parts(untimed, events)
    clock = clocks.most_common(1)[0][0]
    on_clock = [row for row, other, _ in timed if other is clock]
    resolution = max(fine for _, other, fine in timed if other is clock)
    if clock == "elapsed":
        marks = [mark._replace(at=None, first=None, silence=None) for mark in events.marks]
        events = Events(marks, first=(0.0, "elapsed"))
    entries = TimelineBuilder(on_clock, events, clock, resolution, again).build()
    if any(entry.kind != "unknown" for entry in entries):
        return entries
    return ()


def clock_change(rows: Sequence[TimedRow], events: Events) -> Note | None:
    """Return why the times of a log can't be added up, as a warning; None if they can. Args as of
    of().

    Without a time zone, a clock that is put back shows an hour twice, and one that is put forward
    skips one: mostly from 1 or 2 o'clock on, on a Sunday of March, September or October. A silence
    of an hour looks the same: from 1:59 to 3:01 on the last Sunday of March.
    """
    if any(clock for _, clock, _ in rows):
        return None
    dated = [(row.line, row.at) for row, clock, _ in rows if clock is False]
    dated = dated or [(line, at) for line, (at, clock) in events.stamps if clock is False]
    times = [at for _, at in sorted(dated)]
    if events.first and events.first[1] is False and times and events.first[0] < times[0]:
        times.insert(0, events.first[0])
    for before, at in itertools.pairwise(times):
        if at < before - SET_BACK:
            return Note("clock-goes-back", {"time": duration(before - at)})
        if at - before >= HOUR:
            day = datetime.datetime.fromtimestamp(at, datetime.timezone.utc)
            midnight = at - at % DAY
            is_night = day.weekday() == 6 and day.month in (3, 9, 10)
            hours = midnight + HOUR, midnight + 2 * HOUR
            if is_night and any(before <= hour <= at - HOUR for hour in hours):
                return Note("clock-may-go-forward", {"date": f"{day:%Y-%m-%d}"})
    return None


def lost(timeline: Sequence[Entry]) -> Note | None:
    """Return what restarts cost; None if nothing is lost."""
    entries = [entry for entry in timeline if entry.kind == "lost"]
    if not entries:
        return None
    steps = sum(entry.steps for entry in entries)
    idle = [entry for entry in entries if not entry.steps]
    parts = []
    for note, several in (
        (DOWN, "down in {} restarts"),
        (IDLE, "without another step before {} restarts"),
    ):
        alike = [entry for entry in idle if (entry.note or "").startswith(note[:4])]
        if alike:
            time = duration(sum(entry.duration for entry in alike))
            words = alike[0].note if len(alike) == 1 else several.format(len(alike))
            parts.append(f"{time} {words}")
    if steps:
        parts.append(f"{counted(steps, 'step')} done twice")
    time = duration(sum(entry.duration for entry in entries))
    return Note("lost", {"time": time, "parts": ", ".join(parts)})
