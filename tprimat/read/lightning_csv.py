"""Reader of metrics.csv, which Lightning's CSVLogger writes: a column per metric, most cells empty.

Training and validation stand on rows of their own, a learning rate too; the step counts from 0.
There is no time in it, unless the training logged one.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence

from tprimat.read.parsing.options import state_hparams
from tprimat.read.parsing.parsed_log import FileFormat, InputFile, ParsedLog
from tprimat.read.parsing.records import LogContext, LoggedTraining, Record
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.values import number
from tprimat.results.run import Timing

_LOSS = (
    "train_loss_step", "train/loss_step", "loss_step", "reduced_train_loss", "train_loss", "train/loss", "loss",
    "training_loss", "train_loss/step", "train/train_loss",
)  # fmt: skip
_COLUMNS = {
    "grad_norm": ("grad_norm", "train/grad_norm", "grad_2.0_norm_total", "gradient_norm"),
    "seconds": ("train_step_timing in s", "step_time", "train/step_time"),
    "epoch": ("epoch",),
    "perplexity": ("train_perplexity_step", "train_perplexity", "perplexity"),
    "iteration_seconds": ("iter_time",),
    "total_tokens": ("total_tokens",),
    "tokens_per_second_per_gpu": ("throughput/device/tokens_per_sec", "device/items_per_sec"),
    "tokens_per_second": ("throughput/tokens_per_sec",),
    "samples_per_second": ("throughput/samples_per_sec",),
}
_RATES = ("learning_rate", "lr", "train/lr", "train/learning_rate")
LONGEST_FIELD = 131072

TIMING = Timing(
    clock="what the training's own code measured",
    covers="unknown: the file has the figure alone",
    over_ranks="rank 0",
)


def _recognises(head: bytes) -> bool:
    text = head.decode("utf-8-sig", errors="replace")
    first, _, rest = text.partition("\n")
    names = _names(first)
    if len(first) > 20_000 or "step" not in names or len(names) < 2 or len(set(names)) < len(names):
        return False
    if not any("loss" in name.lower() or name in ("epoch", "lr") for name in names):
        return False
    second = rest.partition("\n")[0]
    return not second or second.count(",") == first.count(",") or "\n" not in rest


def _names(line: str) -> list[str]:
    return [name.strip().strip('"') for name in line.strip().split(",")]


def _read(parts: Sequence[InputFile], beside: Mapping[str, bytes]) -> list[ParsedLog]:
    return [_parsed_log(part, beside) for part in parts]


def _rows(part: InputFile, training: LoggedTraining) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield rows by column, with their line; a later header is from a resumed training."""
    text = io.TextIOWrapper(part.stream, encoding="utf-8-sig", errors="replace", newline="")
    header: list[str] = []
    try:
        reader = csv.reader(line.replace("\0", "") for line in text)
        try:
            for row in reader:
                if "step" in row:
                    header = [name.strip() for name in row]
                elif len(row) == len(header):
                    yield reader.line_num, dict(zip(header, row, strict=True))
                elif row:
                    training.warnings.append(
                        f"line {reader.line_num} has {len(row)} of {len(header)} columns: left out"
                    )
        except csv.Error as error:
            training.warnings.append(f"reading stopped on line {reader.line_num}: {error}")
    finally:
        text.detach()


def _parsed_log(part: InputFile, beside: Mapping[str, bytes]) -> ParsedLog:
    training = LoggedTraining(around=LogContext())
    rates: dict[int, float] = {}
    validations = 0
    last_validation: float | None = None
    micro = False
    losses: dict[str, int] = {}
    for line, row in _rows(part, training):
        step = number(row.get("step"))
        if step is None or step < 0 or step != int(step):
            continue
        printed = int(step)
        names = [name for name in _LOSS if row.get(name, "").strip()]
        for name in names:
            losses[name] = losses.get(name, 0) + 1
        rate = next((number(value) for name, value in row.items() if _is_rate(name) and value.strip()), None)
        if rate is not None:
            rates[printed] = rate
        validation = next(
            (
                number(value)
                for name, value in row.items()
                if "val" in name.lower() and "loss" in name.lower() and value.strip()
            ),
            None,
        )
        if validation is not None:
            validations, last_validation = validations + 1, validation
        timed = any(row.get(name, "").strip() for name in _COLUMNS["seconds"])
        if not names and not timed:
            continue
        micro = micro or bool(row.get("iter", "").strip())
        record = training.records.get(printed)
        if record is None:
            record = Record(printed, line)
            record.window = 1
            training.records[printed] = record
            training.last = record
        record.put("loss", number(row[names[0]]) if names else None)
        for field, columns in _COLUMNS.items():
            text = next((row[name] for name in columns if row.get(name, "").strip()), None)
            record.put(field, number(text))
    if not training.records:
        raise ValueError("no row of it holds a training loss or a step time")
    for printed, rate in rates.items():
        if printed in training.records:
            training.records[printed].put("learning_rate", rate)
    training.last = training.ordered()[-1]
    stated = training.around.stated
    state_hparams(beside, stated)
    notes = [f"{validations} rows of validation are no records of training"] if validations else []
    figures: dict[str, float | None] = {} if last_validation is None else {"last_validation_loss": last_validation}
    unknown = {"step_times": "no step times: the file has no column of times"}
    if micro:
        unknown["step_times"] = (
            "no step times: iter_time is of a micro-batch, and not all micro-batches of a step are in the file"
        )
    zero = not micro
    return RunBuilder(
        "litgpt" if micro else "lightning",
        "litgpt (metrics.csv)" if micro else "lightning (CSVLogger)",
        training,
        TIMING,
        shift=1 if zero or training.ordered()[0].step == 0 else 0,
        figures=figures,
        unknown=unknown,
        notes=tuple(notes),
    ).reading()


def _is_rate(name: str) -> bool:
    return name in _RATES or name.startswith("lr-")


FILES = FileFormat(
    "lightning",
    "metrics.csv of Lightning's CSVLogger (a header with “step”)",
    _recognises,
    _read,
    beside=("hparams.yaml",),
)
