"""Rates as text and with their intervals, and the records that a run's figures are of."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Literal

from tprimat import units
from tprimat.analysis import intervals
from tprimat.analysis.summary import SegmentMetrics
from tprimat.compare import RunResult, SideResult
from tprimat.compare.ratios import RATE as RATE


@dataclasses.dataclass(frozen=True)
class Bounds:
    """What a side's rate lies between: the interval between runs, their range, or that of the steps within one run."""

    low: float
    high: float
    kind: Literal["between", "range", "within"]
    coverage: float = intervals.CONFIDENCE


def bounds_of(side: SideResult) -> Bounds | None:
    """The interval between runs, else their range; of a single run that within it; None without any."""
    rates = side.speeds
    if len(rates) > 1:
        one_level = all(len(result.summary.segments) <= 1 for result in side.counted)
        between = intervals.between_run_interval(rates) if one_level else None
        return Bounds(between.low, between.high, "between") if between else Bounds(min(rates), max(rates), "range")
    levels = side.counted[0].summary.segments if side.counted else ()
    return bounds_within(levels[0], rates[0]) if rates and len(levels) == 1 else None


def bounds_within(level: SegmentMetrics, rate: float | None) -> Bounds | None:
    """The interval of the rate that a run has at one of its levels; None where its mean has none."""
    interval = level.interval
    if rate is None or interval is None or interval.about != "mean":
        return None
    low, high = rate * level.mean / interval.high, rate * level.mean / interval.low
    return Bounds(low, high, "within", interval.coverage or 0)


def first_step(result: RunResult) -> int | None:
    """The first step that the figures are of: that of the first level, where a run has several."""
    levels = result.summary.segments
    return levels[0].first_step if levels else result.summary.steady.first_step


def first_counted(result: RunResult) -> int:
    """Index of the first record that the figures are of."""
    first = first_step(result) or 1
    return next((index for index, step in enumerate(result.run.steps) if step >= first), 0)


def rate_unit(sides: Iterable[SideResult]) -> str:
    """tokens/s/GPU, or what stands for it where a processor trained."""
    platforms = {(side.run.platform, side.count) for side in sides}
    kinds = {platform for platform, _ in platforms}
    if kinds == {"cpu"}:
        return "tokens/s" if {count for _, count in platforms} == {1} else "tokens/s/process"
    return "tokens/s/device" if "cpu" in kinds else "tokens/s/GPU"


def rate(value: float | None) -> str:
    """A rate with at least three digits."""
    digits = 0 if value is None or value >= 1000 else 1 if value >= 100 else 2 if value >= 10 else 3
    return units.number(value, digits)


def untimed(side: SideResult) -> str:
    """What stands for a time or a rate that a side has none of."""
    return "emulated" if side.run.environment.emulated else units.UNKNOWN


def rate_of(side: SideResult) -> str:
    """A side's rate; of runs that change their level or drift, the lowest and the highest one."""
    if side.value(RATE) is None and not side.levels:
        return untimed(side)
    if side.settled:
        return rate(side.value(RATE))
    rates = [each.tokens_per_second_per_gpu for result in side.counted for each in result.summary.step_ranges]
    known = [each for each in rates if each is not None]
    return f"{rate(min(known))}–{rate(max(known))}" if known else units.UNKNOWN
