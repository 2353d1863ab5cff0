"""record: measures a training loop of one's own.

    with benchmark_utils.record(model="mine", global_batch_size=8, sequence_length=2048) as recorder:
        for batch in data:
            ...
            optimizer.step()
            recorder.step(loss=loss)

Like the callbacks it watches only: no step waits for the GPU, nothing is logged.
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
from tprimat.record import describe, options, outcome, result, shapes
from tprimat.record.describe import Description
from tprimat.record.scalars import LOSS, NORM, StepValues
from tprimat.record.session import MeasurementSession, Processes
from tprimat.results.run import Data, ModelConfig, Optimizer, ParallelismConfig, Run, Timing, TrainingConfig

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
    on_step: options.OnStep | None = None,
) -> LoopRecorder:
    """Measures a loop: what is made is entered with `with`, and told of the end of each optimizer step.

    What is not stated and can't be seen stays unknown, with the reason: without the batch and the
    sequence there are step times and no throughput in tokens; without the model's shape no FLOPs.

    Args:
        model: llama, qwen, mistral, or any name; None to take it from `module`.
        output_dir: folder of the result file.
        platform: auto, cuda, rocm or cpu; a platform other than the training's is an error.
        module: the torch module that is trained; its shape, its parameters and its device are read.
        optimizer: the torch optimizer; its settings are read, and the learning rate of each step.
        device: that the training runs on; by default that of `module`, else the current GPU where
            there is one, else the CPU.
        max_steps: optimizer steps that were asked for; with fewer at the end, the run is incomplete.
        first_step: steps that were done before, where a training goes on.
        global_batch_size: sequences per optimizer step, over all devices.
        micro_batch_size: sequences per forward pass of one replica.
        sequence_length: tokens per sequence.
        precision: of the matrix products: fp32, tf32, bf16, fp16 or fp8. torch.autocast leaves no
            trace that could be read afterwards.
        precision_detail: the same in words of your own.
        model_config: the model's shape, as a transformers configuration, a ModelConfig or a dict.
        framework: a name for what trains; part of the file's name.
        log_every: a line is printed every so many steps.
        label: a name for this setup; stored, shown, and added to the file's name.
        setup: a Run without records that holds whatever else the caller knows.
        quiet: print nothing but errors.
        on_step: called on the first process with (step, steps asked for, time in s, mean time after
            the first step, loss, newest reading of the memory in GB), as soon as a step's time is known.

    Raises UsageError, one line, for an argument that is wrong.
    """
    with said_by("record"):
        for name, value in (("framework", framework), ("precision", precision), ("precision_detail", precision_detail)):
            if value is not None and not (isinstance(value, str) and value.strip()):
                raise UsageError(f"BenchmarkCallback: {name}={value!r} is wrong: give a name", heading=HEADING)
        for name, count, least in (("max_steps", max_steps, 1), ("first_step", first_step, 0)):
            if count is not None and not (isinstance(count, int) and count >= least):
                raise UsageError(
                    f"BenchmarkCallback: {name}={count!r} is wrong: give a whole number, {least} or more",
                    heading=HEADING,
                )
        known = setup or Run()
        if isinstance(known, Run) and known.framework is None:
            known = msgspec.structs.replace(known, framework=framework)
        said = options.checked(
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
    covers = known.timing.covers or COVERS
    return LoopRecorder(said, module, optimizer, device, max_steps, first_step, (precision, precision_detail), covers)


class LoopRecorder:
    """Records a loop of one's own; made by record().

    Attributes:
        result: the Run, once the loop has ended.
        path: the file that it was written to; None on other processes than the first.
        stop_reason: set by a loop that ends early on purpose; the run then counts as complete.
    """

    def __init__(
        self,
        said: options.Options,
        module: Any,
        optimizer: Any,
        device: Any,
        max_steps: int | None,
        first_step: int,
        precision: tuple[str | None, str | None],
        covers: str,
    ) -> None:
        self.result: Run | None = None
        self.path: Path | None = None
        self.stop_reason: str | None = None
        self._said = said
        self._module = module
        self._optimizer = optimizer
        self._device = device
        self._max_steps = max_steps or said.known.training_config.max_steps
        self._first_step = first_step
        self._precision = precision
        self._covers = covers
        self._rate: float | None = None
        self._hook: Any = None
        self._values: StepValues | None = None
        self._watching: MeasurementSession | None = None

    def __enter__(self) -> LoopRecorder:
        """The first step starts."""
        if self._watching is not None:
            raise UsageError("record: a recorder records one loop: make a new one for the next", heading=HEADING)
        processes = processes_here()
        with said_by("record"):
            watching = MeasurementSession(
                self._said,
                self._device_here(),
                processes,
                covers=self._covers,
                doubts=self._doubts,
            )
        self._watching = watching
        self._values = StepValues(watching.scalars)
        if self._optimizer is not None and hasattr(self._optimizer, "register_step_pre_hook"):
            # At a step's end a schedule may have set the next one's already.
            self._hook = self._optimizer.register_step_pre_hook(self._note_rate)
        watching.start(
            self._describe(watching, processes), self._module, step=self._first_step, planned=self._max_steps
        )
        return self

    def step(self, loss: Any = None, *, learning_rate: float | None = None, grad_norm: Any = None) -> None:
        """An optimizer step has ended.

        Args:
            loss: its loss, a tensor or a number; or a list of those of its micro-batches, of which
                the mean counts. A tensor on a GPU is read later.
            learning_rate: that it used; by default that of the `optimizer` given to record().
            grad_norm: norm of the whole gradient before clipping, a tensor or a number.
        """
        watching, values = self._watching, self._values
        if watching is None or values is None or watching.ended:
            raise UsageError(
                "recorder.step() outside of its `with` block: call it within `with record(…) as recorder:`",
                heading=HEADING,
            )
        losses: Sequence[Any] = loss if isinstance(loss, (list, tuple)) else [] if loss is None else [loss]
        rate = self._rate if learning_rate is None else float(learning_rate)
        self._rate = None
        kept = [values.take(LOSS, each) for each in losses]
        watching.step_end(watching.step + 1, values.of(kept, values.take(NORM, grad_norm)), rate)

    def lap(self) -> None:
        """Optional, before a step's first backward pass: among several processes it shows who keeps others waiting."""
        if self._watching is not None and self._watching.processes.world_size > 1:
            self._watching.recorder.lap()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """What is done within is part of no step: validation, saving, a look at samples."""
        if self._watching is None:
            yield
            return
        self._watching.recorder.pause()
        try:
            yield
        finally:
            self._watching.recorder.resume()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Writes the result, whatever has happened."""
        watching = self._watching
        if watching is None:
            return
        if self._hook is not None:
            self._hook.remove()
        if error is not None:
            watching.end(*outcome.of_exception(error, terminated=watching.watch.seen))
        elif self._max_steps is not None and watching.step < self._max_steps and self.stop_reason is None:
            done = f"{watching.step} of max_steps={self._max_steps} steps: the loop ended early"
            watching.end("incomplete", done, patience_s=None)
        else:
            watching.end("complete", self.stop_reason, patience_s=None)
        self.result, self.path = watching.run, watching.path

    def _note_rate(self, optimizer: Any, arguments: Any, keywords: Any) -> None:
        if self._rate is None:
            rate = optimizer.param_groups[0]["lr"]
            # One that is kept on the device would have to be waited for.
            if getattr(rate, "device", None) is None or rate.device.type == "cpu":
                self._rate = float(rate)

    def _device_here(self) -> Any:
        import torch

        if self._device is not None:
            return torch.device(self._device)
        parameter = next(iter(self._module.parameters()), None) if hasattr(self._module, "parameters") else None
        if parameter is not None:
            return parameter.device
        if torch.cuda.is_available() and self._said.platform != "cpu":
            return torch.device("cuda", torch.cuda.current_device())
        return torch.device("cpu")

    def _describe(self, watching: MeasurementSession, processes: Processes) -> Description:
        known = self._said.known
        stated, detail = self._precision
        precision = stated = stated or known.training_config.precision
        sizes = self._said.sizes
        warnings = [
            f"{name} unknown: pass {name}= to record"
            for name in ("global_batch_size", "sequence_length")
            if getattr(sizes, name) is None
        ]
        if stated is None:
            warnings.append("precision of the matrix products unknown: pass precision= to record")
        elif stated == "fp32":
            precision, detail = describe.of_fp32(detail, watching.platform)
        alone = 1 if processes.world_size == 1 else None
        module = self._module
        shape = shapes.of_module(module) if module is not None else None
        if module is not None and alone and hasattr(module, "parameters"):
            count = sum(each.numel() for each in module.parameters())
            shape = msgspec.structs.replace(shape or ModelConfig(), num_parameters=count or None)
        return Description(
            framework=OWN,
            model_config=shape or ModelConfig(),
            training_config=TrainingConfig(
                max_steps=self._max_steps,
                global_batch_size=sizes.global_batch_size,
                micro_batch_size=sizes.micro_batch_size,
                sequence_length=sizes.sequence_length,
                num_gpus=processes.world_size,
                precision=precision,
                precision_detail=detail,
                recomputation=None if module is None else describe.recomputation(module),
            ),
            parallelism_config=ParallelismConfig(
                tensor_model_parallel_size=alone,
                pipeline_model_parallel_size=alone,
                context_parallel_size=alone,
                data_parallel_size=alone,
                gradient_accumulation_steps=_accumulation(sizes) if alone else None,
            ),
            optimizer=Optimizer() if self._optimizer is None else describe.optimizer_settings(self._optimizer),
            data=Data(),
            warnings=tuple(warnings),
        )

    def _doubts(self) -> list[str]:
        values, watching = self._values, self._watching
        if values is None or watching is None or not watching.step:
            return []
        said = [f"{what} unknown: {why}" for what, why in values.refused.items()]
        for what, argument in ((LOSS, "loss"), (NORM, "grad_norm")):
            if what not in values.seen and what not in values.refused:
                said.append(f"{what} unknown: recorder.step() was given no {argument}=")
        world_size = watching.processes.world_size
        if world_size > 1 and LOSS in values.seen:
            said.append(f"loss_values are those of the first of {world_size} processes, not the mean over all")
        return said


def processes_here() -> Processes:
    """By torch.distributed where it is set up, else by what torchrun and its like set."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return Processes(dist.get_rank(), dist.get_world_size())
    rank, world_size = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if rank.isdecimal() and world_size.isdecimal():
        return Processes(int(rank), max(1, int(world_size)))
    return Processes()


@contextlib.contextmanager
def said_by(name: str, heading: str = HEADING) -> Iterator[None]:
    """Has errors of the shared checks name what the user has really called."""
    try:
        yield
    except UsageError as error:
        raise UsageError(error.message.replace("BenchmarkCallback", name), heading=heading) from None


def frameworks_timing() -> Timing:
    """For loops of our own whose steps hold what those of a framework do."""
    return Timing(covers=result.COVERS)


def _accumulation(sizes: describe.Sizes) -> int | None:
    whole, micro = sizes.global_batch_size, sizes.micro_batch_size
    return whole // micro if whole and micro and whole % micro == 0 else None
