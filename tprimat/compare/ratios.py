"""The ratio of two sides: by run means with an interval, or by levels where a run has several."""

from __future__ import annotations

import statistics

from tprimat import intervals
from tprimat.compare.result import LevelRatio, Ratio, SideResult
from tprimat.metrics import LevelFigures

RATE = "tokens_per_second_per_gpu"


def ratio(reference: SideResult, side: SideResult) -> Ratio | None:
    """How many times as fast as the reference a side is; None where a figure is missing."""
    means = [_speeds(each) for each in (side, reference)]
    if not all(means):
        return None
    if side.levels or reference.levels:
        return _by_levels(reference, side)
    value = statistics.fmean(means[0]) / statistics.fmean(means[1])
    steady = all(_one_level(each) for each in (side, reference))
    between = intervals.log_welch(*means) if steady else None
    if between is None:
        return Ratio(value, None, None)
    needed = None
    if not between.shown:
        needed = intervals.runs_needed(abs(between.ratio - 1), max(map(_spread, means)))
    return Ratio(between.ratio, between.low, between.high, between.smallest, needed)


def steps(level: LevelFigures) -> str:
    """The steps of a level, as a report shows them."""
    return f"{level.first_step}–{level.last_step}"


def _speeds(side: SideResult) -> list[float]:
    """The rate of each counted run."""
    figures = [result.summary.performance.tokens_per_second_per_gpu for result in side.counted]
    return [figure for figure in figures if figure]


def _spread(speeds: list[float]) -> float:
    return statistics.stdev(speeds) / statistics.fmean(speeds) if len(speeds) > 1 else 0.0


def _one_level(side: SideResult) -> bool:
    """Whether each run has one figure. Without a steady state or with a drift it has none, and an
    interval between such runs would be of their warm-up or of their length.
    """
    return all(result.summary.one_level for result in side.counted)


def _by_levels(reference: SideResult, side: SideResult) -> Ratio:
    by_level = tuple(
        LevelRatio(of_side / of_reference, side_steps, reference_steps)
        for side_steps, of_side in _speeds_by_level(side)
        for reference_steps, of_reference in _speeds_by_level(reference)
    )
    return Ratio(by_level[-1].value, None, None, levels=by_level)


def _speeds_by_level(side: SideResult) -> list[tuple[str | None, float]]:
    """Steps and rate of each level; one entry without steps for a side of a single figure."""
    rated = [(steps(level), level.tokens_per_second_per_gpu) for level in side.levels]
    known: list[tuple[str | None, float]] = [(place, rate) for place, rate in rated if rate is not None]
    return known or [(None, statistics.fmean(_speeds(side)))]
