"""Reader of OLMo's and OLMo-core's consoles: a header with the step, and indented name=value lines.

[2024-04-17 09:42:38] INFO     [olmo.train:816, rank=0] [step=2/739328]
    train/CrossEntropyLoss=10.73
    throughput/device/tokens_per_second=45,538
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping

from tprimat.notes import Note
from tprimat.read.parsing import following
from tprimat.read.parsing.remarks import tokens_per_step
from tprimat.read.parsing.run_builder import RunBuilder, timer
from tprimat.read.parsing.step_lines import BlockReader
from tprimat.read.parsing.text import Line
from tprimat.read.parsing.values import count, state, whole_ratio

LEAST_SHARE = 0.99
"""Tokens of all GPUs over those of one: rates that are printed with two digits or more don't give
less.
"""


class Reader(BlockReader):
    """A parsed_log.Reader of OLMo logs."""

    name = "olmo"
    signs = ("[step=", "=")
    timing = timer(
        clock="host clock of OLMo's speed monitor",
        covers=(
            "whole batches, data included, a mean of a window of them; the first ones are left out"
        ),
    )
    header = re.compile(r"\[step=(\d[\d,]{0,14})(?:/(\d[\d,]{0,14}))?(?:,[^\]]{0,100})?\]")
    metric = re.compile(r"^\s{1,20}([\w/ ()@.-]{2,100}?)=([-+\d.,eEnaif]{1,40}%?)\s*$")
    names: Mapping[str, str] = {
        "train/CE loss": "loss",
        "train/CrossEntropyLoss": "loss",
        "optim/total grad norm": "grad_norm",
        "optim/total_grad_norm": "grad_norm",
        "optim/LR (group 0)": "learning_rate",
        "optim/learning_rate_group0": "learning_rate",
        "throughput/device/TPS": "tokens_per_second_per_gpu",
        "throughput/device/tokens_per_second": "tokens_per_second_per_gpu",
        "throughput/device/TPS (actual avg)": "cumulative_tokens_per_second_per_gpu",
        "throughput/device/MFU": "mfu_percent",
        "throughput/total tokens": "tokens_seen",
        "throughput/total_tokens": "tokens_seen",
        "System/Peak GPU Memory (MB)": "memory_max_allocated_mb",
        "gpu_memory/peak active (GiB)": "memory_active_gib",
        "gpu_memory/peak reserved (GiB)": "memory_max_reserved_gib",
    }
    needs = ("train/", "throughput/")
    rates = ("throughput/device/batches_per_second", "throughput/device/BPS")
    caveat = "times-of-printed-rate"
    untimed = "batches per second are printed with too few digits"

    def take(self, line: Line) -> bool:
        """Read a header, with its time, or a metric."""
        taken = super().take(line)
        if taken:
            self.sorter.pending.feed(line.number, line.text)
        return taken

    def other(self, line: Line) -> None:
        """End the block at any other line."""
        super().other(line)
        if "Training complete" in line.text:
            self.sorter.pending.marks["success"] = line.number
        if line.text.strip() and not line.text.startswith((" ", "\t")):
            self.within = False

    def done(self, run: RunBuilder) -> None:
        """Note what the rates are, and how many tokens a step has."""
        found = run.training.ordered()
        if len(counts := {*tokens_per_step(found)}) == 1:
            self.figures["tokens_per_step"] = tokens = counts.pop()
            state(
                run.stated,
                "tokens_per_step",
                count(tokens),
                f"{tokens:,.0f} tokens per step",
                found[0].line,
            )
            rates = []
            for record in found:
                rates.append((record.figure("batches_per_second"), record.figure(run.rate or "")))
            rates = [rate for rate in rates if all(rate)]
            devices = {whole_ratio((tokens, batches), (rate,)) for batches, rate in rates} - {None}
            ratio = statistics.median(
                [tokens * (batches or 0) / (rate or 1) for batches, rate in rates] or [0]
            )
            if len(devices) == 1 and (gpus := devices.pop()):
                how = "tokens per step × batches/s / tokens/s/GPU"
                state(run.stated, "num_gpus", gpus, how, found[0].line, 0)
                run.training.warnings.append(following.follows("num_gpus", gpus, how))
            elif 0 < ratio < LEAST_SHARE:
                run.training.warnings.append(Note("rates-contradict", {"times": 1 / ratio}))
        super().done(run)
