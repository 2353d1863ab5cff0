from __future__ import annotations

import signal
import types

import pytest

from tprimat.record import outcome
from tprimat.results.run import Run


def trainer(**fields):
    usual = {"global_step": 20, "max_steps": 20, "max_epochs": -1, "current_epoch": 0, "should_stop": False}
    return types.SimpleNamespace(**{**usual, **fields})


@pytest.mark.parametrize(
    ("fields", "status", "reason"),
    [
        ({}, "complete", None),
        ({"max_steps": -1, "max_epochs": 3, "current_epoch": 3}, "complete", None),
        ({"max_steps": -1, "max_epochs": 3, "current_epoch": 3, "should_stop": True}, "complete", None),
        (
            {"max_steps": -1, "max_epochs": 3, "current_epoch": 1, "should_stop": True},
            "incomplete",
            "stopped early after 20 steps, before the end of 3 epochs",
        ),
        (
            {"max_steps": -1, "should_stop": True},
            "incomplete",
            "stopped early after 20 steps, before the end",
        ),
        (
            {"max_steps": 100, "max_epochs": 1, "current_epoch": 1},
            "complete",
            "20 of max_steps=100 steps: max_epochs=1 was reached first",
        ),
        (
            {"max_steps": 100, "should_stop": True},
            "incomplete",
            "20 of max_steps=100 steps: the training stopped early",
        ),
        ({"max_steps": 100}, "incomplete", "20 of max_steps=100 steps: the training loop ended early"),
    ],
)
def test_how_a_training_came_to_its_end(fields, status, reason):
    assert outcome.of_trainer(trainer(**fields)) == (status, reason)


class OutOfMemoryError(RuntimeError):
    """Named as torch's."""


class SIGTERMException(SystemExit):
    pass


@pytest.mark.parametrize(
    ("exception", "status", "reason"),
    [
        (ValueError("bad data\nsecond line"), "failed", "ValueError: bad data"),
        (ValueError(), "failed", "ValueError"),
        (RuntimeError("\n\n  NCCL error  \nmore"), "failed", "RuntimeError: NCCL error"),
        (
            OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
            "failed",
            "out of memory: OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.",
        ),
        (MemoryError(), "failed", "out of memory: MemoryError"),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory: you tried"),
            "failed",
            "out of memory: RuntimeError: [enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate "
            "memory: you tried",
        ),
        (KeyboardInterrupt(), "incomplete", "interrupted (Ctrl-C)"),
        (SIGTERMException(), "incomplete", "terminated (SIGTERM)"),
        (SystemExit(3), "incomplete", "the program exited: SystemExit: 3"),
    ],
)
def test_what_an_exception_means(exception, status, reason):
    assert outcome.of_exception(exception, terminated=False) == (status, reason)


def test_whatever_is_raised_after_a_sigterm_is_its_doing():
    for exception in (RuntimeError("pipe"), KeyboardInterrupt()):
        assert outcome.of_exception(exception, terminated=True) == ("incomplete", "terminated (SIGTERM)")


def test_a_reason_has_an_end():
    _, reason = outcome.of_exception(ValueError("x" * 10_000), terminated=False)
    assert len(reason) == outcome.LONGEST_REASON


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (-signal.SIGKILL, "killed by SIGKILL (possibly out of memory)"),
        (-signal.SIGSEGV, "killed by SIGSEGV"),
        (-64, "killed by"),
        (0, "exited without writing a result"),
        (41, "exited with status 41 before it could write a result"),
    ],
)
def test_why_one_failed_that_left_nothing(status, why):
    ended = outcome.of_process(status, interrupted=False, overdue=False)
    assert ended.status == "failed"
    assert ended.reason.startswith(why)


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ({"interrupted": True, "overdue": True}, "interrupted"),
        (
            {"interrupted": False, "overdue": True, "recorded": "seen"},
            "killed: ran far beyond its time limit",
        ),
        ({"interrupted": False, "overdue": False, "recorded": "ValueError: seen"}, "ValueError: seen"),
    ],
)
def test_what_the_parent_or_the_result_knows_comes_first(end, reason):
    assert outcome.of_process(-9, **end).reason.startswith(reason)


def of_steps(*steps, **fields):
    nothing = (None,) * len(steps)
    names = ("step_times", "loss_values", "learning_rates", "grad_norms", "lines")
    return Run(steps=steps, window_steps=(1,) * len(steps), **dict.fromkeys(names, nothing), **fields)


@pytest.mark.parametrize(
    ("run", "succeeded", "expected"),
    [
        (Run(status="failed", status_reason="oom"), True, ("failed", "oom")),
        (of_steps(1, 2), False, ("failed", "the process exited with an error")),
        (of_steps(1, 2), True, ("incomplete", "2 of max_steps=3 steps in the log")),
        (of_steps(1, 3, status_reason="time limit"), True, ("complete", "time limit")),
        (Run(), True, ("complete", None)),
    ],
)
def test_a_log_and_its_process_together(run, succeeded, expected):
    assert outcome.of_log(run, 3, succeeded=succeeded) == expected


def test_only_what_the_parent_ended_has_its_reason():
    assert outcome.why_stopped(interrupted=False, overdue=False, limit_s=3.0) is None
    assert outcome.why_stopped(interrupted=False, overdue=True, limit_s=3.0) == "killed: ran longer than 3.0 s"
    assert outcome.why_stopped(interrupted=True, overdue=False, limit_s=None) == "interrupted by the user"
