"""Reader of ms-swift's logging.jsonl.

{"loss": 1.1, "grad_norm": 0.9, "learning_rate": 1e-05, "memory(GiB)": 30.2, "train_speed(iter/s)": 0.2012,
"epoch": 0.01, "global_step/max_steps": "5/60", "percentage": "8.33%", "elapsed_time": "25s", …}

Megatron-SWIFT calls the step `iteration`; newer versions print `train_speed(s/it)`. It is the mean since the start,
from which the elapsed time follows with more digits. Source: swift/trainers/patcher.py, the callback print.py of
swift/megatron, and the log in docs/source_en/BestPractices/Metax-support.md of modelscope/ms-swift.
"""

from __future__ import annotations

import re

from tprimat.read.hf_trainer.fields import since_start
from tprimat.read.parsing.records import Record
from tprimat.read.parsing.step_lines import ElapsedReader
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.values import count, object_at, state
from tprimat.results.account import Timing

_NAMES = {
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "epoch": "epoch",
    "token_acc": "token_accuracy",
    "acc": "token_accuracy",
    # torch's count divided by 2^30, under both names.
    "memory(GiB)": "memory_max_reserved_gib",
}
_STEP = re.compile(r"(\d{1,12})/(\d{1,12})")
_CLOCK = re.compile(r"(?:(\d{1,5})d )?(?:(\d{1,2})h )?(?:(\d{1,2})m )?(\d{1,2}(?:\.\d{1,9})?)s")


class Reader(ElapsedReader):
    """A parsed_log.Reader of ms-swift's logs."""

    name = "ms_swift"
    signs = ('"global_step/max_steps"', '"iteration"')
    timing = Timing(
        kind="stamps",
        clock="host clock of ms-swift's callback",
        covers="all between two log entries: data loading, evaluation and saving included",
        over_ranks="rank 0",
    )

    def take(self, line: Line) -> bool:
        """Read an entry."""
        found = object_at(line.text, line.text.find("{"))
        place = found and _STEP.fullmatch(str(found.get("global_step/max_steps") or found.get("iteration")))
        if not found or not place or "elapsed_time" not in found:
            return False
        state(self.stated, "max_steps", count(place[2]), line.text[:300], line.number)
        step = int(place[1])
        if "loss" not in found or not step:
            # An evaluation, or the summary at the end.
            return True
        record = Record(step, line.number)
        record.put_all({name: value for name, value in found.items() if name in _NAMES}, _NAMES)
        self.put_elapsed(
            record, _CLOCK.fullmatch(str(found["elapsed_time"])), lambda whole: since_start(found, step, whole)
        )
        self.sorter.take(record)
        return True
