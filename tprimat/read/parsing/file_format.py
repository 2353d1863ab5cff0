"""A format of whole files: binary ones, and text that is no stream of lines."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import BinaryIO

from tprimat.read.parsing.parsed_log import ParsedLog


@dataclasses.dataclass(frozen=True)
class InputFile:
    """A file to read.

    Attributes:
        name: for messages only.
        stream: seekable, at its start.
    """

    name: str
    stream: BinaryIO


@dataclasses.dataclass(frozen=True)
class FileFormat:
    """How files of one kind are recognised and read.

    Attributes:
        name: of the log format.
        looks_for: by what a file is recognised, for people.
        recognises: whether a file that begins with these bytes is one.
        read: the trainings of the files that belong together; gets small neighbouring files by
            name. Raises ValueError, with the reason, for content that can't be read.
        together: maps a file's path to what all files of its training share; None where each file
            is a training.
        beside: names of helpful files in the same folder.
    """

    name: str
    looks_for: str
    recognises: Callable[[bytes], bool]
    read: Callable[[Sequence[InputFile], Mapping[str, bytes]], list[ParsedLog]]
    together: Callable[[str], str] | None = None
    beside: tuple[str, ...] = ()


def folder_of(path: str) -> str:
    """Return the folder of a file: for formats whose files in one folder are one training."""
    return str(PurePath(path).parent)
