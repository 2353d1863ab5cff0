from __future__ import annotations

import types

import pytest

from tprimat.record import outcome


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
            "the training stopped itself after 20 steps, before the end of 3 epochs",
        ),
        (
            {"max_steps": -1, "should_stop": True},
            "incomplete",
            "the training stopped itself after 20 steps, before the end",
        ),
        (
            {"max_steps": 100, "max_epochs": 1, "current_epoch": 1},
            "complete",
            "20 of max_steps=100 steps: max_epochs=1 was reached first",
        ),
        (
            {"max_steps": 100, "should_stop": True},
            "incomplete",
            "20 of max_steps=100 steps: the training stopped itself",
        ),
        ({"max_steps": 100}, "incomplete", "20 of max_steps=100 steps: the training's loop ended early"),
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
        (SystemExit(3), "incomplete", "the program ended itself: SystemExit: 3"),
    ],
)
def test_what_an_exception_means(exception, status, reason):
    assert outcome.of_exception(exception, terminated=False) == (status, reason)


def test_whatever_is_raised_after_a_sigterm_is_its_doing():
    assert outcome.of_exception(RuntimeError("pipe"), terminated=True) == ("incomplete", "terminated (SIGTERM)")


def test_a_reason_has_an_end():
    _, reason = outcome.of_exception(ValueError("x" * 10_000), terminated=False)
    assert len(reason) == outcome.LONGEST_REASON
