"""Assign step records to runs: detect duplicates, restarts and new runs.

the same step, the same moment or values   a double (several ranks print); skipped
a step again, later                         a restart: its records take the place of the former
again from the first step or before         another training, unless this one has failed and the same
                                            is started again
"""

from __future__ import annotations

import math

from tprimat.notes import Note, NoteValue
from tprimat.read.parsing.records import LogContext, LoggedTraining, Record

SAME_MOMENT = 2.0
"""s. Ranks print a step within milliseconds; no process comes back from a crash this quickly."""

SAME_FIGURES = 0.05
"""Share by which the rates of one step differ between ranks at most."""

LAGGING = 2
"""Records by which one rank is behind another one that writes to the same log."""

COARSE = {"elapsed_seconds": 1.0}
"""What a clock in whole seconds adds to that, s."""


class RecordSequencer:
    """Assigns records to runs as they come."""

    def __init__(self) -> None:
        self.trainings: list[LoggedTraining] = []
        self.pending = LogContext()
        self.cut_off: int | None = None
        self._interval = 1
        self._again: list[Record] = []

    @property
    def last(self) -> Record | None:
        """The last record so far."""
        if self.trainings:
            return self.trainings[-1].last
        return None

    def take(self, record: Record, *, another: bool = False) -> None:
        """Add the next record of the log; `another` is whether the lines before it show that
        another training began.
        """
        last = self.last
        pending = self.pending
        if last is not None and record.step > last.step and not another and pending.is_empty:
            self._again = []
            self._interval = record.step - last.step
            training = self.trainings[-1]
            training.around.go_on(record.stamp)
            training.records[record.step] = training.last = record
            return
        self.pending = LogContext()
        pending.first_stamp = pending.first_stamp or record.stamp
        if last is None or another:
            self._begin(record, pending)
            return
        training = self.trainings[-1]
        known = training.records.get(record.step)
        if known is not None and _same(known, record, last, LAGGING * self._interval):
            if self._again or record.step == next(iter(training.records)):
                self._again.append(record)
            training.around.absorb(pending)
            _take_double(training, known, record)
            return
        goes_on = known is None and (record.step > last.step or _late(record, last, training))
        if record.step > last.step:
            self._interval = record.step - last.step
        jumps = "success" in pending.marks and _jumps(record, training)
        is_first = not goes_on and record.step <= min(training.records)
        again = self._again
        self._again = []
        if known is not None and again:
            # Another training began as this one did: of one seed the first losses are equal, and
            # coarse times too.
            self._begin(again[0], pending)
            for each in (*again[1:], record):
                _add(self.trainings[-1], each, LogContext())
            return
        if jumps or (is_first and not training.around.starts_over(pending)):
            self._begin(record, pending)
            return
        if not goes_on:
            pending.events.restart(record.line)
            _restart(training, record)
        _add(training, record, pending)

    def finish(self) -> list[LoggedTraining]:
        """Return the runs, with what follows the last record."""
        last = self.last
        if last is not None:
            training = self.trainings[-1]
            pending = self.pending
            if pending.begun and (cause := pending.causes.reason()):
                facts: dict[str, NoteValue] = {"line": last.line, "cause": cause}
                training.warnings.append(Note("attempt-without-step", facts))
            training.around.absorb(pending)
            training.cut_off = self.cut_off
        return self.trainings

    def _begin(self, record: Record, pending: LogContext) -> None:
        if self.trainings:
            pending.hand_over_end(self.trainings[-1].around)
        self.trainings.append(LoggedTraining())
        _add(self.trainings[-1], record, pending)


def _add(training: LoggedTraining, record: Record, pending: LogContext) -> None:
    training.around.absorb(pending)
    training.records[record.step] = record
    if training.last is None or record.step > training.last.step:
        training.last = record


def _restart(training: LoggedTraining, record: Record) -> None:
    """Drop the records from a step on: a new attempt repeats them."""
    again = sorted(step for step in training.records if step >= record.step)
    training.lost += [training.records.pop(step) for step in again]
    training.note_restart("step", record.step, record.line, again)
    training.last = None


def _take_double(training: LoggedTraining, known: Record, record: Record) -> None:
    """Skip a duplicate; fill the first record's gaps from it, and note differences."""
    training.doubles += 1
    mine = known.figures()
    other = record.figures()
    for name in other.keys() - mine.keys():
        known.put(name, other[name])
    common = sorted(mine.keys() & other.keys())
    differing = [
        name for name in common if not math.isclose(mine[name], other[name], rel_tol=SAME_FIGURES)
    ]
    training.note_conflict("step", record.step, differing, (known.line, record.line))


def _same(known: Record, record: Record, last: Record, reach: int = 1) -> bool:
    """Return whether two records of one step are duplicates, not two attempts; ranks lag up to
    `reach` steps.
    """
    if known.stamp is not None and record.stamp is not None:
        apart = record.stamp.seconds_after(known.stamp)
        if apart is not None:
            return abs(apart) <= max(
                SAME_MOMENT, 0.5 * (known.seconds or 0.0), known.stamp.resolution
            )
    mine = known.figures()
    other = record.figures()
    if mine == other:
        return True
    if record.step < last.step - reach:
        return False
    if known.origin != record.origin and known.origin is not None and record.origin is not None:
        return True
    # Several ranks print one step, each its own rate of the same loss.
    return (
        mine.keys() == other.keys()
        and known.loss == record.loss
        and (known.step == last.step or (reach > 1 and known.loss is not None))
        and all(
            math.isclose(mine[name], other[name], rel_tol=SAME_FIGURES, abs_tol=COARSE.get(name, 0))
            for name in mine
        )
    )


def _jumps(record: Record, training: LoggedTraining) -> bool:
    """Return whether a step is too far behind the last one to be a resumed training."""
    *_, before, last = (0, *sorted(training.records))
    return record.step - last > 2 * (last - before)


def _late(record: Record, last: Record, training: LoggedTraining) -> bool:
    """Return whether a step that is over was only logged late, not run again."""
    if record.stamp is not None and last.stamp is not None:
        after = record.stamp.seconds_after(last.stamp)
        if after is not None:
            return after <= SAME_MOMENT
    return record.step > min(training.records)
