"""Reader of the files that Hugging Face's Trainer leaves: trainer_state.json, train_results.json, all_results.json."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tprimat.read.hf_trainer import fields
from tprimat.read.parsing.parsed_log import FileFormat, InputFile, ParsedLog
from tprimat.read.parsing.records import LogContext, LoggedTraining
from tprimat.read.parsing.run_builder import RunBuilder, without_records
from tprimat.read.parsing.values import LoggedValues, count, number, state

LARGEST = 1 << 28
"""Bytes. A million records take some 150 MB."""

_ENTRY = re.compile(r"\{[^{}]{2,50000}\}")
_TOP = re.compile(r'"(\w{1,60})"\s*:\s*(-?\d{1,18}(?:\.\d{1,20})?(?:[eE][-+]?\d{1,3})?)\s*[,}\n]')
_HISTORY = re.compile(r'"log_history"\s*:\s*\[')


def _text(part: InputFile) -> str:
    content = part.stream.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"larger than {LARGEST >> 20} MiB, which no such file is")
    return content.decode("utf-8-sig", errors="replace")


def _parsed(text: str) -> Any:
    """Return the JSON, NaN and infinity included; None where it isn't whole, or isn't JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _state(parts: Sequence[InputFile], _beside: Mapping[str, bytes]) -> list[ParsedLog]:
    return [_state_of(_text(part)) for part in parts]


def _state_of(text: str) -> ParsedLog:
    parsed = _parsed(text)
    whole = isinstance(parsed, dict) and isinstance(parsed.get("log_history"), list)
    if whole:
        top, history = parsed, [entry for entry in parsed["log_history"] if isinstance(entry, dict)]
    else:
        top, history = _salvaged(text)
    training = LoggedTraining(around=LogContext())
    stated = training.around.stated
    summary: dict[str, float | None] = {}
    evaluations, last_evaluation = 0, None
    _state_setup(top, stated)
    interval = stated.count("logging_steps")
    for entry in history:
        step = count(entry.get("step"))
        if fields.is_summary(entry):
            summary = fields.summary_of(entry)
        elif fields.is_record(entry) and step is not None:
            before = training.last.step if training.last else 0
            if step in training.records or step < before:
                training.doubles += 1
                continue
            record = fields.record_of(entry, step, 0)
            # Nothing of a resumed training is missing before its first record: the file keeps it.
            record.window = step - before
            if not training.records and interval and step > interval:
                record.window = interval
            training.records[step] = training.last = record
        elif "eval_loss" in entry:
            evaluations += 1
            last_evaluation = number(entry.get("eval_loss"))
    reached = count(top.get("global_step"))
    planned = stated.count("max_steps")
    runtime = summary.get("train_runtime_seconds")
    if runtime and runtime > 0 and reached:
        summary["whole_run_seconds_per_step"] = runtime / reached
    if reached:
        summary["global_step"] = float(reached)
    if last_evaluation is not None:
        summary["last_eval_loss"] = last_evaluation
    if "total_flos" not in summary and number(top.get("total_flos")):
        summary["total_flos"] = number(top.get("total_flos"))
    if not whole:
        training.warnings.append(f"the file is cut off or damaged: {len(training.records)} records could be read of it")
    done = bool(planned and reached and reached >= planned) or (runtime is not None and whole)
    last = training.last.step if training.last else 0
    unknown = {"step_times": fields.NO_STEP_TIMES}
    return RunBuilder(
        "hf_trainer",
        "hf_trainer (trainer_state.json)",
        training,
        fields.TIMING,
        lines=False,
        rate=None,
        figures=summary,
        unknown=unknown,
        fixed_status=None
        if done or not training.records
        else ("incomplete", _why_incomplete(last, reached, planned, whole)),
        ended=done or None,
        notes=(f"{evaluations} evaluations are no records of training",) if evaluations else (),
    ).reading()


def _why_incomplete(last: int, reached: int | None, planned: int | None, whole: bool) -> str:
    of = f" of {planned}" if planned else ""
    if not whole:
        return f"ended after step {last}{of}: the file is cut off or damaged"
    return f"ended after step {reached or last}{of}: the file is of a checkpoint, or the training was ended there"


def _state_setup(top: Mapping[str, Any], stated: LoggedValues) -> None:
    for key, name in (
        ("max_steps", "max_steps"),
        ("logging_steps", "logging_steps"),
        ("train_batch_size", "micro_batch_size"),
        ("num_train_epochs", "num_epochs"),
    ):
        state(stated, name, count(top.get(key)), f'"{key}": {top.get(key)}')


def _salvaged(text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what can be read of a file that isn't whole."""
    begin = _HISTORY.search(text)
    head, body = (text[: begin.start()], text[begin.end() :]) if begin else (text, "")
    top = {key: number(value) for key, value in _TOP.findall(head)}
    parsed = (_parsed(found[0]) for found in _ENTRY.finditer(body))
    history = [entry for entry in parsed if isinstance(entry, dict)]
    return top, history


def _results(parts: Sequence[InputFile], _beside: Mapping[str, bytes]) -> list[ParsedLog]:
    readings = []
    for part in parts:
        text = _text(part)
        parsed = _parsed(text)
        whole = isinstance(parsed, dict)
        entry = parsed if isinstance(parsed, dict) else dict(_TOP.findall(text))
        figures = fields.summary_of(entry)
        if figures.get("train_runtime_seconds") is None:
            raise ValueError("it is cut off before the training's time")
        assembly = without_records(
            "hf_trainer",
            "hf_trainer (train_results.json)",
            fields.TIMING,
            lines=False,
            figures=figures,
            unknown={"step_times": "the file holds figures of the whole training, and no record of a step"},
            ended=True,
        )
        tokens, runtime = figures.get("tokens_seen"), figures["train_runtime_seconds"]
        if tokens and runtime and runtime > 0:
            figures["tokens_per_second_whole_run"] = tokens / runtime
        assembly.training.warnings.append(assembly.unknown["step_times"])
        if not whole:
            assembly.training.warnings.append("the file is cut off or damaged")
        readings.append(assembly.reading())
    return readings


def _begins_as_object(head: bytes) -> bool:
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


STATE = FileFormat(
    "hf_trainer",
    "trainer_state.json of Hugging Face's Trainer (“log_history”)",
    lambda head: _begins_as_object(head) and re.search(rb'"log_history"\s*:\s*\[', head) is not None,
    _state,
)
RESULTS = FileFormat(
    "hf_trainer",
    "train_results.json of Hugging Face's Trainer (“train_runtime”)",
    # A result of TensorPrimat that names it has a schema_version first.
    lambda head: _begins_as_object(head) and b'"train_runtime"' in head and b'"schema_version"' not in head[:200],
    _results,
)
