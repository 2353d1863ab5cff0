"""The breakdown of whole timelines: every field of the trace, and the means of its steps."""

from __future__ import annotations

import pytest

from tprimat.analysis.traces.breakdown import Breakdown, breakdown_of, mean_parts, sums
from tprimat.analysis.traces.timeline import Launch, RangeKind, Ranges, Timeline, Work
from tprimat.results.trace import Trace, TracedStep, TracedWork

GEMM = RangeKind("aten::mm", b"[[3,7],[7,5]]", b'["float","float"]')
LISTS = RangeKind(
    "aten::cat", b'[[[3,7],[3,7]],[],[-1],[true],"x",4,[3,-1],[2]]', b'["TensorList",4,"int"]'
)
BACKWARD = RangeKind("autograd::engine::evaluate_function: MmBackward0")
GATHER = RangeKind("record_param_comms", collective="all_gather")


def timeline(work, steps=(), ranges=(), rank=3) -> Timeline:
    """Work as (start, launch or None, end, name, device, is_copy), ranges of thread 1 as (start,
    end, kind); in ns.
    """
    rows = enumerate(work)
    made = [
        Work(start, end, name, is_copy, device, 7, index)
        for index, (start, _, end, name, device, is_copy) in rows
    ]
    launches = {
        index: Launch(at, at + 1, 1) for index, (_, at, *_) in enumerate(work) if at is not None
    }
    of_thread = Ranges()
    for each in ranges:
        of_thread.add(*each)
    annotated = [(*each, 1) for each in steps]
    return Timeline(work=made, launches=launches, ranges={1: of_thread}, steps=annotated, rank=rank)


def test_a_whole_trace():
    """Two steps; a collective half hidden by a product, a copy, and a product that begins in the
    first step.

    The GPU is done with the first step at 1,000 and with the second at 2,400.
    """
    work = [
        (100, 10, 500, "sgemm", 0, False),
        (300, 12, 700, "ncclKernel", 0, False),
        (650, 20, 1000, "Memcpy HtoD", 0, True),
        (1200, 1150, 1500, "sgemm", 0, False),
        (1500, 1160, 1700, "cat_kernel", 0, False),
        (2000, 1170, 2400, "sgemm", 0, False),
    ]
    ranges = [
        (0, 1100, RangeKind("ProfilerStep#1")),
        (8, 11, GEMM),
        (11, 15, GATHER),
        (11, 14, RangeKind("nccl:coalesced")),
        (11, 13, RangeKind("nn.Module: Block_0")),
        (1140, 1155, BACKWARD),
        (1145, 1152, GEMM),
        (1158, 1162, LISTS),
        (1168, 1172, GEMM),
    ]
    breakdown = Breakdown()
    breakdown.add(
        timeline(work, [("ProfilerStep#1", 0, 1100), ("ProfilerStep#2", 1100, 1200)], ranges)
    )
    assert breakdown.empty == 0
    shapes = {"shapes": ((3, 7), (7, 5)), "types": ("float", "float")}
    found = breakdown.trace()
    for step in found.steps:
        assert list(step.parts.values()) == sorted(step.parts.values(), reverse=True)
    assert found == Trace(
        steps=(
            TracedStep(
                name="ProfilerStep#1",
                rank=3,
                seconds=pytest.approx(1100e-9),
                # Work starts 40 ns after its launch at the earliest; nothing is launched after the
                # copy.
                parts={
                    "matrix_multiplication": pytest.approx(400e-9),
                    "copies": pytest.approx(300e-9),
                    "communication_all_gather": pytest.approx(200e-9),
                    "idle_host_launch": pytest.approx(200e-9),
                },
                overlapped_communication=pytest.approx(200e-9),
                gpu_seconds=pytest.approx(900e-9),
            ),
            TracedStep(
                name="ProfilerStep#2",
                rank=3,
                seconds=pytest.approx(1300e-9),
                parts={
                    "matrix_multiplication": pytest.approx(700e-9),
                    "idle_other": pytest.approx(300e-9),
                    "elementwise": pytest.approx(200e-9),
                    "idle_host_launch": pytest.approx(100e-9),
                },
                gpu_seconds=pytest.approx(1200e-9),
            ),
        ),
        work=(
            TracedWork(
                kernel="sgemm",
                part="matrix_multiplication",
                operator="aten::mm",
                phase="forward",
                calls=1.0,
                seconds=pytest.approx(400e-9),
                exposed_seconds=pytest.approx(400e-9),
                **shapes,
            ),
            TracedWork(
                kernel="ncclKernel",
                part="communication_all_gather",
                operator="nccl:coalesced",
                phase="forward",
                calls=0.5,
                seconds=pytest.approx(200e-9),
                exposed_seconds=pytest.approx(100e-9),
            ),
            TracedWork(
                kernel="Memcpy HtoD",
                part="copies",
                calls=0.5,
                seconds=pytest.approx(175e-9),
                exposed_seconds=pytest.approx(150e-9),
            ),
            TracedWork(
                kernel="sgemm",
                part="matrix_multiplication",
                operator="aten::mm",
                phase="backward",
                calls=0.5,
                seconds=pytest.approx(150e-9),
                exposed_seconds=pytest.approx(150e-9),
                **shapes,
            ),
            TracedWork(
                kernel="cat_kernel",
                part="elementwise",
                operator="aten::cat",
                phase="forward",
                # Of a list of tensors, and of what is no size, nothing is stated.
                shapes=((), (), (), (), (), (), (), (2,)),
                types=("TensorList", "", "int"),
                calls=0.5,
                seconds=pytest.approx(100e-9),
                exposed_seconds=pytest.approx(100e-9),
            ),
        ),
    )


def test_each_gpu_of_a_process_and_each_process_has_its_steps():
    breakdown = Breakdown()
    breakdown.add(
        timeline([(40, 2, 90, "sgemm", 1, False), (10, 1, 30, "sgemm", 0, False)], rank=4)
    )
    breakdown.add(
        timeline(
            [(10, 1, 80, "softmax", 0, False)], [("step 1", 0, 100), ("step 2", 100, 200)], rank=5
        )
    )
    found = breakdown.trace()
    assert [(step.name, step.rank, step.parts) for step in found.steps] == [
        ("", 4, {"matrix_multiplication": pytest.approx(20e-9)}),
        ("", 4, {"matrix_multiplication": pytest.approx(50e-9)}),
        ("step 1", 5, {"softmax": pytest.approx(70e-9), "idle_host_launch": pytest.approx(30e-9)}),
    ]
    assert [(each.kernel, each.calls, each.seconds) for each in found.work] == [
        ("sgemm", 2 / 3, pytest.approx(70e-9 / 3)),
        ("softmax", 1 / 3, pytest.approx(70e-9 / 3)),
    ]
    assert breakdown.empty == 1
    assert Breakdown().trace() is None


def test_of_two_kernels_at_the_same_time_the_first_of_the_trace_has_it():
    breakdown = Breakdown()
    breakdown.add(timeline([(5, None, 9, "b", 0, False), (5, None, 9, "a", 0, False)]))
    assert [(each.kernel, each.exposed_seconds) for each in breakdown.trace().work] == [
        ("a", 0.0),
        ("b", 4e-9),
    ]


def test_the_longest_work_is_kept():
    """150 kinds that take a ten thousandth of the whole; the longest first, of equals by name."""
    names = [f"k{index:03}" for index in range(155)]
    work, at = [], 0
    for index, name in enumerate(names):
        length = 2 if index in (3, 4) else 5 if index == 5 else 1
        work.append((at, None, at := at + length, name, 0, False))
    breakdown = Breakdown()
    breakdown.add(timeline(work))
    expected = [
        "k005",
        "k003",
        "k004",
        *(name for name in names if name not in ("k003", "k004", "k005")),
    ]
    assert [each.kernel for each in breakdown.trace().work] == expected[:150]


@pytest.mark.parametrize(("length", "is_kept"), [(9_998, True), (9_999, True), (10_000, False)])
def test_work_below_a_ten_thousandth_is_left_out(length, is_kept):
    breakdown = Breakdown()
    breakdown.add(
        timeline(
            [(0, None, length, "x" * 401, 0, False), (length, None, length + 1, "y", 0, False)]
        )
    )
    assert [each.kernel for each in breakdown.trace().work] == [
        "x" * 400,
        *(["y"] if is_kept else []),
    ]


@pytest.mark.parametrize(
    ("inputs", "shapes", "types"),
    [
        (RangeKind("aten::mm", b"{", b'"x"'), (), ()),
        (
            RangeKind(
                "aten::mm", b"[[0,9007199254740992],[1.0],[9007199254740993]]", b"[[], null]"
            ),
            ((0, 2**53), (), ()),
            ("", ""),
        ),
    ],
)
def test_inputs_that_are_no_list_say_nothing(inputs, shapes, types):
    breakdown = Breakdown()
    breakdown.add(timeline([(10, 2, 20, "sgemm", 0, False)], ranges=[(0, 5, inputs)]))
    (work,) = breakdown.trace().work
    assert (work.shapes, work.types) == (shapes, types)


STEPS = (
    TracedStep(
        seconds=20.0,
        parts={"attention": 1.0, "copies": 4.0, "idle_data": 2.0, "communication_all_reduce": 5.0},
        overlapped_communication=3.0,
    ),
    TracedStep(seconds=30.0, parts={"other": 3.0, "copies": 1.0, "communication_broadcast": 6.0}),
    TracedStep(
        seconds=70.0,
        parts={"attention": 8.0, "idle_host_launch": 60.0, "idle_other": 9.0},
        overlapped_communication=9.0,
    ),
)


def test_means_of_steps():
    assert list(mean_parts(STEPS).items()) == [
        ("idle_host_launch", 20.0),
        ("attention", 3.0),
        ("idle_other", 3.0),
        ("communication_broadcast", 2.0),
        ("copies", pytest.approx(5 / 3)),
        ("communication_all_reduce", pytest.approx(5 / 3)),
        ("other", 1.0),
        ("idle_data", pytest.approx(2 / 3)),
    ]
    whole = {
        "computation": 4.0,
        "exposed_communication": 11 / 3,
        "exposed_copies": 5 / 3,
        "idle": 20 + 3 + 2 / 3,
    }
    assert sums(mean_parts(STEPS)) == pytest.approx(whole)
    assert sums({}) == dict.fromkeys(whole, 0.0)
    assert breakdown_of(Trace(steps=STEPS)) == pytest.approx(
        {
            "total": 40.0,
            **whole,
            "communication": 11 / 3 + 4,
            "category attention": 3.0,
            "category other": 1.0,
            "collective broadcast": 2.0,
            "collective all_reduce": 5 / 3,
            "idle host_launch": 20.0,
            "idle other": 3.0,
            "idle data": 2 / 3,
        }
    )
