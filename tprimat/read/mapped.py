"""Reader of tables whose columns the user maps (--columns), and of text lines that the user
describes (--pattern).

tprimat read metrics.csv --columns step=iteration,time=step_time_s,loss=nll
tprimat read train.log --pattern 'step {step} .* {time}ms .* loss {loss}'
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tprimat.errors import UsageError
from tprimat.notes import Note
from tprimat.read import wandb_offline
from tprimat.read.parsing.events import STAMPED_WITHIN
from tprimat.read.parsing.grouping import number_ranks, optimizer_steps, set_interval_times
from tprimat.read.parsing.nearest import LFS_POINTER
from tprimat.read.parsing.notebook import printed_text
from tprimat.read.parsing.parsed_log import FileFormat, InputFile, ParsedLog, each_of
from tprimat.read.parsing.printed import (
    DURATIONS,
    NUMBER,
    PER_SECOND,
    PERCENT,
    RATES,
    Printed,
    pattern_of,
    printed,
    unit_beside,
)
from tprimat.read.parsing.records import (
    LogContext,
    LoggedTraining,
    Record,
    set_times,
    set_windows,
)
from tprimat.read.parsing.remarks import no_step_times
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.sequencer import RecordSequencer
from tprimat.read.parsing.step_lines import LEAST_DIGITS, StepReader
from tprimat.read.parsing.text import Line, first_stamp, lines
from tprimat.read.parsing.values import count, flat, json_object, state, times, whole, whole_ratio
from tprimat.results.account import Timing
from tprimat.results.outcome import ending_of, outcome_of
from tprimat.text import plain

ColumnNames = Mapping[str, str]
"""Names of columns, by the figures in them."""

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
"""What a column can be, and its name in a record: `micro_step` counts micro-batches, `time` is that
of a step, `interval` that of all steps since the record before, `elapsed` that since the start, in
s.
"""

TIMING = Timing(
    clock="unknown: the user chose the column",
    covers="unknown: the file has the figure alone",
    over_ranks="unknown",
)

LONGEST = 2_000
"""Characters of a line in which a pattern is looked for."""

_FIELD = re.compile(r"\{([^{}]*)\}")
_GAP = re.compile(r"(?:\\s\+)?\\\.\\\*(?:\\s\+)?")
_SCALE = re.compile(r"\A[kKMGB](?![A-Za-z])")


class LinePattern(dict[str, str]):
    """The columns of text lines, each with its own name, and a regular expression for each piece
    between two .*
    """

    def __init__(self, text: str) -> None:
        """Parse a text such as 'step {step} .* {time}ms': there, and after (ms), the time is in
        milliseconds.

        A space is any white space.

        Raises UsageError for another text.
        """
        first, *parts = _FIELD.split(text.strip())
        names = parts[::2]
        _check("--pattern", names, "{step} and another value, such as 'step {step} .* loss {loss}'")
        super().__init__(zip(names, names, strict=True))
        self.text = text
        self.units = dict[str, str]()
        expression = _literal(first)
        before = first
        for name, behind in zip(names, parts[1::2], strict=True):
            self.units[name] = unit_beside(name, before, behind)
            before = behind
            # The K of {tokens_per_second}K belongs to the number.
            behind = behind if name == "step" else _SCALE.sub("", behind)
            gap = r"\s*" if name in DURATIONS and behind[:2].lower() == "ms" else ""
            expression += f"{pattern_of(name)}{gap}{_literal(behind)}"
        pieces = _GAP.split(expression)
        # A number at the start of a piece isn't the end of a longer one, or of a name.
        begins = (r"(?<![\w.,])" if piece.startswith("(") else "" for piece in pieces)
        self._pieces = [
            re.compile(begin + piece, re.IGNORECASE)
            for begin, piece in zip(begins, pieces, strict=True)
        ]

    def cells(self, text: str) -> dict[str, str] | None:
        """Return the values of a line that has all of them; None for another one."""
        values = list[str]()
        end = 0
        text = text[:LONGEST]
        for piece in self._pieces:
            # Each piece is looked for after the one before it, once: the time stays linear in the
            # line's length.
            if (match := piece.search(text, end)) is None:
                return None
            values += match.groups()
            end = match.end()
        if end == LONGEST:
            # A number that ends there may go on.
            return None
        return dict(zip(self, values, strict=True))


def _literal(text: str) -> str:
    return r"\s+".join(map(re.escape, re.split(r"\s+", text)))


_RATE = r"tok(?:en)?s?(?:/s(?:ec)?|[ _]per[ _]sec(?:ond)?)\b(?![/_]|[ ]per\b)"
_LABELS = re.compile(
    r"\b(?:(?P<step>(?:global[ _])?(?:step|iter(?:ation)?))|(?P<loss>(?:train["
    r" _])?loss)|(?P<lr>lr|learning[ _]rate)"
    r"|(?P<grad_norm>grad[ _]norm)|(?P<time>(?:(?:step|iter(?:ation)?)[ _])?time|dt|took)"
    rf"|(?P<tokens_per_second>{_RATE}))(?P<gap> ?[:=]? ?)"
    rf"({NUMBER})(?!\.?\d)(?P<unit> ?(?:ms|s)\b)?|(?<![\w.,])({NUMBER})(?!\.?\d)(?P<rate> ?{_RATE})"
    rf"|(?:(?<=[\d|,;)\]] )|(?<=\dms ))({NUMBER})(?!\.?\d)(?P<bare> ?(?:ms|m?s/(?:step|it(?:er)?))\b(?!/))",
    re.IGNORECASE,
)


def suggested(text: str) -> str:
    """Return a pattern for lines such as this one; empty if no step and other value is found in
    it.
    """
    pieces = dict[str, str]()
    matches = [*_LABELS.finditer(text[:LONGEST])]
    times = [match for match in matches if match["time"] or match["bare"]]
    for match in matches:
        names = ("step", "loss", "lr", "grad_norm", "time")
        if match["bare"]:
            value = "time"
        else:
            value = next((name for name in names if match[name]), "tokens_per_second")
        # A time without a label is the step's if no other one may be.
        if value != "time" or match["unit"] or (match["bare"] and times == [match]):
            unit = match["unit"] or match["bare"] if value == "time" else match["rate"] or ""
            pieces.setdefault(value, f"{match[value] or ''}{match['gap'] or ''}{{{value}}}{unit}")
    if "step" in pieces and len(pieces) > 1:
        return " .* ".join(pieces.values())
    return ""


def columns(text: str) -> ColumnNames:
    """Return the columns that an option such as step=iteration,time=step_time_s maps to VALUES.

    Raises UsageError for another text.
    """
    pairs = []
    for value, _, column in (each.partition("=") for each in text.split(",")):
        pairs.append((value.strip(), column.strip()))
    if broken := next(
        (each for each, (_, column) in zip(text.split(","), pairs, strict=True) if not column), None
    ):
        raise _wrong(f"--columns: {broken.strip()!r} is not VALUE=COLUMN")
    _check("--columns", [value for value, _ in pairs], "step=COLUMN and another value")
    return dict(pairs)


def given(columns_: str | None, pattern: str | None) -> ColumnNames | None:
    """Return what the options --columns and --pattern map. Raises UsageError for both."""
    if columns_ is not None and pattern is not None:
        raise _wrong("--columns is for tables, --pattern for text logs: use one of them")
    if pattern is not None:
        return LinePattern(pattern)
    if columns_ is None:
        return None
    return columns(columns_)


STATED = ("columns", "pattern")
"""Where source.given has the texts of these options."""


def stated(named: ColumnNames | None) -> dict[str, bool | int | str]:
    """Return the text of the option that maps these columns, as source.given has it; the inverse of
    given().
    """
    if isinstance(named, LinePattern):
        return {"pattern": named.text}
    if named:
        return {"columns": ",".join(f"{value}={column}" for value, column in named.items())}
    return {}


def _check(option: str, values: Sequence[str], needed: str) -> None:
    """Raise UsageError for unknown or repeated values, and where any but the step is missing."""
    for value in values:
        if value not in VALUES:
            raise _wrong(f"{option}: unknown value {value!r}")
        if values.count(value) > 1:
            raise _wrong(f"{option}: {value} occurs twice")
    if not {*values} - {"step", "micro_step"}:
        raise _wrong(f"{option} needs {needed}")
    if "micro_step" in values and "step" not in values:
        raise _wrong(f"{option}: micro_step needs step, of which it counts the micro-batches")


def _wrong(problem: str) -> UsageError:
    return UsageError(problem, hint=f"values: {', '.join(VALUES)}", heading="wrong-usage")


def file_format(named: ColumnNames) -> FileFormat:
    """Return the format of files with these columns."""
    title = "a log of --pattern" if isinstance(named, LinePattern) else "a table of --columns"
    return FileFormat("table", title, lambda _: True, each_of(lambda part, _: _read(part, named)))


def _read(part: InputFile, named: ColumnNames) -> list[ParsedLog]:
    """Return the runs of a table: where steps begin again, a log's rules say whether that is
    another one.

    Raises ValueError if it lacks a column, or has no row with a step.
    """
    head = part.stream.read(len(LFS_POINTER))
    part.stream.seek(0)
    if head == LFS_POINTER.encode():
        raise ValueError("it is a Git LFS pointer: git lfs pull in its repository fetches the file")
    found = _Found(named)
    rest = LogContext()
    if isinstance(named, LinePattern):
        reader = _LineReader(named, found)
        printed = printed_text(part.stream)
        chunks = iter(lambda: part.stream.read(1 << 16), b"")
        for line in lines(chunks if printed is None else [printed.encode()]):
            reader.feed(line)
        rest = reader.sorter.pending
    else:
        for number, row in _rows(part, named.values()):
            cells = {value: row[column] for value, column in named.items()}
            found.add(cells, Line(number, "", True), LogContext())
    trainings = found.trainings(rest)
    if not trainings and isinstance(named, LinePattern):
        raise ValueError("no line of it has them all")
    if not trainings:
        raise ValueError(f"column {named.get('step')} has no whole number")
    return [_built(training, found) for training in trainings]


class _LineReader(StepReader):
    """Reader of the lines of a pattern, which are kept until the log is over."""

    def __init__(self, named: LinePattern, found: _Found) -> None:
        super().__init__()
        self._named = named
        self._found = found

    def feed(self, line: Line) -> None:
        """Take the next line."""
        if not self.torn.read(line, self.take):
            self.other(line)

    def take(self, line: Line) -> bool:
        """Read a line if it has all values."""
        cells = self._named.cells(line.text)
        if cells is None or not self._found.add(cells, line, self.sorter.pending):
            return False
        self.sorter.pending = LogContext()
        return True


class _Found:
    """The records of a table or of the lines of a pattern, in the order of the file.

    Attributes:
        named: the columns.
        micro_batches: lines that are a micro-batch each.
        is_coarse: whether a rate has too few digits to be converted to a time.
        is_rounded: whether tokens of a step are printed in thousands or millions.
    """

    def __init__(self, named: ColumnNames) -> None:
        self.named = named
        self.micro_batches = 0
        self.is_coarse = self.is_rounded = False
        self._rows = list[tuple[Record, LogContext]]()
        if isinstance(named, LinePattern):
            self._units = named.units
        else:
            self._units = {value: unit_beside(value, column) for value, column in named.items()}

    def add(self, cells: Mapping[str, object], line: Line, around: LogContext) -> bool:
        """Add a row and what stands before it; return False for one without a step."""
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
        """Set a value of a record; return its name there if it has digits enough for a quotient."""
        unit = found.unit or self._units[value]
        name = VALUES[value]
        figure = found.figure
        if unit == PER_SECOND:
            name = "steps_per_second"
        elif value == "mfu" and unit != PERCENT:
            name = "mfu"
        elif unit and unit != PERCENT:
            figure = times(figure, unit)
        if value == "tokens":
            self.is_rounded |= found.is_rounded
        # Negative where the peak of the GPU is unknown.
        if value != "mfu" or figure >= 0:
            record.put(name, figure)
        is_count = value in ("batch", "tokens") and not found.is_rounded
        return name if is_count or found.digits >= LEAST_DIGITS else ""

    def _set_time_by_rate(self, record: Record, exact: set[str]) -> None:
        """Set the time of a step by the first of its rates if nothing else gives one."""
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
        """Return the trainings, given what stands after the last row."""
        rows = self._rows
        if "micro_step" in self.named:
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
"""Rates, by what a step has of it: a step itself, its samples, its tokens."""


def _set_step_times(training: LoggedTraining, named: ColumnNames) -> None:
    """Set the windows of records, and the times of steps by other times if none are printed."""
    records = training.ordered()
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


def _state_sizes(training: LoggedTraining, found: _Found) -> None:
    """State what the printed values say of a step and of the GPUs, if they agree on all lines."""
    records = training.ordered()
    stated = training.around.stated
    line = records[0].line
    native = [record.native for record in records]
    batches = {values["samples_per_step"] for values in native if "samples_per_step" in values}
    if len(batches) > 1:
        text = f"{min(batches):g} to {max(batches):g}"
        state(stated, "global_batch_size", text, f"batch: {text}", line)
    elif batches:
        size = batches.pop()
        state(stated, "global_batch_size", count(size), f"batch: {size:g}", line)
        for values in native:
            values.pop("samples_per_step", None)
    tokens = {values["tokens_per_step"] for values in native if "tokens_per_step" in values}
    if len(tokens) == 1 and "tokens" in found.named and not found.is_rounded:
        state(stated, "tokens_per_step", count(tokens.pop()), line=line)
    ratios = {values.pop("num_gpus") for values in native if "num_gpus" in values}
    if len(ratios) == 1:
        gpus = int(ratios.pop())
        text = f"tokens_per_second / tokens_per_second_per_gpu = {gpus}"
        state(stated, "num_gpus", gpus, text, line, weight=0)


def _set_derived(records: Sequence[Record]) -> None:
    """Set the tokens of a step by its rate and time, and utilizations in percent."""
    is_percent = any(record.native.get("mfu", 0.0) > 1 for record in records)
    for record in records:
        if is_percent and "mfu" in record.native:
            record.native["mfu_percent"] = record.native.pop("mfu")
        rate = record.native.get("tokens_per_second")
        if record.seconds and rate and "tokens_per_step" not in record.native:
            record.put("tokens_per_step", rate * record.seconds)


def _built(training: LoggedTraining, found: _Found) -> ParsedLog:
    named = found.named
    _set_step_times(training, named)
    records = training.ordered()
    _state_sizes(training, found)
    _set_derived(records)
    if "step" not in named:
        training.warnings.append(Note("records-numbered", {"count": len(records)}))
    if isinstance(named, LinePattern):
        noun = "log"
        option = "--pattern"
    else:
        noun = "table"
        option = "--columns"
    shift = 0 if records[0].step else 1
    ends = f"{noun} ends at step {records[-1].step + shift}"
    why = f"; {option} reads neither the planned steps nor a normal end"
    cause = training.around.causes.cause()
    if cause is not None:
        why = f": {cause.sentence}"
    if found.is_coarse:
        untimed = "the printed rate has too few digits"
    elif found.micro_batches:
        untimed = "some micro-batches are not logged, and a step's time is the sum of theirs"
    else:
        untimed = f"{option} takes them as time, time_ms, interval, elapsed or steps_per_second"
    notes: tuple[str, ...] = ()
    if found.micro_batches:
        notes = (f"{found.micro_batches} micro-batches form {len(records)} optimizer steps",)
    return RunBuilder(
        "own",
        f"{'text' if noun == 'log' else noun} ({option})",
        training,
        TIMING,
        shift=shift,
        unknown={"step_times": no_step_times(untimed)},
        fixed=outcome_of(ending_of(cause=cause), f"{ends}{why}"),
        notes=notes,
    ).reading()


def _rows(part: InputFile, needed: Iterable[str]) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Yield rows by column, with their line; cells of a nested object have dotted names. Raises
    ValueError.
    """
    head = part.stream.read(1 << 12).lstrip(b"\xef\xbb\xbf \t\r\n")
    part.stream.seek(0)
    rows: Iterable[tuple[int, Mapping[str, object]]] = part.table()
    if head.startswith(b"{"):
        rows = _objects(part)
    elif wandb_offline.recognizes(head):
        rows = wandb_offline.history(part.stream)
    # In JSON lines, other records (settings, evaluations) stand between those of steps.
    empty = dict.fromkeys(needed)
    columns = dict[str, None]()
    absent = list(empty)
    for line, row in rows:
        if absent:
            columns.update(itertools.islice(dict.fromkeys(row).items(), max(0, 20 - len(columns))))
            absent = [name for name in absent if name not in row]
        yield line, {**empty, **row}
    if absent and columns:
        raise ValueError(f"it has no column {absent[0]!r}; columns: {plain(', '.join(columns))}")


def _objects(part: InputFile) -> Iterator[tuple[int, Mapping[str, object]]]:
    for line, text in enumerate(part.lines(), start=1):
        if (found := json_object(text.decode("utf-8-sig", errors="replace"))) is not None:
            yield line, dict(flat(found))
