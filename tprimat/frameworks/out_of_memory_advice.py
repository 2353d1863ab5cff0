"""Advice after a training ran out of memory. Knows no framework."""

from __future__ import annotations

from tprimat.frameworks import scales
from tprimat.frameworks.loops.recipe import shape_of
from tprimat.frameworks.request import Request
from tprimat.record.outcome import OUT_OF_MEMORY


def advised(reason: str, request: Request) -> str:
    """Return the reason for which a training failed, with what to try next where it was memory."""
    if reason.startswith(OUT_OF_MEMORY):
        return f"{reason.rstrip('. ')}: try {advice(request)}"
    return reason


def advice(request: Request) -> str:
    """Return the next options to try: less at once, then a divided model, then a smaller one."""
    options = []
    if request.micro_batch_size > 1 and not request.finds_micro_batch:
        size = request.micro_batch_size
        options.append(
            f"{request.BATCH_OPTION} {max(divisor for divisor in range(1, size) if size % divisor == 0)}"
        )
    divided = 2 * request.tensor_model_parallel_size
    if request.framework in ("megatron_bridge", "nemo") and request.data_parallel_size % 2 == 0:
        heads = shape_of(request).num_query_groups
        if heads and heads % divided == 0:
            options.append(f"--tensor-model-parallel-size {divided}")
    names = [scale.name for scale in scales.SCALES]
    if request.scale in names and request.scale != names[0] and request.framework != "primus":
        options.append(f"--scale {names[names.index(request.scale) - 1]}")
    options.append(f"{request.LENGTH_OPTION} {request.sequence_length // 2}")
    return " or ".join(options[:2])
