"""Reader of any table, CSV with a header or a JSON object per line, whose columns the user names: --columns.

tprimat read metrics.csv --columns step=iteration,time=step_time_s,loss=nll
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

from tprimat.errors import UsageError
from tprimat.read.parsing.parsed_log import FileFormat, InputFile, ParsedLog, each_of
from tprimat.read.parsing.records import LoggedTraining, Record, set_times
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.sequencer import RecordSequencer
from tprimat.read.parsing.values import json_object, whole
from tprimat.results.account import Timing
from tprimat.text import plain

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
"""What a column can be, and its name in a record: `time` of a step in s, `elapsed` since the start in s."""

TIMING = Timing(
    clock="unknown: the user named the column", covers="unknown: the file has the figure alone", over_ranks="unknown"
)


def columns(text: str) -> Mapping[str, str]:
    """Return the columns that an option such as step=iteration,time=step_time_s names, by VALUES.

    Raises UsageError for another text.
    """
    pairs = [tuple(part.strip() for part in each.split("=", 1)) for each in text.split(",")]
    named = {pair[0]: pair[-1] for pair in pairs}
    if broken := next((pair for pair in pairs if len(pair) < 2 or not pair[1]), None):
        problem = f"--columns: {'='.join(broken)!r} is not VALUE=COLUMN"
    elif unknown := next((value for value in named if value not in VALUES), None):
        problem = f"--columns: unknown value {unknown!r}"
    elif "step" not in named or len(named) < 2:
        problem = "--columns needs step=COLUMN and another value"
    else:
        return named
    raise UsageError(problem, hint=f"values: {', '.join(VALUES)}", heading="wrong-usage")


def file_format(named: Mapping[str, str]) -> FileFormat:
    """Return the format of files with these columns."""
    return FileFormat("table", "a table of --columns", lambda _: True, each_of(lambda part, _: _read(part, named)))


def _read(part: InputFile, named: Mapping[str, str]) -> list[ParsedLog]:
    """Return the trainings of a table: where steps begin anew, a log's rules say whether that is another one.

    Raises ValueError where it lacks a column, or has no row with a step.
    """
    sorter = RecordSequencer()
    for line, row in _rows(part, named.values()):
        step = whole(row[named["step"]])
        if step is None:
            continue
        record = Record(step, line, window=1)
        for value, column in named.items():
            if VALUES[value]:
                record.put(VALUES[value], row[column])
        sorter.take(record)
    trainings = sorter.finish()
    if not trainings:
        raise ValueError(f"column {named['step']} has no whole number")
    return [_built(training, named) for training in trainings]


def _built(training: LoggedTraining, named: Mapping[str, str]) -> ParsedLog:
    records = training.ordered()
    if not {"time", "time_ms"} & named.keys() and "elapsed" in named:
        set_times(records)
    return RunBuilder(
        "own",
        "table (--columns)",
        training,
        TIMING,
        shift=0 if records[0].step else 1,
        rate=None,
        unknown={"step_times": "no step times: --columns names no time"},
    ).reading()


def _rows(part: InputFile, needed: Iterable[str]) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Yield rows by column, with their line; cells of a nested object have dotted names. Raises ValueError."""
    first = part.stream.read(1 << 12).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    part.stream.seek(0)
    rows: Iterable[tuple[int, Mapping[str, object]]] = _objects(part) if first == b"{" else part.table()
    # In JSON lines, other records (settings, evaluations) stand between those of steps.
    empty, columns = dict.fromkeys(needed), dict[str, None]()
    absent = list(empty)
    for line, row in rows:
        if absent:
            columns.update(itertools.islice(dict.fromkeys(row).items(), max(0, 20 - len(columns))))
            absent = [name for name in absent if name not in row]
        yield line, {**empty, **row}
    if absent and columns:
        raise ValueError(f"it has no column {absent[0]!r}; columns: {plain(', '.join(columns))}")


def _objects(part: InputFile) -> Iterator[tuple[int, Mapping[str, object]]]:
    for line, text in enumerate(part.stream, start=1):
        if (found := json_object(text.decode("utf-8-sig", errors="replace"))) is not None:
            yield line, dict(_flat(found))


def _flat(found: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    for name, value in found.items():
        if isinstance(value, dict) and before.count(".") < 8:
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
