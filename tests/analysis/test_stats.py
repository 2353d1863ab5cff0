"""Steady state and summaries, on made series and on the four real ones."""

from __future__ import annotations

import decimal
import json
import math
import statistics

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tprimat.analysis import stats, warmup

TIMES = st.floats(1e-3, 1e3)


def wavy(count: int, level: float = 1.0, size: float = 0.005) -> list[float]:
    """A steady series that swings by half a percent."""
    return [level * (1 + size * math.sin(3 * index)) for index in range(count)]


@pytest.fixture(scope="module")
def step_times(samples):
    """The step times of a real run, read without any of our code."""

    def read(stem: str) -> list[float]:
        (path,) = (samples / "results").glob(f"{stem}-*.json")
        return json.loads(path.read_text())["step_times"]

    return read


@pytest.mark.parametrize(
    ("stem", "start", "mean"),
    [
        ("train_nvd_nemo_llama", 8, 3.2411),
        ("train_amd_prim_llama", 2, None),
        ("train_amd_prim_qwen", 2, None),
        ("train_nvd_nemo_qwen", 2, 3.8965),
    ],
)
def test_the_warm_up_of_the_real_runs_is_cut_where_it_ends(step_times, stem, start, mean):
    times = step_times(stem)
    assert warmup.first_steady_index(times) == start
    if mean is not None:
        assert round(stats.mean(times[start:]), 4) == mean


def test_of_the_first_twenty_real_steps_the_warm_up_is_cut_too(step_times):
    times = step_times("train_nvd_nemo_llama")[:20]
    state = warmup.detect_warmup(times)
    assert state.start == 8
    assert round(stats.mean(times[8:]), 2) == 3.28


@pytest.mark.parametrize("warm_up", [0, 1, 3, 8])
def test_a_warm_up_is_cut_to_the_step(warm_up):
    assert warmup.detect_warmup([5.0] * warm_up + wavy(40)).start == warm_up


@pytest.mark.parametrize("factor", [1.3, 3.0])
@pytest.mark.parametrize("shape", [lambda place: np.exp(-4 * place), lambda place: 1 - place])
def test_of_a_warm_up_that_fades_hardly_anything_stays(factor, shape):
    random = np.random.default_rng(1)
    off = []
    for _ in range(40):
        series = 1 + 0.02 * random.standard_normal(180)
        steady = series[60:].mean()
        series[:60] *= 1 + (factor - 1) * shape(np.arange(60) / 60)
        off.append(series[warmup.detect_warmup(series.tolist()).start :].mean() / steady - 1)
    assert abs(np.mean(off)) <= 0.0015


@pytest.mark.parametrize(("height", "start"), [(0.99, 0), (1.01, 12)])
def test_a_slow_record_lies_above_the_level_by_a_robust_sigma(height, start):
    series = np.array([1.0] * 12 + [0.99, 1.0, 1.01] * 60)
    smooth = np.where(
        np.arange(len(series)) < 12, 1 + height * warmup.LEVEL_SIGMAS * 0.01 * 1.4826, 1.0
    )
    assert warmup._slow_start(series, smooth, 90).start == start


@pytest.mark.parametrize("place", [20, 30, 59])
def test_a_spike_does_not_end_the_steady_state(place):
    series = [9.0, 5.0, *wavy(58)]
    series[place] = 30.0
    assert warmup.detect_warmup(series).start == 2


def test_a_spike_does_not_start_the_steady_state():
    series = wavy(40)
    series[0] = 3.0
    assert warmup.detect_warmup(series).start == 1


def test_one_good_value_within_a_warm_up_is_not_the_steady_state():
    assert warmup.detect_warmup([9.0, 1.0, 9.0, 9.0, 9.0, *wavy(50)]).start == 5


@pytest.mark.parametrize(("slow", "start"), [(29, 29), (30, 30), (31, None), (55, None)])
def test_a_slow_start_may_take_the_first_half_and_no_more(slow, start):
    state = warmup.detect_warmup([2.0] * slow + wavy(60 - slow))
    assert (state and state.start) == start


@pytest.mark.parametrize("excess", [-0.005, 0.005])
def test_a_middle_that_is_slower_than_the_end_by_three_percent_is_unsettled(excess):
    high = 1 + warmup.UNSETTLED_FRACTION + excess
    assert (warmup.detect_warmup([high] * 40 + [1.0] * 20) is None) == (excess > 0)


def test_a_disturbance_in_the_middle_is_no_slow_start():
    assert warmup.detect_warmup([5.0, *wavy(28), *([1.5] * 10), *wavy(21)]).start == 1


@pytest.mark.parametrize(("slow", "is_cut"), [(7, False), (8, True)])
def test_a_few_slow_records_after_a_fast_beginning_are_a_disturbance(slow, is_cut):
    # Of the twenty records before the cut, 35 % at most.
    series = [*[1.0] * (20 - slow), *[1.5] * slow, *[1.0] * 20]
    assert (warmup.detect_warmup(series).start > 0) == is_cut


@pytest.mark.parametrize("stop", [60, 100, 120])
def test_a_disturbance_after_twenty_records_at_the_level_is_no_slow_start(stop):
    series = np.array(wavy(500))
    series[40:stop] *= 1.2
    series[:8] *= 5
    assert warmup.first_steady_index(series.tolist()) == 8


@pytest.mark.parametrize("pause", [2, 3])
def test_a_long_pause_later_hides_no_slow_start(pause):
    series = [*[1.3] * 12, *wavy(88)]
    series[70 : 70 + pause] = [110.0] * pause
    assert warmup.first_steady_index(series) == 12


@pytest.mark.parametrize("step", [0.1, 0.02])
def test_coarse_figures_are_no_slow_start(step):
    random = np.random.default_rng(3)
    for level in (1.0, 1.4, 1.5):
        kept = [
            1
            - (
                warmup.first_steady_index(
                    (step * np.round(level + 0.3 * random.standard_normal(100))).tolist()
                )
                or 0
            )
            / 100
            for _ in range(20)
        ]
        assert np.mean(kept) >= 0.9


def test_a_series_that_never_settles_has_no_steady_state():
    assert warmup.detect_warmup([2.0**-index for index in range(60)]) is None


@pytest.mark.parametrize("count", range(warmup.MINIMUM_RECORDS))
def test_short_series_are_not_judged(count):
    assert warmup.detect_warmup([1.0] * count) is None


def test_the_shortest_series_that_is_judged():
    state = warmup.detect_warmup([1.0] * warmup.MINIMUM_RECORDS)
    assert (state.start, state.reference, state.sigma) == (0, 1.0, 0.0)


@given(st.lists(TIMES, min_size=20, max_size=60), st.integers(-8, 8))
def test_another_unit_changes_nothing(values, power):
    scale = 2.0**power
    state, scaled = (
        warmup.detect_warmup(values),
        warmup.detect_warmup([value * scale for value in values]),
    )
    if state is None:
        assert scaled is None
    else:
        assert scaled.start == state.start
        assert scaled.reference == state.reference * scale


@given(st.lists(TIMES, min_size=10, max_size=80))
def test_what_is_found_lies_before_the_middle(values):
    state = warmup.detect_warmup(values)
    assume(state is not None)
    assert 0 <= state.start <= len(values) / 2


@given(st.lists(st.floats(0.5, 1), min_size=5, max_size=40))
def test_a_faster_beginning_of_two_records_or_more_is_never_cut(first):
    beginning = sorted(first)
    beginning[0] = beginning[1]
    assert (warmup.first_steady_index([*beginning, *wavy(60)]) or 0) == 0


@settings(max_examples=50)
@given(st.lists(st.tuples(TIMES, st.integers(1, 50)), min_size=1, max_size=30))
def test_a_window_counts_as_many_times_as_it_has_steps(records):
    values, weights = [value for value, _ in records], [weight for _, weight in records]
    spelled_out = [value for value, weight in records for _ in range(weight)]
    mean = stats.mean(values, weights)
    assert mean == pytest.approx(math.fsum(spelled_out) / len(spelled_out))
    assert min(values) * (1 - 1e-12) <= mean <= max(values) * (1 + 1e-12)


def test_a_deviation_by_hand():
    assert stats.deviation([1.0, 2.0, 6.0]) == pytest.approx(math.sqrt(7))


def test_a_single_value_has_no_deviation():
    assert stats.deviation([2.0]) is None


@given(st.lists(TIMES, min_size=1, max_size=20))
def test_the_middle_run_is_the_lower_median(values):
    assert values[stats.median_index(values)] == statistics.median_low(values)


def test_nothing_has_no_middle():
    with pytest.raises(ValueError, match="no values"):
        stats.median_index([])


def test_the_robust_sigma_ignores_a_spike():
    assert stats.robust_sigma([1.0, 2.0, 3.0, 4.0, 1000.0]) == pytest.approx(1.4826)


@given(st.lists(st.floats(1e-9, 1e18), min_size=1, max_size=5))
def test_the_resolution_is_that_of_the_longest_number(values):
    longest = min(decimal.Decimal(repr(value)).as_tuple().exponent for value in values)
    assert stats.resolution(values) == 10.0**longest


def test_the_resolution_of_no_values_is_one():
    assert stats.resolution([]) == 1.0


@pytest.mark.parametrize("weights", [[1], [1, 1, 1]])
def test_a_mean_needs_a_weight_for_each_value(weights):
    with pytest.raises(ValueError, match=rf"2 values, {len(weights)} weights"):
        stats.mean([1.0, 2.0], weights)
