"""Which runs may be repetitions of one system, by their step times."""

from __future__ import annotations

import pytest
from limits import limits

from tprimat.analysis.repetitions import cuts


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ([], []),
        ([1.0], []),
        ([1.0, 1.0, 1.0], []),
        # Two groups of two, in any order; a third one.
        ([3.0, 3.2, 3.01, 3.21], [(3.01, 3.2)]),
        ([3.0, 3.2, 3.01, 3.21, 4.0, 4.01], [(3.01, 3.2), (3.21, 4.0)]),
        # A gap beside a wide range says nothing.
        ([3.0, 3.2, 3.1, 3.5, 3.51], []),
        # A single run, and two single ones.
        ([1.0, 1.01, 1.02, 1.3], [(1.02, 1.3)]),
        ([4.01, 2.71], [(2.71, 4.01)]),
        ([1.0, 1.1], []),
        ([1.0, 1.3, 1.7], [(1.0, 1.3), (1.3, 1.7)]),
    ],
)
def test_i1_gaps_that_variation_cannot_explain(times, found):
    assert cuts(times) == found


def of_two(gap):
    return len(cuts([1.0, 1.0001, 1.0001 * (1 + gap), 1.0002 * (1 + gap)]))


@limits(
    ("two groups of two", of_two, (0.0499, 0), (0.0501, 1)),
    (
        "a single run",
        lambda gap: len(cuts([1.0, 1.0001, 1.0001 * (1 + gap)])),
        (0.199, 0),
        (0.201, 1),
    ),
    ("two single runs", lambda gap: len(cuts([1.0, 1 + gap])), (0.199, 0), (0.201, 1)),
    (
        "two single runs on unknown machines",
        lambda gap: len(cuts([1.0, 1 + gap], is_known_machine=False)),
        (0.0499, 0),
        (0.0501, 1),
    ),
    (
        "ranges of the faster group",
        lambda ranges: len(cuts([1.0, 1.02, *[1.02 * (1 + 0.02 * ranges)] * 2])),
        (3.99, 0),
        (4.01, 1),
    ),
)
def test_i1_limits_of_a_gap(ask, below, above):
    assert (ask(below[0]), ask(above[0])) == (below[1], above[1])
