"""Comparison -> the steps of all its runs as one table: a DataFrame, CSV, JSON lines or Parquet."""

from __future__ import annotations

import bisect
import csv
import dataclasses
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tprimat.compare import Comparison, RunResult
from tprimat.errors import missing_package
from tprimat.report.rates import counted_records
from tprimat.text import for_encoding

if TYPE_CHECKING:
    import pandas

Kind = Literal["text", "integer", "number", "flag"]
Table = dict[str, list[Any]]
"""The values of each column."""


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of the table: its name, what its values are, and what they mean."""

    name: str
    kind: Kind
    text: str


COLUMNS = (
    Column("model", "text", "model"),
    Column("system", "text", "system, by its name in a comparison of the same files"),
    Column("run", "integer", "number of the run within its system, from 1"),
    Column("status", "text", "`complete`, `incomplete` or `failed`"),
    Column("step", "integer", "optimizer step, from 1"),
    Column("window_steps", "integer", "steps that the row averages; 1 if each step was timed"),
    Column("step_time_seconds", "number", "wall time of one step, s"),
    Column("loss", "number", "loss, nats/token"),
    Column("learning_rate", "number", "learning rate"),
    Column("grad_norm", "number", "global gradient norm before clipping"),
    Column(
        "is_steady",
        "flag",
        "whether the metrics use the step: after the warm-up, timed, not profiled",
    ),
    Column(
        "segment",
        "integer",
        "number of the segment between two change points, from 1; empty before the first",
    ),
    Column("log_line", "integer", "line of the log"),
    Column("file", "text", "result or log that contains the run"),
)
"""One row per system, run and record; names and meanings are stable."""

_NAMES = [column.name for column in COLUMNS]


def columns(comparison: Comparison) -> Table:
    """Return the values of each of COLUMNS; None for an unknown value."""
    table: Table = {name: [] for name in _NAMES}
    for model in comparison.models:
        for system in model.systems:
            for number, result in enumerate(system.runs, start=1):
                fixed = {
                    "model": model.model,
                    "system": system.name,
                    "run": number,
                    "status": result.run.status,
                    "file": for_encoding(result.file, "utf-8"),
                }
                for name, value in fixed.items():
                    table[name] += [value] * len(result.run.steps)
                for name, values in _series(result).items():
                    table[name] += values
    return table


def _series(result: RunResult) -> Table:
    run = result.run
    starts = [segment.first_step for segment in result.summary.segments]
    is_steady: list[bool] = []
    segments: list[int | None] = []
    has_steady = result.summary.steady.last_step is not None
    for is_counted, step, time in zip(
        counted_records(result), run.steps, run.step_times, strict=True
    ):
        is_steady.append(has_steady and is_counted and time is not None)
        segments.append(bisect.bisect_right(starts, step) or None if is_steady[-1] else None)
    return {
        "step": list(run.steps),
        "window_steps": list(run.window_steps),
        "step_time_seconds": list(run.step_times),
        "loss": list(run.loss_values),
        "learning_rate": list(run.learning_rates),
        "grad_norm": list(run.grad_norms),
        "is_steady": is_steady,
        "segment": segments,
        "log_line": list(run.lines),
    }


def data_frame(comparison: Comparison) -> pandas.DataFrame:
    """Return the table with a type for each column, nullable if a whole number may be unknown.

    Raises UsageError without pandas.
    """
    try:
        import pandas
    except ModuleNotFoundError:
        raise missing_package("pandas", "pip install pandas", "steps()") from None
    types = {"text": "string", "integer": "Int64", "number": "float64", "flag": "bool"}
    table = columns(comparison)
    series = {}
    for column in COLUMNS:
        series[column.name] = pandas.Series(table[column.name], dtype=types[column.kind])
    return pandas.DataFrame(series)


def csv_text(comparison: Comparison) -> bytes:
    """Return the table as CSV with a header; unknown values are empty. page.js writes the HTML
    page's table in the same way.
    """
    return table_as_csv(_NAMES, _rows(comparison))


def table_as_csv(header: Sequence[str], rows: Iterable[Iterable[Any]]) -> bytes:
    """Return rows as CSV below their header; unknown values are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(map(_no_formula, row) for row in rows)
    return text.getvalue().encode()


def _no_formula(value: Any) -> Any:
    """Return a value that a spreadsheet doesn't take for a formula: a text that begins like one
    gets an apostrophe.
    """
    if isinstance(value, str) and value.startswith(tuple("=+-@\t\r＝＋－＠")):
        return f"'{value}"
    return value


def json_lines(comparison: Comparison) -> bytes:
    """Return one JSON object per row; unknown values are null."""
    rows = (dict(zip(_NAMES, row, strict=True)) for row in _rows(comparison))
    return msgspec.json.Encoder().encode_lines(rows)


def parquet(comparison: Comparison) -> bytes:
    """Return the table as a Parquet file. Raises UsageError without pyarrow."""
    try:
        import pyarrow
        from pyarrow import parquet as writer
    except ModuleNotFoundError:
        raise missing_package("pyarrow", "pip install pyarrow", "--parquet") from None
    types = {
        "text": pyarrow.string(),
        "integer": pyarrow.int64(),
        "number": pyarrow.float64(),
        "flag": pyarrow.bool_(),
    }
    table = columns(comparison)
    arrays = {}
    for column in COLUMNS:
        arrays[column.name] = pyarrow.array(table[column.name], type=types[column.kind])
    content = io.BytesIO()
    writer.write_table(pyarrow.table(arrays), content)
    return content.getvalue()


def _rows(comparison: Comparison) -> Iterator[tuple[Any, ...]]:
    table = columns(comparison)
    return zip(*(table[name] for name in _NAMES), strict=True)
