"""Reader of MLflow: a run's directory, mlruns/EXPERIMENT/RUN, and metric histories as CSV.

metrics/train/loss    a line per value: time in ms since 1970, value, step: 1700000001500 1.99 1
params/max_steps      a file per parameter, of a value alone
meta.yaml             start_time in ms, status (3: finished, 4: failed, 5: killed), run_name

run_id,key,value,step,timestamp
69c1732aabb5,loss,1.99,1,1700000001500

Source: mlflow/store/tracking/file_store.py and convertMetricsToCsv in MetricsPlotPanel.tsx of
mlflow/mlflow; checked with directories of version 3.17.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from tprimat.read import tracked
from tprimat.read.parsing.options import state_config
from tprimat.read.parsing.parsed_log import (
    Beside,
    FileFormat,
    InputFile,
    ParsedLog,
    columns_of,
    each_of,
)
from tprimat.read.parsing.text import utc
from tprimat.read.parsing.values import number, whole
from tprimat.redaction import redacted_start
from tprimat.results.fields import FieldValues
from tprimat.results.outcome import Cause

_LINE = re.compile(rb"\d{13} [-+\w.]{1,40} \d{1,18}(?: [^\r\n]*)?(?:\r?\n|$)")
_ENTRY = re.compile(r"^(\w{1,40}): '?([^'\n]{0,200}?)'?\s*$", re.MULTILINE)
_COLUMNS = ("run_id", "key", "value", "step", "timestamp")
_ENDINGS = {"4": "failed", "5": "killed", "FAILED": "failed", "KILLED": "killed"}

Point = tuple[str, str, str, str]
"""A metric's name, value, step and time in ms since 1970."""


def _run_folder(path: str) -> str:
    """Return the directory of the run of a metric's file; a metric `train/loss` is in a directory
    of its own.
    """
    parents = PurePath(path).parents
    return str(next((parent.parent for parent in parents if parent.name == "metrics"), parents[0]))


def _points(parts: Sequence[InputFile]) -> Iterator[Point]:
    for part in parts:
        name = re.split(r"[\\/]metrics[\\/]", part.name)[-1].replace("\\", "/")
        for line in part.lines():
            # The last line of a run that goes on may be torn.
            if line.endswith(b"\n") and _LINE.fullmatch(line):
                time, value, step, *_ = line.decode("ascii", "replace").split()
                yield name, value, step, time


def _rows(points: Iterator[Point]) -> list[tuple[int, dict[str, object]]]:
    """Return a row per step, the last value counts. Raises ValueError if there are values, but no
    steps.
    """
    rows: dict[int, dict[str, object]] = {}
    several = False
    for name, value, printed, time in points:
        step = whole(printed)
        milliseconds = number(time)
        if step is None or name not in tracked.READ:
            continue
        row = rows.setdefault(step, {"global_step": step})
        several = several or name in row
        row[name] = value
        if milliseconds is not None and (
            name in tracked.NAMES["loss"] or tracked.WALL_TIME not in row
        ):
            row[tracked.WALL_TIME] = milliseconds / 1e3
    if several and rows.keys() == {0}:
        raise ValueError("its metrics have no steps: all are logged at step 0")
    return [(0, rows[step]) for step in sorted(rows)]


def _folder(parts: Sequence[InputFile], beside: Beside) -> list[ParsedLog]:
    texts = {
        name.replace("\\", "/"): content.decode("utf-8", "replace")
        for name, content in beside.items()
    }
    parameters = {
        name.removeprefix("params/"): text
        for name, text in texts.items()
        if name.startswith("params/")
    }
    meta = dict(_ENTRY.findall(texts.get("meta.yaml", "")))
    known: FieldValues = {"notes": (f"{len(parts)} metrics, {len(parameters)} parameters",)}
    if name := meta.get("run_name"):
        known["notes"] += (f"MLflow run {name}",)
    if meta.get("status") in ("3", "FINISHED"):
        known["ended"] = True
    elif ending := _ENDINGS.get(meta.get("status", "")):
        known["cause"] = Cause(
            "failed" if ending == "failed" else "stopped", f"MLflow recorded the run as {ending}"
        )
    known["timestamp"] = utc((number(meta.get("start_time")) or 0.0) / 1e3)
    trainings = tracked.trainings_of(_rows(_points(parts)))
    for training in trainings:
        state_config(parameters, training.around.stated, "MLflow's params")
    return [
        tracked.parsed(training, "mlflow", "run directory", lines=False, **known)
        for training in trainings
    ]


def _is_csv(head: bytes) -> bool:
    return {*_COLUMNS} <= {*columns_of(head)}


def _csv(part: InputFile, _beside: object) -> list[ParsedLog]:
    points: dict[str, list[Point]] = {}
    for _, row in part.table():
        if lacking := sorted({*_COLUMNS} - row.keys()):
            raise ValueError(f"its header lacks {', '.join(lacking)}")
        points.setdefault(row["run_id"], []).append(
            (row["key"], row["value"], row["step"], row["timestamp"])
        )
    if not points:
        raise ValueError("no row has the columns of its header")
    runs = {run: tracked.trainings_of(_rows(iter(each))) for run, each in points.items()}
    labels = {run: redacted_start(run, 80) if len(runs) > 1 else None for run in runs}
    return [
        tracked.parsed(training, "mlflow", "CSV export", lines=False, label=labels[run])
        for run, trainings in runs.items()
        for training in trainings
    ]


FILE_FORMATS = (
    FileFormat(
        "mlflow",
        "a metric in the directory of an MLflow run (time, value, step)",
        lambda head: _LINE.match(head) is not None,
        _folder,
        together=_run_folder,
        beside=("meta.yaml", "params/**/*"),
    ),
    FileFormat(
        "mlflow",
        f"metric histories of MLflow as CSV (“{','.join(_COLUMNS)}”)",
        _is_csv,
        each_of(_csv),
    ),
)
