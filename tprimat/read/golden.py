"""Reader of golden values: the JSON with which Megatron-LM and Megatron-Bridge test their trainings.

    {"lm loss": {"start_step": 1, "end_step": 25, "step_interval": 1, "values": {"1": 12.59661, …}},
     "iteration-time": {…, "values": {"1": "nan", "2": 8.5543, …}}, "mem-max-allocated-bytes": {…}}

    {"0": {"lm loss": 11.89415, "elapsed time per iteration (ms)": 53048.6, "GPU utilization": 1.0}, …,
     "alloc": 81.904, "max_alloc": 93.2}

The first is of Megatron-LM: sampled TensorBoard scalars, missing ones as the text nan; steps count
from 1. The second is of Megatron-Bridge: "GPU utilization" is TFLOP/s per GPU, steps count from 0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.records import LoggedTraining, Record
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.values import number
from tprimat.results.run import Timing
from tprimat.units import GB, round_figure

_SCALARS = {
    "lm loss": "loss",
    "iteration-time": "seconds",
    "iteration_timing": "seconds",
    "grad-norm": "grad_norm",
    "learning-rate": "learning_rate",
    "throughput": "tflops_per_gpu",
    "mem-allocated-bytes": "memory_allocated_gb",
    "mem-max-allocated-bytes": "max_memory_allocated_gb",
    "mem-reserved-bytes": "memory_reserved_gb",
}
_FIELDS = {
    "lm loss": "loss",
    "grad norm": "grad_norm",
    "learning rate": "learning_rate",
    "GPU utilization": "tflops_per_gpu",
}
_MILLISECONDS = "elapsed time per iteration (ms)"
_STATUS = "a list of golden values, not a log: it doesn't say how many steps were planned or how the training ended"
_TIMING = Timing(
    clock="host clock at Megatron's interval timer, as written to TensorBoard",
    covers="data wait, forward and backward of all micro-batches, gradient reduction and optimizer",
    over_ranks="the rank that writes",
)

LARGEST = 32 << 20
"""Characters; a document of step records has fewer."""


class Document:
    """Collects the lines of a file that begins like a JSON object, until it can't be one."""

    def __init__(self) -> None:
        self._lines: list[str] | None = []
        self._size = 0

    def feed(self, line: Line) -> None:
        """Take the next line."""
        if self._lines is None:
            return
        text = line.text
        if not self._lines:
            if not text or text.isspace():
                return
            if not text.lstrip().startswith("{"):
                self._lines = None
                return
        elif text.startswith("{") and self._lines[-1].rstrip().endswith("}"):
            # An object a line is no document.
            self._lines = None
            return
        self._lines.append(text)
        self._size += len(text) + 1
        if self._size > LARGEST:
            self._lines = None

    @property
    def may_be_one(self) -> bool:
        """Whether all lines so far are of a JSON object."""
        return bool(self._lines)

    def value(self) -> dict[str, Any] | None:
        """Return the document; None where the file is none, or is cut off."""
        if not self._lines:
            return None
        try:
            found = json.loads("\n".join(self._lines))
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None


class Reader:
    """A parsed_log.Reader of golden-value files."""

    name = "golden"
    looks_for = "golden values of Megatron-LM or Megatron-Bridge (JSON with “lm loss” by step)"

    def __init__(self) -> None:
        self._document = Document()
        self._named = False

    @property
    def recognised(self) -> bool:
        """Whether the file is JSON so far, and names a loss or a time as golden values do."""
        return self._named and self._document.may_be_one

    def feed(self, line: Line) -> None:
        """Take the next line."""
        self._document.feed(line)
        if not self._named and ('"lm loss"' in line.text or '"iteration-time"' in line.text):
            self._named = True

    def finish(self) -> list[ParsedLog]:
        """Return the training, or none."""
        if not self.recognised:
            return []
        found = self._document.value()
        if found is None:
            return []
        if any(isinstance(value, dict) and "values" in value for value in found.values()):
            return _of_megatron(found)
        return _of_bridge(found)


def _of_megatron(found: Mapping[str, Any]) -> list[ParsedLog]:
    records: dict[int, Record] = {}
    timed: list[int] = []
    for name, called in _SCALARS.items():
        for step, value in _points(found.get(name)):
            # Memory alone makes no record: it goes on after the training's figures end.
            if called not in ("loss", "seconds") and step not in records:
                continue
            record = records.setdefault(step, Record(step, 1, window=1))
            record.put(called, round(value / GB, 4) if called.endswith("_gb") else value)
            if called == "seconds" and record.seconds is not None:
                timed.append(step)
    if not records:
        return []
    training = LoggedTraining(records=records, last=records[max(records)])
    interval = math.gcd(*timed) if timed else 1
    for step in timed:
        records[step].window = interval if interval > 1 else 1
    if interval > 1:
        training.warnings.append(
            f"a time is there every {interval} steps: Megatron's timer averages the steps since it was last read, so "
            f"it is taken for the mean of {interval}"
        )
    peak = [gb for record in records.values() if (gb := record.native.get("max_memory_allocated_gb"))]
    return [
        RunBuilder(
            framework="megatron",
            log_format="golden (megatron)",
            training=training,
            timing=_TIMING,
            lines=False,
            memory={"peak_memory_allocated_gb": round_figure(max(peak)) or 0.0} if peak else {},
            fixed_status=("incomplete", _STATUS),
        ).reading()
    ]


def _points(scalar: Any) -> list[tuple[int, float]]:
    """Return steps and finite values of one scalar, in either form: by step, or a list from the first step on."""
    if not isinstance(scalar, dict):
        return []
    values = scalar.get("values")
    start, interval = number(scalar.get("start_step")), number(scalar.get("step_interval"))
    pairs: list[tuple[Any, Any]] = []
    if isinstance(values, dict):
        pairs = list(values.items())
    elif isinstance(values, list):
        first, apart = (1 if start is None else start), (interval or 1)
        pairs = [(first + index * apart, value) for index, value in enumerate(values)]
    found = []
    for place, value in pairs:
        step, known = number(place), number(value)
        if step is None or known is None or not 1 <= step < 2**52 or step != int(step) or not math.isfinite(known):
            continue
        found.append((int(step), known))
    return found


def _of_bridge(found: Mapping[str, Any]) -> list[ParsedLog]:
    records: dict[int, Record] = {}
    for place, values in found.items():
        step = number(place)
        if step is None or not isinstance(values, dict) or not 0 <= step < 2**52 or step != int(step):
            continue
        record = Record(int(step), 1, window=1)
        milliseconds = number(values.get(_MILLISECONDS))
        if milliseconds is not None:
            # From the digits of the text: 284.2 ms is 0.2842 s, without the error of a division.
            record.put("seconds", round(milliseconds / 1e3, 7) if abs(milliseconds) < 1e12 else milliseconds)
        for name, called in _FIELDS.items():
            record.put(called, number(values.get(name)))
        if record.figures():
            records[record.step] = record
    if not records:
        return []
    shift = 1 if min(records) == 0 else 0
    figures = {name: known for name in ("alloc", "max_alloc") if (known := number(found.get(name))) is not None}
    training = LoggedTraining(records=records, last=records[max(records)])
    return [
        RunBuilder(
            framework="megatron_bridge",
            log_format="golden (megatron_bridge)",
            training=training,
            timing=_TIMING,
            shift=shift,
            lines=False,
            figures=dict(figures),
            unknown={"memory": "alloc and max_alloc are memory of no stated unit: kept as printed in native_metrics"}
            if figures
            else {},
            fixed_status=("incomplete", _STATUS),
        ).reading()
    ]
