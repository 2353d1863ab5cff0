"""The matmul ceiling of this card in each precision, against the catalogue's dense peaks."""

from __future__ import annotations

import importlib.util
from typing import Any

from gpu_checks.report import DOUBTFUL, FAILED, MissingError, Report, internal

SIZES = (4096, 8192, 16384)
COMPARED_SIZE = 2048
"""Rows and columns of the products whose values are compared with those of fp32."""

ENOUGH = 0.5
"""Share of the dense peak that a large product should reach."""

TOO_MUCH = 1.02
"""Share of the peak above which the catalogue's row can't be this GPU's."""


def matmul(report: Report) -> None:
    """Time large products of normally distributed values, and compare bf16 and fp16 with fp32."""
    device, torch = report.device, report.device.torch
    row = report.catalog_row()
    report.note(bf16_supported=None if report.dry_run else torch.cuda.is_bf16_supported())
    for precision in ("fp32", "tf32", "bf16", "fp16"):
        with report.part(precision):
            _ceiling(report, row, precision)
    torch.backends.cuda.matmul.allow_tf32 = False
    size = 64 if report.dry_run else COMPARED_SIZE
    left, right = device.normal(size, size), device.normal(size, size)
    for dtype in ("bfloat16", "float16"):
        with report.part(f"{dtype} is right"):
            typed = getattr(torch, dtype)
            _right(report, dtype, left.to(typed) @ right.to(typed), left @ right, 0.02)


def fp8(report: Report) -> None:
    """Time torch._scaled_mm, and try Transformer Engine where it is installed."""
    device, torch = report.device, report.device.torch
    row = report.catalog_row()
    if row is not None and row.peak_tflops("fp8") is None:
        raise MissingError(f"{row.title} has no fp8 in the catalogue")
    multiply, dtype = internal("fp8_multiply")(device.torch_device)
    report.note(dtype=str(dtype))
    with report.part("fp8"):
        _ceiling(report, row, "fp8")
    with report.part("fp8 is right"):
        size = 64 if report.dry_run else COMPARED_SIZE
        left, right = device.normal(size, size), device.normal(size, size)
        _right(report, "fp8", multiply(left.to(dtype), right.to(dtype).t()), left @ right.t(), 0.1)
    with report.part("fp8 in Transformer Engine"):
        if importlib.util.find_spec("transformer_engine") is None:
            raise MissingError("transformer_engine isn't installed")
        import transformer_engine.pytorch as te

        layer = te.Linear(4096, 4096, params_dtype=torch.bfloat16)
        values = device.normal(4096, 4096, dtype="bfloat16")

        def forward() -> Any:
            with te.fp8_autocast(enabled=True):
                return layer(values)

        seconds = device.seconds_of(forward)
        report.expect(
            "fp8 in Transformer Engine", "runs", f"{2 * 4096**3 / seconds / 1e12:.1f} TFLOP/s", True
        )


def _ceiling(report: Report, row: Any, precision: str) -> None:
    """Report the highest TFLOP/s over the sizes against the row's peak."""
    device = report.device
    reached: dict[int, float] = {}
    for size in (64, 128) if report.dry_run else SIZES:
        # A third of the memory is left free.
        if internal("bytes_of")(precision, size, size, size) > device.free_bytes() * 2 / 3:
            continue
        kernel = internal("product")(device.torch_device, precision, size, size, size)
        reached[size] = kernel.work / device.seconds_of(kernel.run)
    best = max(reached.values())
    peak = row.peak_tflops(precision) if row is not None else None
    sustained = row.sustained_bf16_tflops if row is not None and precision == "bf16" else None
    report.note(**{f"{precision}_tflops": reached})
    beside = f"; the most that somebody else sustained is {sustained:g}" if sustained else ""
    if peak is None:
        why = (
            "the catalogue has no row for this GPU" if row is None else "the catalogue has no peak"
        )
        report.expect(
            f"{precision}: TFLOP/s",
            f"a share of the dense peak, but {why}",
            f"{best:.4g}{beside}",
            None,
        )
        return
    share = best / peak
    report.expect(
        f"{precision}: TFLOP/s",
        f"{ENOUGH:.0%} to {TOO_MUCH:.0%} of the dense peak, {peak:g}",
        f"{best:.4g}, {share:.1%}{beside}",
        ENOUGH <= share <= TOO_MUCH,
        FAILED if share > TOO_MUCH else DOUBTFUL,
    )


def _right(report: Report, name: str, product: Any, reference: Any, allowed: float) -> None:
    """Compare a product with the one in fp32, by norms."""
    error = float((product.float() - reference).norm() / reference.norm())
    report.expect(
        f"{name}: error against fp32",
        f"below {allowed:g} of the norm",
        f"{error:.2g}",
        error < allowed,
        FAILED,
    )
