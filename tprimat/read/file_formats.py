"""The table of file formats. tprimat.log_import recognises a file by its first bytes and opens it."""

from __future__ import annotations

from tprimat.read import lightning_csv, tracelens
from tprimat.read.hf_trainer import state as hf_state
from tprimat.read.parsing.parsed_log import FileFormat
from tprimat.read.tensorboard import reader as tensorboard

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


def file_format_of(head: bytes) -> FileFormat | None:
    """Return the format of a file that begins with these bytes, or None."""
    return next((row for row in FILE_FORMATS if row.recognises(head)), None)
