"""Load results and logs alike: what a comparison is made of, without writing anything."""

from __future__ import annotations

import dataclasses
import glob
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from tprimat.errors import ExitStatus, TensorPrimatError, UnreadableError, UsageError, most_severe
from tprimat.log_import import bundle, importer, sources
from tprimat.log_import.extract import NOTHING_GIVEN, GivenValues, ImportedRun, completed
from tprimat.log_import.inputs import STANDARD_INPUT, named_files, read_small
from tprimat.results.result_file import Loaded
from tprimat.results.run import Run
from tprimat.store import store


@dataclasses.dataclass
class Inputs:
    """What was loaded.

    Attributes:
        files: results, and logs with the trainings in them, in the order of the names.
        notes: what was skipped in folders, and what could not be read.
        errors: one for each name that could not be read.
    """

    files: list[Loaded] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    errors: list[TensorPrimatError] = dataclasses.field(default_factory=list)

    def status(self, status: ExitStatus) -> ExitStatus:
        """Return the exit status of a command that would exit with `status` had all names been read."""
        return most_severe((status, *(error.status for error in self.errors)))


def load(names: Iterable[str], given: GivenValues = NOTHING_GIVEN, jobs: int | None = None) -> Inputs:
    """Load results and logs: files, folders with all below them, patterns, bundles, and - for standard input.

    NAME=PATH gives all runs in a path the label NAME. A folder's logs are read where it holds no results: beside
    results lie the logs that they were made of.

    Args:
        names: of files and folders.
        given: used where a log leaves it open.
        jobs: logs that are read at a time; None: one for each CPU. Other processes import the caller's main module.
    """
    inputs = Inputs()
    # A training's files may be named one after the other.
    logs: list[str] = []
    values = given
    for word in names:
        label, path = _apart(word)
        labelled = dataclasses.replace(given, label=label or given.label)
        if labelled != values:
            _load_logs(logs, values, jobs, inputs)
            logs, values = [], labelled
        try:
            found = named_files([path])
        except UnreadableError as error:
            inputs.errors.append(error)
            continue
        for name in found:
            results = _results(name, values, jobs, inputs)
            if results is None:
                logs.append(name)
                continue
            _load_logs(logs, values, jobs, inputs)
            logs = []
            inputs.files += results
    _load_logs(logs, values, jobs, inputs)
    inputs.files = list({file.name: file for file in inputs.files}.values())
    inputs.notes += [f"not read: {error.problem}" for error in inputs.errors]
    return inputs


def _apart(word: str) -> tuple[str | None, str]:
    """Return the name and the path in NAME=PATH; no name where that is itself a file."""
    name, _, path = word.partition("=")
    if not name or not path or re.search(r"[/\\]", name) or Path(word).exists() or glob.glob(word):  # noqa: PTH207
        return None, word
    # As it is typed elsewhere: macOS gives names of files with accents apart from their letters.
    name = unicodedata.normalize("NFC", name)
    # The shell expands neither after =.
    return name, str(Path(path).expanduser()) if path.startswith("~") else path


def _results(name: str, given: GivenValues, jobs: int | None, inputs: Inputs) -> list[Loaded] | None:
    """Return the results in a file, a folder or a bundle; None for what may hold logs."""
    path, is_ours = Path(name), True
    if name == STANDARD_INPUT or not path.is_dir():
        if bundle.is_packed(path):
            return _unpacked(path, given, jobs, inputs)
        head = read_small(path) if path.is_file() else None
        is_ours = sources.is_result(head or b"")
        if not is_ours and path.suffix != ".json":
            return None
    try:
        results, notes = store.find([path])
    except UnreadableError as error:
        if not is_ours:
            return None
        inputs.errors.append(error)
        return []
    if results:
        inputs.notes += notes
    return [_completed(file, given) for file in results] or None


def _completed(file: Loaded, given: GivenValues) -> Loaded:
    if given == NOTHING_GIVEN:
        return file
    values = given.of(file.name)
    runs = (completed(msgspec.structs.replace(run, label=given.label or run.label), values) for run in file.runs)
    return dataclasses.replace(file, runs=tuple(runs))


def _unpacked(path: Path, given: GivenValues, jobs: int | None, inputs: Inputs) -> list[Loaded]:
    """Return what a bundle holds, under names within it."""
    try:
        with bundle.unpacked(path) as (folder, named):
            found = load([str(folder)], given, jobs)
    except UnreadableError as error:
        inputs.errors.append(error)
        return []
    inputs.notes += map(named, found.notes)
    if not found.files:
        inputs.errors.append(UnreadableError(path, "no results or logs in it", heading="not-a-result"))
    return [
        Loaded(named(file.name), file.sha256, tuple(moved(run, named) for run in file.runs)) for file in found.files
    ]


def _load_logs(names: Sequence[str], given: GivenValues, jobs: int | None, inputs: Inputs) -> None:
    logs, skipped, errors = sources.log_sources(names)
    inputs.errors += errors
    groups: dict[str, list[ImportedRun]] = {}
    for source, outcome in sources.read_sources(logs, jobs, given):
        if isinstance(outcome, list):
            groups.setdefault(source.group, []).extend(outcome)
        elif source.named:
            inputs.errors.append(UsageError(outcome[0], hint=outcome[1], heading="not-a-training-log"))
        else:
            inputs.notes.append(f"skipped: {outcome[0]}")
    for runs in groups.values():
        merged = importer.merged(runs, skipped)
        for title in dict.fromkeys(each.title for each in merged):
            found = tuple(each.run for each in merged if each.title == title)
            hashes = [file.sha256 for run in found if run.source for file in run.source.files]
            inputs.files.append(Loaded(title, hashes[0] or "", found))
    inputs.notes += [f"skipped: {each.path}: {each.reason}" for each in skipped]


def under_names(outcome: sources.Outcome, named: Callable[[str], str]) -> sources.Outcome:
    """Return what was read from a source, or why nothing was, with other names of files."""
    if isinstance(outcome, tuple):
        return named(outcome[0]), outcome[1]
    return [dataclasses.replace(each, title=named(each.title), run=moved(each.run, named)) for each in outcome]


def moved(run: Run, named: Callable[[str], str]) -> Run:
    """Return a run whose sources have other names."""
    if run.source is None:
        return run
    files = tuple(msgspec.structs.replace(file, path=named(file.path)) for file in run.source.files)
    return msgspec.structs.replace(run, source=msgspec.structs.replace(run.source, files=files))
