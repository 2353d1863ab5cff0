"""Read the steps of a text by the form of its lines.

A first pass over the text finds its form (mining), a second one reads the lines of this form like
any other log format: doubles, restarts, events and failures go by the same rules.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from tprimat.catalog import meanings
from tprimat.notes import Note
from tprimat.read.forms.clocks import PRINTED, Timed, timed
from tprimat.read.forms.fields import Field, Outline, Piece, Pieces, seconds_of, value_of
from tprimat.read.forms.joining import joined
from tprimat.read.forms.mining import FEWEST, OF_TRAINING, Form, Miner, shown_place
from tprimat.read.parsing import placing
from tprimat.read.parsing.events import Mark
from tprimat.read.parsing.following import AGREEING
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.records import Record, set_windows
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.step_lines import StepReader
from tprimat.read.parsing.text import NO_YEAR, Line, Stamp
from tprimat.read.parsing.values import LoggedValues, state, whole, whole_ratio
from tprimat.results.account import Timing
from tprimat.results.fields import LARGEST_COUNT

FEWEST_UNASKED = 3
"""Records of a training that is read without asking: a page may quote two lines."""

FAR = 3
"""Strides behind the last record from which on a step behind a heading doesn't go on from it."""

_PADDING = re.compile(" {3,}")
_HEADING = re.compile(r"\s{0,3}(?:```|~~~|#{1,6} \S|\$ |>>> |!?python\d? )")
"""A Markdown heading, a code fence or a command: what follows may be another training."""

LONGEST_SUMMARY = 200
"""Characters of a line that may say how long a training took."""

_WHOLE_TIME = re.compile(
    r"\b(?:total|training|train|wall|overall|finished|completed|took)\b\D{0,40}"
    r"(?P<time>\d{1,3}:\d\d(?::\d\d)?(?:\.\d{1,9})?|\d{1,9}(?:\.\d{1,9})?)"
    r"(?P<unit> ?[a-z]{1,7}\b)?",
    re.IGNORECASE,
)
"""Training took 00:02:30; Total time: 1.81 minutes; wall time: 756.650 s."""

ANOTHER_FORM = 5
"""Lines with values of a training behind the last record that show that the form has changed: one
or two are a summary.
"""

MOST_RATIOS = 50
"""Lines from which the number of GPUs follows."""

LAGGING = 64
"""Steps by which one process lags behind another one that writes to the same text."""

STATED = ("num_gpus", "global_batch_size", "sequence_length")
"""Kinds that are settings: they belong to the training if each line prints the same."""

NOT_RECORDED = frozenset((
    meanings.IGNORED, meanings.EVALUATION, meanings.AVERAGED, meanings.STEP, meanings.MICRO_STEP, meanings.EPOCH,
    "memory",
))  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Interpretation:
    """A training as its form says, and how sure that is.

    Attributes:
        log: the training.
        form: of its lines.
        timed: where the times of its steps come from.
        doubts: what is assumed; none if it can be read without asking.
        lacks: why it can't be read; None if it can.
    """

    log: ParsedLog
    form: Form
    timed: Timed
    doubts: tuple[Note, ...]
    lacks: Note | None

    @property
    def time_label(self) -> str | None:
        """What the times of the steps come from, as the text calls it; None without times."""
        return _time_label(self.form, self.timed)


def _time_label(form: Form, found: Timed) -> str | None:
    if found.kind == "stamp":
        return "time stamps"
    if found.kind == "seconds":
        kinds = (meanings.TIME, meanings.INTERVAL)
        return next(
            (f"“{form.labels[kind]}”" for kind in kinds if form.labels.get(kind)), "printed times"
        )
    if not found.kind:
        return None
    label = form.labels.get(found.kind)
    # 5.32 it/s has a unit and no label.
    without = "printed rates" if found.kind.endswith("per_second") else "printed times"
    return f"“{label}”" if label else without


class GpuCount:
    """The number of GPUs that follows from the tokens/s of all and of one, as they are printed:
    222.4K / 55.6K are 4.
    """

    def __init__(self) -> None:
        self._ratios = collections.Counter[int | None]()

    def add(self, printed: Sequence[str], fields: Mapping[str, Field]) -> None:
        """Take the numbers of a line, and which of them are which kinds of values."""
        every, one = fields.get("tokens_per_second"), fields.get("tokens_per_second_per_gpu")
        if every is not None and one is not None and self._ratios.total() < MOST_RATIOS:
            factor = float(every.factor) / float(one.factor)
            ratio = whole_ratio((printed[every.place],), (printed[one.place],), factor)
            self._ratios[ratio] += 1

    def state_in(self, stated: LoggedValues, line: int) -> None:
        """Add the number that nearly all lines give to what a source states."""
        for gpus, times in self._ratios.most_common(1):
            if times >= AGREEING * self._ratios.total():
                quote = "tokens/s of all / tokens/s of one GPU"
                state(stated, "num_gpus", gpus, quote, line, 0)


def _name_of(kind: str) -> str:
    """Return the name of a value in a record: a time's meaning is known when all records are."""
    return PRINTED if kind == meanings.TIME else kind


class FormReader(StepReader):
    """A parsed_log.Reader of the lines of one form."""

    name = "form"
    rate = None
    warns_of_unread = False
    timing = Timing(
        clock="unknown: the log doesn't state it",
        covers="unknown: the log doesn't state it",
        over_ranks="unknown",
    )

    def __init__(self, form: Form) -> None:
        super().__init__()
        self.form = form
        self.timed: list[Timed] = []
        self._pieces = Pieces()
        self._open: Record | None = None
        self._values_of_open: set[str] = set()
        self._parts: list[float] = []
        self._count: int | None = None
        self._offset = self._epochs = 0
        self._planned: int | None = None
        self._total: int | None = None
        self._is_first = False
        self._closed: tuple[str, ...] = ()
        self._took: float | None = None
        self._epoch: int | None = None
        self._is_another_training = self._has_heading = False
        self._others: list[int] = []
        self._day = datetime.timedelta()
        self._last_stamp: Stamp | None = None
        self._has_unit = True
        self._is_of_step = False
        self._recent: collections.deque[int] = collections.deque(maxlen=LAGGING)
        self._plans: dict[Outline, list[tuple[str, Field]]] = {}
        self._gpus = GpuCount()
        self._settings: dict[str, set[float]] = {}

    def feed(self, line: Line) -> bool:
        """Take the next line; return whether it holds metrics."""
        if "   " in line.text:
            # Padding that shrinks from step 999 to step 1000 tears no line.
            line = line._replace(text=_PADDING.sub("  ", line.text))
        is_taken = self.torn.read(line, self.take)
        if not is_taken:
            self.other(line)
        return is_taken

    def other(self, line: Line) -> None:
        """Read a line without values of a step; behind the last one it may say how long all took."""
        super().other(line)
        self._has_heading = self._has_heading or _HEADING.match(line.text) is not None
        text = line.text[:LONGEST_SUMMARY]
        if (match := _WHOLE_TIME.search(text)) and not meanings.is_of_evaluation(text):
            unit, _, _ = meanings.unit_of(match["unit"] or "")
            if ":" in match["time"]:
                self._took = seconds_of(match["time"])
            elif unit is not None and unit.is_time:
                self._took = float(match["time"]) * float(unit.factor)

    def take(self, line: Line) -> bool:
        """Read a line of the form; return False for others."""
        is_taken = False
        for piece in self._pieces.of(line.text):
            outline = piece.outline
            if outline.is_evaluation or (outline.is_mixed and not self.form.is_mixed):
                mark = Mark("evaluation", "ends", line.number)
                self.sorter.pending.events.marks.append(mark)
            elif piece.is_bar and not self.form.has_bars:
                continue
            else:
                is_taken = self._take_piece(piece, line.number) or is_taken
        return is_taken

    def _take_piece(self, piece: Piece, line: int) -> bool:
        is_taken = self._read_piece(piece, line)
        if is_taken:
            self._others.clear()
            self._took = None
        elif not OF_TRAINING.isdisjoint(piece.outline.kinds):
            self._others.append(line)
        return is_taken

    def _read_piece(self, piece: Piece, line: int) -> bool:
        counter = piece.outline.field(self.form.counter)
        values = self._values(piece)
        self._gpus.add(piece.printed, piece.outline.kinds)
        if counter is None and not values:
            return False
        if self.form.counter and counter is None:
            # A further line of the step above: its header has the number, or its norm is printed
            # below it.
            if self._open is not None:
                self._put(values, replaces=False)
            return self._open is not None
        step = self._step(counter, piece, values)
        if step is None or step > LARGEST_COUNT:
            return False
        if self._is_copy(step, values):
            return True
        rises = self._count is not None and step > self._count
        if not self.form.closes and self._is_another(step, values):
            self._close()
        if self._open is None:
            self._open = Record(step, line, stamp=self._dated(piece.stamp))
            # Another number of planned steps is another training's.
            is_new = None not in (self._total, self._planned) and self._total != self._planned
            is_new = is_new and self.form.has_steady_total
            self._is_first = is_new or self._is_another_training or self._is_apart(step)
            self._is_another_training = self._has_heading = False
            self._total = self._planned
            if self.form.epoch is None:
                state(self.stated, "max_steps", self._planned, piece.text, line)
        self._put(values)
        self._count = step
        if self.form.closes and rises:
            # The line in which the counter rises is the last one of its micro-batches.
            self._open.step = step
            self._open.line = line
            self._close()
        return True

    def _is_apart(self, step: int) -> bool:
        """Return whether a step behind a heading or a code fence doesn't go on from the last one:
        1001 behind 1100 is another training's.
        """
        last = self.sorter.last
        if not self._has_heading or last is None or self.form.epoch is not None:
            return False
        return not 0 < step - last.step <= FAR * self.form.stride

    def _step(self, counter: Field | None, piece: Piece, values: Mapping[str, float]) -> int | None:
        """Return the step of a line: as it counts, or by the order of the lines if nothing does."""
        if counter is None:
            begins = self._open is None or not values.keys().isdisjoint(self._values_of_open)
            return (self._count or 0) + begins
        value = value_of(counter, piece.printed)
        if value is None or not value.is_integer() or value < 0:
            return None
        step = int(value)
        if self.form.closed is not None:
            return self._closed_step(step, piece)
        if self.form.counts_total:
            return None if counter.total is None else whole(piece.printed[counter.total])
        if counter.total is not None:
            self._planned = whole(piece.printed[counter.total])
        if self.form.epoch is not None:
            return self._step_of_epoch(step, piece)
        return step

    def _step_of_epoch(self, step: int, piece: Piece) -> int:
        """Return the step of all epochs: epoch 2 counts its batches from 1 again. Of an epoch
        without a total only the batches that are printed are known.
        """
        field = piece.outline.field(self.form.epoch or "")
        epoch = whole(piece.printed[field.place]) if field else None
        begins_again = self._count is not None and step + self._offset < self._count
        if begins_again and epoch is not None and self._epoch is not None and epoch < self._epoch:
            # Another training.
            self._offset = self._epochs = 0
            self._count = None
            self._is_another_training = True
        elif begins_again:
            assert self._count is not None
            self._offset = self._count
            if self._planned:
                self._epochs += 1
                self._offset = self._epochs * self._planned
        self._epoch = epoch
        return step + self._offset + (self._count == step + self._offset and begins_again)

    def _closed_step(self, step: int, piece: Piece) -> int | None:
        """Return the step of the end of an epoch, of which only the number of steps is printed; a
        progress bar may be printed several times.
        """
        if step != self.form.closed:
            return None
        if piece.printed == self._closed:
            return self._count
        self._closed = piece.printed
        return (self._count or 0) + step

    def _is_copy(self, step: int, values: Mapping[str, float]) -> bool:
        """Return whether another process has printed the step a few lines before."""
        if not self.form.has_copies:
            return False
        is_open = self._open is not None and self._open.step == step
        if is_open and values.keys().isdisjoint(self._values_of_open):
            return False
        if step in self._recent:
            return True
        self._recent.append(step)
        return False

    def _is_another(self, step: int, values: Mapping[str, float]) -> bool:
        """Return whether a line is of another record than the open one: of another step, or of
        another rank that prints the same values.
        """
        if self._open is None or self._open.step != step:
            return True
        return self.form.micro is None and not values.keys().isdisjoint(self._values_of_open)

    def _values(self, piece: Piece) -> dict[str, float]:
        """Return the values of a line that belong to a record, by their names in it."""
        outline = piece.outline
        plan = self._plans.get(outline)
        if plan is None:
            plan = [
                (_name_of(kind), field)
                for kind, field in outline.kinds.items()
                if field.key in self.form.keys and kind not in NOT_RECORDED
            ]
            if self.form.elapsed and (elapsed := outline.field(self.form.elapsed)):
                plan.append((meanings.ELAPSED, elapsed))
            self._plans[outline] = plan
        values = {}
        for name, field in plan:
            value = value_of(field, piece.printed)
            if value is None:
                continue
            if name in STATED:
                self._settings.setdefault(name, set()).add(value)
                continue
            if name == meanings.STEP_RATE and piece.is_bar and value:
                # A progress bar changes between s/it and it/s.
                name = PRINTED
                value = 1 / value
            values[name] = value
            if name in (PRINTED, meanings.MEAN_TIME):
                is_clock = ":" in piece.printed[field.place]
                self._has_unit = self._has_unit and (field.unit is not None or is_clock)
                self._is_of_step = meanings.is_of_step(field.label, field.unit)
        return values

    def _put(self, values: Mapping[str, float], *, replaces: bool = True) -> None:
        """Add values to the open record."""
        assert self._open is not None
        for name, value in values.items():
            if name == PRINTED and self.form.micro is not None:
                self._parts += [value] if math.isfinite(value) else []
            elif replaces or name not in self._values_of_open:
                self._open.put(name, value)
        self._values_of_open |= values.keys()

    def _close(self) -> None:
        """Give the open record to the sequencer."""
        record = self._open
        self._open = None
        parts = self._parts
        self._parts = []
        self._values_of_open = set()
        if record is None:
            return
        if self.form.micro is not None and len(parts) == self.form.micro_batches:
            record.put(PRINTED, math.fsum(parts))
        if record.figures() or record.not_finite:
            self.sorter.take(record, another=self._is_first)

    def _dated(self, stamp: Stamp | None) -> Stamp | None:
        """Return a stamp that has a day: after 23:59:59 comes the next day's 00:00:00."""
        if stamp is None or stamp.time.year != NO_YEAR:
            return stamp
        stamp = stamp._replace(time=stamp.time + self._day)
        before = self._last_stamp
        if before is not None and stamp.time < before.time - datetime.timedelta(hours=12):
            self._day += datetime.timedelta(days=1)
            stamp = stamp._replace(time=stamp.time + datetime.timedelta(days=1))
        self._last_stamp = stamp
        return stamp

    def finish(self) -> list[ParsedLog]:
        """Return the runs, in the order of the log."""
        self._close()
        return super().finish()

    def done(self, run: RunBuilder) -> None:
        """Set the step times by all clocks of the records, and what the records say together."""
        records = run.training.ordered()
        found = self._timed(run, records)
        self.timed.append(found)
        set_windows(records)
        if found.kind == "seconds":
            self._close_gaps(records)
        for record, seconds in zip(records, found.seconds, strict=False):
            record.put("seconds", seconds)
            record.native.pop(PRINTED, None)
        for record, window in zip(records, found.windows, strict=False):
            record.window = window
        self._put_utilization(records)
        for record in records:
            rate = record.native.get("tokens_per_second")
            if rate and record.seconds and "tokens_per_step" not in record.native:
                record.put("tokens_per_step", rate * record.seconds)
        self._state_sizes(run)
        if run.training is self.sorter.trainings[-1] and len(self._others) >= ANOTHER_FORM:
            run.training.warnings.append(Note("form-changes", {"line": self._others[0]}))
        run.framework = "own"
        run.log_format = "text (by its form)"
        run.timing = _timing(found)
        labels = {"step": self.form.counter_label, "time": _time_label(self.form, found)}
        run.remarks += [
            Note("read-by-form", labels),
            *_doubts(self.form, found, len(records)),
        ]
        if found.contradiction is not None:
            run.unknown["step_times"] = found.contradiction

    def _close_gaps(self, records: Sequence[Record]) -> None:
        """Let a record behind a gap cover as many steps as others: what was cut out of a log has no
        time.
        """
        for record in records:
            if (record.window or 1) > FAR * self.form.stride:
                record.window = self.form.stride

    def _timed(self, run: RunBuilder, records: Sequence[Record]) -> Timed:
        """Return the times of the steps of a training; means stand for what isn't printed."""
        are_means = all(PRINTED not in record.native for record in records)
        for record in records:
            mean = record.native.pop(meanings.MEAN_TIME, None)
            if are_means and mean is not None:
                record.native[PRINTED] = mean
        if all(record.loss is None for record in records):
            for record in records:
                record.put("loss", record.native.pop(meanings.MEAN_LOSS, None))
        lines, steps = [record.line for record in records], [record.step for record in records]
        events = run.training.around.events
        paused = placing.beside(lines, steps, events, run.training.again).keys()
        found = timed(
            records,
            has_unit=self._has_unit,
            is_of_step=self._is_of_step,
            paused=paused,
            took=self._took if run.training is self.sorter.trainings[-1] else None,
        )
        if are_means and found.kind == "seconds" and not found.is_certain:
            found.doubts.append(Note("form-average-assumed"))
        return found

    def _state_sizes(self, run: RunBuilder) -> None:
        """State what all lines print alike, and the GPUs that follow from their rates."""
        line, text = self.form.example
        self._gpus.state_in(run.stated, line)
        for name, values in self._settings.items():
            if len(values) == 1 and (size := whole(next(iter(values)))):
                state(run.stated, name, size, text, line)

    def _put_utilization(self, records: Sequence[Record]) -> None:
        """Set MFU in percent: 0.42 without a sign is 42%."""
        shares = [record.native.get("mfu_percent") for record in records]
        if max((share for share in shares if share is not None), default=0.0) <= 1.0:
            for record, share in zip(records, shares, strict=True):
                if share is not None:
                    record.native["mfu_percent"] = round(100 * share, 6)


def _timing(found: Timed) -> Timing:
    """Return the definition of a step time: as printed, or from one record to the next."""
    if found.kind in ("stamp", "elapsed_seconds"):
        return Timing(
            kind="stamps",
            clock="time stamps of the log" if found.kind == "stamp" else "time since the start",
            covers="all between two records",
            over_ranks="unknown",
        )
    return FormReader.timing


def interpretations(lines: Callable[[], Iterable[Line]]) -> list[Interpretation]:
    """Return the trainings of a text as the form of its lines says; none if no form recurs.

    `lines` gives the lines from the start, each time that it is called.
    """
    miner = Miner()
    for line in joined(lines):
        miner.feed(line)
    form = miner.form()
    if form is None:
        return []
    reader = FormReader(form)
    for line in joined(lines):
        reader.feed(line)
    logs = reader.finish()
    return [
        Interpretation(
            log, form, found, tuple(_doubts(form, found, log.steps)), _lacks(form, found, log.steps)
        )
        for log, found in zip(logs, reader.timed, strict=True)
    ]


def _doubts(form: Form, found: Timed, records: int) -> list[Note]:
    """Return what is assumed of a training."""
    doubts = list(found.doubts)
    if form.elapsed is not None:
        doubts.append(Note("form-elapsed-assumed", {"label": shown_place(form.elapsed)}))
    if form.epoch is not None and not form.has_total:
        doubts.append(Note("form-epoch-assumed"))
    if not form.is_proven:
        doubts.append(Note("form-training-assumed"))
    if not form.counter:
        doubts.append(Note("form-order-assumed"))
    elif not form.is_stated:
        doubts.append(Note("form-counter-assumed", {"label": form.counter_label}))
    if records < FEWEST_UNASKED:
        doubts.append(Note("form-few-steps", {"count": records}))
    return doubts


def _lacks(form: Form, found: Timed, records: int) -> Note | None:
    """Return why a training can't be read; None if it can."""
    if records < FEWEST and not form.is_single:
        return Note("form-lacks-records")
    if form.counts_epochs:
        return Note("form-counts-epochs")
    if found.contradiction is not None:
        return found.contradiction
    if not found.kind and not form.has_rates:
        return Note("form-lacks-time")
    return None
