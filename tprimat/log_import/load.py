"""Load results and logs alike: what a comparison is made of, without writing anything."""

from __future__ import annotations

import dataclasses
import glob
import os
import re
import shlex
import unicodedata
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from tprimat.errors import ExitStatus, TensorPrimatError, UnreadableError, UsageError, most_severe
from tprimat.log_import import bundle, importer, sources
from tprimat.log_import.extract import NOTHING_GIVEN, GivenValues, ImportedRun, completed
from tprimat.log_import.inputs import STANDARD_INPUT, Log, named_files, read_small
from tprimat.log_import.sources import LogSource
from tprimat.notes import DESCRIPTION, LOST, NO_RESULT, RESULT, Note, skipped, with_texts
from tprimat.redaction import PSEUDONYM, shown_paths
from tprimat.results.result_file import Loaded
from tprimat.results.run import Run
from tprimat.store import hosts, store
from tprimat.text import for_encoding, runnable


@dataclasses.dataclass
class Inputs:
    """What was loaded.

    Attributes:
        files: results, and logs with the runs in them, in the order of the names.
        notes: what was skipped in directories, and what could not be read.
        errors: one for each name that could not be read.
        hides: whether names are replaced.
        logs: the names of those files that are logs.
        unread: the names of logs beside results, with a note for whoever doesn't name them too.
    """

    files: list[Loaded] = dataclasses.field(default_factory=list)
    notes: list[Note] = dataclasses.field(default_factory=list)
    errors: list[TensorPrimatError] = dataclasses.field(default_factory=list)
    hides: bool = True
    logs: set[str] = dataclasses.field(default_factory=set)
    unread: list[tuple[set[str], Note]] = dataclasses.field(default_factory=list)

    def status(self, status: ExitStatus) -> ExitStatus:
        """Return the exit status of a command that would exit with `status` had all names been
        read.
        """
        return most_severe((status, *(error.status for error in self.errors)))


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
        label, path = (None, word) if _selected(word)[1] else _apart(word)
        path, training = _selected(path)
        labelled = dataclasses.replace(given, label=label or given.label, training=training)
        if labelled != values:
            _load_logs(logs, values, jobs, inputs)
            logs = []
            values = labelled
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


def keys(run: Run, is_packed: bool) -> set[tuple[object, ...]]:
    """Return what a run has in common with the result that was made of its log: the steps, and
    hashes or names.
    """
    if run.source:
        hashes = frozenset(file.sha256 for file in run.source.files)
    else:
        hashes = frozenset()
    return {
        (each, tuple(run.steps)) for each in (hashes, is_packed and bundle.log_names(run)) if each
    }


def _without_evidence(files: Iterable[Loaded], inputs: Inputs) -> Iterator[Loaded]:
    """Yield files without the runs of logs that results among them were made of: they are the same
    runs.

    Such a log has the hash that the result states. The copy in a bundle has the name, as verify
    finds it.
    """
    packed = not inputs.hides
    known = set()
    for file in files:
        if file.name not in inputs.logs:
            for run in file.runs:
                for key in keys(run, packed):
                    known.add(key)
    for file in files:
        runs = tuple(
            run
            for run in file.runs
            if file.name not in inputs.logs or not keys(run, packed) & known
        )
        if len(runs) < len(file.runs):
            inputs.notes.append(skipped(file.name, "a result was made of it"))
        if runs:
            yield dataclasses.replace(file, runs=runs)


def _hidden(file: Loaded, inputs: Inputs, *, are_results: bool = False) -> Loaded:
    """Return what was loaded with pseudonyms for the machines in its directory, unless names
    stay.
    """
    if not inputs.hides:
        return file
    known = hosts.of_process(Path(file.name).parent)
    # What has a pseudonym was written without names.
    runs = []
    for run in file.runs:
        if not are_results or not _has_pseudonym(run):
            run = hosts.hidden(run, known, are_results=are_results)
        runs.append(run)
    return dataclasses.replace(file, runs=tuple(runs))


def _has_pseudonym(run: Run) -> bool:
    return PSEUDONYM.fullmatch(run.environment.hostname or "") is not None


def _told_apart(files: list[Loaded]) -> list[Loaded]:
    """Return files whose pseudonyms of machines, which count in one directory, differ for several
    directories.
    """
    folder_of = {}
    for file in files:
        if any(map(_has_pseudonym, file.runs)):
            folder_of[file.name] = str(Path(file.name).absolute().parent)
    shown = shown_paths(folder_of.values())

    def named(run: Run, file: Loaded) -> Run:
        if not _has_pseudonym(run):
            return run
        name = f"{shown[folder_of[file.name]]}/{run.environment.hostname}"
        return msgspec.structs.replace(
            run, environment=msgspec.structs.replace(run.environment, hostname=name)
        )

    if len(shown) < 2:
        return files
    return [
        dataclasses.replace(file, runs=tuple(named(run, file) for run in file.runs))
        for file in files
    ]


def _apart(word: str) -> tuple[str | None, str]:
    """Return the name and the path in NAME=PATH; no name if that is itself a file."""
    name, _, path = word.partition("=")
    if not name or not path or re.search(r"[/\\]", name) or os.path.exists(word) or glob.glob(word):  # noqa: PTH110, PTH207
        return None, word
    # As it is typed elsewhere: macOS gives names of files with accents apart from their letters.
    name = for_encoding(unicodedata.normalize("NFC", name), "utf-8")
    # The shell expands neither after =.
    return name, str(Path(path).expanduser()) if path.startswith("~") else path


def _selected(path: str) -> tuple[str, str | None]:
    """Return the text and the number or heading in FILE#2; the path and None if that is itself a
    file.
    """
    for found in re.finditer(r"(?<!\.json)#(?=.)", "" if os.path.lexists(path) else path):
        if Path(path[: found.start()]).is_file():
            return path[: found.start()], path[found.end() :]
    return path, None


def _results(
    name: str, given: GivenValues, jobs: int | None, inputs: Inputs
) -> list[Loaded] | None:
    """Return the results in a file, a directory or a bundle; None for what may hold logs."""
    path = Path(name)
    is_ours = True
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
    # Beside logs, a JSON that isn't a result may be anything.
    for note in notes:
        if results or note.fields.get("kind") == LOST:
            inputs.notes.append(note)
    return [_hidden(_completed(file, given), inputs, are_results=True) for file in results] or None


LOGS_UNREAD = "logs-unread"
"""The code of the note on skipped logs."""

_OF_A_MEASUREMENT = re.compile(r"_\d{8}_\d{6}\w{0,99}\.(?:log|trace\.json\.gz|memory\.pickle)")
"""How the name of a log or trace of benchmark.py ends."""

_OF_RUNS = {"primus", "nemo", "megatron_bridge", "automodel", "slurm"}
"""Directories next to results of benchmark.py into which its jobs and the frameworks that it starts
write.
"""

MOST_PATTERNS = 3
"""Directories with unread logs that a note names."""


def _completed(file: Loaded, given: GivenValues) -> Loaded:
    if given == NOTHING_GIVEN:
        return file
    values = given.of(file.name)
    runs = (
        completed(msgspec.structs.replace(run, label=given.label or run.label), values)
        for run in file.runs
    )
    return dataclasses.replace(file, runs=tuple(runs))


def _unpacked(path: Path, given: GivenValues, jobs: int | None, inputs: Inputs) -> list[Loaded]:
    """Return what a bundle holds, under names within it."""
    try:
        with bundle.unpacked(path) as (folder, named):
            found = load([str(folder)], given, jobs, hides=False)
    except UnreadableError as error:
        inputs.errors.append(error)
        return []
    inputs.notes += [with_texts(note, named) for note in found.notes]
    if not found.files:
        inputs.errors.append(
            UnreadableError(path, "no results or logs in it", heading="not-a-result")
        )
    files = []
    for file in found.files:
        runs = tuple(moved(run, named) for run in file.runs)
        files.append(Loaded(named(file.name), file.sha256, runs))
    return [_hidden(file, inputs, are_results=True) for file in files]


def _load_logs(
    names: Sequence[str],
    given: GivenValues,
    jobs: int | None,
    inputs: Inputs,
    beside: Sequence[Loaded] = (),
) -> None:
    logs, left_out, errors = sources.log_sources(names, {file.name for file in beside})
    # A result that can't be loaded has a note with its reason.
    left_out = [file for file in left_out if file.kind != RESULT]
    inputs.errors += errors
    if beside:
        left_out = []
        live = []
        for file in beside:
            for run in file.runs:
                if run.source and run.source.kind == "live":
                    live.append((file, run))
        logs = _without_own(_without_read(logs, beside), [file for file, _ in live])
        if logs and any(run.session is None for _, run in live):
            inputs.unread.append(({log.title for log in logs}, _how_to_read(logs, names)))
            return
    groups: dict[str, list[ImportedRun]] = {}
    for source, outcome in sources.read_sources(logs, jobs, given):
        if isinstance(outcome, list):
            groups.setdefault(source.group, []).extend(outcome)
        elif source.named:
            error = UsageError(outcome.problem, hint=outcome.hint, heading=outcome.heading)
            inputs.errors.append(error)
        else:
            kind = LOST if outcome.is_lost else ""
            inputs.notes.append(skipped(outcome.place, outcome.reason, kind))
    for runs in groups.values():
        merged = importer.merged(runs, left_out)
        of_title: dict[str, list[Run]] = {}
        for item in merged:
            of_title.setdefault(item.title, []).append(item.run)
        for title, of_log in of_title.items():
            hashes = [file.sha256 for run in of_log if run.source for file in run.source.files]
            inputs.logs.add(title)
            inputs.files.append(_hidden(Loaded(title, hashes[0] or "", tuple(of_log)), inputs))
    paths: dict[tuple[str, str], list[str]] = {}
    for unused in left_out:
        paths.setdefault((unused.reason, unused.kind), []).append(unused.path)
    for (reason, kind), (first, *more) in paths.items():
        shown = f"{first} and {len(more)} more" if more else first
        note = skipped(shown, reason, kind)
        if kind == DESCRIPTION:
            # It is used: its logs have what it says.
            note = Note("read-with-logs", {"file": shown, "why": reason})
        inputs.notes.append(note)


def _without_read(logs: Sequence[LogSource], beside: Sequence[Loaded]) -> list[LogSource]:
    """Return the logs that no result beside them was read from: one of a name, a size and a hash
    that a result states was.
    """
    known = set()
    digests = set()
    for result in beside:
        for run in result.runs:
            files = run.source.files if run.source else ()
            # A log of several files has the size of all.
            whole = sum(file.bytes or 0 for file in files)
            for file in files:
                known |= {(Path(file.path).name, size) for size in (file.bytes, whole)}
                digests.add(file.sha256)
    others = []
    for log in logs:
        is_known = (Path(log.paths[0]).name, log.size) in known
        if not is_known or digests.isdisjoint((None, *map(_digest, log.paths))):
            others.append(log)
    return others


def _without_own(logs: list[LogSource], live: Sequence[Loaded]) -> list[LogSource]:
    """Return the logs that a measurement beside them didn't write."""
    if not live:
        return logs
    own = set()
    for file in live:
        for name in _OF_RUNS:
            own.add(Path(file.name).parent / name)
    others = []
    for log in logs:
        path = log.paths[0]
        if not _OF_A_MEASUREMENT.search(path) and own.isdisjoint(Path(path).parents):
            others.append(log)
    return others


def _how_to_read(logs: Sequence[LogSource], names: Sequence[str]) -> Note:
    """Return how many logs are left unread, and the command that compares them too."""
    paths = [Path(log.paths[0]) for log in logs]
    patterns = list(dict.fromkeys(f"{path.parent}/*{path.suffix}" for path in paths))
    rest = " …" if len(patterns) > MOST_PATTERNS else ""
    words = shlex.join([*names, *patterns[:MOST_PATTERNS]])
    command = runnable(f"./compare_results.py {words}{rest}")
    return Note(LOGS_UNREAD, {"logs": len(logs), "command": command})


def _digest(path: str) -> str | None:
    """Return the hash of a log: two of one name and one size may be of two trainings."""
    log = Log(path)
    deque(log.chunks(), maxlen=0)
    return log.source_file().sha256


def under_names(outcome: sources.Outcome, named: Callable[[str], str]) -> sources.Outcome:
    """Return what was read from a source, or why nothing was, with other names of files."""
    if isinstance(outcome, sources.NotRead):
        return outcome._replace(problem=named(outcome.problem), place=named(outcome.place))
    trainings = []
    for training in outcome:
        run = moved(training.run, named)
        trainings.append(dataclasses.replace(training, title=named(training.title), run=run))
    return trainings


def moved(run: Run, named: Callable[[str], str]) -> Run:
    """Return a run whose sources have other names."""
    if run.source is None:
        return run
    files = tuple(msgspec.structs.replace(file, path=named(file.path)) for file in run.source.files)
    return msgspec.structs.replace(run, source=msgspec.structs.replace(run.source, files=files))
