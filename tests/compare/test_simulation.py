"""A handful of the simulated regression checks; tools/simulate_comparisons.py has 1,000 of each."""

import pytest
from tool_modules import load_tool

REPETITIONS, SEED = 12, 1


@pytest.fixture(scope="module")
def tool():
    return load_tool("simulate_comparisons")


@pytest.mark.parametrize("change", [1.0, 1.05])
def test_a_regression_is_found_and_an_unchanged_program_passes(tool, change):
    assert tool.gate_share(REPETITIONS, SEED, 1.0, change, "1%") == 0
    assert tool.gate_share(REPETITIONS, SEED, tool.REGRESSION, change) >= tool.LEAST_FOUND


def test_i1_runs_of_one_system_are_not_split_and_what_differs_is_told_apart(tool):
    assert tool.split_share(REPETITIONS, tool.np.random.default_rng(SEED)) == 0
    for _, one, other in tool.TOLD:
        assert tool.told_share(2, tool.np.random.default_rng(SEED), one, other) == 1
