"""The loop of the frameworks that bring none: micro-batches in, optimizer steps out, the recorder at their ends.

What a step is, the framework's engine knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tprimat.frameworks.loops import processes, recipe
from tprimat.frameworks.loops.processes import Process, joined, this_one
from tprimat.frameworks.loops.recipe import Recipe
from tprimat.frameworks.loops.time_limit import TimeLimit
from tprimat.frameworks.request import Request
from tprimat.record import loop
from tprimat.record.progress import reporter
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
        """Do one optimizer step; return the losses of its micro-batches, and the gradient norm before clipping."""


def main(arguments: list[str], make: Callable[[Recipe, Process], Engine]) -> int:
    """Train a request; return the exit status of the process.

    Args:
        arguments: a Request's.
        make: makes the engine, once the processes can talk to each other.
    """
    return processes.main(arguments, lambda request: train(request, make))


def train(request: Request, make: Callable[[Recipe, Process], Engine]) -> None:
    """Train, with the recorder watching, and write the result to the request's folder."""
    training = recipe.of(request)
    process = this_one(request.platform)
    with joined(process):
        _train(training, process, make(training, process))


def _train(training: Recipe, process: Process, engine: Engine) -> None:
    import msgspec

    request = training.request
    # Its steps include what those of a framework do.
    setup = msgspec.structs.replace(training.setup_of_loop(engine.strategy), timing=Timing(covers=COVERS))
    micro_batches = (micro_batch.to(process.device, non_blocking=True) for micro_batch in training.loader(process.rank))
    recording = loop.record(
        output_dir=request.output_dir,
        module=engine.module,
        optimizer=engine.optimizer,
        device=process.device,
        max_steps=request.steps,
        precision=request.precision,
        precision_detail=engine.precision_detail,
        setup=setup,
        on_step=reporter(process.rank),
    )
    with recording as recorder:
        limit = TimeLimit(request.steps, request.time_limit_s, process.world_size, process.agree)
        for step in range(1, request.steps + 1):
            losses, norm = engine.step(micro_batches, recorder.lap)
            recorder.step(losses, grad_norm=norm)
            recorder.stop_reason = limit.reached(step)
            if recorder.stop_reason is not None:
                break
