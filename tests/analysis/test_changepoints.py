import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tprimat.analysis import changepoints, segments, warmup
from tprimat.analysis.segments import Segment, find_segments


@pytest.fixture(scope="module")
def february(samples):
    def read(name):
        return json.loads((samples / "results" / f"train_{name}-516b342.json").read_text())[
            "step_times"
        ]

    return read


def steps(count, *, seed=0, spread=0.012, spikes=0.0):
    random = np.random.default_rng(seed)
    noise = 1 + spread * random.standard_normal(count)
    return noise + (random.random(count) < spikes) * random.uniform(0.1, 0.35, count)


def warmed(series, factor=5.0, count=8):
    series = series.copy()
    series[:count] *= factor
    return series.tolist()


def mean(values, level):
    return math.fsum(values[level.start : level.stop]) / (level.stop - level.start)


# The four real runs of February


@pytest.mark.parametrize(("name", "start"), [("nvd_nemo_llama", 8), ("nvd_nemo_qwen", 2)])
def test_both_h100_runs_keep_one_level(february, name, start):
    (level,) = find_segments(february(name))
    assert (level.start, level.stop, level.drift) == (start, 500, None)


def test_mi300x_llama_has_two_levels(february):
    values = february("amd_prim_llama")
    first, second = find_segments(values)
    assert 155 <= first.stop == second.start <= 165
    assert second.stop == 500
    assert mean(values, first) == pytest.approx(2.536, abs=0.0005)
    assert mean(values, second) == pytest.approx(2.379, abs=0.0005)
    assert first.drift is second.drift is None


def test_mi300x_qwen_changes_at_the_same_place(february):
    values = february("amd_prim_qwen")
    first, second = find_segments(values)
    assert 151 <= first.stop <= 161
    assert mean(values, first) == pytest.approx(2.5584, abs=0.0005)
    assert mean(values, second) == pytest.approx(2.492, abs=0.0005)
    assert first.drift is second.drift is None


def test_the_ratio_of_the_llama_runs_by_level(february):
    amd, nvidia = february("amd_prim_llama"), february("nvd_nemo_llama")
    (other,) = find_segments(nvidia)
    ratios = [mean(nvidia, other) / mean(amd, level) for level in find_segments(amd)]
    assert ratios == pytest.approx([1.278, 1.362], abs=0.0005)


# Series of our own making


def test_one_level_after_a_warm_up_with_spikes():
    (level,) = find_segments(warmed(steps(300, spikes=0.04)))
    assert (level.start, level.stop, level.drift) == (8, 300, None)
    assert level.median == pytest.approx(1.0, abs=0.003)


@pytest.mark.parametrize("change", [0.95, 1.05, 1.5])
@pytest.mark.parametrize("place", [110, 150, 240, 300, 390])
def test_a_change_of_level_is_found_where_it_is(change, place):
    series = steps(500, spikes=0.04, seed=place)
    series[place:] *= change
    first, second = find_segments(warmed(series))
    assert first.start in (8, 9)
    assert abs(first.stop - place) <= 3
    assert second.median / first.median == pytest.approx(change, rel=0.005)


def test_three_levels():
    series = steps(600, seed=3)
    series[200:] *= 1.06
    series[400:] *= 1.06
    found = find_segments(warmed(series))
    assert [level.stop for level in found] == pytest.approx([200, 400, 600], abs=3)


@pytest.mark.parametrize(("start", "stop"), [(60, 120), (120, 200), (440, 500)])
def test_a_disturbance_of_less_than_a_fifth_is_no_change(start, stop):
    series = steps(500, seed=4)
    series[start:stop] *= 1.2
    (level,) = find_segments(warmed(series))
    assert (level.start, level.stop) == (8, 500)


@pytest.mark.parametrize("stop", [9, 20, 21, 25, 60, 80, 100])
def test_a_slow_start_is_cut_whether_it_is_short_or_long(stop):
    series = steps(500, seed=4)
    series[:stop] *= 1.2
    (level,) = find_segments(series.tolist())
    assert (level.start, level.stop) == (pytest.approx(stop, abs=1), 500)


@pytest.mark.parametrize(("stop", "segments"), [(100, 1), (104, 2)])
def test_what_is_too_long_for_a_warm_up_is_long_enough_for_a_change(stop, segments):
    assert warmup.longest_warm_up(500) == 100
    series = steps(500, seed=4)
    series[:stop] *= 1.2
    assert len(find_segments(series.tolist())) == segments


@pytest.mark.parametrize("shift", [1.005, 1.012])
def test_a_change_below_two_percent_is_none(shift):
    series = steps(500, seed=4, spread=0.002)
    series[250:] *= shift
    (level,) = find_segments(warmed(series))
    assert level.drift is None


@pytest.mark.parametrize(
    ("count", "correlation", "spread", "most"), [(200, 0.9, 0.01, 0.04), (500, 0.9, 0.05, 0.01)]
)
def test_neighbours_that_resemble_each_other_are_no_change(count, correlation, spread, most):
    random = np.random.default_rng(12)
    called = 0
    for _ in range(200):
        noise = spread * math.sqrt(1 - correlation**2) * random.standard_normal(count)
        for index in range(1, count):
            noise[index] += correlation * noise[index - 1]
        found = find_segments(warmed(1 + noise))
        called += len(found) > 1 or (len(found) == 1 and found[0].drift is not None)
    assert called / 200 <= most


@pytest.mark.parametrize("end", [1.05, 0.95, 1.1, 1.5])
@pytest.mark.parametrize("seed", range(4))
def test_a_ramp_is_a_drift_and_no_levels(end, seed):
    series = steps(500, seed=seed) * np.linspace(1, end, 500)
    (level,) = find_segments(warmed(series))
    # The beginning of one that falls may count as a slow start.
    assert level.drift == pytest.approx(end - 1, rel=0.2 if end > 1 else 0.35)


def test_a_ramp_without_noise_is_a_drift():
    (level,) = find_segments(np.linspace(2.0, 2.2, 400).tolist())
    assert level.drift == pytest.approx(0.1, abs=0.001)


@pytest.mark.parametrize("count", [150, 400])
@pytest.mark.parametrize("tens", [(1.2, 1.12, 1.05), (0.8, 0.9, 0.95)])
def test_a_ramp_of_thirty_values_is_as_large_as_its_first_ten_are_off(tens, count):
    ramp = np.repeat(tens, 10)
    drift = segments._drift(np.concatenate([ramp, np.ones(count - len(ramp))]))
    assert drift == pytest.approx(1 / tens[0] - 1)


def test_a_ramp_at_the_beginning_is_a_slow_start():
    series = steps(500, seed=5)
    series[:80] *= np.linspace(2, 1, 80)
    (level,) = find_segments(series.tolist())
    assert 70 <= level.start <= 82
    assert level.drift is None


@pytest.mark.parametrize("fading", [3, 5])
def test_a_warm_up_that_fades_away_is_no_level(fading):
    found = []
    for seed in range(20):
        series = steps(400, seed=seed) * (1 + 4 * np.exp(-np.arange(400) / fading))
        found.append(find_segments(series.tolist()))
        # What the warm-up leaves in the mean is less than two tenths of a percent.
        assert np.mean(series[found[-1][-1].start :]) == pytest.approx(1, abs=0.002)
    single = [each[0] for each in found if len(each) == 1 and each[0].drift is None]
    assert len(single) >= 19
    assert all(10 <= level.start <= warmup.LONGEST_WARM_UP for level in single)


def test_a_flat_slow_beginning_is_a_level_and_no_warm_up():
    series = steps(300, seed=6)
    series[:100] *= 1.05
    first, second = find_segments(warmed(series))
    assert (first.start, second.stop) == (8, 300)
    assert abs(first.stop - 100) <= 3


def test_spikes_make_no_level():
    series = steps(300, seed=7)
    series[150:165] *= 1.3
    (level,) = find_segments(warmed(series))
    assert (level.start, level.drift) == (8, None)


def test_two_constant_levels_without_any_noise():
    found = find_segments([3.0] * 5 + [2.0] * 100 + [2.1] * 100)
    assert [(level.start, level.stop, level.median, level.drift) for level in found] == [
        (5, 105, 2.0, None),
        (105, 205, 2.1, None),
    ]


@pytest.mark.parametrize("value", [2.5, 1e-6, 3e8])
def test_a_constant_series_is_one_level(value):
    assert find_segments([value] * 200) == (Segment(0, 200, value, None),)


def test_a_constant_series_of_zeros_is_no_division_by_zero():
    assert find_segments([0.0] * 60) == (Segment(0, 60, 0.0, None),)


def test_a_series_with_one_odd_value():
    (level,) = find_segments([1.0] * 99 + [50.0])
    assert (level.start, level.stop, level.drift) == (0, 100, None)


@pytest.mark.parametrize("count", range(warmup.MINIMUM_RECORDS))
def test_too_short_for_a_steady_state(count):
    assert find_segments([1.0] * count) == ()
    assert warmup.first_steady_index([1.0] * count) is None


@pytest.mark.parametrize("count", [20, 21, 25, 39, 40, 41])
def test_short_series_have_one_level(count):
    assert find_segments([1.0] * count) == (Segment(0, count, 1.0, None),)


def test_nothing_steady_is_found_in_a_series_that_keeps_falling():
    assert find_segments([0.9**index for index in range(100)]) == ()


def test_values_rounded_to_a_coarse_unit_make_no_levels():
    # 2.05 s printed in whole tenths of seconds: some 2.0, some 2.1, by chance.
    random = np.random.default_rng(8)
    for _ in range(10):
        found = find_segments(np.round(2.02 + 0.03 * random.standard_normal(300), 1).tolist())
        assert len(found) <= 1


# The search


def test_the_search_finds_the_least_sum_of_deviations():
    random = np.random.default_rng(9)
    for count in (40, 41, 77, 200):
        series = random.integers(1, 60, count) / 7

        def cost(split, series=series):
            return sum(
                np.abs(part - np.median(part)).sum() for part in (series[:split], series[split:])
            )

        best = min(map(cost, range(20, count - 19)))
        assert cost(changepoints._best_split(series, 20)) == pytest.approx(best)


def test_what_is_not_searched_has_no_change():
    random, skipped, found = np.random.default_rng(10), 0, 0
    for count in random.integers(40, 160, 600):
        # A second level of two to three percent, which some of its values don't reach, at any
        # place.
        split, share = random.integers(10, count - 9), random.uniform(0.5, 1)
        series = 1 + 0.001 * random.standard_normal(count)
        series[split:] += 0.01 * random.uniform(1.9, 3) * (random.random(count - split) < share)
        least = max(20, math.ceil(0.2 * count))
        searched = changepoints._splits(series, least)
        assert changepoints.change_points(series) == searched
        ordered = np.sort(series)
        skipped += ordered[-(least // 2)] / ordered[least // 2 - 1] < 1.02
        found += bool(searched)
    assert skipped > 50
    assert found > 50


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=60))
def test_running_deviations(values):
    sums = changepoints._deviations(values)
    direct = [
        np.abs(np.array(values[:k]) - np.median(values[:k])).sum() if k else 0
        for k in range(len(values) + 1)
    ]
    assert sums == pytest.approx(direct, abs=1e-6)


def test_a_long_series_is_searched_in_bounded_work(monkeypatch):
    searched = []
    direct = changepoints._deviations

    def counted(values):
        searched.append(len(values))
        return direct(values)

    monkeypatch.setattr(changepoints, "_deviations", counted)
    count = 100_000
    series = steps(count, seed=10, spikes=0.04)
    series[30_001:] *= 1.04
    found = find_segments(warmed(series))
    assert [level.stop for level in found] == pytest.approx([30_001, count], abs=10)
    # Each search goes forwards and backwards, over no more than SEARCHED medians.
    assert len(searched) in (4, 6)
    assert max(searched) <= changepoints.SEARCHED


# Laws


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    count=st.integers(20, 150),
    place=st.floats(0.1, 0.9),
    change=st.floats(0.7, 1.4),
    exponent=st.integers(-20, 20),
)
def test_levels_do_not_depend_on_the_unit(seed, count, place, change, exponent):
    series = steps(count, seed=seed, spikes=0.05)
    series[round(place * count) :] *= change
    values = warmed(series, count=count // 20)
    # Powers of two change no rounding, so that even ties fall alike.
    scale = 2.0**exponent
    scaled = find_segments([value * scale for value in values])
    assert [(level.start, level.stop, level.drift) for level in scaled] == [
        (level.start, level.stop, level.drift) for level in find_segments(values)
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.01, 100), min_size=0, max_size=120))
def test_levels_follow_each_other_to_the_end(values):
    found = find_segments(values)
    if found:
        assert found[-1].stop == len(values)
        assert 0 <= found[0].start <= len(values) // 2 or len(found) > 1
        assert all(first.stop == second.start for first, second in itertools.pairwise(found))
        if len(found) > 1:
            assert all(level.stop - level.start >= changepoints.LEAST_RECORDS for level in found)
        for level in found:
            part = values[level.start : level.stop]
            assert min(part) <= level.median <= max(part)
            assert level.drift is None or level.drift > -1
