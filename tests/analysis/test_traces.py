"""The division of a GPU's time: overlaps, gaps and their causes, and the steps."""

from __future__ import annotations

import io
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_traces import MadeTrace

from tprimat.analysis.traces.breakdown import Breakdown
from tprimat.analysis.traces.division import IdleCauses, divide
from tprimat.analysis.traces.steps import choose_steps
from tprimat.analysis.traces.timeline import (
    Launch,
    RangeKind,
    Ranges,
    Timeline,
    Work,
    merged,
    within,
)
from tprimat.read.kineto.timeline import read_timeline

MICRO = 1e6


def steps_of(trace: MadeTrace):
    breakdown = Breakdown()
    breakdown.add(read_timeline(io.BytesIO(trace.text()))[0])
    found = breakdown.trace()
    return [
        ({part: round(time * MICRO, 3) for part, time in step.parts.items()}, step)
        for step in found.steps
    ]


TWO_STEPS = [("ProfilerStep#1", 100), ("ProfilerStep#2", 100)]


def two_steps() -> MadeTrace:
    trace = MadeTrace()
    for number in (1, 2):
        begin = 100 * number - 100
        trace.step(number, begin, begin + 100)
        trace.kernel("gemm", begin + 1, begin + 5, begin + 90)
    return trace


def work(start, end, name="gemm", stream=7):
    return Work(start, end, name, False, 0, stream, -1)


PARTS = ("matrix_multiplication", "communication_all_reduce", "copies", "elementwise")


class TestDivision:
    def test_computation_hides_communication_and_both_hide_copies(self):
        pieces = [work(0, 10), work(5, 20), work(8, 30)]
        division = divide(0, 40, pieces, ["attention", "communication_all_reduce", "copies"])
        assert division.exposed == [10, 10, 10]
        assert division.communication == 15
        assert division.gaps == [(30, 40, None)]

    def test_of_two_kernels_at_once_the_first_to_begin_has_the_time(self):
        pieces = [work(0, 10), work(4, 6), work(8, 14)]
        division = divide(0, 14, pieces, ["attention", "softmax", "elementwise"])
        assert division.exposed == [10, 0, 4]

    def test_the_first_of_two_that_end_a_gap_together_counts(self):
        pieces = [work(0, 10), work(20, 22, "first"), work(20, 30, "second")]
        assert divide(0, 30, pieces, ["attention", "softmax", "elementwise"]).gaps == [
            (10, 20, pieces[1])
        ]

    @given(
        st.lists(
            st.tuples(st.integers(0, 200), st.integers(0, 60), st.sampled_from(PARTS)), max_size=30
        ),
        st.integers(0, 120),
        st.integers(0, 160),
    )
    def test_nothing_is_lost_or_counted_twice(self, rows, start, length):
        rows = sorted(rows)
        pieces = [work(low, low + duration) for low, duration, _ in rows]
        parts = [part for *_, part in rows]
        end = start + length
        division = divide(start, end, pieces, parts)
        idle = sum(high - low for low, high, _ in division.gaps)
        assert sum(division.exposed) + idle == length
        # Each ns by itself: the highest level that is under way has it.
        for level, chosen in enumerate(
            (("matrix_multiplication", "elementwise"), PARTS[1:2], PARTS[2:3])
        ):
            above = (("matrix_multiplication", "elementwise"), PARTS[1:2], PARTS[2:3])[:level]
            right = 0
            for time in range(start, end):
                running = {
                    part
                    for piece, part in zip(pieces, parts, strict=True)
                    if piece.start <= time < piece.end
                }
                right += bool(running & set(chosen)) and not any(
                    running & set(each) for each in above
                )
            found = sum(
                e for e, part in zip(division.exposed, parts, strict=True) if part in chosen
            )
            assert found == right


class TestIdle:
    def test_a_late_launch_is_the_hosts(self):
        trace = MadeTrace()
        trace.kernel("gemm", 0, 5, 20)
        trace.kernel("gemm", 50, 55, 70)
        ((parts, _),) = steps_of(trace)
        assert parts == {"matrix_multiplication": 30, "idle_host_launch": 35}

    def test_work_that_was_queued_waits_for_something_else(self):
        trace = MadeTrace()
        trace.kernel("gemm", 0, 5, 40)
        trace.kernel("gemm", 6, 42, 70)
        ((parts, _),) = steps_of(trace)
        assert parts == {"matrix_multiplication": 63, "idle_other": 2}

    def test_the_host_that_loads_data(self):
        trace = MadeTrace()
        trace.kernel("gemm", 0, 5, 20)
        trace.event(
            "user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 25, 45
        )
        trace.kernel("gemm", 50, 55, 70)
        ((parts, _),) = steps_of(trace)
        assert parts == {"matrix_multiplication": 30, "idle_data": 20, "idle_host_launch": 15}

    def test_the_host_that_waits_for_the_gpu(self):
        trace = MadeTrace()
        trace.kernel("gemm", 0, 5, 20)
        trace.event("cuda_runtime", "cudaStreamSynchronize", 3, 28)
        trace.kernel("gemm", 50, 55, 70)
        ((parts, _),) = steps_of(trace)
        assert parts == {
            "matrix_multiplication": 30,
            "idle_synchronisation": 8,
            "idle_host_launch": 27,
        }

    def test_without_launches_the_cause_is_unknown(self):
        trace = MadeTrace()
        trace.kernel("gemm", None, 5, 20)
        trace.kernel("gemm", None, 30, 40)
        ((parts, _),) = steps_of(trace)
        assert parts == {"matrix_multiplication": 25, "idle_other": 10}

    @pytest.mark.parametrize(
        ("start", "end", "launched", "thread", "causes"),
        [
            # Launched at 100, when data had been loaded for 5 ns and the host had waited for the
            # GPU for 30.
            (50, 130, 0, 9, {"idle_data": 5, "idle_synchronisation": 25, "idle_host_launch": 50}),
            # Work starts 30 ns after its launch at the earliest.
            (150, 200, 1, 9, {"idle_host_launch": 30, "idle_other": 20}),
            (160, 200, 1, 9, {"idle_host_launch": 20, "idle_other": 20}),
            (190, 200, 1, 9, {"idle_other": 10}),
            (100, 120, 0, 9, {"idle_host_launch": 20}),
            # Nothing ends the gap: what the step's thread did.
            (60, 90, None, 5, {"idle_data": 5, "idle_synchronisation": 15, "idle_host_launch": 10}),
            (60, 90, None, 6, {"idle_host_launch": 30}),
            (60, 90, None, None, {"idle_other": 30}),
            # Its launch is unknown.
            (60, 90, 2, 5, {"idle_other": 30}),
        ],
    )
    def test_the_causes_of_a_gap(self, start, end, launched, thread, causes):
        pieces = [
            Work(130, 140, "a", False, 0, 7, 1),
            Work(200, 210, "b", False, 0, 7, 2),
            work(90, 99),
        ]
        waits, loads = {5: [(50, 80), (40, 60)]}, {5: [(110, 120), (70, 75)]}
        launches = {1: Launch(100, 101, 5), 2: Launch(150, 151, 5)}
        found = IdleCauses(Timeline(launches=launches, waits=waits, loads=loads), pieces)
        assert (
            found.of(start, end, None if launched is None else pieces[launched], thread) == causes
        )

    def test_work_that_seems_to_start_before_its_launch(self):
        piece = Work(90, 120, "a", False, 0, 7, 1)
        found = IdleCauses(Timeline(launches={1: Launch(100, 101, 5)}), [piece])
        assert found.of(100, 120, piece, None) == {"idle_other": 20}


class TestSteps:
    def test_work_belongs_to_the_step_that_launched_it(self):
        """The GPU is two steps behind: each step lasts from the end of the last one's work to that
        of its own.
        """
        trace = MadeTrace()
        trace.kernel("gemm", None, 0, 250)
        for number in range(3):
            trace.step(number, 100 * number, 100 * number + 100)
            trace.kernel("flash_fwd", 100 * number + 10, 250 + 80 * number, 320 + 80 * number)
        found = steps_of(trace)
        assert [step.name for _, step in found] == [
            "ProfilerStep#0",
            "ProfilerStep#1",
            "ProfilerStep#2",
        ]
        assert [round(step.seconds * MICRO) for _, step in found] == [70, 80, 80]
        assert [parts["attention"] for parts, _ in found] == [70, 70, 70]

    def test_a_synchronised_step_lasts_as_long_as_its_annotation(self):
        trace = MadeTrace()
        trace.step(5, 0, 200)
        trace.kernel("flash_fwd", 50, 60, 150)
        ((parts, step),) = steps_of(trace)
        assert step.seconds * MICRO == pytest.approx(200)
        assert parts == {"attention": 90, "idle_host_launch": 110}
        assert step.gpu_seconds * MICRO == pytest.approx(90)

    @pytest.mark.parametrize("seed", range(8))
    def test_the_order_of_events_in_the_file_changes_nothing(self, seed):
        """Times are relative to the file's first event, which need not be the earliest."""
        trace = two_steps()
        random.Random(seed).shuffle(trace.events)
        assert [
            (step.name, round(step.seconds * MICRO)) for _, step in steps_of(trace)
        ] == TWO_STEPS

    def test_a_kernel_takes_as_long_with_an_operator_as_without_one(self):
        trace = MadeTrace()
        trace.step(1, 0, 100)
        trace.operator("aten::mm", 1, 10)
        trace.kernel("gemm", 2, 10, 40)
        trace.kernel("gemm", 20, 40, 70)
        breakdown = Breakdown()
        breakdown.add(read_timeline(io.BytesIO(trace.text()))[0])
        assert [each.operator for each in breakdown.trace().work] == [None, "aten::mm"]

    def test_a_late_first_event(self):
        trace = two_steps()
        trace.events.insert(
            0, {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "tid": 1, "ts": 60, "dur": 2}
        )
        assert [
            (step.name, round(step.seconds * MICRO)) for _, step in steps_of(trace)
        ] == TWO_STEPS

    def test_events_without_a_time_are_left_out(self):
        trace = two_steps()
        trace.events.append(
            {
                "ph": "X",
                "cat": "kernel",
                "name": "gemm",
                "tid": 7,
                "dur": 900,
                "args": {"device": 0},
            }
        )
        trace.events.append(
            {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#9", "tid": 1, "dur": 900}
        )
        assert [
            (step.name, round(step.seconds * MICRO)) for _, step in steps_of(trace)
        ] == TWO_STEPS

    @pytest.mark.parametrize("late", ["", "copy", "launched after it"])
    def test_a_last_annotation_in_which_nothing_is_computed_is_no_step(self, late):
        trace = two_steps()
        trace.step(3, 200, 203)
        if late == "copy":
            trace.kernel("Memcpy DtoH", 201, 202, 203, category="gpu_memcpy")
        elif late:
            trace.kernel("gemm", 203, 210, 220)
        assert [
            (step.name, round(step.seconds * MICRO)) for _, step in steps_of(trace)
        ] == TWO_STEPS

    def test_a_last_annotation_with_a_kernel_is_a_step(self):
        trace = two_steps()
        trace.step(3, 200, 204)
        trace.kernel("gemm", 203, 210, 220)
        assert [round(step.seconds * MICRO) for _, step in steps_of(trace)] == [100, 100, 20]

    def test_the_time_of_an_annotation_without_work_belongs_to_no_step(self):
        trace = two_steps()
        trace.step(3, 200, 280)
        trace.step(4, 280, 380)
        trace.kernel("gemm", 290, 300, 370)
        assert [round(step.seconds * MICRO) for _, step in steps_of(trace)] == [100, 100, 100]

    def test_without_any_launch_the_whole_is_one_period(self):
        trace = MadeTrace()
        trace.step(1, 0, 50)
        trace.step(2, 50, 100)
        trace.kernel("gemm", None, 10, 60)
        assert [(step.name, round(step.seconds * MICRO)) for _, step in steps_of(trace)] == [
            ("", 50)
        ]

    @pytest.mark.parametrize(
        ("names", "right"),
        [
            (["ProfilerStep#1", "step 1", "ProfilerStep#2"], ["ProfilerStep#1", "ProfilerStep#2"]),
            (
                ["train_step 1", "train_step 2", "Optimizer.step#AdamW.step"],
                ["train_step 1", "train_step 2"],
            ),
            (["iteration", "forward", "iteration"], ["iteration", "iteration"]),
            (["forward", "Optimizer.step#AdamW.step", "nccl:all_reduce"], []),
            (["enumerate(DataLoader)#batch"], []),
        ],
    )
    def test_which_annotations_mark_steps(self, names, right):
        annotations = [(name, 10 * index, 10 * index + 10, 1) for index, name in enumerate(names)]
        assert [name for name, *_ in choose_steps(annotations)] == right

    @pytest.mark.parametrize(
        ("annotations", "right"),
        [
            (
                [("ProfilerStep#10", 50, 90, 1), ("step", 0, 99, 1), ("ProfilerStep#9", 0, 50, 1)],
                [2, 0],
            ),
            ([("ProfilerStep#1", 0, 50, 1), ("ProfilerStep#2", 49, 90, 1)], []),
            # One name and one thread: those that cover the longest time.
            ([("iter 1", 0, 40, 1), ("iter 2", 40, 80, 1), ("epoch step 7", 0, 100, 1)], [2]),
            ([("iter 1", 0, 40, 1), ("iter 2", 10, 60, 2), ("iter 3", 40, 45, 1)], [1]),
        ],
    )
    def test_steps_of_several_kinds_of_annotations(self, annotations, right):
        assert choose_steps(annotations) == [annotations[index] for index in right]

    @pytest.mark.parametrize(
        "annotation", ["Optimizer.step#AdamW.step", "torch/optim/adamw.py(210): step"]
    )
    @pytest.mark.parametrize("backward", [(20, 60), None])
    def test_what_a_closure_does_is_no_work_of_the_optimizer(self, annotation, backward):
        trace = MadeTrace()
        trace.step(1, 0, 100)
        trace.event(
            "python_function" if ".py" in annotation else "user_annotation", annotation, 10, 90
        )
        for name, start in (("aten::mm", 12), ("aten::mul_", 60), ("aten::mul_", 70)):
            trace.operator(name, start, start + 5)
            trace.kernel(f"generic{start}", start + 1, start + 2, start + 4)
        if backward is not None:
            trace.event(
                "cpu_op", "autograd::engine::evaluate_function: MmBackward0", *backward, tid=2
            )
        # Neither this one, before it, nor the next, which begins where it ends, lies in the step.
        trace.event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 5, 9, tid=2)
        trace.event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 90, 95, tid=2)
        breakdown = Breakdown()
        breakdown.add(read_timeline(io.BytesIO(trace.text()))[0])
        parts = {work.kernel: (work.part, work.phase) for work in breakdown.trace().work}
        optimizer = ("optimizer", "optimizer")
        assert parts["generic12"] == (
            ("matrix_multiplication", "forward") if backward else optimizer
        )
        assert parts["generic60"] == parts["generic70"] == optimizer

    def test_a_step_s_annotation_launches_nothing(self):
        trace = MadeTrace()
        for number in range(2):
            trace.event("user_annotation", f"train_step {number}", 100 * number, 100 * number + 100)
            trace.kernel("gemm", 100 * number + 5, 100 * number + 10, 100 * number + 30)
        breakdown = Breakdown()
        breakdown.add(read_timeline(io.BytesIO(trace.text()))[0])
        (work,) = breakdown.trace().work
        assert (work.operator, work.phase, work.calls) == (None, None, 1)

    def test_two_gpus_of_one_process(self):
        trace = MadeTrace()
        trace.kernel("gemm", 0, 10, 30)
        trace.kernel("gemm", 1, 10, 50)
        trace.events[-1]["args"]["device"] = 1
        assert [parts for parts, _ in steps_of(trace)] == [
            {"matrix_multiplication": 20},
            {"matrix_multiplication": 40},
        ]


class TestRanges:
    def test_ranges_around_a_time(self):
        ranges = Ranges()
        for start, end, name in (
            (0, 100, "outer"),
            (10, 20, "first"),
            (30, 60, "second"),
            (30, 40, "inner"),
        ):
            ranges.add(start, end, RangeKind(name))
        assert [kind.name for kind in ranges.around(35)] == ["inner", "second", "outer"]
        assert [kind.name for kind in ranges.around(25)] == ["outer"]
        assert [kind.name for kind in ranges.around(100)] == ["outer"]
        # One that ends as another begins is not around it.
        assert [kind.name for kind in ranges.around(30)] == ["inner", "second", "outer"]
        ranges = Ranges()
        for start, end, name in ((5, 10, "first"), (10, 30, "second"), (10, 20, "inner")):
            ranges.add(start, end, RangeKind(name))
        assert [kind.name for kind in ranges.around(10)] == ["inner", "second"]
        assert ranges.around(31) == ranges.around(4) == ()

    def test_intervals(self):
        assert merged([(5, 7), (1, 3), (2, 4), (9, 9)]) == [(1, 4), (5, 7)]
        assert within([(1, 4), (5, 7)], 3, 6) == [(3, 4), (5, 6)]
        assert within([], 3, 6) == []
        assert merged([(1, 3), (3, 4), (3, 4), (5, 6)]) == [(1, 4), (5, 6)]
        assert within([(1, 4), (6, 7)], 4, 6) == []
        assert within([(1, 2), (4, 5), (8, 9)], 4, 9) == [(4, 5), (8, 9)]
