"""A handful of the simulated slow starts; tools/simulate_starts.py has 1,200 pairs of each series."""

import numpy as np
import pytest
from tool_modules import load_tool

PAIRS = 12


@pytest.fixture(scope="module")
def tool():
    return load_tool("simulate_starts")


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


@pytest.mark.parametrize(("last", "fades"), [(0, False), (20, False), (25, False), (45, True), (60, False)])
def test_the_kept_mean_is_that_of_the_steps_after_the_slow_start(tool, random, last, fades):
    off, kept = tool.bias("iid 1%", 200, tool.Start(last, 2.0, fades), 20, random)
    assert abs(off) <= 0.0015
    assert kept >= 0.9
