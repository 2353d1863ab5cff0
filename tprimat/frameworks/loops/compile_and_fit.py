"""What makes a GPU's training fast, before its first step: compiled layers, and the micro-batch
that fits.

All of it happens outside of the measured steps. What couldn't be done is in the result's warnings.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import time
from collections.abc import Iterator
from typing import Any

import torch

from tprimat.frameworks.loops import cross_entropy, half_linear, recipe
from tprimat.frameworks.loops.recipe import Recipe
from tprimat.notes import Note, noted
from tprimat.record.outcome import is_out_of_memory
from tprimat.record.ranks import Process
from tprimat.results.fields import COMPILE_TIME
from tprimat.results.run import Run

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}

STATES = 8
"""Bytes of AdamW's two states for a parameter, which exist from the first step on."""

SPARE = 0.03
"""Share of the GPU's memory that a micro-batch must leave free, for what the allocator can't use.
"""

COMMUNICATION_BYTES = 2e9
"""What NCCL takes, if several GPUs train."""

ELSEWHERE = Note("compiler-failed", {"why": "it failed in another process"})


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A training with its model, ready for the first step; `setup` is what its result states of
    it.
    """

    training: Recipe
    module: Any
    setup: Run

    def refresh(self, *_: object) -> None:
        """Let the next micro-batches see the weights after an optimizer step."""
        half_linear.refresh(self.module)


def prepare(training: Recipe, process: Process) -> Prepared:
    """Return the training with the largest micro-batch that fits, its layers compiled, as far as
    the request says so.

    Activations are checkpointed if not even the smallest micro-batch fits otherwise. All processes
    end up alike.
    """
    request = training.request
    module = training.weights(process.device)
    if not request.tuned:
        return Prepared(training, module, training.setup())
    if request.compiled:
        speed_up(module, HALF.get(request.precision))
    fits = False
    checkpointed = False
    seconds = None
    problem = None
    for micro, checkpointed in _candidates(training):
        training = dataclasses.replace(
            training, request=dataclasses.replace(request, micro_batch_size=micro)
        )
        if checkpointed:
            recipe.checkpoint(module)
        fits, _, _ = _attempt(module, training, process)
        if not fits:
            continue
        if request.compiled:
            compile_layers(module)
            fits, problem, seconds = _attempt(module, training, process, may_fail=True)
            if problem is not None or not fits:
                uncompile(module)
        if fits or problem is not None:
            break
    if seconds is not None and not fits and problem is None:
        problem = Note("compiled-out-of-memory")
    setup = stated(training.setup(), seconds, problem, is_chunked=request.compiled)
    if checkpointed and request.recomputation != "full":
        notes = noted((*setup.notes, Note("activations-recomputed")))
        setup = setup.but(notes=notes)
    return Prepared(training, module, setup)


def stated(setup: Run, seconds: float | None, problem: Note | None, *, is_chunked: bool) -> Run:
    """Return what a result states of a training: that it is compiled and how long that took, or why
    it is not.
    """
    is_compiled = seconds is not None and problem is None
    return setup.but(
        framework_config=setup.framework_config
        | {"torch_compile": is_compiled, "chunked_cross_entropy": is_chunked},
        native_metrics={COMPILE_TIME: round(seconds, 3)}
        if seconds is not None and problem is None
        else {},
        notes=noted([] if problem is None else [problem]),
    )


def speed_up(module: Any, half: torch.dtype | None) -> None:
    """Install what needs no compiler; `half` is the precision of the products if torch.autocast
    sets it.
    """
    if half is not None:
        half_linear.install(module, half)
    cross_entropy.install(module)


def compile_layers(module: Any) -> None:
    """Compile the layers, one for all since they are alike, and the loss; the first micro-batch
    does it.
    """
    for layer in module.model.layers:
        layer.compile(dynamic=False)
    cross_entropy.install(module, torch.compile(cross_entropy.of_chunk, dynamic=False))


def uncompile(module: Any) -> None:
    """Go back to eager layers."""
    torch._dynamo.reset()
    for layer in module.model.layers:
        layer._compiled_call_impl = None
    cross_entropy.install(module)


def failure_of(error: BaseException) -> Note:
    """Return the note on how a compiler failed."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return Note("compiler-failed", {"why": lines[0][:200]})


def _candidates(training: Recipe) -> Iterator[tuple[int, bool]]:
    """Yield (micro-batch, whether activations are checkpointed) from the fastest to the one that
    needs least memory.
    """
    share = training.request.global_batch_size // training.request.data_parallel_size
    sizes = [training.request.micro_batch_size]
    if training.request.finds_micro_batch:
        sizes = [size for size in range(share, 0, -1) if share % size == 0]
    for checkpointed in (True,) if training.request.recomputation == "full" else (False, True):
        for size in sizes:
            yield size, checkpointed


def _attempt(
    module: Any, training: Recipe, process: Process, *, may_fail: bool = False
) -> tuple[bool, Note | None, float]:
    """Try a micro-batch on every process; return whether it fits, why it failed otherwise, and the
    seconds it took.
    """
    started = time.perf_counter()
    fits = True
    problem = None
    try:
        _micro_batch(module, training, process)
    except Exception as error:
        fits = not is_out_of_memory(error)
        # Whatever else a compiler raises, eager PyTorch may train without it.
        if fits and not may_fail:
            raise
        problem = failure_of(error) if fits else None
    seconds = time.perf_counter() - started
    # Only here is nothing of a failed attempt in use any more.
    module.zero_grad(set_to_none=True)
    gc.collect()
    if process.device.type == "cuda":
        torch.cuda.empty_cache()
    fits = not process.agree(not fits)
    failed = process.agree(problem is not None)
    return fits, problem or (ELSEWHERE if failed else None), seconds


def _micro_batch(module: Any, training: Recipe, process: Process) -> None:
    """Compute a micro-batch as the training does, beside all that will be in memory then."""
    device = process.device
    request = training.request
    held = []
    for parameter in module.parameters():
        parameter.grad = torch.zeros_like(parameter)
        held.append(torch.empty(STATES * parameter.numel(), dtype=torch.uint8, device=device))
    if device.type == "cuda":
        spare = SPARE * torch.cuda.get_device_properties(device).total_memory
        spare += COMMUNICATION_BYTES if process.world_size > 1 else 0
        held.append(torch.empty(int(spare), dtype=torch.uint8, device=device))
    tokens = torch.zeros(
        (request.micro_batch_size, request.sequence_length), dtype=torch.long, device=device
    )
    half = HALF.get(request.precision)
    context = torch.autocast(device.type, half) if half is not None else contextlib.nullcontext()
    with context:
        loss = module(input_ids=tokens, labels=tokens).loss
    loss.backward()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
