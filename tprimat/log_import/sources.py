"""Find the log sources in files and directories, and read them, in several processes if that pays.

A source is a log, or the files of a directory that belong to one training. Sources are read in
their own processes, so results are plain data.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import io
import itertools
import multiprocessing
import os
import re
import stat
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import BinaryIO

from tprimat import read
from tprimat.errors import (
    INSTALL_ANALYSIS,
    TensorPrimatError,
    UnreadableError,
    UsageError,
    missing_package,
)
from tprimat.files import unreadable
from tprimat.location import elsewhere
from tprimat.log_import.extract import ImportedRun, imported, with_start
from tprimat.log_import.given import NOTHING_GIVEN, GivenValues
from tprimat.log_import.inputs import Chunks, Log, is_handed_over
from tprimat.log_import.named import STANDARD_INPUT, read_small
from tprimat.log_import.unread import NotRead, SkippedFile
from tprimat.notes import DESCRIPTION, LOST, NO_LOG, RESULT, Note
from tprimat.notes.catalogue import words
from tprimat.read import mapped
from tprimat.read.forms.asking import FormError
from tprimat.read.parsing.headings import headings
from tprimat.read.parsing.notebook import is_notebook
from tprimat.read.parsing.parsed_log import FileFormat, InputFile
from tprimat.read.parsing.text import Line
from tprimat.results.fields import known_items
from tprimat.results.outcome import going_on
from tprimat.results.result_file import readable, without_secrets
from tprimat.store import store
from tprimat.store.history import files_below
from tprimat.text import counted, is_binary

PARALLEL_FROM = 1 << 23
"""Bytes; less than this is read before other processes have started."""

LONGEST_PAGE = 1 << 23
"""Bytes of a file whose trainings are named by the headings above them: a paste or a page."""

IN_MEMORY = 1 << 26
"""Bytes of a compressed or piped file that are held in memory before a temporary file takes them.
"""

MOST_DETAILS = 4
"""Most lines of an error on a log that isn't read, besides the problem, the hint and the page."""

MOST_BESIDE = 2000
"""Most files that are read in addition to a source: each parameter of an MLflow run is one."""

STREAMED = 1 << 20
"""Bytes of a file that is read once from its start that are held for its reader."""

LARGEST_UNPACKED = 1 << 32
"""Bytes; a compressed file of a structured kind that grows beyond is no result of a training."""

PROCESS = re.compile(
    r"(?<![a-z])(?:rank[_-]?|node[_-]?|attempt_\d{1,3}[\\/])\d{1,6}(?![a-z\d])", re.IGNORECASE
)
"""A rank or a node in a path, or torchrun's local rank as in attempt_0/3/stdout.log."""

_CODE = re.compile(
    r"\.(?:py|pyc|ipynb|sh|js|ts|c|cc|cpp|cu|h|md|rst|html?|tsv|png|jpe?g|gif|svg|pdf|so|o)$",
    re.IGNORECASE,
)
"""Names of files that a directory has besides logs: ignored there, and read if they are named."""


@dataclasses.dataclass(frozen=True)
class LogSource:
    """A log, or several files of one training.

    Attributes:
        paths: files; more than one if they belong to one training.
        group: the directory whose sources may describe one training twice.
        named: whether the user named it, rather than a directory that holds it.
        size: bytes; None for a pipe.
        growing: whether it is being written, so that a log of lines is read as far as `size`, a
            large one in part.
    """

    paths: tuple[str, ...]
    group: str
    named: bool
    size: int | None
    growing: bool = False

    @property
    def title(self) -> str:
        """Name for messages."""
        if self.paths == (STANDARD_INPUT,):
            return "standard input"
        if len(self.paths) == 1:
            return self.paths[0]
        return f"{Path(self.paths[0]).parent}/ ({len(self.paths)} files)"


Outcome = list[ImportedRun] | NotRead
"""What was read from a source: its runs; or why there are none."""


def log_sources(
    names: Sequence[str], known: Collection[str] = ()
) -> tuple[list[LogSource], list[SkippedFile], list[TensorPrimatError]]:
    """Return the log sources in files and directories, in the order of the names, and within a
    directory by path.

    The `known` files are ignored. The second list has the files that are skipped in directories,
    the third an error for each name that doesn't exist.
    """
    sources = {}
    skipped = []
    errors: list[TensorPrimatError] = []
    visited = set()

    def skip(error: OSError) -> None:
        why = f"can't be read: {error.strerror}"
        skipped.append(SkippedFile(str(error.filename), why, LOST))

    for name in names:
        if name == STANDARD_INPUT:
            sources[object()] = LogSource((name,), name, True, None)
            continue
        path = Path(name)
        try:
            is_folder = stat.S_ISDIR(path.stat().st_mode)
        except (OSError, ValueError) as error:
            errors.append(unreadable(name, error))
            continue
        for file in files_below(path, skip) if is_folder else [path]:
            real = ""
            if str(file) not in known:
                real = os.path.realpath(file)
            if not real or real in visited:
                continue
            visited.add(real)
            try:
                training, source = _source(file, named=not is_folder)
            except TensorPrimatError as error:
                left_out = _left_out(error, file)
                if is_folder or left_out.kind == DESCRIPTION:
                    skipped.append(left_out)
                else:
                    errors.append(error)
                continue
            if earlier := sources.get(training):
                source = dataclasses.replace(
                    earlier,
                    paths=earlier.paths + source.paths,
                    named=earlier.named or source.named,
                    size=(earlier.size or 0) + (source.size or 0),
                )
            sources[training] = source
    return list(sources.values()), skipped, errors


def _source(path: Path, *, named: bool) -> tuple[object, LogSource]:
    """Return a file as a source, after a key that all files of its training share. Raises
    UnreadableError.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise unreadable(path, error) from error
    if not stat.S_ISREG(status.st_mode) and not named:
        raise _no_log(path, "not a regular file")
    if is_handed_over(str(path), status.st_mode):
        # It can be read once.
        return path, LogSource((str(path),), str(path.parent), named, None)
    with contextlib.closing(Log(str(path)).chunks()) as chunks:
        head = _head(chunks)
    file_format = read.file_format_of(head)
    left_out = _why_no_log(path, head) if file_format is None else None
    # A description is no source, whether a directory holds it or the user names it.
    if left_out and (left_out.kind == DESCRIPTION or not named):
        raise _LeftOutError(left_out)
    group = PROCESS.sub("", re.sub(r"[\\/](?:checkpoint-\d+|files)$", "", str(path.parent)))
    source = LogSource((str(path),), group, named, status.st_size)
    if file_format is None or file_format.together is None:
        return path, source
    return (file_format.looks_for, file_format.together(str(path))), source


def _head(chunks: Iterable[bytes]) -> bytes:
    """Return the first chunks, enough to recognize the file."""
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= read.HEAD:
            break
    return head


def _no_log(path: object, reason: str, *, is_lost: bool = False) -> UnreadableError:
    return UnreadableError(path, reason, heading="not-a-training-log", is_lost=is_lost)


class _LeftOutError(UnreadableError):
    """A file is no log."""

    def __init__(self, file: SkippedFile) -> None:
        super().__init__(file.path, file.reason, heading="not-a-training-log")
        self.kind = file.kind


def _left_out(error: TensorPrimatError, file: Path) -> SkippedFile:
    """Return a file that is skipped for an error."""
    if not isinstance(error, UnreadableError):
        return SkippedFile(str(file), error.message)
    kind = LOST if error.is_lost else ""
    if isinstance(error, _LeftOutError):
        kind = error.kind
    return SkippedFile(str(file), error.reason, kind)


def _why_no_log(path: Path, head: bytes) -> SkippedFile | None:
    """Return why a file in a directory is no log; None if it may be one."""
    name = str(path)
    if not head:
        return SkippedFile(name, "is empty")
    first = head.lstrip()[:1]
    if store.is_result(head):
        return SkippedFile(name, "already a result; pass it to compare_results.py", RESULT)
    if first == b"{" and any(
        sign in head for sign in (b'"accelerator_model_name"', b'"scaling_factor"')
    ):
        why = "part of an MLPerf submission, read with the logs that it belongs to"
        return SkippedFile(name, why, DESCRIPTION)
    if first == b"[" and path.suffix == ".json":
        return SkippedFile(name, "JSON, but not a result or log")
    # UTF-16 has a NUL in every other byte and begins with its mark.
    is_utf_16 = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    if not is_utf_16 and (
        head.count(0) > len(head) // 3 or is_binary(head[:200].decode(errors="replace"))
    ):
        return SkippedFile(name, "a binary file, such as an image, not a log")
    if _CODE.search(path.name):
        why = "not a log by its name: name it explicitly to import it"
        return SkippedFile(name, why, NO_LOG)
    return None


def read_sources(
    sources: list[LogSource], jobs: int | None, given: GivenValues = NOTHING_GIVEN
) -> Iterator[tuple[LogSource, Outcome]]:
    """Yield each source with its outcome, in order; `jobs` are read at a time, one for each CPU if
    it is None.
    """
    workers = min(jobs or os.cpu_count() or 1, len(sources))
    is_piped = any(source.size is None for source in sources)
    pool = None
    if (
        workers > 1
        and not is_piped
        and sum(source.size or 0 for source in sources) >= PARALLEL_FROM
    ):
        pool = _pool(workers)
    if pool is None:
        for source in sources:
            yield source, read_source(source, given)
        return
    waiting: deque[tuple[LogSource, concurrent.futures.Future[Outcome]]] = deque()
    try:
        # A few more than there are workers: what has been read waits in memory until its turn
        # comes.
        for source in sources:
            with elsewhere():  # it may start a process
                waiting.append((source, pool.submit(read_source, source, given)))
            if len(waiting) >= 2 * workers:
                yield _finished(*waiting.popleft())
        while waiting:
            yield _finished(*waiting.popleft())
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _pool(workers: int) -> concurrent.futures.ProcessPoolExecutor | None:
    """Return processes that read, and import nothing from the current directory; None if the system
    lets none start.
    """
    try:
        with elsewhere() as here:
            # A forked process would inherit locks of whatever the parent runs at the time.
            spawn = multiprocessing.get_context("spawn")
            return concurrent.futures.ProcessPoolExecutor(workers, spawn, _begin, (here,))
    except OSError:
        return None


def _begin(folder: Path) -> None:
    """Go to the directory of the logs, and end when the parent is killed: this worker would wait
    for ever.
    """
    os.chdir(folder)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _finished(
    source: LogSource, future: concurrent.futures.Future[Outcome]
) -> tuple[LogSource, Outcome]:
    try:
        return source, future.result()
    except BrokenProcessPool:
        problem = f"{source.title}: the process that read it was killed (possibly out of memory)"
        return source, NotRead(problem, None, "unreadable-file", source.title, is_lost=True)


def read_source(source: LogSource, given: GivenValues = NOTHING_GIVEN) -> Outcome:
    """Read a log source, with the user's values if it leaves them open.

    Errors that a user can fix are returned as the reason, not raised.
    """
    try:
        runs = _read(source, given)
        if source.growing:
            runs = [dataclasses.replace(result, run=going_on(result.run)) for result in runs]
        return runs
    except TensorPrimatError as error:
        return _not_read(error, source)
    except ModuleNotFoundError as error:
        if (error.name or "tprimat").startswith("tprimat"):
            raise
        return _not_read(missing_package(str(error.name), INSTALL_ANALYSIS, source.title), source)
    except MemoryError as error:
        return _not_read(unreadable(source.title, error), source)


def _not_read(error: TensorPrimatError, source: LogSource) -> NotRead:
    place = source.title
    is_lost = False
    if isinstance(error, UnreadableError):
        place = error.place
        is_lost = error.is_lost
    if isinstance(error, FormError):
        first, *others = error.notes
        asked = error.notes if error.is_asked else ()
        problem = f"{place}: {words(first)}"
        details = _details(others)
        return NotRead(problem, error.hint, error.heading, place, is_lost, asked, details)
    return NotRead(error.problem, error.hint, error.heading, place, is_lost)


def _details(notes: Sequence[Note]) -> tuple[str, ...]:
    """Return the lines of an error on a log that isn't read: one for each note, those on further
    runs of a page together.
    """
    runs = [note for note in notes if note.code == "form-would-read"]
    details = [words(note) for note in notes if note not in runs]
    if len(runs) > 1:
        details.insert(0, f"and {counted(len(runs), 'more run')}")
    elif runs:
        details.insert(0, words(runs[0]))
    if len(details) > MOST_DETAILS:
        details[MOST_DETAILS - 1 :] = [f"{len(details) - MOST_DETAILS + 1} more with --json"]
    return tuple(details)


def _read(source: LogSource, given: GivenValues) -> list[ImportedRun]:
    logs = []
    for path in source.paths:
        logs.append(Log(path, source.size if source.growing else None))
    contents: list[Iterator[bytes]] = [log.chunks() for log in logs]
    head = _head(contents[0])
    contents[0] = itertools.chain([head], contents[0])
    file_format = mapped.file_format(given.columns) if given.columns else read.file_format_of(head)
    if file_format is None:
        log = logs[0]
        with contextlib.ExitStack() as stack:
            kept = None
            if source.size is None:
                kept = _Kept(contents[0], stack)
                contents[0] = iter(kept)
            parsed_logs = read.parse_chunks(
                contents[0],
                log.name,
                kept.again if kept else lambda: Log(log.path, log.end).chunks(),
                as_read=given.as_read,
            )
        trainings = with_start(
            [imported(source.title, parsed, logs, given) for parsed in parsed_logs], logs[0]
        )
        return _named(trainings, _headings(trainings, source), given)
    for log in logs:
        log.end = None
    if source.size is not None:
        beside = _beside(file_format, source.paths[0])
    else:
        beside = {}
    with contextlib.ExitStack() as stack:
        streams = []
        for log, content in zip(logs, contents, strict=True):
            streams.append(
                io.BufferedReader(Chunks(content), STREAMED)
                if file_format.is_streamed
                else _spooled(log.name, content, stack)
            )
        files = []
        for log, stream in zip(logs, streams, strict=True):
            files.append(InputFile(log.name, stream))
        try:
            parsed_logs = file_format.read(files, beside)
        except ValueError as error:
            why = f"this is {file_format.looks_for}, but {error}"
            raise _no_log(source.title, why, is_lost=True) from error
    is_text = isinstance(given.columns, mapped.LinePattern)
    trainings = []
    for parsed in parsed_logs:
        trainings.append(imported(source.title, parsed, logs, given, structured=not is_text))
    if is_text and not is_notebook(head.decode("utf-8", errors="replace")):
        trainings = with_start(trainings, logs[0])
        return _named(trainings, _headings(trainings, source), given)
    return _named(trainings, [training.run.label for training in trainings], given)


class _Kept:
    """The chunks of a pipe, which are kept in memory, or in a temporary file beyond IN_MEMORY."""

    def __init__(self, chunks: Iterable[bytes], stack: contextlib.ExitStack) -> None:
        self._chunks = chunks
        self._file = stack.enter_context(tempfile.SpooledTemporaryFile(IN_MEMORY))  # noqa: SIM115 - the stack closes it

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self._file.write(chunk)
            yield chunk

    def again(self) -> Iterator[bytes]:
        """Yield what has been read, from the start."""
        at = 0
        self._file.seek(at)
        while chunk := self._file.read(STREAMED):
            at += len(chunk)
            yield chunk
            # Another reader may have begun from the start.
            self._file.seek(at)


def printed_lines(path: str, stack: contextlib.ExitStack) -> Callable[[], Iterator[Line]]:
    """Return what gives the lines of a log, or those that the cells of a notebook printed, from the
    start each time that it is called. A pipe is read at once, and kept until the stack is closed.
    """
    log = Log(path)
    again: Callable[[], Iterable[bytes]] = log.chunks
    if path == STANDARD_INPUT or Path(path).is_fifo():
        kept = _Kept(log.chunks(), stack)
        deque(kept, 0)
        again = kept.again
    return lambda: read.printed_lines(again)


def _named(
    trainings: list[ImportedRun], names: Sequence[str | None], given: GivenValues
) -> list[ImportedRun]:
    """Return the trainings under their names in the source, or the one that FILE#2 or FILE#HEADING
    selects.

    Raises UsageError if there is no such training.
    """
    if given.training is not None and trainings:
        title = f"{trainings[0].title}#{given.training}"
        places = {}
        for number, name in enumerate(names):
            places[str(number + 1)] = number
            places[(name or "").casefold()] = number
        index = places.get(given.training.casefold())
        if index is None:
            hint = f"there are {', '.join(filter(None, places))}"
            raise UsageError(
                f"{title}: no such training in it", hint=hint, heading="not-a-training-log"
            )
        trainings = [dataclasses.replace(trainings[index], title=title)]
        names = [names[index] or Path(title).name]
    named = []
    for training, name in zip(trainings, names, strict=True):
        run = training.run.but(label=training.run.label or name)
        named.append(dataclasses.replace(training, run=readable(run)))
    return named


def _headings(trainings: list[ImportedRun], source: LogSource) -> Sequence[str | None]:
    """Return what stands above each training of a text that holds several."""
    records = [list(filter(None, training.run.lines)) for training in trainings]
    if len(trainings) < 2 or not all(records) or not 0 < (source.size or 0) <= LONGEST_PAGE:
        return [None] * len(trainings)
    lines = [line.text for line in Log(source.paths[0]).lines()]
    return without_secrets(headings(lines, [(min(record), max(record)) for record in records]))


def _beside(file_format: FileFormat, path: str) -> dict[str, bytes]:
    """Return the small files that help to read a source, by their path in its directory."""
    folder = Path(file_format.together(path) if file_format.together else Path(path).parent)
    files = (
        file
        for pattern in file_format.beside
        for file in sorted(folder.glob(pattern))
        if file.is_file()
    )
    contents = {}
    for file in itertools.islice(files, MOST_BESIDE):
        contents[str(file.relative_to(folder))] = read_small(file)
    return known_items(contents)


def _spooled(name: str, chunks: Iterable[bytes], stack: contextlib.ExitStack) -> BinaryIO:
    """Return a seekable stream: in memory, or in a temporary file if it is large."""
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
            raise UnreadableError(name, "more than 4 GiB of data", heading="unreadable-file")
        stream.write(chunk)
    stream.seek(0)
    return stream
