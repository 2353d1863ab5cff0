"""The timeline of a log: its times, records and events as entries that follow each other, each
second with one owner.

Every entry ends at a time of the log or between two of them, so the rounding errors of whole
seconds don't accumulate.
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
from tprimat.read.parsing.events import ClockKind, Events, Mark, Moment
from tprimat.read.parsing.placing import PAUSE, Row, TimedRow, attempts, placed, stated_parts
from tprimat.read.parsing.remarks import STAMPED_STEPS
from tprimat.results.account import Entry
from tprimat.results.fields import FieldValues
from tprimat.text import counted
from tprimat.units import duration

DOWN, IDLE = "down after step {}", "without another step after step {}"
"""Notes on lost time. DOWN: from the last line of an attempt to the start of the next one. IDLE:
from the last record of an attempt to its last line.
"""

HOUR, DAY = 3600.0, 86400.0

SET_BACK = 60.0
"""s by which a log's times may go back before a clock must have been set: processes that write one
log are 2 or 20 s apart, not 3,600.
"""

AGAIN = 5.0
"""s of silence before a start that follows another one. Ranks that start 0.5 s apart are one
attempt; a process that starts 30 s after another one is the next attempt.
"""


@dataclasses.dataclass
class _Event:
    """An event between two records, as its lines state it.

    Attributes:
        begins, ends: times on the clock of the records, s; None if unknown.
        stated: sum of the durations that its lines state, s; 0.0 if they state none.
        step: the last one before the event; None if unknown.
    """

    kind: str
    line: int
    begins: float | None = None
    ends: float | None = None
    stated: float = 0.0
    step: int | None = None


class TimelineBuilder:
    """Builder of the timeline of one training.

    Takes the arguments of build_timeline(), but all records, at least one, have times on one clock;
    `resolution` is that of these times, s. Lines with times on another clock count as lines without
    times.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        events: Events,
        clock: ClockKind,
        resolution: float,
        repeat_lines: Sequence[int] = (),
    ) -> None:
        self._marks = events.marks
        self._lines = [mark.line for mark in events.marks]
        self._clock = clock
        self._resolution = resolution
        first = self._at(events.first)
        last = self._at(events.last)
        self._first = first if first is not None and first <= rows[0].at else None
        self._last = max(rows[-1].at, last or 0.0)
        self._attempts = attempts(rows, events, repeat_lines)
        step_gaps = []
        for attempt in self._attempts:
            for before, row in itertools.pairwise(attempt):
                step_gaps.append(row.step - before.step)
        self._window = statistics.mode(step_gaps) if step_gaps else 1
        printed = [row.seconds for row in rows if row.seconds]
        self._usual = statistics.median(printed) if printed else 1.0
        # _measured_scale() calls _expected(), which needs a scale.
        self._scale = 1.0
        self._scale = self._measured_scale(is_timed=bool(printed))
        self._event_durations: dict[str, list[float]] = {"evaluation": [], "checkpoint": []}
        self._entries: list[FieldValues] = []
        self._end = 0.0

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
        self._end = origin
        before = None
        for attempt in self._attempts:
            for row in attempt:
                if before is None:
                    self._start(row, self._marks_between(0, row.line), self._resumed(None, row))
                elif row is attempt[0]:
                    self._restart(before, row)
                else:
                    self._add_interval(before, row)
                if row.latest is not None:
                    self._add_entry("unknown", row.latest, line=row.line)
                before = row
        assert before is not None
        self._carve(self._marks_between(before.line, None), self._last, "end")
        for entry in self._entries:
            entry["start"] = round(entry["start"] - origin, 6)
            entry["duration"] = round(entry["duration"], 6)

    def _at(self, moment: Moment | None) -> float | None:
        """Return a time on the clock of the records; None for one on another clock."""
        if moment is not None and moment[1] is self._clock:
            return moment[0]
        return None

    def _marks_between(self, line: int, end: int | None) -> list[Mark]:
        last = len(self._lines) if end is None else bisect.bisect_left(self._lines, end)
        return self._marks[bisect.bisect_right(self._lines, line) : last]

    def _measured_scale(self, *, is_timed: bool) -> float:
        """Return the measured step time over the printed one, from stretches without events: the
        median of these stretches.

        If the records print no step times, `_usual` is 1 s, and the ratio is seconds per step.
        Without a stretch it is 1.0, or 0.0 if no step times are printed either. Each stretch is at
        least STAMPED_STEPS resolutions long: with stamps in whole seconds, 20 s in which ten steps
        of 1.9 s are printed give 1.05.
        """
        scales = []
        for attempt in self._attempts:
            measured = printed = 0.0
            for before, row in itertools.pairwise(attempt):
                if self._marks_between(before.line, row.line):
                    measured = printed = 0.0
                    continue
                measured = measured + row.at - before.at
                printed += self._expected(before, row)
                # Records of one step, in any order, show nothing.
                if printed and measured >= STAMPED_STEPS * self._resolution:
                    scales.append(measured / printed)
                    measured = printed = 0.0
        if not scales:
            return 1.0 if is_timed else 0.0
        # A timer may miss a part of a step, but counts nothing twice.
        return max(statistics.median(scales), 1.0 if is_timed else 0.0)

    def _expected(self, before: Row, row: Row) -> float:
        """Return how long the steps between two records should take, s."""
        return (row.seconds or self._usual) * (row.step - before.step) * self._scale

    def _resumed(self, before: Row | None, row: Row) -> int:
        """Return the last step before an attempt, whose first record is `row`: 0, or the step that
        it resumes from.
        """
        marks = self._marks_between(before.line if before else 0, row.line)
        stated = [mark.step for mark in marks if mark.kind == "resume" and mark.step is not None]
        if stated and stated[-1] < row.step:
            return stated[-1]
        return max(row.step - (row.window or self._window), 0)

    def _start(self, row: Row, marks: Sequence[Mark], resumed: int) -> None:
        """Add the start-up of an attempt and the steps of its first record."""
        expected = self._expected(row._replace(step=resumed), row)
        self._carve(marks, row.at - expected, "start-up" if self._scale else "unknown")
        # If a log covers at most half of the expected time of its first record's steps (30 of
        # 100 s), it has only some of them, and which ones isn't known. Otherwise (80 of 100 s) all
        # count: rounding and the first step explain the difference.
        steps = range(resumed + 1, row.step + 1)
        if row.at - self._end <= expected / 2:
            steps = range(0)
        self._add_entry("training", row.at, steps, row.line)

    def _restart(self, before: Row, row: Row) -> None:
        """Add the entries between two attempts: the lost time, and the start of the next one."""
        marks = self._marks_between(before.line, row.line)
        starts = [mark for mark in marks if mark.kind == "start"]
        end = marks.index(starts[0]) if starts else len(marks)
        former = marks[:end]
        resumed = self._resumed(before, row)
        _lose_steps(self._entries, resumed)
        down = self._silences(starts, marks)
        until = down[0][1] if down else row.at - self._expected(row._replace(step=resumed), row)
        if resumed > before.step:
            # The next attempt resumes after steps that have no record, so they were trained and
            # saved.
            steps = range(before.step + 1, min(resumed, row.step) + 1)
            saved = self._end + self._usual * self._scale * len(steps)
            for mark in former:
                if mark.kind == "checkpoint" and mark.phase == "begins":
                    saved = self._at(mark.at) or saved
            self._add_entry("training", saved, steps, before.line)
        note = DOWN.format(max(before.step, resumed))
        if down and not former:
            # The previous attempt ran on to the last time in its log without another record.
            self._add_entry("lost", down[0][0], note=IDLE.format(max(before.step, resumed)))
        self._carve(former, until, "lost", note=note)
        for begins, ends in down[1:]:
            self._add_entry("start-up", begins)
            self._add_entry("lost", ends, note=note)
        self._start(row, marks[end:], resumed)

    def _silences(self, starts: Sequence[Mark], marks: Sequence[Mark]) -> list[tuple[float, float]]:
        """Return from when to when no process ran before each start after the last record."""
        # An event in progress after the record isn't silence: with a checkpoint that usually takes
        # 40 s, 20 of 60 s without lines are silent.
        kinds = {mark.kind for mark in marks if starts and mark.line < starts[0].line}
        busy = self._end + sum(
            self._typical_duration(kind) or 0.0 for kind in kinds & self._event_durations.keys()
        )
        down: list[tuple[float, float]] = []
        # Several lines may report one start.
        for moment, silence in dict.fromkeys((start.first, start.silence) for start in starts):
            first = self._at(moment)
            silences = []
            if first is not None and not down:
                silences.append((min(busy, first), first))
            if silence:
                begins, ends = map(self._at, silence)
                if begins is not None and ends is not None and (not down or ends - begins >= AGAIN):
                    silences.append((begins, ends))
            # Lines after the longest silence belong to the next attempt, and lines before it to the
            # previous one.
            if silences:
                down.append(max(silences, key=lambda pair: pair[1] - pair[0]))
        for mark in marks:
            # Megatron's first line with a time states how long ago its process began.
            if mark.kind == "started" and len(down) == 1 and self._at(mark.at) == down[0][1]:
                down = [(self._end, max(self._end, down[0][1] - (mark.seconds or 0.0)))]
        return down

    def _typical_duration(self, kind: str) -> float | None:
        """Return the median duration of events of a kind, s; None if none has been timed."""
        if self._event_durations[kind]:
            return statistics.median(self._event_durations[kind])
        return None

    def _add_interval(self, before: Row, row: Row) -> None:
        """Add the entries between two records of an attempt."""
        marks = self._marks_between(before.line, row.line)
        expected = self._expected(before, row)
        steps = range(before.step + 1, row.step + 1)
        excess = row.at - self._end - expected
        is_exact = row.seconds is not None and row.window == len(steps)
        # If ten steps of 2 s took 30 s, the other 10 s are unknown; if they took 21 s, the
        # difference is rounding.
        if not marks and is_exact and excess > max(PAUSE * expected, self._resolution):
            self._add_entry("unknown", self._end + excess, line=before.line)
        if marks:
            self._carve(marks, row.at, "training", steps, expected, row.line)
        else:
            self._add_entry("training", row.at, steps, row.line)

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
        """Add the events of `marks`, and entries of kind `rest` for the time around them, up to
        `until`. `steps` are expected to take `expected` s and are divided among these entries.

        An event follows the step that its line states, or else the one that its start time
        suggests: at 2 s per step, one that begins 8 s after a record follows the fourth step.
        """
        start = self._end
        count = len(steps)
        until = max(until, start)
        events = self._events(marks)
        durations = self._durations(events, until, rest, expected)
        remaining = max(until - start - sum(durations), 0.0)
        added_share = 0.0
        event_seconds = 0.0
        for event, seconds in zip(events, durations, strict=True):
            event_start = event.begins
            if event_start is None and event.ends:
                event_start = event.ends - seconds
            # Share of the rest that lies before the event.
            share = 0.0
            if event.step is not None and count:
                share = (event.step - steps[0] + 1) / count
            elif event_start is not None and count and expected:
                share = round((event_start - start - event_seconds) / expected * count) / count
            elif event_start is not None and not count and remaining:
                share = (event_start - start - event_seconds) / remaining
            share = min(max(share, added_share), 1.0)
            steps_before = steps[round(added_share * count) : round(share * count)]
            seconds_before = remaining * (share - added_share)
            self._add_entry(rest, self._end + seconds_before, steps_before, line, note)
            self._add_entry(event.kind, self._end + seconds, line=event.line)
            added_share = share
            event_seconds += seconds
        self._add_entry(rest, until, steps[round(added_share * count) :], line, note)

    def _events(self, marks: Sequence[Mark]) -> list[_Event]:
        """Return the events of marks, each kind once."""
        events: dict[str, _Event] = {}
        for mark in marks:
            if mark.kind not in self._event_durations:
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
        """Return the duration of each event, s; append an unknown event to `events` if the time
        can't be divided among several.

        A single event without a stated duration takes the remaining time: if ten steps of 2 s and
        a checkpoint take 30 s, the checkpoint takes 10 s. Of several, all but the first take the
        typical duration of their kind, if all of these are known.
        """
        start = self._end
        excess = max(until - start - expected, 0.0)
        timed = [self._duration(event, until, rest, excess) for event in events]
        unknown = [index for index, seconds in enumerate(timed) if seconds is None]
        durations = [seconds or 0.0 for seconds in timed]
        remaining = excess - sum(durations)
        typical = [self._typical_duration(events[index].kind) for index in unknown[1:]]
        if typical and None not in typical:
            for index, usual in zip(unknown[1:], typical, strict=True):
                durations[index] = min(usual or 0.0, max(remaining, 0.0))
                remaining -= durations[index]
            unknown = unknown[:1]
        # Without the time of a step, not even a single event can be separated from training.
        is_open = len(unknown) > 1 or (bool(unknown) and not self._scale)
        if is_open:
            events.append(_Event("unknown", events[unknown[0]].line))
            durations.append(max(remaining, 0.0))
        elif unknown:
            index = unknown[0]
            ends = events[index].ends
            if ends is not None and rest == "end":
                until_its_end = ends - start - sum(durations[:index]) + self._resolution
                remaining = min(remaining, until_its_end)
            durations[index] = max(remaining, 0.0)
        elif events and rest == "training" and remaining > max(PAUSE * expected, self._resolution):
            # More time remains than rounding explains: it counts with the longest event.
            durations[durations.index(max(durations))] += remaining
        if rest == "training" and not is_open:
            for event, seconds in zip(events, durations, strict=True):
                self._event_durations[event.kind].append(seconds)
        return durations

    def _duration(self, event: _Event, until: float, rest: str, excess: float) -> float | None:
        """Return the duration of an event, s, at most the time available; None if unknown."""
        seconds = self._known_duration(event, rest)
        if seconds is None:
            return None
        available = until - self._end if event.stated else excess
        until_its_end = (event.ends or until) - self._end + self._resolution
        return max(min(seconds, available, until_its_end), 0.0)

    def _known_duration(self, event: _Event, rest: str) -> float | None:
        """Return the duration of an event, s: as stated, else between its begin and end, else the
        typical one of its kind where no record bounds it; None if unknown.
        """
        if event.stated:
            return event.stated
        if event.begins is not None and event.ends is not None and event.ends > event.begins:
            return event.ends - event.begins
        if rest == "training" or (rest == "end" and event.ends is not None):
            return None
        typical = self._typical_duration(event.kind)
        if typical is None and rest != "end":
            return 0.0
        return typical

    def _add_entry(
        self,
        kind: str,
        until: float,
        steps: range = range(0),
        line: int | None = None,
        note: str | None = None,
    ) -> None:
        """Add an entry up to a time, or lengthen the last one of its kind."""
        seconds = max(until - self._end, 0.0)
        if not seconds and not steps:
            return
        last = self._entries[-1] if self._entries else {}
        if last.get("kind") != kind or last["note"] != note:
            last = {
                "kind": kind,
                "start": self._end,
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
        self._end += seconds


def _lose_steps(entries: list[FieldValues], resumed: int) -> None:
    """Count the training after step `resumed`, which the next attempt repeats, as lost."""
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
        # If steps 1 to 10 took 20 s, steps 8 to 10 took 6 s.
        lost["first_step"] = resumed + 1
        lost["duration"] *= (last - resumed) / (last - first + 1)
        entry["duration"] -= lost["duration"]
        lost["start"] += entry["duration"]
        entry["last_step"] = resumed
        entries.insert(index + 1, lost)


def with_lost_steps(timeline: Sequence[Entry], resumed: int) -> tuple[Entry, ...]:
    """Return the timeline of an attempt with the steps after `resumed`, which the next attempt
    repeats, counted as lost.
    """
    entries = [msgspec.structs.asdict(entry) for entry in timeline]
    _lose_steps(entries, resumed)
    return tuple(Entry(**entry) for entry in entries)


def build_timeline(
    rows: Iterable[TimedRow], events: Events, repeat_lines: Sequence[int] = ()
) -> tuple[Entry, ...]:
    """Return the timeline of a training; empty if its records have no times.

    Args:
        rows: its records in the order of the log, those that a restart repeats too, each with the
            clock of its time, and the resolution of that time, s.
        events: the events of the lines around them.
        repeat_lines: lines of the records with which a restart repeats steps.
    """
    rows = list(rows)
    untimed = [row for row, *_ in rows]
    timed = [row for row in rows if row[1] is not None]
    pairs = itertools.pairwise(timed)
    if any(clock == "elapsed" and later.at < row.at for (row, clock, _), (later, *_) in pairs):
        # Another attempt counts from its own start.
        timed = []
    timed = timed or placed(untimed, events, repeat_lines)
    clocks = collections.Counter(clock for _, clock, _ in timed)
    if not clocks:
        return stated_parts(untimed, events)
    clock = clocks.most_common(1)[0][0]
    on_clock = [row for row, its_clock, _ in timed if its_clock is clock]
    resolution = max(seconds for _, its_clock, seconds in timed if its_clock is clock)
    if clock == "elapsed":
        marks = [mark._replace(at=None, first=None, silence=None) for mark in events.marks]
        events = Events(marks, first=(0.0, "elapsed"))
    entries = TimelineBuilder(on_clock, events, clock, resolution, repeat_lines).build()
    if any(entry.kind != "unknown" for entry in entries):
        return entries
    return ()


def clock_change(rows: Sequence[TimedRow], events: Events) -> Note | None:
    """Return why the times of a log can't be added up, as a warning; None if they can. Takes the
    arguments of build_timeline().

    In times without a UTC offset, a clock that is put back shows an hour twice, and one that is put
    forward skips one: mostly from 1 or 2 o'clock on, on a Sunday of March, September or October. A
    silence of an hour looks the same: from 1:59 to 3:01 on the last Sunday of March.
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
    """Return the note on the time that restarts cost; None if nothing is lost."""
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
        beginning = note.removesuffix("{}")
        matching = [entry for entry in idle if (entry.note or "").startswith(beginning)]
        if matching:
            time = duration(sum(entry.duration for entry in matching))
            words = matching[0].note if len(matching) == 1 else several.format(len(matching))
            parts.append(f"{time} {words}")
    if steps:
        parts.append(f"{counted(steps, 'step')} done twice")
    time = duration(sum(entry.duration for entry in entries))
    return Note("lost", {"time": time, "parts": ", ".join(parts)})
