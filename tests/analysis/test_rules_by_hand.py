"""Warm-up, change points and drift against the same rules in plain Python, slowly, over series of
many kinds.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from statistics import fmean, median

import numpy as np
import pytest
import scipy.stats

from tprimat.analysis import changepoints, segments, warmup
from tprimat.analysis.stats import deviation, mean, median_index, resolution, robust_sigma
from tprimat.analysis.stats import median as own_median


def sigma(values):
    return 1.4826 * median(abs(value - median(values)) for value in values)


def smoothed(values):
    inner = [median(values[index - 1 : index + 2]) for index in range(1, len(values) - 1)]
    return [values[0], *inner, inner[-1]]


def least_variance(smooth, last):
    rest = smooth[last:]
    most = max(median(rest) + 15 * sigma(rest), float(np.quantile(rest, 0.9)))
    clipped = [*smooth[:last], *(min(each, most) for each in rest)]
    scores = [float(np.var(clipped[cut:])) / len(clipped[cut:]) for cut in range(last + 1)]
    return scores.index(min(scores))


def slow_start(values, last):
    smooth = smoothed(values)
    cut = least_variance(smooth, last)
    reference, spread = median(values[cut:]), sigma(values[cut:])
    slow = [each > reference + spread for each in smooth[: cut + 1]]
    start = cut
    for at in range(cut - 1, -1, -1):
        following = slow[at : min(at + 20, cut)]
        if not slow[at] and not slow[at + 1] and sum(following) <= 0.35 * len(following):
            start = at
    rest = sorted(values[start:])
    if start and fmean(values[:start]) < fmean(rest[: int(0.9 * len(rest))]):
        start = 0
    if start == 0 and starts_fast(values):
        start = 1
    return start, reference, spread


def settles(values):
    smooth, middle = smoothed(values), len(values) // 2
    end = values[-max(5, len(values) // 10) :]
    steps = [after - before for before, after in itertools.pairwise(values[middle:])]
    spread = max(sigma(end), sigma(steps) / math.sqrt(2))
    level = median(end) + max(2.5 * spread, 0.03 * median(end))
    above = [each > level for each in smooth[:middle]]
    return smooth[middle] <= level or fmean(above) < 0.9


def longest(count):
    return int(max(min(0.4 * count, 80), 20, 0.2 * count))


def starts_fast(values):
    first, others = values[0], values[1:]
    usual = median(others)
    return first < usual - max(0.02 * usual, 4 * sigma(others)) and min(
        others
    ) - first > usual - min(others)


def first_steady(values, most=None):
    most = most or longest(len(values))
    state = slow_start(values, len(values) // 2) if len(values) >= 10 and settles(values) else None
    if state is None:
        changes = changes_of(values) if len(values) >= 10 else []
        return first_steady(values[: changes[0]], most) if changes else None
    if state[0] <= most:
        return state[0]
    brief, _, _ = slow_start(values, most)
    if median(values[brief : state[0]]) < state[1] * 1.02:
        return brief
    earlier = first_steady(values[: state[0]], most)
    return brief if earlier is None else earlier


def off(values):
    return sum(abs(value - median(values)) for value in values)


def changes_of(values):
    least = max(20, math.ceil(0.2 * len(values)))
    return splits(values, least) if len(values) >= 2 * least else []


def splits(values, least):
    places = range(least, len(values) - least + 1)
    if not places:
        return []
    split = min(places, key=lambda place: round(off(values[:place]) + off(values[place:]), 9))
    if not is_change(values[:split], values[split:]):
        return []
    after = [split + each for each in splits(values[split:], least)]
    changes = [*splits(values[:split], least), split, *after]
    parts = [values[low:high] for low, high in itertools.pairwise([0, *changes, len(values)])]
    return changes if sum(map(off, parts)) < beside_a_line(values) else []


def is_change(before, after):
    first, second = median(before), median(after)
    if max(first, second) / min(first, second) - 1 < 0.02:
        return False
    jump = median(after[:10]) - median(before[-10:])
    low, high = (before, after) if first < second else (after, before)
    ordered = [one < other for one in low for other in high]
    if jump / (second - first) < 0.5 or fmean(ordered) < 0.9:
        return False
    batches = [
        [median(batch) for batch in np.array_split(part, math.isqrt(len(part)))]
        for part in (before, after)
    ]
    return scipy.stats.ttest_ind(*batches, equal_var=False).pvalue < 0.001


def beside_a_line(values):
    blocks = np.array_split(np.arange(len(values)), 20)
    points = [
        (fmean(block.tolist()), median([values[index] for index in block])) for block in blocks
    ]
    slope = median(
        (later[1] - point[1]) / (later[0] - point[0])
        for point, later in itertools.combinations(points, 2)
    )
    return off([value - slope * at for at, value in enumerate(values)])


def drift_of(values):
    if len(values) < 50:
        return None
    means = [fmean(batch.tolist()) for batch in np.array_split(values, 10)]
    line = scipy.stats.linregress(range(10), means)
    first, last = (line.intercept + line.slope * at for at in (-0.5, 9.5))
    if (
        line.pvalue < 0.001
        and min(first, last) > 0
        and max(first, last) / min(first, last) - 1 >= 0.02
    ):
        return last / first - 1
    tens = [median(values[at : at + 10]) for at in (0, 10, 20)] + [median(values)]
    steps = [after / before - 1 for before, after in itertools.pairwise(tens)]
    if all(abs(step) >= 0.02 for step in steps) and len({step > 0 for step in steps}) == 1:
        return tens[-1] / tens[0] - 1
    return None


def segments_of(values):
    start = first_steady(values)
    if start is None:
        return []
    edges = [start, *(start + each for each in changes_of(values[start:])), len(values)]
    medians = [median(values[low:high]) for low, high in itertools.pairwise(edges)]
    if len(edges) > 2 and medians[0] > medians[1] and edges[1] <= longest(len(values)):
        edges, medians = edges[1:], medians[1:]
    ranges = list(itertools.pairwise(edges))
    return [
        (low, high, middle, drift_of(values[low:high]))
        for (low, high), middle in zip(ranges, medians, strict=True)
    ]


def series_of(kind, count, seed):
    chance = random.Random(f"{kind} {count} {seed}")
    noise = 0.01 * (1 + seed % 4)
    place, size = chance.uniform(0.15, 0.85), chance.choice([-0.3, -0.06, 0.04, 0.08, 0.3])
    values = []
    for at in range(count):
        value = 2.0
        if kind == "two changes":
            size = (0.4, -0.25, 0.15)[seed % 3]
        if kind == "fading":
            value += (0.5, 3.0, 9.0)[seed % 3] * math.exp(-at / (1 + 3 * (seed % 5)))
        elif kind == "slow part":
            value *= 1.3 if at < place * count / 2 else 1.0
        elif kind == "change":
            value *= 1 + size if at >= place * count else 1.0
        elif kind == "two changes":
            value *= 1 + size * ((at >= 0.3 * count) + (at >= 0.65 * count))
        elif kind == "drift":
            value *= 1 + size * at / count
        elif kind == "ramp":
            value *= 1 - 0.3 * math.exp(-at / 12)
        elif kind == "unsettled":
            value *= 1 + 0.5 * (1 - at / count)
        elif kind == "start and change":
            value = value * (1.2 if at >= 0.6 * count else 1.0) + 6 * math.exp(-at / 3)
        value *= 1 + noise * chance.gauss(0, 1)
        values.append(
            value * (chance.uniform(1.5, 6) if chance.random() < 0.02 * (seed % 3) else 1)
        )
    return values


KINDS = (
    "flat",
    "fading",
    "slow part",
    "change",
    "two changes",
    "drift",
    "ramp",
    "unsettled",
    "start and change",
)
COUNTS = (9, 10, 11, 23, 39, 40, 41, 57, 99, 100, 131)
CASES = [(kind, count, seed) for kind in KINDS for seed, count in enumerate(COUNTS)]
CASES += [
    (kind, count, seed)
    for kind in KINDS
    for count, seed in ((101, 20), (120, 21), (120, 24), (143, 25))
]


@pytest.mark.parametrize("kind", KINDS)
def test_segments_by_the_rules_in_plain_python(kind):
    for _, count, seed in (case for case in CASES if case[0] == kind):
        values = series_of(kind, count, seed)
        assert warmup.first_steady_index(values) == first_steady(values), (count, seed)
        found = [
            (each.start, each.stop, each.median, each.drift)
            for each in segments.find_segments(values)
        ]
        expected = segments_of(values)
        assert [each[:2] for each in found] == [each[:2] for each in expected], (count, seed)
        for each, other in zip(found, expected, strict=True):
            assert each[2] == pytest.approx(other[2])
            assert each[3] == (None if other[3] is None else pytest.approx(other[3])), (count, seed)


def test_the_kinds_of_series_have_what_they_are_named_after():
    """Else the test above would compare nothing with nothing."""
    found = {
        kind: [segments.find_segments(series_of(*case)) for case in CASES if case[0] == kind]
        for kind in KINDS
    }
    assert sum(len(each) > 1 for each in found["change"]) >= 4
    assert sum(len(each) > 2 for each in found["two changes"]) >= 3
    assert any(each and each[0].drift for each in found["drift"])
    assert any(each and each[0].drift for each in found["ramp"])
    assert sum(not each for each in found["unsettled"]) >= 3
    assert sum(each[0].start > 3 for each in found["fading"] if each) >= 4


@pytest.mark.parametrize("seed", range(12))
def test_a_warm_up_by_the_rule_in_plain_python(seed):
    for count in (10, 12, 25, 40, 64):
        values = series_of(("fading", "slow part", "flat")[seed % 3], count, seed)
        found = warmup.detect_warmup(values)
        if not settles(values):
            assert found is None
        else:
            start, reference, spread = slow_start(values, count // 2)
            assert (found.start, found.reference, found.sigma) == (
                start,
                pytest.approx(reference),
                pytest.approx(spread),
            )


@pytest.mark.parametrize("seed", range(6))
def test_deviations_and_the_best_split(seed, monkeypatch):
    values = series_of("change", 61 + seed, seed)
    assert changepoints._deviations(values) == pytest.approx(
        [0.0, *(off(values[:end]) for end in range(1, len(values) + 1))]
    )
    series = np.asarray(values)
    for least in (5, 20, 30):
        places = range(least, len(values) - least + 1)
        split = min(places, key=lambda place: off(values[:place]) + off(values[place:]))
        assert changepoints._best_split(series, least) == split
    assert changepoints._best_split(series, (len(values) + 2) // 2) is None
    # Of a long series the medians of blocks are split first.
    clear = [
        *(2 + 0.01 * (at * 7 % 5) for at in range(37)),
        *(3 + 0.01 * (at * 7 % 5) for at in range(80)),
    ]
    for searched in (20, 30, 60):
        monkeypatch.setattr(changepoints, "SEARCHED", searched)
        assert changepoints._best_split(np.asarray(clear), 20) == 37
        assert changepoints._best_split(np.asarray(clear), 40) == 40
        assert changepoints._best_split(np.asarray(clear[::-1]), 20) == 80


@pytest.mark.parametrize(
    ("medians", "change"),
    [
        ((2.0, 3.0, 2.5), 0.5),
        ((3.0, 2.0), 0.5),
        ((0.0, 0.0), 0.0),
        ((0.0, 2.0), math.inf),
        ((4.0,), 0.0),
    ],
)
def test_a_relative_change(medians, change):
    assert changepoints.relative_change(*medians) == change


def test_the_share_of_ordered_pairs():
    before, after = np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 5.0, 9.0])
    # Of the twelve pairs only 2 and 2, and 3 and 2, aren't in order.
    assert changepoints._ordered_share(before, after) == pytest.approx(10 / 12)
    assert changepoints._ordered_share(after, before) == pytest.approx(10 / 12)


@pytest.mark.parametrize(
    ("values", "weights", "expected"),
    [([2.0, 3.0, 7.0], None, 4.0), ([2.0, 3.0, 7.0], [1, 2, 5], 43 / 8), ([7.0], [3], 7.0)],
)
def test_a_mean(values, weights, expected):
    assert mean(values, weights) == pytest.approx(expected)


def test_deviations_and_medians_of_values():
    values = [3.0, 9.0, 4.0, 20.0]
    assert deviation(values) == pytest.approx(statistics.stdev(values))
    assert deviation([3.0, 9.0]) == pytest.approx(statistics.stdev([3.0, 9.0]))
    assert deviation([3.0]) is None
    assert deviation([1e200, 3e200]) == pytest.approx(math.sqrt(2) * 1e200)
    assert deviation([0.1] * 3) == 0.0
    assert own_median(values) == 6.5
    assert own_median(values[:3]) == 4.0
    assert own_median([7]) == 7.0
    assert robust_sigma(values) == pytest.approx(1.4826 * 3.0)
    assert [median_index(values[:count]) for count in (1, 2, 3, 4)] == [0, 0, 2, 2]
    with pytest.raises(ValueError, match="no values"):
        median_index([])


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        ([1.5, 1.25, 3.0], 0.01),
        ([3.0, 120.0], 0.1),
        ([1e-07, 2.0], 1e-7),
        ([1.25e-07], 1e-9),
        ([1e22], 1e22),
        ([], 1.0),
        ([1e22, 0.5], 0.1),
    ],
)
def test_the_unit_of_the_last_decimal(values, unit):
    assert resolution(values) == pytest.approx(unit)


@pytest.mark.parametrize(
    ("slow", "found"), [(31, [(31, 80)]), (32, [(32, 80)]), (33, [(0, 33), (33, 80)])]
)
def test_what_is_left_of_a_warm_up_is_no_segment(slow, found):
    """Three fast records hide a slow start from its rule; a warm-up takes two fifths of the records
    at most.
    """
    values = [
        2 * (1.3 if 3 <= at < slow else 1.0) * (1 + 0.01 * math.sin(7 * at)) for at in range(80)
    ]
    assert [(each.start, each.stop) for each in segments.find_segments(values)] == found
    # What is faster first is a segment, however short.
    turned = [
        2 * (0.8 if 3 <= at < slow else 1.0) * (1 + 0.01 * math.sin(7 * at)) for at in range(80)
    ]
    assert [(each.start, each.stop) for each in segments.find_segments(turned)] == [
        (0, slow),
        (slow, 80),
    ]


@pytest.mark.parametrize(
    ("levels", "found"),
    [
        ([(20, 2.0), (30, 3.0), (25, 3.3)], [20, 50]),
        ([(25, 2.0), (30, 2.2), (20, 3.3)], [25, 55]),
        ([(25, 2.0), (25, 3.0), (25, 3.6), (25, 3.9)], [25, 50, 75]),
        ([(25, 3.9), (25, 3.6), (25, 3.0), (25, 2.0)], [25, 50, 75]),
        ([(30, 2.0), (30, 3.0), (30, 3.4)], [30, 60]),
        ([(40, 2.0), (40, 3.0), (40, 6.0)], [40, 80]),
        # Of 103 records, a segment has 21 or more.
        ([(21, 2.0), (82, 3.0)], [21]),
        ([(20, 2.0), (83, 3.0)], [21]),
        ([(82, 3.0), (21, 2.0)], [82]),
        ([(83, 3.0), (20, 2.0)], [82]),
        # Half as many are too few for a change.
        ([(20, 2.0), (20, 3.0)], [20]),
        ([(20, 2.0), (19, 3.0)], []),
        ([(100, 2.0)], []),
        # 2% is a change, less is none.
        ([(50, 2.0), (50, 2.038)], []),
        ([(50, 2.0), (50, 2.042)], [50]),
        # There and back again: the order of the values shows no one change.
        ([(40, 2.0), (40, 3.0), (40, 2.0)], []),
    ],
)
def test_the_changes_of_levels(levels, found):
    values = [
        level * (1 + 0.002 * math.sin(7 * at)) for count, level in levels for at in range(count)
    ]
    assert changepoints.change_points(np.asarray(values)) == found
    assert changes_of(values) == found


def test_a_drift_is_no_change_of_one_part():
    """A ramp in the beginning is told by its first ten values, one over the whole by its line."""

    def drift(values):
        (one,) = segments.find_segments(
            [each * (1 + 0.001 * math.sin(7 * at)) for at, each in enumerate(values)]
        )
        return one.drift

    assert drift([2 + 0.002 * at for at in range(100)]) == pytest.approx(0.1, abs=0.003)
    assert drift([2 + 0.00035 * at for at in range(100)]) is None
    assert drift([2 + 0.002 * at for at in range(50)]) == pytest.approx(0.05, abs=0.003)
    assert drift([2 + 0.002 * at for at in range(49)]) is None
    # Each ten comes nearer, by 2% or more, from one side.
    ramp = [1.8, 1.88, 1.95]
    assert drift([level for level in ramp for _ in range(10)] + [2.0] * 170) == pytest.approx(
        2 / 1.8 - 1, abs=0.003
    )
    for other in ([1.8, 1.88, 1.97], [1.94, 1.95, 2.0], [2.2, 1.88, 1.95]):
        assert drift([level for level in other for _ in range(10)] + [2.0] * 170) is None
