"""Reader of golden values: the JSON with which Megatron-LM and Megatron-Bridge test their runs.

    {"lm loss": {"start_step": 1, "end_step": 25, "step_interval": 1, "values": {"1": 12.59661, …}},
     "iteration-time": {…, "values": {"1": "nan", "2": 8.5543, …}}, "mem-max-allocated-bytes": {…}}

    {"0": {"lm loss": 11.89415, "elapsed time per iteration (ms)": 53048.6, "GPU utilization": 1.0},
    …,
     "alloc": 81.904, "max_alloc": 93.2}

The first comes from Megatron-LM: sampled TensorBoard scalars, missing ones as the text nan; steps
count from 1. The second comes from Megatron-Bridge: "GPU utilization" is TFLOP/s per GPU, steps
count from 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tprimat.notes import Note
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.records import LoggedTraining, Record, peaks
from tprimat.read.parsing.run_builder import RunBuilder, timer
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.values import json_object, number, whole
from tprimat.results.outcome import ending_of, outcome_of

_SCALARS = {
    "lm loss": "loss",
    "iteration-time": "seconds",
    "iteration_timing": "seconds",
    "grad-norm": "grad_norm",
    "learning-rate": "learning_rate",
    "throughput": "tflops_per_gpu",
    "mem-allocated-bytes": "memory_allocated_bytes",
    "mem-max-allocated-bytes": "max_memory_allocated_bytes",
    "mem-reserved-bytes": "memory_reserved_bytes",
}
_FIELDS = {
    "elapsed time per iteration (ms)": "milliseconds",
    "lm loss": "loss",
    "grad norm": "grad_norm",
    "learning rate": "learning_rate",
    "GPU utilization": "tflops_per_gpu",
}
_TIMING = timer(
    clock="host clock at Megatron's interval timer, as written to TensorBoard",
    covers="data wait, forward and backward of all micro-batches, gradient reduction and optimizer",
    over_ranks="the rank that writes",
)

LARGEST = 32 << 20
"""Characters; a document of step records has fewer."""


class Reader:
    """A parsed_log.Reader of golden-value files."""

    name = "golden"
    all_signs = ()

    def __init__(self) -> None:
        self.within: list[str] = []
        self._size = 0
        self._is_document = True
        self._named = False

    @property
    def recognized(self) -> bool:
        """Whether the file is JSON so far, and names a loss or a time as golden values do."""
        return self._named and self._is_document

    def feed(self, line: Line) -> None:
        """Take the next line, until the file can't be one JSON object."""
        text = line.text
        begins = line.text.lstrip().startswith("{")
        if not self._is_document or (not self.within and not text.strip()):
            return
        self._size += len(text) + 1
        if self.within:
            # An object a line is no document.
            begins = not (text.startswith("{") and self.within[-1].rstrip().endswith("}"))
        self._is_document = begins and self._size <= LARGEST
        if self._is_document:
            self.within.append(text)
        else:
            self.within.clear()
        self._named = self._named or '"lm loss"' in text or '"iteration-time"' in text

    def finish(self) -> list[ParsedLog]:
        """Return the training, or none."""
        document = json_object("\n".join(self.within)) if self.recognized else None
        if document is None:
            return []
        if any(isinstance(value, dict) and "values" in value for value in document.values()):
            return _of_megatron(document)
        return _of_bridge(document)


def _builder(framework: str, records: dict[int, Record], **fields: Any) -> RunBuilder:
    return RunBuilder(
        framework,
        f"golden ({framework})",
        LoggedTraining(records=records, last=records[max(records)]),
        _TIMING,
        lines=False,
        fixed=outcome_of(ending_of(), "golden-values file: planned steps and outcome are unknown"),
        **fields,
    )


def _of_megatron(document: Mapping[str, Any]) -> list[ParsedLog]:
    records: dict[int, Record] = {}
    timed = []
    for name, figure in _SCALARS.items():
        for step, value in _points(document.get(name)):
            # Memory alone makes no record: it goes on after the training's figures end.
            if figure not in ("loss", "seconds") and step not in records:
                continue
            record = records.setdefault(step, Record(step, 1, window=1))
            record.put(figure, value)
            if figure == "seconds" and record.seconds is not None:
                timed.append(step)
    if not records:
        return []
    memory = peaks(records.values(), {"max_memory_allocated_gb": "peak_memory_allocated_gb"})
    builder = _builder("megatron", records, memory={name: gb for name, gb in memory.items() if gb})
    interval = math.gcd(*timed)
    if interval > 1:
        for step in timed:
            records[step].window = interval
        builder.training.warnings.append(Note("times-of-intervals", {"steps": interval}))
    return [builder.reading()]


def _points(scalar: Any) -> list[tuple[int, float]]:
    """Return steps and finite values of one scalar, in either form: by step, or a list from the
    first step on.
    """
    if not isinstance(scalar, dict):
        return []
    values = scalar.get("values")
    if isinstance(values, list):
        start = number(scalar.get("start_step"))
        apart = number(scalar.get("step_interval")) or 1
        values = {
            (1 if start is None else start) + index * apart: value
            for index, value in enumerate(values)
        }
    if isinstance(values, dict):
        points = [(whole(step), number(value)) for step, value in values.items()]
    else:
        points = []
    return [
        (step, value)
        for step, value in points
        if step and value is not None and math.isfinite(value)
    ]


def _of_bridge(document: Mapping[str, Any]) -> list[ParsedLog]:
    records: dict[int, Record] = {}
    for place, values in document.items():
        step = whole(place)
        if step is None or not isinstance(values, dict):
            continue
        record = Record(step, 1, window=1)
        record.put_all(values, _FIELDS)
        if record.seconds:
            # As the digits of the text: 284.2 ms is 0.2842 s, without the error of a division.
            record.seconds = round(record.seconds, 7)
        if record.figures():
            records[step] = record
    if not records:
        return []
    figures = {
        name: known
        for name in ("alloc", "max_alloc")
        if (known := number(document.get(name))) is not None
    }
    why = Note("unit-unstated")
    unknown = {"memory": why} if figures else {}
    shift = 1 if min(records) == 0 else 0
    return [
        _builder(
            "megatron_bridge", records, shift=shift, figures=figures, unknown=unknown
        ).reading()
    ]
