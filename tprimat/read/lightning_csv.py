"""Reader of metrics.csv, which Lightning's CSVLogger writes: a column per metric, most cells empty.

Training and validation stand on rows of their own, a learning rate too; the step counts from 0.
There is no time in it, unless the training logged one.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator

from tprimat.catalog.exact_names import names_of
from tprimat.notes import Note
from tprimat.read.parsing.options import state_hparams
from tprimat.read.parsing.parsed_log import (
    Beside,
    FileFormat,
    InputFile,
    ParsedLog,
    columns_of,
    each_of,
)
from tprimat.read.parsing.records import LoggedTraining, Record
from tprimat.read.parsing.remarks import no_step_times
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.values import first_of, number, whole
from tprimat.results.account import Timing

COLUMNS = names_of("Lightning")
"""What Lightning's loggers call a value; the first that is there counts."""

_RATES = names_of("W&B and MLflow")["learning_rate"]

TIMING = Timing(
    clock="what the training's own code measured",
    covers="unknown: the file has the figure alone",
    over_ranks="rank 0",
)


def _recognizes(head: bytes) -> bool:
    names = columns_of(head)
    if "step" not in names or len(names) < 2 or len(set(names)) < len(names):
        return False
    if not any("loss" in name.lower() or name in ("epoch", "lr") for name in names):
        return False
    try:
        widths = []
        for _, row in itertools.islice(InputFile("", io.BytesIO(head)).rows(), 4):
            widths.append(len(row))
    except ValueError:
        return True
    return len(widths) < 4 or widths[1] == widths[0]


def _rows(part: InputFile, training: LoggedTraining) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield rows by column, with their line; a later header is from a resumed training."""
    header = []
    try:
        for line, row in part.rows():
            if "step" in row:
                header = [name.strip() for name in row]
            elif len(row) == len(header):
                yield line, dict(zip(header, row, strict=True))
            elif row:
                facts = {"line": line, "columns": len(row), "of": len(header)}
                training.warnings.append(Note("line-skipped", facts))
    except ValueError as error:
        training.warnings.append(Note("reading-stopped", {"why": str(error)}))


def _read(part: InputFile, beside: Beside) -> list[ParsedLog]:
    training = LoggedTraining()
    rates = {}
    validations = []
    micro = False
    for line, row in _rows(part, training):
        step = whole(row.get("step"))
        if step is None:
            continue
        filled = {name: value for name, value in row.items() if value.strip()}
        for name, value in filled.items():
            if name in _RATES or name.startswith("lr-"):
                if number(value) is not None:
                    rates[step] = value
                break
        named = [name for name in filled if "val" in name.lower() and "loss" in name.lower()]
        loss = number(first_of(filled, named))
        if loss is not None:
            validations.append(loss)
        if first_of(filled, (*COLUMNS["loss"], *COLUMNS["seconds"])) is None:
            continue
        micro = micro or "iter" in filled
        record = training.records.setdefault(step, Record(step, line, window=1))
        for figure, columns in COLUMNS.items():
            record.put(figure, first_of(filled, columns))
    if not training.records:
        raise ValueError("no row has a training loss or a step time")
    for step in rates.keys() & training.records.keys():
        training.records[step].put("learning_rate", rates[step])
    records = training.ordered()
    training.last = records[-1]
    state_hparams(beside, training.around.stated)
    why = "the file has no time column"
    if micro:
        why = "iter_time is per micro-batch, and the file lacks some micro-batches"
    unknown = no_step_times(why)
    run = RunBuilder(
        "litgpt" if micro else "lightning",
        "litgpt (metrics.csv)" if micro else "lightning (CSVLogger)",
        training,
        TIMING,
        shift=0 if micro and records[0].step else 1,
        unknown={"step_times": unknown},
    )
    if validations:
        run.figures = {"last_validation_loss": validations[-1]}
        run.notes = (f"{len(validations)} validation rows skipped",)
    return [run.reading()]


FILE_FORMATS = (
    FileFormat(
        "lightning",
        "metrics.csv of Lightning's CSVLogger (a header with “step”)",
        _recognizes,
        each_of(_read),
        beside=("hparams.yaml",),
    ),
)
