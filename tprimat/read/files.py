"""Readers of whole files: binary ones, and those that are no stream of lines. A row per dialect.

Such a reader gets the files that belong together as seekable streams, and opens none itself.
tprimat.cli.read recognises them by their first bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import BinaryIO

from tprimat.read.parsing.parsed_log import ParsedLog

HEAD = 1 << 16
"""Bytes of a file that are looked at to recognise it."""


@dataclasses.dataclass(frozen=True)
class Part:
    """A file that is read.

    Attributes:
        name: for messages; nothing is taken from it.
        stream: seekable, at its start.
    """

    name: str
    stream: BinaryIO


@dataclasses.dataclass(frozen=True)
class FileFormat:
    """How files of a kind are read.

    Attributes:
        name: of the dialect.
        looks_for: by what a file is recognised, for people.
        recognises: whether a file that begins with these bytes is one.
        read: the trainings of the files that belong together; gets small files that lie beside
            them by name. Raises ValueError, with the reason, for content that can't be read.
        together: gives, for a file's path, what it shares with the files of the same training;
            None where each file is one.
        beside: names of files that help, where they lie in the same folder.
    """

    name: str
    looks_for: str
    recognises: Callable[[bytes], bool]
    read: Callable[[Sequence[Part], Mapping[str, bytes]], list[ParsedLog]]
    together: Callable[[str], str] | None = None
    beside: tuple[str, ...] = ()


def folder_of(path: str) -> str:
    """The folder of a file: for kinds of which all files in a folder are of one training."""
    return str(PurePath(path).parent)


def file_formats() -> tuple[FileFormat, ...]:
    """All of them; the first that recognises a file reads it."""
    from tprimat.read import lightning_csv, tracelens
    from tprimat.read.hf_trainer import state as hf_state
    from tprimat.read.tensorboard import reader as tensorboard

    return (
        tensorboard.FILES,
        hf_state.STATE,
        hf_state.RESULTS,
        tracelens.WORKBOOK,
        tracelens.TABLES,
        lightning_csv.FILES,
    )


def file_format_of(head: bytes) -> FileFormat | None:
    """The dialect of a file that begins with these bytes, or None."""
    return next((dialect for dialect in file_formats() if dialect.recognises(head)), None)
