"""The operations that are timed: matrix products, memory copies and triads, copies between host and
device.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tprimat.catalog import gpus
from tprimat.results.preflight import COPY, TRIAD

TERA, GIGA = 1e12, 1e9


@dataclasses.dataclass(frozen=True)
class Kernel:
    """An operation that `run` queues; its work in TFLOP or GB, and the shape of a product."""

    run: Callable[[], object]
    work: float
    shape: str | None = None


def product(device: Any, precision: str, m: int, n: int, k: int) -> Kernel:
    """Return a matrix product of normally distributed values: on zeros a GPU draws less power and
    clocks higher.

    Raises RuntimeError or AttributeError if this torch or device lacks the precision. Sets torch's
    precision of fp32 products if the precision is fp32 or tf32.
    """
    import torch

    work = 2 * m * n * k / TERA
    shape = f"{m}×{n}×{k}"

    def normal(rows: int, columns: int) -> Any:
        return torch.randn(rows, columns, device=device)

    if precision == "fp8":
        multiply, dtype = fp8_multiply(device)
        left = normal(m, k).to(dtype)
        right = normal(n, k).to(dtype).t()
        return Kernel(lambda: multiply(left, right), work, shape)
    if precision in ("fp32", "tf32"):
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    left = normal(m, k).to(dtype)
    right = normal(k, n).to(dtype)
    result = torch.empty(m, n, dtype=dtype, device=device)
    return Kernel(lambda: torch.mm(left, right, out=result), work, shape)


def bytes_of(precision: str, m: int, n: int, k: int) -> int:
    """Return the memory that product() needs while it draws its values, bytes."""
    size = {"fp8": 1, "fp32": 4, "tf32": 4}.get(precision, 2)
    return size * (m * k + k * n) + max(size, 2) * m * n + 4 * max(m * k, k * n)


def fp8_multiply(device: Any) -> tuple[Callable[[Any, Any], Any], Any]:
    """Return the product of two fp8 matrices, of which the second is transposed, and the type of
    their elements.
    """
    import torch

    is_own = torch.version.hip and torch.cuda.get_device_properties(device).gcnArchName.startswith(
        gpus.OWN_FP8
    )
    name = "float8_e4m3fnuz" if is_own else "float8_e4m3fn"
    one = torch.ones((), device=device)

    def multiply(left: Any, right: Any) -> Any:
        return torch._scaled_mm(
            left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
        )

    return multiply, getattr(torch, name)


def streams(device: Any, size: int) -> dict[str, Kernel]:
    """Return STREAM's copy (a = b) and triad (a = b + s·c) of fp32 arrays with a number of bytes.

    Bytes are counted as STREAM counts them (J. D. McCalpin, www.cs.virginia.edu/stream): what a
    cache reads before it writes is not.
    """
    import torch

    target, first, second = (torch.ones(size // 4, device=device) for _ in range(3))
    return {
        COPY: Kernel(lambda: target.copy_(first), 2 * size / GIGA),
        TRIAD: Kernel(lambda: torch.add(first, second, alpha=3.0, out=target), 3 * size / GIGA),
    }


def transfer(device: Any, size: int, *, to_device: bool) -> Kernel:
    """Return a copy of a number of bytes between pinned memory and a GPU."""
    import torch

    host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    there = torch.empty(size, dtype=torch.uint8, device=device)
    source, target = (host, there) if to_device else (there, host)
    return Kernel(lambda: target.copy_(source, non_blocking=True), size / GIGA)
