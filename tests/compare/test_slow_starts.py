"""A handful of the simulated slow starts; tools/simulate_comparisons.py has 1,200 pairs of each
series.
"""

import msgspec
import numpy as np
import pytest
from tool_modules import load_tool

from tprimat.analysis.summary import summarize
from tprimat.compare.regression import check_regression
from tprimat.compare.threshold import parse
from tprimat.errors import ExitStatus
from tprimat.results.result_file import Loaded

PAIRS = 12


@pytest.fixture(scope="module")
def tool():
    return load_tool("simulate_comparisons")


@pytest.fixture
def random():
    return np.random.default_rng(7)


@pytest.mark.parametrize("kind", ["iid 1%", "AR 0.5%", "+30%/50", "x5/100"])
def test_a_slow_start_makes_equal_systems_no_different_and_hides_no_difference(tool, random, kind):
    start = tool.per_system(lambda steps: 0, lambda steps: min(60, steps // 3))
    found = tool.simulate(PAIRS, random, kind, 0.0, (60, 500), start)
    assert found.different <= 2
    assert (found.found, found.wrong, found.short) == (PAIRS, 0, 0)


def test_short_runs_whose_start_ends_after_the_middle_decide_nothing(tool, random):
    late = tool.per_system(lambda steps: steps // 2 + 1, lambda steps: steps - 5)
    found = tool.simulate(PAIRS, random, "iid 1%", 0.003, (13, 30), late)
    assert (found.short, found.different, found.found, found.wrong) == (PAIRS, 0, 0, 0)


@pytest.mark.parametrize(
    ("last", "form"),
    [(0, "flat"), (20, "flat"), (25, "flat"), (45, "line"), (60, "flat"), (60, "curve")],
)
def test_the_kept_mean_is_that_of_the_steps_after_the_slow_start(tool, random, last, form):
    off, kept = tool.bias("iid 1%", 200, tool.Start(last, 1.3, form), 20, random)
    assert abs(off) <= 0.0015
    assert kept >= 0.9


@pytest.mark.parametrize(
    ("slow", "steps", "factor"), [(20, 200, 1.5), (25, 200, 1.5), (21, 150, 2.0), (45, 500, 2.0)]
)
def test_a_flat_slow_start_is_no_part_of_the_mean(tool, random, slow, steps, factor):
    noise = tool.noise("iid 0.3%", steps, random)
    times = noise * tool.Start(slow, factor, "flat").of(steps)
    kept = summarize(tool.run_of(times, 0)).performance.avg_step_time_seconds
    assert kept == pytest.approx(noise[slow:].mean(), rel=1e-4)


def test_systems_whose_slow_starts_differ_by_five_steps_are_the_same(tool, random):
    starts = [tool.Start(slow, 1.5, "flat") for slow in (20, 25) for _ in range(3)]
    pair, standing = tool.answer(
        [tool.noise("iid 1%", 200, random) * start.of(200) for start in starts]
    )
    assert standing == "none"
    assert pair.ratio.value == pytest.approx(1, abs=0.003)


def test_slow_starts_of_any_length_hide_no_regression_from_the_gate(tool, random):
    for _ in range(10):
        runs = [
            tool.run_of(
                tool.noise("iid 1%", 150, random)
                * tool.Start(int(random.integers(3, 30)), 2.0, "flat").of(150)
                * (1.03 if number >= 3 else 1),
                number,
            )
            for number in range(6)
        ]
        # One device: the candidate is another build.
        runs = [msgspec.structs.replace(run, gpu_info=runs[0].gpu_info) for run in runs]
        files = [
            [Loaded(name, name * 64, tuple(part))]
            for name, part in (("a", runs[:3]), ("b", runs[3:]))
        ]
        assert check_regression(*files, parse("0%", ())).status == ExitStatus.SLOWER


def times_to_the_last_step(pair):
    return [
        (each.summary.skipped, each.summary.stop)
        for side in (pair.baseline, pair.system)
        for each in side.runs
    ]


@pytest.mark.parametrize("slower", [1.0, 1.03])
def test_runs_of_unlike_length_are_compared_over_the_steps_of_the_shortest(tool, random, slower):
    """A pause every 100 steps takes 3% of 150 steps and 4% of 500."""
    different = 0
    for _ in range(PAIRS):
        starts = [tool.drawn_start(random, 0, 40) for _ in range(6)]
        lengths = [150, 150, 150, 500, 400, 300]
        runs = [
            tool.noise("x5/100", steps, random) * start.of(steps) * (slower if number >= 3 else 1)
            for number, (steps, start) in enumerate(zip(lengths, starts, strict=True))
        ]
        pair, standing = tool.answer(runs)
        different += standing == "significant"
        assert tool.log_ratio_of_b(pair)[0] == pytest.approx(slower, abs=0.003)
        assert len(set(times_to_the_last_step(pair))) == 1
    assert different <= 2 if slower == 1 else different == PAIRS


@pytest.mark.parametrize(("slow", "common"), [(29, True), (31, False)])
def test_a_slow_start_beyond_the_middle_of_the_shortest_run_leaves_no_common_steps(
    tool, slow, common
):
    starts = [
        tool.Start(slow, 2.0, "flat") if number >= 3 else tool.Start(0, 1.0, "flat")
        for number in range(6)
    ]
    wobble = 1 + 0.002 * (-1.0) ** np.arange(600)
    pair, _ = tool.answer(
        [wobble[:n] * s.of(n) for s, n in zip(starts, [60] * 3 + [600] * 3, strict=True)]
    )
    stops = {stop for _, stop in times_to_the_last_step(pair)}
    assert stops == ({60} if common else {60, 600})


@pytest.mark.parametrize(("window", "cut"), [(6, True), (7, False)])
def test_a_run_keeps_ten_records_at_least(tool, window, cut):
    run = tool.run_of(1 + 0.002 * (-1.0) ** np.arange(30), 0)
    numbers = tuple(range(window, 30 * window + 1, window))
    run = msgspec.structs.replace(run, steps=numbers, window_steps=(window,) * 30)
    assert summarize(run, stop=65).stop == (60 if cut else 210)
    kept = "steps 61–180 are excluded: not all runs of the comparison are as long"
    assert (kept in summarize(run, stop=65).warnings) == cut


def test_a_speed_that_changes_counts_to_the_end_of_its_run(tool, random):
    changing = tool.noise("iid 0.3%", 400, random) * np.where(np.arange(400) < 200, 1.0, 0.8)
    pair, _ = tool.answer(
        [*(tool.noise("iid 0.3%", 100, random) for _ in range(3)), *[changing] * 3]
    )
    assert tool.log_ratio_of_b(pair)[0] == pytest.approx(0.9, abs=0.005)
