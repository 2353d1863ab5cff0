"""The loop of the frameworks that bring none: micro-batches in, optimizer steps out, the recorder at their ends.

What a step is, the framework's engine knows.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tprimat.errors import TensorPrimatError
from tprimat.frameworks.loops import recipe
from tprimat.frameworks.loops.processes import Process, joined, this_one
from tprimat.frameworks.loops.progress_reporter import ProgressReporter
from tprimat.frameworks.loops.recipe import Recipe
from tprimat.frameworks.loops.time_limit import TimeLimit
from tprimat.frameworks.request import Request
from tprimat.record import loop, progress
from tprimat.record.result import COVERS
from tprimat.results.run import Timing

if TYPE_CHECKING:
    import torch


class Engine(Protocol):
    """A framework that is ready to train.

    Attributes:
        module: what is trained.
        optimizer: torch's optimizer, for its settings.
        strategy: how the framework spreads the training, in its own words.
        precision_detail: what is computed in what precision; None where all is fp32.
    """

    module: Any
    optimizer: Any
    strategy: str
    precision_detail: str | None

    def step(
        self, micro_batches: Iterator[torch.Tensor], before_backward: Callable[[], None]
    ) -> tuple[Sequence[Any], Any]:
        """One optimizer step: the losses of its micro-batches, and the gradient norm before clipping."""


def main(arguments: list[str], make: Callable[[Recipe, Process], Engine]) -> int:
    """Trains as asked; the exit status of the process.

    Args:
        arguments: a Request's.
        make: the engine, once the processes can talk to each other.
    """
    try:
        train(Request.from_arguments(arguments), make)
    except TensorPrimatError as error:
        print(error.line(), file=sys.stderr)
        return error.status
    except (RuntimeError, MemoryError):
        # The whole of it belongs into the log; the result says it in a line.
        traceback.print_exc()
        return 1
    return 0


def train(request: Request, make: Callable[[Recipe, Process], Engine]) -> None:
    """Trains, with the recorder watching, and writes the result to the request's folder."""
    made = recipe.of(request)
    process = this_one(request.platform)
    with joined(process):
        _train(made, process, make(made, process))


def _train(made: Recipe, process: Process, engine: Engine) -> None:
    import msgspec

    request = made.request
    # Its steps include what those of a framework do.
    setup = msgspec.structs.replace(made.setup_of_loop(engine.strategy), timing=Timing(covers=COVERS))
    micro_batches = _on(iter(made.loader(process.rank)), process)
    recording = loop.record(
        output_dir=request.output_dir,
        module=engine.module,
        optimizer=engine.optimizer,
        device=process.device,
        max_steps=request.steps,
        precision=request.precision,
        precision_detail=engine.precision_detail,
        setup=setup,
        on_step=ProgressReporter() if process.rank == 0 and progress.is_enabled() else None,
    )
    with recording as recorder:
        limit = TimeLimit(request.steps, request.time_limit_s, process.world_size, process.agree)
        for step in range(1, request.steps + 1):
            losses, norm = engine.step(micro_batches, recorder.lap)
            recorder.step(losses, grad_norm=norm)
            recorder.stop_reason = limit.reached(step)
            if recorder.stop_reason is not None:
                break


def _on(micro_batches: Iterator[torch.Tensor], process: Process) -> Iterator[torch.Tensor]:
    """The same on the training's device."""
    for micro_batch in micro_batches:
        yield micro_batch.to(process.device, non_blocking=True)
