"""Save imported runs as result files, merging sources of one training."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import re
from collections.abc import Callable
from pathlib import Path

from tprimat.analysis.summary import Summary, summarize
from tprimat.errors import UnreadableError
from tprimat.log_import import attempts
from tprimat.log_import.extract import ImportedRun
from tprimat.log_import.sources import PROCESS, LogSource, Outcome
from tprimat.log_import.unread import IS_ASKED, NotRead, SkippedFile
from tprimat.notes import ASKED, TWIN, Note
from tprimat.read import merge
from tprimat.results.result_file import readable
from tprimat.results.run import Run
from tprimat.store import store
from tprimat.store.naming import file_name
from tprimat.text import plain

_TWIN = "counted once, as another log of the training in"
"""Why a log is skipped whose name doesn't say that it is of another process: repetitions are never
as alike.
"""


@dataclasses.dataclass(frozen=True)
class ImportedResult:
    """A training that was read from a source of this title, and saved as a result file."""

    title: str
    run: Run
    summary: Summary
    notes: tuple[str, ...]
    path: Path


class LogImport:
    """Save the runs that were read, source by source; a directory's sources are merged before they
    are saved.

    Args:
        label: the user's name for the setup.
        on_result: called with each result as soon as it is saved.

    Attributes:
        results: those that were saved.
        skipped: files without a training, or with one that another source describes better.
        errors: why sources that the user named could not be read, hints, and headings of
            docs/troubleshooting.md.
    """

    def __init__(
        self, directory: Path, label: str | None, on_result: Callable[[ImportedResult], None]
    ) -> None:
        self.results: list[ImportedResult] = []
        self.skipped: list[SkippedFile] = []
        self.errors: list[NotRead] = []
        self.asked: dict[str, tuple[Note, ...]] = {}
        self._directory = directory
        self._label = label
        self._on_result = on_result
        self._group: str | None = None
        self._waiting: list[ImportedRun] = []
        self._used_paths: set[Path] = set()

    def add(self, source: LogSource, outcome: Outcome, title: str | None = None) -> None:
        """Add the outcome of reading a source, under a title of its own or another one."""
        title = title or source.title
        if source.group != self._group:
            self.save()
            self._group = source.group
        if isinstance(outcome, list):
            self._waiting += outcome
            if not outcome:
                self.skipped.append(SkippedFile(title, "no training log in it"))
            return
        if source.named:
            self.errors.append(outcome)
        else:
            reason = outcome.reason if title in outcome.place else outcome.problem
            kind = ASKED if outcome.asked else ""
            self.skipped.append(SkippedFile(title, IS_ASKED if outcome.asked else reason, kind))
        if outcome.asked:
            self.asked[title] = outcome.asked

    def save(self) -> None:
        """Save the runs collected from one directory."""
        waiting = merged(self._waiting, self.skipped)
        self._waiting = []
        for training in waiting:
            if self._label:
                run = readable(training.run.but(label=self._label))
            else:
                run = training.run
            summary = summarize(run)
            saved = store.save_as(run, self._result_path(run, training.title), summary)
            self._used_paths.add(saved.path)
            result = ImportedResult(training.title, run, summary, training.notes, saved.path)
            self.results.append(result)
            self._on_result(result)

    def _result_path(self, run: Run, title: str) -> Path:
        """Return a unique result path: the usual name, or with the source added, then its hash,
        then a number.
        """
        stem = file_name(run).removesuffix(".json")
        source = Path(title.partition(" (")[0])
        parts = []
        for part in (source.parent.name, source.stem):
            parts.append(re.sub(r"[^A-Za-z0-9.+-]+", "-", part).strip(".-")[:40])
        full = "_".join(filter(None, parts)) or "log"
        hashes = []
        for file in run.source_files:
            hashes.append(file.sha256 or file.path)
        hashed = f"{stem}_{full}_{hashlib.sha256(''.join(hashes).encode()).hexdigest()[:8]}"
        names = (stem, f"{stem}_{parts[1] or 'log'}", f"{stem}_{full}", hashed)
        numbered = (f"{hashed}_{number}" for number in itertools.count(2))
        for name in itertools.chain(names, numbered):
            path = store.with_its_case(self._directory / f"{name}.json")
            if path not in self._used_paths and (not path.exists() or _same_source(path, run)):
                break
        return path


def merged(
    waiting: list[ImportedRun], skipped: list[SkippedFile], *, ranks: bool = True
) -> list[ImportedRun]:
    """Return the runs of a directory, each once: the structured source's, completed from the
    others.

    If `ranks` is not set, logs of several ranks stay apart unless their step times are the same.

    A source that another one describes better, or that is another attempt, is added to `skipped`.
    """
    waiting, again = attempts.joined(waiting)
    for title, former in again:
        skipped.append(SkippedFile(title, f"another attempt at the training of {former}: joined"))
    kept: dict[int, ImportedRun] = {}
    # Whole runs before parts of them, files that were written for machines before consoles.
    order = sorted(
        range(len(waiting)), key=lambda i: (not waiting[i].structured, -len(waiting[i].run.steps))
    )
    for index in order:
        training = waiting[index]
        # The reader of a log has already separated two runs of it.
        kept_at = index
        same = None
        name = PROCESS.sub("", training.title)
        for i, one in kept.items():
            first_times = (one.dated, training.dated)
            is_rank = ranks and (
                PROCESS.sub("", one.title) == name
                or merge.in_lockstep(one.run, training.run, first_times)
            )
            if one.title != training.title and merge.same_training(
                one.run, training.run, ranks=is_rank, first_times=first_times
            ):
                kept_at = i
                same = one
                break
        if same is None:
            kept[index] = training
            continue
        untimed = not any(same.run.step_times) and any(training.run.step_times)
        first, second = (training, same) if untimed else (same, training)
        run = merge.fill_gaps(first.run, second.run, plain(Path(second.title).name, 80))
        kept[kept_at] = dataclasses.replace(same, run=run, notes=(*same.notes, *training.notes))
        reason = f"same run as {same.title}; missing fields were merged"
        kind = ""
        if not (same.structured or PROCESS.sub("", same.title) == name):
            reason = f"{_TWIN} {same.title}"
            kind = TWIN
        skipped.append(SkippedFile(training.title, reason, kind))
    return [kept[index] for index in sorted(kept)]


def _same_source(path: Path, run: Run) -> bool:
    """Return whether a result was read from the same files as a run."""
    try:
        earlier = store.read(path)
    except UnreadableError:
        return False
    if len(earlier) > 1 or earlier[0].lines[:1] != run.lines[:1]:
        return False
    previous = earlier[0].source_files
    if len(run.source_files) != len(previous):
        return False
    for one, other in zip(run.source_files, previous, strict=True):
        if one.path == other.path or (one.sha256 is not None and one.sha256 == other.sha256):
            return True
    return False
