"""Reader of litgpt's console. Its iterations are micro-batches; “(step)” marks those that end an optimizer step.

    Epoch 1 | iter 2 step 1 | loss train: 1.660, val: n/a | iter time: 548.72 ms (step)

A record is an optimizer step: its time is the sum of its iterations', its loss the one printed
with it, which litgpt averages over them.
"""

from __future__ import annotations

import re

from tprimat.read.parsing.records import LoggedTraining, Record
from tprimat.read.parsing.step_lines import StepReader
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.values import number
from tprimat.results.run import Timing
from tprimat.units import round_figure

_LINE = re.compile(
    r"(?:Epoch (\d{1,9}) *\| *)?iter (\d{1,12}) step (\d{1,12}) *\| *loss train: ([\d.einfa+-]{1,30}),? *"
    r"val: ([\d.einfa/+-]{1,30}) *\| *iter time: ([\d.]{1,20}) ms( \(step\))?"
)
_TOTAL = re.compile(r"\bTraining time: ([\d.]{1,20})s")
_MEMORY = re.compile(r"\bMemory used: ([\d.]{1,12}) GB")


class Reader(StepReader):
    """A parsed_log.Reader of LitGPT logs."""

    name = "litgpt"
    looks_for = "litgpt's iterations (“iter 2 step 1 | loss train: … | iter time: …”)"
    signs = ("iter time:",)
    timing = Timing(
        clock="host clock of litgpt's loop",
        covers="sum of the iterations (micro-batches) of the step: data, forward, backward, optimizer; no validation",
        over_ranks="rank 0",
    )

    def __init__(self) -> None:
        super().__init__()
        self._iterations: list[tuple[int, float | None]] = []
        self._last = 0
        self._seen = 0
        self._incomplete: set[int] = set()

    def take(self, line: Line) -> bool:
        """Read an iteration."""
        found = _LINE.search(line.text)
        if found is None or (not line.whole and found.end() == len(line.text) and not found[7]):
            return False
        iteration, step = int(found[2]), int(found[3])
        milliseconds = number(found[6])
        if iteration <= self._last:
            self._iterations = []
            self._last = 0
        elif self._last and iteration > self._last + 1:
            # Only every so many iterations is logged: the sum would be of a part of the step.
            self._incomplete.add(step)
        self._last = iteration
        self._seen += 1
        self._iterations.append((iteration, None if milliseconds is None else milliseconds / 1e3))
        if not found[7] or step < 1:
            return True
        record = Record(step, line.number)
        record.window = 1
        times = [seconds for _, seconds in self._iterations if seconds is not None]
        first = not self.sorter.trainings and self._iterations[0][0] != 1
        whole = len(times) == len(self._iterations) and step not in self._incomplete and not first
        if whole:
            record.put("seconds", sum(times))
        record.put("loss", number(found[4]))
        record.put("iterations", float(len(self._iterations)))
        record.put("iteration_seconds", times[-1] if times else None)
        self.add(record)
        self._iterations = []
        return True

    def other(self, line: Line) -> None:
        """Take what is printed at the end."""
        if "Training time:" in line.text and (total := _TOTAL.search(line.text)):
            self.figures["train_runtime_seconds"] = number(total[1])
            self.ended = True
            self.sorter.pending.mark("success", line.number)
        if "Memory used:" in line.text and (memory := _MEMORY.search(line.text)):
            # torch.cuda.max_memory_allocated() / 1e9
            self.memory["peak_memory_allocated_gb"] = round_figure(number(memory[1])) or 0.0

    def done(self, training: LoggedTraining) -> None:
        """Note what a record is."""
        self.notes = [f"{self._seen} iterations are micro-batches of {len(training.records)} optimizer steps"]
        if any(record.seconds is None for record in training.records.values()):
            self.unknown["step_times"] = (
                "no step times: not every iteration is logged, and a step's time is the sum of its iterations'"
            )
