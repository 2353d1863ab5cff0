"""Records of the values that a user maps in a table or a text, and what follows from them."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence

from tprimat.catalog import meanings
from tprimat.notes import Note
from tprimat.read.forms.clocks import fitting
from tprimat.read.parsing.events import STAMPED_WITHIN
from tprimat.read.parsing.grouping import number_ranks, optimizer_steps, set_interval_times
from tprimat.read.parsing.printed import PER_SECOND, PERCENT, RATES, Printed, printed
from tprimat.read.parsing.records import (
    LogContext,
    LoggedTraining,
    Record,
    set_times,
    set_windows,
)
from tprimat.read.parsing.sequencer import RecordSequencer
from tprimat.read.parsing.step_lines import LEAST_DIGITS
from tprimat.read.parsing.text import Line, first_stamp
from tprimat.read.parsing.values import count, state, times, whole, whole_ratio
from tprimat.text import plain

VALUES = {
    "step": "",
    "micro_step": "",
    "time": "seconds",
    "time_ms": "seconds",
    "interval": "interval_seconds",
    "elapsed": "elapsed_seconds",
    "loss": "loss",
    "lr": "learning_rate",
    "grad_norm": "grad_norm",
    "steps_per_second": "steps_per_second",
    "samples_per_second": "samples_per_second",
    "tokens_per_second": "tokens_per_second",
    "tokens_per_second_per_gpu": "tokens_per_second_per_gpu",
    "tflops_per_gpu": "tflops_per_gpu",
    "mfu": "mfu_percent",
    "batch": "samples_per_step",
    "tokens": "tokens_per_step",
}
"""The values that --columns and --pattern know, and their names in a record. Times are in s: `time`
of a step, `interval` of all steps since the record before, `elapsed` since the start. `micro_step`
counts micro-batches.
"""

BY_KIND = {kind: value for value, kind in reversed(VALUES.items()) if kind}
BY_KIND |= {meanings.STEP: "step", "global_batch_size": "batch"}
"""The value of --columns and --pattern for each kind in the table of meanings."""


def columns_by_words(names: Iterable[str]) -> str:
    """Return an argument of --columns for a table with columns of these names: the first column of
    each kind that the names state. Without a step or another value it is a template to fill in.
    """
    columns = dict[str, str]()
    for name in names:
        meaning = meanings.meaning_of(name)
        value = BY_KIND.get(meaning.kind) if meaning else None
        if value and not {",", "="} & {*name}:
            columns.setdefault(value, name)
    # The step and the time since the start alone don't show a training: a tracker logs them for
    # evaluations, too.
    if "step" not in columns or columns.keys() <= {"step", "elapsed"}:
        return "step=COLUMN,time=COLUMN"
    return shlex.quote(plain(",".join(f"{value}={name}" for value, name in columns.items())))


class MappedRecords:
    """The records of a table or of the lines of a pattern, in the order of the file.

    Attributes:
        units: of the values that the user maps, as unit_beside() returns them.
        micro_batches: number of lines that are a micro-batch each.
        is_coarse: whether a rate has too few digits to be converted to a time.
        rounded: values that are printed in thousands or millions.
    """

    def __init__(self, units: Mapping[str, str]) -> None:
        self.units = units
        self.micro_batches = 0
        self.is_coarse = False
        self.rounded = set[str]()
        self._rows = list[tuple[Record, LogContext]]()

    def add(self, cells: Mapping[str, object], line: Line, around: LogContext) -> bool:
        """Add a row and the context before it; return False for a row without a step."""
        step = whole(cells["step"]) if "step" in cells else len(self._rows) + 1
        micro_step = whole(cells.get("micro_step", 0))
        if step is None or micro_step is None:
            return False
        record = Record(step, line.number, window=1, stamp=first_stamp(line.text[:STAMPED_WITHIN]))
        figures = {value: printed(value, cell) for value, cell in cells.items() if VALUES[value]}
        exact = set[str]()
        for value, found in figures.items():
            if found is not None and (name := self._put(record, value, found)):
                exact.add(name)
        if "step" not in cells and not record.figures():
            return False
        if "micro_step" in cells:
            record.native["micro_step"] = micro_step
        self._set_time_by_rate(record, exact)
        every, one = (figures.get(value) for value in RATES)
        if every and one and (ratio := whole_ratio((every.text(),), (one.text(),))):
            record.native["num_gpus"] = ratio
        self._rows.append((record, around))
        return True

    def _put(self, record: Record, value: str, found: Printed) -> str:
        """Set a value of a record; return its name there if it is exact enough for a quotient."""
        unit = found.unit or self.units[value]
        name = VALUES[value]
        figure = found.figure
        if unit == PER_SECOND:
            name = "steps_per_second"
        elif value == "mfu" and unit != PERCENT:
            name = "mfu"
        elif unit and unit != PERCENT:
            figure = times(figure, unit)
        if found.is_rounded:
            self.rounded.add(value)
        # Programs print a negative MFU if the peak of the GPU is unknown.
        if value != "mfu" or figure >= 0:
            record.put(name, figure)
        is_count = value in ("batch", "tokens") and not found.is_rounded
        return name if is_count or found.digits >= LEAST_DIGITS else ""

    def _set_time_by_rate(self, record: Record, exact: set[str]) -> None:
        """Set the time of a step by the first of its rates (_RATES) if the record has no other
        time.
        """
        native = record.native
        if record.seconds is not None or {"interval_seconds", "elapsed_seconds"} & native.keys():
            return
        for work, rate in _RATES.items():
            done = native.get(work, 0.0) if work else 1.0
            if done <= 0 or native.get(rate, 0.0) <= 0:
                continue
            if {work, rate} - {""} <= exact:
                record.put("seconds", done / native[rate])
                return
            self.is_coarse = True

    def trainings(self, rest: LogContext) -> list[LoggedTraining]:
        """Return the trainings; `rest` is the context after the last row."""
        rows = self._rows
        if "micro_step" in self.units:
            self.micro_batches = len(rows)
            rows = optimizer_steps(rows)
        number_ranks([record for record, _ in rows])
        sorter = RecordSequencer()
        for record, around in rows:
            sorter.pending = around
            sorter.take(record)
        sorter.pending = rest
        return sorter.finish()


_RATES = {
    "": "steps_per_second",
    "samples_per_step": "samples_per_second",
    "tokens_per_step": "tokens_per_second",
}
"""Rates by the work of a step that they count: the step itself, its samples, its tokens."""


def _set_step_times(training: LoggedTraining, named: Collection[str]) -> None:
    """Set the windows of records, and the times of steps by other times if none are printed.

    A time that is printed at every tenth step may be the mean of ten steps or the time of one. If
    the log has a clock, it is taken as the mean and compared with the clock; otherwise as the time
    of one.
    """
    records = training.ordered()
    if any(record.stamp or "elapsed_seconds" in record.native for record in records):
        set_windows(records)
    if any(record.seconds for record in records):
        return
    if "interval" in named:
        set_interval_times(records)
    elif "elapsed" in named:
        passed = [record.native.get("elapsed_seconds", 0.0) for record in records]
        is_coarse = all(seconds == int(seconds) for seconds in passed)
        set_times(records, in_whole_seconds=is_coarse)
        if is_coarse:
            training.warnings.append(Note("times-in-whole-seconds"))


def _state_sizes(training: LoggedTraining, found: MappedRecords) -> None:
    """State the sizes of a step and the number of GPUs that the printed values give, if all lines
    agree.
    """
    records = training.ordered()
    stated = training.around.stated
    line = records[0].line
    native = [record.native for record in records]
    batches = {values["samples_per_step"] for values in native if "samples_per_step" in values}
    if len(batches) > 1:
        text = f"{min(batches):g} to {max(batches):g}"
        state(stated, "global_batch_size", text, f"batch: {text}", line)
    elif batches and "batch" not in found.rounded:
        size = batches.pop()
        state(stated, "global_batch_size", count(size), f"batch: {size:g}", line)
        for values in native:
            values.pop("samples_per_step", None)
    tokens = {values["tokens_per_step"] for values in native if "tokens_per_step" in values}
    if len(tokens) == 1 and "tokens" in found.units.keys() - found.rounded:
        state(stated, "tokens_per_step", count(tokens.pop()), line=line)
    ratios = {values.pop("num_gpus") for values in native if "num_gpus" in values}
    if len(ratios) == 1:
        gpus = int(ratios.pop())
        text = f"tokens_per_second / tokens_per_second_per_gpu = {gpus}"
        state(stated, "num_gpus", gpus, text, line, weight=0)


def _set_derived(records: Sequence[Record]) -> None:
    """Set the tokens of a step by rate and time, and MFU in percent if one exceeds 1."""
    is_percent = any(record.native.get("mfu", 0.0) > 1 for record in records)
    for record in records:
        if is_percent and "mfu" in record.native:
            record.native["mfu_percent"] = record.native.pop("mfu")
        rate = record.native.get("tokens_per_second")
        if record.seconds and rate and "tokens_per_step" not in record.native:
            record.put("tokens_per_step", rate * record.seconds)


MILLISECONDS = "times-fit-milliseconds"
INTERVAL, ELAPSED = "times-fit-interval", "times-fit-elapsed"
"""Codes of notes on printed times that agree with the log's clock only if they have another
meaning.
"""


def complete(training: LoggedTraining, found: MappedRecords) -> None:
    """Set the times and sizes of a training that follow from its values, and add notes on them."""
    _set_step_times(training, found.units)
    _state_sizes(training, found)
    records = training.ordered()
    _set_derived(records)
    if "step" not in found.units:
        training.warnings.append(Note("records-numbered", {"count": len(records)}))
    if code := fitting(records, ("", INTERVAL, ELAPSED, MILLISECONDS)):
        training.warnings.append(Note(code))
