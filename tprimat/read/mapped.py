"""Reader of tables whose columns the user maps (--columns), and of text lines that the user
describes (--pattern).

tprimat read metrics.csv --columns step=iteration,time=step_time_s,loss=nll
tprimat read train.log --pattern 'step {step} .* {time}ms .* loss {loss}'
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tprimat.errors import UsageError
from tprimat.read import wandb_offline
from tprimat.read.parsing.mapped_records import VALUES, MappedRecords, complete
from tprimat.read.parsing.nearest import LFS_POINTER
from tprimat.read.parsing.notebook import printed_text
from tprimat.read.parsing.parsed_log import FileFormat, InputFile, ParsedLog, each_of
from tprimat.read.parsing.printed import DURATIONS, SCALE, pattern_of, unit_beside
from tprimat.read.parsing.records import LogContext, LoggedTraining
from tprimat.read.parsing.remarks import no_step_times
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.step_lines import StepReader
from tprimat.read.parsing.text import Line, lines
from tprimat.read.parsing.torn import LEAST
from tprimat.read.parsing.values import flat, json_object
from tprimat.results.account import Timing
from tprimat.results.outcome import ending_of, outcome_of
from tprimat.text import join_names, plain

ColumnNames = Mapping[str, str]
"""Names of columns, by their values (VALUES)."""

TIMING = Timing(
    clock="unknown: the user chose the column",
    covers="unknown: the file has the figure alone",
    over_ranks="unknown",
)

LONGEST = 2_000
"""Characters of a line that a pattern is matched with."""

_DIGITS = re.compile(r"\d+")
_FIELD = re.compile(r"\{([^{}]*)\}")
_GAP = re.compile(r"(?:\\s\+)?\\\.\\\*(?:\\s\+)?")


class LinePattern(dict[str, str]):
    """The values that a --pattern names, each mapped to itself, and regular expressions for the
    pieces of the pattern between two `.*`.

    Attributes:
        text: the pattern.
        units: of its values, as unit_beside() returns them.
    """

    def __init__(self, text: str) -> None:
        """Parse a pattern such as 'step {step} .* {time}ms'. The time is in milliseconds there, and
        also after (ms). A space matches any white space.

        Raises UsageError for an invalid pattern.
        """
        parts = _FIELD.split(text.strip())
        names = parts[1::2]
        _check("--pattern", names, "{step} and another value, such as 'step {step} .* loss {loss}'")
        super().__init__(zip(names, names, strict=True))
        self.text = text
        self.units = dict[str, str]()
        expression = ""
        between = parts[0]
        for name, behind in zip(names, parts[2::2], strict=True):
            self.units[name] = unit_beside(name, between, behind)
            expression += _before_number(between) + pattern_of(name)
            # The K of {tokens_per_second}K belongs to the number.
            between = behind if name == "step" else SCALE.sub("", behind)
            if name in DURATIONS and between[:2].lower() == "ms":
                expression += r"\s*"
        expression += _literal(between)
        self._pieces = []
        for piece in _GAP.split(expression):
            # A number at the start of a piece must not be the end of a longer one, or of a name. A
            # word there is preferably a whole word: of train_wall=30 wall=60, wall={elapsed} is 60.
            begins = [r"(?<![\w.,])" if piece.startswith("(") else ""]
            if re.match(r"\w", piece):
                begins.insert(0, r"(?<!\w)")
            self._pieces.append([re.compile(begin + piece, re.IGNORECASE) for begin in begins])

    def values_in(self, text: str) -> tuple[list[str], bool]:
        """Return the values of a line, in the order of the pattern, up to the first piece that
        doesn't match, and whether all pieces match.
        """
        values = list[str]()
        end = 0
        for piece in self._pieces:
            # Each piece is searched once, after the one before it, so that the time is linear in
            # the length of the line. A number that ends at LONGEST may be cut off.
            found = (pattern.search(text, end, LONGEST) for pattern in piece)
            match = next(filter(None, found), None)
            if match is None or match.end() == LONGEST < len(text):
                return values, False
            values += match.groups()
            end = match.end()
        return values, True


def _literal(text: str) -> str:
    return r"\s+".join(map(re.escape, re.split(r"\s+", text)))


def _before_number(text: str) -> str:
    """Return the expression for the text before a number, which may be padded after a delimiter: [
    210/900] and [1000/900].
    """
    bare = text.rstrip()
    if bare.endswith(tuple("[(<:=|/,#")):
        return _literal(bare) + r"\s*"
    return _literal(text)


def columns(text: str) -> ColumnNames:
    """Return the columns that an option such as step=iteration,time=step_time_s maps to VALUES.

    Raises UsageError for an invalid text.
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
    """Return the columns that --columns or --pattern maps; None without either. Raises UsageError
    if both are given.
    """
    if columns_ is not None and pattern is not None:
        raise _wrong("--columns is for tables, --pattern for text logs: use one of them")
    if pattern is not None:
        return LinePattern(pattern)
    if columns_ is None:
        return None
    return columns(columns_)


STATED = ("columns", "pattern")
"""Keys of source.given with the texts of these options."""


def stated(named: ColumnNames | None) -> dict[str, bool | int | str]:
    """Return the option that maps these columns, by its key in source.given; the inverse of
    given().
    """
    if isinstance(named, LinePattern):
        return {"pattern": named.text}
    if named:
        return {"columns": ",".join(f"{value}={column}" for value, column in named.items())}
    return {}


def _check(option: str, values: Sequence[str], needed: str) -> None:
    """Raise UsageError for unknown or repeated values, or if there is none but the step."""
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
    """Return the runs of a table or a text: if steps begin again, the rules for logs decide whether
    that is another run.

    Raises ValueError if a column is missing, or no row or line has a step.
    """
    head = part.stream.read(len(LFS_POINTER))
    part.stream.seek(0)
    if head == LFS_POINTER.encode():
        raise ValueError("it is a Git LFS pointer: git lfs pull in its repository fetches the file")
    if isinstance(named, LinePattern):
        found = MappedRecords(named.units)
        reader = _LineReader(named, found)
        text = printed_text(part.stream)
        chunks = iter(lambda: part.stream.read(1 << 16), b"")
        for line in lines(chunks if text is None else [text.encode()]):
            reader.feed(line)
        trainings = found.trainings(reader.sorter.pending)
        lacking = f"no line of it has them all{reader.nearest}"
    else:
        units = {value: unit_beside(value, column) for value, column in named.items()}
        found = MappedRecords(units)
        for number, row in _rows(part, named.values()):
            cells = {value: row[column] for value, column in named.items()}
            found.add(cells, Line(number, "", True), LogContext())
        trainings = found.trainings(LogContext())
        lacking = "no row of it has a number in one of these columns"
        if "step" in named:
            lacking = f"column {named['step']} has no whole number"
    if not trainings:
        raise ValueError(lacking)
    return [_built(training, found, named) for training in trainings]


class _LineReader(StepReader):
    """Reader of the lines of a pattern, which `found` keeps until the end of the log.

    Attributes:
        nearest: what the line lacks that has most of the values, for the error if none has all.
    """

    def __init__(self, named: LinePattern, found: MappedRecords) -> None:
        super().__init__()
        self.nearest = ""
        self._named = named
        self._found = found
        self._most = 0
        self._text = ""
        self._alike: Counter[str] = Counter()

    def feed(self, line: Line) -> bool:
        """Take the next line; return whether it holds metrics.

        Lines that look torn in the same way several times are whole: 998.1ms, and then 1.02s.
        """
        self._text = line.text
        if self.torn.read(line, self.take):
            return True
        if line.whole and self._named.values_in(line.text)[1]:
            outline = _DIGITS.sub("0", line.text)
            self._alike[outline] += 1
            if self._alike[outline] >= LEAST and self.take(line):
                return True
        self.other(line)
        return False

    def take(self, line: Line) -> bool:
        """Read a line if it has all values."""
        parts = [line.text]
        if line.text != self._text:
            # The text behind a torn number belongs to another line.
            pairs = enumerate(zip(line.text, self._text, strict=False))
            begin = next(place for place, (one, two) in pairs if one != two)
            parts = [line.text[:begin], line.text[begin + 1 :]]
        for part in parts:
            values, is_whole = self._named.values_in(part)
            if is_whole:
                cells = dict(zip(self._named, values, strict=True))
                if self._found.add(cells, line, self.sorter.pending):
                    self.sorter.pending = LogContext()
                    return True
            elif len(values) > self._most:
                self._most = len(values)
                has = join_names([*self._named][: self._most])
                self.nearest = f": line {line.number} has {has}, but not what comes after"
        return False


def _built(training: LoggedTraining, found: MappedRecords, named: ColumnNames) -> ParsedLog:
    """Return the run of a training, with the reasons for its end and for unknown step times."""
    complete(training, found)
    records = training.ordered()
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
    """Yield the line number of each row, and its cells by column; those of a nested object have
    dotted names. Raises ValueError if a column is missing in all rows.
    """
    head = part.stream.read(1 << 12).lstrip(b"\xef\xbb\xbf \t\r\n")
    part.stream.seek(0)
    rows: Iterable[tuple[int, Mapping[str, object]]] = part.table()
    if head.startswith(b"{"):
        rows = _objects(part)
    elif wandb_offline.recognizes(head):
        rows = wandb_offline.history(part.stream)
    # In JSON lines, other records (settings, evaluations) lie between those of steps.
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
