"""Reader of the files that Hugging Face's Trainer leaves: trainer_state.json, train_results.json,
all_results.json.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tprimat.notes import Note
from tprimat.read.hf_trainer import fields
from tprimat.read.parsing.events import Mark
from tprimat.read.parsing.parsed_log import FileFormat, InputFile, ParsedLog, each_of
from tprimat.read.parsing.records import LoggedTraining
from tprimat.read.parsing.values import count, json_object, number, state
from tprimat.results.fields import Figures, JsonObject
from tprimat.results.outcome import ending_of, outcome_of

LARGEST = 1 << 28
"""Bytes. A million records take some 150 MB."""

_ENTRY = re.compile(r"\{[^{}]{2,50000}\}")
_TOP = re.compile(r'"(\w{1,60})"\s*:\s*(-?\d{1,18}(?:\.\d{1,20})?(?:[eE][-+]?\d{1,3})?)\s*[,}\n]')
_HISTORY = re.compile(r'"log_history"\s*:\s*\[')
_TOP_FIELDS = {
    "max_steps": "max_steps",
    "logging_steps": "logging_steps",
    "train_batch_size": "micro_batch_size",
    "num_train_epochs": "num_epochs",
}


def _text(part: InputFile) -> str:
    content = part.stream.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"larger than {LARGEST >> 20} MiB, which no such file is")
    return content.decode("utf-8-sig", errors="replace")


def _state(part: InputFile, _beside: object) -> list[ParsedLog]:
    text = _text(part)
    top, history, is_whole = _content(text)
    training = LoggedTraining()
    stated = training.around.stated
    for key, name in _TOP_FIELDS.items():
        state(stated, name, count(top.get(key)), f'"{key}": {top.get(key)}')
    planned = stated.count("max_steps")
    reached = count(top.get("global_step"))
    summary, session, evaluations = _take(history, training, reached)
    if reached:
        summary["global_step"] = float(reached)
    if evaluations and evaluations[-1] is not None:
        summary["last_eval_loss"] = evaluations[-1]
    if "total_flos" not in summary and number(top.get("total_flos")):
        summary["total_flos"] = number(top.get("total_flos"))
    last = max(training.records, default=0)
    whole = fields.whole_run(summary, reached or last or None, session)
    if reached:
        fields.state_batch(training, summary, whole)
    done = bool(planned and reached and reached >= planned)
    if is_whole:
        done = done or summary.get("train_runtime_seconds") is not None
        last = reached or last
        why = "saved with a checkpoint, or the run stopped there"
    else:
        why = "file truncated or damaged"
        training.warnings.append(Note("file-cut", {"count": len(training.records)}))
    reason = f"file ends at step {last}{f' of {planned}' if planned else ''}; {why}"
    run = fields.builder(
        training,
        "trainer_state.json",
        lines=False,
        figures=summary,
        whole=whole,
        fixed=None if done or not training.records else outcome_of(ending_of(), reason),
        ended=done or None,
        notes=tuple(fields.evaluations_note(len(evaluations))),
    )
    return [run.reading()]


def _content(text: str) -> tuple[JsonObject, list[JsonObject], bool]:
    """Return the values at the top, the entries of the history, and whether the file is whole."""
    top = json_object(text) or {}
    history = top.get("log_history")
    if isinstance(history, list):
        return top, [entry for entry in history if isinstance(entry, dict)], True
    # What can be read of a file that is cut off or damaged.
    begin = _HISTORY.search(text)
    head = text[: begin.start()] if begin else text
    top = {key: number(value) for key, value in _TOP.findall(head)}
    entries = []
    for match in _ENTRY.finditer(text, begin.end() if begin else len(text)):
        entry = json_object(match[0])
        if entry is not None:
            entries.append(entry)
    return top, entries, False


def _take(
    history: Sequence[JsonObject], training: LoggedTraining, reached: int | None
) -> tuple[Figures, int, list[float | None]]:
    """Add the records of a history to a training; return the values of its last session, the step
    that this went on after, and the losses of evaluations.
    """
    interval = training.around.stated.count("logging_steps")
    summary: Figures = {}
    evaluations = []
    last = session = before = 0
    for entry in history:
        step = count(entry.get("step"))
        if step is not None and fields.is_record(entry):
            if step <= last:
                training.doubles += 1
                continue
            window = step - last
            if interval and not last and step > interval:
                # Nothing of a resumed training is missing before its first record: the file keeps
                # it.
                window = interval
            fields.add_record(training, step, 0, entry, window)
            last = step
        elif "train_runtime" in entry:
            if session:
                training.warnings.append(Note("trainer-resumed", {"step": session}))
            summary = fields.summary_of(entry, step or reached, session)
            before = session
            session = step or session
        elif "eval_loss" in entry:
            evaluations.append(number(entry["eval_loss"]))
            if seconds := number(entry.get("eval_runtime")):
                mark = Mark("evaluation", "ends", 0, seconds=seconds, step=step)
                training.around.events.marks.append(mark)
    return summary, before, evaluations


def _results(part: InputFile, _beside: object) -> list[ParsedLog]:
    text = _text(part)
    entry = json_object(text)
    figures = fields.summary_of(dict(_TOP.findall(text)) if entry is None else entry)
    runtime = figures.get("train_runtime_seconds")
    tokens = figures.get("tokens_seen")
    if runtime is None:
        raise ValueError("truncated before the training time")
    if tokens and runtime > 0:
        figures["tokens_per_second_whole_run"] = tokens / runtime
    notes = [Note("whole-run-values")]
    if entry is None:
        notes.append(Note("file-damaged"))
    training = LoggedTraining(warnings=notes)
    return [
        fields.builder(
            training,
            "train_results.json",
            lines=False,
            figures=figures,
            whole=fields.whole_run(figures, None),
            ended=True,
        ).reading()
    ]


def _begins_as_object(head: bytes) -> bool:
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def _is_state(head: bytes) -> bool:
    return _begins_as_object(head) and re.search(rb'"log_history"\s*:\s*\[', head) is not None


def _is_results(head: bytes) -> bool:
    # A result of TensorPrimat that names it has a schema_version first.
    return (
        _begins_as_object(head)
        and b'"train_runtime"' in head
        and b'"schema_version"' not in head[:200]
    )


_OF = "of Hugging Face's Trainer"
FILE_FORMATS = (
    FileFormat(
        "hf_trainer", f"trainer_state.json {_OF} (“log_history”)", _is_state, each_of(_state)
    ),
    FileFormat(
        "hf_trainer", f"train_results.json {_OF} (“train_runtime”)", _is_results, each_of(_results)
    ),
)
