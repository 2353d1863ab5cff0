"""Reader of CSV exports of Weights & Biases: the history of a run, and the data of a chart with a
column per run.

_step,_runtime,_timestamp,train/loss,train/learning_rate,train/global_step
0,11.5,1700000001.5,1.99,1e-05,1

"Step","h100-run - train/step_time","h100-run - train/step_time__MIN","h100-run -
train/step_time__MAX" "1","0.52","0.52","0.52"

A history without a step time of its own gives step times as differences of _runtime, s since the
start of the run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tprimat.notes import Note
from tprimat.read import tracked
from tprimat.read.parsing.parsed_log import FileFormat, InputFile, ParsedLog, columns_of, each_of
from tprimat.read.parsing.records import LoggedTraining, Record
from tprimat.read.parsing.values import whole
from tprimat.text import plain

_TITLE = re.compile(r"(.{1,200}) - (.{1,120}?)(?:__(?:MIN|MAX))?")


def _is_history(head: bytes) -> bool:
    names = columns_of(head)
    return "_step" in names and any(name in names for name in (tracked.ELAPSED, tracked.WALL_TIME))


def _is_chart(head: bytes) -> bool:
    # The first one is the x axis: a step, an epoch, a time or any metric.
    _, *others = columns_of(head) or [""]
    return (
        len(others) >= 3
        and " - " in others[0]
        and others[1:3] == [f"{others[0]}__MIN", f"{others[0]}__MAX"]
    )


def _rows(part: InputFile) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows, with their line, and of their cells those that aren't empty."""
    for line, row in part.table():
        yield line, {name: value for name, value in row.items() if value.strip() not in ("", "NaN")}


def _history(part: InputFile, _beside: object) -> list[ParsedLog]:
    rows = list(_rows(part))
    try:
        trainings = tracked.trainings_of(rows)
    except ValueError as error:
        raise tracked.with_columns(error, rows) from error
    return [tracked.parsed(training, "wandb", "CSV export") for training in trainings]


def _chart(part: InputFile, _beside: object) -> list[ParsedLog]:
    trainings: dict[str, LoggedTraining] = {}
    axis = ""
    for line, row in _rows(part):
        axis = axis or next(iter(row), "")
        shared = next(
            (number for name in tracked.STEPS if (number := whole(row.get(name))) is not None), None
        )
        by_run: dict[str, dict[str, str]] = {}
        for column, value in row.items():
            title = _TITLE.fullmatch(column)
            if title and not column.endswith(("__MIN", "__MAX")):
                by_run.setdefault(title[1], {})[title[2].strip()] = value
        for name, cells in by_run.items():
            # A chart over another axis has the step of each run beside its metric.
            step = whole(cells.get("_step")) if shared is None else shared
            values = tracked.values_of(cells)
            if step is None or not values:
                continue
            record = Record(step, line, window=1)
            for field, printed in values.items():
                record.put(field, printed)
            if record.figures():
                trainings.setdefault(name, LoggedTraining()).records.setdefault(step, record)
    if not trainings:
        raise ValueError(
            "no column is a training loss or a step time, such as train/loss or perf/step_time, or"
            f" there are no steps (x axis: {plain(axis, 80)}); tprimat read --columns"
            " step=COLUMN,time=COLUMN reads any column"
        )
    for name, training in trainings.items():
        if name.startswith("Group: "):
            training.warnings.append(Note("means-of-group"))
    return [
        tracked.parsed(training, "wandb", "CSV export", label=name)
        for name, training in trainings.items()
    ]


FILE_FORMATS = (
    FileFormat(
        "wandb",
        "the history of a W&B run as CSV (a header with “_step”)",
        _is_history,
        each_of(_history),
    ),
    FileFormat(
        "wandb", "a chart of W&B as CSV (columns “RUN - metric”)", _is_chart, each_of(_chart)
    ),
)
