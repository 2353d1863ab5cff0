"""A session in a Slurm job: the runs that it has started, and the results of an earlier attempt of
the job.

Slurm may requeue a job, after a preemption or the failure of a node. The next attempt is the same
session: its complete runs stand, the interrupted one stays so, and the missing ones are run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from pathlib import Path
from typing import Any

import msgspec

from tprimat import files
from tprimat.errors import UnreadableError
from tprimat.frameworks.request import Request
from tprimat.machine.host import Environ
from tprimat.record import recovery
from tprimat.results.ending import Ending
from tprimat.results.fields import FieldValues
from tprimat.results.run import Run, Tuning
from tprimat.store import store
from tprimat.store.store import StoredRun

JOB = "TPRIMAT_JOB"
"""The environment variable with the directory of the job, which all its machines share."""

TRAININGS = "trainings.jsonl"
REQUEUED = "Slurm requeued the job"


class Training(msgspec.Struct, frozen=True):
    """A training that a job has begun.

    Attributes:
        request: its arguments, without those that the framework's own kind of request adds.
        logged: whether its log makes the result.
        digest: digest of the requested configuration, as its result states it.
        tuning: how the configuration was chosen; None if it wasn't.
    """

    round: int
    request: tuple[str, ...]
    log: str
    logged: bool = False
    digest: str | None = None
    tuning: Tuning | None = None


def session_of(environ: Environ) -> str | None:
    """Return the name of the session of a job, the same in all its attempts and on all its nodes;
    None outside.
    """
    job = environ.get("SLURM_JOB_ID") if JOB in environ else None
    if job:
        return f"slurm-{job}"
    return None


def is_another(environ: Environ) -> bool:
    """Return whether Slurm has requeued the job of this environment."""
    return JOB in environ and environ.get("SLURM_RESTART_COUNT", "0") not in ("", "0")


def begin(folder: Path, number: int, request: Request, log: Path, **known: Any) -> None:
    """Note that a training begins, with further fields of a Training. Raises UsageError if that
    can't be written.
    """
    plain = Request(
        **{field.name: getattr(request, field.name) for field in dataclasses.fields(Request)}
    )
    training = Training(number, tuple(plain.to_arguments()), str(log), **known)
    try:
        with (folder / TRAININGS).open("ab") as file:
            file.write(msgspec.json.encode(training) + b"\n")
    except OSError as error:
        raise files.unwritable(folder, error) from error


def begun(folder: Path) -> list[Training]:
    """Return the runs that a job has begun, in their order; a torn last line is none."""
    try:
        lines = files.read_plain(folder / TRAININGS).split(b"\n")
    except OSError:
        return []
    trainings = []
    for line in lines:
        with contextlib.suppress(msgspec.MsgspecError):
            trainings.append(msgspec.json.decode(line, type=Training))
    return trainings


def runs_of(session: str, output_dir: Path) -> list[StoredRun]:
    """Return the runs of a session among the results of a directory, with their files."""
    runs = []
    for path in sorted(output_dir.glob("*.json")):
        with contextlib.suppress(UnreadableError):
            runs += [(run, path) for run in store.read(path) if run.session == session]
    return runs


def is_of(run: Run, number: int, request: Request) -> bool:
    """Return whether a session's run is that of a request in a round; requests of one model have
    labels that differ.
    """
    same = (run.framework, run.model, run.label) == (
        request.framework,
        request.model,
        request.label,
    )
    return same and run.round == number


def failed(request: Request, why: str | None, /, **known: Any) -> Run:
    """Return the run of a training that left no result, with what else is known of it."""
    config = request.training_config(num_gpus=request.num_gpus, precision=request.precision)
    moment = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    return request.to_run(
        status="failed",
        status_reason=why,
        ending=Ending(kind="failed", cause=why),
        timestamp=moment,
        training_config=config,
        **known,
    )


def close(session: str, output_dir: Path, ended: Ending) -> list[StoredRun]:
    """Write results for runs of a session whose job has ended, with how it did; return all its
    runs.
    """
    recovery.recover(output_dir, ended=session)
    return [with_reason(run, path, ended) for run, path in runs_of(session, output_dir)]


def with_reason(run: Run, path: Path, ended: Ending) -> StoredRun:
    """Add how its job ended to a run that is not complete; return it with its file."""
    reason = run.status_reason or "interrupted"
    if run.status != "complete" and "Slurm" not in reason:
        changes: FieldValues = {"status_reason": f"{reason}; {ended.cause}"}
        if run.ending is None or run.ending.kind in ("cut_off", "stopped"):
            # All that its process saw is that it was killed, or asked to end.
            changes["ending"] = ended
        run = store.amend(path, store.fingerprint(run), **changes) or run
    return run, path
