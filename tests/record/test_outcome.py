from __future__ import annotations

import signal
import types

import pytest

from tprimat.record import outcome
from tprimat.results.run import Run


def trainer(**fields):
    usual = {
        "global_step": 20,
        "max_steps": 20,
        "max_epochs": -1,
        "current_epoch": 0,
        "should_stop": False,
    }
    return types.SimpleNamespace(**{**usual, **fields})


@pytest.mark.parametrize(
    ("fields", "status", "reason"),
    [
        ({}, "complete", None),
        ({"max_steps": -1, "max_epochs": 3, "current_epoch": 3}, "complete", None),
        (
            {"max_steps": -1, "max_epochs": 3, "current_epoch": 3, "should_stop": True},
            "complete",
            None,
        ),
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
        (
            {"max_steps": 100},
            "incomplete",
            "20 of max_steps=100 steps: the training loop ended early",
        ),
    ],
)
def test_how_a_training_came_to_its_end(fields, status, reason):
    ended = outcome.of_trainer(trainer(**fields))
    assert ended[:2] == (status, reason)
    assert ended.ending.kind == ("finished" if status == "complete" else "cut_off")


@pytest.mark.parametrize(
    ("callback", "kind"),
    [
        ({"time_remaining": lambda: 0.001}, "cut_off"),
        ({"time_remaining": lambda: None}, "cut_off"),
        ({"time_remaining": lambda: 0.0}, "finished"),
        ({"stopped_epoch": 0}, "cut_off"),
        ({"stopped_epoch": 1}, "finished"),
    ],
)
@pytest.mark.parametrize("planned", [-1, 100])
def test_e1_a_stop_that_was_asked_for(callback, kind, planned):
    callbacks = [types.SimpleNamespace(), types.SimpleNamespace(**callback)]
    ended = outcome.of_trainer(trainer(max_steps=planned, should_stop=True, callbacks=callbacks))
    assert (ended.ending.kind, ended.status == "complete") == (kind, kind == "finished")


@pytest.mark.parametrize(
    ("status", "end", "kind"),
    [
        (-signal.SIGKILL, {}, "failed"),
        (-signal.SIGSEGV, {}, "failed"),
        (-signal.SIGTERM, {}, "stopped"),
        (-signal.SIGTERM, {"overdue": True}, "failed"),
        (1, {}, "failed"),
        (1, {"interrupted": True}, "stopped"),
    ],
)
def test_e1_the_end_of_a_process(status, end, kind):
    ended = outcome.of_process(status, **{"interrupted": False, "overdue": False, **end})
    assert (ended.ending.kind, ended.ending.cause) == (kind, ended.reason)


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
            RuntimeError(
                "[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory:"
                " you tried"
            ),
            "failed",
            (
                "out of memory: RuntimeError: [enforce fail at alloc_cpu.cpp:121]"
                " DefaultCPUAllocator: can't allocate memory: you tried"
            ),
        ),
        (KeyboardInterrupt(), "incomplete", "interrupted (Ctrl-C)"),
        (SIGTERMException(), "incomplete", "terminated (SIGTERM)"),
        (SystemExit(3), "failed", "the program exited: SystemExit: 3"),
        (SystemExit(0), "incomplete", "the program exited: SystemExit: 0"),
        (SystemExit(), "incomplete", "the program exited: SystemExit"),
    ],
)
def test_what_an_exception_means(exception, status, reason):
    assert outcome.of_exception(exception, terminated=False)[:2] == (status, reason)


OUT_OF_MEMORY = (
    "CUDA out of memory. Tried to allocate 2.00 GiB.",
    (
        "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some"
        " other API call"
    ),
    "HIP error: out of memory",
    "hipErrorOutOfMemory",
    "CUDA driver error: CUDA_ERROR_OUT_OF_MEMORY",
    "Triton Error [CUDA]: out of memory",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "HIPBLAS_STATUS_ALLOC_FAILED when calling `hipblasCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "miopenStatusAllocFailed",
    "rocblas_status_memory_error",
    "cuBLAS Error: the resource allocation failed",
    (
        "NCCL error in: ProcessGroupNCCL.cpp:94, unhandled cuda error\nncclUnhandledCudaError: Call"
        " to CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'"
    ),
    (
        "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nFailed to CUDA calloc"
        " async 4194304 bytes"
    ),
    "backend='inductor' raised:\nOutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "std::bad_alloc",
    (
        "[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: not enough memory: you tried to"
        " allocate 8 bytes."
    ),
    "[Errno 12] Cannot allocate memory",
)

OTHER_ERRORS = (
    "CUDA error: unspecified launch failure",
    "CUDA error: an illegal memory access was encountered",
    "out of resource: shared memory, Required: 101376, Hardware limit: 99328.",
    (
        "DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's"
        " workers are out of shared memory. Please try to raise your shared memory limit."
    ),
    (
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or"
        " device error."
    ),
    "Failed to find C compiler. Please specify via CC environment variable.",
    "CUBLAS_STATUS_NOT_INITIALIZED",
)


@pytest.mark.parametrize("text", OUT_OF_MEMORY)
def test_out_of_memory_has_many_classes(text):
    assert outcome.is_out_of_memory(text)
    assert outcome.is_out_of_memory(RuntimeError(text))
    _, reason, _ = outcome.of_exception(RuntimeError(text), terminated=False)
    assert reason.startswith("out of memory: RuntimeError: ")
    # The line that says so, behind whatever says it.
    assert outcome.is_out_of_memory(reason.removeprefix("out of memory: "))


@pytest.mark.parametrize("text", OTHER_ERRORS)
def test_what_only_names_memory_is_another_error(text):
    assert not outcome.is_out_of_memory(RuntimeError(text))


def test_whatever_is_raised_after_a_sigterm_is_its_doing():
    for exception in (RuntimeError("pipe"), KeyboardInterrupt()):
        assert outcome.of_exception(exception, terminated=True)[:2] == (
            "incomplete",
            "terminated (SIGTERM)",
        )


def test_a_reason_has_an_end():
    _, reason, _ = outcome.of_exception(ValueError("x" * 10_000), terminated=False)
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
            "killed: far exceeded its time limit",
        ),
        (
            {"interrupted": False, "overdue": False, "recorded": "ValueError: seen"},
            "ValueError: seen",
        ),
    ],
)
def test_what_the_parent_or_the_result_knows_comes_first(end, reason):
    assert outcome.of_process(-9, **end).reason.startswith(reason)


def of_steps(*steps, **fields):
    nothing = (None,) * len(steps)
    names = ("step_times", "loss_values", "learning_rates", "grad_norms", "lines")
    return Run(
        steps=steps, window_steps=(1,) * len(steps), **dict.fromkeys(names, nothing), **fields
    )


@pytest.mark.parametrize(
    ("run", "succeeded", "expected"),
    [
        (Run(status="failed", status_reason="oom"), True, ("failed", "oom")),
        (of_steps(1, 2, status="complete", status_reason="cut"), True, ("complete", "cut")),
        (of_steps(1, 2), False, ("failed", "the process exited with an error")),
        (of_steps(1, 2), True, ("incomplete", "2 of max_steps=3 steps in the log")),
        (of_steps(1, 3, status_reason="time limit"), True, ("complete", "time limit")),
        (Run(), True, ("complete", None)),
    ],
)
def test_a_log_and_its_process_together(run, succeeded, expected):
    assert outcome.of_log(run, 3, succeeded=succeeded)[:2] == expected


def test_only_what_the_parent_ended_has_its_reason():
    assert outcome.why_stopped(interrupted=False, overdue=False, limit_s=3.0) is None
    assert (
        outcome.why_stopped(interrupted=False, overdue=True, limit_s=3.0)
        == "killed: ran longer than 3.0 s"
    )
    assert (
        outcome.why_stopped(interrupted=True, overdue=False, limit_s=None)
        == "interrupted by the user"
    )
