"""Reader of torchtune's log file (DiskLogger).

    Step 33 | loss:1.54 lr:9.9e-05 tokens_per_second_per_gpu:101.2 peak_memory_alloc:10.2 grad_norm:0.8

Its tokens are those that count in the loss: no padding, and no masked prompt.
"""

from __future__ import annotations

import re

from tprimat.read.parsing.records import LoggedTraining, Record
from tprimat.read.parsing.step_lines import StepReader
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.values import number
from tprimat.results.run import Timing
from tprimat.units import gib_to_gb, round_figure

_LINE = re.compile(r"\bStep (\d{1,12}) \| ((?:[\w/.-]{1,80}:[^\s:]{1,40}\s*){1,60})")
_PAIR = re.compile(r"([\w/.-]{1,80}):([^\s:]{1,40})")
_FIELDS = {
    "loss": "loss",
    "lr": "learning_rate",
    "learning_rate": "learning_rate",
    "grad_norm": "grad_norm",
    "tokens_per_second_per_gpu": "counted_tokens_per_second_per_gpu",
    "tokens_per_second": "counted_tokens_per_second",
    "iterations_per_second": "steps_per_second",
}
_GIB = {
    "peak_memory_alloc": "memory_max_allocated_gb",
    "peak_memory_active": "memory_active_gb",
    "peak_memory_reserved": "memory_max_reserved_gb",
}
_MEMORY = {
    "memory_max_allocated_gb": "peak_memory_allocated_gb",
    "memory_max_reserved_gb": "peak_memory_reserved_gb",
}


class Reader(StepReader):
    """A parsed_log.Reader of torchtune logs."""

    name = "torchtune"
    looks_for = "torchtune's steps (“Step 33 | loss:… tokens_per_second_per_gpu:…”)"
    signs = ("Step ",)
    # Tokens without padding and masked ones are no measure of the work that batch and sequence give.
    rate = None
    timing = Timing(
        clock="host clock of torchtune's recipe",
        covers="none is printed: rates only, from the end of one logged step to the end of the next",
        over_ranks="rank 0",
    )

    def take(self, line: Line) -> bool:
        """Read a step."""
        found = _LINE.search(line.text)
        if found is None:
            return False
        pairs = dict(_PAIR.findall(found[2]))
        if not line.whole and pairs:
            # The last word of a line that the file doesn't finish may be half a figure.
            pairs.popitem()
        if "loss" not in pairs and not any(name.startswith("tokens_per_second") for name in pairs):
            return False
        record = Record(int(found[1]), line.number)
        for name, field in _FIELDS.items():
            record.put(field, number(pairs.get(name)))
        for name, field in _GIB.items():
            gib = number(pairs.get(name))
            if gib is not None:
                record.put(field, round(gib_to_gb(gib), 4))
        self.add(record)
        return True

    def done(self, training: LoggedTraining) -> None:
        """Set windows and peaks."""
        self.shift = 1 if training.records and min(training.records) == 0 else 0
        before = None
        for record in training.ordered():
            record.window = 1 if before is None else record.step - before
            before = record.step
            for native, field in _MEMORY.items():
                if native in record.native:
                    self.memory[field] = max(self.memory.get(field, 0.0), round_figure(record.native[native]) or 0.0)
        self.unknown["step_times"] = (
            "no step times: torchtune prints tokens/s of the tokens that count in the loss (no padding, no masked "
            "prompt), and how many these are isn't printed"
        )
