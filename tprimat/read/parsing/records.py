"""Records of steps and the training that they make, as the readers of all log formats have them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tprimat.read.parsing.events import Events, told_by
from tprimat.read.parsing.failures import FailureReasons, may_name_a_cause
from tprimat.read.parsing.text import Stamp, first_stamp
from tprimat.read.parsing.values import LoggedValue, LoggedValues, name_and_unit, number, summary_values
from tprimat.results.fields import LARGEST_VALUE, LONGEST_STEP, SHORTEST_STEP
from tprimat.results.run import Status

RATE_AGREEMENT = 0.01
"""Share by which a printed rate may differ from what the other values give."""

LONGEST_SETUP = 50_000
"""Lines before the first record in which a setup is looked for: a long log of another log format isn't searched."""

FIGURES = ("seconds", "loss", "learning_rate", "grad_norm")
"""Values of a record that are fields of its own."""


@dataclasses.dataclass(slots=True)
class Record:
    """The values of one step, or of the steps since the previous record.

    Attributes:
        step: as printed.
        line: in the log, from 1.
        seconds: mean time of a step, s.
        window: steps that the record averages, where the record itself says so.
        stamp: when it was printed.
        origin: who printed it, where a prefix says so.
        native: what the framework printed beside, by the name that it has in native_metrics.
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
        own = {name: getattr(self, name) for name in FIGURES}
        return {name: value for name, value in {**own, **self.native}.items() if value is not None}

    def figure(self, name: str) -> float | None:
        """Return a value, of a field or a native one, or None."""
        return getattr(self, name) if name in FIGURES else self.native.get(name)

    def put(self, name: str, printed: object) -> None:
        """Set a value, of a field or a native one; remember it when it isn't finite. What is no number is skipped.

        Its name may end in the unit that is printed (values.UNITS): `milliseconds` are set as `seconds`.
        """
        value = number(printed)
        if value is None:
            return
        name, convert = name_and_unit(name)
        if convert is not None:
            value = round(convert(value), 4) if name.endswith("_gb") else convert(value)
        if not abs(value) <= LARGEST_VALUE or (name == "seconds" and not SHORTEST_STEP <= value <= LONGEST_STEP):
            self.not_finite = (*self.not_finite, name)
        elif name in FIGURES:
            setattr(self, name, value)
        else:
            self.native[name] = value

    def set_policy_loss(self) -> None:
        """Move the loss: that of reinforcement learning isn't a language model's."""
        if self.loss is not None:
            self.native["policy_loss"], self.loss = self.loss, None

    def put_all(self, printed: Mapping[str, object], names: Mapping[str, str]) -> None:
        """Set what is printed under known names, by the names here; of several for one value the first counts.

        A label is left out knowingly where its name here is empty; others with a number are kept as unread.
        """
        for own, name in names.items():
            if name and own in printed and self.figure(name_and_unit(name)[0]) is None:
                self.put(name, printed[own])
        self.unread = tuple(own for own, value in printed.items() if own not in names and number(value) is not None)


@functools.lru_cache(maxsize=1)
def _heard(text: str) -> tuple[Stamp | None, bool]:
    """Return the first time in a line, and whether a LogContext hears anything in it, which it mostly doesn't.

    Cached, since a dozen readers ask for each line of a log that none of them knows yet.
    """
    stamp = first_stamp(text[:400])
    return stamp, stamp is not None or told_by(text) != (None, None) or may_name_a_cause(text[:10_000])


@dataclasses.dataclass
class LogContext:
    """What a stretch of a log says besides its records."""

    stated: LoggedValues = dataclasses.field(default_factory=LoggedValues)
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
        stamp, says_something = _heard(text)
        if says_something or self.causes.is_open:
            self.events.feed(number, text)
            self.first_stamp = self.first_stamp or stamp
            self.causes.feed(number, text[:10_000])

    def starts_over(self, later: LogContext) -> bool:
        """Return whether the training failed, and what a later part begins is another attempt at the very same one."""
        has_failed = later.causes.reason() is not None and "success" not in later.marks
        if not has_failed or all(mark.kind != "start" for mark in later.events.marks):
            return False
        common = (self.stated.keys() & later.stated.keys()) - {"hostname"}
        return all(self.stated[name].value == later.stated[name].value for name in common)

    def hand_over_end(self, former: LogContext) -> None:
        """Give what ends a training, and stands before the first record of the next one, to the training it ends."""
        former.causes, self.causes = self.causes, FailureReasons()
        if "success" in self.marks:
            former.marks["success"] = self.marks.pop("success")

    def absorb(self, later: LogContext) -> None:
        """Add a later part: the training went on, so what looked like an end was none."""
        self.stated.absorb(later.stated)
        for name, line in later.marks.items():
            self.marks.setdefault(name, line)
        self.first_stamp = self.first_stamp or later.first_stamp
        self.events.absorb(later.events)
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
        lines: first and last line of a record.
        lost: records of steps that a restart repeats.
        again: lines of the records that repeat them first.
        cut_off: the step in whose record the file ends.
    """

    records: dict[int, Record] = dataclasses.field(default_factory=dict)
    around: LogContext = dataclasses.field(default_factory=LogContext)
    doubles: int = 0
    attempts: list[int] = dataclasses.field(default_factory=list)
    conflicts: list[str] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)
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

    def note_conflict(self, noun: str, step: int, fields: Iterable[str], lines: tuple[int, int]) -> None:
        """Warn of different values of a step, in two lines; of the first MOST_CONFLICTS."""
        if (differing := ", ".join(fields)) and len(self.conflicts) < MOST_CONFLICTS:
            self.conflicts.append(
                f"{noun} {step} is printed twice with different values ({differing}; lines {lines[0]} and {lines[1]}); "
                "the first is used"
            )

    def note_restart(self, noun: str, step: int, line: int, dropped: Sequence[int]) -> None:
        """Warn of a restart that drops steps, as many times as MOST_RESTARTS."""
        self.again.append(line)
        if len(self.again) <= MOST_RESTARTS:
            self.warnings.append(
                f"restarted on line {line} from {noun} {step}: {noun}s {dropped[0]} to {dropped[-1]} before the "
                "restart were dropped"
            )

    def many_restarts(self) -> list[str]:
        """Return a warning of the restarts that are not listed."""
        more = len(self.again) - MOST_RESTARTS
        return [f"restarted {more} more times"] if more > 0 else []

    def notes(self) -> tuple[str, ...]:
        """Return notes on how the lines were read."""
        return (f"{self.doubles} repeated step lines skipped",) if self.doubles else ()


def set_windows(records: Iterable[Record]) -> None:
    """Set how many steps each record averages: those since the record before."""
    before: int | None = None
    for record in records:
        record.window = 1 if before is None else record.step - before
        before = record.step


def set_times(records: Sequence[Record]) -> None:
    """Set windows, and step times as differences of the native value elapsed_seconds, the time since the start.

    Where the first record is of a resumed training, its time counts from the resumption: it gives no step time.
    """
    usual = records[1].step - records[0].step if len(records) > 1 else records[0].step
    step, seconds = max(records[0].step - usual, 0), 0.0
    is_resumed = step > 0
    for record in records:
        now = record.native.get("elapsed_seconds")
        record.window = max(record.step - step, 1)
        if now is not None and now > seconds and not is_resumed:
            record.put("seconds", round((now - seconds) / record.window, 9))
        step, seconds, is_resumed = record.step, seconds if now is None else now, False


def series(records: Sequence[Record], *, shift: int = 0) -> dict[str, Any]:
    """Return the series of a Run, as its arguments, from records in the order of their steps.

    `shift` is 1 where the log counts steps from 0: a Run counts from 1, and what was printed stays in
    native_metrics.printed_step.
    """
    names = dict.fromkeys(name for record in records for name in record.native)
    native = {name: tuple(record.native.get(name) for record in records) for name in names}
    if shift and records:
        native["printed_step"] = tuple(float(record.step) for record in records)
    return {
        "steps": tuple(record.step + shift for record in records),
        "window_steps": tuple(record.window or 1 for record in records),
        "step_times": tuple(record.seconds for record in records),
        "loss_values": tuple(record.loss for record in records),
        "learning_rates": tuple(record.learning_rate for record in records),
        "grad_norms": tuple(record.grad_norm for record in records),
        "lines": tuple(record.line for record in records),
        "native_metrics": native,
    }


def peaks(records: Iterable[Record], names: Mapping[str, str]) -> dict[str, float]:
    """Return the highest of native values, by the fields of MemoryMetrics that their names stand for."""
    highest: dict[str, float] = {}
    for record in records:
        for name, field in names.items():
            if (value := record.native.get(name)) is not None:
                highest[field] = max(highest.get(field, value), value)
    return summary_values(highest)


def warnings_of(training: LoggedTraining) -> list[str]:
    """Return warnings for what the records lack, by step."""
    records = training.ordered()
    warnings = [*training.warnings, *training.many_restarts(), *training.conflicts]

    def warn(words: str, those: Iterable[Record]) -> None:
        if where := spans((record.step, record.step) for record in those):
            warnings.append(f"{words} at {where}")

    warn("loss is not a number", (each for each in records if "loss" in each.not_finite))
    warn("gradient norm is not finite", (each for each in records if "grad_norm" in each.not_finite))
    warnings += [*check_stamps(_stamped(records)), *_varying_tokens(records)]
    if any(each.loss is not None for each in records):
        without = (each for each in records if each.loss is None and "loss" not in each.not_finite)
        warn("no loss printed", without)
    if any(each.seconds is not None for each in records):
        warn("no step time printed", (each for each in records if each.seconds is None))
    warnings += unread_labels(name for each in records for name in each.unread)
    return warnings + missing([each.step for each in records], [each.window or 1 for each in records])


def missing(steps: Sequence[int], windows: Sequence[int], noun: str = "step", words: str = "no record of") -> list[str]:
    """Return warnings where a log begins late, and of the steps between two records that neither covers."""
    warnings = [f"log begins at {noun} {steps[0]}"] if steps and steps[0] > max(1, windows[0]) else []
    pairs = zip(steps, steps[1:], windows[1:], strict=False)
    gaps = ((before + 1, step - window) for before, step, window in pairs if step - window > before)
    if where := spans(gaps, noun):
        warnings.append(f"{words} {where}")
    return warnings


MOST_UNREAD = 8
"""Labels that are named one by one."""


def unread_labels(names: Iterable[str]) -> list[str]:
    """Return a warning that names the labels of step lines whose numbers were not read; nothing for none."""
    labels = list(dict.fromkeys(names))
    shown = [*labels[:MOST_UNREAD], *(["…"] if len(labels) > MOST_UNREAD else [])]
    return [f"{len(labels)} label{'s' if len(labels) > 1 else ''} not read: {', '.join(shown)}"] if labels else []


MOST_SPANS = 12
"""Stretches of steps that are named one by one."""


def spans(stretches: Iterable[tuple[int, int]], noun: str = "step") -> str:
    """Return steps for people, “step 3” or “steps 1–3, 7”, from first and last of each stretch; empty for none."""
    joined: list[tuple[int, int]] = []
    for first, last in stretches:
        if joined and first == joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    words = [f"{first}–{last}" if last > first else f"{first}" for first, last in joined[:MOST_SPANS]]
    if len(joined) > MOST_SPANS:
        words.append(f"and {len(joined) - MOST_SPANS} more")
    steps = sum(last - first + 1 for first, last in joined)
    return f"{noun}{'s' if steps > 1 else ''} {', '.join(words)}" if words else ""


def timestamp(first: Stamp | None, warnings: list[str]) -> str | None:
    """Return when the training began, with its offset; None, and a warning, where the log doesn't say."""
    if first is None:
        warnings.append("timestamp unknown: the log has no times")
        return None
    if first.time.tzinfo is None:
        warnings.append(f"timestamp unknown: no time zone in the log ({first.time:%Y-%m-%d %H:%M:%S})")
        return None
    return first.time.isoformat()


def status(training: LoggedTraining, planned: int | None, done: int | None) -> tuple[Status, str | None]:
    """Return whether all planned steps are there, and why not; `done` is the last one, counted from 1."""
    around = training.around
    cause = around.causes.reason()
    if not training.records:
        if "success" in around.marks:
            return "incomplete", f"the run completed (line {around.marks['success']}) but logged no step"
        return "failed", cause or "log ends before the first step without an error"
    assert training.last is not None
    last = done or training.last.step
    success = around.marks.get("success")
    if (planned and last >= planned) or (success and success >= training.last.line):
        if around.causes.exit_code:
            training.warnings.append(f"the run completed, then: {cause}")
        return "complete", None
    of = f" of {planned}" if planned else ""
    if training.cut_off is not None:
        return "incomplete", f"log ends at step {last}{of}; file truncated within the next record"
    if cause:
        return "incomplete", f"log ends at step {last}{of}: {cause}"
    if planned:
        why = "without an error (killed, still running, or truncated)"
        return "incomplete", f"log ends at step {last} of {planned} {why}"
    return "incomplete", f"log ends at step {last}; neither the planned steps nor a normal end are logged"


CONTRADICTION = 1.8
"""Time between the stamps over the printed time, or its inverse, from which one of them must be wrong."""

LEAST_BLOCKS = 5
"""Stretches of a log that decide whether time stamps contradict the step times."""

STAMPED_STEPS = 20.0
"""Printed time of a stretch over the resolution of the stamps."""


def check_stamps(rows: Iterable[tuple[float | None, float, float | None]]) -> list[str]:
    """Return a warning where the time between records is twice their printed time, or half of it.

    Args:
        rows: of records in order, when each was printed, s (None for unknown), the resolution of that, and the time of
            the steps since the record before, s.
    """
    shares = []
    begin: float | None = None
    printed = 0.0
    for at, resolution, seconds in rows:
        if at is None or seconds is None or begin is None or at < begin:
            begin, printed = at, 0.0
            continue
        printed += seconds
        if printed >= STAMPED_STEPS * resolution:
            shares.append((at - begin) / printed)
            begin, printed = at, 0.0
    if len(shares) < LEAST_BLOCKS or sum(share < 0.05 for share in shares) > len(shares) / 10:
        # Of lines that were written in bursts the stamps say nothing.
        return []
    share = statistics.median(shares)
    if 1 / CONTRADICTION < share < CONTRADICTION:
        return []
    return [
        f"time stamps are {share:.2g}× the printed step times apart (median): one of them is wrong, or steps are "
        "missing"
    ]


VARYING = 1.05
"""Largest over smallest number of tokens in a step from which the lengths of sequences vary."""


def tokens_per_step(records: Sequence[Record]) -> list[float]:
    """Return by how much the number of tokens so far advances with each step, where it does, from record to record."""
    seen = [(each.step, each.native["tokens_seen"]) for each in records if "tokens_seen" in each.native]
    counts = [(tokens - before) / (step - last) for (last, before), (step, tokens) in itertools.pairwise(seen)]
    return [tokens for tokens in counts if tokens > 0]


def _varying_tokens(records: Sequence[Record]) -> list[str]:
    """Return a warning where the number of tokens so far advances by another one from step to step."""
    counts = tokens_per_step(records)
    if not counts or max(counts) < VARYING * min(counts):
        return []
    return [
        f"sequence lengths vary: {min(counts):,.0f} to {max(counts):,.0f} tokens per step, so step times vary with them"
    ]


def _stamped(records: Sequence[Record]) -> Iterator[tuple[float | None, float, float | None]]:
    """Yield what check_stamps() takes of records; a gap between two leaves the time of the later one open."""
    first = next((each.stamp for each in records if each.stamp), None)
    before = 0
    for each in records:
        window = each.window or 1
        known = each.seconds is not None and each.step - before == window
        at = each.stamp.seconds_after(first) if each.stamp and first else None
        yield at, each.stamp.resolution if each.stamp else 0.0, (each.seconds or 0.0) * window if known else None
        before = each.step


def check_rates(records: Iterable[Record], name: str, tokens: int, devices: int | None) -> list[str]:
    """Return a warning where a printed rate per device isn't what the tokens of a step, time and devices give."""
    if not tokens or not devices:
        return []
    timed = [(record.native.get(name), record.seconds, record.line) for record in records]
    shares = [(rate * seconds * devices / tokens, line) for rate, seconds, line in timed if rate and seconds]
    words = f"records print a token rate ({name}) that disagrees", f"{tokens} tokens / {devices}"
    return disagreement(shares, *words)


def disagreement(shares: Sequence[tuple[float, int]], who: str, values: str) -> list[str]:
    """Return a warning where printed rates, over what the other values give, aren't 1; each comes with its line."""
    off = [(abs(share - 1), line) for share, line in shares if abs(share - 1) > RATE_AGREEMENT]
    if not off:
        return []
    share, line = max(off, key=lambda pair: pair[0])
    return [
        f"{len(off)} of {len(shares)} {who} with batch × sequence length / time / GPUs ({values}) by up to {share:.1%} "
        f"(line {line}); one of them is wrong"
    ]
