"""Base of readers of formats with a line, or a block of lines, per step."""

from __future__ import annotations

from tprimat.read.parsing.options import options_in
from tprimat.read.parsing.parsed_log import LoggedValues, ParsedLog
from tprimat.read.parsing.records import LoggedTraining, Record
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.sequencer import RecordSequencer
from tprimat.read.parsing.text import Line
from tprimat.results.run import Timing


class RecordReader:
    """A parsed_log.Reader of a log whose lines become records: a log format has feed() and builder()."""

    name = ""
    looks_for = ""

    def __init__(self) -> None:
        self.sorter = RecordSequencer()

    @property
    def recognised(self) -> bool:
        """Whether a record was seen."""
        return bool(self.sorter.trainings)

    def feed(self, line: Line) -> None:
        """Take the next line."""
        raise NotImplementedError

    def builder(self, training: LoggedTraining) -> RunBuilder:
        """Return what makes the Run of a training whose log is over."""
        raise NotImplementedError

    def finish(self) -> list[ParsedLog]:
        """Return the trainings, in the order of the log."""
        return [self.builder(training).reading() for training in self.sorter.finish()]


class StepReader(RecordReader):
    """A reader of a log format that says only what its lines look like.

    It sets the class's attributes and overrides take(), and whatever else differs.
    """

    timing = Timing()
    shift = 0
    rate: str | None = "tokens_per_second_per_gpu"
    signs: tuple[str, ...] = ()
    """A line without any of these holds no figures."""

    def __init__(self) -> None:
        super().__init__()
        self.figures: dict[str, float | None] = {}
        self.memory: dict[str, float] = {}
        self.unknown: dict[str, str] = {}
        self.notes: list[str] = []
        self.ended: bool | None = None

    @property
    def stated(self) -> LoggedValues:
        """Of the stretch that is being read."""
        return self.sorter.pending.stated

    def feed(self, line: Line) -> None:
        """Take the next line."""
        text = line.text
        for sign in self.signs:
            if sign in text:
                if self.take(line):
                    return
                break
        self.other(line)
        pending = self.sorter.pending
        pending.feed(line.number, text)
        options_in(text, line.number, pending.stated, bare=False)

    def take(self, line: Line) -> bool:
        """Read a line that may hold metrics; return False where it holds none."""
        raise NotImplementedError

    def other(self, line: Line) -> None:
        """Read a line without metrics of a step."""

    def done(self, training: LoggedTraining) -> None:
        """Complete a training when the log is over."""

    def add(self, record: Record) -> None:
        """Pass on a record."""
        self.sorter.take(record)

    def builder(self, training: LoggedTraining) -> RunBuilder:
        """Return what makes the Run of a training whose log is over."""
        self.done(training)
        last = training is self.sorter.trainings[-1]
        return RunBuilder(
            self.name,
            self.name,
            training,
            self.timing,
            shift=self.shift,
            rate=self.rate,
            figures=self.figures if last else {},
            memory=self.memory if last else {},
            unknown=dict(self.unknown),
            ended=self.ended if last else None,
            notes=tuple(self.notes) if last else (),
        )
