"""How a training ended, in the words of a result's status."""

from __future__ import annotations

from typing import Any

from tprimat.results.run import Status

LONGEST_REASON = 400

OUT_OF_MEMORY = "out of memory"
"""How the reason begins of a training that failed for want of memory."""


def of_end(trainer: Any) -> tuple[Status, str | None]:
    """Of a training whose loop came to its end by itself: complete, unless it was cut short."""
    done, asked = trainer.global_step, trainer.max_steps
    epochs = trainer.max_epochs
    if asked is None or asked < 1 or done >= asked:
        if trainer.should_stop and not _all_epochs(trainer):
            bound = f" of {epochs} epochs" if epochs and epochs > 0 else ""
            return "incomplete", f"the training stopped itself after {done} steps, before the end{bound}"
        return "complete", None
    if _all_epochs(trainer):
        return "complete", f"{done} of max_steps={asked} steps: max_epochs={epochs} was reached first"
    why = "the training stopped itself" if trainer.should_stop else "the training's loop ended early"
    return "incomplete", f"{done} of max_steps={asked} steps: {why}"


def of_exception(exception: BaseException, *, terminated: bool) -> tuple[Status, str]:
    """Of a training that an exception ended.

    Args:
        exception: what was raised.
        terminated: whether SIGTERM was received before.
    """
    name = type(exception).__name__
    if isinstance(exception, KeyboardInterrupt):
        return "incomplete", "interrupted (Ctrl-C)"
    if terminated or name == "SIGTERMException":
        return "incomplete", "terminated (SIGTERM)"
    first = next((line.strip() for line in str(exception).splitlines() if line.strip()), "")
    said = f"{name}: {first}"[:LONGEST_REASON] if first else name
    if isinstance(exception, (SystemExit, GeneratorExit)):
        return "incomplete", f"the program ended itself: {said}"
    if _out_of_memory(exception, name, first):
        return "failed", f"{OUT_OF_MEMORY}: {said}"
    return "failed", said


def _all_epochs(trainer: Any) -> bool:
    return bool(trainer.max_epochs and 0 < trainer.max_epochs <= trainer.current_epoch)


def _out_of_memory(exception: BaseException, name: str, first: str) -> bool:
    # torch names the GPU's; of the CPU's allocator it says only this in a RuntimeError.
    return isinstance(exception, MemoryError) or name == "OutOfMemoryError" or "can't allocate memory" in first
