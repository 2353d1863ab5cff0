"""Find the log sources in files and folders, and read one.

A source is a log, or the files of a folder that belong to one training. Sources are read in their own
processes, so results are plain data.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from tprimat import read
from tprimat.errors import INSTALL_ANALYSIS, TensorPrimatError, UnreadableError, missing_package
from tprimat.files import open_plain
from tprimat.log_import import inputs
from tprimat.log_import.inputs import CHUNK, STANDARD_INPUT, Log
from tprimat.log_import.mlperf_systems import with_system
from tprimat.read import file_formats
from tprimat.read.parsing.parsed_log import FileFormat, InputFile, ParsedLog
from tprimat.results.run import Run, SourceFile

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
class ImportedRun:
    """A training read from a log.

    Attributes:
        run: with the files that it comes from.
        notes: what the reader did.
        structured: whether it comes from a machine-readable file.
    """

    run: Run
    notes: tuple[str, ...]
    structured: bool


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
            why = getattr(error, "strerror", None) or str(error)
            raise UnreadableError(name, f"can't be read: {why}: check the name", heading="unreadable-file") from error
        for file in _below(path, skipped) if is_folder else [path]:
            real = os.path.realpath(file)
            if real not in visited:
                visited.add(real)
                _add(file, sources, skipped, named=not is_folder)
    return sources, skipped


def _below(folder: Path, skipped: list[SkippedFile]) -> Iterator[Path]:
    def unreadable(error: OSError) -> None:
        skipped.append(SkippedFile(str(error.filename), f"can't be read: {error.strerror}"))

    for parent, folders, names in os.walk(folder, onerror=unreadable):
        folders[:] = sorted(name for name in folders if name != "history" and not name.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                yield Path(parent, name)


def _add(path: Path, sources: list[LogSource], skipped: list[SkippedFile], *, named: bool) -> None:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) and not named:
            skipped.append(SkippedFile(str(path), "is no plain file"))
            return
        if inputs.is_handed_over(str(path), status.st_mode):
            # It can be read once.
            sources.append(LogSource((str(path),), None, str(path.parent), named, 0))
            return
        head = _head(path)
    except TensorPrimatError as error:
        if named:
            raise
        skipped.append(SkippedFile(str(path), error.message.removeprefix(f"{path}: ")))
        return
    except OSError as error:
        why = f"can't be read: {error.strerror}"
        if named:
            raise UnreadableError(path, f"{why}: check the name", heading="unreadable-file") from error
        skipped.append(SkippedFile(str(path), why))
        return
    file_format = file_formats.file_format_of(head)
    group = re.sub(r"[\\/]checkpoint-\d+$", "", str(path.parent))
    if file_format is not None:
        same = next(
            (
                index
                for index, source in enumerate(sources)
                if file_format.together
                and source.file_format == file_format.looks_for
                and file_format.together(source.paths[0]) == file_format.together(str(path))
            ),
            None,
        )
        if same is not None:
            source = sources[same]
            sources[same] = dataclasses.replace(
                source, paths=(*source.paths, str(path)), size=source.size + status.st_size, named=source.named or named
            )
        else:
            sources.append(LogSource((str(path),), file_format.looks_for, group, named, status.st_size))
    elif not named and (reason := _no_log(path, head)):
        skipped.append(SkippedFile(str(path), reason))
    else:
        sources.append(LogSource((str(path),), None, group, named, status.st_size))


def _head(path: Path) -> bytes:
    chunks = Log(str(path)).chunks()
    head = b""
    with contextlib.closing(chunks):  # type: ignore[type-var]
        for chunk in chunks:
            head += chunk
            if len(head) >= file_formats.HEAD:
                break
    return head[: file_formats.HEAD]


def _no_log(path: Path, head: bytes) -> str | None:
    """Return why a file in a folder is no log; None where it may be one."""
    if not head:
        return "is empty"
    if any(sign in head[:8000] for sign in _OURS) and head.lstrip()[:1] == b"{":
        return "is a result of TensorPrimat: compare reads it"
    if b'"accelerator_model_name"' in head and head.lstrip()[:1] == b"{":
        return "describes an MLPerf system: it is read with the results beside it"
    if head.lstrip()[:1] == b"[" and path.suffix == ".json":
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
        if source.file_format is not None:
            return _read_files(source)
        return _read_log(source)
    except TensorPrimatError as error:
        return Outcome(error=error.message)
    except ModuleNotFoundError as error:
        if (error.name or "tprimat").startswith("tprimat"):
            raise
        return Outcome(error=missing_package(str(error.name), INSTALL_ANALYSIS, source.title).message)


def _read_log(source: LogSource) -> Outcome:
    log = Log(source.paths[0])
    chunks = log.chunks()
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= file_formats.HEAD:
            break
    file_format = file_formats.file_format_of(head)
    if file_format is not None:
        # Only a pipe gets here: files were recognised before.
        with contextlib.ExitStack() as stack:
            stream = _spooled(log.name, _chain(head, chunks), stack)
            parsed_logs = _structured(file_format, [InputFile(log.name, stream)], {}, log.name)
    else:
        parsed_logs = read.parse_chunks(_chain(head, chunks), log.name)
    files = (log.source_file(),)
    cut = tuple(_cut_warnings(log))
    return Outcome(
        tuple(
            ImportedRun(
                _with_source(with_system(parsed.run(), Path(source.paths[0])), files, cut),
                parsed.notes,
                file_format is not None,
            )
            for parsed in parsed_logs
        )
    )


def _chain(head: bytes, rest: Iterable[bytes]) -> Iterator[bytes]:
    yield head
    yield from rest


def _read_files(source: LogSource) -> Outcome:
    file_format = next(each for each in file_formats.FILE_FORMATS if each.looks_for == source.file_format)
    with contextlib.ExitStack() as stack:
        parts, files, cut = [], [], []
        for path in source.paths:
            log = Log(path)
            parts.append(InputFile(path, _spooled(path, log.chunks(), stack)))
            files.append(log.source_file())
            cut += _cut_warnings(log)
        folder = Path(source.paths[0]).parent
        beside = {name: content for name in file_format.beside if (content := _small(folder / name)) is not None}
        parsed_logs = _structured(file_format, parts, beside, source.title)
        runs = []
        for number, parsed in enumerate(parsed_logs):
            # Files that are not of one training give one training each.
            own = files if file_format.together or len(parsed_logs) != len(files) else [files[number]]
            runs.append(ImportedRun(_with_source(parsed.run(), tuple(own), tuple(cut)), parsed.notes, True))
    return Outcome(tuple(runs))


def _structured(
    file_format: FileFormat, parts: Sequence[InputFile], beside: dict[str, bytes], title: str
) -> list[ParsedLog]:
    try:
        return file_format.read(parts, beside)
    except ValueError as error:
        raise UnreadableError(
            title, f"this is {file_format.looks_for}, but {error}", heading="not-a-training-log"
        ) from error


def _cut_warnings(log: Log) -> list[str]:
    return [f"the compressed file could not be read to its end: {log.cut}"] if log.cut else []


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


def _with_source(run: Run, files: tuple[SourceFile, ...], warnings: tuple[str, ...]) -> Run:
    assert run.source is not None
    return msgspec.structs.replace(
        run, warnings=(*warnings, *run.warnings), source=msgspec.structs.replace(run.source, files=files)
    )


def digest_of(run: Run) -> str:
    """Return a short hash of a run's files, to make a result's name unique."""
    hashes = [file.sha256 or file.path for file in (run.source.files if run.source else ())]
    return hashlib.sha256("".join(hashes).encode()).hexdigest()[:8]
