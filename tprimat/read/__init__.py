"""Readers of training logs: lines -> trainings. One file per log format; each is a line in LOG_FORMATS.

Readers neither open files nor print: tprimat.log_import.inputs opens a log, text.lines() makes lines
of its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

from tprimat.errors import UnreadableError
from tprimat.read import (
    automodel,
    composer,
    dllogger,
    golden,
    litgpt,
    maxtext,
    megatron_bridge,
    merge,
    nanogpt,
    olmo,
    torchtune,
)
from tprimat.read.deepspeed import reader as deepspeed
from tprimat.read.hf_trainer import reader as hf_trainer
from tprimat.read.megatron import reader as megatron
from tprimat.read.mlperf import reader as mlperf
from tprimat.read.nemo import reader as nemo
from tprimat.read.parsing.feeder import LogFeeder
from tprimat.read.parsing.parsed_log import ParsedLog, Reader
from tprimat.read.parsing.text import Blocks, Line
from tprimat.read.torchtitan import reader as torchtitan
from tprimat.results.run import Run

LOG_FORMATS: tuple[type[Reader], ...] = (
    megatron.Reader,
    mlperf.Reader,
    nemo.Reader,
    dllogger.Reader,
    torchtitan.Reader,
    automodel.Reader,
    maxtext.Reader,
    megatron_bridge.Reader,
    golden.Reader,
    hf_trainer.Reader,
    deepspeed.Reader,
    litgpt.Reader,
    nanogpt.Reader,
    torchtune.Reader,
    composer.Reader,
    olmo.Reader,
)
"""The log formats that are read."""

FEWEST_QUOTED = 3
"""Steps that make a training of what a JSON document quotes."""


def readings(lines: Iterable[Line], name: str) -> list[ParsedLog]:
    """Return the trainings that a log holds, in its order.

    Args:
        lines: of the log, as text.lines() gives them.
        name: of the log, for errors.

    Raises:
        UnreadableError: there is no training in it; says what was looked for.
    """
    log = intake()
    log.feed_lines(lines)
    return readings_in(log, name)


def readings_of(chunks: Iterable[bytes], name: str) -> list[ParsedLog]:
    """Return the trainings of a log from chunks of its bytes: faster than lines for long logs."""
    log = intake()
    blocks = Blocks()
    for chunk in chunks:
        for block in blocks.feed(chunk):
            log.feed(block)
    for block, whole in blocks.finish():
        log.feed(block, whole=whole)
    return readings_in(log, name)


def intake() -> LogFeeder:
    """Return a feeder of all log formats."""
    return LogFeeder([log_format() for log_format in LOG_FORMATS])


def readings_in(log: LogFeeder, name: str) -> list[ParsedLog]:
    """Return the trainings of a log that was fed completely."""
    by_format = log.finish()
    if log.document:
        # Notes on logs quote a line or two of them; what a notebook or a service keeps of a log is longer.
        by_format = [
            (name, [each for each in made if name == golden.Reader.name or each.steps >= FEWEST_QUOTED])
            for name, made in by_format
        ]
    found = merge.merge_logs(by_format)
    if found:
        return found
    wanted = " or ".join(reader.looks_for for reader in log.readers)
    if log.empty:
        raise UnreadableError(name, "is empty: name the log of a training", heading="not-a-training-log")
    raise UnreadableError(
        name, f"no training in it: what is looked for: {wanted}, or its argument dump", heading="not-a-training-log"
    )


def read(lines: Iterable[Line], name: str) -> list[Run]:
    """Return the trainings of a log as Runs, without user settings. See parsed_logs()."""
    return [reading.run() for reading in readings(lines, name)]


def recognize(lines: Iterable[Line]) -> str | None:
    """Return the log format of some lines of a log, the earliest that shows; or None."""
    readers = [log_format() for log_format in LOG_FORMATS]
    for line in lines:
        for reader in readers:
            reader.feed(line)
            if reader.recognised:
                return reader.name
    return None
