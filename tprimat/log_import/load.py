"""Load results and logs alike for a comparison, without writing anything."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from tprimat.errors import UnreadableError
from tprimat.log_import.bundle_names import log_names, names_a_bundle
from tprimat.log_import.given import NOTHING_GIVEN, GivenValues, completed
from tprimat.log_import.loaded import Inputs, has_pseudonym, moved
from tprimat.log_import.named import STANDARD_INPUT, apart, named_files, read_small, selected
from tprimat.notes import LOST, NO_RESULT, Note, skipped, with_texts
from tprimat.redaction import shown_paths
from tprimat.results.result_file import Loaded
from tprimat.results.run import Run
from tprimat.store import store
from tprimat.store.history import files_below


def load(
    names: Iterable[str],
    given: GivenValues = NOTHING_GIVEN,
    jobs: int | None = None,
    *,
    hides: bool = True,
) -> Inputs:
    """Load results and logs: files, directories (recursive), globs, bundles, and - for standard
    input.

    NAME=PATH gives all runs in a path the label NAME; FILE#2 or FILE#HEADING is one training of a
    text that holds several. Logs next to results are read, except those imported into these
    results, those written by benchmark.py, and those that a training script with results there may
    have written.

    A `given` value is used if a log leaves it open. `jobs` processes read logs, one per CPU if
    None; other processes import the caller's main module. If `hides`, names are replaced, unless
    --include-host keeps them.
    """
    inputs = Inputs(hides=hides)
    # A training's files may be named one after the other.
    logs: list[str] = []
    values = given
    for word in names:
        label, path = (None, word) if selected(word)[1] else apart(word)
        path, training = selected(path)
        labelled = dataclasses.replace(given, label=label or given.label, training=training)
        if labelled != values:
            _load_logs(logs, values, jobs, inputs)
            logs = []
            values = labelled
        try:
            files = named_files([path])
        except UnreadableError as error:
            inputs.errors.append(error)
            continue
        for name in files:
            results = _results(name, values, jobs, inputs)
            if results is None:
                logs.append(name)
                continue
            _load_logs(logs, values, jobs, inputs)
            logs = []
            inputs.files += results
            if Path(name).is_dir():
                _load_logs([name], values, jobs, inputs, results)
    _load_logs(logs, values, jobs, inputs)
    inputs.notes += [note for named, note in inputs.unread if not named <= inputs.logs]
    every = {file.name: file for file in inputs.files}.values()
    inputs.files = _told_apart(list(_without_evidence(every, inputs)))
    # A file that is no result may have been read as a log.
    inputs.notes = [note for note in inputs.notes if not _is_read_as_log(note, inputs.logs)]
    for failed in inputs.errors:
        inputs.notes.append(Note("not-read", {"problem": failed.problem}))
    return inputs


def _is_read_as_log(note: Note, logs: Collection[str]) -> bool:
    """Return whether a note says of a log that it is no result."""
    files = note.fields.get("files")
    if note.fields.get("kind") not in (NO_RESULT, LOST) or not isinstance(files, tuple):
        return False
    return all(file in logs for file in files)


def keys(run: Run, *, is_packed: bool) -> set[tuple[object, ...]]:
    """Return the values that a run shares with the result made from its log: the steps, and hashes
    or names.
    """
    origins = [frozenset(file.sha256 for file in run.source_files)]
    if is_packed:
        origins.append(log_names(run))
    return {(origin, tuple(run.steps)) for origin in origins if origin}


def _without_evidence(files: Iterable[Loaded], inputs: Inputs) -> Iterator[Loaded]:
    """Yield files without the runs of logs that results among them were made of: they are the same
    runs.

    Such a log has the hash that the result states. The copy in a bundle has the name, as verify
    finds it.
    """
    is_packed = not inputs.hides
    made = set()
    for file in files:
        if file.name not in inputs.logs:
            for run in file.runs:
                for key in keys(run, is_packed=is_packed):
                    made.add(key)
    for file in files:
        runs = []
        for run in file.runs:
            if file.name not in inputs.logs or not keys(run, is_packed=is_packed) & made:
                runs.append(run)
        if len(runs) < len(file.runs):
            inputs.notes.append(skipped(file.name, "a result was made of it"))
        if runs:
            yield dataclasses.replace(file, runs=tuple(runs))


def _told_apart(files: list[Loaded]) -> list[Loaded]:
    """Return files whose pseudonyms of machines, which count in one directory, differ for several
    directories.
    """
    folder_of = {}
    for file in files:
        if any(map(has_pseudonym, file.runs)):
            folder_of[file.name] = str(Path(file.name).absolute().parent)
    shown = shown_paths(folder_of.values())

    def named(run: Run, file: Loaded) -> Run:
        if not has_pseudonym(run):
            return run
        name = f"{shown[folder_of[file.name]]}/{run.environment.hostname}"
        return run.but(environment=run.environment.but(hostname=name))

    if len(shown) < 2:
        return files
    apart = []
    for file in files:
        runs = tuple(named(run, file) for run in file.runs)
        apart.append(dataclasses.replace(file, runs=runs))
    return apart


def _results(
    name: str, given: GivenValues, jobs: int | None, inputs: Inputs
) -> list[Loaded] | None:
    """Return the results in a file, a directory or a bundle; None for what may hold logs."""
    path = Path(name)
    is_ours = True
    if name == STANDARD_INPUT or not path.is_dir():
        if names_a_bundle(path):
            return _unpacked(path, given, jobs, inputs)
        head = read_small(path) if path.is_file() else None
        is_ours = store.is_result(head or b"")
        if not is_ours and path.suffix != ".json":
            return None
    try:
        results, notes = store.find([path])
    except UnreadableError as error:
        if not is_ours:
            return None
        inputs.errors.append(error)
        return []
    # Beside logs, a JSON that isn't a result may be anything.
    for note in notes:
        if results or note.fields.get("kind") == LOST:
            inputs.notes.append(note)
    return [inputs.hidden(_completed(file, given), are_results=True) for file in results] or None


def _load_logs(
    names: Sequence[str],
    given: GivenValues,
    jobs: int | None,
    inputs: Inputs,
    beside: Sequence[Loaded] = (),
) -> None:
    """Add the runs of the logs in files and directories, in a directory those next to its
    results.
    """
    results = {file.name for file in beside}
    # Unreadable logs are noted where the logs are read, if there are no results next to them.
    others = [*names]
    if beside:
        others = [name for name in names if _holds_more(Path(name), results)]
    if not others:
        return
    from tprimat.log_import import logs  # here, since results need none of the readers

    logs.load(names, given, jobs, inputs, beside)


def _holds_more(folder: Path, results: Collection[str]) -> bool:
    """Return whether a directory has other files than these results."""
    return any(str(file) not in results for file in files_below(folder, lambda _: None))


def _completed(file: Loaded, given: GivenValues) -> Loaded:
    if given == NOTHING_GIVEN:
        return file
    values = given.of(file.name)
    runs = (completed(run.but(label=given.label or run.label), values) for run in file.runs)
    return dataclasses.replace(file, runs=tuple(runs))


def _unpacked(path: Path, given: GivenValues, jobs: int | None, inputs: Inputs) -> list[Loaded]:
    """Return the content of a bundle, under names within it."""
    from tprimat.log_import import bundle  # here, since it reads logs

    try:
        with bundle.unpacked(path) as (folder, named):
            unpacked = load([str(folder)], given, jobs, hides=False)
    except UnreadableError as error:
        inputs.errors.append(error)
        return []
    inputs.notes += [with_texts(note, named) for note in unpacked.notes]
    if not unpacked.files:
        inputs.errors.append(
            UnreadableError(path, "no results or logs in it", heading="not-a-result")
        )
    files = []
    for file in unpacked.files:
        runs = tuple(moved(run, named) for run in file.runs)
        files.append(Loaded(named(file.name), file.sha256, runs))
    return [inputs.hidden(file, are_results=True) for file in files]
