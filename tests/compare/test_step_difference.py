"""The difference of two traces in full, of steps and work whose times the test states."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
import scipy.stats
from made_runs import make_run

from tprimat.analysis.traces.products import Product
from tprimat.catalog import gpus
from tprimat.compare import step_difference as module
from tprimat.compare.step_difference import (
    Achieved,
    Bar,
    Explanation,
    Operator,
    Traced,
    explain,
    is_limited,
    traced,
)
from tprimat.results.run import GpuInfo
from tprimat.results.trace import Trace, TracedStep, TracedWork

H100, MI300X = (
    gpus.match(GpuInfo(device_name=f"{name}")).gpu for name in ("NVIDIA H100 80GB HBM3", "MI300X")
)


def step(seconds=1.0, name="1", rank=None, hidden=0.0, **parts):
    return TracedStep(
        name=name, rank=rank, seconds=seconds, parts=parts, overlapped_communication=hidden
    )


def of(*steps, work=(), name="A", gpu=None):
    return Traced(name, Trace(steps=steps, work=tuple(work)), gpu)


def work(exposed, part="attention", operator="aten::x", kernel="kernel", shapes=(), **fields):
    known = {"calls": 1.0, "seconds": exposed, "types": ()}
    return TracedWork(
        kernel=kernel,
        part=part,
        operator=operator,
        shapes=shapes,
        exposed_seconds=exposed,
        **{**known, **fields},
    )


def difference(before, after):
    """Welch's interval of the difference of means."""
    return pytest.approx(
        scipy.stats.ttest_ind(after, before, equal_var=False).confidence_interval()
    )


class TestTraced:
    MADE = of(
        step(
            2.0,
            "1",
            hidden=0.25,
            attention=0.5,
            idle_data=0.25,
            idle_other=0.25,
            communication_x=0.5,
            copies=0.5,
        ),
        step(2.5, "2", hidden=0.5, attention=1.5, loss=1.0),
        step(4.5, "3", hidden=1.5, attention=1.0, loss=2.0, idle_data=0.25, communication_y=1.25),
    )

    def test_means_of_its_steps(self):
        assert (self.MADE.seconds, self.MADE.overlapped_communication) == (3.0, 0.75)
        assert self.MADE.idle == pytest.approx(0.25 / 3.0)
        # 1.0 s of attention and 1.0 s of loss a step.
        assert self.MADE.shares == pytest.approx({"attention": 0.5, "loss": 0.5})
        assert of(step(attention=0.0, loss=2.0)).shares == {"loss": 1.0}

    @pytest.mark.parametrize(
        ("parts", "limit"),
        [
            ({"attention": 1.0}, "gpu"),
            ({"idle_data": 0.5}, "idle_data"),
            ({"idle_data": 0.499}, "gpu"),
            (
                {
                    "idle_data": 0.1,
                    "idle_host_launch": 0.2,
                    "idle_synchronisation": 0.12,
                    "idle_other": 0.1,
                },
                "idle_host_launch",
            ),
            (
                {"idle_data": 0.1, "idle_synchronisation": 0.3, "idle_other": 0.2},
                "idle_synchronisation",
            ),
            ({"idle_other": 0.4, "idle_data": 0.1}, "idle_other"),
            ({"communication_all_reduce": 0.3, "communication_x": 0.2}, "communication"),
            ({"communication_all_reduce": 0.3, "communication_x": 0.199}, "gpu"),
            ({"communication_x": 0.5, "idle_data": 0.5}, "idle_data"),
        ],
    )
    def test_what_limits_it(self, parts, limit):
        twice = {name: 2 * seconds for name, seconds in parts.items()}
        assert of(step(1.5, **twice), step(2.5, **twice)).limit == limit

    def test_of_a_run(self):
        trace = Trace(steps=(step(attention=1.0),))
        assert traced(make_run(trace=trace), "x") == Traced("x", trace, H100, ranks=8)
        assert traced(make_run("unheard-of", trace=trace), "x").gpu is None
        assert traced(make_run(), "x") is None


@pytest.mark.parametrize(
    ("part", "limit", "belongs"),
    [
        ("communication_all_reduce", "communication", True),
        ("attention", "communication", False),
        ("idle_data", "idle_data", True),
        ("idle_data", "idle_other", False),
        ("communication", "communication", False),
    ],
)
def test_what_belongs_to_a_limit(part, limit, belongs):
    assert is_limited(part, limit) is belongs


class TestExplain:
    BEFORE = of(
        step(2.0, "1", attention=1.0, loss=1.0),
        step(3.0, "2", attention=2.5, loss=0.5),
        step(2.5, "3", attention=1.5, loss=0.75, copies=0.25),
        work=(work(1.0), work(0.2, "loss", "aten::y")),
    )
    AFTER = of(
        step(4.0, "1", attention=2.0, loss=1.0, routing=1.0),
        step(5.0, "2", attention=2.5, loss=1.5, routing=1.0),
        work=(work(0.4), work(0.3, "routing", None, "route")),
        name="B",
    )

    def test_in_full(self):
        found = explain(self.BEFORE, self.AFTER)
        x, y, route = (
            (work(1.0), work(0.4)),
            work(0.2, "loss", "aten::y"),
            work(0.3, "routing", None, "route"),
        )
        bars = (
            Bar("routing", 0.0, 1.0, None, (Operator("route", (), (), (route,), None),)),
            Bar(
                "attention",
                pytest.approx(5 / 3),
                2.25,
                difference([1.0, 2.5, 1.5], [2.0, 2.5]),
                (Operator("aten::x", (), (x[0],), (x[1],), None),),
            ),
            Bar(
                "loss",
                0.75,
                1.25,
                difference([1.0, 0.5, 0.75], [1.0, 1.5]),
                (Operator("aten::y", (), (y,), (), None),),
            ),
            Bar("copies", pytest.approx(1 / 12), 0.0, difference([0.0, 0.0, 0.25], [0.0, 0.0])),
        )
        assert found == Explanation(
            self.BEFORE, self.AFTER, bars, difference([2.0, 3.0, 2.5], [4.0, 5.0]), (None, None)
        )
        assert [bar.delta for bar in found.bars] == pytest.approx([1.0, 2.25 - 5 / 3, 0.5, -1 / 12])
        assert (found.delta, found.limits) == (2.0, ("gpu", "gpu"))
        assert [each.delta for bar in found.bars for each in bar.operators] == pytest.approx(
            [0.3, -0.6, -0.2]
        )
        assert [each.seconds for bar in found.bars for each in bar.operators] == [
            (0.0, 0.3),
            (1.0, 0.4),
            (0.2, 0.0),
        ]

    def test_the_ranks_of_a_step_are_one_value_and_those_of_a_single_step_are_values(self):
        places = [(number, rank) for number in (1, 2) for rank in (0, 1, 5)]
        two = [
            step(1.0 + rank + number, str(number), rank, loss=0.5 * rank) for number, rank in places
        ]
        assert module._by_unit(two) == [4.0, 5.0]
        assert module._by_unit(two, "loss") == [1.0, 1.0]
        assert module._by_unit(two[:3]) == [2.0, 3.0, 7.0]
        assert module._by_unit(two[:3], "loss") == [0.0, 0.5, 2.5]
        assert module._by_unit(two[:3], "attention") == [0.0, 0.0, 0.0]
        # Two records of one rank are one value.
        assert module._by_unit([step(1.0), step(3.0)]) == [2.0]

    def test_flops_of_products(self):
        shapes, types = ((8, 16), (16, 4)), ("c10::BFloat16",) * 2
        product = work(
            1.0, "matrix_multiplication", "aten::mm", "gemm", shapes, types=types, calls=3.0
        )
        made = of(step(2.0, matrix_multiplication=1.0), work=(product,))
        found = explain(made, self.AFTER)
        assert found.products == (3 * 2 * 8 * 16 * 4, None)
        (operator,) = (
            each
            for bar in found.bars
            for each in bar.operators
            if bar.part == "matrix_multiplication"
        )
        assert operator.product == Product(1, 8, 4, 16, "bf16")


class TestOperators:
    def test_work_of_one_operator_and_shape_is_one_and_the_longest_first(self):
        before = (
            work(0.1, kernel="a"),
            work(0.3, kernel="b"),
            work(0.5, shapes=((2, 3),)),
            work(9.0, "loss"),
        )
        after = (
            work(0.2, kernel="c"),
            work(0.7, kernel="d"),
            work(0.4, shapes=((2, 3),)),
            work(0.05, operator=None, kernel="e"),
        )
        assert module._operators(before, after, "attention") == (
            Operator("aten::x", (), (before[1], before[0]), (after[1], after[0]), None),
            Operator("aten::x", ((2, 3),), (before[2],), (after[2],), None),
            Operator("e", (), (), (after[3],), None),
        )

    @pytest.mark.parametrize(
        ("names", "called"),
        [
            (("aten::cudnn_convolution", "aten::miopen_convolution"), ["aten::convolution"]),
            (("aten::cudnn_convolution", "aten::cudnn_convolution"), ["aten::cudnn_convolution"]),
            (
                ("aten::_flash_attention_forward", "aten::_efficient_attention_forward"),
                ["aten::_attention_forward"],
            ),
            (
                ("aten::mkldnn_convolution_backward", "aten::thnn_conv2d"),
                ["aten::mkldnn_convolution_backward", "aten::thnn_conv2d"],
            ),
            (("aten::thnn_conv2d", "aten::cudnn_conv2d"), ["aten::conv2d"]),
            (("aten::_fused_attention", "aten::_cudnn_attention"), ["aten::_attention"]),
            (("aten::flash_x", "aten::efficient_x"), ["aten::flash_x", "aten::efficient_x"]),
            (("aten::xcudnn_conv", "aten::cudnn_conv"), ["aten::xcudnn_conv", "aten::cudnn_conv"]),
        ],
    )
    def test_operators_of_two_vendors_that_do_the_same_are_one(self, names, called):
        found = module._operators(
            [work(0.5, operator=names[0])], [work(0.2, operator=names[1])], "attention"
        )
        assert [each.name for each in found] == called


TYPES = ("c10::BFloat16",) * 2
PRODUCT = Product(1, 1000, 1000, 1000, "bf16")


class TestAchieved:
    def test_is_of_all_kernels_and_calls(self):
        each = (
            work(0.0, kernel="gemm", seconds=3e-6, calls=2.0),
            work(0.0, kernel="splitKreduce", seconds=1e-6),
        )
        # 2 · 2·10⁹ FLOP and 2 · 6·10⁶ bytes in 4 µs.
        found = module._achieved(PRODUCT, each, MI300X)
        assert found == Achieved(
            pytest.approx(1000.0),
            pytest.approx(3.0),
            pytest.approx(1000 / 1307.4),
            pytest.approx(3.0 / 5.3),
        )
        assert module._achieved(PRODUCT, each, None) == Achieved(
            pytest.approx(1000.0), pytest.approx(3.0), None, None
        )

    def test_above_what_the_gpu_can_do_it_is_unknown(self):
        ceiling = H100.ceiling_tflops("bf16")
        for factor, is_known in ((0.999, True), (1.001, False)):
            each = [work(0.0, kernel="gemm", seconds=2e9 / (factor * ceiling * 1e12))]
            assert (module._achieved(PRODUCT, each, H100) is not None) is is_known
        stub = SimpleNamespace(
            peak_tflops=lambda _: 800.0, ceiling_tflops=lambda _: 1000.0, bandwidth_gb_per_s=3000.0
        )
        assert (
            module._achieved(PRODUCT, [work(0.0, kernel="gemm", seconds=2e-6)], stub).of_peak
            == 1.25
        )
        # Without a GPU nothing is known to be too much.
        assert module._achieved(PRODUCT, [work(0.0, kernel="gemm", seconds=1e-9)], None) is not None

    def test_fp32_has_no_peak(self):
        product = PRODUCT._replace(precision="fp32")
        found = module._achieved(product, [work(0.0, kernel="gemm", seconds=1e-4)], H100)
        assert (found.of_peak, found.tflops) == (None, pytest.approx(20.0))
        assert found.of_bandwidth == pytest.approx(12e6 / 1e-4 / 1e12 / 3.35)
        assert (
            module._achieved(product, [work(0.0, kernel="gemm", seconds=1e-9)], H100).of_peak
            is None
        )

    def test_without_a_product_or_a_time_there_is_none(self):
        assert module._achieved(None, [work(0.0, kernel="gemm", seconds=1.0)], H100) is None
        assert module._achieved(PRODUCT, [work(0.0, kernel="gemm", seconds=0.0)], H100) is None
        assert module._achieved(PRODUCT, [], H100) is None

    def test_each_trace_has_its_gpu(self):
        each = (work(0.0, kernel="gemm", seconds=4e-6),), (work(0.0, kernel="gemm", seconds=8e-6),)
        operator = Operator("aten::mm", (), *each, PRODUCT)
        found = explanation(before=SimpleNamespace(gpu=H100), after=SimpleNamespace(gpu=MI300X))
        first, second = operator.achieved(found)
        assert (first.of_peak, second.of_peak) == (
            pytest.approx(500 / 989.5, rel=1e-3),
            pytest.approx(250 / 1307.4),
        )


def explanation(*bars, before=None, after=None, flops=(None, None)):
    return Explanation(before, after, bars, None, flops)


@pytest.mark.parametrize(
    ("flops", "ratio"),
    [
        ((100.0, 150.0), 1.5),
        ((100.0, 50.0), 0.5),
        ((100.0, 102.1), 1.021),
        ((100.0, 101.9), None),
        ((100.0, 97.9), 0.979),
        ((100.0, 98.1), None),
        ((None, 50.0), None),
        ((100.0, None), None),
        ((0.0, 50.0), None),
    ],
)
def test_unequal_work(flops, ratio):
    found = explanation(before=of(step()), after=of(step(2.0)), flops=flops)
    assert found.unequal_work == (None if ratio is None else pytest.approx(ratio))


def kinds(one, other, flops=(None, None)):
    sides = (SimpleNamespace(shares=each, trace=id(each)) for each in (one, other))
    return explanation(before=next(sides), after=next(sides), flops=flops)


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ({"loss": 1.0}, {"convolution": 0.05}, ("convolution", (0.0, 0.05))),
        ({"loss": 1.0}, {"convolution": 0.0499}, None),
        ({"routing": 0.5}, {"loss": 1.0}, ("routing", (0.5, 0.0))),
        # Below a tenth of the other one's share.
        ({"routing": 0.5}, {"routing": 0.05}, None),
        ({"routing": 0.5}, {"routing": 0.0499}, ("routing", (0.5, 0.0499))),
        # What no rule recognizes may be it.
        ({"routing": 0.5}, {"routing": 0.03, "other": 0.02}, None),
        (
            {"routing": 0.5, "other": 0.4},
            {"routing": 0.03, "other": 0.019},
            ("routing", (0.5, 0.03)),
        ),
        ({"other": 0.05}, {"routing": 0.5}, None),
        # Attention may be products with a softmax.
        ({"softmax": 0.3}, {"attention": 0.4}, None),
        ({"softmax": 0.3, "attention": 0.2}, {"loss": 1.0}, ("attention", (0.5, 0.0))),
        # The first of several.
        ({"matrix_multiplication": 0.5, "routing": 0.5}, {"loss": 1.0}, ("routing", (0.5, 0.0))),
        ({"loss": 1.0}, {"embedding": 1.0}, None),
    ],
)
def test_a_part_that_only_one_model_has(one, other, kind):
    assert kinds(one, other).other_kind == kind
    assert kinds(one, other, (1.0, None)).other_kind == kind
    # Products of known size tell whether the work is the same.
    assert kinds(one, other, (1.0, 1.0)).other_kind is None


@pytest.mark.parametrize(
    ("idle", "is_of_hosts"),
    [((0.8, 0.9), True), ((0.9, 0.8), True), ((0.799, 0.9), False), ((0.9, 0.799), False)],
)
def test_a_comparison_of_hosts(idle, is_of_hosts):
    one, other = (SimpleNamespace(idle=each) for each in idle)
    assert explanation(before=one, after=other).is_of_hosts is is_of_hosts


def bar(part, before, after):
    return Bar(part, before, after, None)


def slowed(*factors, parts=("attention", "loss", "softmax", "embedding"), **sides):
    """Parts of 40, 30, 20 and 10 s before, times a factor each after."""
    bars = [
        bar(part, time, time * factor)
        for part, time, factor in zip(parts, (40, 30, 20, 10), factors, strict=False)
    ]
    known = {"before": {}, "after": {}, **sides}
    one, other = (
        SimpleNamespace(**{"seconds": 100.0, "gpu": H100, "limit": "gpu", **each})
        for each in known.values()
    )
    return explanation(*bars, before=one, after=other)


@pytest.mark.parametrize(
    ("found", "factor"),
    [
        (slowed(1.2, 1.2, 1.2, 1.2), 1.2),
        (slowed(1.2, 1.2, 1.2), 1.2),
        (slowed(1.2, 1.2), None),
        # The mean is 1.2; a quarter of 0.2 is 0.05.
        (slowed(1.2, 1.22, 1.195, 1.151), 1.2002),
        (slowed(1.2, 1.22, 1.195, 1.14), None),
        (slowed(1.2, 1.185, 1.2, 1.249), 1.2004),
        (slowed(1.2, 1.185, 1.2, 1.26), None),
        (slowed(0.8, 0.8, 0.8, 0.8), 0.8),
        (slowed(1.011, 1.011, 1.011), 1.011),
        (slowed(1.009, 1.009, 1.009), None),
        (slowed(0.991, 0.991, 0.991), None),
        (slowed(1.2, 1.2, 1.2, 9.0, parts=("attention", "loss", "softmax", "idle_data")), 1.2),
        (slowed(1.2, 1.2, 1.2, after={"gpu": MI300X}), None),
        (slowed(1.2, 1.2, 1.2, before={"limit": "idle_data"}), None),
        (slowed(1.2, 1.2, 1.2, after={"limit": "idle_data"}), None),
        # Parts below 2 % of the step don't count.
        (slowed(1.2, 1.2, 1.2, 9.0, before={"seconds": 501.0}), 1.2),
        (slowed(1.2, 1.2, 1.2, 1.2, before={"seconds": 1000.0}), 1.2),
        (slowed(1.2, 1.2, 1.2, 1.2, before={"seconds": 1001.0}), None),
    ],
)
def test_all_computation_is_slower_by_one_factor(found, factor):
    assert found.uniform == (None if factor is None else pytest.approx(factor, abs=2e-4))


def test_what_is_comparable():
    one, other = of(step(attention=1.0)), of(step(attention=2.0), name="B")
    assert explain(one, other).is_comparable
    assert not explain(one, dataclasses.replace(one, name="B")).is_comparable
    assert not explain(one, of(step(routing=1.0))).is_comparable
    unequal = dataclasses.replace(explain(one, other), products=(1.0, 2.0))
    assert not unequal.is_comparable


def looked(seconds, limits, *bars):
    sides = [
        SimpleNamespace(seconds=each, limit=limit)
        for each, limit in zip(seconds, limits, strict=True)
    ]
    return explanation(*bars, before=sides[0], after=sides[1]).first_look


def test_what_is_looked_at_first():
    reduce, gather, idle = (
        bar("communication_all_reduce", 3.0, 1.0), bar("communication_all_gather", 1.0, 4.0), bar("idle_data", 9.0, 9.0)
    )  # fmt: skip
    # Of several collectives the longest of both traces.
    assert looked((1.0, 1.5), ("gpu", "communication"), idle, reduce, gather) is gather
    assert (
        looked(
            (1.0, 1.5), ("gpu", "communication"), idle, gather, bar("communication_x", 5.0, 0.5)
        ).part
        == "communication_x"
    )
    assert looked((1.0, 1.5), ("gpu", "idle_other"), idle) is None
    # The slower one's limit first.
    assert looked((1.0, 1.5), ("idle_data", "communication"), idle, reduce) is reduce
    assert looked((1.5, 1.0), ("idle_data", "communication"), idle, reduce) is idle
    assert looked((1.5, 1.0), ("gpu", "communication"), idle, reduce) is reduce
    assert looked((1.0, 1.0), ("idle_data", "communication"), idle, reduce) is reduce
    # Of computation the first in which the slower one loses.
    gain, loss, more = (
        bar("attention", 1.0, 0.5),
        bar("loss", 1.0, 1.25),
        bar("softmax", 1.0, 1.125),
    )
    even = bar("embedding", 1.0, 1.0)
    assert looked((1.0, 1.5), ("gpu", "gpu"), even, gain, more) is more
    assert looked((1.5, 1.0), ("gpu", "gpu"), even, loss, gain) is gain
    assert looked((1.0, 1.0), ("gpu", "gpu"), gain, loss) is loss
    assert looked((1.0, 1.5), ("gpu", "gpu"), gain, loss, more) is loss
    assert looked((1.5, 1.0), ("gpu", "gpu"), loss, gain, more) is gain
    assert looked((1.0, 1.5), ("gpu", "gpu"), gain) is gain
    assert looked((1.0, 1.5), ("gpu", "gpu"), bar("x", 1.0, 1.0)).part == "x"
    assert looked((1.0, 1.5), ("gpu", "gpu")) is None
