"""What has become of a job, from the queue to its end, and then a result of every training that it
began.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from tprimat import console
from tprimat.analysis.summary import summarize
from tprimat.errors import ExitStatus, UsageError
from tprimat.frameworks import by_name
from tprimat.frameworks.request import Request
from tprimat.machine.platforms import Machine
from tprimat.measure import attempt, display, training_files
from tprimat.measure.attempt import Training
from tprimat.measure.display import short_path
from tprimat.notes import Note
from tprimat.record import nodes
from tprimat.results.ending import Ending, EndingKind
from tprimat.results.run import Environment, GpuInfo, Run
from tprimat.slurm import client, live, script
from tprimat.slurm.client import JobState
from tprimat.slurm.job import Job
from tprimat.store import store
from tprimat.store.store import StoredRun
from tprimat.text import counted, plain, runnable

DEFAULT_DIR = Path("output")

INTERVAL_S, LINE_S = 2.0, 30.0
"""Between two questions to Slurm; between two lines while nothing but the steps has changed."""

PATIENCE_S = (2.0, 10.0, 30.0, 60.0, 120.0)
"""A controller that is busy or begins again doesn't answer for some time."""


def collect(job: Job) -> ExitStatus:
    """Print the state of a job, and make results from its files; return the exit status."""
    job_id = job.job_id
    console.current().values["job"] = job_id
    if job_id is None:
        console.info(
            f"{short_path(job.folder)}: not submitted; submit it with sbatch"
            f" {job.folder / script.NAME}"
        )
        return ExitStatus.INCONCLUSIVE
    state = client.state(job_id)
    console.current().values["state"] = state.state if state else None
    if state is not None and not state.has_ended:
        for line in course(job, state):
            console.info(line)
        return ExitStatus.INCONCLUSIVE
    how = ending(job, state)
    kind = _kind(state)
    return _collect_ended(
        job, Ending(kind=kind, cause=f"Slurm job {job_id}: {how}"), how, succeeded=kind == "cut_off"
    )


def until_the_end(
    job: Job,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> ExitStatus:
    """Print the course of a job until it is over, and collect its results; Ctrl-C leaves the job
    alone.
    """
    shown: list[str] = []
    last_s = float("-inf")
    try:
        while (state := _patiently(job, sleep)) is not None and not state.has_ended:
            lines = course(job, state)
            if lines[:1] != shown[:1] or (lines != shown and clock() - last_s >= LINE_S):
                for line in lines:
                    console.info(f"{time.strftime('%H:%M:%S')}  {line}")
                shown = lines
                last_s = clock()
            sleep(INTERVAL_S)
    except KeyboardInterrupt:
        console.error(
            runnable(
                f"job {job.job_id} continues: tprimat collect {job.job_id}; scancel {job.job_id}"
                " stops it"
            )
        )
        return ExitStatus.INCONCLUSIVE
    return collect(job)


def _patiently(job: Job, sleep: Callable[[float], None]) -> JobState | None:
    """Return the state of a job. Raises UsageError if Slurm doesn't answer for some minutes."""
    for wait_s in PATIENCE_S:
        try:
            return client.state(job.job_id or "")
        except UsageError:
            sleep(wait_s)
    return client.state(job.job_id or "")


def course(job: Job, state: JobState) -> list[str]:
    """Return lines on a job that isn't over."""
    title = f"job {job.job_id}"
    if state.state not in client.WAITING:
        begun = attempt.begun(job.folder)
        where = f" on {state.nodes}" if state.nodes else ""
        first = f"{title} is {state.state.lower()}{where}"
        first += f": {counted(len(begun), 'training')} started"
        return [first, *live.lines(job, begun[-1:])]
    line = f"{title} is queued ({state.reason or state.state.lower()})"
    if any(note[2] == "started" for note in job.notes()):
        line += " again"
    position = client.queue_position(job.job_id or "")
    if position:
        line += f", position {position[0]} of {position[1]}"
    if state.start:
        line += f", expected to start at {state.start}"
    return [line]


def ending(job: Job, state: JobState | None) -> str:
    """Return how a job ended: as Slurm reports, or, if it has forgotten the job, as its script
    noted.
    """
    if state is not None:
        return state.ending
    notes = [note for note in job.notes() if note[0] == job.job_id]
    last = notes[-1][2:] if notes else ()
    if not last:
        return "ended before its script started (Slurm has no more information)"
    if last[0] == "ended":
        terminated = any(note[2] == "terminated" for note in notes)
        return f"ended with status {last[1]}{', terminated by Slurm' if terminated else ''}"
    return "was killed, or its node failed (Slurm has no more information)"


def _kind(state: JobState | None) -> EndingKind:
    """Return how trainings ended that the end of their job has ended; Slurm forgets jobs."""
    if state is None or state.state == "COMPLETED":
        return "cut_off"
    if state.state in client.STOPPED:
        return "stopped"
    return "failed"


def _collect_ended(job: Job, ended: Ending, how: str, *, succeeded: bool) -> ExitStatus:
    runs = attempt.close(job.session, job.output_dir, ended)
    trainings = {(begun.round, begun.request): begun for begun in attempt.begun(job.folder)}
    of_trainings = []
    for training in trainings.values():
        request = _request(training)
        own = [stored for stored in runs if attempt.is_of(stored[0], training.round, request)]
        if not own:
            own.append(_result_of(job, training, ended))
            runs += own
        of_trainings.append((training, own))
    console.info(f"job {job.job_id}: {how}")
    complete = 0
    for training, own in of_trainings:
        complete += any(run.status == "complete" for run, _ in own)
        for run, path in own:
            label = f" {plain(run.label)}" if run.label else ""
            title = f"{plain(run.framework)} {plain(run.model)}{label}, run {training.round}"
            console.record(run, short_path(path), title)
            console.info(display.outcome(title, run, summarize(run)))
            if run.status != "complete" and run.status_reason:
                console.info(f"    {plain(run.status_reason)}")
    log = job.folder / script.LOG
    if not trainings:
        console.error(f"error: job {job.job_id}: {how}; no training started", see="collect")
        tail = []
        with contextlib.suppress(OSError):
            tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
        for line in training_files.last_words(log, tail):
            console.error(f"    {plain(line, 160)}")
    for number, path in enumerate(dict.fromkeys(short_path(path) for _, path in runs)):
        console.info(f"{' ' * 8 if number else 'Results:'} {path}")
    console.info(f"Log:     {short_path(log)}")
    if complete:
        console.info(f"Next:    {display.comparison_of(job.output_dir)}")
    if trainings and complete == len(trainings) and (succeeded or "status 0" in how):
        return ExitStatus.OK
    return ExitStatus.TRAINING_FAILED


def _result_of(job: Job, training: Training, ended: Ending) -> StoredRun:
    """Return the result of a training that left none: from its log, or else only from its
    request.
    """
    request = _request(training)
    log = Path(training.log)
    stated = {
        "session": job.session,
        "round": training.round,
        "request": training.digest,
        "tuning": training.tuning,
    }
    if training.logged and log.exists():
        machine = Machine(request.platform, GpuInfo(), Environment())

        def complete(run: Run) -> Run:
            run = run.but(**stated)
            if request.num_nodes > 1:
                return nodes.added(run, job.folder / "nodes", request.num_nodes)
            return run

        framework = by_name(request.framework)
        stored = training_files.read_log(framework, request, log, machine, False, complete)
        if stored is not None:
            return attempt.with_reason(*stored, ended)
    run = attempt.failed(request, ended.cause, notes=(Note("run-left-nothing"),), **stated)
    return run, store.save(run, request.output_dir).path


def _request(training: Training) -> Request:
    return Request.from_arguments(training.request)
