"""Which runs can be repetitions of one system, by their speeds alone.

Runs of one system differ more from each other than the steps within a run do, so intervals within runs say nothing
here: only a gap that is large, and large beside the range of the runs on both of its sides, tells two systems.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

LEAST_GAP = 0.05
"""Of two groups of two runs or more: at 3.00 and 3.01 s, and 3.20 and 3.21 s, the nearest runs are 6.3% apart."""

LEAST_GAP_OF_ONE = 0.2
"""If a group is a single run, of which nobody knows how much it varies."""

RANGES = 4.0
"""So many times the range within each group the gap must exceed: above, the larger range is 0.33%."""


def groups(times: Sequence[float]) -> list[list[int]]:
    """Return the places of runs by groups that run-to-run variation can't explain, the fastest first.

    Args:
        times: mean step time of each run, s.

    Returns:
        One group with all places if they may all be repetitions; else the most groups of which each two neighbors are
        apart.
    """
    order = sorted(range(len(times)), key=lambda place: times[place])
    gaps = [relative_gap(times[one], times[other]) for one, other in itertools.pairwise(order)]
    for least in sorted({gap for gap in gaps if gap > LEAST_GAP}):
        cuts = [place for place, gap in enumerate(gaps, 1) if gap >= least]
        edges = [0, *cuts, len(order)]
        found = [order[start:end] for start, end in itertools.pairwise(edges)]
        if all(_are_apart(*([times[place] for place in each] for each in pair)) for pair in itertools.pairwise(found)):
            return found
    return [order]


def relative_gap(fast: float, slow: float) -> float:
    """Return how much longer the slower of two step times is, as a share of the faster one."""
    return slow / fast - 1


def _are_apart(fast: Sequence[float], slow: Sequence[float]) -> bool:
    gap, ranges = relative_gap(fast[-1], slow[0]), [relative_gap(each[0], each[-1]) for each in (fast, slow)]
    return gap > (LEAST_GAP if min(len(fast), len(slow)) > 1 else LEAST_GAP_OF_ONE) and gap > RANGES * max(ranges)
