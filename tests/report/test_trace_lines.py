"""What a terminal shows of a trace."""

from __future__ import annotations

import pytest

from tprimat.report import terminal, traces
from tprimat.results.trace import Trace, TracedStep, TracedWork

CUTLASS = (
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_128x64>(cutlass_80_tensorop::Params)"
)
COPY = "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, 4>(float*)"


@pytest.mark.parametrize(
    ("kernel", "operator", "title"),
    [
        (CUTLASS, "aten::mm", "mm: cutlass_80_tensorop_bf16_s16816gemm_128x64"),
        (COPY, "aten::cat", "cat"),
        (COPY, None, "CatArrayBatchedCopy"),
        ("attn_fwd", "attn_fwd", "attn_fwd"),
        (
            "std::enable_if<(((8)>(0))), void>::type vllm::rms_norm_kernel<float, 8>(float*)",
            None,
            "rms_norm_kernel",
        ),
        ("evil\x1b[2Jname", None, "evilname"),
    ],
)
def test_titles_of_work(kernel, operator, title):
    work = TracedWork(
        kernel=kernel, part="other", operator=operator, calls=1, seconds=1.0, exposed_seconds=1.0
    )
    assert traces.work_title(work) == title


def lines(trace):
    return terminal.write(traces.document(trace)).splitlines()


def step(scale, rank=0, name="ProfilerStep#1"):
    parts = {"matrix_multiplication": 0.006, "communication_all_reduce": 0.003, "idle_data": 0.001}
    parts = {part: time * scale for part, time in parts.items()}
    return TracedStep(
        name=name, rank=rank, seconds=0.01 * scale, parts=parts, overlapped_communication=0.002
    )


def test_parts_with_their_shares_and_ranges():
    shown = lines(Trace(steps=(step(1.0), step(1.2, rank=1))))
    assert shown[0] == "1 profiled step on 2 ranks, means and ranges:"
    assert shown[4].split() == ["matrix", "multiplication", "6.60", "60.0%", "6.00–7.20"]
    assert shown[5].split() == ["all-reduce", "(exposed)", "3.30", "30.0%", "3.00–3.60"]
    assert shown[-3].split() == ["step", "11.00", "100.0%", "10.00–12.00"]
    assert (
        shown[-1] == "GPU busy 90% of the step; 2.00 ms of communication hidden behind computation"
    )


def test_many_parts_fit_a_screen():
    parts = {f"communication_kind_{number}": 0.001 for number in range(40)}
    work = [
        TracedWork(
            kernel="k" * 300,
            part=part,
            operator="o" * 90,
            calls=1,
            seconds=1.0,
            exposed_seconds=1.0,
        )
        for part in parts
    ]
    steps = (TracedStep(seconds=0.04, parts=parts), TracedStep(seconds=0.04, parts=parts))
    shown = lines(Trace(steps=steps, work=tuple(work)))
    assert len(shown) <= 18
    assert max(map(len, shown)) <= 80
