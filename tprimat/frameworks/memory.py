"""What to try next where a training ran out of memory. Knows no framework."""

from __future__ import annotations

from tprimat.catalog import models
from tprimat.frameworks import scales
from tprimat.frameworks.request import Request
from tprimat.record.outcome import OUT_OF_MEMORY
from tprimat.results.run import ModelConfig


def advised(reason: str, request: Request) -> str:
    """The reason for which a training failed, with what to try next where it was memory."""
    return f"{reason.rstrip('. ')}: try {advice(request)}" if reason.startswith(OUT_OF_MEMORY) else reason


def advice(request: Request) -> str:
    """The next thing to try: less at once, then a divided model, then a smaller one."""
    tried = []
    if request.micro_batch_size > 1:
        tried.append(f"--micro-batch-size {_smaller_divisor(request.micro_batch_size)}")
    divided = 2 * request.tensor_model_parallel_size
    shape = request.shape or _shape(request)
    heads = shape.num_query_groups if shape is not None else None
    if request.framework == "nemo" and heads and heads % divided == 0 and request.data_parallel_size % 2 == 0:
        tried.append(f"--tensor-model-parallel-size {divided}")
    names = [scale.name for scale in scales.SCALES]
    if request.scale in names and request.scale != names[0] and request.framework != "primus":
        tried.append(f"--scale {names[names.index(request.scale) - 1]}")
    tried.append(f"--sequence-length {request.sequence_length // 2}")
    return " or ".join(tried[:2])


def _shape(request: Request) -> ModelConfig | None:
    if request.scale not in scales.names():
        return None
    return scales.shape(models.by_name(request.model), scales.by_name(request.scale))


def _smaller_divisor(size: int) -> int:
    return max(each for each in range(1, size) if size % each == 0)
