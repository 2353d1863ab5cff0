import itertools
import json
import math
import statistics

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special

from tprimat.analysis import intervals, run_order

NVIDIA_H200 = "v4.1_llama2_70b_lora_NVIDIA_8xH200"
ORACLE_H200 = "v5.0_llama2_70b_lora_Oracle_8xH200"
ORACLE_MI300X = "v5.0_llama2_70b_lora_Oracle_8xMI300X"
AMD_LORA = "v5.1_llama2_70b_lora_AMD_8xMI355X"
AMD_LLAMA = "v5.1_llama31_8b_AMD_8xMI355X"
NEBIUS_LLAMA = "v5.1_llama31_8b_Nebius_8xB200"
SYSTEMS = (NVIDIA_H200, ORACLE_H200, ORACLE_MI300X, AMD_LORA, AMD_LLAMA, NEBIUS_LLAMA)


@pytest.fixture(scope="module")
def ten_runs(samples):
    """Mean step times of the ten runs of a system, in the order in which they were made."""
    entries = json.loads((samples / "mlperf" / "truth.json").read_text())
    sets = {entry["set"]: entry for entry in entries if entry["kind"] == "set of runs"}
    return {name: sets[name]["mean_step_time_s"] for name in SYSTEMS}


def noise(count, *, seed=0, spread=0.02):
    return (1 + spread * np.random.default_rng(seed).standard_normal(count)).tolist()


# Within a run


def test_no_values_bear_no_interval():
    assert intervals.within_run_interval([]) is None


@pytest.mark.parametrize("count", [1, 2, 19])
def test_few_values_bear_a_range(count):
    values = noise(count)
    assert intervals.within_run_interval(values) == intervals.Interval(
        min(values), max(values), "range", None
    )


@pytest.mark.parametrize(
    ("count", "about", "coverage"),
    [
        (20, "median", 0.92),
        (199, "median", 0.92),
        (200, "mean", 0.92),
        (499, "mean", 0.92),
        (500, "mean", 0.95),
        (5000, "mean", 0.95),
    ],
)
def test_what_so_many_steps_bear(count, about, coverage):
    interval = intervals.within_run_interval(noise(count))
    assert (interval.about, interval.coverage) == (about, coverage)


def test_batch_means_by_independent_calculation():
    values = noise(530, seed=1)
    means = [np.mean(values[53 * batch : 53 * (batch + 1)]) for batch in range(10)]
    low, high = scipy.stats.t.interval(0.95, 9, loc=np.mean(means), scale=scipy.stats.sem(means))
    interval = intervals.within_run_interval(values)
    assert (interval.low, interval.high) == pytest.approx((low, high))


@pytest.mark.parametrize("count", range(500, 511))
def test_unequal_batches_leave_nothing_out(count):
    # A trend that doubles by the end: leaving values out at either end would move the centre.
    values = np.linspace(1, 2, count).tolist()
    interval = intervals.within_run_interval(values)
    assert (interval.low + interval.high) / 2 == pytest.approx(statistics.fmean(values))


@pytest.mark.parametrize("count", [20, 21, 35, 50, 101, 199])
def test_median_interval_is_that_of_the_sign_test_for_independent_values(count):
    # Values that alternate around the median in pairs: the lag-1 autocorrelation is about zero.
    signs = np.resize([1, 1, -1, -1], count)
    values = (10 + signs * (1 + np.arange(count) / count)).tolist()
    interval = intervals.within_run_interval(values)
    ordered = sorted(values)
    below, above = ordered.index(interval.low), count - 1 - ordered.index(interval.high)
    assert below == above
    # The chance that the median of the population lies below the interval, or above it.
    tail = scipy.stats.binom.cdf(below, count, 0.5)
    exact = int(scipy.stats.binom.ppf(0.025, count, 0.5)) - 1
    assert abs(below - exact) <= 1
    assert 2 * tail < 0.09


def test_median_interval_ignores_the_size_of_spikes():
    values = noise(100, seed=2)
    spiked = [value * 50 if index % 20 == 0 else value for index, value in enumerate(values)]
    more = [value * 5000 if index % 20 == 0 else value for index, value in enumerate(values)]
    assert intervals.within_run_interval(spiked) == intervals.within_run_interval(more)


def test_median_interval_widens_with_autocorrelation():
    random = np.random.default_rng(3)
    shocks = random.standard_normal(150)
    values = [0.0]
    for shock in shocks[1:]:
        values.append(0.8 * values[-1] + shock)
    dependent = intervals.within_run_interval([10 + value for value in values])
    shuffled = intervals.within_run_interval((10 + random.permutation(values)).tolist())
    assert dependent.high - dependent.low > 1.5 * (shuffled.high - shuffled.low)


@pytest.mark.parametrize("count", [1, 20, 150, 200, 777])
def test_equal_values_bear_an_interval_without_width(count):
    interval = intervals.within_run_interval([2.5] * count)
    assert (interval.low, interval.high) == (2.5, 2.5)


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=250), st.integers(-20, 20))
def test_intervals_do_not_depend_on_the_unit(values, exponent):
    scale = 2.0**exponent
    interval = intervals.within_run_interval(values)
    scaled = intervals.within_run_interval([value * scale for value in values])
    assert (scaled.low, scaled.high) == pytest.approx((interval.low * scale, interval.high * scale))
    assert (scaled.about, scaled.coverage) == (interval.about, interval.coverage)


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=250))
def test_an_interval_holds_what_it_is_about(values):
    interval = intervals.within_run_interval(values)
    figure = statistics.fmean(values) if interval.about == "mean" else statistics.median(values)
    assert interval.low <= figure * (1 + 1e-12)
    assert interval.high >= figure * (1 - 1e-12)


# Windows


@pytest.mark.parametrize(
    ("count", "steps", "about", "coverage"),
    [
        (9, 100, "range", None),
        (10, 9, "range", None),
        (10, 10, "mean", 0.88),
        (19, 10, "mean", 0.88),
        (20, 10, "mean", 0.92),
        (10, 50, "mean", 0.95),
        (50, 10, "mean", 0.95),
        (400, 2, "mean", 0.95),
        (150, 1, "median", 0.92),
        (5, 1, "range", None),
    ],
)
def test_what_so_many_windows_bear(count, steps, about, coverage):
    interval = intervals.within_run_interval(noise(count), steps=[steps] * count)
    assert (interval.about, interval.coverage) == (about, coverage)


def test_too_few_windows_bear_a_range_alone():
    assert intervals.within_run_interval(noise(9), steps=[10] * 9).about == "range"


def test_windows_of_different_lengths_weigh_by_their_steps():
    values, steps = noise(12, seed=4, spread=0.1), [192] + [48] * 11
    interval = intervals.within_run_interval(values, steps=steps)
    assert (interval.low + interval.high) / 2 == pytest.approx(np.average(values, weights=steps))


# Two sides


def logs(values):
    return [math.log(value) for value in values]


def test_welch_by_independent_calculation():
    first, second = (
        logs(noise(5, seed=5)),
        logs([1.03 * value for value in noise(7, seed=6, spread=0.005)]),
    )
    found = intervals.difference(first, second)
    reference = scipy.stats.ttest_ind(first, second, equal_var=False)
    assert found.method == "welch"
    assert found.p() == pytest.approx(reference.pvalue)
    assert found.interval() == pytest.approx(tuple(reference.confidence_interval(0.95)))
    assert found.interval(0.8) == pytest.approx(tuple(reference.confidence_interval(0.8)))
    assert found.value == pytest.approx(statistics.fmean(first) - statistics.fmean(second))


def test_the_p_value_of_a_limit_agrees_with_the_interval():
    found = intervals.difference(logs(noise(3, seed=5)), logs(noise(3, seed=6)))
    for bound in found.interval():
        assert found.p(bound) == pytest.approx(0.05)


@given(
    st.lists(st.floats(0.5, 2), min_size=2, max_size=6, unique=True),
    st.lists(st.floats(0.5, 2), min_size=2, max_size=6, unique=True),
)
def test_the_difference_the_other_way_round(first, second):
    one, other = intervals.difference(first, second), intervals.difference(second, first)
    if one is not None and other is not None:
        low, high = other.interval()
        assert one.interval() == pytest.approx((-high, -low))
        assert one.p() == pytest.approx(other.p(), abs=1e-9)


def test_two_runs_of_each_have_an_interval():
    first, second = [1.0, 1.1], [1.3, 1.5]
    reference = scipy.stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert intervals.difference(first, second).interval() == pytest.approx(tuple(reference))


@pytest.mark.parametrize("runs", [(0, 5), (1, 1), (1, 2), (2, 1)])
def test_too_few_runs_have_none(runs):
    assert intervals.difference(noise(runs[0]), noise(runs[1])) is None


@pytest.mark.parametrize("count", [3, 5, 10])
def test_one_run_against_several_has_a_prediction_interval(count):
    several = noise(count, seed=8)
    found = intervals.difference([1.2], several)
    half = (
        scipy.stats.t.ppf(0.975, count - 1) * statistics.stdev(several) * math.sqrt(1 + 1 / count)
    )
    value = 1.2 - statistics.fmean(several)
    assert found.method == "prediction"
    assert found.interval() == pytest.approx((value - half, value + half))
    turned = intervals.difference(several, [1.2])
    assert turned.interval() == pytest.approx((-value - half, -value + half))


def test_the_interval_of_a_single_run_is_no_narrower_than_that_within_it():
    several = noise(10, seed=8)
    without, found = (intervals.difference([1.2], several, within=half) for half in (0.0, 5.0))
    halves = [(each.interval()[1] - each.interval()[0]) / 2 for each in (without, found)]
    assert halves[1] == pytest.approx(math.hypot(halves[0], 5.0))
    # Two runs show themselves how much they vary.
    assert intervals.difference([1.2, 1.3], several, within=5.0) == intervals.difference(
        [1.2, 1.3], several
    )


def test_the_mean_of_nine_steps_has_students_error():
    values = noise(9, seed=4)
    found = intervals.run_mean(values)
    assert found.error >= statistics.stdev(values) / 3
    assert (found.value, found.freedom) == (pytest.approx(statistics.fmean(values)), 8)
    assert intervals.run_mean(values[:1]) is None


def test_a_prediction_interval_holds_a_further_run():
    random = np.random.default_rng(3)
    held = 0
    for _ in range(2000):
        low, high = intervals.difference(
            [random.standard_normal()], random.standard_normal(4).tolist()
        ).interval()
        held += low <= 0 <= high
    assert held / 2000 == pytest.approx(0.95, abs=0.015)


def test_one_system_that_does_not_vary():
    varying = logs(noise(4, seed=7))
    found = intervals.difference([0.0] * 5, varying)
    assert found.p() == pytest.approx(scipy.stats.ttest_1samp(varying, 0.0).pvalue)


def test_what_varies_nowhere_has_no_interval():
    assert intervals.difference([1.1] * 4, [1.3] * 4) is None
    assert intervals.difference([1.1], [1.3] * 4) is None
    assert intervals.paired([1.1] * 4, [1.3] * 4) is None


def test_equal_rounded_values_vary_as_much_as_their_rounding_hides():
    found = intervals.difference([1.1] * 4, [1.3] * 4, floors=(0.01**2 / 12, 0.01**2 / 12))
    low, high = found.interval()
    half = scipy.stats.t.ppf(0.975, 6) * math.sqrt(2 * 0.01**2 / 12 / 4)
    assert (low, high) == pytest.approx((-0.2 - half, -0.2 + half))


def test_pairs_by_independent_calculation():
    first, second = noise(6, seed=9), noise(6, seed=10)
    found = intervals.paired(first, second)
    reference = scipy.stats.ttest_rel(first, second)
    assert found.method == "paired"
    assert found.p() == pytest.approx(reference.pvalue)
    assert found.interval() == pytest.approx(tuple(reference.confidence_interval(0.95)))
    assert intervals.paired([1.0], [2.0]) is None


def test_pairs_take_out_what_drifts():
    drift = [1.0, 1.1, 1.2, 1.3]
    first, second = [0.001, -0.001, 0.001, -0.001], [0.01, 0.011, 0.009, 0.01]
    both = [[drift[i] + each[i] for i in range(4)] for each in (first, second)]
    assert intervals.paired(*both).p() < 0.01
    assert intervals.difference(*both).p() > 0.5


def test_holm_by_hand():
    assert intervals.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert intervals.holm([0.6, 0.7]) == [1.0, 1.0]
    assert intervals.holm([0.02]) == [0.02]
    assert intervals.holm([]) == []


# The smallest difference


@pytest.mark.parametrize(
    ("spread", "runs", "tabled"),
    [
        *zip(
            [0.005] * 6,
            (2, 3, 5, 8, 10, 20),
            (0.028, 0.015, 0.010, 0.0075, 0.0066, 0.0045),
            strict=True,
        ),
        *zip(
            [0.01] * 6,
            (2, 3, 5, 8, 10, 20),
            (0.057, 0.031, 0.020, 0.015, 0.013, 0.009),
            strict=True,
        ),
        *zip(
            [0.02] * 6, (2, 3, 5, 8, 10, 20), (0.11, 0.061, 0.041, 0.030, 0.027, 0.018), strict=True
        ),
    ],
)
def test_smallest_differences_of_the_study(spread, runs, tabled):
    # The study gives the difference of logarithms, to two digits.
    difference = math.log1p(intervals.minimum_detectable_effect(spread, runs))
    assert difference == pytest.approx(tabled, rel=0.035)


@pytest.mark.parametrize(("spread", "runs"), [(0.01, 3), (0.02, 5), (0.003, 12)])
def test_smallest_difference_has_the_power_that_it_says(spread, runs):
    shift = math.log1p(intervals.minimum_detectable_effect(spread, runs)) / (
        spread * math.sqrt(2 / runs)
    )
    freedom = 2 * (runs - 1)
    critical = scipy.stats.t.ppf(0.975, freedom)
    power = scipy.stats.nct.sf(critical, freedom, shift) + scipy.stats.nct.cdf(
        -critical, freedom, shift
    )
    assert power == pytest.approx(0.8, abs=1e-6)


def test_smallest_difference_of_a_comparison_is_that_of_its_runs():
    first = [0.99, 1.0, 1.01]
    found = intervals.difference(logs(first), logs(first))
    spread = statistics.stdev(logs(first))
    assert found.minimum_detectable_effect == pytest.approx(
        intervals.minimum_detectable_effect(spread, 3)
    )


def test_runs_needed():
    needed = intervals.runs_needed(0.02, 0.01)
    assert (
        intervals.minimum_detectable_effect(0.01, needed)
        <= 0.02
        < intervals.minimum_detectable_effect(0.01, needed - 1)
    )
    assert intervals.runs_needed(0.5, 0.001) == 2
    assert intervals.runs_needed(0.001, 0.05) is None
    assert intervals.runs_needed(0.0, 0.01) is None


# Real sets of ten runs


def halvings(runs):
    """All 126 ways to cut ten runs into two halves."""
    for others in itertools.combinations(range(1, 10), 4):
        one = {0, *others}
        yield [runs[i] for i in sorted(one)], [runs[i] for i in range(10) if i not in one]


def test_halves_of_the_same_system_are_seldom_called_different(ten_runs):
    shares = {}
    for name, runs in ten_runs.items():
        called = [intervals.difference(*map(logs, halves)).p() < 0.05 for halves in halvings(runs)]
        assert len(called) == 126
        shares[name] = statistics.fmean(called)
    assert statistics.fmean(shares.values()) <= 0.07
    assert max(shares.values()) <= 0.10, shares


def test_runs_that_alternate(ten_runs):
    order = run_order.run_order_trend(ten_runs[NVIDIA_H200])
    assert order.kind == "alternates"
    assert order.size == pytest.approx(0.0034, abs=0.0001)


def test_runs_that_trend(ten_runs):
    order = run_order.run_order_trend(ten_runs[ORACLE_H200])
    assert order.kind == "rises"
    assert order.size == pytest.approx(0.0097, abs=0.0001)
    throughput = run_order.run_order_trend([1 / value for value in ten_runs[ORACLE_H200]])
    assert throughput.kind == "falls"
    assert throughput.size == pytest.approx(-0.0096, abs=0.0001)


@pytest.mark.parametrize("name", [ORACLE_MI300X, AMD_LORA, AMD_LLAMA, NEBIUS_LLAMA])
def test_runs_whose_order_means_nothing(ten_runs, name):
    assert run_order.run_order_trend(ten_runs[name]) is None


@pytest.mark.parametrize(
    ("slower", "faster"),
    [
        (ORACLE_MI300X, ORACLE_H200),
        (ORACLE_MI300X, AMD_LORA),
        (NVIDIA_H200, ORACLE_H200),
        (AMD_LLAMA, NEBIUS_LLAMA),
    ],
)
def test_different_systems_come_out_with_the_right_sign(samples, slower, faster):
    entries = json.loads((samples / "mlperf" / "truth.json").read_text())
    sets = {entry["set"]: entry for entry in entries if entry["kind"] == "set of runs"}
    first, second = sets[faster]["mean_samples_per_second"], sets[slower]["mean_samples_per_second"]
    found = intervals.difference(logs(first), logs(second))
    means = [sets[name]["mean_of_means_samples_per_second"] for name in (faster, slower)]
    low, high = scipy.stats.ttest_ind(
        np.log(first), np.log(second), equal_var=False
    ).confidence_interval(0.95)
    assert math.exp(found.value) == pytest.approx(means[0] / means[1], rel=0.001)
    assert found.interval() == pytest.approx((low, high))
    assert low > 0


# The order of runs


@pytest.mark.parametrize("count", range(run_order.ORDER_RUNS))
def test_too_few_runs_have_no_order(count):
    assert run_order.run_order_trend([float(1 + index) for index in range(count)]) is None


def test_a_trend_is_named_by_all_runs_and_not_by_an_odd_one():
    rising = [1 + 0.01 * index for index in range(14)]
    order = run_order.run_order_trend([3.0, *rising[1:]])
    assert order.kind == "rises"
    assert order.size == pytest.approx(1.10 / 1.04 - 1)


def test_rounded_means_that_alternate():
    order = run_order.run_order_trend([2.47, 2.48] * 5)
    assert order.kind == "alternates"
    assert order.size == pytest.approx(2.47 / 2.48 - 1)


def test_six_rounded_means_may_alternate_by_chance():
    assert run_order.run_order_trend([2.47, 2.48] * 3) is None


@pytest.mark.parametrize("count", [6, 10, 41])
def test_equal_means_have_no_order(count):
    assert run_order.run_order_trend([2.5] * count) is None


@pytest.mark.parametrize("count", [6, 7, 8])
def test_kendalls_distribution_by_counting_all_orders(count):
    scores = [
        sum(1 if later > earlier else -1 for earlier, later in itertools.combinations(order, 2))
        for order in itertools.permutations(range(count))
    ]
    for score in range(0, count * (count - 1) // 2 + 1):
        expected = statistics.fmean(abs(each) >= score for each in scores)
        assert run_order._kendall_p(score, count) == pytest.approx(expected)


@pytest.mark.parametrize("score", [0, 1, 100, 240])
def test_kendalls_distribution_goes_over_into_the_normal_one(monkeypatch, score):
    exact = run_order._kendall_p(score, run_order.EXACT_RUNS)
    monkeypatch.setattr(run_order, "EXACT_RUNS", 5)
    normal = run_order._kendall_p(score, 40)
    assert normal == pytest.approx(exact, abs=0.01)
    assert normal <= 1


class TestOverRuns:
    def test_by_hand(self):
        interval = intervals.between_run_interval([math.exp(x) for x in (1.0, 1.1, 1.2)])
        half = 4.302653 * 0.1 / math.sqrt(3)
        assert math.log(interval.low) == pytest.approx(1.1 - half)
        assert math.log(interval.high) == pytest.approx(1.1 + half)
        assert (interval.about, interval.coverage) == ("mean", 0.95)

    def test_equal_rounded_values_are_not_certain(self):
        interval = intervals.between_run_interval([2.0, 2.0, 2.0], floor=0.01**2)
        assert math.log(interval.high / 2.0) == pytest.approx(4.302653 * 0.01 / math.sqrt(3))

    def test_a_single_run_has_none(self):
        assert intervals.between_run_interval([1.0]) is None
        assert intervals.between_run_interval([1.0, 1.1]) is not None


@pytest.mark.parametrize(
    "freedom", [1 + n / 50 for n in range(30)] + [2.0, 3.7, 9.0, 18.0, 60.0, 400.0]
)
def test_the_detectable_difference_has_its_power_at_every_freedom(freedom):
    """By integration over the spread: scipy's distribution has no value at some shifts below
    four.
    """
    critical, shift = intervals.t_quantile(freedom), intervals._detectable_errors(freedom)

    def density(root):
        # Of the square root of a chi-squared value.
        logarithm = (
            (freedom - 1) * math.log(root) - root * root / 2 - (freedom / 2 - 1) * math.log(2)
        )
        return math.exp(logarithm - math.lgamma(freedom / 2))

    def missed(root):
        return special.ndtr(critical * root / math.sqrt(freedom) - shift) * density(root)

    high = math.sqrt(freedom) + 12
    assert integrate.quad(missed, 1e-12, high, limit=500)[0] == pytest.approx(0.2, abs=2e-6)


# Whole values, by formulas of their own


def lag_one(values, centre=None):
    """The lag-1 autocorrelation, by numpy."""
    off = np.asarray(values) - (np.mean(values) if centre is None else centre)
    return float(off[:-1] @ off[1:] / (off @ off))


def wandering(count, share, seed=11):
    """Values of which each keeps a share of the one before."""
    shocks = np.random.default_rng(seed).standard_normal(count)
    values = [shocks[0]]
    for shock in shocks[1:]:
        values.append(share * values[-1] + shock)
    return [float(10 + each) for each in values]


SKEWED = [1.0, 2.0, 9.0, 3.0, 5.0, 4.0, 8.0, 40.0, 7.0]


@pytest.mark.parametrize(
    "values",
    [
        SKEWED[:2],
        SKEWED[:3],
        SKEWED,
        wandering(9, 0.9),
        wandering(10, 0.5),
        wandering(57, 0.8),
        wandering(57, 0.0),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_mean_of_a_run_and_its_error(values, weighted):
    weights = [1 + index % 4 for index in range(len(values))] if weighted else None
    parts, count = np.asarray(values), len(values)
    if count >= 10:
        edges = [round(index * count / 10) for index in range(11)]
        ranges = [slice(low, high) for low, high in itertools.pairwise(edges)]
        parts = np.array(
            [
                np.average(values[each], weights=weights[each] if weights else None)
                for each in ranges
            ]
        )
    left = min(max(lag_one(parts) + 1 / len(parts), 0.0), 0.9)
    error = np.std(parts, ddof=1) * math.sqrt((1 + left) / (1 - left) / len(parts))
    found = intervals.run_mean(values, weights)
    assert (found.value, found.error) == pytest.approx((np.average(values, weights=weights), error))
    assert (found.freedom, found.method) == (len(parts) - 1, "batches")


@pytest.mark.parametrize("share", [-0.5, 0.0, 0.3, 0.6, 0.8, 0.95])
@pytest.mark.parametrize("count", [8, 12, 40, 200])
def test_the_mean_of_a_series_counts_independent_values(share, count):
    values = wandering(count, share)
    r = lag_one(values)
    r = min(max(r + (1 + 4 * r) / count, 0.0), 0.99)
    is_known = count * (1 - r) / (1 + r) >= 8
    assert intervals.series_mean(values) == (intervals.run_mean(values) if is_known else None)


def test_some_series_are_known_and_some_are_not():
    known = [
        intervals.series_mean(wandering(40, share)) is not None for share in (0.0, 0.3, 0.8, 0.95)
    ]
    assert known == [True, True, False, False]
    # Eight values as good as independent ones; seven are too few.
    values = [1.0, -1.0] * 4
    assert intervals.series_mean(values) == intervals.run_mean(values)
    assert intervals.series_mean(values[:7]) is None
    assert intervals.series_mean([2.0] * 40) is None
    assert intervals.series_mean([2.0]) is None


@pytest.mark.parametrize(
    "values",
    [
        wandering(31, 0.0),
        wandering(31, 0.7),
        wandering(60, 0.9),
        wandering(150, 0.4),
        [5.0, 5.0, 1.0, 9.0] * 6,
    ],
)
def test_the_interval_of_a_median_by_order_statistics(values):
    count, centre = len(values), np.median(values)
    sides = np.sign(np.asarray(values) - centre)
    r = min(max(lag_one(sides, 0.0), 0.0), 0.9)
    half = scipy.stats.norm.ppf(0.975) * count / (2 * math.sqrt(count * (1 - r) / (1 + r)))
    outside = max(math.floor(count / 2 - half), 0)
    ordered = sorted(values)
    expected = intervals.Interval(ordered[outside], ordered[-1 - outside], "median", 0.92)
    assert intervals.within_run_interval(values) == expected


def test_the_interval_of_batches_by_hand():
    """Ten records of 10, 20, … steps: their own means are those of the batches."""
    values, steps = [*SKEWED, 6.0], [10 * (1 + index) for index in range(10)]
    centre, half = (
        np.average(values, weights=steps),
        2.262157 * np.std(values, ddof=1) / math.sqrt(10),
    )
    found = intervals.within_run_interval(values, steps)
    assert (found.low, found.high) == pytest.approx((centre - half, centre + half))
    assert (found.about, found.coverage) == ("mean", 0.95)


@pytest.mark.parametrize(
    ("found", "runs", "expected"),
    [
        (intervals.Difference(0.5, 0.3, 7.0), (4, 5), 0.3 / math.sqrt(1 / 4 + 1 / 5)),
        (intervals.Difference(0.5, 0.3, 7.0), (4,), 0.6),
        (intervals.Difference(0.5, 0.3, 7.0, "paired"), (8, 3), 0.6),
    ],
)
def test_the_spread_of_runs_behind_an_error(found, runs, expected):
    assert found.spread(*runs) == pytest.approx(expected)


def test_the_level_in_words():
    assert intervals.level() == "95%"


def test_the_difference_of_runs_in_numbers():
    first, second = [1.0, 2.0, 6.0], [10.0, 14.0, 30.0, 50.0]
    # Variances 7 and 1,960 / 6 of the values.
    parts = 7 / 3, statistics.variance(second) / 4
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 3)
    assert intervals.welch(first, second) == intervals.Difference(
        -23.0, pytest.approx(math.sqrt(sum(parts))), pytest.approx(freedom)
    )
    # A floor counts for its own system, where it is higher than the variance.
    floored = intervals.welch(first, second, floors=(9.0, 1.0))
    assert floored.error == pytest.approx(math.sqrt(3 + parts[1]))
    assert intervals.welch([1.0], second) is None
    assert intervals.welch(second, [1.0]) is None
    pairs = [-9.0, -12.0, -24.0]
    assert intervals.paired(first, second[:3]) == intervals.Difference(
        -15.0, pytest.approx(statistics.stdev(pairs) / math.sqrt(3)), 2, "paired"
    )
    # With pairs of unequal differences 1, 2, 6 two rounds are enough.
    assert intervals.paired([1.0, 2.0], [0.0, 0.0]) == intervals.Difference(1.5, 0.5, 1, "paired")
    spread = statistics.stdev(second)
    assert intervals.difference([5.0], second) == intervals.Difference(
        -21.0, pytest.approx(spread * math.sqrt(1.25)), 3, "prediction"
    )
    assert intervals.difference(second, [5.0], floors=(2500.0, 1.0)) == intervals.Difference(
        21.0, pytest.approx(50 * math.sqrt(1.25)), 3, "prediction"
    )
    assert intervals.difference(second, [5.0], floors=(1.0, 2500.0)).error == pytest.approx(
        50 * math.sqrt(1.25)
    )


def test_the_interval_over_runs_in_numbers():
    """Logarithms 1.0, 1.05 and 1.3: their mean is 1.1167, not their median."""
    logs_of_runs = [1.0, 1.05, 1.3]
    half = 4.302653 * statistics.stdev(logs_of_runs) / math.sqrt(3)
    found = intervals.between_run_interval([math.exp(each) for each in logs_of_runs])
    assert (math.log(found.low), math.log(found.high)) == pytest.approx(
        (3.35 / 3 - half, 3.35 / 3 + half)
    )
    assert intervals.between_run_interval([1.0, 2.0]) is None
    assert intervals.is_too_wide(math.log(4) + 1e-9)
    assert not intervals.is_too_wide(math.log(4) - 1e-9)


@pytest.mark.parametrize("difference", [0.005, 0.02, 0.06, 0.0133])
def test_the_least_runs_that_find_a_difference(difference):
    needed = next(
        (
            runs
            for runs in range(2, 101)
            if intervals.minimum_detectable_effect(0.01, runs) <= difference
        ),
        None,
    )
    assert intervals.runs_needed(difference, 0.01) == needed
    for most in (2, 3, 5, needed - 1, needed):
        assert intervals.runs_needed(difference, 0.01, most=max(most, 2)) == (
            needed if max(most, 2) >= needed else None
        )


@pytest.mark.parametrize(
    ("p_values", "corrected"),
    [
        ([0.04, 0.001, 0.02, 0.3], [0.08, 0.004, 0.06, 0.3]),
        # The second of them is no more certain than the first.
        ([0.03, 0.02, 0.021], [0.06, 0.06, 0.06]),
        ([0.5, 0.4, 0.0], [0.8, 0.8, 0.0]),
    ],
)
def test_holms_correction(p_values, corrected):
    assert intervals.holm(p_values) == pytest.approx(corrected)
