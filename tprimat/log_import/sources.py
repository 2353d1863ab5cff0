"""Find the log sources in files and folders, and read one.

A source is a log, or the files of a folder that belong to one training. Sources are read in their own
processes, so results are plain data.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from tprimat import read
from tprimat.errors import INSTALL_ANALYSIS, TensorPrimatError, UnreadableError, missing_package
from tprimat.files import open_plain, unreadable
from tprimat.log_import.extract import ImportedRun, run_of
from tprimat.log_import.inputs import CHUNK, STANDARD_INPUT, Log, is_handed_over
from tprimat.read.parsing.parsed_log import FileFormat, InputFile, ParsedLog

IN_MEMORY = 1 << 26
"""Bytes of a compressed or piped file that are held in memory before a temporary file takes them."""

LARGEST_UNPACKED = 1 << 32
"""Bytes; a compressed file of a structured kind that grows beyond is no result of a training."""

_OURS = (b'"schema_version"', b'"performance_metrics"')
_CODE = re.compile(
    r"\.(?:py|pyc|ipynb|sh|js|ts|c|cc|cpp|cu|h|md|rst|html?|tsv|png|jpe?g|gif|svg|pdf|so|o)$", re.IGNORECASE
)
"""Names of files that a folder holds beside logs: left alone there, and read when they are named."""


@dataclasses.dataclass(frozen=True)
class LogSource:
    """A log, or several files of one training.

    Attributes:
        paths: files; more than one where they belong to one training.
        file_format: FileFormat.looks_for of whole files; None for a log of lines.
        group: the folder whose sources may describe one training twice.
        named: whether the user named it, rather than a folder that holds it.
        size: bytes.
    """

    paths: tuple[str, ...]
    file_format: str | None
    group: str
    named: bool
    size: int

    @property
    def title(self) -> str:
        """Name for messages."""
        if self.paths == (STANDARD_INPUT,):
            return "standard input"
        return self.paths[0] if len(self.paths) == 1 else f"{Path(self.paths[0]).parent}/ ({len(self.paths)} files)"


@dataclasses.dataclass(frozen=True)
class SkippedFile:
    """A skipped file, and why."""

    path: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What was read from a source: trainings, or why there are none."""

    runs: tuple[ImportedRun, ...] = ()
    error: str | None = None


def log_sources(names: Sequence[str]) -> tuple[list[LogSource], list[SkippedFile]]:
    """Return the log sources in files and folders, in the order of the names, and within a folder by path.

    Raises UnreadableError for a name that is nothing.
    """
    sources: list[LogSource] = []
    skipped: list[SkippedFile] = []
    visited: set[str] = set()
    for name in names:
        if name == STANDARD_INPUT:
            sources.append(LogSource((name,), None, name, True, 0))
            continue
        path = Path(name)
        try:
            is_folder = stat.S_ISDIR(path.stat().st_mode)
        except (OSError, ValueError) as error:
            raise unreadable(name, error) from error
        for file in _below(path, skipped) if is_folder else [path]:
            real = os.path.realpath(file)
            if real in visited:
                continue
            visited.add(real)
            try:
                reason = _add(file, sources, named=not is_folder)
            except TensorPrimatError as error:
                if not is_folder:
                    raise
                reason = error.message.removeprefix(f"{file}: ").removesuffix(": check the name")
            if reason is not None:
                skipped.append(SkippedFile(str(file), reason))
    return sources, skipped


def _below(folder: Path, skipped: list[SkippedFile]) -> Iterator[Path]:
    def skip(error: OSError) -> None:
        skipped.append(SkippedFile(str(error.filename), f"can't be read: {error.strerror}"))

    for parent, folders, names in os.walk(folder, onerror=skip):
        folders[:] = sorted(name for name in folders if name != "history" and not name.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                yield Path(parent, name)


def _add(path: Path, sources: list[LogSource], *, named: bool) -> str | None:
    """Add a file to the sources; return why it is skipped, if it is. Raises UnreadableError."""
    try:
        status = path.stat()
    except OSError as error:
        raise unreadable(path, error) from error
    if not stat.S_ISREG(status.st_mode) and not named:
        return "is no plain file"
    if is_handed_over(str(path), status.st_mode):
        # It can be read once.
        sources.append(LogSource((str(path),), None, str(path.parent), named, 0))
        return None
    with contextlib.closing(Log(str(path)).chunks()) as chunks:
        head = _head(chunks)
    file_format = read.file_format_of(head)
    if file_format is None and not named and (reason := _no_log(path, head)):
        return reason
    looks_for = file_format.looks_for if file_format else None
    group = re.sub(r"[\\/]checkpoint-\d+$", "", str(path.parent))
    if file_format is not None and file_format.together:
        training = file_format.together(str(path))
        for index, source in enumerate(sources):
            if source.file_format == looks_for and file_format.together(source.paths[0]) == training:
                paths, size = (*source.paths, str(path)), source.size + status.st_size
                sources[index] = dataclasses.replace(source, paths=paths, size=size, named=source.named or named)
                return None
    sources.append(LogSource((str(path),), looks_for, group, named, status.st_size))
    return None


def _head(chunks: Iterable[bytes]) -> bytes:
    """Return the first chunks, enough to recognise the file."""
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= read.HEAD:
            break
    return head


def _no_log(path: Path, head: bytes) -> str | None:
    """Return why a file in a folder is no log; None where it may be one."""
    if not head:
        return "is empty"
    first = head.lstrip()[:1]
    if any(sign in head[:8000] for sign in _OURS) and first == b"{":
        return "is a result of TensorPrimat: compare reads it"
    if b'"accelerator_model_name"' in head and first == b"{":
        return "describes an MLPerf system: it is read with the results beside it"
    if first == b"[" and path.suffix == ".json":
        return "is JSON of another kind"
    if _CODE.search(path.name):
        return "is no log by its name: name it to read it all the same"
    # UTF-16 has a NUL in every other byte and says so with its mark.
    if head.count(0) > len(head) // 3 and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "is a binary file of no known kind"
    return None


def read_source(source: LogSource) -> Outcome:
    """Read a log source. Errors that a user can fix are returned as the reason, not raised."""
    try:
        return Outcome(tuple(_read(source)))
    except TensorPrimatError as error:
        return Outcome(error=error.message)
    except ModuleNotFoundError as error:
        if (error.name or "tprimat").startswith("tprimat"):
            raise
        return Outcome(error=missing_package(str(error.name), INSTALL_ANALYSIS, source.title).message)


def _read(source: LogSource) -> list[ImportedRun]:
    logs = [Log(path) for path in source.paths]
    contents: list[Iterable[bytes]] = [log.chunks() for log in logs]
    beside: dict[str, bytes] = {}
    if source.file_format is None:
        # A pipe, which can be read once, is recognised only here.
        rest = iter(contents[0])
        head = _head(rest)
        contents[0] = itertools.chain([head], rest)
        file_format = read.file_format_of(head)
    else:
        file_format = next(each for each in read.FILE_FORMATS if each.looks_for == source.file_format)
        folder = Path(source.paths[0]).parent
        beside = {name: content for name in file_format.beside if (content := _small(folder / name)) is not None}
    if file_format is None:
        parsed_logs = read.parse_chunks(contents[0], logs[0].name)
    else:
        with contextlib.ExitStack() as stack:
            parts = [
                InputFile(log.name, _spooled(log.name, content, stack))
                for log, content in zip(logs, contents, strict=True)
            ]
            parsed_logs = _structured(file_format, parts, beside, source.title)
    warnings = [warning for log in logs for warning in log.warnings]
    runs = []
    for number, parsed in enumerate(parsed_logs):
        # Files that are not of one training give one training each.
        is_one = file_format is None or file_format.together or len(parsed_logs) != len(logs)
        run = run_of(parsed, logs if is_one else [logs[number]], warnings)
        runs.append(ImportedRun(source.title, run, parsed.notes, file_format is not None))
    return runs


def _structured(
    file_format: FileFormat, parts: Sequence[InputFile], beside: Mapping[str, bytes], title: str
) -> list[ParsedLog]:
    try:
        return file_format.read(parts, beside)
    except ValueError as error:
        raise UnreadableError(
            title, f"this is {file_format.looks_for}, but {error}", heading="not-a-training-log"
        ) from error


def _spooled(name: str, chunks: Iterable[bytes], stack: contextlib.ExitStack) -> BinaryIO:
    """Return a seekable stream: in memory, or in a temporary file where it is large."""
    stream: BinaryIO = io.BytesIO()
    size = 0
    for chunk in chunks:
        if size <= IN_MEMORY < size + len(chunk):
            on_disk = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
            assert isinstance(stream, io.BytesIO)
            on_disk.write(stream.getvalue())
            stream = on_disk
        size += len(chunk)
        if size > LARGEST_UNPACKED:
            raise UnreadableError(name, "is more than 4 GiB of data: is it what it seems?", heading="unreadable-file")
        stream.write(chunk)
    stream.seek(0)
    return stream


def _small(path: Path) -> bytes | None:
    try:
        with open_plain(path) as stream:
            return stream.read(CHUNK)
    except OSError:
        return None
