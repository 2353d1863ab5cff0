"""What the GPU's software stack can run beside a matrix product: attention, CUDA graphs,
torch.compile.
"""

from __future__ import annotations

import os
import time
from typing import Any

from gpu_checks.report import FAILED, Report, relative_difference

BACKENDS = ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH")
SHAPE = (2, 16, 2048, 128)
"""Batch, heads, sequence length, width of a head."""

SEGMENTS = "expandable_segments:True"


def attention(report: Report) -> None:
    """Time every backend of scaled_dot_product_attention, and count the FLOPs of the default
    one.
    """
    device, torch = report.device, report.device.torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    batch, heads, length, width = (1, 2, 64, 16) if report.dry_run else SHAPE
    dtype = "float32" if report.dry_run else "bfloat16"
    query, key, value = (
        device.normal(batch, heads, length, width, dtype=dtype).requires_grad_() for _ in range(3)
    )

    def run() -> Any:
        result = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        result.backward(query.detach())

    seconds: dict[str, float] = {}
    refused: dict[str, str] = {}
    for name in BACKENDS:
        try:
            with sdpa_kernel(getattr(SDPBackend, name)):
                seconds[name] = device.seconds_of(run, budget_s=0.2)
        except (RuntimeError, AttributeError) as error:
            refused[name] = str(error).splitlines()[0]
    default_s = device.seconds_of(run, budget_s=0.2)
    report.note(seconds=seconds, refused=refused, default_s=default_s)
    report.expect(
        "flash attention",
        "runs",
        f"{seconds['FLASH_ATTENTION'] * 1e3:.3f} ms"
        if "FLASH_ATTENTION" in seconds
        else refused["FLASH_ATTENTION"],
        None if report.dry_run else "FLASH_ATTENTION" in seconds,
    )
    report.expect(
        "the backend that torch chooses, forward and backward",
        "at most 1.2 times the fastest one's time",
        f"{default_s * 1e3:.3f} ms; "
        + ", ".join(f"{name} {each * 1e3:.3f} ms" for name, each in seconds.items()),
        None if report.dry_run or not seconds else default_s <= 1.2 * min(seconds.values()),
    )
    with FlopCounterMode(display=False) as counter:
        run()
    forward = 4 * batch * heads * length**2 * width
    report.expect(
        "FlopCounterMode over attention, forward and backward",
        "3.5 times the forward pass without the causal mask's saving (flash attention recomputes)",
        f"{counter.get_total_flops() / forward:.3f} times",
        None
        if report.dry_run
        else relative_difference(counter.get_total_flops(), 3.5 * forward) < 0.01,
    )


def graphs(report: Report) -> None:
    """Capture and replay a CUDA graph under the allocator setting that our NeMo launcher makes."""
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = SEGMENTS
    device, torch = report.device, report.device.torch
    left, right = device.normal(256, 256), device.normal(256, 256)
    expected = left @ right
    if report.dry_run:
        captured = expected.clone()
    else:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            left @ right
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = left @ right
        graph.replay()
    device.synchronize()
    report.expect(
        f"a CUDA graph with {SEGMENTS}",
        "replays and is right (megatron-core before 0.16 refuses the setting all the same)",
        f"largest difference {float((captured - expected).abs().max()):g}",
        bool(torch.allclose(captured, expected, rtol=1e-3, atol=1e-3)),
        FAILED,
    )


def compiled(report: Report) -> None:
    """Compile a small function and compare it with itself."""
    device, torch = report.device, report.device.torch

    def function(values: Any) -> Any:
        return torch.nn.functional.gelu(values) * values + values.square()

    values = device.normal(1024, 64 if report.dry_run else 8192)
    started = time.perf_counter()
    fast = torch.compile(function, backend="eager" if report.dry_run else "inductor")
    result = fast(values)
    device.synchronize()
    compile_s = time.perf_counter() - started
    eager_s, fast_s = (
        device.seconds_of(lambda: function(values)),
        device.seconds_of(lambda: fast(values)),
    )
    report.expect(
        "torch.compile",
        "gives the same values, faster than eager",
        f"{fast_s * 1e6:.0f} µs against {eager_s * 1e6:.0f} µs, compiled in {compile_s:.1f} s",
        bool(torch.allclose(result, function(values), rtol=1e-3, atol=1e-3))
        and (report.dry_run or fast_s < eager_s),
    )
