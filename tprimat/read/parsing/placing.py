"""Records in the order of a log, and the times of those that have none, from the lines around them."""

from __future__ import annotations

import bisect
import collections
import itertools
import math
import statistics
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tprimat.read.parsing.events import Events, Time
from tprimat.results.account import Entry

PAUSE = 0.1
"""Share of the printed time of the steps between two records, and at least the resolution of the log's times, by which
these may lie further apart before the rest is no training."""

PAUSES = ("evaluation", "checkpoint")


class Row(NamedTuple):
    """A record.

    Attributes:
        step, line: its step and its line.
        at: when it was printed, s.
        seconds: mean time of its steps, s.
        window: how many these are.
        latest: where it is open when it was printed, the end of the time in which it may have been, s.
    """

    step: int
    line: int
    at: float
    seconds: float | None = None
    window: int | None = None
    latest: float | None = None


def attempts(rows: Iterable[Row], events: Events, again: Sequence[int]) -> list[list[Row]]:
    """Return the records of each attempt; within one, a record that was only logged late takes its place."""
    starts = [mark.line for mark in events.marks if mark.kind == "start"]
    rows = list(rows)
    bounds = sorted({line for line in starts if line > rows[0].line}.union(again))
    groups = itertools.groupby(rows, lambda row: bisect.bisect_right(bounds, row.line))
    return [sorted(group) for _, group in groups]


def placed(rows: Sequence[Row], events: Events, again: Sequence[int]) -> list[tuple[Row, Time, float]]:
    """Return records without a time as timeline.of() takes them, with times from the lines around them.

    A record was printed before the next line with a time, and before the next record by what that took at least. One
    behind which no such line stands before the next record is a part of that. The last one of an attempt was printed
    when its steps were over: after as long as others show, or else at an open time before the next line.
    """
    clocks = collections.Counter(clock for _, (_, clock) in events.stamps)
    if not clocks or not rows:
        return []
    clock = clocks.most_common(1)[0][0]
    lines, times = zip(*((line, at) for line, (at, other) in events.stamps if other is clock), strict=True)
    resolution = 1.0 if all(at == int(at) for at in times) else 1e-3
    pauses = [mark for mark in events.marks if mark.kind in PAUSES]
    paused = [mark.line for mark in pauses]
    # A time behind an event that is over, or began at an unknown time, is no longer that of the record before it.
    over = [mark.line for mark in pauses if mark.phase != "begins" or mark.at is None]
    printed = [row.seconds for row in rows if row.seconds]
    usual = statistics.median(printed) if printed else 0.0
    found: list[Row] = []
    for attempt in attempts(rows, events, again):
        kept: list[Row] = []
        parts: list[Row] = []
        for row, following in itertools.zip_longest(attempt, attempt[1:]):
            parts.append(row)
            place = bisect.bisect_right(lines, row.line)
            line, after = (lines[place], times[place]) if place < len(lines) else (sys.maxsize, math.inf)
            if following and (line > following.line or _any_between(over, row.line, line)):
                continue
            before = kept[-1] if kept else None
            whole, spent = _together(before, parts, usual)
            earliest = times[place - 1] if place else after - spent
            if following:
                kept.append(whole._replace(at=after))
            elif math.isfinite(earliest) and (spent or math.isfinite(after)):
                ratios = [
                    (b.at - a.at) / (b.seconds * (b.step - a.step))
                    for a, b in itertools.pairwise(kept)
                    if b.seconds and not _any_between(paused, a.line, b.line)
                ]
                scale = max([1.0, statistics.median(ratios or [1.0])])
                ended = over[event - 1] if (event := bisect.bisect_right(over, row.line)) else 0
                at = (before.at if before else earliest) + spent * scale
                if ended > (before.line if before else 0) and (stamp := bisect.bisect_right(lines, ended)):
                    done = [part for part in parts if part.line < ended]
                    _, rest = _together(done[-1] if done else before, parts[len(done) :], usual)
                    at = max(at, times[stamp - 1] + rest * scale)
                # Without any step time nothing but the next line bounds it, as it does the other records.
                at = min(max(at, earliest), after) if usual or before is None else after
                is_open = not ratios or (before is not None and ended > max(before.line, lines[place - 1]))
                # What follows the last record of an attempt that is not the last one is lost in any case.
                is_open = is_open and row is rows[-1] and max(PAUSE * spent, resolution) < after - at < math.inf
                kept.append(whole._replace(at=at, latest=after if is_open else None))
            parts = []
        for place in range(len(kept) - 2, -1, -1):
            row, following = kept[place : place + 2]
            if following.seconds and following.window:
                at = following.at - following.seconds * following.window
                earliest = times[max(bisect.bisect_right(lines, row.line) - 1, 0)]
                kept[place] = row._replace(at=min(row.at, max(at, earliest)))
        found += kept
    return [(row, clock, resolution) for row in found]


def _any_between(lines: Sequence[int], first: int, last: int) -> bool:
    """Return whether one of ascending lines lies behind the first and not behind the last of two."""
    return bisect.bisect_right(lines, first) < bisect.bisect_right(lines, last)


def _together(before: Row | None, parts: Sequence[Row], usual: float) -> tuple[Row, float]:
    """Return records as one, which is printed with the last of them, and what their steps took by their own times, s.

    Where one has none, those of others are taken.
    """
    former = [before.step if before else parts[0].step - (parts[0].window or 1), *(part.step for part in parts)]
    spent = sum((part.seconds or usual) * (part.step - step) for part, step in zip(parts, former, strict=False))
    count = parts[-1].step - former[0]
    window = count if all(part.window for part in parts) else None
    return parts[-1]._replace(seconds=spent / count if spent > 0 and count > 0 else None, window=window), max(
        spent, 0.0
    )


def stated_parts(rows: Sequence[Row], events: Events) -> tuple[Entry, ...]:
    """Return the evaluations and checkpoints of a log without times whose duration it states, each behind its steps."""
    done = [*itertools.accumulate(((row.seconds or 0.0) * (row.window or 1) for row in rows), initial=0.0)]
    # A file without lines says after which step.
    places, entries, spent = [row.line or row.step for row in rows], [], 0.0
    for mark in events.marks:
        if mark.kind in PAUSES and mark.seconds:
            start = round(done[bisect.bisect_right(places, mark.line or mark.step or 0)] + spent, 6)
            entry: dict[str, Any] = {"kind": mark.kind, "start": start, "duration": mark.seconds}
            entries.append(Entry(**entry, line=mark.line or None))
            spent += mark.seconds
    return tuple(entries)
