"""Twenty halvings of each real set of ten runs; tools/halvings.py compares all 126 of each."""

import random

import pytest
from tool_modules import load_tool

SEED = 1
HALVINGS = 20


@pytest.fixture(scope="module")
def tool():
    return load_tool("halvings")


@pytest.fixture(scope="module")
def halvings(tool):
    return random.Random(SEED).sample(tool.HALVINGS, HALVINGS)


def test_there_are_126_halvings(tool):
    assert len(set(tool.HALVINGS)) == 126
    assert all(sorted(first + second) == list(range(10)) for first, second in tool.HALVINGS)


def test_halves_of_one_system_are_seldom_different_and_a_slower_half_is_found(
    tool, halvings, samples
):
    found, runs = {}, {}
    for name, result, runs[name] in tool.results(halvings, samples / "mlperf"):
        found[name] = result
        assert 0.001 < result.half_width < 0.03
    other = tool.between(runs[tool.B200], runs[tool.MI355X], halvings, SEED)
    assert len(found) == 6
    assert other.comparisons == 2 * HALVINGS
    assert tool.faults(found, other) == []


def test_what_must_not_be_is_a_fault(tool):
    always, never = tool.Outcome(20, 20, 20), tool.Outcome(20, 20, 0)
    assert tool.faults({"one": tool.SetResult(never, always, 0.01)}, always) == []
    assert (
        len(tool.faults({"one": tool.SetResult(always, never, 0.01)}, tool.Outcome(20, 19, 19)))
        == 4
    )
