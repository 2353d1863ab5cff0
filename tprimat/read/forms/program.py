"""A program whose logs are read by a row, and what reads them.

A row says how a program's lines are known and what its labels mean (programs.py). Its layout says
where labels and values stand: in a line with the step, in an object of JSON, in a block below a
header, or anywhere in a line. What no field of a row can say is a function of its own, which the
row names (quirks.py).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tprimat.catalog import meanings
from tprimat.read.forms.clocks import PRINTED, Timed
from tprimat.read.forms.fields import Field, Outline, Piece, Pieces
from tprimat.read.forms.mining import Form
from tprimat.read.forms.reader import FormReader
from tprimat.read.parsing.records import LoggedTraining, Record
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.step_lines import (
    LONGEST_METRIC,
    BlockReader,
    ElapsedReader,
    Place,
    StepReader,
)
from tprimat.read.parsing.text import Line, Stamp
from tprimat.read.parsing.values import count, number, state, summary_values, whole

TORN = "?"
"""Stands for a torn number; what is glued to it is a part of it."""

_OF_FORMS = ("read-by-form", "form-few-steps")
"""Notes on lines whose program is unknown."""

LONGEST = 20_000
"""Characters of a line with the values of a step."""

Printed = Mapping[str, Any]
"""Printed values by their labels."""

_NEVER = re.compile(r"(?!)")


def _nothing(*_: Any) -> None:
    """Do nothing: what a row has for a quirk that its program lacks."""


class ProgramReader(StepReader):
    """A parsed_log.Reader of the logs of a program. A row sets what its class has.

    Attributes:
        example: lines as the program prints them.
        rate: as StepReader's.
        window: 1 if a record is of a single step, not a mean since the one before.
        ends: what a line has that says that the training is over.
        of_training: values of the whole training, as named groups.
        rewards: labels of which a record of reinforcement learning has one: its loss isn't that of
            a language model.
    """

    example = ""
    rate = None
    window: int | None = None
    ends = _NEVER
    of_training = _NEVER
    rewards: frozenset[str] = frozenset()

    def completes(self, record: Record, printed: Printed) -> None:
        """Set what the printed values of a record, by their labels, say besides."""

    def finishes(self, run: RunBuilder) -> None:
        """Set what the records of a training say together."""

    def other(self, line: Line) -> None:
        """Read what ends the training, and what is said of all of it."""
        if self.ends.search(line.text):
            self.sorter.pending.marks.setdefault("success", line.number)
        found = self.of_training.search(line.text)
        for name, printed in found.groupdict().items() if found else ():
            if printed and name.startswith("peak_"):
                self.memory |= summary_values({name: number(printed)})
            elif printed:
                self.figures[name] = number(printed)
        super().other(line)

    def new_record(
        self, step: int, line: int, printed: Printed, stamp: Stamp | None = None
    ) -> Record:
        """Return the record of printed values."""
        record = super().new_record(step, line, printed, stamp)
        record.window = self.window
        if self.rewards & printed.keys():
            record.set_policy_loss()
        self.completes(record, printed)
        return record

    def done(self, run: RunBuilder) -> None:
        """Complete what makes the Run of a training when the log is over."""
        self.finishes(run)
        if self.window is None:
            super().done(run)


def program(layout: type[ProgramReader], name: str, **row: Any) -> type[ProgramReader]:
    """Return the reader of the logs of a program, whose row is what a layout's class may have."""
    return type(name, (layout,), {"name": name, **row})


class Lines(ProgramReader):
    """Reads a line per step, with all its values.

    Attributes:
        header: a whole line; its groups are the step, and the text with the values.
        value: a value in that text; its groups are label and value.
        is_whole: whether a line that is cut off is no step.
    """

    header: re.Pattern[str]
    value: re.Pattern[str]
    is_whole = False

    def take(self, line: Line) -> bool:
        """Read a step."""
        header = self.header.search(line.text[:LONGEST])
        if header is None or (self.is_whole and not line.whole):
            return False
        printed = dict(self.value.findall(header[2]))
        if self.needs and not self.counts(printed):
            return False
        self.sorter.take(self.new_record(int(header[1]), line.number, printed))
        return True


class MicroBatches(ProgramReader):
    """Reads a line per micro-batch, of which one ends a step: its time is the sum of theirs, its
    loss the one printed with it.

    Attributes:
        header: a line; its groups are iteration, step, loss, milliseconds and, if a step ends, end.
    """

    header: re.Pattern[str]

    def __init__(self) -> None:
        super().__init__()
        self._times: dict[int, float | None] = {}
        self._last = 0
        self._count = 0
        self._is_incomplete = False

    def take(self, line: Line) -> bool:
        """Read a micro-batch."""
        match = self.header.search(line.text)
        if match is None or not (line.whole or match["end"]):
            return False
        iteration = int(match["iteration"])
        if iteration <= self._last:
            self._begin()
        elif self._last and iteration > self._last + 1:
            # Only every so many iterations is logged, or a line is torn: the sum would be of other
            # iterations.
            self._is_incomplete = True
        self._last = iteration
        self._count += 1
        self._times[iteration] = number(match["milliseconds"])
        if match["end"] and int(match["step"]) > 0:
            self.sorter.take(self._record(match, line.number))
            self._begin()
        return True

    def _begin(self) -> None:
        self._times = {}
        self._is_incomplete = False

    def _record(self, match: re.Match[str], line: int) -> Record:
        times = [time for time in self._times.values() if time is not None]
        begins_late = not self.sorter.trainings and next(iter(self._times)) != 1
        record = self.new_record(int(match["step"]), line, {})
        if len(times) == len(self._times) and not self._is_incomplete and not begins_late:
            record.put("milliseconds", round(sum(times), 6))
            record.put("iterations", len(times))
        record.put("loss", match["loss"])
        record.put("iteration_milliseconds", times[-1] if times else None)
        return record

    def done(self, run: RunBuilder) -> None:
        """Note what a record is."""
        count = f"{self._count} iterations (micro-batches)"
        self.notes = [f"{count} form {len(run.training.records)} optimizer steps"]


class Labels(ProgramReader, FormReader):
    """Reads a line per step whose numbers all have labels. The clocks of the lines decide what the
    printed times are.

    Attributes:
        names: of labels that catalog/meanings doesn't know, or takes for something else. `step` is
            the number that counts the steps; a time is in its unit unless the line has one.
        epoch: label of the number of an epoch, in which steps count from 1.
    """

    epoch = ""

    def __init__(self) -> None:
        super().__init__(Form(counter=meanings.STEP, is_stated=True))
        self._pieces = _NamedPieces(self.names, self.epoch)

    def feed(self, line: Line) -> None:
        """Take the next line."""
        StepReader.feed(self, line)

    def take(self, line: Line) -> bool:
        """Read a step."""
        if not self.form.example[0]:
            self.form = dataclasses.replace(self.form, example=(line.number, line.text))
        return super().take(line)

    def _step(self, counter: Field | None, piece: Piece, values: Mapping[str, float]) -> int | None:
        """Return the step of a line, of all epochs."""
        epoch = piece.outline.field(meanings.normalized(self.epoch))
        if counter is None or counter.total is None or epoch is None:
            return super()._step(counter, piece, values)
        places = (counter.place, counter.total, epoch.place)
        step, steps, number = (count(piece.printed[place]) for place in places)
        if step is None or steps is None or number is None:
            return None
        epochs = count(piece.printed[epoch.total]) if epoch.total else None
        planned = epochs and epochs * steps
        state(self.stated, "max_steps", planned, piece.text, self.form.example[0])
        return step + (number - 1) * steps

    def times(self, training: LoggedTraining) -> Timed:
        """Return the times of the steps: the printed ones, else by all clocks."""
        printed = [_printed_time(record) for record in training.ordered()]
        return Timed(printed, "seconds") if any(printed) else super().times(training)

    def done(self, run: RunBuilder) -> None:
        """Set the step times, and what the row says of them."""
        super().done(run)
        run.framework = run.log_format = self.name
        run.remarks = [note for note in run.remarks if note.code not in _OF_FORMS]
        if self.timed[-1].kind not in ("stamp", "elapsed_seconds"):
            run.timing = self.timing


def _printed_time(record: Record) -> float | None:
    """Return the printed time of a step. That of an interval of 4.0 s at 2.5 steps/s is of ten."""
    interval = record.native.get("interval_seconds", 0.0)
    steps = round(interval * record.native.get("steps_per_second", 0.0))
    return interval / steps if steps else record.native.get(PRINTED)


class _NamedPieces(Pieces):
    """Takes lines whose labels have the names of a row."""

    def __init__(self, names: Mapping[str, str], epoch: str) -> None:
        super().__init__()
        self._names = {meanings.normalized(label): kind for label, kind in names.items()}
        self._epoch = meanings.normalized(epoch)
        self._known: dict[Outline, Outline] = {}

    def of(self, text: str) -> Iterator[Piece]:
        """Yield the parts of a line that may be of a step."""
        for piece in super().of(text):
            named = self._known.get(piece.outline)
            if named is None:
                named = self._known[piece.outline] = self._named(piece.outline)
            yield dataclasses.replace(piece, outline=named)

    def _named(self, outline: Outline) -> Outline:
        fields: list[Field] = []
        for field in outline.fields:
            if TORN in field.label:
                continue
            kind = self._names.get(field.key)
            # The 10/196 behind the epoch of `Epoch [1][10/196]` has no label.
            is_behind_epoch = self._epoch and fields and fields[-1].key == self._epoch
            if is_behind_epoch and field.total is not None and not field.label:
                kind = meanings.STEP
            fields.append(field if kind is None else _of_kind(field, kind))
        return dataclasses.replace(outline, fields=tuple(fields))


def _of_kind(field: Field, kind: str) -> Field:
    """Return a number of which a row says what it is."""
    if kind == meanings.STEP:
        return dataclasses.replace(field, kind=kind, label=kind)
    if kind in (meanings.TIME, "milliseconds"):
        unit, _, _ = meanings.unit_of("s/step" if kind == meanings.TIME else "ms/step")
        if unit is not None and field.unit is not None:
            unit = unit._replace(factor=field.unit.factor)
        return dataclasses.replace(field, kind=meanings.TIME, unit=unit)
    # 150.2T are TFLOP/s.
    factor = "1" if kind == "tflops_per_gpu" else field.factor
    return dataclasses.replace(field, kind=kind, factor=factor)


class Entries(ProgramReader, ElapsedReader):
    """Reads an object of JSON per record, with the time since the start.

    Attributes:
        counter: label of the step.
        planned: label of the planned ones.
    """

    counter = planned = ""

    def place(self, entry: Printed) -> Place:
        """Return the step of an entry and the planned ones."""
        return whole(entry.get(self.counter)), count(entry.get(self.planned))


class Blocks(ProgramReader, BlockReader):
    """Reads a header per step, and the lines with its values below it.

    Attributes:
        epoch: the header of an epoch, which counts its steps from 1; its groups are its number and
            that of all epochs.
        is_indented: whether values are indented, below a header with a time.
        counted: label of the number of steps before a block's, whose header may be missing.
    """

    epoch = _NEVER
    is_indented = False
    counted = ""
    _epoch = _epochs = 1

    def take(self, line: Line) -> bool:
        """Read the header of an epoch or a step, or a value."""
        if epoch := self.epoch.search(line.text[:LONGEST_METRIC]):
            self.close()
            self._epoch, self._epochs = int(epoch[1]), int(epoch[2])
            return True
        taken = super().take(line)
        if taken and self.is_indented:
            self.sorter.pending.feed(line.number, line.text)
        return taken

    def place(self, header: re.Match[str]) -> Place:
        """Return the step of a header, of all epochs, and the planned ones."""
        step, planned = super().place(header)
        if step and planned and self._epochs > 1:
            return step + max(self._epoch - 1, 0) * planned, None
        return step, planned

    def kept(self, name: str, value: str, line: Line) -> str | None:
        """Return a value of the block that belongs to its record; None for others."""
        return value

    def put(self, name: str, value: str, line: Line) -> None:
        """Add a value to the open block."""
        kept = self.kept(name, value, line)
        if kept is not None:
            super().put(name, kept, line)

    def other(self, line: Line) -> None:
        """End the block where the training ends, and at a line that isn't indented as its values."""
        if self.ends.search(line.text):
            self.close()
        super().other(line)
        if self.is_indented and line.text.strip() and line.text[0] not in " \t":
            self.within = False

    def step_within(self, block: dict[str, str]) -> int | None:
        """Return the step of a block whose header is missing."""
        before = number(block.get(self.counted))
        if before is not None and 0 <= before < 2**53:
            return int(before) + 1
        return None
