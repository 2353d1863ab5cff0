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
from tprimat.read.parsing.events import STAMPED_WITHIN
from tprimat.read.parsing.failures import FailureReasons
from tprimat.read.parsing.parsed_log import FileFormat, InputFile, ParsedLog, each_of
from tprimat.read.parsing.records import LoggedTraining, Record, set_times
from tprimat.read.parsing.remarks import no_step_times
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.sequencer import RecordSequencer
from tprimat.read.parsing.text import Stamp, first_stamp, lines
from tprimat.read.parsing.values import flat, json_object, whole
from tprimat.results.account import Timing
from tprimat.results.outcome import Cause, ending_of, outcome_of
from tprimat.text import plain

ColumnNames = Mapping[str, str]
"""Names of columns, by the figures in them."""

VALUES = {
    "step": "",
    "time": "seconds",
    "time_ms": "milliseconds",
    "elapsed": "elapsed_seconds",
    "loss": "loss",
    "lr": "learning_rate",
    "grad_norm": "grad_norm",
    "tokens_per_second": "tokens_per_second",
    "tokens_per_second_per_gpu": "tokens_per_second_per_gpu",
}
"""What a column can be, and its name in a record: `time` of a step in s, `elapsed` since the start
in s.
"""

TIMING = Timing(
    clock="unknown: the user chose the column",
    covers="unknown: the file has the figure alone",
    over_ranks="unknown",
)

LONGEST = 2_000
"""Characters of a line in which a pattern is looked for."""

_NUMBER = r"([-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d+(?:\.\d*)?(?:e[-+]?\d+)?|nan|inf))(?!\.?\d)"
_FIELD = re.compile(r"\{([^{}]*)\}(?=(\s*m(?:s|secs?|illi\w*)\b)?)", re.IGNORECASE)
_IN_MS = re.compile(r"[(\[_]ms\W*\Z", re.IGNORECASE)
_GAP = re.compile(r"(?:\\s\+)?\\\.\\\*(?:\\s\+)?")


class LinePattern(dict[str, str]):
    """The columns of text lines, each with its own name, and a regular expression for each piece
    between two .*
    """

    stamp: Stamp | None = None
    """Of the last line that rows() yielded."""

    def __init__(self, text: str) -> None:
        """Parse a text such as 'step {step} .* {time}ms': there, and after (ms), the time is in
        milliseconds.

        A space is any white space.

        Raises UsageError for another text.
        """
        fields = (
            (field[1], field[2] or _IN_MS.search(text[: field.start()]))
            for field in _FIELD.finditer(text)
        )
        names = ["time_ms" if name == "time" and unit else name for name, unit in fields]
        _check("--pattern", names, "{step} and another value, such as 'step {step} .* loss {loss}'")
        super().__init__(zip(names, names, strict=True))
        self.text = text
        literals = (
            r"\s+".join(map(re.escape, re.split(r"\s+", piece)))
            for piece in _FIELD.split(text.strip())[::3]
        )
        pieces = _GAP.split(_NUMBER.join(literals).replace(f"{_NUMBER}ms", rf"{_NUMBER}\s*ms"))
        # A number at the start of a piece isn't the end of a longer one, or of a name.
        begins = (r"(?<![\w.,])" if piece.startswith(_NUMBER) else "" for piece in pieces)
        self._pieces = [
            re.compile(begin + piece, re.IGNORECASE)
            for begin, piece in zip(begins, pieces, strict=True)
        ]

    def rows(self, part: InputFile) -> Iterator[tuple[int, Mapping[str, str]]]:
        """Yield the values of the lines that have all of them, with their line; what others tell is
        in `causes`.
        """
        self.causes = FailureReasons()
        for line in lines(iter(lambda: part.stream.read(1 << 16), b"")):
            values = list[str]()
            end = 0
            text = line.text[:LONGEST]
            for piece in self._pieces:
                # Each piece is looked for after the one before it, once: the time stays linear in
                # the line's length.
                if (match := piece.search(text, end)) is None:
                    self.causes.feed(line.number, text)
                    break
                values = [*values, *match.groups()]
                end = match.end()
            else:
                # A file that ends within a number has a part of it.
                if line.whole or end < len(text):
                    self.causes = FailureReasons()
                    self.stamp = first_stamp(text[:STAMPED_WITHIN])
                    yield line.number, dict(zip(self, values, strict=True))


_RATE = r"tok(?:en)?s?(?:/s(?:ec)?|[ _]per[ _]sec(?:ond)?)\b(?![/_]|[ ]per\b)"
_LABELS = re.compile(
    r"\b(?:(?P<step>(?:global[ _])?(?:step|iter(?:ation)?))|(?P<loss>(?:train["
    r" _])?loss)|(?P<lr>lr|learning[ _]rate)"
    r"|(?P<grad_norm>grad[ _]norm)|(?P<time>(?:(?:step|iter(?:ation)?)[ _])?time|dt|took)"
    rf"|(?P<tokens_per_second>{_RATE}))(?P<gap> ?[:=]? ?)"
    rf"{_NUMBER}(?P<unit> ?(?:ms|s)\b)?|(?<![\w.,]){_NUMBER}(?P<rate> ?{_RATE})"
    rf"|(?:(?<=[\d|,;)\]] )|(?<=\dms )){_NUMBER}(?P<bare> ?(?:ms|m?s/(?:step|it(?:er)?))\b(?!/))",
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
    """Raise UsageError for unknown or repeated values, and where the step or any other value is
    missing.
    """
    for value in values:
        if value not in VALUES:
            raise _wrong(f"{option}: unknown value {value!r}")
        if values.count(value) > 1:
            raise _wrong(f"{option}: {value} occurs twice")
    if "step" not in values or len(values) < 2:
        raise _wrong(f"{option} needs {needed}")


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
    sorter = RecordSequencer()
    for line, row in (
        named.rows(part) if isinstance(named, LinePattern) else _rows(part, named.values())
    ):
        step = whole(row[named["step"]])
        if step is None:
            continue
        record = Record(step, line, window=1, stamp=getattr(named, "stamp", None))
        for value, column in named.items():
            if VALUES[value]:
                record.put(VALUES[value], row[column])
        sorter.take(record)
    trainings = sorter.finish()
    if not trainings and isinstance(named, LinePattern):
        raise ValueError("no line of it has them all")
    if not trainings:
        raise ValueError(f"column {named['step']} has no whole number")
    *former, last = trainings
    cause = named.causes.cause() if isinstance(named, LinePattern) else None
    return [*(_built(training, named) for training in former), _built(last, named, cause)]


def _built(training: LoggedTraining, named: ColumnNames, cause: Cause | None = None) -> ParsedLog:
    records = training.ordered()
    if not {"time", "time_ms"} & named.keys() and "elapsed" in named:
        set_times(records)
    for record in records:
        if record.seconds and (rate := record.native.get("tokens_per_second")):
            record.put("tokens_per_step", rate * record.seconds)
    if isinstance(named, LinePattern):
        noun = "log"
        option = "--pattern"
    else:
        noun = "table"
        option = "--columns"
    shift = 0 if records[0].step else 1
    ends = f"{noun} ends at step {records[-1].step + shift}"
    why = f"; {option} reads neither the planned steps nor a normal end"
    if cause is not None:
        why = f": {cause.sentence}"
    return RunBuilder(
        "own",
        f"{'text' if noun == 'log' else noun} ({option})",
        training,
        TIMING,
        shift=shift,
        rate=None,
        unknown={"step_times": no_step_times(f"{option} takes them as time, time_ms or elapsed")},
        fixed=outcome_of(ending_of(cause=cause), f"{ends}{why}"),
    ).reading()


def _rows(part: InputFile, needed: Iterable[str]) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Yield rows by column, with their line; cells of a nested object have dotted names. Raises
    ValueError.
    """
    first = part.stream.read(1 << 12).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    part.stream.seek(0)
    rows: Iterable[tuple[int, Mapping[str, object]]] = (
        _objects(part) if first == b"{" else part.table()
    )
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
