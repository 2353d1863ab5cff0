"""The layouts of logs, by which the logs of a program are read with a row for each program.

A row says how the lines of a program are recognized and what its labels mean (programs.py). Its
layout says where labels and values are: in a line with the step, in a JSON object, in a block below
a header, or anywhere in a line. What the attributes of a row can't express is a function that the
row names (quirks.py).
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Mapping
from typing import Any

from tprimat.catalog import meanings
from tprimat.read.forms.fields import Field, Outline, Piece, Pieces, value_of
from tprimat.read.forms.mining import FEWEST
from tprimat.read.forms.reader import NOT_RECORDED, STATED, GpuCount
from tprimat.read.parsing.events import Mark
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.records import Record
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

LINE_FORMS = 256
"""Outlines of lines whose fields are cached."""

MORE_THAN_A_PAGE = 1_000
"""Steps from which on a text is a log, not a page that quotes logs of several programs."""

TORN = "?"
"""Placeholder of a torn number; a label with it is torn, too."""

LONGEST = 20_000
"""Characters of a line in which the values of a step are looked for."""

Printed = Mapping[str, Any]
"""Printed values by their labels."""

_NEVER = re.compile(r"(?!)")


class ProgramReader(StepReader):
    """A parsed_log.Reader of the logs of a program. A row sets the attributes of a subclass.

    Attributes:
        example: lines as the program prints them.
        rate: as StepReader's.
        window: 1 if each record is that of a single step, not a mean since the record before.
        ends: found in a line that says that the training has ended.
        of_training: finds values of the whole training, as named groups.
        rewards: labels that only records of reinforcement learning have: their loss isn't that of
            a language model.
    """

    example = ""
    rate = None
    window: int | None = None
    ends = _NEVER
    of_training = _NEVER
    rewards: frozenset[str] = frozenset()

    def completes(self, record: Record, printed: Printed) -> None:
        """Set further values of a record from its printed values; a row may replace this."""

    def finishes(self, run: RunBuilder) -> None:
        """Set what follows from all records of a training; a row may replace this."""

    def other(self, line: Line) -> None:
        """Read a line without a step: the end of the training, and values of the whole training."""
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
        """Complete the run of a training at the end of the log."""
        self.finishes(run)
        if self.window is None:
            super().done(run)


def program(layout: type[ProgramReader], name: str, **row: Any) -> type[ProgramReader]:
    """Return the reader of a program's logs: a layout with the attributes that the row sets."""
    return type(name, (layout,), {"name": name, **row})


class Lines(ProgramReader):
    """Reads a line per step, with all its values.

    Attributes:
        header: finds a line of a step; its groups are the step, and the text with the values.
        value: finds a value in that text; its groups are label and value.
        is_whole: whether a line that is cut off is skipped.
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
    """Reads a line per micro-batch. The time of a step is the sum of those of its micro-batches,
    its loss that of the line that ends it.

    Attributes:
        header: finds such a line; its groups are iteration, step, loss, milliseconds and, if the
            line ends a step, end.
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
            # Iterations 4 and 8 without those between them: only some are logged, or a line is
            # torn, so that the sum would not be the time of the step.
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
        """Note how many micro-batches form the steps."""
        count = f"{self._count} iterations (micro-batches)"
        self.notes = [f"{count} form {len(run.training.records)} optimizer steps"]


class Labels(ProgramReader):
    """Reads a line per step whose numbers all have labels.

    Attributes:
        names: meanings of labels that catalog/meanings doesn't know, or takes for something else.
        begins_again: whether steps count from 1 in each epoch, whose number is printed before the
            step.
    """

    begins_again = False

    def __init__(self) -> None:
        super().__init__()
        self._pieces = Pieces()
        self._names = {meanings.normalized(label): name for label, name in self.names.items()}
        self._gpus = GpuCount()
        self._fields_of = functools.lru_cache(LINE_FORMS)(self._fields)

    @property
    def steps_found(self) -> int:
        """Number of steps so far if it exceeds that of a page that quotes logs, else 0."""
        steps = sum(training.step_count for training in self.sorter.trainings)
        return steps if steps >= MORE_THAN_A_PAGE else 0

    def take(self, line: Line) -> bool:
        """Read a line of a step or of an evaluation; return whether it is that of a step."""
        is_taken = False
        for piece in self._pieces.of(line.text):
            fields = self._fields_of(piece.outline)
            step = self._step(fields, piece, line.number)
            if piece.outline.is_evaluation:
                mark = Mark("evaluation", "ends", line.number)
                self.sorter.pending.events.marks.append(mark)
            elif step is not None:
                self._gpus.add(piece.printed, fields)
                self.sorter.take(self._record(step, fields, piece, line.number))
                is_taken = True
        return is_taken

    def _fields(self, outline: Outline) -> dict[str, Field]:
        """Return the fields of a line by kind."""
        fields: dict[str, Field] = {}
        for field in outline.fields:
            kind = self._names.get(field.key, field.kind)
            # The 10/196 behind the epoch of `Epoch [1][10/196]` has no label.
            is_behind = self.begins_again and not field.label and field.total is not None
            if is_behind and meanings.EPOCH in fields:
                kind = meanings.STEP
            if kind == "tflops_per_gpu":
                # The T of `150.2T` is that of TFLOP/s, not a factor.
                field = dataclasses.replace(field, factor="1")
            if kind and TORN not in field.label:
                fields.setdefault(kind, field)
        return fields

    def _step(self, fields: Mapping[str, Field], piece: Piece, line: int) -> int | None:
        """Return the step of a line, counted over all epochs; state the planned steps."""
        counter, epoch = fields.get(meanings.STEP), fields.get(meanings.EPOCH)
        step = whole(piece.printed[counter.place]) if counter else None
        if counter is None or counter.total is None or step is None:
            return step
        planned = count(piece.printed[counter.total])
        if self.begins_again and epoch and planned:
            step += planned * ((whole(piece.printed[epoch.place]) or 1) - 1)
            planned *= (count(piece.printed[epoch.total]) or 0) if epoch.total else 0
        state(self.stated, "max_steps", count(planned), piece.text, line)
        return whole(step)

    def _record(self, step: int, fields: Mapping[str, Field], piece: Piece, line: int) -> Record:
        record = self.new_record(step, line, {}, piece.stamp)
        for kind, field in fields.items():
            value = value_of(field, piece.printed)
            if kind in STATED:
                state(self.stated, kind, whole(value), piece.text, line)
            elif kind not in NOT_RECORDED:
                record.put(kind, value)
        if record.seconds is None:
            record.put("seconds", _seconds(record.native))
        return record

    def done(self, run: RunBuilder) -> None:
        """State the GPUs that follow from rates."""
        self._gpus.state_in(run.stated, run.training.ordered()[0].line)
        super().done(run)

    def finish(self) -> list[ParsedLog]:
        """Return the runs, in the order of the log, except those of a single line (quotes)."""
        return [log for log in super().finish() if log.steps >= FEWEST]


def _seconds(printed: Mapping[str, float]) -> float | None:
    """Return the time of a step that follows from rates. An interval of 4.0 s at 2.5 steps/s is of
    ten steps.
    """
    rate = printed.get("steps_per_second", 0.0)
    interval = printed.get("interval_seconds", 0.0)
    tokens = printed.get("tokens_per_step", 0.0)
    if 0.5 < interval * rate < math.inf:
        return interval / round(interval * rate)
    if tokens:
        return tokens / (printed.get("tokens_per_second") or math.inf) or None
    return None


class Entries(ProgramReader, ElapsedReader):
    """Reads a JSON object per record, with the time since the start.

    Attributes:
        counter: label of the step.
        planned: label of the planned steps.
    """

    counter = planned = ""

    def place(self, entry: Printed) -> Place:
        """Return the step of an entry, and the planned steps."""
        return whole(entry.get(self.counter)), count(entry.get(self.planned))


class Blocks(ProgramReader, BlockReader):
    """Reads a header per step, and the lines with its values below it.

    Attributes:
        epoch: finds the header of an epoch, in which steps count from 1; its groups are the epoch
            and the number of epochs.
        is_indented: whether values are indented, below a header with a time.
        counted: label of the number of steps before that of the block, from which the step follows
            if the header is missing.
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
        """Return the step of a header, counted over all epochs, and the planned steps."""
        step, planned = super().place(header)
        if step and planned and self._epochs > 1:
            return step + max(self._epoch - 1, 0) * planned, None
        return step, planned

    def kept(self, name: str, value: str, line: Line) -> str | None:
        """Return a value if it belongs in the record of the block, else None; a row may replace
        this.
        """
        return value

    def put(self, name: str, value: str, line: Line) -> None:
        """Add a value to the open block."""
        kept = self.kept(name, value, line)
        if kept is not None:
            super().put(name, kept, line)

    def other(self, line: Line) -> None:
        """End the block at the end of the training, and at a line that isn't indented."""
        if self.ends.search(line.text):
            self.close()
        super().other(line)
        if self.is_indented and line.text.strip() and line.text[0] not in " \t":
            self.within = False

    def step_within(self, block: dict[str, str]) -> int | None:
        """Return the step of a block whose header is missing."""
        before = whole(block.get(self.counted))
        return None if before is None else before + 1
