"""The loaded results and runs of logs, with notes on the files that weren't loaded."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from tprimat.errors import ExitStatus, TensorPrimatError, most_severe
from tprimat.notes import Note
from tprimat.redaction import PSEUDONYM
from tprimat.results.result_file import Loaded
from tprimat.results.run import Run
from tprimat.store import hosts


@dataclasses.dataclass
class Inputs:
    """What was loaded.

    Attributes:
        files: results, and logs with the runs in them, in the order of the names.
        notes: on files that were skipped in directories, and on unreadable ones.
        errors: one for each name that could not be read.
        hides: whether names are replaced.
        logs: the names of those files that are logs.
        unread: the names of logs next to results, with a note for users who don't name them too.
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

    def hidden(self, file: Loaded, *, are_results: bool = False) -> Loaded:
        """Return the inputs with pseudonyms for the machines in their directory, unless names
        stay.
        """
        if not self.hides:
            return file
        pseudonyms = hosts.of_process(Path(file.name).parent)
        # What has a pseudonym was written without names.
        runs = []
        for run in file.runs:
            if not are_results or not has_pseudonym(run):
                run = hosts.hidden(run, pseudonyms, are_results=are_results)
            runs.append(run)
        return dataclasses.replace(file, runs=tuple(runs))


def has_pseudonym(run: Run) -> bool:
    """Return whether a run was written without the name of its machine."""
    return PSEUDONYM.fullmatch(run.environment.hostname or "") is not None


def moved(run: Run, named: Callable[[str], str]) -> Run:
    """Return a run whose sources have other names."""
    if run.source is None:
        return run
    files = tuple(file.but(path=named(file.path)) for file in run.source.files)
    return run.but(source=run.source.but(files=files))
