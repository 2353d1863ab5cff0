"""Values of a system from those of its runs, on the clock that a comparison uses."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence

from tprimat.analysis import metrics, run_order, stats
from tprimat.analysis.account import account as account_of
from tprimat.analysis.account import common_clock
from tprimat.analysis.summary import UNLIKE_BLOCKS, Summary, mean_over_blocks, summarize
from tprimat.checks import Finding, physics, training
from tprimat.checks.endings import how_ended, is_finished
from tprimat.compare.result import (
    PRINTED_RATES,
    RATE,
    RATES,
    SAMPLES_RATE,
    MetricValue,
    RunResult,
    SystemResult,
    Unit,
)
from tprimat.compare.systems import System, device
from tprimat.notes import Note, noted
from tprimat.results.account import Clock
from tprimat.results.run import Run, sentences


def system_result(system: System, results: Sequence[RunResult]) -> SystemResult:
    """Return a system with its values, from those of its runs."""
    judged = [result for result in results if result.is_valid]
    # Runs whose values differ in digits that no sentence shows have one finding.
    unlike: dict[tuple[str, ...], Finding] = {}
    rates = []
    for result in judged:
        of_run = physics.findings(result.run, result.summary)
        for finding in (*of_run, *training.findings(result.run)):
            unlike.setdefault((finding.rule, *sentences([finding.note])), finding)
        if result.rate is not None:
            rates.append(result.rate)
    values = _values(judged)
    # Codes of notes on runs that are omitted, since one note or finding on the system says it.
    repeated = {UNLIKE_BLOCKS}
    judgments = []
    findings = tuple(unlike.values())
    for finding in findings:
        if finding.severity != "info":
            judgments.append(finding.note)
        if finding.rule == "own-rate" and finding.severity == "error":
            repeated.add("rate-withheld")
    value_notes: list[Note] = [*_of_typical_block(judged, values)]
    run_notes = []
    for result in results:
        if not is_finished(result.run):
            run_notes.append(_ending(result))
    for result in results:
        run_notes += result.run.notes
        for note in result.summary.notes:
            if note.code not in repeated:
                value_notes.append(note)
    has_order = not _overlap([result.run for result in judged])
    return SystemResult(
        **{field.name: getattr(system, field.name) for field in dataclasses.fields(System)},
        runs=tuple(results),
        values=values,
        value_notes=noted((*value_notes, *judgments)),
        run_notes=noted(run_notes),
        findings=findings,
        order=run_order.run_order_trend(rates) if has_order else None,
    )


def in_unit(system: SystemResult, unit: Unit) -> SystemResult:
    """Return a system with its rates in a unit."""
    if system.unit == unit:
        return system
    return system_result(system, [dataclasses.replace(each, unit=unit) for each in system.runs])


def in_printed_unit(systems: Sequence[SystemResult]) -> list[SystemResult]:
    """Return the systems, with the first rate that two or more of them print if none has tokens/s:
    samples/s, else TFLOP/s, else MFU.

    A system that lacks it keeps its unit, and the reason why it can't be compared.
    """
    if any(system.unit != "tokens" or system.value(RATE) is not None for system in systems):
        return list(systems)
    for unit, names in PRINTED_RATES.items():
        converted = {}
        for system in systems:
            if not system.run.native_metrics.keys().isdisjoint(names):
                converted[system] = in_unit(system, unit)
        rated = [system for system, other in converted.items() if other.speeds]
        if len(rated) > 1 and (unit != "mfu" or _have_one_peak(rated)):
            return [converted[system] if system in rated else system for system in systems]
    return list(systems)


def _have_one_peak(systems: Sequence[SystemResult]) -> bool:
    """Return whether all systems state one GPU and one precision: a share of another peak tells
    nothing about the speed.
    """
    peaks = set()
    for system in systems:
        peaks.add((device(system.run), system.run.training_config.precision))
    return len(peaks) == 1 and not any(None in peak for peak in peaks)


def _overlap(runs: Sequence[Run]) -> bool:
    """Return whether a run began before half of the time of the one before it had passed: runs that
    overlap have no order.
    """
    if len(runs) < 2:
        return False
    spans = sorted((run.started.timestamp(), trained_seconds(run)) for run in runs if run.started)
    return any(
        later - begun < seconds / 2 for (begun, seconds), (later, _) in itertools.pairwise(spans)
    )


def trained_seconds(run: Run) -> float:
    """Return the wall time of a run, or the sum of its step times, s."""
    # The total is the same wherever the warm-up ends, so no summary is needed.
    account = account_of(run, None)
    if account:
        return account.whole
    return sum(filter(None, run.step_times))


def _of_typical_block(
    results: Sequence[RunResult], values: Mapping[str, MetricValue]
) -> Iterator[Note]:
    """Yield one note for all runs if their mean step time differs from that of the typical block;
    the block that it names is that of the first run with such a note.
    """
    if is_of_blocks(results):
        mean = values["avg_step_time_seconds"].value
        typical = values["median_step_time_seconds"].value
        unlike = results[0].summary.unlike_block
        for result in results:
            if any(note.code == UNLIKE_BLOCKS for note in result.summary.notes):
                unlike = result.summary.unlike_block
                break
        if unlike and (differing := mean_over_blocks(mean, typical, unlike)):
            yield differing


AT_CAP = 0.5
"""Share of the power readings at the cap from which a comparison lists a system, unless the cap was
lowered.
"""


def share_at_cap(system: SystemResult) -> float:
    """Return the share of all runs' readings at the power cap; 0 if an event says the cap was
    lowered.
    """
    shares = []
    samples = []
    for result in system.valid_runs:
        telemetry = result.run.telemetry
        if telemetry.samples:
            if any(issue.code == "power-cap" for issue in telemetry.issues):
                return 0.0
            shares.append(telemetry.throttle_shares.get("power-cap", 0.0))
            samples.append(telemetry.samples)
    if shares:
        return stats.mean(shares, samples)
    return 0.0


def longest_step_share(system: SystemResult) -> float:
    """Return the largest share of a run's steady time that its longest step took beyond the
    median.
    """
    shares = [0.0]
    for result in system.valid_runs:
        values = result.summary.performance
        longest = values.max_step_time_seconds
        median = values.median_step_time_seconds
        mean = values.avg_step_time_seconds
        if longest is None or median is None or not mean or len(result.summary.segments) != 1:
            continue
        segment = result.summary.segments[0]
        shares.append((longest - median) / (mean * (segment.last_step - segment.first_step + 1)))
    return max(shares)


PASSES = 3
"""Most attempts to find the common steps. If the records of two systems cover different numbers of
steps, the second attempt finds them.
"""


Known = dict[tuple[SystemResult, Clock | None, int, int | None], SystemResult]
"""Cached summaries of a system by clock and steps: a baseline is needed for many pairs."""


def aligned(systems: Sequence[SystemResult], known: Known | None = None) -> list[SystemResult]:
    """Return systems with values that can be compared: on one clock, and over the same steps.

    The clock is one that all their runs have; if there is none, each keeps its own. The steps are
    those after the latest slow start of any run, up to the end of the shortest one, so that a pause
    or a checkpoint counts in all of them or in none. If a system is excluded, nothing is compared
    with it, and all keep their values. `known` caches summaries of the first system.
    """
    if any(system.exclusion for system in systems):
        return list(systems)
    clock = common_clock([result.run for system in systems for result in system.valid_runs])
    caches = [known, *[None] * (len(systems) - 1)]
    if clock is not None:
        systems = [_summarized(*each, clock) for each in zip(systems, caches, strict=True)]
    # If records cover several steps, the bounds move to the next record: first for one system, and
    # in the next pass for the others.
    previous = None
    for _ in range(PASSES):
        summaries = []
        for system in systems:
            for result in system.valid_runs:
                summaries.append(result.summary)
        skip = max((summary.skipped for summary in summaries), default=0)
        stop = min((summary.stop for summary in summaries if summary.stop), default=0)
        # The slow start of a long run may end where a short run does: then they have no steps in
        # common. And if a speed changes, the steps after each change count, too.
        has_common = 2 * skip <= stop and all(len(summary.segments) <= 1 for summary in summaries)
        # The bounds no longer move. A run that can't be cut as far as this stays as it is.
        if (skip, stop) == previous:
            break
        previous = skip, stop
        end = stop if has_common else None
        systems = [
            _summarized(*each, clock, skip, end) for each in zip(systems, caches, strict=True)
        ]
    return list(systems)


def _summarized(
    system: SystemResult,
    known: Known | None,
    clock: Clock | None,
    skip: int = 0,
    stop: int | None = None,
) -> SystemResult:
    """Return a system with its values on a clock (None: its own), without the first `skip` steps
    and without those after `stop` (None: up to the end).
    """
    if all(_is_so(result.summary, clock, skip, stop) for result in system.valid_runs):
        return system
    key = system, clock, skip, stop
    if known and key in known:
        return known[key]
    results = []
    for result in system.runs:
        summary = summarize(result.run, clock, skip=skip, stop=stop, earlier=result.summary)
        results.append(dataclasses.replace(result, summary=summary))
    summarized = system_result(system, results)
    if known is not None:
        known[key] = summarized
    return summarized


def _is_so(summary: Summary, clock: Clock | None, skip: int, stop: int | None) -> bool:
    """Return whether a summary already is on this clock and between these steps, see
    _summarized().
    """
    if clock not in (None, summary.clock) or summary.skipped < skip:
        return False
    return stop is None or summary.stop <= stop


def _ending(result: RunResult) -> Note:
    outcome = "is incomplete"
    if how_ended(result.run).kind == "failed":
        outcome = "failed"
    reason = ""
    if result.run.status_reason:
        reason = f": {result.run.status_reason}"
    used = "used" if result.is_valid else "excluded"
    return Note("run-ended", {"outcome": outcome, "reason": reason, "used": used})


def _values(results: Sequence[RunResult]) -> dict[str, MetricValue]:
    metric_values = {}
    of_blocks = is_of_blocks(results)
    for name in (*(metric.name for metric in metrics.METRICS), *_OF_UNITS):
        values = []
        steps = []
        for result in results:
            value = result.value(name)
            if name in _OF_UNITS:
                value = result.rate if RATES[result.unit] == name else None
            if value is not None:
                values.append(float(value))
                steps.append(result.summary.performance.total_steps or 1)
        if values:
            low, high = (min(values), max(values)) if len(values) > 1 else (None, None)
            value = OVER_RUNS[over_runs(name, of_blocks=of_blocks)](values, steps)
            metric_values[name] = MetricValue(value, low, high, len(values))
    return metric_values


def _of_equal(
    average: Callable[[Sequence[float]], float],
) -> Callable[[Sequence[float], Sequence[int]], float]:
    """Return an average that gives all runs equal weight, however many steps they have."""
    return lambda values, _: average(values)


OVER_RUNS: dict[str, Callable[[Sequence[float], Sequence[int]], float]] = {
    "highest": _of_equal(max),
    "lowest": _of_equal(min),
    "mean": _of_equal(statistics.fmean),
    "median": _of_equal(statistics.median),
    # The ratio of two systems is that of their geometric means; and with these, as in each run,
    # throughput is tokens / step time.
    "geometric mean": _of_equal(statistics.geometric_mean),
    "all seconds over all steps": stats.mean,
    "all steps over all seconds": statistics.harmonic_mean,
}
"""Functions that compute a system's value from the values of its runs and their numbers of steps,
by name.
"""


def is_of_blocks(results: Sequence[RunResult]) -> bool:
    """Return whether all runs are timed by the wall time of blocks of training.

    Such runs last until they reach a target, so that their averages weight each run by its steps.
    """
    return bool(results) and all(result.summary.clock == "blocks" for result in results)


def over_runs(name: str, *, of_blocks: bool = False) -> str:
    """Return the name in OVER_RUNS of the function that computes a system's value of a metric."""
    if name.startswith(("peak_", "max_")):
        return "highest"
    if name.startswith("min_"):
        return "lowest"
    if of_blocks and name in _OF_BLOCKS:
        return _OF_BLOCKS[name]
    if name in _SPEEDS:
        return "geometric mean"
    return "mean"


_OF_UNITS = (SAMPLES_RATE, RATES["tflops"], RATES["mfu"])
"""Rates that a system only has if they are compared."""

_RATES = ("steps_per_second", "tokens_per_second", RATE, *_OF_UNITS)
_SPEEDS = {"avg_step_time_seconds", *_RATES}
_OF_BLOCKS = {
    "avg_step_time_seconds": "all seconds over all steps",
    "median_step_time_seconds": "median",
    **dict.fromkeys(_RATES, "all steps over all seconds"),
}
