"""MLPerf events -> the timeline of a run: which stretches of its official time are training, which evaluation.

The official time is that from run_start to run_stop; block_start, block_stop, eval_start and eval_stop divide it. Some
logs leave out a border: blocks that hold their evaluation, and blocks that nothing but the next one ends.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from tprimat.notes import Note
from tprimat.read.mlperf.streams import Block, Event
from tprimat.results.account import Entry, EntryKind

COSTLY_SIGNS = ("ealing start", "garbage collection at ")
COSTLY = re.compile(r"\b\w{0,20} ?[Hh]ealing start\w{0,10}|Running garbage collection at [\w ]{0,30}step: \d{1,12}")
"""What the submitters' code prints when it does something that costs time within a block."""

AT_ONCE = 0.001
"""Share of a block after which its result can't come from an evaluation that followed: the block holds it."""

UNLIKE = 0.01
"""Share by which a block's step time must differ from the typical one to be looked into."""

MOST = 0.8
"""Share of a block's further time that a stretch of it must hold to be named."""

EVEN = 1.05
"""The share of the further time over the share of the steps, up to which a stretch is no slower than its block."""

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
        times: when the last event of a step was logged, by step.
        missed: s of the first block that the submitter's timer leaves out, if it is known.
        total: steps that the evaluations have reached.

    Attributes:
        notes: on steps that no block has.
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
        self._steps = 0
        begun, init = milestones.get("run_start"), milestones.get("init_start")
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
                self._reached, has_begun = max(self._reached, event.time), True
                block, evaluation, resumed = current, None, None
            elif key == "block_stop" and block:
                lasts = event.time - block.start.time
                if is_mixed and any(block.start.time <= time <= event.time + AT_ONCE * lasts for time in results):
                    self._add("unknown", event.time, block.start.line, block.span, HOLDS_EVALUATION)
                else:
                    self._train(block, event.time)
                block = None
            elif key == "eval_start" and not evaluation:
                if block:
                    self._train(block, event.time)
                self._reached = max(self._reached, event.time)
                block, evaluation = None, event
            # A slower rank's comes late: it ends nothing that another has ended.
            elif key == "eval_stop" and (evaluation or "eval_start" not in keys):
                if block:
                    self._cut(block, event.time)
                self._add("evaluation", event.time, (evaluation or event).line)
                block, evaluation, resumed = None, None, event
        if resumed and self._records_until(last, resumed.time):
            # The last evaluation is followed by steps without a block_start.
            block = Block(resumed)
        if block:
            self._cut(block, last)

    def _add(
        self, kind: EntryKind, until: float, line: int, span: tuple[int, int] | None = None, note: str | None = None
    ) -> None:
        """Add what lasted until a time; the next entry begins there."""
        first, last = (span[0] + 1, span[1]) if span else (None, None)
        self._steps = max(self._steps, last or 0)
        start, duration = round(self._reached - self._zero, 3), round(until - self._reached, 3)
        if duration > 0:
            self.entries.append(
                Entry(kind=kind, start=start, duration=duration, first_step=first, last_step=last, line=line, note=note)
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
        return [step for step, time in self._times.items() if step > self._steps and since < time <= until]

    def _withdraw_impossible(self, total: float) -> None:
        """Count the steps outside of blocks, and make the blocks' time unknown where all steps can't have taken it.

        Ten steps in a block of 80 s are no measure of 80 steps in a run of 527 s.
        """
        blocks = [entry for entry in self.entries if entry.steps]
        held = sum(entry.steps for entry in blocks)
        if not held or held >= total:
            return
        trained = [entry for entry in blocks if entry.kind == "training"]
        seconds, steps = sum(entry.duration for entry in trained), sum(entry.steps for entry in trained)
        too_slow = seconds * total > (self._reached - self._zero) * steps
        self.notes = (Note("blocks-too-slow" if too_slow else "steps-outside-blocks", {"count": round(total - held)}),)
        for index, entry in enumerate(self.entries):
            if too_slow and entry.kind == "training":
                self.entries[index] = msgspec.structs.replace(entry, kind="unknown", note=None)

    def _name_unlike_blocks(self, missed: float | None) -> None:
        """Add to each block that differs from the typical one what the log shows of it, if it prints nothing."""
        blocks = [(index, each) for index, each in enumerate(self.entries) if each.kind == "training" and each.steps]
        if not blocks:
            return
        typical = statistics.median(each.duration / each.steps for _, each in blocks)
        for number, (index, block) in enumerate(blocks):
            further = block.duration - block.steps * typical
            if block.note or further <= UNLIKE * block.steps * typical:
                continue
            note = self._slow_stretch(block, typical, further)
            if note is None and number == 0 and missed and missed >= MOST * further:
                note = f"its submitter's own mean leaves out {missed:.3g} s of it"
            self.entries[index] = msgspec.structs.replace(block, note=note)

    def _slow_stretch(self, block: Entry, typical: float, excess: float) -> str | None:
        """Return the shortest stretch between records that holds most of the seconds by which a block exceeds others.

        None if it is slow all over.
        """
        first, last = (block.first_step or 1) - 1, block.last_step or 0
        end = self._zero + block.start + block.duration
        within = [(step, time) for step, time in sorted(self._times.items()) if first < step < last and time < end]
        points = [(first, self._zero + block.start), *within, (last, end)]
        found = None
        for one, (before, since) in enumerate(points):
            for step, time in points[one + 1 :]:
                further = time - since - (step - before) * typical
                if further >= MOST * excess and (found is None or step - before < found[1] - found[0]):
                    found = (before, step, further)
        if found is None or found[2] / excess < EVEN * (found[1] - found[0]) / block.steps:
            return None
        return f"steps {found[0] + 1}–{found[1]} take {found[2]:.3g} s more than typical steps"
