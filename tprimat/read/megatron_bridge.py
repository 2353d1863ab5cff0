"""Reader of what Megatron-Bridge prints beside Megatron's iteration lines.

    Step Time : 11.65s GPU utilization: 1158.1MODEL_TFLOP/s/GPU

Rank 0 prints this, without a step; Megatron's own line comes from the last rank, and so may stand
in another file, or be glued to it. If both are in one log, Megatron's line is the record, with its
time in tenths of a millisecond, and this one gives the TFLOPs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tprimat.analysis.warmup import MINIMUM_RECORDS
from tprimat.notes import Note
from tprimat.read.megatron.line import ANCHOR, TIMED
from tprimat.read.parsing.failures import FailureReasons
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.records import LoggedTraining, Record
from tprimat.read.parsing.run_builder import timer
from tprimat.read.parsing.step_lines import StepReader
from tprimat.read.parsing.text import Line, last_stamp, without_prefixes
from tprimat.read.parsing.values import state

_LINE = re.compile(
    r"Step [Tt]ime ?: *(\d{1,9}(?:\.\d{1,9})?) ?s(?:econds)?"
    r"(?: *\|? *(?:GPU utilization|model TFLOP/s/GPU): *(\d{1,9}(?:\.\d{1,9})?)(?:"
    r" ?(?:MODEL_)?TFLOPs?/s/GPU)?)?"
)
_TORN = re.compile(r"Step [Tt]ime ?: *\?")
_SEQUENCE = re.compile(r"\| seq_length: (\d{1,12}) \|")
_MEMORY = re.compile(r"mem-max-(allocated|reserved)-gigabytes: (\d{1,9}(?:\.\d{1,9})?)")
_SIZES = re.compile(
    r"^\s*(tensor_model_parallel_size|pipeline_model_parallel_size|context_parallel_size|"
    r"expert_model_parallel_size|global_batch_size|micro_batch_size|seq_length|sequence_length|train_iters|"
    r"world_size): (\d{1,15})\s*$"
)
_NAMES = {"seq_length": "sequence_length", "train_iters": "max_steps", "world_size": "num_gpus"}


class Reader(StepReader):
    """A parsed_log.Reader of Megatron-Bridge logs."""

    name = "megatron_bridge"
    signs = ("Step Time", "Step time:")
    other_signs = (TIMED, "gigabytes", "_size: ", "_length: ", "train_iters: ")
    timing = timer(
        clock="host clock at Megatron's interval timer, printed with two decimals",
        covers=(
            "data wait, forward and backward of all micro-batches, gradient reduction and"
            " optimizer; not evaluation and checkpoints"
        ),
        over_ranks="rank 0 prints",
    )

    def __init__(self) -> None:
        super().__init__()
        self._records: list[Record] = []
        self._before: list[int] = []
        """Megatron's lines before each record."""
        self._iterations: list[int] = []
        self._bare = True

    @property
    def recognized(self) -> bool:
        """Whether a line of a step's time was seen."""
        return bool(self._records)

    def feed(self, line: Line) -> bool:
        """Take the next line; return whether it holds metrics."""
        text = line.text
        if TIMED in text:
            self._iterations += [
                int(anchor[1]) for anchor in ANCHOR.finditer(text) if int(anchor[1]) >= 1
            ]
            if sequence := _SEQUENCE.search(text):
                state(self.stated, "sequence_length", int(sequence[1]), sequence[0], line.number, 3)
        if "gigabytes" in text:
            for kind, gigabytes in _MEMORY.findall(text):
                name = f"peak_memory_{kind}_gb"
                self.memory[name] = max(self.memory.get(name, 0.0), float(gigabytes))
        return super().feed(line)

    def other(self, line: Line) -> None:
        """Read a line of the setup."""
        text = line.text
        around = self.sorter.pending
        self._bare = self._bare and (not text or text.isspace())
        if ": " in text and len(text) < 300 and (size := _SIZES.match(without_prefixes(text))):
            state(
                around.stated,
                _NAMES.get(size[1], size[1]),
                int(size[2]) or None,
                size[0],
                line.number,
            )
        if "Job throughput:" in text:
            around.marks["success"] = line.number
        self.hear(line)

    def take(self, line: Line) -> bool:
        """Read the times of steps."""
        matches = list(_LINE.finditer(line.text))
        for match in matches:
            record = Record(0, line.number, window=1, stamp=last_stamp(line.text[: match.start()]))
            record.put("seconds", match[1])
            record.put("tflops_per_gpu", match[2])
            self._records.append(record)
            self._before.append(len(self._iterations))
        if not matches and (torn := _TORN.search(line.text)) and line.whole:
            # The lines are counted.
            self._records.append(Record(0, line.number, window=1))
            self._before.append(len(self._iterations))
        if matches:
            # What was said before was survived: the training goes on.
            self.sorter.pending.causes = FailureReasons()
        return bool(matches or torn)

    def finish(self) -> list[ParsedLog]:
        """Return the runs; one per line where the file holds only a few such lines."""
        records = self._records
        numbers = list(dict.fromkeys(self._iterations))
        if self._bare and not numbers and len(records) < MINIMUM_RECORDS:
            # An excerpt: nothing says that its lines are of one training.
            note = Note("lines-of-unknown-runs")
            return [self._numbered([record], [1], note) for record in records]
        if len(self._iterations) < len(records):
            note = Note("lines-numbered")
            return [self._numbered(records, range(1, len(records) + 1), note)]
        # The step of each line is that of Megatron's line with the same rank in its order.
        if len(numbers) != len(records):
            numbers = [numbers[min(before, len(numbers) - 1)] for before in self._before]
        if records:
            return [self._numbered(records, numbers)]
        return []

    def _numbered(self, records: list[Record], steps: Iterable[int], *notes: Note) -> ParsedLog:
        training = LoggedTraining(around=self.sorter.pending, warnings=[*notes])
        for record, step in zip(records, steps, strict=True):
            record.step = step
            training.records.setdefault(step, record)
        training.last = training.records[max(training.records)]
        return self.parsed(training)
