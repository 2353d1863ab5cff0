"""Slurm's own commands: submit a job, and ask for its state."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from pathlib import Path

from tprimat.errors import UsageError

COMMAND_S = 60.0
"""Longest wait for an answer; a busy controller takes some time."""

# Not started yet, or to be started again.
WAITING = (
    "PENDING",
    "CONFIGURING",
    "REQUEUED",
    "REQUEUE_HOLD",
    "REQUEUE_FED",
    "RESV_DEL_HOLD",
    "SPECIAL_EXIT",
)
RUNNING = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT")

ENDINGS = {
    "CANCELLED": "cancelled",
    "TIMEOUT": "reached its time limit",
    "NODE_FAIL": "ended because a node failed",
    "BOOT_FAIL": "ended because a node didn't boot",
    "PREEMPTED": "preempted",
    "OUT_OF_MEMORY": "out of memory",
    "DEADLINE": "missed its deadline",
    "REVOKED": "revoked",
    "FAILED": "failed",
    "COMPLETED": "completed",
}
"""What became of a job, by the states at which it ends."""

STOPPED = ("CANCELLED", "TIMEOUT", "PREEMPTED", "DEADLINE", "REVOKED")
"""States of a job that a limit or a person ended."""


@dataclasses.dataclass(frozen=True)
class JobState:
    """A job as Slurm knows it.

    Attributes:
        state: in Slurm's words, such as RUNNING.
        reason: why it waits, in Slurm's words; None if Slurm gives none.
        nodes: Slurm's list of them; None before it has any.
        exit_code: STATUS:SIGNAL.
        start: when it began, or is expected to.
    """

    state: str
    reason: str | None = None
    nodes: str | None = None
    time_limit: str | None = None
    exit_code: str | None = None
    start: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it is over."""
        return self.state not in (*WAITING, *RUNNING)

    @property
    def ending(self) -> str:
        """What became of it, in words."""
        words = ENDINGS.get(self.state, self.state.lower().replace("_", " "))
        if self.state == "TIMEOUT" and self.time_limit:
            return f"{words} ({self.time_limit})"
        if self.state == "FAILED" and self.exit_code:
            return f"{words} (exit code {self.exit_code})"
        return words


def check() -> None:
    """Raise UsageError if no job can be submitted from here."""
    if shutil.which("sbatch") is None:
        raise _absent("sbatch")


def submit(script: Path) -> str:
    """Submit a script; the job's id. Raises UsageError if Slurm isn't here, or refuses."""
    status, out, err = _run("sbatch", "--parsable", str(script))
    # ID, or ID;CLUSTER; site plugins print lines of their own before it.
    job = re.search(r"^(\d+)(;\S+)?$", out, re.MULTILINE)
    if status or job is None:
        problem = " ".join((err or out).split()) or f"status {status}"
        raise UsageError(
            f"sbatch rejects the job: {problem}",
            hint=f"edit {script} and submit it with sbatch, or set --account and --partition",
            heading="slurm",
        )
    return job[1]


def state(job_id: str) -> JobState | None:
    """Return the state of a job; None if Slurm doesn't know it any more.

    Raises UsageError if Slurm doesn't answer.
    """
    status, out, err = _run("scontrol", "show", "job", "--oneliner", job_id)
    if status == 0 and "JobState=" in out:
        return _of_scontrol(out)
    if status and "Invalid job id" not in err:
        problem = " ".join(err.split())
        raise UsageError(
            f"scontrol: {problem}",
            hint="try again when the Slurm controller responds",
            heading="slurm",
        )
    fields = ("State", "Reason", "NodeList", "Timelimit", "ExitCode", "Start")
    try:
        status, out, _ = _run("sacct", "-X", "-n", "-P", "-j", job_id, "-o", ",".join(fields))
    except UsageError:
        return None
    values = out.splitlines()[-1].split("|") if status == 0 and out.strip() else []
    if len(values) != len(fields):
        return None
    # CANCELLED by 1000
    named, *rest = (
        None if value in ("", "None", "Unknown", "None assigned") else value for value in values
    )
    return JobState((named or "UNKNOWN").split()[0], *rest)


def queue_position(job_id: str) -> tuple[int, int] | None:
    """Return a waiting job's place in the queue of its partition, from 1, and how many wait there;
    None: unknown.
    """
    status, out, _ = _run("squeue", "-h", "-j", job_id, "-o", "%P")
    if status or not out.strip():
        return None
    partition = out.split()[0].split(",")[0]
    status, out, _ = _run(
        "squeue", "-h", "-t", "PENDING", "-p", partition, "-S", "-p,i", "-o", "%A"
    )
    ids = out.split()
    if status == 0 and job_id in ids:
        return (ids.index(job_id) + 1, len(ids))
    return None


def gpus_of_a_node(partition: str | None) -> int | None:
    """Return the GPUs of a partition's nodes, the fewest of them; 0 for none, None if Slurm can't
    be asked.
    """
    where = ("-p", partition) if partition else ()
    try:
        status, out, _ = _run("sinfo", "-h", "-o", "%P %G", *where)
    except UsageError:
        return None
    lines = [line.split(maxsplit=1) for line in out.splitlines() if line.strip()]
    # Without a name the default partition counts, which has a star.
    chosen = [words for words in lines if partition or words[0].endswith("*")] or lines
    if status or not chosen:
        return None
    return min(
        sum(map(int, re.findall(r"\bgpu:(?:[\w.-]+:)?(\d+)", words[-1]))) for words in chosen
    )


def _of_scontrol(text: str) -> JobState:
    # The last job of the answer is the requested one; the tasks of an array are on lines of their
    # own.
    values = dict(
        re.findall(r"(?:^|\s)([A-Za-z]+)=(\S*)", text.splitlines()[-1] if text.strip() else "")
    )

    def known(name: str) -> str | None:
        value = str(values.get(name, ""))
        if value in ("", "None", "(null)", "Unknown"):
            return None
        return value

    return JobState(
        values.get("JobState", "UNKNOWN"),
        known("Reason"),
        known("NodeList"),
        known("TimeLimit"),
        known("ExitCode"),
        known("StartTime"),
    )


def _run(*words: str) -> tuple[int, str, str]:
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMMAND_S,
            encoding="utf-8",
            errors="replace",
        )
    except FileNotFoundError as error:
        raise _absent(words[0]) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        if isinstance(error, subprocess.TimeoutExpired):
            problem = f"no answer in {COMMAND_S:g} s"
        else:
            problem = str(error)
        raise UsageError(
            f"{words[0]}: {problem}", hint="try again later", heading="slurm"
        ) from error
    return done.returncode, done.stdout, done.stderr


def _absent(program: str) -> UsageError:
    return UsageError(
        f"{program} is not installed here",
        hint="submit from a machine of the Slurm cluster, or show the script with --dry-run",
        heading="slurm",
    )
