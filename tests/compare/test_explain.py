"""The difference of two traces: parts that add up, what limits a step, operators and the speed of
their products.
"""

from __future__ import annotations

import io
from types import SimpleNamespace

import msgspec
import pytest
from made_traces import MadeTrace

from tprimat.analysis.traces.breakdown import Breakdown
from tprimat.analysis.traces.products import calls_of, flops_of, product_of
from tprimat.catalog import gpus
from tprimat.compare.step_difference import UNEQUAL, Bar, Explanation, Traced, explain
from tprimat.log_import import load
from tprimat.read.kineto.timeline import read_timeline
from tprimat.report import explain as report
from tprimat.report import terminal
from tprimat.results.run import GpuInfo
from tprimat.results.trace import TracedStep, TracedWork

PAIRS = (
    "Falconsai_nsfw_image_detection__1016002",
    "Qwen_Qwen1.5-0.5B-Chat__1016005",
    "facebook_timesformer-base-finetuned-k400__1016002",
    "gaunernst_bert-small-uncased__1016001",
)
H100 = gpus.match(GpuInfo(device_name="NVIDIA H100 80GB HBM3")).gpu
SHAPES = {
    "Input Dims": [[4096, 8192], [8192, 1024]],
    "Input type": ["c10::BFloat16", "c10::BFloat16"],
}


def traced(*traces: MadeTrace, name: str = "A", gpu=H100) -> Traced:
    breakdown = Breakdown()
    for each in traces:
        breakdown.add(read_timeline(io.BytesIO(each.text()))[0])
    trace = breakdown.trace()
    assert trace is not None
    return Traced(name, trace, gpu)


def training(
    product: float, attention: float, idle: float = 10.0, steps: int = 1, shapes=SHAPES, rank=None
):
    """A trace with a matrix product, attention and idle time in each step, µs."""
    trace = MadeTrace(rank=rank)
    at = 0.0
    for step in range(steps):
        # The product varies from step to step, so that there is an interval.
        matrix = product + step
        end = at + matrix + attention + idle
        trace.step(step, at, end)
        trace.operator("aten::mm", at + 1, at + 4, **shapes)
        trace.kernel("nvjet_tst", at + 2, at + idle, at + idle + matrix)
        trace.operator("aten::_flash_attention_forward", at + 5, at + 8)
        trace.kernel("flash_fwd_kernel", at + 6, at + idle + matrix, end)
        at = end
    return trace


@pytest.fixture(scope="module")
def explained(samples):
    known = {}

    def explained_pair(name: str):
        if name not in known:
            found = []
            for vendor in ("h100", "mi300"):
                (file,) = load.load([str(samples / "traces" / vendor / f"{name}.json.gz")]).files
                run = file.runs[0]
                found.append(Traced(vendor, run.trace, gpus.match(run.gpu_info).gpu))
            known[name] = explain(*found)
        return known[name]

    return explained_pair


@pytest.mark.parametrize("cause", ["host_launch", "data", "synchronisation", "other"])
@pytest.mark.parametrize(("share", "limits"), [(0.499, False), (0.501, True)])
def test_each_cause_of_idle_time_limits_a_step_from_half_of_it(cause, share, limits):
    idle = {f"idle_{each}": 0.001 for each in ("host_launch", "data", "synchronisation", "other")}
    idle |= {f"idle_{cause}": share - 0.003}
    step = TracedStep(seconds=1.0, parts={**idle, "attention": 1 - share})
    assert Traced("A", SimpleNamespace(steps=(step,)), None).limit == (
        f"idle_{cause}" if limits else "gpu"
    )


@pytest.mark.parametrize(
    ("seconds", "limits", "part"),
    [
        ((1.0, 0.9), ("idle_data", "idle_host_launch"), "idle_data"),
        ((1.0, 1.1), ("idle_data", "idle_host_launch"), "idle_host_launch"),
        # Of two that are equally slow, the second one's.
        ((1.0, 1.0), ("idle_data", "idle_host_launch"), "idle_host_launch"),
        ((1.0, 1.1), ("idle_data", "gpu"), "idle_data"),
        ((1.0, 0.9), ("gpu", "idle_synchronisation"), "idle_synchronisation"),
        ((1.0, 0.9), ("gpu", "idle_other"), "idle_other"),
        # If the GPU's work limits both, the part that the slower one loses most by; equal ones lose
        # nothing.
        ((1.0, 1.1), ("gpu", "gpu"), "attention"),
        ((1.0, 0.9), ("gpu", "gpu"), "normalization"),
        ((1.0, 1.0), ("gpu", "gpu"), "attention"),
    ],
)
def test_what_is_looked_at_first(seconds, limits, part):
    before, after = (
        SimpleNamespace(seconds=each, limit=limit)
        for each, limit in zip(seconds, limits, strict=True)
    )
    idle = tuple(
        Bar(f"idle_{cause}", 0.1, 0.1, None)
        for cause in ("data", "host_launch", "synchronisation", "other")
    )
    work = Bar("attention", 0.2, 0.3, None), Bar("normalization", 0.2, 0.15, None)
    assert Explanation(before, after, (*work, *idle), None, (None, None)).first_look.part == part


class TestRealPairs:
    @pytest.mark.parametrize("name", PAIRS)
    def test_bars_add_up_to_the_difference_of_the_steps(self, explained, name):
        found = explained(name)
        assert sum(bar.delta for bar in found.bars) == pytest.approx(found.delta, abs=2e-9)
        assert sum(bar.before for bar in found.bars) == pytest.approx(
            found.before.seconds, abs=2e-9
        )

    @pytest.mark.parametrize("name", PAIRS)
    def test_both_traces_do_the_same_work(self, explained, name):
        found = explained(name)
        assert found.products[0] == found.products[1]
        assert found.products[0] > 0
        assert found.unequal_work is None

    def test_qwen_loses_in_attention_and_products_on_one_gpu_and_elementwise_on_the_other(
        self, explained
    ):
        amd, nvidia = report.reasons(explained("Qwen_Qwen1.5-0.5B-Chat__1016005"))
        assert amd.startswith("mi300 is slower in matrix multiplication (+2.79 ms)")
        assert "attention (+1.19 ms)" in amd
        assert nvidia.startswith("h100 is slower in elementwise (+5.24 ms)")

    @pytest.mark.parametrize("name", [PAIRS[0], PAIRS[3]])
    def test_launches_limit_small_models_and_no_kernel_is_named(self, explained, name):
        found = explained(name)
        assert found.limits == ("idle_host_launch", "idle_host_launch")
        assert found.first_look.part == "idle_host_launch"
        assert report.look_first(found) == report.ADVICE["idle_host_launch"]
        assert "launch" in report.reasons(found)[0]
        assert len(report.reasons(found)) == 1

    def test_preprocessing_on_the_cpu_limits_timesformer(self, explained):
        found = explained("facebook_timesformer-base-finetuned-k400__1016002")
        assert found.limits == ("idle_data", "idle_data")
        assert report.look_first(found).startswith("CPU preprocessing")

    def test_products_have_the_speed_that_their_sizes_and_times_give(self, explained):
        # 48 products of 8944 × 1024 by 1024 × 2816 in 4.016 ms on H100 and 5.308 ms on MI300X.
        bar = next(bar for bar in explained(PAIRS[1]).bars if bar.part == "matrix_multiplication")
        operator = next(each for each in bar.operators if each.product and each.product.n == 2816)
        h100, mi300 = operator.achieved(explained(PAIRS[1]))
        assert h100.tflops == pytest.approx(48 * 2 * 8944 * 2816 * 1024 / 4.016e-3 / 1e12, rel=1e-3)
        assert h100.of_peak == pytest.approx(h100.tflops / 989.5, rel=1e-3)
        assert mi300.of_peak == pytest.approx(
            48 * 2 * 8944 * 2816 * 1024 / 5.308e-3 / 1e12 / 1307.4, rel=1e-3
        )

    @pytest.mark.parametrize("name", PAIRS)
    def test_the_screen_has_24_lines_of_80_columns(self, explained, name):
        lines = terminal.write(report.document(explained(name))).splitlines()
        assert len(lines) <= 22
        assert max(map(len, lines)) <= 80


class TestMadePairs:
    def test_the_slower_system_s_greatest_loss_is_looked_at_first(self):
        found = explain(traced(training(100, 50)), traced(training(100, 90), name="B"))
        assert found.delta == pytest.approx(40e-6)
        assert found.bars[0].part == "attention"
        assert report.look_first(found).startswith("attention: _flash_attention_forward")
        assert report.headline(found) == "A is 25% faster per GPU than B: 0.16 vs 0.20 ms per step"

    def test_the_words_are_those_of_a_comparison(self):
        def words(first, second):
            return report.headline(
                explain(traced(training(first, 50)), traced(training(second, 50), name="B"))
            )

        assert words(100, 101) == "A is 0.6% faster per GPU than B: 0.16 vs 0.16 ms per step"
        assert words(430, 180) == "B is 2.0× as fast per GPU as A: 0.24 vs 0.49 ms per step"
        assert words(415, 180).startswith("B is 98% faster per GPU than A: ")
        unknown = explain(
            traced(training(100, 50, shapes={})), traced(training(140, 50, shapes={}), name="B")
        )
        assert (
            report.headline(unknown)
            == "A is 25% faster per step than B, if both do the same work: 0.16 vs 0.20 ms per step"
        )
        assert next(report.caveats(unknown)).endswith(
            "whether both traces do the same work is unknown"
        )

    def test_a_single_step_has_no_interval_and_several_have_one(self):
        one = explain(traced(training(100, 50)), traced(training(100, 90), name="B"))
        assert one.interval is None
        assert "only one step or rank: the variation of these times is unknown" in report.caveats(
            one
        )
        five = explain(
            traced(training(100, 50, steps=5)), traced(training(120, 50, steps=5), name="B")
        )
        (bar,) = [bar for bar in five.bars if bar.part == "matrix_multiplication"]
        assert bar.interval[0] < 20e-6 < bar.interval[1]
        # Welch, five values of variance 2.5 each: 20 ± 2.306 · √(2 · 2.5 / 5) µs.
        assert bar.interval[1] - bar.interval[0] == pytest.approx(2 * 2.306e-6, rel=1e-3)

    def test_ranks_of_one_step_are_the_values_of_its_interval(self):
        before = traced(*(training(100 + rank, 50, rank=rank) for rank in range(4)))
        after = traced(*(training(150 + rank, 50, rank=rank) for rank in range(4)), name="B")
        (bar,) = [bar for bar in explain(before, after).bars if bar.part == "matrix_multiplication"]
        assert bar.interval[0] < bar.delta < bar.interval[1]

    def test_equal_traces_are_one(self):
        found = explain(traced(training(100, 50)), traced(training(100, 50), name="B"))
        assert found.delta == 0
        assert report.headline(found) == "Not compared: A and B are the same trace"
        assert "pass the traces of two runs" in terminal.write(report.document(found))
        assert report.waterfall(found)["values"][-1] == pytest.approx(
            report.waterfall(found)["values"][0]
        )

    def test_different_work_is_said_first(self):
        half = {**SHAPES, "Input Dims": [[2048, 8192], [8192, 1024]]}
        found = explain(traced(training(100, 50)), traced(training(60, 50, shapes=half), name="B"))
        assert found.unequal_work == pytest.approx(0.5)
        work = "different work, a step of A has 2.00× the matrix-product FLOPs of B"
        assert report.headline(found) == f"Not compared: {work}"
        assert report.brief(found) == work
        shown = terminal.write(report.document(found))
        assert " ".join(shown.split()).startswith(f"Not compared: {work} ms per step ")
        assert "faster" not in shown
        assert "slower" not in shown
        assert report.SAME_WORK.partition(" (")[0] in " ".join(shown.split())

    def test_a_part_that_only_one_has_is_different_work(self):
        def other(convolution, unknown=0.0, shapes=None):
            made = training(100, 50, shapes=shapes or {})
            made.operator("aten::cudnn_convolution", 9, 10)
            made.kernel("cutlass_fprop", 9.5, 160, 160 + convolution)
            plain = training(100, 50, shapes=shapes or {})
            plain.kernel("opaque", 9.5, 160, 160 + unknown)
            return explain(traced(plain), traced(made, name="B"))

        # Of 150 µs of computation: 7.9 µs more are 5.003%, 7.8 µs are 4.94%.
        assert other(7.8).is_comparable
        assert not other(7.9).is_comparable
        # What no rule recognizes may be the same work: a tenth of B's share is 0.5%, or 0.75 µs.
        assert not other(7.9, unknown=0.7).is_comparable
        assert other(7.9, unknown=0.8).is_comparable
        assert other(7.9, shapes=SHAPES).is_comparable
        found = (
            "Not compared: different work, convolution takes 0.0% of the computation in A and 5.0%"
            " in B"
        )
        assert report.headline(other(7.9)) == found

    @pytest.mark.parametrize(
        ("first", "second", "part"),
        [
            ("mi300/Qwen_Qwen1.5-0.5B-Chat__1016005", "mi300/resnet_act_checkpoint", "convolution"),
            ("h100/Qwen_Qwen1.5-0.5B-Chat__1016005", "b200/eager_trace", "expert routing"),
        ],
    )
    def test_real_traces_of_other_models_are_not_compared(self, samples, first, second, part):
        runs = [
            load.load([str(samples / "traces" / f"{name}.json.gz")]).files[0].runs[0]
            for name in (first, second)
        ]
        found = explain(
            *(Traced(name, run.trace, None) for name, run in zip("AB", runs, strict=True))
        )
        assert report.headline(found).startswith(
            f"Not compared: different work, {part} takes 0.0% of the computation in A and "
        )
        assert "slower" not in terminal.write(report.document(found))

    def test_where_both_gpus_idle_hosts_are_compared(self):
        def first_caveat(idle):
            second = traced(training(10, 10, idle=90), name="B")
            return next(report.caveats(explain(traced(training(10, 10, idle=idle)), second)))

        text = "the GPU is idle for 80% and 82% of the step: this compares hosts, not GPUs"
        assert first_caveat(80.1) == text
        assert "hosts" not in first_caveat(79.9)

    def test_a_uniform_slowdown_is_one_of_clocks(self):
        def look(*seconds, gpu=H100):
            def made(*times):
                trace = training(*times[:2], 10.0)
                trace.operator("aten::gelu", 9, 10)
                trace.kernel("gelu_kernel", 9.5, 10 + sum(times[:2]), 10 + sum(times))
                return trace

            return report.look_first(
                explain(traced(made(100, 50, 20)), traced(made(*seconds), name="B", gpu=gpu))
            )

        text = "clocks and power limit: all kinds of kernels are about 4% slower on B"
        assert look(104, 52, 20.8) == text
        # Of 4%, a part may change by 3% to 5%.
        assert look(104, 52, 20.65) == text
        assert not look(104, 52, 20.5).startswith("clocks")
        assert not look(104, 52, 20.8, gpu=None).startswith("clocks")
        assert (
            look(96, 48, 19.2)
            == "clocks and power limit: all kinds of kernels are about 4% slower on A"
        )

    def test_the_limit_of_the_same_work(self):
        def other(columns):
            shapes = {**SHAPES, "Input Dims": [[columns, 8192], [8192, 1024]]}
            return explain(
                traced(training(100, 50)), traced(training(120, 50, shapes=shapes), name="B")
            ).unequal_work

        limit = round(4096 * (1 + UNEQUAL))
        assert other(limit - 2) is None
        assert other(limit + 2) is not None

    def test_steps_that_vary_more_than_they_differ_are_no_difference(self):
        found = explain(
            traced(training(100, 50, steps=5)), traced(training(101, 50, steps=5), name="B")
        )
        assert report.headline(found).startswith("No significant difference between A and B: ")

    def test_a_speed_above_the_hardware_s_is_not_shown(self):
        # 68.7 GFLOP in 10 µs are 6,872 TFLOP/s.
        found = explain(traced(training(10, 50)), traced(training(100, 50), name="B"))
        (bar,) = [bar for bar in found.bars if bar.part == "matrix_multiplication"]
        first, second = bar.operators[0].achieved(found)
        assert first is None
        assert second.tflops == pytest.approx(687.2, rel=1e-3)

    def test_operators_of_two_vendors_are_one_where_they_do_the_same(self):
        traces = []
        for vendor, kernel in (("cudnn", "cutlass_fprop"), ("miopen", "igemm_fwd")):
            trace = MadeTrace()
            trace.operator(
                f"aten::{vendor}_convolution", 1, 4, **{"Input Dims": [[8, 3, 224, 224]]}
            )
            trace.kernel(kernel, 2, 10, 50)
            traces.append(trace)
        found = explain(traced(traces[0]), traced(traces[1], name="B"))
        (operator,) = next(bar for bar in found.bars if bar.part == "convolution").operators
        assert operator.before
        assert operator.after

    def test_the_waterfall_leads_from_one_step_time_to_the_other(self):
        found = explain(traced(training(100, 50)), traced(training(130, 30), name="B"))
        bars = report.waterfall(found)
        assert bars["values"][0] == pytest.approx(0.16)
        assert bars["values"][-1] == pytest.approx(0.17)
        for index in range(1, len(bars["values"]) - 1):
            before = bars["bases"][index - 1] + bars["values"][index - 1]
            assert bars["bases"][index] == pytest.approx(before)


class TestProducts:
    @pytest.mark.parametrize(
        ("operator", "shapes", "sizes"),
        [
            ("aten::mm", [(8, 16), (16, 4)], (1, 8, 4, 16)),
            ("aten::addmm", [(4,), (8, 16), (16, 4)], (1, 8, 4, 16)),
            ("aten::bmm", [(3, 8, 16), (3, 16, 4)], (3, 8, 4, 16)),
            ("aten::baddbmm", [(3, 8, 4), (3, 8, 16), (3, 16, 4)], (3, 8, 4, 16)),
        ],
    )
    def test_sizes_of_products(self, operator, shapes, sizes):
        assert product_of(operator, shapes, ["c10::BFloat16"] * len(shapes))[:4] == sizes

    @pytest.mark.parametrize(
        ("operator", "shapes", "types"),
        [
            (None, [(8, 16), (16, 4)], ["float"] * 2),
            ("aten::mul", [(8, 16), (16, 4)], ["float"] * 2),
            ("aten::mm", [(8, 16), (15, 4)], ["float"] * 2),
            ("aten::mm", [(8, 16)], ["float"]),
            ("aten::mm", [(), ()], ["float"] * 2),
            ("aten::mm", [(8, 0), (0, 4)], ["float"] * 2),
            ("aten::mm", [(8, 16), (16, 4)], ["long int"] * 2),
        ],
    )
    def test_what_is_no_product_of_known_size(self, operator, shapes, types):
        assert product_of(operator, shapes, types) is None

    def test_unknown_sizes_leave_the_flops_unknown(self):
        assert flops_of(traced(training(100, 50, shapes={})).trace) is None

    def test_a_few_unknown_sizes_are_no_other_work(self):
        # 5 µs of 105 µs: no FLOPs rather than 5 % less of them.
        made = training(100, 50)
        made.operator("te::linear", 9, 10)
        made.kernel("nvjet_tst", 9.5, 160, 165)
        found = explain(traced(training(100, 50)), traced(made, name="B"))
        assert found.products == (2 * 4096 * 8192 * 1024, None)
        assert found.unequal_work is None

    def test_work_that_the_result_leaves_out_has_unknown_sizes(self):
        trace = traced(training(100, 50)).trace
        (step,) = trace.steps
        longer = msgspec.structs.replace(
            step, parts={**step.parts, "matrix_multiplication": 110e-6}
        )
        assert flops_of(msgspec.structs.replace(trace, steps=(longer,))) is None

    @pytest.mark.parametrize(
        ("kernel", "helper"),
        [
            (
                "Cijk_Alik_Bljk_BBS_BH_MT256x192x64_MI16x16x1_SN",
                "Cijk_SS_BiasS_HAS_ScaleAlphaVec_PostGSU16_VW4",
            ),
            ("Cijk_Ailk_Bljk_BBS_BH_MT64x64x64_MI16x16x16x1_SN", "Cijk_B_GB"),
            (
                "nvjet_tst_64x64_64x16_2x1_2cta_v_bz_splitK_TNT",
                "void cublasLt::splitKreduce_kernel<32, 16, int>",
            ),
            (
                "void cutlass::device_kernel<GemmUniversal<Sm90ColBroadcast, DefaultCopy> >",
                "Memset (Device)",
            ),
        ],
    )
    def test_a_product_that_is_split_is_one_call(self, kernel, helper):
        def work(name, seconds):
            types = ("c10::BFloat16",) * 2
            return TracedWork(
                **{
                    "kernel": name,
                    "part": "matrix_multiplication",
                    "operator": "aten::mm",
                    "types": types,
                },
                **{"shapes": ((4096, 8192), (8192, 1024)), "calls": 3.0},
                **{"seconds": seconds, "exposed_seconds": seconds},
            )

        trace = traced(training(100, 50)).trace
        split = msgspec.structs.replace(trace, work=(work(kernel, 300e-6), work(helper, 9e-6)))
        assert calls_of(split.work) == 3
        assert flops_of(split) == 3 * 2 * 4096 * 8192 * 1024


def test_a_narrow_screen_loses_no_value():
    long = "A system with a long name"
    explanation = explain(
        traced(training(900, 200, steps=3)), traced(training(1200, 200, 430, steps=3), name=long)
    )
    text = terminal.write(report.document(explanation), width=50)
    assert max(map(len, text.splitlines())) <= 50
    assert "+0.30" in text
    assert "kernels" not in text
