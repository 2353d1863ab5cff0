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
from collections.abc import Mapping

from tprimat.notes import Note
from tprimat.read.parsing.records import Record
from tprimat.read.parsing.run_builder import RunBuilder, timer
from tprimat.read.parsing.step_lines import LONGEST_METRIC, BlockReader, Place
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.values import count, state, whole_ratio

_EPOCH = re.compile(r"= Epoch (\d{1,12})/(\d{1,12}) =+")
_TOTAL = "Total step time"
_OVER = "has been reached, stopping training early"
_REWARDS = {"Avg Reward", "Avg Total Reward", "Generation KL Error"}
"""What a block of reinforcement learning has: its loss isn't that of a language model."""
_ONE_GPU, _ALL_GPUS = "E2E (Tokens/sec/gpu)", "E2E (Tokens/sec)"


class Reader(BlockReader):
    """A parsed_log.Reader of NeMo RL's console."""

    name = "nemo_rl"
    rate = None
    signs = (" Step ", " Epoch ", "• ", "- ")
    other_signs = (_OVER,)
    header = re.compile(r"= Step (\d{1,12})/(\d{1,12}) =+")
    metric = re.compile(
        r"[•-] ([\w ./()-]{1,80}?): ((?:[-+\d.eE]{1,40}|nan|inf)[s%]?)(?: \([\d.]+%\))?\s*$"
    )
    names: Mapping[str, str] = {
        _TOTAL: "seconds",
        "Loss": "loss",
        "Avg Reward": "reward",
        "Avg Total Reward": "reward",
        "Generation KL Error": "generation_kl_error",
        "Mean Generation Length": "response_length",
        _ONE_GPU: "tokens_per_second_per_gpu",
        "Total valid tokens": "tokens_per_step",
        "Training Model Floating Point Utilization": "mfu_percent",
    }
    needs = (_TOTAL,)
    timing = timer(
        clock="host clock of NeMo RL's controller",
        covers=(
            "the whole step: generation, rewards, log probabilities, weight transfer, training;"
            " validation and checkpoints if any"
        ),
        over_ranks="the controller",
    )
    _epoch = _epochs = 1

    def take(self, line: Line) -> bool:
        """Read the header of an epoch or a step, or a metric."""
        if epoch := _EPOCH.search(line.text[:LONGEST_METRIC]):
            self.close()
            self._epoch, self._epochs = int(epoch[1]), int(epoch[2])
        return bool(epoch) or super().take(line)

    def place(self, header: re.Match[str]) -> Place:
        """Return the step of a header, of all epochs: steps are counted again in each."""
        step = int(header[1])
        steps = int(header[2])
        return step + max(self._epoch - 1, 0) * steps, count(steps) if self._epochs == 1 else None

    def put(self, name: str, value: str, line: Line) -> None:
        """Add a metric, or the time of a part of the step."""
        figure = value.removesuffix("s")
        if name in self.names:
            super().put(name, figure, line)
        elif name == _ALL_GPUS:
            one = self.block.get(_ONE_GPU, "")
            words = f"{_ALL_GPUS} {figure} / {_ONE_GPU} {one}"
            state(self.stated, "num_gpus", whole_ratio((figure,), (one,)), words, line.number)
        elif figure != value and not name.startswith("Total "):
            self.add_part(name, figure)

    def other(self, line: Line) -> None:
        """Read that a training ends as planned."""
        if _OVER in line.text and "Max number of steps" in line.text:
            self.close()
            self.sorter.pending.marks.setdefault("success", line.number)
        super().other(line)

    def record(self, step: int, line: int, block: dict[str, str]) -> Record:
        """Return the record of a block."""
        record = super().record(step, line, block)
        if _REWARDS & block.keys():
            record.set_policy_loss()
        return record

    def done(self, run: RunBuilder) -> None:
        """Say why no batch describes a step."""
        super().done(run)
        run.unknown["batch"] = Note("answers-vary")
