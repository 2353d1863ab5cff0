"""Reader of Composer's console, which llm-foundry prints: a block per log, with rolling means.

[batch=5/20]:
         Train loss/train/total: 8.4213
         Train throughput/device/tokens_per_sec: 1255.1776
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tprimat.read.parsing.records import Record
from tprimat.read.parsing.run_builder import timer
from tprimat.read.parsing.step_lines import BlockReader
from tprimat.read.parsing.values import count, number, state, whole_ratio

ROLLING = 100
"""Batches that Composer's SpeedMonitor averages by default."""


class Reader(BlockReader):
    """A parsed_log.Reader of Composer logs."""

    name = "composer"
    signs = ("Train ", "batch=")
    timing = timer(
        clock="host clock of Composer's SpeedMonitor",
        covers="whole batches without evaluation, a rolling mean of up to 100 of them",
        over_ranks="local rank 0",
    )
    header = re.compile(
        r"\[(?:epoch=\d{1,9}(?:/\d{1,9})?\]\[)?batch=(\d[\d,]{0,14})(?:/(\d[\d,]{0,14}))?\]:?"
    )
    metric = re.compile(r"^\s*(?:\S{1,60}\s+)??Train ([\w./ -]{2,120}?): (\S{1,40})\s*$")
    headless = True
    names: Mapping[str, str] = {
        "loss/train/total": "loss",
        "metrics/train/LanguageCrossEntropy": "loss",
        "throughput/device/tokens_per_sec": "tokens_per_second_per_gpu",
        "throughput/tokens_per_sec": "tokens_per_second",
        "throughput/samples_per_sec": "samples_per_second",
        "throughput/device/mfu": "mfu",
        "l2_norm/grad/global": "grad_norm",
        "optimizer/global_grad_norm": "grad_norm",
        "time/token": "tokens_seen",
        # Composer's MemoryMonitor divides by 10⁹.
        "memory/peak_allocated_mem": "memory_max_allocated_gb",
        "memory/peak_reserved_mem": "memory_max_reserved_gb",
        "memory/current_allocated_mem": "memory_allocated_gb",
        "time/train": "cumulative_train_hours",
        # These follow from others, or aren't of training.
        **dict.fromkeys(
            (
                f"time/{name}"
                for name in ("batch", "sample", "epoch", "val", "total", "remaining_estimate")
            ),
            "",
        ),
        **dict.fromkeys(
            (f"throughput/device/{name}_per_sec" for name in ("batches", "samples")), ""
        ),
        "trainer/device_train_microbatch_size": "",
    }
    needs = ("loss/train/total", "metrics/train/LanguageCrossEntropy", "throughput/")
    rates = ("throughput/batches_per_sec",)
    caveat = "times-of-rolling-mean"
    untimed = "batches_per_sec is printed with too few digits"

    def step_within(self, block: dict[str, str]) -> int | None:
        """Return the batch of a block."""
        before = number(block.get("time/batch"))
        if before is not None and 0 <= before < 2**53:
            return int(before) + 1
        return None

    def record(self, step: int, line: int, block: dict[str, str]) -> Record:
        """Return the record of a block; state the sizes that follow from its values."""
        record = super().record(step, line, block)
        record.put(
            "learning_rate",
            next((rate for name, rate in block.items() if name.startswith("lr-")), None),
        )
        record.unread = tuple(name for name in record.unread if not name.startswith("lr-"))
        for kind in ("samples_per_sec", "tokens_per_sec"):
            every = block.get(f"throughput/{kind}", "")
            one = block.get(f"throughput/device/{kind}", "")
            words = f"{kind} {every} / {one} of a device"
            state(self.stated, "num_gpus", whole_ratio((every,), (one,)), words, line)
        micro = count(block.get("trainer/device_train_microbatch_size"))
        state(
            self.stated, "micro_batch_size", micro, f"device_train_microbatch_size: {micro}", line
        )
        batches = number(block.get("time/batch"))
        samples = number(block.get("time/sample"))
        if batches and samples and samples % batches == 0:
            # Both count what was done before this batch.
            text = f"time/sample {samples:g} / time/batch {batches:g}"
            state(self.stated, "global_batch_size", count(samples / batches), text, line)
        return record
