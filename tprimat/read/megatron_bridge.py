"""Reader of what Megatron-Bridge prints beside Megatron's iteration lines.

    Step Time : 11.65s GPU utilization: 1158.1MODEL_TFLOP/s/GPU

Rank 0 prints this, without a step; Megatron's own line comes from the last rank, and so may stand in
another file, or be glued to it. Where both are in one log, Megatron's line is the record, with its
time in tenths of a millisecond, and this one gives the TFLOPs.
"""

from __future__ import annotations

import re

from tprimat.analysis.warmup import MINIMUM_RECORDS
from tprimat.read.megatron.line import ANCHOR, TIMED
from tprimat.read.parsing import records
from tprimat.read.parsing.parsed_log import ParsedLog
from tprimat.read.parsing.records import LogContext, LoggedTraining, Record
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.text import Line, last_stamp, without_prefixes
from tprimat.read.parsing.values import number, state
from tprimat.results.run import Timing

_LINE = re.compile(
    r"Step [Tt]ime ?: *(\d{1,9}(?:\.\d{1,9})?) ?s(?:econds)?"
    r"(?: *\|? *(?:GPU utilization|model TFLOP/s/GPU): *(\d{1,9}(?:\.\d{1,9})?)(?: ?(?:MODEL_)?TFLOPs?/s/GPU)?)?"
)
_SEQUENCE = re.compile(r"\| seq_length: (\d{1,12}) \|")
_MEMORY = re.compile(r"mem-max-(allocated|reserved)-gigabytes: (\d{1,9}(?:\.\d{1,9})?)")
_SIZES = re.compile(
    r"^\s*(tensor_model_parallel_size|pipeline_model_parallel_size|context_parallel_size|"
    r"expert_model_parallel_size|global_batch_size|micro_batch_size|seq_length|sequence_length|train_iters|"
    r"world_size): (\d{1,15})\s*$"
)
_NAMES = {"seq_length": "sequence_length", "train_iters": "max_steps", "world_size": "num_gpus"}
_TIMING = Timing(
    clock="host clock at Megatron's interval timer, printed with two decimals",
    covers="data wait, forward and backward of all micro-batches, gradient reduction and optimizer; "
    "not evaluation and checkpoints",
    over_ranks="rank 0 prints",
)


class Reader:
    """A parsed_log.Reader of Megatron-Bridge logs."""

    name = "megatron_bridge"
    looks_for = "Megatron-Bridge's lines (“Step Time : 11.65s GPU utilization: …TFLOP/s/GPU”)"

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._before: list[int | None] = []
        self._iterations: list[int] = []
        self._around = LogContext()
        self._memory: dict[str, float] = {}
        self._bare = True
        self._lines = 0

    @property
    def recognised(self) -> bool:
        """Whether a line of a step's time was seen."""
        return bool(self._records)

    def feed(self, line: Line) -> None:
        """Take the next line."""
        text = line.text
        if TIMED in text:
            self._iterations += [int(found[1]) for found in ANCHOR.finditer(text) if int(found[1]) >= 1]
            if sequence := _SEQUENCE.search(text):
                state(self._around.stated, "sequence_length", int(sequence[1]), sequence[0], line.number, 3)
        if "Step Time" in text or "Step time:" in text:
            found = list(_LINE.finditer(text))
            for each in found:
                self._take(each, line)
            if found:
                return
        self._lines += 1
        if not self._records and self._lines > records.LONGEST_SETUP:
            return
        if self._bare and text and not text.isspace():
            self._bare = False
        if "gigabytes" in text:
            for kind, value in _MEMORY.findall(text):
                name = f"peak_memory_{kind}_gb"
                self._memory[name] = max(self._memory.get(name, 0.0), float(value))
        if ": " in text and len(text) < 300 and (size := _SIZES.match(without_prefixes(text))) and int(size[2]):
            state(self._around.stated, _NAMES.get(size[1], size[1]), int(size[2]), size[0], line.number, 1)
        if "Job throughput:" in text:
            self._around.marks["success"] = line.number
        if self._records:
            self._around.feed(line.number, text)

    def finish(self) -> list[ParsedLog]:
        """Return the trainings; one per line where the file holds only a few such lines."""
        if not self._records:
            return []
        if self._bare and not self._iterations and len(self._records) < MINIMUM_RECORDS:
            # An excerpt: nothing says that its lines are of one training.
            alone = (
                "the lines of this file have no step, and nothing says that they are of one training: each is taken "
            )
            return [self._parsed_log([record], [1], alone + "by itself") for record in self._records]
        if len(self._iterations) >= len(self._records):
            steps = self._by_iterations()
            note = None
        else:
            steps = list(range(1, len(self._records) + 1))
            note = "the lines have no step numbers: they are numbered in their order, each as one step"
        return [self._parsed_log(self._records, steps, note)]

    def _take(self, found: re.Match[str], line: Line) -> None:
        if not line.whole and found.end() == len(line.text):
            # The file ends here: the figure may be cut.
            return
        record = Record(0, line.number, window=1, stamp=last_stamp(line.text[: found.start()]))
        record.put("seconds", float(found[1]))
        if found[2]:
            record.put("tflops_per_gpu", number(found[2]))
        self._records.append(record)
        self._before.append(len(self._iterations))

    def _by_iterations(self) -> list[int]:
        """Return the step of each line: that of Megatron's line with the same rank in its order."""
        numbers = list(dict.fromkeys(self._iterations))
        if len(numbers) == len(self._records):
            return numbers
        places = [min(before or 0, len(numbers) - 1) for before in self._before]
        return [numbers[place] for place in places]

    def _parsed_log(self, found: list[Record], steps: list[int], note: str | None) -> ParsedLog:
        kept: dict[int, Record] = {}
        for record, step in zip(found, steps, strict=True):
            record.step = step
            kept.setdefault(step, record)
        training = LoggedTraining(records=kept, around=self._around, last=kept[max(kept)])
        if note:
            training.warnings.append(note)
        return RunBuilder(
            framework="megatron_bridge",
            log_format="megatron_bridge",
            training=training,
            timing=_TIMING,
            memory=dict(self._memory),
        ).reading()
