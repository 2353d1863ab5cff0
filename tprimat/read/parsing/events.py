"""Lines of a log on events other than steps: starts of processes, evaluations, saving of
checkpoints.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Sequence
from typing import AnyStr, Literal, NamedTuple

from tprimat.read.parsing import hints
from tprimat.read.parsing.text import last_stamp

ClockKind = bool | Literal["elapsed"] | None
"""The clock that a time is on. True: a wall clock whose UTC offset is stated; False: one whose
offset isn't; elapsed: the time since the start; None: there is no time.
"""

Moment = tuple[float, ClockKind]
"""Seconds since 1970, or since the start, and the clock."""


class EventLine(NamedTuple):
    """A kind of line that reports an event.

    Attributes:
        kind: start of a process; started, which states how long that took; resume, which states the
            step that it resumes from; or the kind of an entry.
        phase: whether the event begins or ends at this line; empty for either.
        pattern: pattern of the line. Groups: the event's duration in `seconds` or `ms`, and the
            last `step` before it or the `first` one after it.
    """

    kind: Literal["start", "started", "resume", "evaluation", "checkpoint", "profile"]
    phase: Literal["begins", "ends", ""]
    pattern: re.Pattern[str]


EVENT_LINES = tuple(
    EventLine(kind, phase, re.compile(pattern))  # type: ignore[arg-type]
    for kind, phase, pattern in (
        # Megatron, and with a prefix Primus, NeMo and Megatron-Bridge
        ("start", "begins", r"-- arguments --|\busing world size: \d"),
        ("started", "ends", r"\btime to initialize megatron \(seconds\): (?P<seconds>\d{1,6}(?:\.\d{1,9})?)"),
        ("resume", "", r"\bsuccessfully loaded checkpoint from .{0,1000} at iteration (?P<step>\d{1,12})"),
        ("checkpoint", "begins", r"\bsaving checkpoint at iteration +(?P<step>\d{1,12})"),
        ("checkpoint", "ends", r"\b[Ss]uccessfully saved checkpoint from iteration +\d"),
        ("checkpoint", "ends", r"\b[Ss]cheduled (?:an )?async checkpoint save\b"),
        ("checkpoint", "ends", r"\bcheckpoint save for step \d{1,12}.{0,200}final"),
        ("checkpoint", "", r"\bsave-checkpoint \.+: \([\d.]{1,20}, (?P<ms>\d{1,12}(?:\.\d{1,9})?)\)"),
        ("evaluation", "", r"\b[Ee]valuating (?:iter|on) \d+"),
        ("evaluation", "", r"\bevaluate \.+: \([\d.]{1,20}, (?P<ms>\d{1,12}(?:\.\d{1,9})?)\)"),
        ("evaluation", "ends", r"\bvalidation loss at (?:iteration (?P<step>\d{1,12})|the end of training)"),
        # NeMo and Lightning
        ("evaluation", "", r"\bValidation: iteration \d+/\d+|\bValidation DataLoader \d+:"),
        ("checkpoint", "", r"\bGlobal Checkpoint Save : .{0,120}Save duration: (?P<seconds>\d{1,6}\.\d{1,9})s"),
        ("checkpoint", "ends", r"\bAsync finalization time took (?P<seconds>(?!0\.000)\d{1,6}\.\d{1,9}) s"),
        # torchtitan
        ("start", "begins", r"\bStarting job: "),
        ("resume", "", r"\bTraining starts at step (?P<first>\d{1,12})"),
        ("checkpoint", "begins", r"\bSaving (?:the|a full|a model only) checkpoint\b"),
        ("checkpoint", "ends", r"\bFinished saving the checkpoint\b.{0,60}in *(?P<seconds>\d{1,6}\.\d{1,9}) seconds"),
        ("checkpoint", "ends", r"\bLast step checkpoint completed in (?P<seconds>\d{1,6}\.\d{1,9})s"),
        ("evaluation", "ends", r"\bvalidate step: +(?P<step>\d{1,12})\b"),
        # Hugging Face's Trainer
        ("start", "begins", r"\*{5} Running training \*{5}"),
        ("resume", "", r"\bContinuing training from global step (?P<step>\d{1,12})"),
        ("evaluation", "begins", r"\*{5} Running Evaluation \*{5}"),
        ("evaluation", "ends", r"'eval_runtime': '?(?P<seconds>\d{1,9}(?:\.\d{1,9})?)"),
        # DeepSpeed, LitGPT, OLMo, MaxText
        ("evaluation", "begins", r"\*{5} Evaluating \w+, Epoch|\bValidating \.\.\.|\bRunning evaluation for "),
        ("evaluation", "ends", r"\bval(?:idation)? time: (?P<ms>\d{1,9}(?:\.\d{1,9})?) ?ms"),
        ("evaluation", "ends", r"\beval metrics after step: (?P<step>\d{1,12})"),
        ("checkpoint", "begins", r"\bSaving (?:model )?checkpoint\b|\bCheckpoint \S+ is about to be saved"),
        ("checkpoint", "ends", r"\bCheckpoint saved to\b|\bsaved a checkpoint at step \d|\bcheckpoint saved \S"),
        # nanoGPT, nanochat, build-nanogpt, llm.c
        (
            "evaluation",
            "ends",
            r"\b[Ss]tep (?P<step>\d{1,12}):? (?:train loss [-+.\w]{1,30}, val loss|\| Validation bpb)\b",
        ),
        ("evaluation", "ends", r"^(?:.{0,60}\s)?(?:val|validation) loss:? +[-+.\w]{1,30}\s*$"),
        ("checkpoint", "begins", r"\bsaving checkpoint to \S|\bSaved model parameters to: "),
        # torchtitan's profiler
        ("profile", "", r"\b(?:D|Finished d)umping (?:profiler traces|memory snapshot)\b"),
    )
)  # fmt: skip
"""All kinds of event lines, by the framework that prints them; the first row that fits a line
counts.
"""

_SIGNS = (
    "heckpoint", "alidat", "valuat", "eval_runtime", "eval metrics", "val time", "Starting job", "arguments --",
    "using world size", "initialize megatron", "Running training", "raining starts at", "raining from global",
    "finalization time", "val loss", "umping ", "model parameters",
)  # fmt: skip
"""A line without any of these is no event."""

SIGNS = (*_SIGNS, *hints.SIGNS)
"""A line without any of these is neither an event nor one of hints.LINES."""

RAW_SIGNS = tuple(sign.encode() for sign in SIGNS)

STAMPED_WITHIN = 100
"""Characters of a line in which its own time stands; a later time may be part of its message."""

BEFORE_START = 0.1
"""A silence right before a start counts as the time without a process if it is longer than this
share of the longest silence.
"""

LONGEST_LINE = 2_000


class Mark(NamedTuple):
    """A line of an event.

    Attributes:
        kind, phase: those of its EventLine.
        at: its time; a start or started line without one has the next time in the log.
        seconds: duration of the event as stated, s.
        step: last step before the event.
        first: for a start, the first time since the last record.
        silence: for a start, begin and end of the longest time without a line before it.
    """

    kind: str
    phase: str
    line: int
    at: Moment | None = None
    seconds: float | None = None
    step: int | None = None
    first: Moment | None = None
    silence: tuple[Moment, Moment] | None = None


@functools.lru_cache(maxsize=4)
def event_in(text: str) -> tuple[Moment | None, Mark | None]:
    """Return the time of a line and the event that it reports. Cached, since many readers ask for
    the same line one after the other.
    """
    begin = text[:STAMPED_WITHIN]
    # Every time of our days has these digits, and looking for them is quick.
    stamp = last_stamp(begin) if "20" in begin else None
    at = (stamp.seconds, stamp.time.tzinfo is not None) if stamp else None
    if not has_sign(text, _SIGNS):
        return at, None
    for row in EVENT_LINES:
        if match := row.pattern.search(text[:LONGEST_LINE]):
            stated = {name: float(value) for name, value in match.groupdict().items() if value}
            step = stated.get("step")
            if step is None and "first" in stated:
                step = stated["first"] - 1
            seconds = stated["ms"] / 1e3 if "ms" in stated else stated.get("seconds")
            return at, Mark(
                row.kind, row.phase, 0, at, seconds, None if step is None else int(step)
            )
    return at, None


def has_sign(text: AnyStr, signs: Sequence[AnyStr]) -> bool:
    """Return whether a text has one of the signs; any() would take three times as long."""
    for sign in signs:  # noqa: SIM110
        if sign in text:
            return True
    return False


@dataclasses.dataclass(slots=True)
class Events:
    """The events of a stretch of a log, and its first and last time.

    Attributes:
        silence: begin and end of the longest time without a line since the last start.
        stamps: of each stretch between two records, the first and the last line with a time, and
            these times.
    """

    marks: list[Mark] = dataclasses.field(default_factory=list)
    first: Moment | None = None
    last: Moment | None = None
    silence: tuple[Moment, Moment] | None = None
    stamps: list[tuple[int, Moment]] = dataclasses.field(default_factory=list)
    _open: tuple[int, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether no line has said anything."""
        return self.first is None and not self.marks and not self.stamps

    def feed(self, line: int, text: str) -> None:
        """Read a line that isn't one of a step."""
        at, mark = event_in(text)
        if mark is not None:
            if mark.kind in ("start", "started"):
                self._open += (len(self.marks),)
            self.marks.append(mark._replace(line=line))
        if at is not None:
            self._see(at)
            self.stamps[1:] = [(line, at)]

    def restart(self, line: int) -> None:
        """Note that a process has started in this stretch, though no line says so."""
        if not any(mark.kind == "start" for mark in self.marks):
            self._open += (len(self.marks),)
            self.marks.append(Mark("start", "begins", line))
            self._close()

    def absorb(self, later: Events) -> None:
        """Add a later stretch."""
        self.absorb_marks(later)
        self.first = self.first or later.first
        self.last = later.last or self.last

    def absorb_marks(self, later: Events) -> None:
        """Add a later stretch, of which only the lines with events may have been read."""
        later._close()
        self.marks += later.marks
        self.stamps += later.stamps

    def _see(self, at: Moment) -> None:
        if self.last is not None and self.last[1] is at[1]:
            longest = self.silence[1][0] - self.silence[0][0] if self.silence else 0.0
            # If the longest silence took 100 s, one of 11 s right at a start replaces it, and one of
            # 9 s doesn't.
            if self._open:
                longest *= BEFORE_START
            if at[0] - self.last[0] > longest:
                self.silence = (self.last, at)
        self.first = self.first or at
        self.last = at
        self._close(at)

    def _close(self, at: Moment | None = None) -> None:
        """Complete the marks of starts with their time, and the first time and the silence before
        them.
        """
        for index in self._open:
            mark = self.marks[index]
            self.marks[index] = mark._replace(
                at=mark.at or at, first=self.first, silence=self.silence
            )
        if self._open:
            self._open = ()
            self.silence = None
