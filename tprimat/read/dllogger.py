"""Reader of DLLogger's JSON, as NVIDIA's NeMo recipes write it: one object a line, or spread over
lines.

    DLLL {"timestamp": "1727463426.98", "datetime": "2024-09-27 18:57:06.98", "type": "LOG", "step":
    47, "data": {"reduced_train_loss": 7.89, "train_step_timing in s": 25.1, "consumed_samples":
    98304}}

Steps count from 0.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from tprimat.notes import Note
from tprimat.read.nemo import reader as nemo
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.records import Record
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.step_lines import StepReader
from tprimat.read.parsing.text import Line, Stamp, without_prefixes
from tprimat.read.parsing.values import count, number, object_at, state, whole

MARK = "DLLL"
LONGEST = 200
"""Lines of one object."""


class Reader(StepReader):
    """A parsed_log.Reader of DLLogger logs."""

    name = "dllogger"
    timing = nemo.TIMING
    other_signs = (MARK,)

    def __init__(self) -> None:
        super().__init__()
        self.within: list[str] = []
        self._begun = 0

    def take(self, line: Line) -> bool:
        """Take nothing: an object may go over several lines."""
        return False

    def other(self, line: Line) -> None:
        """Take a line of an object."""
        start = line.text.find(MARK)
        begin = line.text.find("{", start) if start >= 0 else -1
        if begin >= 0 and not line.text[start + len(MARK) : begin].strip(" :"):
            self.within = [line.text[begin:]]
            self._begun = line.number
        elif self.within:
            self.within.append(without_prefixes(line.text))
        else:
            return
        event = object_at("\n".join(self.within)) if "}" in line.text else None
        if event is not None:
            self._take(event, self._begun)
        if event is not None or len(self.within) > LONGEST:
            self.within = []

    def finish(self) -> list[ParsedLog]:
        """Return the runs, in the order of the log."""
        self.sorter.cut_off = 0 if self.within else None
        return super().finish()

    def _take(self, event: Mapping[str, Any], line: int) -> None:
        data = event.get("data")
        step = event.get("step")
        if isinstance(step, list):
            # [epoch, iteration], as other recipes have it.
            step = step[-1] if step else None
        if not isinstance(data, dict) or step is None:
            return
        place = number(data.get("global_step"))
        place = whole(step if place is None else place)
        if place is None:
            return
        seconds, elapsed = (number(event.get(name)) for name in ("timestamp", "elapsedtime"))
        stamp = began = None
        if seconds is not None and 0 < seconds < 1e11:
            stamp = began = Stamp(
                datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc), 1e-6
            )
            if elapsed is not None and 0 <= elapsed < 1e9:
                # What is stated is the time since the logger's start.
                began = stamp._replace(time=stamp.time - datetime.timedelta(seconds=elapsed))
        record = Record(place, line, stamp=stamp)
        for name, value in data.items():
            if figure := nemo.NAMES.get(" ".join(str(name).lower().split())):
                record.put(figure, value)
        if record.loss is None and record.seconds is None:
            return
        pending = self.sorter.pending
        batch = count(data.get("global_batch_size"))
        state(pending.stated, "global_batch_size", batch, f"global_batch_size: {batch}", line)
        pending.first_stamp = pending.first_stamp or began
        self.sorter.take(record)

    def done(self, run: RunBuilder) -> None:
        """Set windows, and say which batch the samples suggest."""
        found = run.training.ordered()
        nemo.set_windows(found)
        run.framework = "nemo"
        run.shift = 1
        if len(found) == 1 and found[0].step > 0:
            run.training.warnings.append(Note("one-record-as-step"))
        batches = {
            samples / (record.step + 1)
            for record in found
            if (samples := record.native.get("consumed_samples"))
            and not samples % (record.step + 1)
        }
        if len(batches) == 1 and "global_batch_size" not in run.stated:
            run.unknown["global_batch_size"] = Note(
                "batch-suggested-by-samples", {"batch": batches.pop()}
            )
