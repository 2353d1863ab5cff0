"""Prepare a fast training on a GPU, before its first step: compiled layers, and the largest
micro-batch that fits.

All of it happens outside of the measured steps. The result's warnings state what couldn't be done.
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

HALF_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}

ADAMW_STATE_BYTES = 8
"""Bytes of AdamW's two states per parameter, which exist from the first step on."""

SPARE_SHARE = 0.03
"""Share of the GPU's memory that a micro-batch must leave free: the allocator can't use all of it.
"""

COMMUNICATION_BYTES = 2e9
"""Memory that NCCL takes on each GPU, if several train."""

FAILED_ELSEWHERE = Note("compiler-failed", {"why": "it failed in another process"})


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A training with its model, ready for the first step; `setup` has the values of its result
    that are known by then.
    """

    training: Recipe
    module: Any
    setup: Run

    def refresh(self, *_: object) -> None:
        """Let the next micro-batches see the weights after an optimizer step."""
        half_linear.refresh(self.module)


def prepare(training: Recipe, process: Process) -> Prepared:
    """Return the training with the largest micro-batch that fits and with its layers compiled, as
    far as they are requested.

    Activations are checkpointed only if the smallest micro-batch doesn't fit without that. All
    processes make the same choices.
    """
    request = training.request
    module = training.weights(process.device)
    if not request.tuned:
        return Prepared(training, module, training.setup())
    if request.compiled:
        install_eager_kernels(module, HALF_DTYPES.get(request.precision))
    fits = False
    checkpointed = False
    seconds = None
    compile_failure = None
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
            fits, compile_failure, seconds = _attempt(module, training, process, may_fail=True)
            if compile_failure is not None or not fits:
                uncompile(module)
        if fits or compile_failure is not None:
            break
    # Every micro-batch that fits eagerly ran out of memory once compiled.
    if seconds is not None and not fits and compile_failure is None:
        compile_failure = Note("compiled-out-of-memory")
    setup = with_compile_outcome(
        training.setup(), seconds, compile_failure, is_chunked=request.compiled
    )
    if checkpointed and request.recomputation != "full":
        setup = setup.but(notes=noted((*setup.notes, Note("activations-recomputed"))))
    return Prepared(training, module, setup)


def with_compile_outcome(
    setup: Run, seconds: float | None, compile_failure: Note | None, *, is_chunked: bool
) -> Run:
    """Return the setup with whether the layers are compiled, and the compile time, or why not.

    `seconds` is None if the layers were not to be compiled or no micro-batch fitted.
    """
    native_metrics = {}
    if seconds is not None and compile_failure is None:
        native_metrics[COMPILE_TIME] = round(seconds, 3)
    return setup.but(
        framework_config=setup.framework_config
        | {"torch_compile": bool(native_metrics), "chunked_cross_entropy": is_chunked},
        native_metrics=native_metrics,
        notes=noted([] if compile_failure is None else [compile_failure]),
    )


def install_eager_kernels(module: Any, half: torch.dtype | None) -> None:
    """Install the optimizations that need no compiler. `half` is the dtype of matrix
    multiplications under torch.autocast, None without it.
    """
    if half is not None:
        half_linear.install(module, half)
    cross_entropy.install(module)


def compile_layers(module: Any) -> None:
    """Set the layers and the loss to be compiled by the first micro-batch. The layers are alike, so
    torch compiles one and reuses it.
    """
    for layer in module.model.layers:
        layer.compile(dynamic=False)
    cross_entropy.install(module, torch.compile(cross_entropy.of_chunk, dynamic=False))


def uncompile(module: Any) -> None:
    """Make the layers and the loss eager again."""
    torch._dynamo.reset()
    for layer in module.model.layers:
        layer._compiled_call_impl = None
    cross_entropy.install(module)


def failure_of(error: BaseException) -> Note:
    """Return the note on how a compiler failed."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return Note("compiler-failed", {"why": lines[0][:200]})


def _candidates(training: Recipe) -> Iterator[tuple[int, bool]]:
    """Yield (micro-batch, whether activations are checkpointed) from the fastest pair to the one
    that needs the least memory.
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
    """Try a micro-batch on every process; return whether it fits, why it failed for another reason
    (None if it didn't), and the seconds it took.
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
    # Not in the except block: there the traceback still holds the tensors of the attempt.
    module.zero_grad(set_to_none=True)
    gc.collect()
    if process.device.type == "cuda":
        torch.cuda.empty_cache()
    fits = not process.any_rank(not fits)
    failed = process.any_rank(problem is not None)
    return fits, problem or (FAILED_ELSEWHERE if failed else None), seconds


def _micro_batch(module: Any, training: Recipe, process: Process) -> None:
    """Compute a micro-batch with everything allocated that the training will have in memory:
    gradients, optimizer states, reserves.
    """
    device = process.device
    request = training.request
    held = []
    for parameter in module.parameters():
        parameter.grad = torch.zeros_like(parameter)
        held.append(
            torch.empty(ADAMW_STATE_BYTES * parameter.numel(), dtype=torch.uint8, device=device)
        )
    if device.type == "cuda":
        spare = SPARE_SHARE * torch.cuda.get_device_properties(device).total_memory
        spare += COMMUNICATION_BYTES if process.world_size > 1 else 0
        held.append(torch.empty(int(spare), dtype=torch.uint8, device=device))
    tokens = torch.zeros(
        (request.micro_batch_size, request.sequence_length), dtype=torch.long, device=device
    )
    half = HALF_DTYPES.get(request.precision)
    context = torch.autocast(device.type, half) if half is not None else contextlib.nullcontext()
    with context:
        loss = module(input_ids=tokens, labels=tokens).loss
    loss.backward()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
