"""Logs that are still being written: a file, a directory with all below it, or a pipe.

A loop of one's own writes no log: the directory of its results has its journal while it runs, then
its result.
"""

from __future__ import annotations

import contextlib
import dataclasses
import select
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tprimat import files
from tprimat.checks.endings import how_ended
from tprimat.errors import UnreadableError
from tprimat.log_import import importer, recorded, sources
from tprimat.log_import.extract import ImportedRun
from tprimat.log_import.given import GivenValues
from tprimat.log_import.inputs import CHUNK, HEAD, LARGEST_WHOLE, TAIL
from tprimat.log_import.named import STANDARD_INPUT
from tprimat.store import store
from tprimat.store.history import files_below

TOGETHER_S = 60.0
"""Logs of a directory that were written within this many seconds of the newest one belong to the
running training.
"""


@dataclasses.dataclass(frozen=True)
class Version:
    """A file as it was when it was looked at."""

    inode: int
    size: int
    written: float


class GrowingLogs:
    """Logs that are read again whenever they have grown.

    What a rotated log held before is kept in a temporary file, to which all that follows is added;
    so is what comes from a pipe.

    Args:
        name: a file, a directory, or - for the standard input.
        given: values that the logs leave open.

    Attributes:
        ended: whether nothing can follow: the pipe was closed, or the training has written its
            result.
        problem, heading: why there is no training in the logs so far, and the heading in
            docs/troubleshooting.md.
        notes: what happened to the log, since they were last taken.

    Raises UnreadableError if there is no such file or directory.
    """

    def __init__(self, name: str, given: GivenValues) -> None:
        self.name = name
        self.title = "standard input" if name == STANDARD_INPUT else name
        self.ended = False
        self.problem = "no log yet"
        self.heading = "not-a-training-log"
        self.notes: list[str] = []
        self._given = given
        self._in_part = False
        self._versions: dict[str, Version] = {}
        self._spool: BinaryIO | None = None
        self._copied = 0
        self._read: dict[tuple[str, ...], tuple[list[Version], sources.Outcome]] = {}
        try:
            mode = 0 if name == STANDARD_INPUT else Path(name).stat().st_mode
        except (OSError, ValueError) as error:
            raise files.unreadable(name, error) from error
        if name == STANDARD_INPUT and (sys.stdin is None or sys.stdin.isatty()):
            raise UnreadableError(
                self.title, "nothing piped in", hint="name a file", heading="unreadable-file"
            )
        self._is_folder = stat.S_ISDIR(mode)
        self._is_pipe = name == STANDARD_INPUT or stat.S_ISFIFO(mode)
        if self._is_pipe:
            self._new_spool()
            threading.Thread(target=self._drain, daemon=True).start()

    @property
    def written(self) -> float | None:
        """When a log was last written, seconds since the epoch; None if there is none yet."""
        return max((version.written for version in self._versions.values()), default=None)

    def has_grown(self) -> bool:
        """Look at the files; return whether one is new, has grown or was replaced since the last
        look.
        """
        before = self._versions
        self._versions = dict(self._look())
        then = before.get(self.name)
        if not self._is_folder and not self._is_pipe and then is not None:
            now = self._versions.get(self.name)
            if now is None:
                # Between the rename and the new file.
                self._versions = before
            elif now.inode != then.inode or now.size < then.size:
                self._take_rotated(then)
            if self._spool is not None:
                self._copy_rest(Path(self.name))
        return self._versions != before

    def read(self) -> list[ImportedRun]:
        """Return the runs in the logs, those that run last; none of a log without a training so
        far.
        """
        if self._spool is not None:
            name = self._spool.name
            logs = [sources.LogSource((name,), self.name, True, _version(name).size)]
        else:
            logs = sources.log_sources([self.name])[0]
        runs = []
        for source in logs:
            outcome = self._outcome(source)
            if isinstance(outcome, list):
                for run in outcome:
                    runs.append(dataclasses.replace(run, title=self._named(run.title)))
            else:
                problem = self._named(outcome.reason)
                self.problem = "empty" if problem == "is empty" else problem
                self.heading = outcome.heading
        runs = [*importer.merged(runs, [], ranks=False), *self._recorded()]
        runs.sort(key=self._written)
        if runs and runs[-1].run.is_live and how_ended(runs[-1].run).kind != "running":
            self.ended = True
        return runs

    def running(self, runs: list[ImportedRun]) -> list[ImportedRun]:
        """Return the logs that were written with the newest: the ranks of one training, if there
        are several.
        """
        last = runs[-1].run
        if runs[-1].run.is_live:
            return runs[-1:]
        latest = {}
        for log in runs:
            if self._written(runs[-1]) - self._written(log) <= TOGETHER_S:
                latest[log.title] = log
        setup = (last.framework, last.model)
        return [log for log in latest.values() if (log.run.framework, log.run.model) == setup]

    def _recorded(self) -> Iterator[ImportedRun]:
        """Yield the runs of recorders: those of results, and those of the journals of running
        trainings.
        """
        path = Path(self.name)
        if self._is_folder or path.suffix == ".json":
            with contextlib.suppress(UnreadableError):
                for file in store.find([path])[0]:
                    yield from (ImportedRun(file.name, run, (), {}) for run in file.runs)
            for journal, run in recorded.going_on(path):
                yield ImportedRun(str(journal), run, (), {})

    def _outcome(self, source: sources.LogSource) -> sources.Outcome:
        """Return the content of a source, as it was read before if its files are the same."""
        versions = [self._versions[path] for path in source.paths if path in self._versions]
        earlier = self._read.get(source.paths)
        if self._is_folder and earlier is not None and earlier[0] == versions:
            return earlier[1]
        outcome = sources.read_source(dataclasses.replace(source, growing=True), self._given)
        is_large = (source.size or 0) > LARGEST_WHOLE and not self._in_part
        if is_large and isinstance(outcome, list) and not outcome[0].structured:
            self._in_part = True
            parts = f"its first {HEAD / 1e6:.0f} MB and last {TAIL / 1e6:.0f} MB"
            self.notes.append(f"{self._named(source.title)} is large: its values come from {parts}")
        self._read[source.paths] = versions, outcome
        return outcome

    def _written(self, log: ImportedRun) -> float:
        if log.title not in self._versions:
            return 0.0
        # If a training is recorded, the log next to its journal has fewer values.
        later_s = TOGETHER_S if log.run.is_live else 0.0
        return self._versions[log.title].written + later_s

    def _look(self) -> Iterator[tuple[str, Version]]:
        if self._spool is not None and self._is_pipe:
            yield self.name, _version(self._spool.name)
            return
        paths = [Path(self.name)]
        if self._is_folder:
            paths = [*files_below(paths[0], lambda error: None), *recorded.journals(paths[0])]
        for path in paths:
            with contextlib.suppress(OSError):
                yield str(path), _version(path)

    def _named(self, text: str) -> str:
        if self._spool is None:
            return text
        return text.replace(self._spool.name, self.title)

    def _new_spool(self) -> None:
        self._folder = tempfile.TemporaryDirectory(
            prefix="tprimat-watch-", ignore_cleanup_errors=True
        )
        self._spool = (Path(self._folder.name) / "log").open("wb")

    def _drain(self) -> None:
        """Copy the pipe until it is closed; runs in a thread of its own."""
        assert self._spool is not None
        source = sys.stdin.fileno() if self.name == STANDARD_INPUT else self.name
        with open(source, "rb", buffering=0, closefd=source is self.name) as pipe:
            while (chunk := pipe.read(CHUNK)) != b"":
                if chunk is None:
                    # A pipe that doesn't block has nothing yet.
                    select.select([pipe], [], [])
                self._spool.write(chunk or b"")
                self._spool.flush()
        self.ended = True

    def _take_rotated(self, then: Version) -> None:
        """Keep the content of the log from before it was renamed, or copied and emptied; else note
        that it is lost.
        """
        path = Path(self.name)
        siblings = {}
        for file in path.parent.iterdir():
            if file.is_file() and file.name != path.name:
                siblings[file] = _version(file)
        renamed = [file for file, version in siblings.items() if version.inode == then.inode]
        copied = path.with_name(f"{path.name}.1")
        if not renamed and copied in siblings and siblings[copied].size >= then.size:
            renamed = [copied]
        if not renamed:
            self.notes.append(f"{path.name} was overwritten; its earlier content is lost")
            self._spool = None
            self._copied = 0
            return
        self.notes.append(f"{path.name} was rotated to {renamed[0].name}; both are read")
        if self._spool is None:
            self._new_spool()
        self._copy_rest(renamed[0])
        self._copied = 0

    def _copy_rest(self, path: Path) -> None:
        assert self._spool is not None
        with contextlib.suppress(OSError), files.open_plain(path) as stream:
            stream.seek(self._copied)
            while chunk := stream.read(CHUNK):
                self._spool.write(chunk)
                self._copied += len(chunk)
        self._spool.flush()


def _version(path: str | Path) -> Version:
    status = Path(path).stat()
    return Version(status.st_ino, status.st_size, status.st_mtime)
