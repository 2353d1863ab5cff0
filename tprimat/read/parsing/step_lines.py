"""Base of readers of formats with a line, or a block of lines, per step."""

from __future__ import annotations

import abc
import re
from collections.abc import Callable, Mapping

from tprimat.read.parsing.options import options_in
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.records import LONGEST_SETUP, LoggedTraining, Record, peaks, set_times, set_windows
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.sequencer import RecordSequencer
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.torn import TornLines
from tprimat.read.parsing.values import LoggedValues, digits, number
from tprimat.results.account import Timing


class RecordReader(abc.ABC):
    """A parsed_log.Reader of a log whose lines become records: a log format has feed() and builder()."""

    name = ""

    def __init__(self) -> None:
        self.sorter = RecordSequencer()
        self.has_own_lines = False
        """Whether lines show a training of this format, so that there is one even without a record."""
        self.torn = TornLines()
        self._lines = 0

    @property
    def recognised(self) -> bool:
        """Whether a record was seen."""
        return bool(self.sorter.trainings)

    @abc.abstractmethod
    def feed(self, line: Line) -> None:
        """Take the next line."""

    def may_state(self) -> bool:
        """Count a line without a record, and return whether a setup is looked for in it."""
        self._lines += 1
        return self.recognised or self._lines <= LONGEST_SETUP

    @abc.abstractmethod
    def builder(self, training: LoggedTraining) -> RunBuilder:
        """Return what makes the Run of a training whose log is over."""

    def finish(self) -> list[ParsedLog]:
        """Return the trainings, in the order of the log."""
        trainings = self.sorter.finish()
        if not trainings and self.has_own_lines:
            trainings.append(LoggedTraining(around=self.sorter.pending))
        return [self.builder(training).reading() for training in trainings]


class StepReader(RecordReader):
    """A reader of a log format that says only what its lines look like.

    It sets the class's attributes and overrides take(), and whatever else differs.
    """

    timing = Timing()
    rate: str | None = "tokens_per_second_per_gpu"
    signs: tuple[str, ...] = ()
    """A line without any of these holds no values."""

    def __init__(self) -> None:
        super().__init__()
        # What a log states once belongs to its last training.
        self.figures: dict[str, float | None] = {}
        self.memory: dict[str, float] = {}
        self.notes: list[str] = []

    @property
    def stated(self) -> LoggedValues:
        """Statements of the stretch that is being read."""
        return self.sorter.pending.stated

    def feed(self, line: Line) -> None:
        """Take the next line."""
        text = line.text
        for sign in self.signs:
            if sign in text:
                if self.torn.read(line, self.take):
                    return
                break
        self.other(line)
        pending = self.sorter.pending
        pending.feed(line.number, text)
        options_in(text, line.number, pending.stated, bare=False)

    @abc.abstractmethod
    def take(self, line: Line) -> bool:
        """Read a line that may hold metrics; return False where it holds none."""

    def other(self, line: Line) -> None:
        """Read a line without metrics of a step."""

    def done(self, run: RunBuilder) -> None:
        """Complete what makes the Run of a training when the log is over."""

    def builder(self, training: LoggedTraining) -> RunBuilder:
        """Return what makes the Run of a training whose log is over."""
        shift = 1 if 0 in training.records else 0
        run = RunBuilder(self.name, self.name, training, self.timing, shift=shift, rate=self.rate)
        run.memory = peaks(
            training.ordered(),
            memory_max_allocated_gb="peak_memory_allocated_gb",
            memory_max_reserved_gb="peak_memory_reserved_gb",
        )
        self.done(run)
        if training is self.sorter.trainings[-1]:
            run.figures, run.notes = self.figures, tuple(self.notes)
            run.memory |= self.memory
        return run


class ElapsedReader(StepReader):
    """A reader whose records have the time since the start in whole seconds, as elapsed_seconds."""

    rate = None

    def __init__(self) -> None:
        super().__init__()
        self._is_coarse = False

    def put_elapsed(
        self, record: Record, clock: re.Match[str] | None, exactly: Callable[[float], float | None] = lambda _: None
    ) -> None:
        """Set the time of a record from a match with the groups days, hours, minutes and seconds.

        `exactly` returns a time with decimals that agrees with the whole seconds, if there is one.
        """
        if clock:
            days, hours, minutes, rest = (float(part or 0) for part in clock.groups())
            seconds = ((days * 24 + hours) * 60 + minutes) * 60 + rest
            exact = exactly(seconds)
            self._is_coarse = self._is_coarse or exact is None
            record.put("elapsed_seconds", seconds if exact is None else exact)

    def done(self, run: RunBuilder) -> None:
        """Set the step times."""
        if run.training.records:
            set_times(run.training.ordered())
        if run.training.records and self._is_coarse:
            run.training.warnings.append("step times are differences of elapsed_time, which has whole seconds")


LEAST_DIGITS = 3
"""Significant digits that a rate needs to be converted to a time: 0.0027 batches/s are 364 to 377 s."""


class BlockReader(StepReader):
    """Collects the metrics of a block; the next header, or the end of the log, closes it."""

    names: Mapping[str, str] = {}
    """Metrics of a block by what they are called in a record, as Record.put_all() takes them."""

    rates: tuple[str, ...] = ()
    """Metrics that are batches per second."""

    def __init__(self) -> None:
        super().__init__()
        self.coarse = False
        self._block: dict[str, str] = {}
        self._step: int | None = None
        self._line = 0
        self._headless = 0

    def begin(self, step: int | None, line: int) -> None:
        """Open the block of a step, None if its header is missing."""
        self.close()
        self._step, self._line = step, line

    def put(self, name: str, value: str, line: Line) -> None:
        """Add a metric to the open block; a repeated name opens another one, whose header is lost."""
        if name in self._block:
            self.begin(None, line.number)
        if not self._block and self._step is None:
            self._line = line.number
        self._block[name] = value

    def close(self) -> None:
        """Make a record of the open block."""
        block, self._block = self._block, {}
        step, self._step = self._step, None
        if not block or not self.counts(block):
            return
        if step is None:
            step = self.step_within(block)
        if step is None:
            self._headless += 1
            step = (self.sorter.last.step if self.sorter.last else 0) + 1
        self.sorter.take(self.record(step, self._line, block))

    @abc.abstractmethod
    def counts(self, block: dict[str, str]) -> bool:
        """Return whether a block describes training steps."""

    def step_within(self, block: dict[str, str]) -> int | None:
        """Return the step of a block whose header is missing, where a metric tells it."""
        return None

    def record(self, step: int, line: int, block: dict[str, str]) -> Record:
        """Return the record of a block, with a step time where its rate has digits enough."""
        record = Record(step, line)
        record.put_all(block, {**dict.fromkeys(self.rates, ""), **self.names})
        for name in self.rates:
            rate = number(block.get(name))
            if rate is not None and rate > 0:
                record.put("batches_per_second", rate)
                if digits(block[name]) >= LEAST_DIGITS:
                    record.put("seconds", 1 / rate)
                else:
                    self.coarse = True
        return record

    def finish(self) -> list[ParsedLog]:
        """Return the trainings, in the order of the log."""
        self.close()
        return super().finish()

    def done(self, run: RunBuilder) -> None:
        """Note missing headers, and set windows."""
        if self._headless:
            run.training.warnings.append(f"records without a step number ({self._headless}) are numbered in order")
        set_windows(run.training.ordered())
