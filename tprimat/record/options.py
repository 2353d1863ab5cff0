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
from tprimat.results.run import ModelConfig, Platform, Run, TrainingConfig

PLATFORMS: dict[str, Platform | None] = {"auto": None, "cuda": "nvd", "rocm": "amd", "cpu": "cpu"}

OnStep = Callable[[int, "int | None", "float | None", "float | None", "float | None", "float | None"], None]
"""Called with (step, steps requested, its time, mean time after the first step, loss, memory); in s and GB."""


class Options(msgspec.Struct, frozen=True):
    """Arguments of record() or a callback.

    Attributes:
        platform: None for the one that the training runs on.
        sizes: batches and sequence alone, which override the training's; None where not given.
        known: the caller's setup, or an empty Run.
    """

    output_dir: Path
    platform: Platform | None = None
    model_name: str | None = None
    sizes: TrainingConfig = TrainingConfig()
    model_config: ModelConfig = ModelConfig()
    log_every: int = 10
    label: str | None = None
    known: Run = Run()
    quiet: bool = False
    on_step: OnStep | None = None


class Benchmark:
    """Base of the frameworks' callbacks and of record(): their arguments, and what they leave.

    Attributes:
        result: the Run, once the training has ended.
        path: the file that it was written to; None on other processes than the first.
        stop_reason: set by whoever ends the training early on purpose, such as a time limit; the
            run then counts as complete, with this reason.
    """

    _name, _heading = "BenchmarkCallback", "benchmark-callback"

    def __init__(
        self,
        output_dir: str | Path = "./output",
        platform: str = "auto",
        model_name: str | None = None,
        *,
        global_batch_size: int | None = None,
        micro_batch_size: int | None = None,
        sequence_length: int | None = None,
        model_config: Any = None,
        log_every: int = 10,
        label: str | None = None,
        setup: Run | None = None,
        quiet: bool = False,
        on_step: OnStep | None = None,
    ) -> None:
        """Take the arguments of a measurement.

        What is stated here overrides `setup`, and both override the trainer's configuration. Sizes
        that nobody states stay unknown: then there are step times, and no throughput in tokens.

        Args:
            output_dir: folder of the result file.
            platform: auto, cuda, rocm or cpu; a platform other than the training's is an error.
            model_name: llama, qwen, mistral, or any name; None to take it from the model itself.
            global_batch_size: sequences per optimizer step, over all devices.
            micro_batch_size: sequences per forward pass of one replica.
            sequence_length: tokens per sequence.
            model_config: the model's shape, as a transformers configuration, a ModelConfig or a dict.
            log_every: a line is printed every so many steps, and memory is read that often where
                reading it costs.
            label: a name for this setup; stored, shown, and added to the file's name.
            setup: a Run without records that holds whatever else the caller knows.
            quiet: print nothing but errors.
            on_step: called on the first process with (step, steps requested, time in s, mean time after
                the first step, loss, newest reading of the memory in GB), as soon as a step's time is known.

        Raises UsageError, one line, for an argument that is wrong.
        """
        super().__init__()
        with errors_of(self._name, self._heading):
            self._options = checked(
                output_dir=output_dir,
                platform=platform,
                model_name=model_name,
                global_batch_size=global_batch_size,
                micro_batch_size=micro_batch_size,
                sequence_length=sequence_length,
                model_config=model_config,
                log_every=log_every,
                label=label,
                setup=setup,
                quiet=quiet,
                on_step=on_step,
            )
        self.result: Run | None = None
        self.path: Path | None = None
        self.stop_reason: str | None = None


def checked(**given: Any) -> Options:
    """Return the validated arguments of Benchmark, each of which is given.

    Raises UsageError, one line, for the first that is wrong.
    """
    for name, is_valid, expected in _RULES:
        if not is_valid(given[name]):
            raise _wrong(name, given[name], expected)
    whole, micro, setup = given["global_batch_size"], given["micro_batch_size"], given["setup"]
    if whole and micro and whole % micro:
        raise _wrong("global_batch_size", whole, f"a multiple of micro_batch_size={micro}")
    if setup is not None and not (isinstance(setup, Run) and not setup.steps):
        raise _wrong("setup", type(setup).__name__, "a tprimat.results.run.Run without records")
    known, shape = setup or Run(), given["model_config"]
    return Options(
        output_dir=Path(given["output_dir"]),
        platform=PLATFORMS[given["platform"].lower()],
        sizes=TrainingConfig(**{name: given[name] or getattr(known.training_config, name) for name in SIZES}),
        model_config=ModelConfig() if shape is None else shapes.model_config_of(shape),
        known=known,
        **{name: given[name] for name in ("model_name", "log_every", "label", "quiet", "on_step")},
    )


@contextlib.contextmanager
def errors_of(caller: str, heading: str) -> Iterator[None]:
    """Rename shared checks' errors after the function that the user called."""
    try:
        yield
    except UsageError as error:
        problem = error.problem.replace("BenchmarkCallback", caller)
        raise UsageError(problem, heading=heading, hint=error.hint) from None


def _is_folder(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike)) and bool(os.fspath(value))


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _wrong(name: str, value: Any, expected: str) -> UsageError:
    return UsageError(
        f"BenchmarkCallback: {name}={value!r} is wrong: give {expected}",
        heading="benchmark-callback",
    )


SIZES = ("global_batch_size", "micro_batch_size", "sequence_length")
_RULES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("output_dir", _is_folder, "a folder"),
    ("platform", lambda value: isinstance(value, str) and value.lower() in PLATFORMS, f"one of {', '.join(PLATFORMS)}"),
    *(
        (name, lambda value: value is None or _is_name(value), "a name, or left out")
        for name in ("model_name", "label")
    ),
    *(
        (name, lambda value: value is None or _is_count(value), "a whole number above zero, or left out")
        for name in SIZES
    ),
    ("log_every", _is_count, "a whole number above zero"),
    ("quiet", lambda value: isinstance(value, bool), "True or False"),
    ("on_step", lambda value: value is None or callable(value), "something that can be called"),
)
"""Arguments, what each may be, and how to say so."""
