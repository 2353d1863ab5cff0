"""Reader of LLaMA-Factory's trainer_log.jsonl.

{"current_steps": 10, "total_steps": 120, "loss": 1.99, "lr": 5e-05, "epoch": 0.1, "percentage":
8.33, "elapsed_time": "0:00:50", "remaining_time": "0:09:10", "throughput": 4021.5, "total_tokens":
201075}

Its step times follow from elapsed_time. throughput is the mean since the start, of all GPUs and of
the tokens without padding, and only there with include_num_input_tokens_seen. Source: LogCallback
in src/llamafactory/train/callbacks.py of hiyouga/LLaMA-Factory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tprimat.notes import Note, NoteValue
from tprimat.read.parsing.step_lines import ElapsedReader, Place
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.values import count, duration, object_at, whole
from tprimat.results.account import Timing


class Reader(ElapsedReader):
    """A parsed_log.Reader of LLaMA-Factory's logs."""

    name = "llama_factory"
    signs = ('"current_steps"',)
    names: Mapping[str, str] = {
        "loss": "loss",
        "lr": "learning_rate",
        "epoch": "epoch",
        "reward": "reward",
        "accuracy": "accuracy",
        "total_tokens": "tokens_seen",
        "throughput": "mean_tokens_per_second",
        "vram_allocated": "memory_max_allocated_gib",
        "vram_reserved": "memory_max_reserved_gib",
        **dict.fromkeys(
            ("current_steps", "total_steps", "percentage", "eval_loss", "predict_loss"), ""
        ),
    }
    timing = Timing(
        kind="stamps",
        clock="host clock of LLaMA-Factory's LogCallback, in whole seconds",
        covers="all between two log entries: data loading, evaluation and saving included",
        over_ranks="rank 0",
    )

    def take(self, line: Line) -> bool:
        """Read an entry; a last one without any before it is the record of the whole training."""
        taken = super().take(line)
        if not taken or self.sorter.trainings:
            return taken
        entry = object_at(line.text, line.text.find("{")) or {}
        step, planned = self.place(entry)
        seconds = duration(str(entry.get("elapsed_time", "")))
        # A prediction counts its batches as steps, and has no epoch.
        if seconds and step and step == planned and "epoch" in entry and "eval_loss" not in entry:
            record = self.new_record(step, line.number, entry)
            record.put("elapsed_seconds", seconds)
            record.put("tokens_per_second", entry.get("throughput"))
            facts: dict[str, NoteValue] = {"steps": step, "seconds": seconds / step}
            facts["included"] = "start-up, evaluation and saving"
            self.sorter.pending.marks["success"] = line.number
            self.sorter.take(record)
            self.sorter.trainings[-1].warnings.append(Note("whole-run-mean", facts))
        return taken

    def place(self, entry: Mapping[str, Any]) -> Place:
        """Return the step of an entry and the planned ones."""
        return whole(entry.get("current_steps")), count(entry.get("total_steps"))
