"""Which runs can be repetitions of one system, by their speeds alone.

Runs of one system differ more from each other than the steps within a run do, so intervals within
runs are no evidence here. Only a gap that is large, also compared with the range of the runs on
both of its sides, separates two systems.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

LEAST_GAP = 0.05
"""Smallest gap between two groups of two runs or more: at 3.00 and 3.01 s, and 3.20 and 3.21 s, the
nearest runs are 6.3% apart.
"""

LEAST_GAP_OF_ONE = 0.2
"""Smallest gap if a group is a single run, whose variation is unknown."""

RANGES = 4.0
"""So many times the range within each group the gap must exceed: above, the larger range is 0.33%.
"""


def cuts(times: Sequence[float], *, is_known_machine: bool = True) -> list[tuple[float, float]]:
    """Return the gaps between groups of runs that run-to-run variation can't explain, the fastest
    first.

    Args:
        times: mean step time of each run, s.
        is_known_machine: whether the runs state the GPU that they ran on. If they don't, nothing
            but their speed tells that two runs are of one system, and LEAST_GAP separates a single
            run, too: at 1.74 and 2.00 s, two logs are of two systems.

    Returns:
        The step times on both sides of each gap, s; of all ways to cut in which each two
        neighboring groups are apart, those of the one with the most groups. Empty if all may be
        repetitions.
    """
    ordered = sorted(times)
    gaps = [slow / fast - 1 for fast, slow in itertools.pairwise(ordered)]
    for least in sorted(gap for gap in gaps if gap > LEAST_GAP):
        edges = [0, *(place for place, gap in enumerate(gaps, 1) if gap >= least), len(ordered)]
        groups = [ordered[start:end] for start, end in itertools.pairwise(edges)]
        least_of_one = LEAST_GAP_OF_ONE if is_known_machine else LEAST_GAP
        pairs = itertools.pairwise(groups)
        if all(_are_apart(fast, slow, least_of_one) for fast, slow in pairs):
            return [(fast[-1], slow[0]) for fast, slow in itertools.pairwise(groups)]
    return []


def _are_apart(fast: Sequence[float], slow: Sequence[float], least_of_one: float) -> bool:
    gap = slow[0] / fast[-1] - 1
    widest = max(each[-1] / each[0] - 1 for each in (fast, slow))
    return gap > max(RANGES * widest, LEAST_GAP if min(len(fast), len(slow)) > 1 else least_of_one)
