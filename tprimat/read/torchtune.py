"""Reader of torchtune's log file (DiskLogger).

    Step 33 | loss:1.54 lr:9.9e-05 tokens_per_second_per_gpu:101.2 peak_memory_alloc:10.2
    grad_norm:0.8

Its tokens are those that count in the loss: no padding, and no masked prompt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tprimat.read.parsing.step_lines import StepReader
from tprimat.read.parsing.text import Line
from tprimat.results.account import Timing

_LINE = re.compile(r"\bStep (\d{1,12}) \| ((?:[\w/.-]{1,80}:[^\s:]{1,40}\s*){1,60})")
_PAIR = re.compile(r"([\w/.-]{1,80}):([^\s:]{1,40})")


class Reader(StepReader):
    """A parsed_log.Reader of torchtune logs."""

    name = "torchtune"
    signs = ("Step ",)
    # Tokens without padding and masked ones are no measure of the work that batch and sequence
    # give.
    rate = None
    timing = Timing(
        clock="host clock of torchtune's recipe",
        covers=(
            "none is printed: rates only, from the end of one logged step to the end of the next"
        ),
        over_ranks="rank 0",
    )

    names: Mapping[str, str] = {
        "loss": "loss",
        "learning_rate": "learning_rate",
        "lr": "learning_rate",
        "grad_norm": "grad_norm",
        "tokens_per_second_per_gpu": "counted_tokens_per_second_per_gpu",
        "tokens_per_second": "counted_tokens_per_second",
        "iterations_per_second": "steps_per_second",
        "peak_memory_alloc": "memory_max_allocated_gib",
        "peak_memory_active": "memory_active_gib",
        "peak_memory_reserved": "memory_max_reserved_gib",
    }
    needs = ("loss", "tokens_per_second")
    untimed = (
        "torchtune's tokens/s count only tokens in the loss (no padding, no masked prompt), whose"
        " number is not printed"
    )

    def take(self, line: Line) -> bool:
        """Read a step."""
        match = _LINE.search(line.text)
        pairs = dict(_PAIR.findall(match[2])) if match else {}
        if match is None or not self.counts(pairs):
            return False
        self.sorter.take(self.new_record(int(match[1]), line.number, pairs))
        return True
