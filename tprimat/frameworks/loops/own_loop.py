"""Training loop for frameworks without their own: micro-batches in, optimizer steps out, the
recorder at their ends.

What a backward pass and an optimizer step are, the framework's engine knows.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any, Protocol

import torch

from tprimat.frameworks.loops import compile_and_fit, processes, recipe
from tprimat.frameworks.loops.processes import joined, this_one
from tprimat.frameworks.loops.recipe import Recipe
from tprimat.frameworks.loops.time_limit import TimeLimit
from tprimat.frameworks.request import Request
from tprimat.notes import Note
from tprimat.record import describe, loop
from tprimat.record.outcome import is_out_of_memory
from tprimat.record.progress import reporter
from tprimat.record.ranks import Process
from tprimat.record.result import COVERS
from tprimat.results.account import Timing
from tprimat.results.run import Optimizer


class Engine(Protocol):
    """A framework that is ready to train.

    Attributes:
        model: called with a micro-batch.
        module, optimizer: the trained module and torch's optimizer, for their settings.
        strategy: how the framework spreads the training, in its own words.
        precision_detail: the precisions of the parts of the computation, in words.
    """

    model: Any
    module: Any
    optimizer: Any
    strategy: str
    precision_detail: str

    def backward(self, loss: Any, *, is_last: bool) -> None:
        """Do the backward pass of a micro-batch, perhaps the last one of its step."""

    def step(self) -> Any:
        """Do the optimizer's step; return the gradient norm before clipping."""


def main(arguments: list[str], make: Callable[[Recipe, Process], Engine]) -> int:
    """Train the request that arguments state; `make` makes the engine, once the processes can talk
    to each other.
    """
    return processes.main(arguments, lambda request: _train(request, make))


def _train(request: Request, make: Callable[[Recipe, Process], Engine]) -> None:
    training = recipe.of(request)
    settings = training.settings
    process = this_one(request.platform)
    with joined(process):
        engine = make(training, process)
        setup = training.setup()
        if request.compiled:
            seconds, problem = _first_micro_batch(engine, training, process)
            if process.any_rank(problem is not None):
                # A model that failed within its forward pass is of no more use.
                del engine
                training = dataclasses.replace(
                    training, request=dataclasses.replace(request, compiled=False)
                )
                engine = make(training, process)
                problem = problem or compile_and_fit.FAILED_ELSEWHERE
            setup = compile_and_fit.with_compile_outcome(
                setup, seconds, problem, is_chunked=problem is None
            )
        recording = loop.record(
            output_dir=request.output_dir,
            module=engine.module,
            optimizer=engine.optimizer,
            device=process.device,
            max_steps=request.steps,
            precision=request.precision,
            precision_detail=engine.precision_detail,
            setup=setup.but(  # Its steps include what those of a framework do.
                timing=Timing(covers=COVERS),
                # What no framework's object shows.
                optimizer=Optimizer(
                    schedule=settings.schedule, gradient_clipping=settings.gradient_clipping
                ),
                parallelism_config=describe.undivided(
                    engine.strategy, request.num_gpus, request.gradient_accumulation_steps
                ),
            ),
            on_step=reporter(process.rank),
        )
        loader = iter(recording.watch(training.loader(process.rank)))
        with recording as recorder:
            limit = TimeLimit(
                request.steps, request.time_limit_s, process.world_size, process.any_rank
            )
            for step in range(1, request.steps + 1):
                losses = []
                for left in reversed(range(request.gradient_accumulation_steps)):
                    batch = next(loader).to(process.device, non_blocking=True)
                    loss = engine.model(input_ids=batch, labels=batch).loss
                    recorder.lap()
                    engine.backward(loss, is_last=left == 0)
                    losses.append(loss.detach())
                recorder.step(losses, grad_norm=engine.step())
                recorder.stop_reason = limit.reached(step)
                if recorder.stop_reason is not None:
                    break


def _first_micro_batch(
    engine: Engine, training: Recipe, process: Process
) -> tuple[float, Note | None]:
    """Compile by a micro-batch that changes no weights; return the seconds that it took, and why it
    failed.
    """
    started = time.perf_counter()
    problem = None
    try:
        batch = torch.as_tensor(
            recipe.MicroBatches(training, process.rank)[0], device=process.device
        )
        engine.backward(engine.model(input_ids=batch, labels=batch).loss, is_last=True)
        engine.optimizer.zero_grad()
        if process.device.type == "cuda":
            torch.cuda.synchronize(process.device)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        # Whatever else a compiler raises, eager PyTorch trains without it.
        problem = compile_and_fit.failure_of(error)
    return time.perf_counter() - started, problem
