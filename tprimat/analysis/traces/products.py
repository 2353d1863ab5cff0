"""Work of matrix products, from the operators that launch them and the shapes of their inputs."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from tprimat.results.trace import Trace, TracedWork

PRODUCTS = "matrix_multiplication"
"""The part of a step that they are."""

_PRECISIONS = {"c10::BFloat16": "bf16", "c10::Half": "fp16", "float": "fp32"}
_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp8": 1}
_INPUTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1, "_addmm_activation": 1, "_scaled_mm": 0}
"""By operator of aten, the position of the first matrix among the inputs; before it comes what is
added.
"""

_MULTIPLIES = re.compile(r"gemm|mma|Cijk_.{0,400}_MT\d+x\d+", re.IGNORECASE)
_HELPER = re.compile(r"reduce|memset|memcpy|fill|cast|copy|workspace|Cijk_", re.IGNORECASE)
"""Kernels that a matrix product launches in addition to the one that multiplies, such as split-K's
reduction.

Template arguments of one that multiplies may hold the same words. Tensile (rocBLAS, hipBLASLt)
names the tile of those that multiply, as MT128x256x32; without one, Cijk_…_PostGSU8 adds up what a
split K left, and Cijk_B scales C.
"""

UNKNOWN_SHARE = 0.01
"""Share of the time of matrix products: if the sizes of more are unknown, so are their FLOPs."""


class Product(NamedTuple):
    """One matrix product: C = A · B, perhaps of several matrices at once.

    Attributes:
        batch, m, n, k: A is m × k, B is k × n, `batch` times.
        precision: precision of A and B.
    """

    batch: int
    m: int
    n: int
    k: int
    precision: str

    @property
    def flops(self) -> float:
        """Floating point operations, a multiplication and an addition each."""
        return 2.0 * self.batch * self.m * self.n * self.k

    @property
    def bytes(self) -> float:
        """Bytes of A, B and C, each moved once; C has the precision of A, or 2 bytes for fp8."""
        size = _BYTES[self.precision]
        return float(
            self.batch
            * (size * (self.m * self.k + self.k * self.n) + max(size, 2) * self.m * self.n)
        )

    @property
    def title(self) -> str:
        """Its sizes m × n × k, such as 4096×11008×4096, after the number of matrices if there are
        several.
        """
        return "×".join(
            map(str, ([self.batch] if self.batch > 1 else []) + [self.m, self.n, self.k])
        )


def product_of(
    operator: str | None, shapes: Sequence[Sequence[int]], types: Sequence[str]
) -> Product | None:
    """Return the matrix product that an operator of aten computes; None for another one, or unknown
    inputs.
    """
    first = _INPUTS.get((operator or "").removeprefix("aten::"))
    if first is None or len(shapes) < first + 2 or len(types) < first + 2:
        return None
    left = shapes[first]
    right = shapes[first + 1]
    precision = _PRECISIONS.get(types[first])
    if "Float8" in types[first]:
        precision = "fp8"
    if precision is None or (types[first] != types[first + 1] and precision != "fp8"):
        return None
    if (
        len(left) != len(right)
        or len(left) not in (2, 3)
        or left[-1] != right[-2]
        or left[:-2] != right[:-2]
    ):
        return None
    batch = math.prod(left[:-2])
    if min(*left, *right) > 0:
        return Product(batch, left[-2], right[-1], left[-1], precision)
    return None


def calls_of(work: Sequence[TracedWork]) -> float:
    """Return how often per step an operator ran whose kernels these are.

    The kernels that help the one that multiplies aren't counted; different ones that multiply are
    calls of their own.
    """
    return sum(each.calls for each in work if not _helps(each.kernel)) or max(
        each.calls for each in work
    )


def flops_of(trace: Trace) -> float | None:
    """Return the FLOPs per step of all matrix products; None if sizes are unknown for UNKNOWN_SHARE
    of their time.

    A trace holds the longest work: the time of the rest is known, and its sizes are not.
    """
    products = [each for each in trace.work if each.part == PRODUCTS]
    exposed = statistics.fmean([step.parts.get(PRODUCTS, 0.0) for step in trace.steps])
    unknown = max(0.0, exposed - sum(product.exposed_seconds for product in products))
    known = flops = 0.0
    for each in products:
        if _helps(each.kernel):
            continue
        product = product_of(each.operator, each.shapes, each.types)
        if product is None:
            unknown += each.seconds
        else:
            known += each.seconds
            flops += product.flops * each.calls
    if known and unknown <= UNKNOWN_SHARE * (known + unknown):
        return flops
    return None


def _helps(kernel: str) -> bool:
    return _HELPER.search(kernel) is not None and _MULTIPLIES.search(kernel) is None
