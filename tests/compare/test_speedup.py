"""The ratio of two systems' rates, of runs whose rates the test states; intervals by scipy and by
hand.
"""

from __future__ import annotations

import math
import statistics

import pytest
import scipy.stats
from made_runs import make_run
from made_systems import result, segment, system, value

from tprimat.analysis import intervals
from tprimat.analysis.intervals import Difference
from tprimat.compare import speedup
from tprimat.compare.result import RATE, Ratio, SegmentRatio
from tprimat.results.run import MemoryMetrics


def runs(*rates, **fields):
    return [result(each, **fields) for each in rates]


def of(*rates, **fields):
    return system("A", *runs(*rates, **fields))


def welch(first, second, confidence=0.95):
    """The bounds of the ratio of two geometric means."""
    test = scipy.stats.ttest_ind(
        *([math.log(each) for each in of] for of in (first, second)), equal_var=False
    )
    return [math.exp(each) for each in test.confidence_interval(confidence)]


def needed(value, spread):
    return intervals.runs_needed(abs(value - 1), spread)


def deviation(*rates):
    return statistics.stdev(map(math.log, rates))


ONE, OTHER = (100.0, 104.0, 101.0), (150.0, 158.0, 149.0, 152.0)
LOGS = [[math.log(each) for each in of] for of in (OTHER, ONE)]


def test_of_several_runs():
    # The rate of a system is another one where its runs are of blocks.
    made = system("B", *runs(*OTHER), values={RATE: value(163.2)})
    found = speedup.ratio(system("A", *runs(*ONE), values={RATE: value(102.0)}), made)
    low, high = welch(OTHER, ONE)
    effect = intervals.difference(*LOGS).minimum_detectable_effect
    assert found == Ratio(
        pytest.approx(1.6), pytest.approx(low), pytest.approx(high), "welch", effect
    )


@pytest.mark.parametrize(("one", "other"), [((None,), (150.0,)), ((100.0,), (None, None))])
def test_without_a_rate_there_is_none(one, other):
    assert speedup.ratio(of(*one), of(*other)) is None


@pytest.mark.parametrize("unsettled", [(True, False), (False, True)])
def test_a_run_that_is_starting_up_leaves_the_value_alone(unsettled):
    parts = {"segments": (segment(4, 30, 2.0), segment(31, 60, 1.0))}
    one, other = (
        of(*rates, unsettled=each, **parts)
        for rates, each in zip((ONE, OTHER), unsettled, strict=True)
    )
    value = statistics.geometric_mean(OTHER) / statistics.geometric_mean(ONE)
    assert speedup.ratio(one, other) == Ratio(pytest.approx(value), None, None)


def test_of_single_runs_there_are_no_bounds():
    parts = (segment(4, 30, 2.0), segment(31, 60, 1.0))
    assert speedup.ratio(of(100.0), of(150.0)) == Ratio(pytest.approx(1.5), None, None)
    # The segments of the second have 500 and 1000 tokens/s/GPU, the first has 100.
    ratios = (
        SegmentRatio(pytest.approx(5.0), "4–30", None),
        SegmentRatio(pytest.approx(10.0), "31–60", None),
    )
    assert speedup.ratio(of(100.0), of(150.0, segments=parts)) == Ratio(
        pytest.approx(1.5), None, None, segments=ratios
    )


@pytest.mark.parametrize("turn", [1, -1])
def test_where_both_may_be_equally_fast_the_runs_that_are_needed_are_told(turn):
    near = (102.0, 105.0, 104.5)
    first, second = (ONE, near)[::turn]
    found = speedup.ratio(of(*first), of(*second))
    low, high = welch(second, first)
    assert low < 1 < high
    value = statistics.geometric_mean(second) / statistics.geometric_mean(first)
    assert found.value == pytest.approx(value)
    # The spread is that of the system that varies more, more than the error of both needs.
    assert deviation(*ONE) > deviation(*near)
    assert found.runs_needed == needed(value, deviation(*ONE))
    assert (found.low, found.high, found.method) == (
        pytest.approx(low),
        pytest.approx(high),
        "welch",
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((100.0, 100.1), (100.5, 101.9)),
        ((100.5, 101.9), (100.0, 100.1)),
        (ONE, (105.0,)),
        ((105.0,), ONE),
    ],
)
def test_the_spread_of_the_runs_that_vary_more_decides(one, other):
    found = speedup.ratio(of(*one), of(*other))
    assert found.low < 1 < found.high
    spread = max(deviation(*each) for each in (one, other) if len(each) > 1)
    assert found.runs_needed == needed(found.value, spread)


def test_what_is_printed_coarsely_needs_more_runs_than_its_spread_says():
    one, other = of(100.0, 100.0, rounding=0.06), of(101.0, 101.1, rounding=0.06)
    found = speedup.ratio(one, other)
    # The variance of a uniform distribution of this width.
    error = math.sqrt(2 * 0.06**2 / 12 / 2)
    half = scipy.stats.t.ppf(0.975, 2) * error
    assert math.log(found.high / found.low) == pytest.approx(2 * half)
    assert found.runs_needed == needed(found.value, error)
    wide = speedup.ratio(of(100.0, 100.0, rounding=0.01), of(101.0, 101.1, rounding=0.06))
    # Welch's degrees of freedom of two runs each whose variances are as 36 to 1.
    half = scipy.stats.t.ppf(0.975, (36 + 1) ** 2 / (36**2 + 1))
    assert math.log(wide.high / wide.low) == pytest.approx(
        2 * half * math.sqrt((0.06**2 + 0.01**2) / 12 / 2)
    )


@pytest.mark.parametrize(
    ("spread", "is_too_wide"),
    # An interval of two runs each is 2 · 4.303 · √(s²) wide, of logarithms: log 4 is reached at s =
    # 0.1611.
    [(0.1610, False), (0.1612, True)],
)
def test_an_interval_that_says_nothing_is_withheld(spread, is_too_wide):
    apart = math.exp(spread / math.sqrt(2))
    rates = (100.0 / apart, 100.0 * apart)
    found = speedup.ratio(of(*rates), of(*(1.1 * each for each in rates)))
    effect = intervals.welch(*[[math.log(each) for each in rates]] * 2).minimum_detectable_effect
    runs_needed = needed(1.1, spread)
    if is_too_wide:
        expected = Ratio(
            pytest.approx(1.1),
            None,
            None,
            None,
            pytest.approx(effect),
            runs_needed,
            is_too_wide=True,
        )
        assert found == expected
    else:
        assert found.high / found.low == pytest.approx(4, rel=0.002)
        assert (found.method, found.is_too_wide, found.runs_needed) == ("welch", False, runs_needed)
    # One that excludes that both are equally fast says that.
    far = speedup.ratio(of(*rates), of(*(3.0 * each for each in rates)))
    assert (far.method, far.runs_needed) == ("welch", None)


def rounds(*rates, order=0, session="s", numbers=None, starts=None):
    """Runs of one session, a round each; of two systems with order 0 and 1 each is first in every
    second round.
    """
    found = []
    for index, rate in enumerate(rates):
        number = (numbers or range(1, 99))[index]
        place = (order + index) % 2
        start = (starts or {}).get(number, f"2026-02-02T{10 + index}:0{place}:00+00:00")
        memory = MemoryMetrics(peak_memory_allocated_gb=rate / 10)
        run = make_run(session=session, round=number, timestamp=start, memory_metrics=memory)
        found.append(result(rate, run))
    return found


DRIFT, FASTER = (100.0, 110.0, 121.0, 130.0), (150.0, 164.0, 183.0, 196.0)


def paired(first, second, transform=math.log):
    differences = [
        transform(one) - transform(other) for one, other in zip(first, second, strict=True)
    ]
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    return Difference(
        pytest.approx(statistics.fmean(differences)),
        pytest.approx(error),
        len(differences) - 1,
        "paired",
    )


def method(one, other):
    return speedup.difference(one, other).method


class TestRounds:
    def test_are_compared_in_pairs(self):
        one, other = rounds(*FASTER), rounds(*DRIFT, order=1)
        assert speedup.difference(one, other) == paired(FASTER, DRIFT)
        # By their numbers, in whatever order they come.
        assert speedup.difference(
            [one[2], one[0], one[1], one[3]], [other[2], other[0], other[3], other[1]]
        ) == paired(FASTER, DRIFT)
        memory = speedup.difference(one, other, "peak_memory_allocated_gb", float)
        assert memory == paired(
            [each / 10 for each in FASTER], [each / 10 for each in DRIFT], float
        )
        found = speedup.ratio(system("A", *other), system("B", *one))
        spread = statistics.stdev(math.log(a / b) for a, b in zip(FASTER, DRIFT, strict=True))
        half = scipy.stats.t.ppf(0.975, 3) * spread / 2
        assert (found.method, found.runs_needed) == ("paired", None)
        assert (math.log(found.high / found.low), found.low > 1) == (pytest.approx(2 * half), True)

    def test_need_as_many_runs_as_their_differences_vary(self):
        near = (101.0, 109.0, 122.5, 131.5)
        found = speedup.ratio(system("A", *rounds(*DRIFT, order=1)), system("B", *rounds(*near)))
        # Of each system, as if the two varied alike.
        spread = statistics.stdev(
            math.log(a / b) for a, b in zip(near, DRIFT, strict=True)
        ) / math.sqrt(2)
        assert found.low < 1 < found.high
        # The runs themselves vary by 11 %.
        assert (
            found.runs_needed
            == needed(found.value, spread)
            != needed(found.value, deviation(*DRIFT))
        )

    def test_that_never_vary_are_compared_as_others_are(self):
        assert method(rounds(*DRIFT), rounds(*DRIFT, order=1)) == "welch"

    @pytest.mark.parametrize(
        ("changes", "found"),
        [
            ([{}, {"order": 1}], "paired"),
            # Always the same one first, in the first two rounds, or in the last two.
            (
                [{}, {"starts": {n: f"2026-02-02T{9 + n}:09:00+00:00" for n in (1, 2, 3, 4)}}],
                "welch",
            ),
            (
                [
                    {},
                    {
                        "order": 1,
                        "starts": {4: "2026-02-02T13:09:00+00:00", 3: "2026-02-02T12:09:00+00:00"},
                    },
                ],
                "welch",
            ),
            # A start that is unknown, another round, another session, none.
            ([{}, {"order": 1, "starts": {4: None}}], "welch"),
            ([{"starts": {4: None}}, {"order": 1}], "welch"),
            ([{}, {"order": 1, "numbers": (1, 2, 3, 5)}], "welch"),
            ([{"numbers": (None,) * 4}, {"order": 1, "numbers": (None,) * 4}], "welch"),
            # Two that start at once: the second counts as the first one.
            ([{}, {"order": 1, "starts": {2: "2026-02-02T11:01:00+00:00"}}], "paired"),
            ([{}, {"order": 1, "starts": {3: "2026-02-02T12:00:00+00:00"}}], "welch"),
            ([{}, {"order": 1, "session": "t"}], "welch"),
            ([{"session": None}, {"order": 1, "session": None}], "welch"),
        ],
    )
    def test_only_of_one_session_in_turns(self, changes, found):
        one, other = (
            rounds(*rates, **each) for rates, each in zip((FASTER, DRIFT), changes, strict=True)
        )
        assert method(one, other) == found

    def test_four_of_them_and_as_many_runs_of_both(self):
        three = rounds(*FASTER[:3]), rounds(*DRIFT[:3], order=1)
        assert method(*three) == "welch"
        five = rounds(*FASTER, 210.0), rounds(*DRIFT, order=1)
        assert (method(*five), method(five[1], five[0])) == ("welch", "welch")
        apart = rounds(*FASTER, 210.0), rounds(*DRIFT, 141.0, order=1, numbers=(1, 2, 3, 4, 6))
        assert method(*apart) == "welch"
        # A round of whose runs one has no rate.
        broken = [*rounds(*FASTER), result(None, rounds(1.0, numbers=(5,))[0].run)]
        assert method(broken, rounds(*DRIFT, 141.0, order=1)) == "welch"


class TestDifference:
    def test_of_a_rate_counts_what_was_printed_coarsely_and_the_error_within_a_single_run(self):
        single = [result(150.0, within=Difference(4.0, 0.1, 9.0))]
        half = math.log((4.0 + scipy.stats.t.ppf(0.975, 9) * 0.1) / 4.0)
        found = speedup.difference(single, runs(*ONE))
        error = math.hypot(deviation(*ONE) * math.sqrt(4 / 3), half / scipy.stats.t.ppf(0.975, 2))
        value = math.log(150.0) - statistics.fmean(map(math.log, ONE))
        assert found == Difference(pytest.approx(value), pytest.approx(error), 2, "prediction")
        turned = speedup.difference(runs(*ONE), single)
        assert turned == Difference(pytest.approx(-value), pytest.approx(error), 2, "prediction")
        coarse = speedup.difference(runs(150.0), runs(*ONE, rounding=0.3))
        assert coarse.error == pytest.approx(math.sqrt(0.3**2 / 12 * 4 / 3))

    def test_of_another_metric_counts_neither(self):
        single = [result(150.0, within=Difference(4.0, 0.1, 9.0), rounding=0.3)]
        found = speedup.difference(single, runs(*ONE, rounding=0.3), "avg_step_time_seconds")
        # A step takes 400 over the rate.
        value = statistics.fmean(map(math.log, ONE)) - math.log(150.0)
        error = deviation(*ONE) * math.sqrt(4 / 3)
        assert found == Difference(pytest.approx(value), pytest.approx(error), 2, "prediction")
        seconds = speedup.difference(single, runs(*ONE), "avg_step_time_seconds", float)
        assert seconds.value == pytest.approx(
            400 / 150.0 - statistics.fmean(400 / each for each in ONE)
        )

    def test_the_error_within_is_the_larger_of_two_single_runs_and_none_of_several(self):
        small, large = ([result(within=Difference(4.0, each, 9.0))] for each in (0.1, 0.2))
        of_large = math.log((4.0 + scipy.stats.t.ppf(0.975, 9) * 0.2) / 4.0)
        assert (
            speedup.within(small, large) == speedup.within(large, small) == pytest.approx(of_large)
        )
        assert speedup.within(small, large * 2) == speedup.within(small)
        assert speedup.within(large * 2) == 0
        assert speedup.within(runs(1.0)) == 0


@pytest.mark.parametrize(
    ("metric", "transform", "found"),
    [
        (RATE, float, [100.0, 200.0]),
        ("final_loss", float, [-1.0, 0.0, 0.5]),
        ("final_loss", math.log, [math.log(0.5)]),
        ("x", float, []),
    ],
)
def test_the_values_of_runs(metric, transform, found):
    made = [
        result(rate, performance={"final_loss": loss})
        for rate, loss in ((100.0, -1.0), (None, 0.0), (200.0, 0.5))
    ]
    assert speedup.values([*made, result(None)], metric, transform) == found


def parts(*means):
    return tuple(segment(10 * n + 1, 10 * n + 10, mean) for n, mean in enumerate(means))


@pytest.mark.parametrize(
    ("one", "other", "ratios"),
    [
        ((), (), ()),
        # Four pairs are told one by one, of five the least and the largest.
        (
            (2.0, 1.0),
            (4.0, 3.0),
            (
                (0.5, "1–10", "1–10"),
                (0.25, "1–10", "11–20"),
                (2 / 3, "11–20", "1–10"),
                (1 / 3, "11–20", "11–20"),
            ),
        ),
        ((5.0, 1.0, 4.0, 2.0, 3.0), (), ((0.1, None, "11–20"), (0.5, None, "1–10"))),
        ((), (5.0, 1.0, 4.0), ((2.0, "1–10", None), (10.0, "11–20", None), (2.5, "21–30", None))),
    ],
)
def test_segments(one, other, ratios):
    baseline, made = (of(100.0, segments=parts(*means)) for means in (one, other))
    found = speedup.ratio(baseline, made)
    assert found.segments == tuple(
        SegmentRatio(pytest.approx(each), *steps) for each, *steps in ratios
    )


def test_segments_without_a_rate_or_in_samples_count_as_a_whole():
    unknown = (segment(1, 10, 2.0, tokens_per_second_per_gpu=None), segment(11, 20, 1.0))
    found = speedup.ratio(of(100.0), of(100.0, segments=unknown))
    assert found.segments == (SegmentRatio(pytest.approx(10.0), "11–20", None),)
    # 64 sequences over 8 GPUs in 4 s are 2 samples/s/GPU.
    made = system(
        "B",
        result(100.0, unit="samples", segments=parts(2.0, 1.0)),
        values={"samples_per_second_per_gpu": value(2.0)},
    )
    assert speedup.ratio(made, made).segments == (SegmentRatio(1.0, None, None),)


def test_the_rate_of_a_system_is_its_value_or_else_that_of_its_runs():
    assert speedup.speed(system("A", *runs(100.0, 400.0), values={RATE: value(7.0)})) == 7.0
    assert speedup.speed(
        system("A", *runs(100.0, 400.0), values={RATE: value(0.0)})
    ) == pytest.approx(200.0)


@pytest.mark.parametrize(
    ("value", "width", "is_told"),
    [
        (0.0, 1.38, True),
        (0.0, 1.39, False),
        (0.69, 1.39, False),
        (0.70, 1.39, True),
        (-0.70, 1.39, True),
    ],
)
def test_bounds_that_are_too_wide(value, width, is_told):
    found = Difference(value, width / 2 / scipy.stats.t.ppf(0.975, 5), 5.0)
    bounds = (math.exp(value - width / 2), math.exp(value + width / 2))
    assert speedup.interval(found) == (pytest.approx(bounds) if is_told else None)
