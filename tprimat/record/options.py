"""What record() and the callbacks share: their arguments, validated before training costs anything,
and results.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict

from tprimat.catalog import shapes
from tprimat.errors import UsageError
from tprimat.notes import Note
from tprimat.record.clocks import HostClock
from tprimat.record.lifecycle import OnStep, Options, Recording
from tprimat.record.ranks import Process
from tprimat.record.recorder import Recorder
from tprimat.results.fields import FieldValues
from tprimat.results.run import PLATFORMS, ModelConfig, Platform, Run, TrainingConfig

CHOICES: dict[str, Platform | None] = {"auto": None, **PLATFORMS}


class SharedArguments(TypedDict, total=False):
    """Arguments of Benchmark that record() passes on as they are."""

    model_name: str | None
    global_batch_size: int | None
    micro_batch_size: int | None
    sequence_length: int | None
    model_config: Any
    log_every: int | None
    label: str | None
    setup: Run | None
    quiet: bool
    on_step: OnStep | None


class Benchmark:
    """Base of the frameworks' callbacks and of record(): their arguments, and what they leave.

    What is stated here overrides `setup`, and both override the trainer's configuration. Sizes that
    aren't stated stay unknown: then there are step times, and no throughput in tokens.

    Args:
        output_dir: directory of the result file.
        platform: auto, cuda, rocm or cpu; a platform other than the training's is an error.
        model_name: llama, qwen, mistral, or any name; None to take it from the model itself.
        model: the same as model_name.
        global_batch_size: sequences per optimizer step, over all devices.
        micro_batch_size: sequences per forward pass of one replica.
        sequence_length: tokens per sequence.
        model_config: the model's shape, as a transformers configuration, a ModelConfig or a
            dict.
        log_every: number of steps between printed lines, and between readings of the memory if
            these take time; None for no lines, and ten steps between readings.
        label: a name for this setup; stored, shown, and added to the file's name.
        setup: a Run without records that holds whatever else the caller knows.
        quiet: print nothing but errors.
        on_step: called on the first process with (step, steps requested, time in s, mean time
            after the first step, loss, newest reading of the memory in GB), as soon as a step's
            time is known.

    Attributes:
        stop_reason: set by code that ends the training early on purpose, such as a time limit; the
            run then counts as complete, with this reason.

    Raises UsageError, one line, for an argument that is wrong.
    """

    _name, _heading = "BenchmarkCallback", "benchmark-callback"
    _recording: Recording | None = None
    _recorder = Recorder(HostClock())
    """That of the recording; one that takes no steps before there is any."""

    def __init__(
        self,
        output_dir: str | Path = "./output",
        platform: str = "auto",
        model_name: str | None = None,
        *,
        model: str | None = None,
        global_batch_size: int | None = None,
        micro_batch_size: int | None = None,
        sequence_length: int | None = None,
        model_config: Any = None,
        log_every: int | None = None,
        label: str | None = None,
        setup: Run | None = None,
        quiet: bool = False,
        on_step: OnStep | None = None,
    ) -> None:
        super().__init__()
        names = {"model_name": model_name, "model": model, "label": label}
        sizes: FieldValues = {
            "global_batch_size": global_batch_size,
            "micro_batch_size": micro_batch_size,
            "sequence_length": sequence_length,
        }
        with self._errors():
            check("output_dir", output_dir, _is_folder(output_dir), "a directory")
            is_platform = str(platform).lower() in CHOICES
            check("platform", platform, is_platform, f"one of {', '.join(CHOICES)}")
            for name, text in names.items():
                check(name, text, text is None or is_name(text), "a name, or None")
            is_one = None in (model, model_name) or model == model_name
            check("model", model, is_one, f"only one of model= and model_name={model_name!r}")
            for name, count in {**sizes, "log_every": log_every}.items():
                is_valid = count is None or is_count(count)
                check(name, count, is_valid, "a whole number above zero, or None")
            check("quiet", quiet, isinstance(quiet, bool), "True or False")
            check("on_step", on_step, on_step is None or callable(on_step), "a callable")
            whole, micro = global_batch_size, micro_batch_size
            fits = not (whole and micro and whole % micro)
            check("global_batch_size", whole, fits, f"a multiple of micro_batch_size={micro}")
            stated = Run() if setup is None else setup
            is_setup = isinstance(stated, Run) and not stated.steps
            check(
                "setup", type(setup).__name__, is_setup, "a tprimat.results.run.Run without records"
            )
            shape = ModelConfig() if model_config is None else shapes.model_config_of(model_config)
        stated = stated.but(
            model=model_name or model or stated.model,
            label=label or stated.label,
            model_config=shape.over(stated.model_config),
            training_config=TrainingConfig(**sizes).over(stated.training_config),
        )
        self._options = Options(
            Path(output_dir), CHOICES[platform.lower()], stated, log_every, quiet, on_step
        )
        self.stop_reason: str | None = None

    @property
    def result(self) -> Run | None:
        """The Run, once the training has ended."""
        if self._recording:
            return self._recording.run
        return None

    @property
    def path(self) -> Path | None:
        """The file that it was written to; None on other processes than the first."""
        if self._recording:
            return self._recording.path
        return None

    def notes(self) -> Sequence[Note]:
        """Return notes on the run beyond those of its recording."""
        return ()

    def completed(self, run: Run) -> Run:
        """Return the run with the values that a subclass adds; called before each writing."""
        return run

    def watch(self, loader: Any) -> Any:
        """Have a loader's iterators mark how long the training waits for each batch; return the
        loader.
        """
        kind = type(loader)
        loader.__class__ = type(
            kind.__name__, (kind,), {"__iter__": lambda each: self._drawn(kind.__iter__(each))}
        )
        return loader

    def _drawn(self, batches: Iterator[Any]) -> Iterator[Any]:
        while True:
            self._recorder.ask_for_data()
            try:
                batch = next(batches)
            except StopIteration:
                return
            self._recorder.take_data()
            yield batch

    def _begin(self, process: Process, **adapter: Any) -> Recording:
        """Begin the recording of a training, and forget an earlier one; see Recording for the
        adapter's part.
        """
        self._recording = None
        with self._errors():
            recording = Recording(
                self._options, process, notes=self.notes, complete=self.completed, **adapter
            )
        self._recording = recording
        self._recorder = recording.recorder
        return recording

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Rename shared checks' errors after the function that the user called."""
        try:
            yield
        except UsageError as error:
            problem = error.problem.replace("BenchmarkCallback", self._name)
            raise UsageError(problem, heading=self._heading, hint=error.hint) from None


def argument_missing(what: str, argument: str, caller: str, why: str = "") -> Note:
    """Return the note on a value that isn't stated and that an argument of `caller` would set."""
    return Note(
        "argument-missing", {"what": what, "why": why, "argument": argument, "caller": caller}
    )


def check(name: str, value: Any, is_valid: bool, expected: str) -> None:
    """Raise UsageError if an argument's value is not valid."""
    if not is_valid:
        problem = f"BenchmarkCallback: {name}={value!r} is invalid"
        raise UsageError(problem, heading="benchmark-callback", hint=f"give {expected}")


def _is_folder(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike)) and bool(os.fspath(value))


def is_name(value: Any) -> bool:
    """Return whether a value can name something."""
    return isinstance(value, str) and bool(value.strip())


def is_count(value: Any) -> bool:
    """Return whether a value is a whole number above zero."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
