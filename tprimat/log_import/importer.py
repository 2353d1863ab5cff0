"""Save imported trainings as result files, merging sources of one training."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from tprimat.analysis.summary import Summary, summarize
from tprimat.errors import UnreadableError
from tprimat.log_import.sources import ImportedRun, LogSource, Outcome, SkippedFile, digest_of
from tprimat.read import merge
from tprimat.results.run import Run
from tprimat.store import store
from tprimat.store.naming import file_name
from tprimat.text import plain


@dataclasses.dataclass(frozen=True)
class ImportedResult:
    """A training that was read and saved.

    Attributes:
        title: the source.
        run: the training.
        summary: of the run.
        notes: what its reader did.
        path: the result file.
    """

    title: str
    run: Run
    summary: Summary
    notes: tuple[str, ...]
    path: Path


@dataclasses.dataclass
class _Candidate:
    title: str
    imported: ImportedRun
    run: Run


class LogImport:
    """Save what was read, source by source; a directory's sources are merged before they are saved.

    Args:
        directory: for the results.
        label: the user's name for the setup.
        on_result: called with each result as soon as it is saved.

    Attributes:
        results: what was saved.
        skipped: files that hold no training, or one that another source describes better.
        errors: why sources that the user named could not be read.
    """

    def __init__(self, directory: Path, label: str | None, on_result: Callable[[ImportedResult], None]) -> None:
        self.results: list[ImportedResult] = []
        self.skipped: list[SkippedFile] = []
        self.errors: list[str] = []
        self._directory = directory
        self._label = label
        self._on_result = on_result
        self._group: str | None = None
        self._waiting: list[_Candidate] = []
        self._used_paths: set[Path] = set()

    def add(self, source: LogSource, outcome: Outcome) -> None:
        """Add the outcome of reading a source."""
        if source.group != self._group:
            self.save()
            self._group = source.group
        if outcome.error is not None:
            if source.named:
                # The list of all log formats is long; the help has it.
                short = outcome.error.partition(": what is looked for")[0]
                hint = ": name the log of a training (--help lists the kinds)" if short != outcome.error else ""
                self.errors.append(short + hint)
            else:
                path, _, reason = outcome.error.partition(": ")
                reason = reason if source.title in path else outcome.error
                self.skipped.append(SkippedFile(source.title, reason.partition(": what is looked for")[0]))
        elif not outcome.runs:
            self.skipped.append(SkippedFile(source.title, "holds nothing of a training"))
        for imported in outcome.runs:
            self._waiting.append(_Candidate(source.title, imported, imported.run))

    def save(self) -> None:
        """Save the trainings collected from one directory."""
        candidates, self._waiting = _merged(self._waiting, self.skipped), []
        for each in candidates:
            run = msgspec.structs.replace(each.run, label=self._label) if self._label else each.run
            summary = summarize(run)
            saved = store.save_as(run, self._result_path(run, each.title), summary)
            self._used_paths.add(saved.path)
            result = ImportedResult(each.title, run, summary, each.imported.notes, saved.path)
            self.results.append(result)
            self._on_result(result)

    def _result_path(self, run: Run, title: str) -> Path:
        """Return a unique result path: the usual name, or with the source's name added."""
        usual = file_name(run)
        stem = usual.removesuffix(".json")
        source = Path(title.partition(" (")[0])
        parts = [re.sub(r"[^A-Za-z0-9.+-]+", "-", part).strip(".-")[:40] for part in (source.parent.name, source.stem)]
        full = "_".join(part for part in parts if part)
        tries = [usual, f"{stem}_{parts[1] or 'log'}.json", f"{stem}_{full or 'log'}.json"]
        tries.append(f"{stem}_{full or 'log'}_{digest_of(run)}.json")
        number = 1
        for name in tries:
            path = self._directory / name
            if path not in self._used_paths and (not path.exists() or _same_source(path, run)):
                return path
        while True:
            number += 1
            path = self._directory / f"{tries[-1].removesuffix('.json')}_{number}.json"
            if path not in self._used_paths and (not path.exists() or _same_source(path, run)):
                return path


def _merged(waiting: list[_Candidate], skipped: list[SkippedFile]) -> list[_Candidate]:
    """Return the trainings of a directory, each once: the structured source's, completed from the others."""
    merged: list[_Candidate] = []
    # Whole ones before parts of them, what was written for machines before consoles.
    for each in sorted(waiting, key=lambda one: (not one.imported.structured, -len(one.run.steps))):
        same = next((one for one in merged if _same(one, each)), None)
        if same is None:
            merged.append(each)
            continue
        untimed = not any(same.run.step_times) and any(each.run.step_times)
        first, second = (each, same) if untimed else (same, each)
        same.run = merge.fill_gaps(first.run, second.run, plain(Path(second.title).name, 80))
        same.imported = dataclasses.replace(same.imported, notes=(*same.imported.notes, *each.imported.notes))
        skipped.append(
            SkippedFile(each.title, f"tells of the training that {same.title} is of, and fills what is open there")
        )
    order = {id(each): index for index, each in enumerate(waiting)}
    return sorted(merged, key=lambda one: order[id(one)])


def _same(one: _Candidate, other: _Candidate) -> bool:
    # Two trainings of one log were told apart by its reader.
    return one.title != other.title and merge.same_training(one.run, other.run)


def _same_source(path: Path, run: Run) -> bool:
    """Return whether a result was read from the same files as a run."""
    try:
        earlier = store.read(path)
    except UnreadableError:
        return False
    current = [(file.path, file.sha256) for file in run.source.files] if run.source else []
    previous = [(file.path, file.sha256) for file in earlier[0].source.files] if earlier[0].source else []
    alike = any(a == b or (c is not None and c == d) for (a, c), (b, d) in zip(current, previous, strict=False))
    return len(earlier) == 1 and len(current) == len(previous) and alike and earlier[0].lines[:1] == run.lines[:1]
