"""record(): time a custom training loop.

    with benchmark_utils.record(model="mine", global_batch_size=8, sequence_length=2048) as
    recorder:
        for batch in data:
            ...
            optimizer.step()
            recorder.step(loss=loss)

It only watches, as the callbacks do: no step waits for the GPU, nothing is logged.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from tprimat.catalog import shapes
from tprimat.errors import UsageError
from tprimat.files import check_writable
from tprimat.notes import noted
from tprimat.record import describe, outcome
from tprimat.record.lifecycle import Recording
from tprimat.record.options import (
    Benchmark,
    SharedArguments,
    argument_missing,
    check,
    is_name,
)
from tprimat.record.ranks import Process
from tprimat.record.scalars import LOSS, NORM
from tprimat.results.run import ModelConfig, Optimizer, ParallelismConfig, Run
from tprimat.settings.rows import DIVISION

if TYPE_CHECKING:
    from typing_extensions import Unpack

OWN = "own"
"""The framework in the result of a loop without a name."""

COVERS = (
    "from one call of recorder.step() to the next, all that the loop does in between, waiting for"
    " data included; the first from the start of the recording; without what lies in"
    " recorder.paused()"
)
HEADING = "own-loop"
ABSENT = {
    LOSS: "recorder.step() was given no loss=",
    NORM: "recorder.step() was given no grad_norm=",
}


class LoopRecorder(Benchmark):
    """Recorder of a custom loop: enter it with `with`, and call its step() at the end of each
    optimizer step.

    What is neither stated nor visible stays unknown, with the reason: without the batch and the
    sequence there are step times and no throughput in tokens; without the model's shape no FLOPs.

    Args:
        model: llama, qwen, mistral, or any name; None to take it from `module`.
        output_dir: directory of the result file.
        platform: auto, cuda, rocm or cpu; a platform other than the training's is an error.
        module: the torch module that is trained; its shape, its parameters and its device are read.
        optimizer: the torch optimizer; its settings are read, and the learning rate of each step.
        device: that the training runs on; by default that of `module`, else the current GPU if
            there is one, else the CPU.
        max_steps: optimizer steps that are requested; with fewer at the end, the run is incomplete.
        first_step: steps that were done before, if a training goes on.
        precision: that of the matrix products: fp32, tf32, bf16, fp16 or fp8. torch.autocast leaves
            no trace that could be read afterwards.
        precision_detail: the same in your own words.
        framework: name of the training framework; part of the file's name.
        shared: global_batch_size, micro_batch_size, sequence_length, model_config, log_every,
            label, setup, quiet and on_step, as Benchmark takes them; and model_name, the same as
            model.

    Raises UsageError, one line, for an argument that is wrong.
    """

    _name, _heading = "record", HEADING
    _absent: Mapping[str, str] = ABSENT

    def __init__(
        self,
        model: str | None = None,
        output_dir: str | Path = "./output",
        platform: str = "auto",
        *,
        module: Any = None,
        optimizer: Any = None,
        device: Any = None,
        max_steps: int | None = None,
        first_step: int = 0,
        precision: str | None = None,
        precision_detail: str | None = None,
        framework: str = OWN,
        **shared: Unpack[SharedArguments],
    ) -> None:
        names = {
            "framework": framework,
            "precision": precision,
            "precision_detail": precision_detail,
        }
        with self._errors():
            for name, text in names.items():
                check(name, text, text is None or is_name(text), "a name")
            for name, count, least in (("max_steps", max_steps, 1), ("first_step", first_step, 0)):
                is_valid = count is None or (isinstance(count, int) and count >= least)
                check(name, count, is_valid, f"a whole number, {least} or more")
        super().__init__(output_dir, platform, model=model, **shared)
        self._module = module
        self._optimizer = optimizer
        self._device = device
        self._max_steps = max_steps or self._options.known.training_config.max_steps
        self._first_step = first_step
        self._precision = precision or self._options.known.training_config.precision
        self._precision_detail = precision_detail
        self._framework = framework
        self._hook: Any = None

    def __enter__(self) -> LoopRecorder:
        """Start the first step. Raises UsageError if the result could not be written."""
        if self._recording is not None:
            raise UsageError(
                "record: a recorder is for one loop",
                heading=HEADING,
                hint="make a new one for the next",
            )
        covers = self._options.known.timing.covers or COVERS
        process = current_process(self._find_device())
        if process.is_first:
            check_writable(self._options.output_dir, "output_dir")
        recording = self._begin(process, module=self._module, covers=covers, absent=self._absent)
        if hasattr(self._optimizer, "register_step_pre_hook"):
            # At a step's end a schedule may have set the next one's already.
            self._hook = self._optimizer.register_step_pre_hook(
                lambda *_: recording.values.note_rate(self._optimizer)
            )
        recording.start(self._shown(recording), step=self._first_step)
        return self

    def step(
        self,
        loss: Any = None,
        *,
        learning_rate: float | None = None,
        grad_norm: Any = None,
        window: int = 1,
    ) -> None:
        """Mark the end of an optimizer step.

        Args:
            loss: its loss, a tensor or a number; or a list of those of its micro-batches, of which
                the mean counts. A tensor on a GPU is read later.
            learning_rate: that it used; by default that of the `optimizer` given to record().
            grad_norm: norm of the whole gradient before clipping, a tensor or a number.
            window: steps since the last call, of which the record is the mean: for steps too many
                to record each.
        """
        recording = self._recording
        if recording is None or recording.has_ended:
            raise UsageError(
                "recorder.step() outside of its `with` block",
                heading=HEADING,
                hint="call it within `with record(…) as recorder:`",
            )
        values = recording.values
        if isinstance(loss, (list, tuple)):
            kept = [values.take(LOSS, part) for part in loss]
        elif loss is None:
            kept = []
        else:
            kept = [values.take(LOSS, loss)]
        rate = None if learning_rate is None else float(learning_rate)
        read = values.of(kept, values.take(NORM, grad_norm))
        recording.step_end(recording.step + window, read, rate)

    def lap(self) -> None:
        """Mark a step's first backward pass (optional): it shows which of several processes the
        others wait for.
        """
        self._recorder.lap()

    @property
    def recording(self) -> Recording:
        """The recording of the training; only after it has begun."""
        assert self._recording is not None
        return self._recording

    @contextlib.contextmanager
    def paused(self, kind: Literal["evaluation", "checkpoint"] | None = None) -> Iterator[None]:
        """Exclude the block from all steps: validation, saving, sampling; the account of the run
        has it by its kind.
        """
        self._recorder.pause(kind)
        try:
            yield
        finally:
            self._recorder.resume()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write the result, even after an error."""
        if self._hook is not None:
            self._hook.remove()
        recording = self._recording
        if recording and error is not None:
            recording.fail(error)
        elif recording:
            ended = outcome.of_end(
                recording.step, self._max_steps, self.stop_reason, "the loop stopped early"
            )
            recording.end(ended, regular=True)

    def _find_device(self) -> Any:
        import torch

        if self._device is not None:
            return torch.device(self._device)
        if hasattr(self._module, "parameters"):
            for parameter in self._module.parameters():
                return parameter.device
        if torch.cuda.is_available() and self._options.platform != "cpu":
            return torch.device("cuda", torch.cuda.current_device())
        return torch.device("cpu")

    def _shown(self, recording: Recording) -> Run:
        """Return the setup that the loop's objects show, and its stated values."""
        precision = self._precision
        detail = self._precision_detail
        sizes = self._options.known.training_config
        whole = sizes.global_batch_size
        micro = sizes.micro_batch_size
        missing = {"global_batch_size": whole, "sequence_length": sizes.sequence_length}
        notes = []
        for name, size in missing.items():
            if size is None:
                notes.append(argument_missing(name, name, "record"))
        if precision is None:
            notes.append(argument_missing("compute precision", "precision", "record"))
        elif precision == "fp32":
            precision, detail = describe.of_fp32(detail, recording.platform)
        alone = 1 if recording.process.world_size == 1 else None
        accumulates = whole // micro if alone and whole and micro and whole % micro == 0 else None
        shape = recomputation = None
        if self._module is not None:
            shape = shapes.of_module(self._module)
            recomputation = describe.recomputation(self._module)
        optimizer = Optimizer()
        if self._optimizer is not None:
            optimizer = describe.optimizer_settings(self._optimizer)
        if alone and hasattr(self._module, "parameters"):
            shape = shapes.with_parameters(shape, self._module)
        return Run(
            framework=self._framework,
            model_config=shape or ModelConfig(),
            training_config=sizes.but(
                max_steps=self._max_steps,
                num_gpus=recording.process.world_size,
                precision=precision,
                precision_detail=detail,
                recomputation=recomputation,
            ),
            parallelism_config=ParallelismConfig(
                **dict.fromkeys((*DIVISION, "data_parallel_size"), alone),
                gradient_accumulation_steps=accumulates,
            ),
            optimizer=optimizer,
            notes=noted(notes),
        )


record = LoopRecorder


def current_process(device: Any) -> Process:
    """Return this process by torch.distributed if it is set up, else by what torchrun and its like
    set.
    """
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return Process(dist.get_rank(), dist.get_world_size(), device=device)
    rank = os.environ.get("RANK", "")
    world_size = os.environ.get("WORLD_SIZE", "")
    if rank.isdecimal() and world_size.isdecimal():
        return Process(int(rank), max(1, int(world_size)), device=device)
    return Process(device=device)
