"""Records of steps and the training that they make, as the readers of all log formats have them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tprimat.notes import Note, NoteValue
from tprimat.read.parsing import hints
from tprimat.read.parsing.events import LONGEST_LINE, RAW_SIGNS, SIGNS, Events, has_sign
from tprimat.read.parsing.failures import HINTS, FailureReasons, may_name_a_cause
from tprimat.read.parsing.text import NO_YEAR, Stamp, first_stamp, spelling_of
from tprimat.read.parsing.values import (
    LoggedValue,
    LoggedValues,
    name_and_unit,
    number,
    read_statements,
    summary_values,
)
from tprimat.results.fields import LARGEST_VALUE, LONGEST_STEP, SHORTEST_STEP, FieldValues
from tprimat.results.outcome import Cause, Outcome, ending_of, outcome_of

FIGURES = ("seconds", "loss", "learning_rate", "grad_norm")
"""Values of a record that are fields of its own."""


@dataclasses.dataclass(slots=True)
class Record:
    """The values of one step, or of the steps since the previous record.

    Attributes:
        step: as printed.
        line: in the log, from 1.
        seconds: mean time of a step, s.
        window: steps that the record averages, if the record itself states it; else None.
        stamp: when it was printed.
        origin: the process that printed it, if a prefix states it; else None.
        native: further printed values, by their names in native_metrics.
        not_finite: names of values that are NaN or infinite.
        unread: labels with a number that the reader doesn't know.
    """

    step: int
    line: int
    seconds: float | None = None
    loss: float | None = None
    learning_rate: float | None = None
    grad_norm: float | None = None
    window: int | None = None
    stamp: Stamp | None = None
    origin: str | None = None
    native: dict[str, float] = dataclasses.field(default_factory=dict)
    not_finite: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    def figures(self) -> dict[str, float]:
        """Return all its values by name."""
        values = {name: getattr(self, name) for name in FIGURES} | self.native
        return {name: value for name, value in values.items() if value is not None}

    def figure(self, name: str) -> float | None:
        """Return a value, of a field or a native one, or None."""
        return getattr(self, name) if name in FIGURES else self.native.get(name)

    def put(self, name: str, printed: object) -> None:
        """Set a value, of a field or a native one; remember it when it isn't finite. What is no
        number is skipped.

        Its name may end in the unit that is printed (values.UNITS): `milliseconds` are set as
        `seconds`.
        """
        value = number(printed)
        if value is None:
            return
        name, convert = name_and_unit(name)
        if convert is not None:
            value = convert(value)
            if name.endswith("_gb"):
                value = round(value, 4)
        is_usable = abs(value) <= LARGEST_VALUE
        if name == "seconds":
            is_usable = SHORTEST_STEP <= value <= LONGEST_STEP
        if not is_usable:
            self.not_finite = (*self.not_finite, name)
        elif name in FIGURES:
            setattr(self, name, value)
        else:
            self.native[name] = value

    def set_policy_loss(self) -> None:
        """Move the loss: that of reinforcement learning isn't a language model's."""
        if self.loss is not None:
            self.native["policy_loss"] = self.loss
            self.loss = None

    def put_all(self, printed: Mapping[str, object], names: Mapping[str, str]) -> None:
        """Set the values printed under known names, by the names here; the first of several names
        for one value counts.

        A label is left out knowingly if its name here is empty; others with a number are kept as
        unread.
        """
        for own in [own for own in names if own in printed]:
            name = names[own]
            if name and self.figure(name_and_unit(name)[0]) is None:
                self.put(name, printed[own])
        unknown = () if printed.keys() <= names.keys() else printed.items()
        self.unread = tuple(
            own for own, value in unknown if own not in names and number(value) is not None
        )


@functools.lru_cache(maxsize=1)
def _time_and_relevance(text: str) -> tuple[Stamp | None, bool]:
    """Return the first time in a line, and whether a LogContext finds anything else in it, which it
    mostly doesn't.

    Cached, since a dozen readers ask for each line of a log that none of them knows yet.
    """
    stamp = first_stamp(text[:400])
    if len(text) <= LONGEST_SPELLING:
        return stamp, _is_relevant(spelling_of(text))
    return stamp, has_sign(text, SIGNS) or may_name_a_cause(text[:10_000])


LONGEST_SPELLING = 1_000
"""Characters of a line whose spelling is kept."""

_RAW_SIGNS = (*RAW_SIGNS, *(hint.encode() for hint in HINTS))


@functools.lru_cache(maxsize=1024)
def _is_relevant(spelling: bytes) -> bool:
    """Return whether lines of a spelling have a sign of an event, a hint or a failure: none has a
    digit.
    """
    return has_sign(spelling, _RAW_SIGNS)


@dataclasses.dataclass
class LogContext:
    """The information in a stretch of a log besides its records: `stated` on the setup, `hinted`
    from hints.LINES.
    """

    stated: LoggedValues = dataclasses.field(default_factory=LoggedValues)
    hinted: LoggedValues = dataclasses.field(default_factory=LoggedValues)
    marks: dict[str, int] = dataclasses.field(default_factory=dict)
    first_stamp: Stamp | None = None
    causes: FailureReasons = dataclasses.field(default_factory=FailureReasons)
    events: Events = dataclasses.field(default_factory=Events)
    begun: bool = False

    def state(self, name: str, value: Any, line: int, text: str, weight: int = 1) -> None:
        """Add something that a line states."""
        self.stated.add(name, LoggedValue(value, line, " ".join(text.split())[:300], weight))

    def feed(self, number: int, text: str) -> None:
        """Read a line for its timestamp, for events and for what may have stopped the training."""
        stamp, says_something = _time_and_relevance(text)
        says_something = says_something or self.causes.is_open
        if says_something or stamp:
            self.events.feed(number, text)
            self.first_stamp = self.first_stamp or stamp
        if says_something:
            self.causes.feed(number, text[:10_000])
            read_statements(hints.LINES, text[:LONGEST_LINE], number, self.hinted)

    @property
    def is_empty(self) -> bool:
        """Whether no line has said anything."""
        is_silent = self.events.is_empty and self.causes.is_empty
        has_facts = self.stated or self.hinted or self.marks or self.first_stamp or self.begun
        return is_silent and not has_facts

    def go_on(self, stamp: Stamp | None) -> None:
        """Note a record right after the one before: what looked like an end was none."""
        self.first_stamp = self.first_stamp or stamp
        if not self.causes.is_empty:
            asked = self.causes.asked
            self.causes = FailureReasons()
            self.causes.asked = asked

    def starts_over(self, later: LogContext) -> bool:
        """Return whether the training failed, and a later part begins another attempt at the very
        same one.
        """
        has_failed = later.causes.reason() is not None and "success" not in later.marks
        if not has_failed or all(mark.kind != "start" for mark in later.events.marks):
            return False
        common = (self.stated.keys() & later.stated.keys()) - {"hostname"}
        return all(self.stated[name].value == later.stated[name].value for name in common)

    def hand_over_end(self, former: LogContext) -> None:
        """Give what ends a training, and stands before the first record of the next one, to the
        training it ends.
        """
        former.causes, self.causes = self.causes, FailureReasons()
        if "success" in self.marks:
            former.marks["success"] = self.marks.pop("success")

    def absorb(self, later: LogContext) -> None:
        """Add a later part: the training went on, so what looked like an end was none."""
        self.stated.absorb(later.stated)
        self.hinted.absorb(later.hinted)
        self.marks = later.marks | self.marks
        self.first_stamp = self.first_stamp or later.first_stamp
        self.events.absorb(later.events)
        if all(mark.kind != "start" for mark in later.events.marks):
            # A training that its user stops may do a few more steps.
            later.causes.asked = later.causes.asked or self.causes.asked
        self.causes = later.causes


MOST_CONFLICTS, MOST_RESTARTS = 5, 50
"""Conflicts and restarts that are listed one by one; of more restarts, the number."""


@dataclasses.dataclass
class LoggedTraining:
    """One training of a log.

    Attributes:
        records: by step as printed.
        around: the statements around them.
        doubles: records skipped because they repeat another one.
        attempts: first step of each start.
        lost: records of steps that a restart repeats.
        again: lines of the records that repeat them first.
        cut_off: the step in whose record the file ends.
    """

    records: dict[int, Record] = dataclasses.field(default_factory=dict)
    around: LogContext = dataclasses.field(default_factory=LogContext)
    doubles: int = 0
    attempts: list[int] = dataclasses.field(default_factory=list)
    conflicts: list[Note] = dataclasses.field(default_factory=list)
    warnings: list[Note] = dataclasses.field(default_factory=list)
    lost: list[Any] = dataclasses.field(default_factory=list)
    again: list[int] = dataclasses.field(default_factory=list)
    last: Record | None = None
    cut_off: int | None = None

    @property
    def step_count(self) -> int:
        """Records of steps that it has."""
        return len(self.records)

    def ordered(self) -> list[Record]:
        """Return the records in the order of their steps."""
        return [self.records[step] for step in sorted(self.records)]

    def note_conflict(
        self, noun: str, step: int, fields: Iterable[str], lines: tuple[int, int]
    ) -> None:
        """Warn of different values of a step, in two lines; of the first MOST_CONFLICTS."""
        if (differing := ", ".join(fields)) and len(self.conflicts) < MOST_CONFLICTS:
            line, again = lines
            facts: dict[str, NoteValue] = {"fields": differing, "line": line, "again": again}
            self.conflicts.append(Note("values-conflict", {"noun": noun, "step": step, **facts}))

    def note_restart(self, noun: str, step: int, line: int, dropped: Sequence[int]) -> None:
        """Warn of a restart that drops steps, MOST_RESTARTS times at most."""
        self.again.append(line)
        if len(self.again) <= MOST_RESTARTS:
            facts: dict[str, NoteValue] = {
                "line": line,
                "step": step,
                "first": dropped[0],
                "last": dropped[-1],
            }
            self.warnings.append(Note("restarted", {"noun": noun, **facts}))

    def many_restarts(self) -> list[Note]:
        """Return a warning of the restarts that are not listed."""
        more = len(self.again) - MOST_RESTARTS
        if more > 0:
            return [Note("more-restarts", {"count": more})]
        return []

    def notes(self) -> tuple[str, ...]:
        """Return notes on how the lines were read."""
        if self.doubles:
            return (f"{self.doubles} repeated step lines skipped",)
        return ()


def set_windows(records: Iterable[Record]) -> None:
    """Set how many steps each record averages: those since the record before."""
    before = None
    for record in records:
        record.window = 1 if before is None else record.step - before
        before = record.step


def set_times(records: Sequence[Record], *, in_whole_seconds: bool = False) -> None:
    """Set windows, and step times as differences of the native value elapsed_seconds, the time
    since the start.

    If the first record is of a resumed training, its time counts from the resumption: it gives no
    step time. Whether it is one shows the distance of the first two records: a log that begins with
    steps 10 and 20 has all steps, one that begins with steps 110 and 120 was resumed at step 100. A
    time of 0 s gives none either, where that isn't the whole seconds of less than one.

    A step time covers all steps since the time before, and so does its window: with steps of 0.45
    s, records are 0 s or 1 s apart, and 1 s covers two or three steps.
    """
    usual = records[0].step
    if len(records) > 1:
        usual = records[1].step - records[0].step
    step = timed = max(records[0].step - usual, 0)
    seconds = None if step else 0.0
    for record in records:
        now = record.native.get("elapsed_seconds")
        record.window = max(record.step - step, 1)
        step = record.step
        if now is None or (now == seconds and (now or in_whole_seconds)):
            continue
        if seconds is not None and now > seconds:
            record.window = max(step - timed, 1)
            record.put("seconds", round((now - seconds) / record.window, 9))
        timed = step
        seconds = now


_SERIES = {
    "step_times": "seconds",
    "loss_values": "loss",
    "learning_rates": "learning_rate",
    "grad_norms": "grad_norm",
    "lines": "line",
}
"""Fields of records by the names that their series have in a result."""


def series(records: Sequence[Record], *, shift: int = 0) -> FieldValues:
    """Return the series of a Run, as its arguments, from records in the order of their steps.

    `shift` is 1 if the log counts steps from 0: a Run counts from 1, and what was printed stays in
    native_metrics.printed_step.
    """
    names = dict.fromkeys(name for record in records for name in record.native)
    native = {name: tuple(record.native.get(name) for record in records) for name in names}
    if shift and records:
        native["printed_step"] = tuple(float(record.step) for record in records)
    columns: FieldValues = {"native_metrics": native}
    columns["steps"] = tuple(record.step + shift for record in records)
    columns["window_steps"] = tuple(record.window or 1 for record in records)
    for name, field in _SERIES.items():
        columns[name] = tuple(getattr(record, field) for record in records)
    return columns


def peaks(records: Iterable[Record], names: Mapping[str, str]) -> dict[str, float]:
    """Return the highest of native values, by the fields of MemoryMetrics that their names stand
    for.
    """
    highest: dict[str, float] = {}
    for record in records:
        for name, field in names.items():
            value = record.native.get(name)
            if value is not None:
                highest[field] = max(highest.get(field, value), value)
    return summary_values(highest)


def timestamp(first: Stamp | None, warnings: list[Note]) -> str | None:
    """Return when the training began, with its offset; None, and a warning, if the log doesn't
    state it.
    """
    if first is None:
        warnings.append(Note("timestamp-unknown", {"why": "the source has no time of day"}))
        return None
    if first.time.year == NO_YEAR:
        warnings.append(Note("timestamp-unknown", {"why": "no year in the log"}))
        return None
    if first.time.tzinfo is None:
        why = f"no time zone in the log ({first.time:%Y-%m-%d %H:%M:%S})"
        warnings.append(Note("timestamp-unknown", {"why": why}))
        return None
    return first.time.isoformat()


def outcome(
    training: LoggedTraining,
    planned: int | None,
    done: int | None,
    warnings: list[Note],
    known: Cause | None = None,
) -> Outcome:
    """Return how a training ended and its status; may add warnings.

    Args:
        training: whose log is over.
        planned: steps that were asked for.
        done: its last step, counted from 1.
        warnings: warnings on the run.
        known: the cause as its source records it, outside of its lines; else None.
    """
    around = training.around
    last = training.last
    cause = known or around.causes.cause()
    success = around.marks.get("success")
    step = done or (last.step if last else 0)
    ended = success is not None and (last is None or success >= last.line)
    ending = ending_of(step, planned, ended=ended, asked=around.causes.asked, cause=cause)
    if last is None:
        if ended:
            return Outcome(
                "incomplete", f"the run completed (line {success}) but logged no step", ending
            )
        return Outcome(
            "failed",
            cause.sentence if cause else "log ends before the first step without an error",
            ending,
        )
    of = f" of {planned}" if planned else ""
    if ending.kind == "finished":
        warnings += afterwards(around.causes, known)
        is_short = ending.cause is not None and planned and step < planned
        return outcome_of(
            ending, f"{step} of max_steps={planned} steps: {ending.cause}" if is_short else None
        )
    if training.cut_off is not None:
        return outcome_of(
            ending_of(), f"log ends at step {step}{of}; file truncated within the next record"
        )
    if known is not None:
        return outcome_of(ending, known.text)
    without = " without an error (killed, still running, or truncated)"
    why = without if planned else "; neither the planned steps nor a normal end are logged"
    return outcome_of(
        ending, f"log ends at step {step}{of}{f': {cause.sentence}' if cause else why}"
    )


def afterwards(causes: FailureReasons, known: Cause | None = None) -> list[Note]:
    """Return a warning of what failed once a training had done its steps, if its launcher or its
    source reports it.
    """
    cause = known or (causes.cause() if causes.exit_code else None)
    if cause is not None and cause.kind == "failed":
        return [Note("failed-afterwards", {"cause": cause.sentence})]
    return []
