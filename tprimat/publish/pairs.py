"""Pairs of points, compared when the site is made, by the rules of compare: same work, several runs
of each, one clock.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from tprimat.analysis import intervals
from tprimat.analysis.intervals import Difference
from tprimat.compare import speedup
from tprimat.compare.figures import aligned
from tprimat.compare.pairs import pair
from tprimat.compare.result import UNLIKE
from tprimat.publish.points import Evidence, places_by
from tprimat.publish.record import REJECTED, Point, PointPair

MOST_PAIRS = 10_000
MOST_RESULT_PAIRS = 1_000
"""Most pairs of all points, and most pairs of the user's own results, whose runs are read again for
each pair.
"""


def speed(point: Point) -> float | None:
    """Return the value by which points are compared: tokens/s per GPU, else samples/s per GPU, else
    targets per second; None without any.
    """
    if point.tokens_per_second_per_gpu:
        return point.tokens_per_second_per_gpu
    if point.samples_per_second and point.num_gpus:
        return point.samples_per_second / point.num_gpus
    if point.time_to_target_seconds:
        return 1 / point.time_to_target_seconds
    return None


def unit(point: Point) -> str:
    """Return the unit of a point's speed."""
    if point.tokens_per_second_per_gpu:
        return "tokens"
    if point.samples_per_second:
        return "samples"
    return "targets"


def compared(one: Evidence, other: Evidence) -> tuple[float, Difference | None] | None:
    """Return how many times as fast as the other a point is, and the difference of the logarithms
    of the runs' speeds.

    None if compare would refuse the two, or one has no speed. The difference is None if one point
    is a single run, or too little is known for an interval.
    """
    if one.system and other.system:
        both = pair(*aligned([other.system, one.system]))
        if both.ratio is None:
            return None
        runs = both.system.valid_runs, both.baseline.valid_runs
        if both.ratio.low is None or min(map(len, runs)) < 2:
            return both.ratio.value, None
        return both.ratio.value, speedup.difference(*runs)
    speeds = speed(one.point), speed(other.point)
    rates = one.point.rates, other.point.rates
    if not speeds[0] or not speeds[1]:
        return None
    if any(max(rate) >= UNLIKE * min(rate) for rate in rates if rate):
        return None
    difference = intervals.welch(*(list(map(math.log, rate)) for rate in rates))
    if difference is None or speedup.interval(difference) is None:
        return speeds[0] / speeds[1], None
    return speeds[0] / speeds[1], difference


def pairs(evidence: Sequence[Evidence]) -> tuple[PointPair, ...]:
    """Return the pairs that have an interval, of the fastest points of each kind of work first, up
    to MOST_PAIRS.
    """
    ranked = []
    for group in places_by(evidence, _work).values():
        ranked += _ranked(sorted(group, key=lambda index: -(speed(evidence[index].point) or 0.0)))
    pairs: list[PointPair] = []
    left = MOST_RESULT_PAIRS
    for _, one, other in sorted(ranked):
        is_result = None not in (evidence[one].system, evidence[other].system)
        if len(pairs) == MOST_PAIRS or (is_result and not left):
            continue
        left -= is_result
        answer = compared(evidence[one], evidence[other])
        if answer is not None and answer[1] is not None:
            low, high = map(math.exp, answer[1].interval())
            pairs.append(PointPair(first=one, second=other, ratio=answer[0], low=low, high=high))
    return tuple(pairs)


def _ranked(group: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return the pairs of points of a group, the fastest first, each with the rank of its slower
    point.
    """
    every = itertools.combinations(range(min(len(group), math.isqrt(2 * MOST_PAIRS) + 1)), 2)
    return [(rank, group[first], group[rank]) for first, rank in every]


def _work(one: Evidence) -> object:
    point = one.point
    if len(point.rates) < 2 or not point.num_gpus or point.mark in REJECTED:
        return None
    kind = (unit(point), point.sequence_length, point.work, point.clock)
    return (point.model, point.task, point.num_gpus, *kind)
