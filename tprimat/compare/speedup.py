"""The ratio of two systems' rates: by the means of their runs, and by segments if a speed
changes.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence

from tprimat.analysis import intervals
from tprimat.analysis.intervals import Bounds, Difference
from tprimat.analysis.summary import SegmentMetrics, rounding_variance
from tprimat.compare.result import RATE as RATE
from tprimat.compare.result import Ratio, RunResult, SegmentRatio, SystemResult

PAIRS = 4
"""Most pairs of segments that are all listed; of more, only the smallest and the largest ratio
are.
"""

PAIRED_ROUNDS = 4
"""Fewest rounds of one session that are compared in pairs."""


def ratio(baseline: SystemResult, system: SystemResult) -> Ratio | None:
    """Return how many times as fast as the baseline a system is; None if a rate is missing.

    The ratio is that of the systems' rates (figures.over_runs); its interval is that of the ratio
    of the runs' geometric means. Change points and drift don't remove the interval: they are part
    of what varies from run to run. There is no interval if a run is still starting up, since that
    error isn't random; nor if the interval is too wide to be useful and includes 1. However wide,
    an interval that excludes 1 shows which system is faster.
    """
    if not system.speeds or not baseline.speeds:
        return None
    value = speed(system) / speed(baseline)
    if system.is_unsettled or baseline.is_unsettled:
        return Ratio(value, None, None)
    segments = _by_segment(baseline, system)
    found = difference(system.valid_runs, baseline.valid_runs)
    if found is None:
        errors = []
        for each in (system, baseline):
            errors.append(
                max((result.summary.coarseness for result in each.valid_runs), default=0.0)
            )
        # It is unknown only for a log that is timed on another clock than its own.
        settled = sum(errors) if all(errors) else 2 * max(errors)
        return Ratio(
            value,
            None,
            None,
            segments=segments,
            unresolved=settled if abs(math.log(value)) < settled else 0.0,
        )
    low, high = map(math.exp, found.interval())
    needed = None
    if low <= 1 <= high:
        spread = found.spread(len(system.speeds), len(baseline.speeds))
        if found.method != "paired":
            spread = max(spread, *map(_spread, (system.speeds, baseline.speeds)))
        needed = intervals.runs_needed(abs(value - 1), spread)
    effect = found.minimum_detectable_effect
    if interval(found) is None:
        return Ratio(value, None, None, None, effect, needed, segments, is_too_wide=True)
    return Ratio(value, low, high, found.method, effect, needed, segments)


def interval(found: Difference) -> Bounds | None:
    """Return the bounds of a ratio, given the difference of logarithms; None if they include 1 and
    are too wide to be useful.
    """
    low, high = map(math.exp, found.interval())
    if low <= 1 <= high and intervals.is_too_wide(math.log(high / low)):
        return None
    return (low, high)


def speed(system: SystemResult) -> float:
    """Return the rate of a system; at least one of its runs must have one."""
    return system.value(RATE) or statistics.geometric_mean(system.speeds)


def difference(
    system: Sequence[RunResult],
    baseline: Sequence[RunResult],
    metric: str = RATE,
    transform: Callable[[float], float] = math.log,
) -> Difference | None:
    """Return the difference of a metric of two systems' runs, by default of its logarithm; None
    with too few runs.

    By default this is Welch's t-test. With PAIRED_ROUNDS or more rounds of one session, in which
    the two systems alternated in being first, it is the paired t-test of the rounds: drift over
    time then affects both systems equally.
    """
    rounds = _rounds(system, baseline)
    if len(rounds) >= PAIRED_ROUNDS:
        logs = []
        for each in zip(*rounds, strict=True):
            logs.append(values(each, metric, transform))
        paired = None
        if all(len(log) == len(rounds) for log in logs):
            paired = intervals.paired(*logs)
        if paired is not None:
            return paired
    one = values(system, metric, transform)
    other = values(baseline, metric, transform)
    if metric != RATE:
        return intervals.difference(one, other)
    of_system = rounding_variance([result.summary for result in system])
    of_baseline = rounding_variance([result.summary for result in baseline])
    return intervals.difference(
        one, other, floors=(of_system, of_baseline), within=within(system, baseline)
    )


def within(*systems: Sequence[RunResult]) -> float:
    """Return half the width of the interval within the only run of a system, of the logarithm of
    its rate: the largest one, or 0 if each system has several runs or it is unknown.
    """
    single = []
    for results in systems:
        if len(results) == 1:
            single.append(results[0].summary.within)
    return max((math.log(each.interval()[1] / each.value) for each in single if each), default=0.0)


def values(
    results: Sequence[RunResult], metric: str, transform: Callable[[float], float] = float
) -> list[float]:
    """Return the transformed values of a metric, of the runs that have it; values that aren't above
    zero are omitted if the transform is the logarithm.
    """
    known = (result.rate if metric == RATE else result.value(metric) for result in results)
    transformed = []
    for value in known:
        if value is not None and (value > 0 or transform is not math.log):
            transformed.append(transform(value))
    return transformed


def _rounds(
    system: Sequence[RunResult], baseline: Sequence[RunResult]
) -> list[tuple[RunResult, RunResult]]:
    """Return the pair of runs of each round of a session, if it measured all runs of both systems
    and they alternated in being first; empty otherwise.
    """
    sessions = {result.run.session for result in (*system, *baseline)}
    if len(sessions) != 1 or sessions == {None} or len(system) != len(baseline):
        return []
    by_round = {result.run.round: result for result in baseline}
    rounds = []
    for result in sorted(system, key=lambda each: each.run.round or 0):
        if (number := result.run.round) in by_round:
            rounds.append((result, by_round[number]))
    starts = [(one.run.started, other.run.started) for one, other in rounds]
    first = []
    for one, other in starts:
        if one is not None and other is not None:
            first.append(one < other)
    alternates = all(before != after for before, after in itertools.pairwise(first))
    if len(rounds) == len(first) == len(system) and alternates:
        return rounds
    return []


def _spread(speeds: Sequence[float]) -> float:
    if len(speeds) > 1:
        return statistics.stdev(map(math.log, speeds))
    return 0.0


def steps(segment: SegmentMetrics) -> str:
    """Return the steps of a segment, as a report shows them."""
    return f"{segment.first_step}–{segment.last_step}"


def _by_segment(baseline: SystemResult, system: SystemResult) -> tuple[SegmentRatio, ...]:
    """Return the ratio of each segment of the system to each of the baseline; empty if the speed of
    neither changes.
    """
    if not system.segments and not baseline.segments:
        return ()
    found = []
    for system_steps, rate in _segment_speeds(system):
        for baseline_steps, baseline_rate in _segment_speeds(baseline):
            found.append(SegmentRatio(rate / baseline_rate, system_steps, baseline_steps))
    if len(found) > PAIRS:
        found.sort(key=lambda segment: segment.value)
        found = [found[0], found[-1]]
    return tuple(found)


def _segment_speeds(system: SystemResult) -> list[tuple[str | None, float]]:
    """Return steps and rate of each segment; a system whose speed doesn't change has one entry,
    whose steps are None.
    """
    known: list[tuple[str | None, float]] = []
    for segment in system.segments:
        if segment.tokens_per_second_per_gpu is not None and system.unit == "tokens":
            known.append((steps(segment), segment.tokens_per_second_per_gpu))
    return known or [(None, speed(system))]


def kind_of_device(systems: Sequence[SystemResult]) -> str:
    """Return the word for what the systems' rates are divided by: "GPU"; "process" if all ran on
    CPUs; "device" if some did.
    """
    on_cpu = {system.run.platform == "cpu" for system in systems}
    if True not in on_cpu:
        return "GPU"
    if False not in on_cpu:
        return "process"
    return "device"
