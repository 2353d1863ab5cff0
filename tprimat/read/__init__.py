"""Readers of training logs: lines -> trainings. One file per log format; each is a line in LOG_FORMATS.

Formats of whole files stand in FILE_FORMATS.
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
    lightning_csv,
    litgpt,
    maxtext,
    megatron_bridge,
    merge,
    nanogpt,
    olmo,
    torchtune,
    tracelens,
)
from tprimat.read.deepspeed import reader as deepspeed
from tprimat.read.hf_trainer import reader as hf_trainer
from tprimat.read.hf_trainer import state as hf_state
from tprimat.read.megatron import reader as megatron
from tprimat.read.mlperf import reader as mlperf
from tprimat.read.nemo import reader as nemo
from tprimat.read.parsing.feeder import LogFeeder
from tprimat.read.parsing.parsed_log import FileFormat, ParsedLog, Reader
from tprimat.read.parsing.text import Blocks, Line
from tprimat.read.tensorboard import reader as tensorboard
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

FILE_FORMATS: tuple[FileFormat, ...] = (
    tensorboard.FILES,
    hf_state.STATE,
    hf_state.RESULTS,
    tracelens.WORKBOOK,
    tracelens.TABLES,
    lightning_csv.FILES,
)
"""The first one that recognises a file reads it."""

HEAD = 1 << 16
"""Bytes of a file that are looked at to recognise it."""

FEWEST_QUOTED = 3
"""Steps that make a training of what a JSON document quotes."""


def parse_lines(lines: Iterable[Line], name: str) -> list[ParsedLog]:
    """Return the trainings that a log holds, in its order. Raises UnreadableError, with its name, for none."""
    feeder = new_feeder()
    feeder.feed_lines(lines)
    return parsed_logs(feeder, name)


def parse_chunks(chunks: Iterable[bytes], name: str) -> list[ParsedLog]:
    """Return the trainings of a log from chunks of its bytes: faster than lines for long logs."""
    feeder = new_feeder()
    blocks = Blocks()
    for chunk in chunks:
        for block in blocks.feed(chunk):
            feeder.feed(block)
    for block, whole in blocks.finish():
        feeder.feed(block, whole=whole)
    return parsed_logs(feeder, name)


def new_feeder() -> LogFeeder:
    """Return a feeder of all log formats."""
    return LogFeeder([log_format() for log_format in LOG_FORMATS])


def parsed_logs(feeder: LogFeeder, name: str) -> list[ParsedLog]:
    """Return the trainings of a log that was fed completely."""
    by_format = feeder.finish()
    if feeder.document:
        # Notes on logs quote a line or two of them; what a notebook or a service keeps of a log is longer.
        by_format = [
            (name, [each for each in logs_of_format if name == golden.Reader.name or each.steps >= FEWEST_QUOTED])
            for name, logs_of_format in by_format
        ]
    logs = merge.merge_logs(by_format)
    if logs:
        return logs
    formats = " or ".join(reader.looks_for for reader in feeder.readers)
    if feeder.empty:
        raise UnreadableError(name, "is empty: name the log of a training", heading="not-a-training-log")
    raise UnreadableError(
        name, f"no training in it: what is looked for: {formats}, or its argument dump", heading="not-a-training-log"
    )


def read(lines: Iterable[Line], name: str) -> list[Run]:
    """Return the trainings of a log as Runs, without user settings. See parse_lines()."""
    return [each.run() for each in parse_lines(lines, name)]


def file_format_of(head: bytes) -> FileFormat | None:
    """Return the format of a file that begins with these bytes, or None."""
    return next((row for row in FILE_FORMATS if row.recognises(head)), None)
