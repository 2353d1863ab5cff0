"""Write the --pattern of a form from the text between its numbers, and try it on all lines."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable

from tprimat.catalog import meanings
from tprimat.errors import UsageError
from tprimat.read import mapped
from tprimat.read.forms.fields import DELIMITER, NUMBER, Field, Pieces
from tprimat.read.forms.reader import Interpretation
from tprimat.read.parsing.parsed_log import InputFile
from tprimat.read.parsing.text import Line

VALUES = {
    meanings.TIME: "time",
    meanings.INTERVAL: "interval",
    meanings.ELAPSED: "elapsed",
    meanings.STEP_RATE: "steps_per_second",
    "loss": "loss",
    "learning_rate": "lr",
    "grad_norm": "grad_norm",
    "samples_per_second": "samples_per_second",
    "tokens_per_second": "tokens_per_second",
    "tokens_per_second_per_gpu": "tokens_per_second_per_gpu",
    "tflops_per_gpu": "tflops_per_gpu",
    "mfu_percent": "mfu",
}
"""The value of --pattern for each kind."""

LARGEST = 1 << 22
"""Most characters of a text on which a pattern is tried."""

SAME = 0.01
"""Relative difference up to which the times by a pattern equal those by the form."""


def pattern_of(found: Interpretation, lines: Callable[[], Iterable[Line]]) -> str:
    """Return a --pattern that reads the same steps and times as the form; empty without one."""
    number, _ = found.form.example
    example = next((line.text for line in lines() if line.number == number), "")
    pattern = _written(found, example)
    try:
        named = mapped.LinePattern(pattern)
    except UsageError:
        return ""
    text = "".join(line.text + "\n" * line.whole for line in lines())
    if len(text) > LARGEST:
        return ""
    part = InputFile("", io.BytesIO(text.encode()))
    try:
        (log,) = mapped.file_format(named).read([part], {})
    except ValueError:
        return ""
    run = log.run()
    own = found.log.run()
    if run.steps != own.steps:
        return ""
    for seconds, other in zip(own.step_times, run.step_times, strict=True):
        if seconds and other and not math.isclose(seconds, other, rel_tol=SAME):
            return ""
    return pattern


def _written(found: Interpretation, example: str) -> str:
    """Return the pattern of a line: the text before each number that has a meaning, and its unit."""
    pattern = ""
    piece = next((each for each in Pieces().of(example) if each.outline.fields), None)
    if piece is None:
        return ""
    places = list(NUMBER.finditer(piece.text))
    ends = [0, *(match.end() for match in places)]
    last = -1
    for field in piece.outline.fields:
        name = _name(field, found)
        if name is None or f"{{{name}}}" in pattern:
            continue
        ahead = piece.text[ends[field.place] : places[field.place].start()]
        behind = piece.text[places[field.place].end() :]
        label = _label(ahead, field)
        if last == field.place - 1 and pattern and not label:
            # A number without a label is found by the whole text between it and the one before.
            pattern += ahead
        elif pattern:
            pattern += f" .* {label}"
        else:
            pattern = label
        _, _, end = meanings.unit_of(behind)
        pattern += f"{{{name}}}{behind[:end]}"
        last = field.place if end == 0 else -1
    return pattern


def _label(ahead: str, field: Field) -> str:
    """Return the text from the label of a number to the number."""
    core = field.label.partition(" (")[0]
    begin = ahead.rfind(core) if core else -1
    if begin < 0:
        return DELIMITER.split(ahead)[-1].lstrip()
    return ahead[begin:]


def _name(field: Field, found: Interpretation) -> str | None:
    """Return the value of --pattern for a number; None for one that isn't used."""
    if field.key == found.form.counter:
        return "step"
    if field.key == found.form.micro:
        return "micro_step"
    if found.form.keys and field.key in found.form.keys:
        return VALUES.get(field.kind or "")
    return None
