"""Reader of NeMo RL's console: a block per step.

========================= Epoch 1/1 =========================
========================= Step 1/100 =========================
📊 Training Results:
  • Loss: 0.0123
⏱️  Timing:
  • Total step time: 57.73s
  • generation: 30.25s (52.4%)
🔍 Performance Metrics:
    - E2E (Tokens/sec/gpu): 1234.5

Source: nemo_rl/algorithms/grpo.py and sft.py of NVIDIA-NeMo/RL.
"""

from __future__ import annotations

import re
import statistics

from tprimat.read.parsing.records import Record
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.step_lines import BlockReader
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.values import count, number, state, whole_ratio
from tprimat.results.account import Timing

_HEADER = re.compile(r"=+ (Step|Epoch) (\d{1,12})/(\d{1,12}) =+")
_METRIC = re.compile(r"[•-] ([\w ./()-]{1,80}?): ([-+\d.eE]{1,40}|nan|inf)(s?)(?: \([\d.]+%\))?\s*$")
_TOTAL = "Total step time"
_OVER = "has been reached, stopping training early"
_REWARDS = {"Avg Reward", "Avg Total Reward", "Generation KL Error"}
"""What a block of reinforcement learning has: its loss isn't that of a language model."""
_ONE_GPU, _ALL_GPUS = "E2E (Tokens/sec/gpu)", "E2E (Tokens/sec)"
_NAMES = {
    _TOTAL: "seconds",
    "Loss": "loss",
    "Avg Reward": "reward",
    "Avg Total Reward": "reward",
    "Generation KL Error": "generation_kl_error",
    "Mean Generation Length": "response_length",
    _ONE_GPU: "tokens_per_second_per_gpu",
    "Total valid tokens": "tokens_per_step",
}


class Reader(BlockReader):
    """A parsed_log.Reader of NeMo RL's console."""

    name = "nemo_rl"
    rate = None
    signs = (" Step ", " Epoch ", "• ", "- ")
    names = _NAMES
    timing = Timing(
        kind="timer",
        clock="host clock of NeMo RL's controller",
        covers="the whole step: generation, rewards, log probabilities, weight transfer, training; validation and "
        "checkpoints where they occur",
        over_ranks="the controller",
    )

    def __init__(self) -> None:
        super().__init__()
        self._parts: dict[str, list[float]] = {}
        self._open = False
        self._epoch = self._epochs = 1

    def take(self, line: Line) -> bool:
        """Read a header or a metric."""
        text = line.text[:400]
        if (header := _HEADER.search(text)) and header[1] == "Epoch":
            self.close()
            self._epoch, self._epochs = int(header[2]), int(header[3])
            return True
        if header:
            step, steps = int(header[2]), int(header[3])
            if self._epochs == 1:
                state(self.stated, "max_steps", count(steps), text, line.number)
            # Steps are counted anew in each epoch.
            self.begin(step + max(self._epoch - 1, 0) * steps, line.number)
            self._open = True
            return True
        metric = _METRIC.search(text) if self._open else None
        if metric is None or not line.whole:
            return False
        if metric[1] in _NAMES:
            self.put(metric[1], metric[2], line)
        elif metric[1] == _ALL_GPUS:
            self._all_gpus(metric[2], line)
        elif metric[3] and not metric[1].startswith("Total ") and (seconds := number(metric[2])) is not None:
            self._parts.setdefault(metric[1], []).append(seconds)
        return True

    def other(self, line: Line) -> None:
        """Read that a training ends as planned."""
        if _OVER in line.text and "Max number of steps" in line.text:
            self.close()
            self.sorter.pending.marks.setdefault("success", line.number)

    def _all_gpus(self, rate: str, line: Line) -> None:
        one = self._block.get(_ONE_GPU, "")
        words = f"{_ALL_GPUS} {rate} / {_ONE_GPU} {one}"
        state(self.stated, "num_gpus", whole_ratio((rate,), (one,)), words, line.number)

    def counts(self, block: dict[str, str]) -> bool:
        """Return whether a block has a step's time."""
        return _TOTAL in block

    def record(self, step: int, line: int, block: dict[str, str]) -> Record:
        """Return the record of a block."""
        record = super().record(step, line, block)
        record.window = 1
        if _REWARDS & block.keys() and record.loss is not None:
            record.put("policy_loss", record.loss)
            record.drop("loss")
        return record

    def done(self, run: RunBuilder) -> None:
        """Set the parts of a step's time."""
        super().done(run)
        run.unknown["batch"] = "tokens per step vary with the length of the answers"
        if run.training is self.sorter.trainings[-1]:
            run.breakdown = {name: statistics.fmean(values) for name, values in self._parts.items()}
