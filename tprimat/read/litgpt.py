"""Reader of litgpt's console. Its iterations are micro-batches; “(step)” marks those that end an
optimizer step.

    Epoch 1 | iter 2 step 1 | loss train: 1.660, val: n/a | iter time: 548.72 ms (step)

A record is an optimizer step: its time is the sum of its iterations', its loss the one printed
with it, which litgpt averages over them.
"""

from __future__ import annotations

import re

from tprimat.read.parsing.records import Record
from tprimat.read.parsing.run_builder import RunBuilder, timer
from tprimat.read.parsing.step_lines import StepReader
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.values import number, summary_values

_LINE = re.compile(
    r"iter (?P<iteration>\d{1,12}) step (?P<step>\d{1,12}) *\| *loss train:"
    r" (?P<loss>[\d.einfa+-]{1,30}),? *"
    r"val: [\d.einfa/+-]{1,30} *\| *iter time: (?P<milliseconds>[\d.]{1,20}) ms(?P<ends> \(step\))?"
)
_END = re.compile(r"Training time: (?P<seconds>[\d.]{1,20})s|Memory used: (?P<gb>[\d.]{1,12}) GB")


class Reader(StepReader):
    """A parsed_log.Reader of LitGPT logs."""

    name = "litgpt"
    signs = ("iter time:",)
    other_signs = ("Training time:", "Memory used:")
    untimed = "some iterations are not logged, and a step's time is the sum of its iterations"
    timing = timer(
        clock="host clock of litgpt's loop",
        covers=(
            "sum of the iterations (micro-batches) of the step: data, forward, backward, optimizer;"
            " no validation"
        ),
    )

    def __init__(self) -> None:
        super().__init__()
        self._iterations: dict[int, float | None] = {}
        self._last = 0
        self._count = 0
        self._incomplete = False

    def take(self, line: Line) -> bool:
        """Read an iteration."""
        match = _LINE.search(line.text)
        if match is None or not (line.whole or match["ends"]):
            return False
        iteration = int(match["iteration"])
        step = int(match["step"])
        if iteration <= self._last:
            self._iterations = {}
            self._incomplete = False
        elif self._last and iteration > self._last + 1:
            # Only every so many iterations is logged, or a line is torn: the sum would be of other
            # iterations.
            self._incomplete = True
        self._last = iteration
        self._count += 1
        self._iterations[iteration] = number(match["milliseconds"])
        if not match["ends"] or step < 1:
            return True
        record = Record(step, line.number, window=1)
        times = []
        for milliseconds in self._iterations.values():
            if milliseconds is not None:
                times.append(milliseconds)
        first = not self.sorter.trainings and next(iter(self._iterations)) != 1
        if len(times) == len(self._iterations) and not self._incomplete and not first:
            record.put("milliseconds", round(sum(times), 6))
            record.put("iterations", len(self._iterations))
        record.put("loss", match["loss"])
        record.put("iteration_milliseconds", times[-1] if times else None)
        self.sorter.take(record)
        self._iterations = {}
        self._incomplete = False
        return True

    def other(self, line: Line) -> None:
        """Take what is printed at the end."""
        super().other(line)
        end = _END.search(line.text)
        if end and end["seconds"]:
            self.figures["train_runtime_seconds"] = number(end["seconds"])
            self.sorter.pending.marks.setdefault("success", line.number)
        elif end:
            # torch.cuda.max_memory_allocated() / 1e9
            self.memory |= summary_values({"peak_memory_allocated_gb": number(end["gb"])})

    def done(self, run: RunBuilder) -> None:
        """Note what a record is."""
        self.notes = [
            f"{self._count} iterations (micro-batches) form {len(run.training.records)} optimizer"
            " steps"
        ]
