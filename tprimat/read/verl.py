"""Reader of verl's console, of reinforcement learning and of fine-tuning: a line of metrics per
step.

(TaskRunner pid=4455) step:1 - actor/pg_loss:0.011 - actor/lr:1e-06 - perf/total_num_tokens:812345 -
perf/time_per_step:40.010 - perf/throughput:2538.2 - timing_s/gen:20.5 - timing_s/step:40.010 step:1
- train/loss:1.21 - train/lr(1e-3):0.01 - train/time(s):3.21 step:1 - train/loss:1.21 -
train/grad_norm:0.5 - train/lr:1e-05 - train/mfu:0.31 - train/global_tokens:65536

perf/throughput is total_num_tokens / (time_per_step × GPUs): the number of GPUs follows from it. A
step of reinforcement learning has as many tokens as its answers are long, so that no batch size ×
sequence length describes it; the parts of its time are in the result's breakdown. Newer fine-tuning
prints no time. Source: verl/trainer/ppo/metric_utils.py, verl/trainer/sft_trainer.py and
verl/utils/logger/aggregate_logger.py of volcengine/verl, and a console of a PPO training.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tprimat.notes import Note
from tprimat.read.parsing.run_builder import RunBuilder, timer
from tprimat.read.parsing.step_lines import StepReader
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.values import count, number, state, statements, times, whole_ratio

_STEP = re.compile(r"\bstep:(\d{1,12}) - ")
# Values of numpy 2 are printed as such: np.float64(0.5).
_METRIC = re.compile(r"(?<!\S)([\w@./()-]{1,120}):(?:np\.\w{1,12}\()?([^\s()]{1,40})")
_STATEMENTS = statements(
    (
        "Training Progress:",
        count,
        1,
        r"\bTraining Progress:.{0,400}?\| \d{1,12}/(?P<max_steps>\d{1,12}) \[",
    )
)
_PART = "timing_s/"


class Reader(StepReader):
    """A parsed_log.Reader of verl's console."""

    name = "verl"
    rate = None
    signs = ("perf/time_per_step:", "timing_s/step:", "train/time(s):", "train/global_tokens:")
    names: Mapping[str, str] = {
        "perf/time_per_step": "seconds",
        "timing_s/step": "seconds",
        "train/time(s)": "seconds",
        "train/loss": "loss",
        "actor/grad_norm": "grad_norm",
        "train/grad_norm": "grad_norm",
        "actor/lr": "learning_rate",
        "train/lr": "learning_rate",
        "train/mfu": "mfu",
        "train/global_tokens": "tokens_per_step",
        "perf/total_num_tokens": "tokens_per_step",
        "perf/throughput": "tokens_per_second_per_gpu",
        "perf/mfu/actor": "mfu_actor",
        "perf/max_memory_allocated_gb": "memory_max_allocated_gib",
        "perf/max_memory_reserved_gb": "memory_max_reserved_gib",
        "actor/pg_loss": "policy_loss",
        "critic/rewards/mean": "reward",
        "critic/score/mean": "score",
        "response_length/mean": "response_length",
    }
    warns_of_unread = False
    untimed = "this fine-tuning prints none; read W&B's run file, if there is one"
    statements = _STATEMENTS
    timing = timer(
        clock="host clock of verl's trainer",
        covers=(
            "the whole step: generation, rewards, log probabilities and updates, in versions before"
            " mid-2025 also validation and saving; or a batch of fine-tuning"
        ),
        over_ranks="the controller; rank 0 in fine-tuning",
    )

    def take(self, line: Line) -> bool:
        """Read a step."""
        text = line.text[:20_000]
        head = _STEP.search(text)
        if head is None or not line.whole:
            return False
        printed = {metric[1]: metric[2] for metric in _METRIC.finditer(text, head.start())}
        if (scaled := number(printed.pop("train/lr(1e-3)", None))) is not None:
            printed["train/lr"] = repr(times(scaled, "1e-3"))
        record = self.new_record(int(head[1]), line.number, printed)
        record.window = 1
        for name, value in printed.items():
            if name.startswith(_PART) and name != "timing_s/step":
                self.add_part(name.removeprefix(_PART), value)
        tokens = printed.get("perf/total_num_tokens")
        rate = printed.get("perf/throughput")
        words = f"perf/total_num_tokens {tokens} / time_per_step / throughput {rate}"
        state(
            self.stated,
            "num_gpus",
            whole_ratio((tokens,), (record.seconds, rate)),
            words,
            line.number,
        )
        self.sorter.take(record)
        return True

    def done(self, run: RunBuilder) -> None:
        """Say why no batch describes a step."""
        if any("tokens_per_step" in record.native for record in run.training.records.values()):
            run.unknown["batch"] = Note("responses-vary")
