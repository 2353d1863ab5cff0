"""Reader of CSV exports of Weights & Biases: the history of a run, and the data of a chart with a column per run.

_step,_runtime,_timestamp,train/loss,train/learning_rate,train/global_step
0,11.5,1700000001.5,1.99,1e-05,1

"Step","h100-run - train/step_time","h100-run - train/step_time__MIN","h100-run - train/step_time__MAX"
"1","0.52","0.52","0.52"

A history without a step time of its own gives step times as differences of _runtime, s since the start of the run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tprimat.read.lightning_csv import COLUMNS as LIGHTNING
from tprimat.read.parsing.parsed_log import FileFormat, InputFile, ParsedLog, columns_of
from tprimat.read.parsing.records import LoggedTraining, Record, set_times
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.sequencer import RecordSequencer
from tprimat.read.parsing.values import whole
from tprimat.results.run import Timing

COLUMNS: Mapping[str, tuple[str, ...]] = {
    **LIGHTNING,
    "loss": (*LIGHTNING["loss"], "lm loss", "train/lm_loss", "actor/loss"),
    "grad_norm": (*LIGHTNING["grad_norm"], "grad-norm", "actor/grad_norm"),
    "learning_rate": ("train/learning_rate", "learning_rate", "lr", "train/lr", "learning-rate", "actor/lr"),
    "seconds": (*LIGHTNING["seconds"], "train/step_time_s", "perf/time_per_step", "timing_s/step", "iteration-time"),
    "tokens_per_second_per_gpu": (*LIGHTNING["tokens_per_second_per_gpu"], "perf/throughput", "tps_per_gpu"),
    "tokens_per_second": (*LIGHTNING["tokens_per_second"], "train/tokens_per_second", "tokens_per_second", "tps"),
}
"""What people and frameworks call a value; the first that is there counts."""

_STEPS = ("train/global_step", "trainer/global_step", "global_step", "Step", "_step")
_TITLE = re.compile(r"(.{1,200}) - (.{1,120}?)(?:__(?:MIN|MAX))?")
_ELAPSED = "_runtime"

TIMING = Timing(
    clock="W&B's record of when a row was logged, or what the training's own code measured",
    covers="unknown: the file has the figure alone",
    over_ranks="the process that logs",
)


def _is_history(head: bytes) -> bool:
    names = columns_of(head)
    return "_step" in names and any(name in names for name in (_ELAPSED, "_timestamp"))


def _is_chart(head: bytes) -> bool:
    first, *others = columns_of(head) or [""]
    return first in _STEPS and len(others) >= 3 and others[1:3] == [f"{others[0]}__MIN", f"{others[0]}__MAX"]


def _rows(part: InputFile) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows, with their line, and of their cells those that aren't empty."""
    for line, row in part.table():
        yield line, {name: value for name, value in row.items() if value.strip() not in ("", "NaN")}


def _record(step: int, line: int, values: Mapping[str, str]) -> Record:
    record = Record(step, line, window=1)
    for name, columns in COLUMNS.items():
        record.put(name, next((values[column] for column in columns if column in values), None))
    return record


def _history(part: InputFile) -> list[ParsedLog]:
    sorter = RecordSequencer()
    for line, row in _rows(part):
        step = next((number for name in _STEPS if (number := whole(row.get(name))) is not None), None)
        record = _record(step or 0, line, row)
        if step is None or record.loss is record.seconds is None:
            continue
        record.put("elapsed_seconds", row.get(_ELAPSED, row.get("_timestamp")))
        sorter.take(record)
    trainings = sorter.finish()
    if not trainings:
        raise ValueError("no row has a training loss or a step time")
    return [_timed(training) for training in trainings]


def _timed(training: LoggedTraining) -> ParsedLog:
    records = training.ordered()
    if all(record.seconds is None for record in records):
        # The run starts before its training: the first step's time is unknown.
        started = records[0].native.get("elapsed_seconds", 0.0)
        for record in records:
            if "elapsed_seconds" in record.native:
                record.native["elapsed_seconds"] -= started
        set_times(records)
        training.warnings.append("step times are differences of _runtime: evaluation and saving count where they occur")
    return _built(training, None)


def _chart(part: InputFile) -> list[ParsedLog]:
    trainings: dict[str, LoggedTraining] = {}
    for line, row in _rows(part):
        step = next((number for name in _STEPS if (number := whole(row.get(name))) is not None), None)
        by_run: dict[str, dict[str, str]] = {}
        for column, value in row.items():
            title = _TITLE.fullmatch(column)
            if title and not column.endswith(("__MIN", "__MAX")):
                by_run.setdefault(title[1], {})[title[2].strip()] = value
        for name, values in by_run.items() if step is not None else ():
            record = _record(step or 0, line, values)
            if record.figures():
                trainings.setdefault(name, LoggedTraining()).records.setdefault(step or 0, record)
    if not trainings:
        raise ValueError("no column is a training loss or a step time")
    return [_built(training, name) for name, training in trainings.items()]


def _built(training: LoggedTraining, label: str | None) -> ParsedLog:
    records = training.ordered()
    training.last = records[-1]
    return RunBuilder(
        "wandb",
        "wandb (CSV export)",
        training,
        TIMING,
        shift=0 if records[0].step else 1,
        rate=None,
        unknown={"step_times": "no step times: export a chart of the step time, or the history with _runtime"},
        label=label,
    ).reading()


FILE_FORMATS = (
    FileFormat(
        "wandb",
        "the history of a W&B run as CSV (a header with “_step”)",
        _is_history,
        lambda parts, beside: [each for part in parts for each in _history(part)],
    ),
    FileFormat(
        "wandb",
        "a chart of W&B as CSV (columns “RUN - metric”)",
        _is_chart,
        lambda parts, beside: [each for part in parts for each in _chart(part)],
    ),
)
