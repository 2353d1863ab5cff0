"""The steps of a training that runs on other machines: of its journal, or of its log."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from tprimat.errors import TensorPrimatError
from tprimat.log_import import recorded
from tprimat.log_import.given import GivenValues
from tprimat.measure.attempt import Training
from tprimat.results.run import Run
from tprimat.slurm.job import Job
from tprimat.watch import lines as watch_lines
from tprimat.watch.growing import GrowingLogs
from tprimat.watch.state import state_of


def lines(job: Job, trainings: Sequence[Training]) -> list[str]:
    """Return a line for each training that has made steps."""
    runs = (
        _of_log(Path(training.log)) if training.logged else _of_journals(job)
        for training in trainings
    )
    return [watch_lines.line(state_of(run)) for run in runs if run is not None and run.steps]


def _of_journals(job: Job) -> Run | None:
    """Return the run of the newest journal of the job's session."""
    newest = []
    for path, run in recorded.going_on(job.output_dir):
        # It was removed just now.
        with contextlib.suppress(OSError):
            if run.session == job.session:
                newest.append((path.stat().st_mtime, run))
    if newest:
        return max(newest, key=lambda each: each[0])[1]
    return None


def _of_log(log: Path) -> Run | None:
    with contextlib.suppress(TensorPrimatError):
        logs = GrowingLogs(str(log), GivenValues())
        logs.has_grown()
        runs = logs.read()
        if runs:
            return runs[-1].run
        return None
    return None
