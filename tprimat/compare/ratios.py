"""The ratio of two sides: by run means with an interval, or by levels where a run has several."""

from __future__ import annotations

import statistics

from tprimat.analysis import intervals
from tprimat.analysis.summary import SegmentMetrics, StepRange
from tprimat.compare.result import LevelRatio, Ratio, SideResult

RATE = "tokens_per_second_per_gpu"

PAIRS = 4
"""Pairs of levels that are told one by one; of more, the least and the largest ratio."""


def ratio(reference: SideResult, side: SideResult) -> Ratio | None:
    """How many times as fast as the reference a side is; None where a figure is missing."""
    means = [side.speeds, reference.speeds]
    if not all(means):
        return None
    value = statistics.fmean(means[0]) / statistics.fmean(means[1])
    if not (side.settled and reference.settled):
        return _by_levels(reference, side, value)
    # Without a steady state or with a drift a run has no one figure, and an interval between such runs would be of
    # their warm-up or of their length.
    steady = all(result.summary.is_stationary for each in (side, reference) for result in each.counted)
    between = intervals.log_welch(*means) if steady else None
    if between is None:
        return Ratio(value, None, None)
    needed = None
    if not between.is_significant:
        needed = intervals.runs_needed(abs(between.ratio - 1), max(map(_spread, means)))
    return Ratio(between.ratio, between.low, between.high, between.minimum_detectable_effect, needed)


def steps(level: SegmentMetrics | StepRange) -> str:
    """The steps of a level, as a report shows them."""
    return f"{level.first_step}–{level.last_step}"


def _spread(speeds: list[float]) -> float:
    return statistics.stdev(speeds) / statistics.fmean(speeds) if len(speeds) > 1 else 0.0


def _by_levels(reference: SideResult, side: SideResult, value: float) -> Ratio:
    sides, references = _speeds_by_level(side), _speeds_by_level(reference)
    by_level = [
        LevelRatio(of_side / of_reference, side_steps, reference_steps)
        for side_steps, of_side in sides
        for reference_steps, of_reference in references
    ]
    single = len(side.counted) == len(reference.counted) == 1
    # A single run's last level is what it ended on; of several runs all that is left is the whole.
    shown = by_level[-1].value if single else value
    if len(by_level) > PAIRS:
        by_level.sort(key=lambda level: level.value)
        by_level = [by_level[0], by_level[-1]]
    return Ratio(shown, None, None, levels=tuple(by_level))


def _speeds_by_level(side: SideResult) -> list[tuple[str | None, float]]:
    """Steps and rate of each level; one entry without steps for a side of a single figure."""
    known: list[tuple[str | None, float]] = []
    for number, result in enumerate(side.counted, 1):
        of = "" if len(side.counted) == 1 else f" of run {number}"
        known += [
            (f"{steps(stretch)}{of}", stretch.tokens_per_second_per_gpu)
            for stretch in result.summary.step_ranges
            if stretch.tokens_per_second_per_gpu is not None
        ]
    return known if len(known) > 1 and not side.settled else [(None, statistics.fmean(side.speeds))]
