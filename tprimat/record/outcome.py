"""Outcomes of runs: the status and reason in results, for all frameworks."""

from __future__ import annotations

import re
import signal
from typing import Any

from tprimat import units
from tprimat.redaction import redacted_start
from tprimat.results.ending import Ending, EndingKind
from tprimat.results.outcome import Cause, Outcome, ending_of, outcome_of
from tprimat.results.run import Run

LONGEST_REASON = 400

OUT_OF_MEMORY = "out of memory"
"""How the reason begins of a training that failed for lack of memory."""

_OUT_OF_MEMORY = re.compile(
    r"out.?of.?memory|can(?:'|no)t allocate memory|not enough memory|bad_alloc|\bMemoryError\b"
    # The libraries of CUDA and ROCm, Transformer Engine for cuBLAS, rocBLAS; the last one is NCCL's
    # and RCCL's.
    r"|alloc(?:ation)?_?failed|resource allocation failed|status_memory_error|failed to"
    r" (?:cuda|hip) .{0,200}alloc",
    re.IGNORECASE,
)


def _ended(kind: EndingKind, reason: str | None = None, cause: str | None = None) -> Outcome:
    """Return an outcome whose cause is that of the reason, unless another one is given."""
    return outcome_of(Ending(kind=kind, cause=cause or reason), reason)


COMPLETE = _ended("finished")
RUNNING = _ended("running")
"""The reason in the journal of a running training."""

INTERRUPTED = _ended("stopped", "interrupted (Ctrl-C)")
TERMINATED = _ended("stopped", "terminated (SIGTERM)")
ENDED_SILENTLY = outcome_of(Ending(kind="cut_off"), "the run ended for an unknown reason")
PROGRAM_ENDED = outcome_of(
    Ending(kind="cut_off"), "the program exited before the training finished"
)
KILLED = outcome_of(
    Ending(kind="cut_off"),
    "the program stopped before it could write the result (killed, out of memory, or power loss)",
)
"""What recovery states of a training that left its journal alone."""


def stopped_by(reason: str | None) -> Outcome:
    """Return the outcome of a training that has done its steps, or that was ended early on purpose,
    for a reason.
    """
    return _ended("finished", reason)


def of_end(done: int, planned: int | None, stop_reason: str | None, cause: str) -> Outcome:
    """Return the outcome of a loop that ran to its end, after `done` steps of those planned, if
    bounded.

    With a stop_reason it was stopped early on purpose and counts as complete; else `cause` is why
    steps are missing.
    """
    asked = Cause("stopped", stop_reason) if stop_reason is not None else None
    ending = ending_of(done, planned, ended=planned is None or stop_reason is not None, asked=asked)
    if ending.kind != "finished":
        return outcome_of(ending, f"{done} of max_steps={planned} steps: {cause}")
    return outcome_of(ending, stop_reason)


def is_out_of_memory(error: BaseException | str) -> bool:
    """Return whether an error, or a text that reports one, means that memory ran out: a GPU's or
    the machine's.

    torch has a class only for its own allocator; the driver, libraries and compilers state it in
    the texts of other errors.
    """
    return bool(
        _OUT_OF_MEMORY.search(
            error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        )
    )


def of_exception(exception: BaseException, *, terminated: bool) -> Outcome:
    """Return the outcome of a training that an exception ended, or SIGTERM before it."""
    name = type(exception).__name__
    if terminated or name == "SIGTERMException":
        return TERMINATED
    if isinstance(exception, KeyboardInterrupt):
        return INTERRUPTED
    lines = [line.strip() for line in str(exception).splitlines() if line.strip()]
    # Compilers and NCCL state it below their own first line.
    first_line = next(filter(is_out_of_memory, lines), (lines or [""])[0])
    text = redacted_start(f"{name}: {first_line}", LONGEST_REASON) if first_line else name
    if isinstance(exception, (SystemExit, GeneratorExit)):
        failed = isinstance(exception, SystemExit) and exception.code not in (None, 0)
        return outcome_of(
            Ending(kind="failed" if failed else "cut_off", cause=text),
            f"the program exited: {text}",
        )
    if is_out_of_memory(exception):
        return _ended("failed", f"{OUT_OF_MEMORY}: {text}")
    return _ended("failed", text)


def of_trainer(trainer: Any) -> Outcome:
    """Return the outcome of a Lightning trainer whose loop ran to its end: complete, unless cut
    short.
    """
    done = trainer.global_step
    planned = trainer.max_steps
    epochs = trainer.max_epochs
    all_epochs = bool(epochs and 0 < epochs <= trainer.current_epoch)
    if planned is None or planned < 1 or done >= planned:
        if trainer.should_stop and not all_epochs and (asked := _asked_stop(trainer)):
            return stopped_by(f"stopped after {done} steps: {asked}")
        if trainer.should_stop and not all_epochs:
            bound = f" of {epochs} epochs" if epochs and epochs > 0 else ""
            return outcome_of(
                Ending(kind="cut_off"), f"stopped early after {done} steps, before the end{bound}"
            )
        return COMPLETE
    if all_epochs:
        return stopped_by(
            f"{done} of max_steps={planned} steps: max_epochs={epochs} was reached first"
        )
    if trainer.should_stop and (asked := _asked_stop(trainer)):
        return stopped_by(f"{done} of max_steps={planned} steps: {asked}")
    cause = "the training stopped early" if trainer.should_stop else "the training loop ended early"
    return of_end(done, planned, None, cause)


def _asked_stop(trainer: Any) -> str | None:
    """Return which of Lightning's callbacks has ended a training as its user asked; None if none of
    them did.
    """
    for callback in getattr(trainer, "callbacks", ()):
        if getattr(callback, "stopped_epoch", 0):
            return "early stopping"
        # Lightning's Timer, which max_time adds.
        remaining = getattr(callback, "time_remaining", lambda: None)()
        if remaining is not None and remaining <= 0:
            return "max_time was reached"
    return None


def of_process(
    status: int, *, interrupted: bool, overdue: bool, recorded: str | None = None
) -> Outcome:
    """Return the outcome of a training in a process of its own that left no complete result.

    Args:
        status: exit status of the process; negative for a signal.
        interrupted: whether the user interrupted it from the process that started it.
        overdue: whether it was ended for running far beyond its time limit.
        recorded: the reason in the result that it left, or in its last lines.
    """
    kind: EndingKind = "failed"
    if interrupted:
        kind = "stopped"
        reason = "interrupted"
    elif overdue:
        reason = "killed: far exceeded its time limit"
    elif recorded:
        reason = recorded
    elif status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else str(-status)
        memory = " (possibly out of memory)" if name == "SIGKILL" else ""
        reason = f"killed by {name}{memory}"
        kind = "stopped" if name in ("SIGINT", "SIGTERM", "SIGHUP") else "failed"
    elif status == 0:
        reason = "exited without writing a result"
    else:
        reason = f"exited with status {status} before it could write a result"
    return Outcome("failed", reason, Ending(kind=kind, cause=reason))


def of_log(run: Run, requested_steps: int, *, succeeded: bool) -> Outcome:
    """Return the outcome of a training whose log was read as `run`; `succeeded` by its process's
    exit status.
    """
    ending = run.ending or ending_of(ended=run.status == "complete")
    if run.status != "complete":
        return Outcome(run.status, run.status_reason, ending)
    if not succeeded:
        return _ended("failed", "the process exited with an error")
    if run.status_reason is None and run.steps and run.steps[-1] < requested_steps:
        cut = Ending(kind="cut_off")
        return outcome_of(cut, f"{run.steps[-1]} of max_steps={requested_steps} steps in the log")
    return Outcome("complete", run.status_reason, ending)


def why_stopped(*, interrupted: bool, overdue: bool, limit_s: float | None) -> str | None:
    """Return the error for the log of a training that its parent process ended; None if it ended by
    itself.
    """
    if overdue:
        return f"killed: ran longer than {units.duration(limit_s)}"
    if interrupted:
        return "interrupted by the user"
    return None
