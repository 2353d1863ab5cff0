"""MLPerf events -> the timeline of a run: which stretches of its official time are training, which
evaluation.

The official time is that from run_start to run_stop; block_start, block_stop, eval_start and
eval_stop divide it. Some logs leave out a border: blocks that hold their evaluation, and blocks
that nothing but the next one ends.
"""

from __future__ import annotations

import bisect
import collections
import itertools
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tprimat.notes import Note
from tprimat.read.mlperf.streams import Block, Event
from tprimat.results.account import Entry, EntryKind

COSTLY_SIGNS = ("ealing start", "garbage collection at ")
COSTLY = re.compile(
    r"\b\w{0,20} ?[Hh]ealing start\w{0,10}|Running garbage collection at [\w ]{0,30}step: \d{1,12}"
)
"""What the submitters' code prints when it does something that costs time within a block."""

AT_ONCE = 0.001
"""A result that is logged within this share of a block after its end can't come from an evaluation
that followed: the block includes it. After a block of 600 s, an evaluation takes more than 0.6 s.
"""

UNLIKE = 0.01
"""Share by which a block's step time must be above the typical one to be looked into: 1.02 s of
1 s.
"""

MOST = 0.8
"""Share of a block's further time that a stretch of it must hold to be named: 16 of 20 s."""

EVEN = 1.05
"""The share of the further time over the share of the steps, up to which a stretch is no slower
than its block: half of the steps that hold 52% of the further time aren't named, with 53% they are.
"""

EARLY = 0.5
"""Steps by which the typical block_stop must come before its last step is done, by the records of
steps, to be early.

NVIDIA's code of v6.0 doesn't wait for the GPU, and is 0.75 to 5 steps early; all logs before it at
most 0.12.
"""

LEAST_PACES = 3
"""Intervals between records that show how long a step takes: a single one may hold a pause."""

HOLDS_EVALUATION = "holds its evaluation"


class Mark(NamedTuple):
    """A border: its name, its event, and the block that it begins or that it was logged in."""

    key: str
    event: Event
    block: Block | None


class Timeline:
    """The timeline of one run.

    Args:
        milestones: run_start and, if the log has them, init_start, run_stop and the last event.
        marks: the borders, in the order of the log.
        times: when the last record of a step was logged, by step.
        missed: s of the first block that the submitter's timer leaves out, if it is known.
        total: steps that the evaluations have reached.

    Attributes:
        notes: on steps that no block has, and on blocks whose end is early.
        entries: in the order of time, without overlap; none without run_start or blocks.
    """

    def __init__(
        self,
        milestones: Mapping[str, Event],
        marks: Sequence[Mark],
        times: Mapping[int, float],
        missed: float | None,
        total: float = 0,
    ) -> None:
        self.entries: list[Entry] = []
        self.notes: tuple[Note, ...] = ()
        self._times = times
        self._ordered = sorted(times)
        self._steps = 0
        begun = milestones.get("run_start")
        init = milestones.get("init_start")
        # What ranks log with run_start may be stamped a moment earlier.
        marks = [mark for mark in marks if begun and mark.event.time > begun.time - 1]
        if begun is None or not any(mark.key == "block_start" for mark in marks):
            return
        self._zero = begun.time
        if init and init.time < begun.time:
            self._reached = init.time
            self._add("start-up", begun.time, init.line)
        self._reached = begun.time
        self._walk(marks, milestones["last"].time)
        if stop := milestones.get("run_stop"):
            self._add("end", stop.time, stop.line)
        self._move_early_ends()
        self._withdraw_impossible(total)
        self._name_unlike_blocks(missed)

    def _walk(self, marks: Sequence[Mark], last: float) -> None:
        keys = {mark.key for mark in marks}
        is_mixed = "eval_accuracy" in keys and keys.isdisjoint(("eval_start", "eval_stop"))
        results = [mark.event.time for mark in marks if mark.key == "eval_accuracy"]
        block = None
        evaluation = None
        resumed: Event | None = None
        has_begun = False
        for key, event, current in marks:
            if key == "block_start":
                if block:
                    self._cut(block, event.time)
                elif not has_begun:
                    self._add("start-up", event.time, event.line)
                self._reached = max(self._reached, event.time)
                has_begun = True
                block = current
                evaluation = None
                resumed = None
            elif key == "block_stop" and block:
                lasts = event.time - block.start.time
                if is_mixed and any(
                    block.start.time <= time <= event.time + AT_ONCE * lasts for time in results
                ):
                    self._add("unknown", event.time, block.start.line, block.span, HOLDS_EVALUATION)
                else:
                    self._train(block, event.time)
                block = None
            elif key == "eval_start" and not evaluation:
                if block:
                    self._train(block, event.time)
                self._reached = max(self._reached, event.time)
                block = None
                evaluation = event
            # A slower rank's comes late: it ends nothing that another has ended.
            elif key == "eval_stop" and (evaluation or "eval_start" not in keys):
                if block:
                    self._cut(block, event.time)
                self._add("evaluation", event.time, (evaluation or event).line)
                block = None
                evaluation = None
                resumed = event
        if resumed and self._records_until(last, resumed.time):
            # The last evaluation is followed by steps without a block_start.
            block = Block(resumed)
        if block:
            self._cut(block, last)

    def _add(
        self,
        kind: EntryKind,
        until: float,
        line: int,
        span: tuple[int, int] | None = None,
        note: str | None = None,
    ) -> None:
        """Add what lasted until a time; the next entry begins there."""
        first, last = (span[0] + 1, span[1]) if span else (None, None)
        self._steps = max(self._steps, last or 0)
        start = round(self._reached - self._zero, 3)
        duration = round(until - self._reached, 3)
        if duration > 0:
            self.entries.append(
                Entry(
                    kind=kind,
                    start=start,
                    duration=duration,
                    first_step=first,
                    last_step=last,
                    line=line,
                    note=note,
                )
            )
            self._reached = until

    def _train(self, block: Block, until: float) -> None:
        self._add("training", until, block.start.line, block.span, "; ".join(block.said) or None)

    def _cut(self, block: Block, until: float) -> None:
        """Add a block without an end of its own: its training ends with its last record."""
        since = block.start.time
        end = block.span[1] if block.span else max(self._records_until(until, since), default=None)
        time = self._times.get(end) if end else None
        if end and time is not None and since < time <= until:
            block.span = (self._steps, end)
            self._train(block, time)
        else:
            self._add("unknown", until, block.start.line, block.span, HOLDS_EVALUATION)

    def _records_until(self, until: float, since: float) -> list[int]:
        """Return the steps logged between two times that no block has."""
        return [
            step
            for step, time in self._times.items()
            if step > self._steps and since < time <= until
        ]

    def _records_in(self, block: Entry) -> list[tuple[int, float]]:
        """Return the steps of a block that were logged in it, and when."""
        begin = bisect.bisect_left(self._ordered, block.first_step or 1)
        end = self._zero + block.start + block.duration
        steps = self._ordered[begin : bisect.bisect_right(self._ordered, block.last_step or 0)]
        return [(step, self._times[step]) for step in steps if self._times[step] <= end + 0.0005]

    def _move_early_ends(self) -> None:
        """Move ends of blocks that were logged before the GPU was done to where the records of
        their steps have them.

        For example, 60 of 66 steps take 10.5 s until the last record, and 6 take 0.92 s more until
        block_stop, which comes 0.13 s early. A block without records ends as early as the others
        do. Training and evaluation together are unchanged.
        """
        early: dict[int, float] = {}
        paces: list[float] = []
        sure = []
        without = []
        logged = 0.0
        for index, (block, after) in enumerate(itertools.pairwise(self.entries)):
            if block.kind != "training" or not block.steps or after.kind != "evaluation":
                continue
            records = self._records_in(block)
            own = []
            for (last, since), (step, time) in itertools.pairwise(records):
                own.append((time - since) / (step - last))
            paces += own
            logged += block.duration
            left = (block.last_step or 0) - records[-1][0] if records else block.steps
            if left and records and paces:
                pace = statistics.median(own or paces)
                early[index] = (
                    records[-1][1] + left * pace - self._zero - block.start - block.duration
                )
                # Positions that are one step off change how many are left, but not how many the
                # block has.
                sure.append(min(early[index] / pace, block.steps - block.duration / pace))
            elif left:
                without.append(index)
        if len(paces) < LEAST_PACES or not sure or statistics.median(sure) <= EARLY:
            return
        seconds_early = early.values()
        doubt = (max(seconds_early) - min(seconds_early)) * len(without)
        early |= dict.fromkeys(without, statistics.median(seconds_early))
        for index, by in early.items():
            block, after = self.entries[index : index + 2]
            early[index] = by = round(min(max(by, 0.0), after.duration), 3)
            self.entries[index] = block.but(duration=round(block.duration + by, 3))
            start = round(after.start + by, 3)
            duration = round(after.duration - by, 3)
            self.entries[index + 1] = after.but(start=start, duration=duration)
        percent, doubts = (
            round(100 * seconds / logged, 3) for seconds in (math.fsum(early.values()), doubt)
        )
        self.notes = (
            Note("early-block-ends", {"count": len(early), "percent": percent, "doubt": doubts}),
        )

    def _withdraw_impossible(self, total: float) -> None:
        """Count the steps outside of blocks, and make the blocks' time unknown where all steps
        can't have taken it.

        Ten steps in a block of 80 s are no measure of 80 steps in a run of 527 s.
        """
        blocks = [entry for entry in self.entries if entry.steps]
        held = sum(entry.steps for entry in blocks)
        if not held or held >= total:
            return
        trained = [entry for entry in blocks if entry.kind == "training"]
        seconds = sum(entry.duration for entry in trained)
        steps = sum(entry.steps for entry in trained)
        too_slow = seconds * total > (self._reached - self._zero) * steps
        code = "blocks-too-slow" if too_slow else "steps-outside-blocks"
        self.notes += (Note(code, {"count": round(total - held)}),)
        for index, entry in enumerate(self.entries):
            if too_slow and entry.kind == "training":
                self.entries[index] = entry.but(kind="unknown", note=None)

    def _name_unlike_blocks(self, missed: float | None) -> None:
        """Add an explanation from the log to each block that differs from the typical one, if the
        log prints none.
        """
        blocks = [
            (index, entry)
            for index, entry in enumerate(self.entries)
            if entry.kind == "training" and entry.steps
        ]
        if not blocks:
            return
        typical = statistics.median(entry.duration / entry.steps for _, entry in blocks)
        for number, (index, block) in enumerate(blocks):
            further = block.duration - block.steps * typical
            if block.note or further <= UNLIKE * block.steps * typical:
                continue
            note = self._slow_stretch(block, typical, further)
            if note is None and number == 0 and missed and missed >= MOST * further:
                note = f"its submitter's own mean leaves out {missed:.3g} s of it"
            self.entries[index] = block.but(note=note)

    def _slow_stretch(self, block: Entry, typical: float, excess: float) -> str | None:
        """Return the shortest stretch between records that holds most of the seconds by which a
        block exceeds others.

        None if it is slow all over.
        """
        first = (block.first_step or 1) - 1
        last = block.last_step or 0
        begin = self._zero + block.start
        within = [(step, time) for step, time in self._records_in(block) if step < last]
        points = [(first, begin), *within, (last, begin + block.duration)]
        stretch = shortest_stretch(points, typical, MOST * excess)
        if stretch is None or stretch[2] / excess < EVEN * (stretch[1] - stretch[0]) / block.steps:
            return None
        return (
            f"steps {stretch[0] + 1}–{stretch[1]} take {stretch[2]:.3g} s more than typical steps"
        )


def shortest_stretch(
    points: Iterable[tuple[int, float]], typical: float, least: float
) -> tuple[int, int, float] | None:
    """Return the first of the shortest stretches that take at least `least` s more than typical
    steps.

    Args:
        points: completed steps and the time, s, both rising.
        typical: s of a step.
        least: s, above 0.

    Returns:
        The completed steps at its start and its end, and the s that it takes more; None if there is
        none.
    """
    shortest = None
    # Where a stretch may begin: with each later point further time is higher, else the later one is
    # the better start.
    starts: collections.deque[tuple[int, float]] = collections.deque()
    for step, time in points:
        further = time - step * typical
        while starts and further - starts[0][1] >= least:
            begin, before = starts.popleft()
            if shortest is None or step - begin < shortest[1] - shortest[0]:
                shortest = begin, step, further - before
        while starts and starts[-1][1] >= further:
            starts.pop()
        starts.append((step, further))
    return shortest
