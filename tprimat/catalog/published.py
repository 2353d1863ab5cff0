"""Published throughputs (published.csv, a row each), and which of them a run may be compared with.

A row is used where GPU, model, precision and sequence length are known and the same: nothing is
scaled, and there is no nearest row. Batch and number of GPUs may differ, and are said.

Omitted on purpose: torchtitan's values of H100, measured on cards with 96 GB of HBM2e at 500 W
that no row of gpus.csv is; values that only a plot shows; and values of a sequence
length that the publisher doesn't state.
"""

from __future__ import annotations

import dataclasses
import functools
import re

from tprimat.catalog import gpus as hardware
from tprimat.catalog import models
from tprimat.results.run import Run

FULL = ("full", None)
"""What a run says of its scale when it trained the whole model."""

_SEVENTY = re.compile(r"llama(3|31|33)(70b)(?!\d)")
"""Names of Llama 3, 3.1 and 3.3 70B without their punctuation: one shape, no row in models.py."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Published:
    """A throughput that somebody publishes.

    Attributes:
        gpu: key of a row of gpus.csv.
        model: as in a result; llama-70b is Llama 3 70B under any of its names.
        precision: as in a result: fp8 and mxfp8 are two.
        gpus, global_batch_size: how it was measured; None where they don't say.
        framework: as in a result; empty where they don't say, or where results don't name it.
        date: of the value: a day, a month or a release; empty where they don't say.
    """

    publisher: str
    gpu: str
    model: str
    precision: str
    sequence_length: int
    gpus: int | None = None
    global_batch_size: int | None = None
    tokens_per_second_per_gpu: float
    framework: str = ""
    date: str = ""
    note: str = ""
    source: str


@functools.cache
def rows() -> tuple[Published, ...]:
    """Return the table."""
    return hardware.read_table("published.csv", Published)


def of_the_same(run: Run) -> tuple[Published, ...]:
    """Return the rows of the same GPU, model, precision and sequence length; none where one of them is unknown."""
    config = run.training_config
    plain = re.sub(r"[^a-z0-9]", "", (run.model or "").lower())
    model = "llama-70b" if _SEVENTY.search(plain) else run.model
    if run.environment.emulated or run.scale not in FULL or None in (model, config.precision, config.sequence_length):
        return ()
    if models.denies(run.model, run.model_config):
        return ()
    device = hardware.match(run.gpu_info)
    if device.gpu is None or device.partition is not None:
        return ()
    key = (device.gpu.key, model, config.precision, config.sequence_length)
    return tuple(row for row in rows() if (row.gpu, row.model, row.precision, row.sequence_length) == key)
