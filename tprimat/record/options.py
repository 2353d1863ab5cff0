"""The arguments of record() and the callbacks, validated on construction, before training costs anything."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from tprimat.errors import UsageError
from tprimat.record import shapes
from tprimat.record.describe import Sizes
from tprimat.results.run import ModelConfig, Platform, Run

PLATFORMS: dict[str, Platform | None] = {"auto": None, "cuda": "nvd", "rocm": "amd", "cpu": "cpu"}

OnStep = Callable[[int, "int | None", "float | None", "float | None", "float | None", "float | None"], None]
"""Called with (step, steps requested, its time, mean time after the first step, loss, memory); in s and GB."""


class Options(msgspec.Struct, frozen=True):
    """Arguments of record() or a callback.

    Attributes:
        platform: None for the one that the training runs on.
        known: the caller's setup, or an empty Run.
    """

    output_dir: Path
    platform: Platform | None = None
    model_name: str | None = None
    sizes: Sizes = Sizes()
    model_config: ModelConfig = ModelConfig()
    log_every: int = 10
    label: str | None = None
    known: Run = Run()
    quiet: bool = False
    on_step: OnStep | None = None


def checked(
    *,
    output_dir: Any,
    platform: Any,
    model_name: Any,
    global_batch_size: Any,
    micro_batch_size: Any,
    sequence_length: Any,
    model_config: Any,
    log_every: Any,
    label: Any,
    setup: Any,
    quiet: Any,
    on_step: Any,
) -> Options:
    """Return the validated arguments.

    Raises UsageError, one line, for the first that is wrong.
    """
    if not isinstance(output_dir, (str, os.PathLike)) or not os.fspath(output_dir):
        raise _wrong("output_dir", output_dir, "a folder")
    if not isinstance(platform, str) or platform.lower() not in PLATFORMS:
        raise _wrong("platform", platform, f"one of {', '.join(PLATFORMS)}")
    for name, value in (("model_name", model_name), ("label", label)):
        if value is not None and not (isinstance(value, str) and value.strip()):
            raise _wrong(name, value, "a name, or left out")
    sizes = {
        "global_batch_size": global_batch_size,
        "micro_batch_size": micro_batch_size,
        "sequence_length": sequence_length,
    }
    for name, value in sizes.items():
        if value is not None and not _is_count(value):
            raise _wrong(name, value, "a whole number above zero, or left out")
    if global_batch_size and micro_batch_size and global_batch_size % micro_batch_size:
        raise _wrong("global_batch_size", global_batch_size, f"a multiple of micro_batch_size={micro_batch_size}")
    if not _is_count(log_every):
        raise _wrong("log_every", log_every, "a whole number above zero")
    if setup is not None and not (isinstance(setup, Run) and not setup.steps):
        raise _wrong("setup", type(setup).__name__, "a tprimat.results.run.Run without records")
    if not isinstance(quiet, bool):
        raise _wrong("quiet", quiet, "True or False")
    if on_step is not None and not callable(on_step):
        raise _wrong("on_step", on_step, "something that can be called")
    known = setup or Run()
    stated = known.training_config
    return Options(
        output_dir=Path(output_dir),
        platform=PLATFORMS[platform.lower()],
        model_name=model_name,
        sizes=Sizes(
            global_batch_size or stated.global_batch_size,
            micro_batch_size or stated.micro_batch_size,
            sequence_length or stated.sequence_length,
        ),
        model_config=ModelConfig() if model_config is None else shapes.model_config_of(model_config),
        log_every=log_every,
        label=label,
        known=known,
        quiet=quiet,
        on_step=on_step,
    )


@contextlib.contextmanager
def errors_of(caller: str, heading: str) -> Iterator[None]:
    """Rename shared checks' errors after the function that the user called."""
    try:
        yield
    except UsageError as error:
        problem = error.problem.replace("BenchmarkCallback", caller)
        raise UsageError(problem, heading=heading, hint=error.hint) from None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _wrong(name: str, value: Any, expected: str) -> UsageError:
    return UsageError(
        f"BenchmarkCallback: {name}={value!r} is wrong: give {expected}",
        heading="benchmark-callback",
    )
