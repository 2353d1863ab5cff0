"""record(): measure a training loop of one's own.

    with benchmark_utils.record(model="mine", global_batch_size=8, sequence_length=2048) as recorder:
        for batch in data:
            ...
            optimizer.step()
            recorder.step(loss=loss)

It only watches, as the callbacks do: no step waits for the GPU, nothing is logged.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from tprimat.errors import UsageError
from tprimat.record import describe, outcome, shapes
from tprimat.record.describe import Description
from tprimat.record.lifecycle import Recording
from tprimat.record.options import Benchmark, OnStep, errors_of
from tprimat.record.ranks import Process
from tprimat.record.scalars import LOSS, NORM, StepValues, learning_rate
from tprimat.results.run import ModelConfig, Optimizer, ParallelismConfig, Run

OWN = "own"
"""What a result names as the framework of a loop that nobody has named."""

COVERS = (
    "from one call of recorder.step() to the next, all that the loop does in between, waiting for data included; "
    "the first from the start of the recording; without what lies in recorder.paused()"
)
HEADING = "own-loop"


def record(
    model: str | None = None,
    output_dir: str | Path = "./output",
    platform: str = "auto",
    *,
    module: Any = None,
    optimizer: Any = None,
    device: Any = None,
    max_steps: int | None = None,
    first_step: int = 0,
    global_batch_size: int | None = None,
    micro_batch_size: int | None = None,
    sequence_length: int | None = None,
    precision: str | None = None,
    precision_detail: str | None = None,
    model_config: Any = None,
    framework: str = OWN,
    log_every: int = 10,
    label: str | None = None,
    setup: Run | None = None,
    quiet: bool = False,
    on_step: OnStep | None = None,
) -> LoopRecorder:
    """Return a recorder for a loop: enter it with `with`, and call its step() at the end of each optimizer step.

    What is neither stated nor visible stays unknown, with the reason: without the batch and the
    sequence there are step times and no throughput in tokens; without the model's shape no FLOPs.

    Args:
        model: llama, qwen, mistral, or any name; None to take it from `module`.
        output_dir: folder of the result file.
        platform: auto, cuda, rocm or cpu; a platform other than the training's is an error.
        module: the torch module that is trained; its shape, its parameters and its device are read.
        optimizer: the torch optimizer; its settings are read, and the learning rate of each step.
        device: that the training runs on; by default that of `module`, else the current GPU where
            there is one, else the CPU.
        max_steps: optimizer steps that are requested; with fewer at the end, the run is incomplete.
        first_step: steps that were done before, where a training goes on.
        global_batch_size: sequences per optimizer step, over all devices.
        micro_batch_size: sequences per forward pass of one replica.
        sequence_length: tokens per sequence.
        precision: of the matrix products: fp32, tf32, bf16, fp16 or fp8. torch.autocast leaves no
            trace that could be read afterwards.
        precision_detail: the same in your own words.
        model_config: the model's shape, as a transformers configuration, a ModelConfig or a dict.
        framework: name of the training framework; part of the file's name.
        log_every: steps between printed lines.
        label: a name for this setup; stored, shown, and added to the file's name.
        setup: a Run without records that holds whatever else the caller knows.
        quiet: print nothing but errors.
        on_step: called on the first process with (step, steps requested, time in s, mean time after
            the first step, loss, newest reading of the memory in GB), as soon as a step's time is known.

    Raises UsageError, one line, for an argument that is wrong.
    """
    for name, value in (("framework", framework), ("precision", precision), ("precision_detail", precision_detail)):
        if value is not None and not (isinstance(value, str) and value.strip()):
            raise UsageError(f"record: {name}={value!r} is wrong: give a name", heading=HEADING)
    for name, count, least in (("max_steps", max_steps, 1), ("first_step", first_step, 0)):
        if count is not None and not (isinstance(count, int) and count >= least):
            raise UsageError(
                f"record: {name}={count!r} is wrong: give a whole number, {least} or more", heading=HEADING
            )
    known = setup or Run()
    if isinstance(known, Run) and known.framework is None:
        known = msgspec.structs.replace(known, framework=framework)
    return LoopRecorder(
        module,
        optimizer,
        device,
        max_steps,
        first_step,
        (precision, precision_detail),
        output_dir=output_dir,
        platform=platform,
        model_name=model,
        global_batch_size=global_batch_size,
        micro_batch_size=micro_batch_size,
        sequence_length=sequence_length,
        model_config=model_config,
        log_every=log_every,
        label=label,
        setup=known,
        quiet=quiet,
        on_step=on_step,
    )


class LoopRecorder(Benchmark):
    """Recorder of a custom loop; created by record()."""

    _name, _heading = "record", HEADING

    def __init__(
        self,
        module: Any,
        optimizer: Any,
        device: Any,
        max_steps: int | None,
        first_step: int,
        precision: tuple[str | None, str | None],
        **shared: Any,
    ) -> None:
        super().__init__(**shared)
        self._module = module
        self._optimizer = optimizer
        self._device = device
        self._max_steps = max_steps or self._options.known.training_config.max_steps
        self._first_step = first_step
        self._precision = precision
        self._rate: float | None = None
        self._hook: Any = None
        self._values: StepValues | None = None
        self._recording: Recording | None = None

    def __enter__(self) -> LoopRecorder:
        """Start the first step."""
        if self._recording is not None:
            raise UsageError("record: a recorder records one loop: make a new one for the next", heading=HEADING)
        with errors_of(self._name, HEADING):
            recording = Recording(
                self._options,
                current_process(self._find_device()),
                module=self._module,
                covers=self._options.known.timing.covers or COVERS,
                warnings=self._warnings,
            )
        self._recording = recording
        self._values = StepValues(recording.scalars)
        if self._optimizer is not None and hasattr(self._optimizer, "register_step_pre_hook"):
            # At a step's end a schedule may have set the next one's already.
            self._hook = self._optimizer.register_step_pre_hook(self._note_rate)
        recording.start(self._describe(recording), step=self._first_step, planned=self._max_steps)
        return self

    def step(self, loss: Any = None, *, learning_rate: float | None = None, grad_norm: Any = None) -> None:
        """Mark the end of an optimizer step.

        Args:
            loss: its loss, a tensor or a number; or a list of those of its micro-batches, of which
                the mean counts. A tensor on a GPU is read later.
            learning_rate: that it used; by default that of the `optimizer` given to record().
            grad_norm: norm of the whole gradient before clipping, a tensor or a number.
        """
        recording, values = self._recording, self._values
        if recording is None or values is None or recording.has_ended:
            raise UsageError(
                "recorder.step() outside of its `with` block: call it within `with record(…) as recorder:`",
                heading=HEADING,
            )
        losses: Sequence[Any] = loss if isinstance(loss, (list, tuple)) else [] if loss is None else [loss]
        rate = self._rate if learning_rate is None else float(learning_rate)
        self._rate = None
        kept = [values.take(LOSS, each) for each in losses]
        recording.step_end(recording.step + 1, values.of(kept, values.take(NORM, grad_norm)), rate)

    def lap(self) -> None:
        """Mark a step's first backward pass (optional): it shows which of several processes the others wait for."""
        if self._recording is not None:
            self._recording.lap()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude the block from all steps: validation, saving, sampling."""
        if self._recording is None:
            yield
            return
        self._recording.pause()
        try:
            yield
        finally:
            self._recording.resume()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the result, even after an error."""
        recording = self._recording
        if recording is None:
            return
        if self._hook is not None:
            self._hook.remove()
        if error is not None:
            recording.fail(error)
        else:
            ended = outcome.of_end(recording.step, self._max_steps, self.stop_reason, "the loop ended early")
            recording.end(ended, regular=True)
        self.result, self.path = recording.run, recording.path

    def _note_rate(self, optimizer: Any, arguments: Any, keywords: Any) -> None:
        if self._rate is None:
            self._rate = learning_rate(optimizer)

    def _find_device(self) -> Any:
        import torch

        if self._device is not None:
            return torch.device(self._device)
        parameter = next(iter(self._module.parameters()), None) if hasattr(self._module, "parameters") else None
        if parameter is not None:
            return parameter.device
        if torch.cuda.is_available() and self._options.platform != "cpu":
            return torch.device("cuda", torch.cuda.current_device())
        return torch.device("cpu")

    def _describe(self, recording: Recording) -> Description:
        known = self._options.known
        stated, detail = self._precision
        precision = stated = stated or known.training_config.precision
        sizes = self._options.sizes
        warnings = [
            f"{name} unknown: pass {name}= to record"
            for name in ("global_batch_size", "sequence_length")
            if getattr(sizes, name) is None
        ]
        if stated is None:
            warnings.append("precision of the matrix products unknown: pass precision= to record")
        elif stated == "fp32":
            precision, detail = describe.of_fp32(detail, recording.platform)
        world_size = recording.process.world_size
        alone = 1 if world_size == 1 else None
        whole, micro, accumulation = sizes.global_batch_size, sizes.micro_batch_size, None
        if alone and whole and micro and whole % micro == 0:
            accumulation = whole // micro
        module = self._module
        shape = shapes.of_module(module) if module is not None else None
        if module is not None and alone and hasattr(module, "parameters"):
            shape = shapes.with_parameters(shape, module)
        return Description(
            framework=OWN,
            model_config=shape or ModelConfig(),
            training_config=msgspec.structs.replace(
                sizes,
                max_steps=self._max_steps,
                num_gpus=world_size,
                precision=precision,
                precision_detail=detail,
                recomputation=None if module is None else describe.recomputation(module),
            ),
            parallelism_config=ParallelismConfig(
                tensor_model_parallel_size=alone,
                pipeline_model_parallel_size=alone,
                context_parallel_size=alone,
                data_parallel_size=alone,
                gradient_accumulation_steps=accumulation,
            ),
            optimizer=Optimizer() if self._optimizer is None else describe.optimizer_settings(self._optimizer),
            warnings=tuple(warnings),
        )

    def _warnings(self) -> list[str]:
        values, recording = self._values, self._recording
        if values is None or recording is None or not recording.step:
            return []
        absent = {LOSS: "recorder.step() was given no loss=", NORM: "recorder.step() was given no grad_norm="}
        return values.warnings(absent, recording.process.world_size)


def current_process(device: Any) -> Process:
    """Return this process by torch.distributed where it is set up, else by what torchrun and its like set."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return Process(dist.get_rank(), dist.get_world_size(), device=device)
    rank, world_size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if rank.isdecimal() and world_size.isdecimal():
        return Process(int(rank), max(1, int(world_size)), device=device)
    return Process(device=device)
