"""Matrix products of a trace: their sizes, calls and FLOPs."""

from __future__ import annotations

import pytest

from tprimat.analysis.traces.products import Product, calls_of, flops_of, product_of
from tprimat.results.trace import Trace, TracedStep, TracedWork

BF16, HALF, FLOAT, FP8 = "c10::BFloat16", "c10::Half", "float", "c10::Float8_e4m3fn"
GEMM, HELPER = "nvjet_tst_gemm", "splitKreduce_kernel"


@pytest.mark.parametrize(
    ("product", "flops", "size", "title"),
    [
        (Product(1, 3, 5, 7, "bf16"), 210.0, 2 * (21 + 35 + 15), "3×5×7"),
        (Product(1, 3, 5, 7, "fp16"), 210.0, 2 * (21 + 35 + 15), "3×5×7"),
        (Product(2, 3, 5, 7, "fp32"), 420.0, 2 * 4 * (21 + 35 + 15), "2×3×5×7"),
        # C has two bytes for each value.
        (Product(3, 3, 5, 7, "fp8"), 630.0, 3 * (21 + 35 + 2 * 15), "3×3×5×7"),
    ],
)
def test_work_of_a_product(product, flops, size, title):
    assert (product.flops, product.bytes, product.title) == (flops, size, title)


@pytest.mark.parametrize(
    ("operator", "shapes", "types", "expected"),
    [
        ("aten::mm", [(3, 7), (7, 5)], [BF16, BF16], Product(1, 3, 5, 7, "bf16")),
        ("aten::addmm", [(5,), (3, 7), (7, 5)], [BF16, HALF, HALF], Product(1, 3, 5, 7, "fp16")),
        (
            "aten::_addmm_activation",
            [(5,), (3, 7), (7, 5)],
            [BF16, HALF, HALF],
            Product(1, 3, 5, 7, "fp16"),
        ),
        ("aten::bmm", [(2, 3, 7), (2, 7, 5)], [FLOAT, FLOAT], Product(2, 3, 5, 7, "fp32")),
        (
            "aten::baddbmm",
            [(), (2, 3, 7), (2, 7, 5)],
            ["", FLOAT, FLOAT],
            Product(2, 3, 5, 7, "fp32"),
        ),
        (
            "aten::_scaled_mm",
            [(3, 7), (7, 5), (9, 9)],
            [FP8, "c10::Float8_e5m2", FLOAT],
            Product(1, 3, 5, 7, "fp8"),
        ),
        ("aten::mm", [(1, 1), (1, 1)], [BF16, BF16], Product(1, 1, 1, 1, "bf16")),
        ("aten::mm", [(3, 7), (7, 5)], [BF16, HALF], None),
        ("aten::mm", [(3, 7), (7, 5)], ["double", "double"], None),
        ("aten::mm", [(3, 7), (7, 5)], [BF16], None),
        ("aten::mm", [(3, 7)], [BF16, BF16], None),
        ("aten::addmm", [(3, 7), (7, 5)], [BF16, BF16], None),
        ("aten::addmm", [(5,), (3, 7), (7, 5)], [BF16, BF16], None),
        ("aten::mm", [(3, 7), (6, 5)], [BF16, BF16], None),
        ("aten::bmm", [(2, 3, 7), (4, 7, 5)], [BF16, BF16], None),
        ("aten::bmm", [(2, 3, 7), (7, 5)], [BF16, BF16], None),
        ("aten::bmm", [(2, 2, 3, 7), (2, 2, 7, 5)], [BF16, BF16], None),
        ("aten::mm", [(7,), (7,)], [BF16, BF16], None),
        ("aten::mm", [(3, 7), (7,)], [BF16, BF16], None),
        ("aten::mm", [(0, 7), (7, 5)], [BF16, BF16], None),
        ("aten::mm", [(3, 7), (7, 0)], [BF16, BF16], None),
        ("aten::mul", [(3, 7), (7, 5)], [BF16, BF16], None),
        (None, [(3, 7), (7, 5)], [BF16, BF16], None),
    ],
)
def test_the_product_of_an_operator(operator, shapes, types, expected):
    assert product_of(operator, shapes, types) == expected


def work(
    kernel: str = GEMM,
    calls: float = 2.0,
    seconds: float = 0.2,
    part: str = "matrix_multiplication",
    **fields: object,
) -> TracedWork:
    known = {
        "operator": "aten::mm",
        "shapes": ((3, 7), (7, 5)),
        "types": (BF16, BF16),
        "exposed_seconds": seconds,
    }
    return TracedWork(kernel=kernel, part=part, calls=calls, seconds=seconds, **{**known, **fields})


@pytest.mark.parametrize(
    ("found", "calls"),
    [
        ([work(calls=2.0), work(HELPER, 5.0), work(calls=3.0)], 5.0),
        ([work(HELPER, 2.0), work("memset", 5.0), work("fill", 3.0)], 5.0),
        ([work("triton_dot", 2.0), work(calls=3.0)], 5.0),
        # The words of a helper are template arguments of a kernel that multiplies.
        (
            [work("gemm<copy>", 2.0), work("Cijk_A_MT64x32x16", 3.0), work("Cijk_A_PostGSU8", 7.0)],
            5.0,
        ),
    ],
)
def test_calls_of_the_kernels_that_multiply(found, calls):
    assert calls_of(found) == calls


def traced(*found: TracedWork, exposed: tuple[float, ...] = (0.2, 0.2, 0.2)) -> Trace:
    parts = [{"matrix_multiplication": each} if each else {} for each in exposed]
    return Trace(steps=tuple(TracedStep(seconds=1.0, parts=each) for each in parts), work=found)


OTHER = {"operator": "te::linear", "exposed_seconds": 0.0}


@pytest.mark.parametrize(
    ("trace", "flops"),
    [
        (traced(work()), 420.0),
        (traced(work(), work(calls=3.0), work("elementwise", part="elementwise", **OTHER)), 1050.0),
        (traced(work(), work(HELPER, 9.0, 5.0, operator="te::linear")), 420.0),
        # 1% of the time of all products may be of unknown sizes: another operator's, or work that
        # is left out.
        (traced(work(seconds=0.99), work(seconds=0.0099, **OTHER)), 420.0),
        (traced(work(seconds=0.99), work(seconds=0.0101, **OTHER)), None),
        (traced(work(seconds=0.4), work(seconds=0.59), work(seconds=0.0099, **OTHER)), 840.0),
        (traced(work(seconds=0.5, exposed_seconds=0.3), exposed=(0.304, 0.0, 0.61)), 420.0),
        (traced(work(seconds=0.5, exposed_seconds=0.3), exposed=(0.0, 0.29, 0.65)), None),
        (traced(work(seconds=0.5, exposed_seconds=0.3), exposed=(0.31, 0.31, 0.31)), None),
        # More is exposed than the parts of the steps have: nothing is left out.
        (traced(work(seconds=0.5, exposed_seconds=0.3), work(seconds=0.006, **OTHER)), None),
        (traced(work(**OTHER)), None),
        (traced(), None),
        (traced(exposed=(0.0,)), None),
    ],
)
def test_flops_of_all_products(trace, flops):
    assert flops_of(trace) == flops
