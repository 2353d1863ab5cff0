"""Follow a job from the queue to its end."""

from __future__ import annotations

import time
from collections.abc import Callable

from tprimat import console
from tprimat.errors import ExitStatus, UsageError
from tprimat.slurm import client, collect
from tprimat.slurm.client import JobState
from tprimat.slurm.job import Job

INTERVAL_S, LINE_S = 2.0, 30.0
"""Between two questions to Slurm; between two lines while nothing but the steps has changed."""

PATIENCE_S = (2.0, 10.0, 30.0, 60.0, 120.0)
"""A controller that is busy or begins anew doesn't answer for some time."""


def until_the_end(
    job: Job, sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic
) -> ExitStatus:
    """Print the course of a job until it is over, and collect its results; Ctrl-C leaves the job alone."""
    shown: list[str] = []
    last_s = float("-inf")
    try:
        while (state := _patiently(job, sleep)) is not None and not state.has_ended:
            lines = collect.course(job, state)
            if lines[:1] != shown[:1] or (lines != shown and clock() - last_s >= LINE_S):
                for line in lines:
                    console.info(f"{time.strftime('%H:%M:%S')}  {line}")
                shown, last_s = lines, clock()
            sleep(INTERVAL_S)
    except KeyboardInterrupt:
        console.error(f"job {job.job_id} continues: tprimat collect {job.job_id}; scancel {job.job_id} stops it")
        return ExitStatus.INCONCLUSIVE
    return collect.collect(job)


def _patiently(job: Job, sleep: Callable[[float], None]) -> JobState | None:
    """Return the state of a job. Raises UsageError where Slurm doesn't answer for some minutes."""
    for wait_s in PATIENCE_S:
        try:
            return client.state(job.job_id or "")
        except UsageError:
            sleep(wait_s)
    return client.state(job.job_id or "")
