"""Base of readers of formats with a line, or a block of lines, per step."""

from __future__ import annotations

import abc
import re
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from tprimat.notes import Note
from tprimat.read.parsing.events import Mark
from tprimat.read.parsing.failures import FailureReasons
from tprimat.read.parsing.options import ECHOES, options_in
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.records import LoggedTraining, Record, peaks, set_times, set_windows
from tprimat.read.parsing.remarks import no_step_times
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.sequencer import RecordSequencer
from tprimat.read.parsing.text import Line, Stamp, first_stamp
from tprimat.read.parsing.torn import TornLines
from tprimat.read.parsing.values import (
    LoggedValues,
    Statement,
    count,
    digits,
    duration,
    number,
    object_at,
    read_statements,
    state,
)
from tprimat.results.account import Timing
from tprimat.results.fields import Figures

Place = tuple[int | None, int | None]
"""A step, and the number of all steps, as far as they are known."""


class StepReader(abc.ABC):
    """A parsed_log.Reader of a log format that says only what its lines look like.

    It sets the class's attributes and overrides take(), and whatever else differs.

    Attributes:
        name, timing, rate, run_type: as RunBuilder's, and the class of that.
        signs: a line without any of these holds no values.
        other_signs: of lines that say something before the first record, beside those of
            `statements`.
        names: of printed values, by what they are called in a record, as Record.put_all() takes
            them.
        warns_of_unread: whether a value that `names` lacks is worth a warning.
        needs: how names begin of which the values of a training step have one.
        statements: what other lines state.
        untimed: why there are no step times, if there are none.
        peaks: fields of MemoryMetrics, by the native values of which they are the highest.
        figures, memory, notes: what a log states once, as RunBuilder's; it belongs to the last
            training.
        parts: seconds of the parts of each step; of the last training, too.
        has_own_lines: whether lines show a training of this format, so that there is one even
            without a record.
    """

    name = ""
    timing = Timing()
    rate: str | None = "tokens_per_second_per_gpu"
    run_type: type[RunBuilder] = RunBuilder
    signs: tuple[str, ...] = ()
    other_signs: tuple[str, ...] = ()
    names: Mapping[str, str] = {}
    warns_of_unread = True
    needs: tuple[str, ...] = ()
    statements: tuple[Statement, ...] = ()
    untimed = ""
    peaks: Mapping[str, str] = {
        "memory_max_allocated_gb": "peak_memory_allocated_gb",
        "memory_max_reserved_gb": "peak_memory_reserved_gb",
    }

    def __init__(self) -> None:
        self.sorter = RecordSequencer()
        self.torn = TornLines()
        self.figures: Figures = {}
        self.memory: dict[str, float] = {}
        self.notes: list[str] = []
        self.parts: dict[str, list[float]] = {}
        self.has_own_lines = False

    @property
    def recognized(self) -> bool:
        """Whether a record was seen."""
        return bool(self.sorter.trainings)

    @property
    def has_steps(self) -> bool:
        """Whether a step was found."""
        return bool(self.sorter.trainings)

    @property
    def all_signs(self) -> tuple[str, ...]:
        """As Reader's. A sign of a character or two is one within a block alone, and options echo
        as `--name`.
        """
        long = (sign for sign in self.signs if len(sign) > 2)
        return (*long, *(row.sign for row in self.statements), *self.other_signs, *ECHOES)

    @property
    def stated(self) -> LoggedValues:
        """Statements of the stretch that is being read."""
        return self.sorter.pending.stated

    def feed(self, line: Line) -> bool:
        """Take the next line; return whether it holds metrics."""
        for sign in self.signs:
            if sign in line.text:
                if self.torn.read(line, self.take):
                    return True
                break
        self.other(line)
        return False

    @abc.abstractmethod
    def take(self, line: Line) -> bool:
        """Read a line that may hold metrics; return False if it holds none."""

    def other(self, line: Line) -> None:
        """Read a line without metrics of a step."""
        pending = self.sorter.pending
        read_statements(self.statements, line.text[:LONGEST_STATEMENT], line.number, pending.stated)
        pending.feed(line.number, line.text)
        options_in(line.text, line.number, pending.stated, bare=False)

    def hear(self, line: Line) -> None:
        """Read what happens around the records; before the first one, times and events alone."""
        around = self.sorter.pending
        (around if self.recognized else around.events).feed(line.number, line.text)
        around.first_stamp = around.first_stamp or first_stamp(line.text[:400])

    def cut_off(self, step: int, line: Line) -> bool:
        """Return whether the file ends in a line without values, which is of a step then."""
        if not line.whole:
            self.sorter.cut_off = step
        return not line.whole

    def counts(self, printed: Iterable[str]) -> bool:
        """Return whether values with these names are of training steps."""
        return any(name.startswith(self.needs) for name in printed)

    def new_record(
        self, step: int, line: int, printed: Mapping[str, object], stamp: Stamp | None = None
    ) -> Record:
        """Return the record of printed values."""
        record = Record(step, line, stamp=stamp)
        record.put_all(printed, self.names)
        if not self.warns_of_unread:
            record.unread = ()
        return record

    def add_part(self, name: str, printed: object) -> None:
        """Add the time of a part of a step, s."""
        if (seconds := number(printed)) is not None:
            self.parts.setdefault(name, []).append(seconds)

    def finish(self) -> list[ParsedLog]:
        """Return the runs, in the order of the log."""
        trainings = self.sorter.finish()
        if not trainings and self.has_own_lines:
            trainings.append(LoggedTraining(around=self.sorter.pending))
        return [self.parsed(training, is_last=training is trainings[-1]) for training in trainings]

    def parsed(self, training: LoggedTraining, *, is_last: bool = True) -> ParsedLog:
        """Return a training whose log is over."""
        shift = 1 if 0 in training.records else 0
        run = self.run_type(
            self.name, self.name, training, self.timing, shift=shift, rate=self.rate
        )
        run.memory = peaks(training.ordered(), self.peaks)
        if self.untimed:
            run.unknown["step_times"] = no_step_times(self.untimed)
        if is_last:
            run.breakdown = {name: statistics.fmean(values) for name, values in self.parts.items()}
        self.done(run)
        if is_last:
            run.figures |= self.figures
            run.notes += tuple(self.notes)
            run.memory |= self.memory
        return run.reading()

    def done(self, run: RunBuilder) -> None:
        """Complete what makes the Run of a training when the log is over; by itself it sets
        windows.
        """
        set_windows(run.training.ordered())


LONGEST_STATEMENT = 2_000
"""Characters of a line in which something may be stated."""


class ElapsedReader(StepReader):
    """A reader of JSON objects, one a line, with the time since the start in whole seconds as
    `elapsed_time`.
    """

    rate = None
    _is_coarse = False

    @abc.abstractmethod
    def place(self, entry: Mapping[str, Any]) -> Place:
        """Return the step of an entry and the planned ones, None for what it doesn't state."""

    def exactly(self, entry: Mapping[str, Any], step: int, seconds: float) -> float | None:
        """Return the time since the start with decimals, if the entry has one that agrees with the
        whole seconds.
        """
        return None

    def take(self, line: Line) -> bool:
        """Read an entry."""
        entry = object_at(line.text, line.text.find("{")) or {}
        step, planned = self.place(entry)
        if not step:
            return False
        state(self.stated, "max_steps", planned, line.text[:300], line.number)
        # Others are evaluations, or the summary at the end.
        if "eval_loss" in entry:
            spent = number(entry.get("eval_runtime"))
            self.sorter.pending.events.marks.append(
                Mark("evaluation", "ends", line.number, seconds=spent)
            )
        if "loss" in entry:
            record = self.new_record(step, line.number, entry)
            if (seconds := duration(str(entry.get("elapsed_time", "")))) is not None:
                exact = self.exactly(entry, step, seconds)
                self._is_coarse = self._is_coarse or exact is None
                record.put("elapsed_seconds", seconds if exact is None else exact)
            self.sorter.take(record)
        elif planned and step >= planned:
            self.sorter.pending.marks["success"] = line.number
        return True

    def done(self, run: RunBuilder) -> None:
        """Set the step times."""
        if run.training.records:
            set_times(run.training.ordered(), in_whole_seconds=self._is_coarse)
        if run.training.records and self._is_coarse:
            run.training.warnings.append(Note("times-in-whole-seconds"))


LEAST_DIGITS = 3
"""Significant digits that a rate needs to be converted to a time: 0.0027 batches/s are 364 to 377
s.
"""

LONGEST_METRIC = 400
"""Characters of a line of a block that are looked at."""


class BlockReader(StepReader):
    """Collects the metrics of a block; the next header, or the end of the log, closes it.

    Attributes:
        header: the line that opens a block, with the step and the planned steps, if they are there,
            as its groups.
        metric: a line of a block, with name and value as its groups.
        headless: whether metrics count whose header is missing.
        rates: metrics that are batches per second.
        caveat: the code of a note if step times come from these; `untimed` is of too few digits.
    """

    header: re.Pattern[str]
    metric: re.Pattern[str]
    headless = False
    rates: tuple[str, ...] = ()
    caveat: str | None = None

    def __init__(self) -> None:
        super().__init__()
        self.within = False
        self._coarse = False
        self.block: dict[str, str] = {}
        self._step: int | None = None
        self._line = 0
        self._headless = 0
        self._causes = FailureReasons()

    def take(self, line: Line) -> bool:
        """Read a header, a metric, or both on one line."""
        text = line.text[:LONGEST_METRIC]
        header = self.header.search(text)
        step, planned = self.place(header) if header else (None, None)
        if header and step:
            state(self.stated, "max_steps", planned, text, line.number)
            self.begin(step, line.number)
            self.within = True
            text = text[header.end() :]
        if metric := self.metric.search(text) if self.within or self.headless else None:
            self.put(metric[1].strip(), metric[2], line)
        return bool(step or metric)

    def place(self, header: re.Match[str]) -> Place:
        """Return the step of a header and the planned ones, None for what it doesn't state."""
        return count(header[1]), count(header[2])

    def begin(self, step: int | None, line: int) -> None:
        """Open the block of a step, None if its header is missing."""
        self.close()
        self._step = step
        self._line = line
        # What fails from here on comes after the step, though its record is made when the block
        # ends.
        pending = self.sorter.pending
        self._causes, pending.causes = pending.causes, FailureReasons()

    def put(self, name: str, value: str, line: Line) -> None:
        """Add a metric to the open block; a repeated name opens another one, whose header is
        lost.
        """
        if name in self.block:
            self.begin(None, line.number)
        if not self.block and self._step is None:
            self._line = line.number
        self.block[name] = value

    def close(self) -> None:
        """Make a record of the open block."""
        block = self.block
        self.block = {}
        step = self._step
        self._step = None
        if not block or not self.counts(block):
            pending = self.sorter.pending
            if pending.causes.cause() is None:
                pending.causes = self._causes
            return
        if step is None:
            step = self.step_within(block)
        if step is None:
            self._headless += 1
            step = (self.sorter.last.step if self.sorter.last else 0) + 1
        pending = self.sorter.pending
        later = pending.causes
        pending.causes = self._causes
        self.sorter.take(self.record(step, self._line, block))
        self.sorter.pending.causes = later

    def step_within(self, block: dict[str, str]) -> int | None:
        """Return the step of a block whose header is missing, if a metric tells it."""
        return None

    def record(self, step: int, line: int, block: dict[str, str]) -> Record:
        """Return the record of a block, with a step time if its rate has digits enough."""
        record = self.new_record(step, line, block)
        record.unread = tuple(name for name in record.unread if name not in self.rates)
        for name in self.rates:
            rate = number(block.get(name))
            if rate is not None and rate > 0:
                record.put("batches_per_second", rate)
                if digits(block[name]) >= LEAST_DIGITS:
                    record.put("seconds", 1 / rate)
                else:
                    self._coarse = True
        return record

    def finish(self) -> list[ParsedLog]:
        """Return the runs, in the order of the log."""
        self.close()
        return super().finish()

    def done(self, run: RunBuilder) -> None:
        """Note missing headers, set windows, and say what the times are."""
        records = run.training.ordered()
        if self._headless:
            run.training.warnings.append(Note("records-numbered", {"count": self._headless}))
        super().done(run)
        if self.caveat and any(record.seconds for record in records):
            run.training.warnings.append(Note(self.caveat))
        if self.rates and not self._coarse:
            run.unknown.pop("step_times", None)
