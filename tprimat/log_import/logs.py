"""Read the logs among inputs."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tprimat.log_import import importer, sources
from tprimat.log_import.extract import ImportedRun
from tprimat.log_import.given import GivenValues
from tprimat.log_import.inputs import Log
from tprimat.log_import.loaded import Inputs, moved
from tprimat.log_import.sources import LogSource
from tprimat.log_import.unread import IS_ASKED, LOGS_UNREAD, NotRead, SkippedFile
from tprimat.notes import ASKED, DESCRIPTION, LOST, RESULT, Note, skipped
from tprimat.results.result_file import Loaded
from tprimat.results.run import Run
from tprimat.text import runnable

_OF_A_MEASUREMENT = re.compile(r"_\d{8}_\d{6}\w{0,99}\.(?:log|trace\.json\.gz|memory\.pickle)")
"""How the names of logs, traces and memory snapshots that benchmark.py writes end."""

_OF_RUNS = {"primus", "nemo", "megatron_bridge", "automodel", "slurm"}
"""Directories next to the results of benchmark.py. Its Slurm jobs and the frameworks that it starts
write their logs there.
"""

MOST_PATTERNS = 3
"""The most patterns, such as DIRECTORY/*.log, that the note on unread logs lists."""


def load(
    names: Sequence[str],
    given: GivenValues,
    jobs: int | None,
    inputs: Inputs,
    beside: Sequence[Loaded] = (),
) -> None:
    """Add the runs of logs to the inputs, and notes on the files that aren't used.

    Args:
        names: files and directories that the user named.
        given: values that the user states for logs.
        jobs: processes that read logs; None for one per CPU.
        inputs: runs, notes and errors are added to it.
        beside: results in the same directories. Logs that these were read from, or that their
            measurements wrote, are skipped. If one was measured live outside a session of
            benchmark.py, the other logs stay unread, with a note on how to read them.
    """
    logs, left_out, errors = sources.log_sources(names, {file.name for file in beside})
    # A result that can't be loaded already has a note with its reason.
    left_out = [file for file in left_out if file.kind != RESULT]
    inputs.errors += errors
    if beside:
        left_out = []
        live = []
        for file in beside:
            for run in file.runs:
                if run.is_live:
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
            inputs.errors.append(outcome.error())
        else:
            inputs.notes.append(_not_used(outcome))
    for runs in groups.values():
        merged = importer.merged(runs, left_out)
        runs_by_title: dict[str, list[Run]] = {}
        for item in merged:
            runs_by_title.setdefault(item.title, []).append(item.run)
        for title, log_runs in runs_by_title.items():
            hashes = [file.sha256 for run in log_runs for file in run.source_files]
            inputs.logs.add(title)
            inputs.files.append(inputs.hidden(Loaded(title, hashes[0] or "", tuple(log_runs))))
    inputs.notes += _notes_on(left_out)


def _not_used(outcome: NotRead) -> Note:
    """Return the note on a log in a directory that isn't read."""
    if outcome.asked:
        return skipped(outcome.place, IS_ASKED, ASKED)
    return skipped(outcome.place, outcome.reason, LOST if outcome.is_lost else "")


def _notes_on(files: Sequence[SkippedFile]) -> Iterator[Note]:
    """Yield a note for the skipped files of each reason."""
    paths: dict[tuple[str, str], list[str]] = {}
    for unused in files:
        paths.setdefault((unused.reason, unused.kind), []).append(unused.path)
    for (reason, kind), (first, *more) in paths.items():
        shown = f"{first} and {len(more)} more" if more else first
        if kind == DESCRIPTION:
            # This file is used: the runs of its logs have the values that it states.
            yield Note("read-with-logs", {"file": shown, "why": reason})
        else:
            yield skipped(shown, reason, kind)


def _without_read(logs: Sequence[LogSource], beside: Sequence[Loaded]) -> list[LogSource]:
    """Return the logs that no result next to them was read from. A result was read from a log if it
    states that log's name, size and hash.
    """
    names_and_sizes = set()
    digests = set()
    for result in beside:
        for run in result.runs:
            # The size of a log in several files is their total.
            total = sum(file.bytes or 0 for file in run.source_files)
            for file in run.source_files:
                names_and_sizes |= {(Path(file.path).name, size) for size in (file.bytes, total)}
                digests.add(file.sha256)
    others = []
    for log in logs:
        is_known = (Path(log.paths[0]).name, log.size) in names_and_sizes
        if not is_known or digests.isdisjoint((None, *map(_digest, log.paths))):
            others.append(log)
    return others


def _without_own(logs: list[LogSource], live: Sequence[Loaded]) -> list[LogSource]:
    """Return the logs that weren't written by a measurement whose result (one of `live`) is next
    to them.
    """
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
    """Return the note on how many logs stay unread, with the command that compares them too."""
    paths = [Path(log.paths[0]) for log in logs]
    patterns = list(dict.fromkeys(f"{path.parent}/*{path.suffix}" for path in paths))
    rest = " …" if len(patterns) > MOST_PATTERNS else ""
    words = shlex.join([*names, *patterns[:MOST_PATTERNS]])
    command = runnable(f"./compare_results.py {words}{rest}")
    return Note(LOGS_UNREAD, {"logs": len(logs), "command": command})


def _digest(path: str) -> str | None:
    """Return the SHA-256 of a log: logs with the same name and size may be of different
    trainings.
    """
    log = Log(path)
    deque(log.chunks(), maxlen=0)
    return log.source_file().sha256


def under_names(outcome: sources.Outcome, named: Callable[[str], str]) -> sources.Outcome:
    """Return the outcome of a source (its runs, or why it has none) with each file name replaced by
    what named() returns for it.
    """
    if isinstance(outcome, NotRead):
        return outcome._replace(problem=named(outcome.problem), place=named(outcome.place))
    trainings = []
    for training in outcome:
        run = moved(training.run, named)
        trainings.append(dataclasses.replace(training, title=named(training.title), run=run))
    return trainings
