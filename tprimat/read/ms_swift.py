"""Reader of ms-swift's logging.jsonl.

{"loss": 1.1, "grad_norm": 0.9, "learning_rate": 1e-05, "memory(GiB)": 30.2, "train_speed(iter/s)":
0.2012, "epoch": 0.01, "global_step/max_steps": "5/60", "percentage": "8.33%", "elapsed_time":
"25s", …}

Megatron-SWIFT calls the step `iteration`; newer versions print `train_speed(s/it)`. It is the mean
since the start, from which the elapsed time follows with more digits. Source:
swift/trainers/patcher.py, the callback print.py of swift/megatron, and the log in
docs/source_en/BestPractices/Metax-support.md of modelscope/ms-swift.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tprimat.read.hf_trainer.fields import printed_step, since_start
from tprimat.read.parsing.step_lines import ElapsedReader, Place
from tprimat.results.account import Timing


class Reader(ElapsedReader):
    """A parsed_log.Reader of ms-swift's logs."""

    name = "ms_swift"
    signs = ('"global_step/max_steps"', '"iteration"')
    names: Mapping[str, str] = {
        "loss": "loss",
        "grad_norm": "grad_norm",
        "learning_rate": "learning_rate",
        "epoch": "epoch",
        "token_acc": "token_accuracy",
        "acc": "token_accuracy",
        # torch's count divided by 2^30, under both names.
        "memory(GiB)": "memory_max_reserved_gib",
    }
    warns_of_unread = False
    timing = Timing(
        kind="stamps",
        clock="host clock of ms-swift's callback",
        covers="all between two log entries: data loading, evaluation and saving included",
        over_ranks="rank 0",
    )

    def place(self, entry: Mapping[str, Any]) -> Place:
        """Return the step of an entry and the planned ones."""
        if "elapsed_time" in entry:
            return printed_step(entry)
        return (None, None)

    def exactly(self, entry: Mapping[str, Any], step: int, seconds: float) -> float | None:
        """Return the time since the start from the mean speed."""
        return since_start(entry, step, seconds)
