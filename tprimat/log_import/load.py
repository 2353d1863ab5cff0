"""Load results and logs alike: what a comparison is made of, without writing anything."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

from tprimat.errors import UnreadableError
from tprimat.log_import import importer, sources
from tprimat.log_import.extract import NOTHING_GIVEN, GivenValues, ImportedRun
from tprimat.log_import.inputs import STANDARD_INPUT, named_files, read_small
from tprimat.results.result_file import Loaded
from tprimat.store import store


@dataclasses.dataclass
class Inputs:
    """What was loaded.

    Attributes:
        files: results, and logs with the trainings in them, in the order of the names.
        notes: what was skipped in folders.
        errors: why files that were named could not be read, and hints.
    """

    files: list[Loaded] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    errors: list[tuple[str, str | None]] = dataclasses.field(default_factory=list)


def load(names: Iterable[str], given: GivenValues = NOTHING_GIVEN, jobs: int | None = None) -> Inputs:
    """Load results and logs: files, folders with all below them, patterns, and - for standard input.

    A folder's logs are read where it holds no results: beside results lie the logs that they were made of.

    Args:
        names: of files and folders.
        given: used where a log leaves it open.
        jobs: logs that are read at a time; None: one for each CPU. Other processes import the caller's main module.

    Raises UnreadableError for a name that is nothing.
    """
    inputs = Inputs()
    # A training's files may be named one after the other.
    logs: list[str] = []
    for name in named_files(list(names)):
        results, notes = _results(name, inputs)
        if results is None:
            logs.append(name)
            continue
        _load_logs(logs, given, jobs, inputs)
        logs = []
        inputs.files += results
        inputs.notes += notes
    _load_logs(logs, given, jobs, inputs)
    inputs.files = list({file.name: file for file in inputs.files}.values())
    return inputs


def _results(name: str, inputs: Inputs) -> tuple[list[Loaded] | None, list[str]]:
    """Return the results in a file or a folder, and what was skipped there; None for what may hold logs."""
    path, is_ours = Path(name), True
    if name == STANDARD_INPUT or not path.is_dir():
        head = read_small(path) if path.is_file() else None
        is_ours = sources.is_result(head or b"")
        if not is_ours and path.suffix != ".json":
            return None, []
    try:
        results, notes = store.find([path])
    except UnreadableError as error:
        if not is_ours:
            return None, []
        inputs.errors.append((error.problem, error.hint))
        return [], []
    return results or None, notes


def _load_logs(names: Sequence[str], given: GivenValues, jobs: int | None, inputs: Inputs) -> None:
    logs, skipped = sources.log_sources(names)
    groups: dict[str, list[ImportedRun]] = {}
    for source, outcome in sources.read_sources(logs, jobs, given):
        if isinstance(outcome, list):
            groups.setdefault(source.group, []).extend(outcome)
        elif source.named:
            inputs.errors.append(outcome)
        else:
            inputs.notes.append(f"skipped: {outcome[0]}")
    for runs in groups.values():
        merged = importer.merged(runs, skipped)
        for title in dict.fromkeys(each.title for each in merged):
            found = tuple(each.run for each in merged if each.title == title)
            hashes = [file.sha256 for run in found if run.source for file in run.source.files]
            inputs.files.append(Loaded(title, hashes[0] or "", found))
    inputs.notes += [f"skipped: {each.path}: {each.reason}" for each in skipped]
