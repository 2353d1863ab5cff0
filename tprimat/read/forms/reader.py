"""Read the steps of a text by the form of its lines.

A first pass over the text finds its form (mining), a second one reads the lines of this form like
any other log format: the same rules hold for repeated steps, restarts, events and failures.
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
from tprimat.read.forms.changing import OtherLines, other_counter
from tprimat.read.forms.clocks import PRINTED, Timed, timed
from tprimat.read.forms.fields import Field, Outline, Piece, Pieces, seconds_of, value_of
from tprimat.read.forms.joining import joined
from tprimat.read.forms.mining import FEWEST, OF_TRAINING, Form, Miner, safe_label, shown_place
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
"""Fewest records of a training that is read without asking: a page may quote two lines."""

FAR = 3
"""Most strides after the last record at which a step after a heading continues the same training.
More steps than this in one record are a gap in the log.
"""

_PADDING = re.compile(" {3,}")
_HEADING = re.compile(r"\s{0,3}(?:```|~~~|#{1,6} \S|\$ |>>> |!?python\d? )")
"""A Markdown heading, a code fence or a command: what follows may be another training."""

LONGEST_SUMMARY = 200
"""Characters of a line in which the time of a whole training is looked for."""

_WHOLE_TIME = re.compile(
    r"\b(?:(?:total|overall|whole|entire|wall)(?:[ _-]?clock)?(?:[ _-]train(?:ing)?)?[ _-](?:run)?time"
    r"|train(?:ing)?[ _-](?:run)?time"
    r"|train(?:ing)?(?: run)?(?: (?:has|is|was))?"
    r" (?:took|takes|lasted|(?:finished|completed?|done|ended)(?: successfully)?,?(?: in| after| took)))"
    r"\b[\s\"':=(~]{0,10}(?:(?:is|was|of|in|took|a total of)[\s:]{1,3})?"
    r"(?P<time>\d{1,3}:\d\d(?::\d\d)?(?:\.\d{1,9})?|\d{1,9}(?:\.\d{1,9})?)"
    r"(?P<unit> ?[a-z]{1,7}\b)?",
    re.IGNORECASE,
)
"""The time of a whole training: Training took 00:02:30; Total time: 1.81 minutes; wall time:
756.650 s.
"""

_PART_TIME = re.compile(
    r"\b(?:sav|generat|sampl|evaluat|validat|test|load|epoch|checkpoint|compil|warm|step\b|iter|batch)",
    re.IGNORECASE,
)
"""Words of a line whose time is that of a part of the training, or of other work."""

MOST_RATIOS = 50
"""Most lines from which the number of GPUs is computed."""

LAGGING = 64
"""Most steps by which one process lags behind another that writes to the same text."""

STATED = ("num_gpus", "global_batch_size", "sequence_length")
"""Kinds that are settings: they are stated for the training if all lines print the same value."""

NOT_RECORDED = frozenset((
    meanings.IGNORED, meanings.EVALUATION, meanings.AVERAGED, meanings.STEP, meanings.MICRO_STEP, meanings.EPOCH,
    "memory",
))  # fmt: skip
"""Kinds whose numbers are not kept in a record."""


@dataclasses.dataclass(frozen=True)
class Interpretation:
    """A training that was read by the form of its lines, and what this assumes.

    Attributes:
        log: the training.
        form: the form of its lines.
        timed: where the times of its steps come from.
        doubts: what is assumed; empty if it can be read without asking.
        lacks: why it can't be read; None if it can.
    """

    log: ParsedLog
    form: Form
    timed: Timed
    doubts: tuple[Note, ...]
    lacks: Note | None

    @property
    def time_label(self) -> str | None:
        """What the times of the steps come from, as shown to the user; None without times."""
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
    """Computes the number of GPUs from the printed tokens/s of all GPUs and of one: 222.4K / 55.6K
    is 4.
    """

    def __init__(self) -> None:
        self._ratios = collections.Counter[int | None]()

    def add(self, printed: Sequence[str], fields: Mapping[str, Field]) -> None:
        """Take the numbers of a line, as printed, and its fields by kind."""
        every, one = fields.get("tokens_per_second"), fields.get("tokens_per_second_per_gpu")
        if every is not None and one is not None and self._ratios.total() < MOST_RATIOS:
            factor = float(every.factor) / float(one.factor)
            ratio = whole_ratio((printed[every.place],), (printed[one.place],), factor)
            self._ratios[ratio] += 1

    def state_in(self, stated: LoggedValues, line: int) -> None:
        """State the number of GPUs if nearly all lines give the same (AGREEING)."""
        for gpus, times in self._ratios.most_common(1):
            if times >= AGREEING * self._ratios.total():
                quote = "tokens/s of all / tokens/s of one GPU"
                state(stated, "num_gpus", gpus, quote, line, 0)


def _name_of(kind: str) -> str:
    """Return the name of a value in a record; the meaning of a printed time is found later."""
    return PRINTED if kind == meanings.TIME else kind


class FormReader(StepReader):
    """A parsed_log.Reader of the lines of one form.

    Attributes:
        form: the form of the lines.
        timed: the step times of each training.
    """

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
        self._epoch_above: int | None = None
        self._is_another_training = self._has_heading = False
        self._others = OtherLines()
        self._day = datetime.timedelta()
        self._last_stamp: Stamp | None = None
        self._has_unit = True
        self._is_of_step = False
        # The label of times that may not be those of steps, and whether a % sign stands at the MFU.
        self._qualified = ""
        self._has_percent = False
        self._recent: collections.deque[int] = collections.deque(maxlen=LAGGING)
        self._plans: dict[Outline, list[tuple[str, Field]]] = {}
        self._gpus = GpuCount()
        self._settings: dict[str, set[float]] = {}

    def feed(self, line: Line) -> bool:
        """Take the next line; return whether it holds metrics."""
        if "   " in line.text:
            # Less padding, as from step 999 to step 1000, doesn't make a line look torn.
            line = line._replace(text=_PADDING.sub("  ", line.text))
        is_taken = self.torn.read(line, self.take)
        if not is_taken:
            self.other(line)
        return is_taken

    def other(self, line: Line) -> None:
        """Read a line without values of a step; after the last step it may state the total time."""
        super().other(line)
        self._has_heading = self._has_heading or _HEADING.match(line.text) is not None
        text = line.text[:LONGEST_SUMMARY]
        is_of_part = meanings.is_of_evaluation(text) or _PART_TIME.search(text)
        if not is_of_part and (match := _WHOLE_TIME.search(text)):
            unit, _, _ = meanings.unit_of(match["unit"] or "")
            if ":" in match["time"]:
                self._took = seconds_of(match["time"])
            elif unit is not None and unit.is_time:
                self._took = float(match["time"]) * float(unit.factor)
            elif unit is None and "runtime" in match[0]:
                # transformers prints its train_runtime in seconds.
                self._took = float(match["time"])

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
        """Read a piece if it has the form; remember other lines with values of a training."""
        is_taken = self._read_piece(piece, line)
        if is_taken:
            self._others.close()
            self._took = None
        elif not OF_TRAINING.isdisjoint(piece.outline.kinds):
            self._others.add(line, piece, self._other_counter(piece))
        return is_taken

    def _other_counter(self, piece: Piece) -> Field | None:
        """Return the number that counts the steps of a line in another form; None if none does."""
        return other_counter(piece, self.form.counter, self.form.keys)

    def _read_piece(self, piece: Piece, line: int) -> bool:
        """Begin a record with the values of a line, or add them to the open one; return False if
        the line has neither a step nor values.
        """
        counter = piece.outline.field(self.form.counter)
        values = self._values(piece)
        self._gpus.add(piece.printed, piece.outline.kinds)
        if epoch := piece.outline.field(self.form.epoch or ""):
            self._epoch_above = whole(piece.printed[epoch.place])
        if counter is None and not values:
            return False
        if self.form.counter and counter is None:
            # A further line of the step above it, such as the gradient norm, or a value below the
            # header with the step. A line that counts steps by another label is none.
            if self._other_counter(piece) is not None:
                return False
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
            # With another number of planned steps another training begins.
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
            # The line in which the counter rises is that of the step's last micro-batch.
            self._open.step = step
            self._open.line = line
            self._close()
        return True

    def _is_apart(self, step: int) -> bool:
        """Return whether a step after a heading or a code fence belongs to another training, since
        it doesn't follow the last one: 1001 after 1100.
        """
        last = self.sorter.last
        if not self._has_heading or last is None or self.form.epoch is not None:
            return False
        return not 0 < step - last.step <= FAR * self.form.stride

    def _step(self, counter: Field | None, piece: Piece, values: Mapping[str, float]) -> int | None:
        """Return the step of a line by its counter, or by the order of the lines if nothing counts;
        None if the line is not that of a step.
        """
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
            return self._step_of_epoch(step)
        return step

    def _step_of_epoch(self, step: int) -> int:
        """Return the step counted over all epochs: of 90 batches per epoch, batch 10 of epoch 2 is
        step 100. Without a total an epoch is taken to end with its last printed batch.
        """
        epoch = self._epoch_above
        begins_again = self._count is not None and step + self._offset < self._count
        if begins_again and epoch is not None and self._epoch is not None and epoch < self._epoch:
            # The epoch falls: another training begins.
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
        """Return the step at the end of an epoch, if only these are printed: 196/196 twice are
        steps 196 and 392. A progress bar that is printed again has the same step.
        """
        if step != self.form.closed:
            return None
        if piece.printed == self._closed:
            return self._count
        self._closed = piece.printed
        return (self._count or 0) + step

    def _is_copy(self, step: int, values: Mapping[str, float]) -> bool:
        """Return whether another process has printed the step recently (LAGGING)."""
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
        """Return whether a line begins another record than the open one: that of another step, or
        that of another rank that prints the same values.
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
                # A progress bar prints s/it above one second and it/s below: both become times.
                name = PRINTED
                value = 1 / value
            values[name] = value
            if name in (PRINTED, meanings.MEAN_TIME):
                is_clock = ":" in piece.printed[field.place]
                self._has_unit = self._has_unit and (field.unit is not None or is_clock)
                self._is_of_step = meanings.is_of_step(field.label, field.unit)
                if not self._qualified and meanings.is_qualified(field.label, field.unit):
                    self._qualified = safe_label(field.label, piece.text)
            elif name == "mfu_percent":
                self._has_percent = self._has_percent or field.unit is not None
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
        """Pass the open record to the sequencer, with the sum of the times of its micro-batches if
        all are there.
        """
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
        """Return a stamp whose time rises past midnight if it has no date: after 23:59:59 a stamp
        of 00:00:01 is on the next day.
        """
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
        self._others.close(is_end=True)
        return super().finish()

    def done(self, run: RunBuilder) -> None:
        """Set the step times by all clocks, and what follows from all records together."""
        records = run.training.ordered()
        found = self._timed(run, records)
        if self._qualified and found.kind == "seconds" and not found.is_certain:
            found.doubts.append(Note("form-time-assumed", {"label": f"“{self._qualified}”"}))
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
        if run.training is self.sorter.trainings[-1]:
            run.training.warnings += self._others.notes
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
        """Let a record after a gap cover as many steps as others: the printed time is not that of
        the steps that were cut out of the log.
        """
        for record in records:
            if (record.window or 1) > FAR * self.form.stride:
                record.window = self.form.stride

    def _timed(self, run: RunBuilder, records: Sequence[Record]) -> Timed:
        """Return the times of the steps of a training; if only a mean of times or losses is
        printed, it is used instead.
        """
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
            batch=self._stated_alike("global_batch_size"),
        )
        if are_means and found.kind == "seconds" and not found.is_certain:
            found.doubts.append(Note("form-average-assumed"))
        return found

    def _stated_alike(self, name: str) -> float | None:
        """Return a setting that all lines print alike; None without one."""
        values = self._settings.get(name, ())
        return next(iter(values)) if len(values) == 1 else None

    def _state_sizes(self, run: RunBuilder) -> None:
        """State the settings that are equal in all lines, and the GPUs that follow from their
        rates.
        """
        line, text = self.form.example
        self._gpus.state_in(run.stated, line)
        for name in self._settings:
            value = self._stated_alike(name)
            if value is not None and (size := whole(value)):
                state(run.stated, name, size, text, line)

    def _put_utilization(self, records: Sequence[Record]) -> None:
        """Set MFU in percent: if none exceeds 1 and none has a % sign, they are shares, and 0.42 is
        42%.
        """
        if self._has_percent:
            return
        shares = [record.native.get("mfu_percent") for record in records]
        if max((share for share in shares if share is not None), default=0.0) <= 1.0:
            for record, share in zip(records, shares, strict=True):
                if share is not None:
                    record.native["mfu_percent"] = round(100 * share, 6)


def _timing(found: Timed) -> Timing:
    """Return the scope of a step time: unknown for printed ones, or from one record to the next."""
    if found.kind in ("stamp", "elapsed_seconds"):
        return Timing(
            kind="stamps",
            clock="time stamps of the log" if found.kind == "stamp" else "time since the start",
            covers="all between two records",
            over_ranks="unknown",
        )
    return FormReader.timing


def interpretations(lines: Callable[[], Iterable[Line]]) -> list[Interpretation]:
    """Return the trainings of a text, read by the form of its lines; none if no form recurs.

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
