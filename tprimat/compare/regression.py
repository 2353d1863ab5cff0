"""Is a candidate worse than a baseline by more than a threshold? For CI.

Each metric of each setup is worse, within its threshold, or inconclusive. The intervals are those
of the comparison: each run counts once, two-sided at intervals.CONFIDENCE, with Holm's correction
over all metrics and setups.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from tprimat.analysis import intervals, metrics
from tprimat.analysis.efficiency import Options
from tprimat.analysis.intervals import Difference, Method
from tprimat.checks.compute import Mode
from tprimat.compare import (
    IN_SAMPLES,
    NOTHING_KNOWN,
    Loaded,
    Pair,
    SystemResult,
    compare,
    precision,
    speedup,
)
from tprimat.compare.caveats import contradictions, doubts, told_of
from tprimat.compare.figures import aligned, in_unit
from tprimat.compare.loss import losses
from tprimat.compare.one_text import is_unnamed
from tprimat.compare.pairs import pair
from tprimat.compare.result import SAMPLES_RATE, Comparison, Unit
from tprimat.compare.speedup import RATE
from tprimat.compare.systems import measurement, occasion
from tprimat.compare.threshold import LOSS, Threshold
from tprimat.errors import ExitStatus, most_severe
from tprimat.notes import Note, NoteValue, about, noted, with_texts
from tprimat.results.run import MemoryMetrics, Run
from tprimat.settings.rows import IDENTITY
from tprimat.text import plain

Answer = Literal["worse", "within", "inconclusive", "not comparable", "implausible"]

_STATUS = {
    "worse": ExitStatus.SLOWER,
    "within": ExitStatus.OK,
    "inconclusive": ExitStatus.INCONCLUSIVE,
    "not comparable": ExitStatus.NOT_COMPARABLE,
    "implausible": ExitStatus.IMPLAUSIBLE,
}

ASSUMED_SPREAD = 0.01
"""Relative spread of run means if there are too few runs to estimate it."""

MOST_RUNS = 100

LONGER = Note("train-longer")
MORE_STEPS = Note("run-longer")
RETRY = Note("repeat-runs")
CHOOSE = Note("choose-systems")
_SAMPLES = dataclasses.replace(metrics.by_name(RATE), name=SAMPLES_RATE, unit="samples/s/GPU")


@dataclasses.dataclass(frozen=True)
class Check:
    """A metric of one setup.

    Attributes:
        baseline, candidate: names of the systems; None if there is none.
        notes: why the answer is what it is.
        threshold: None if nothing could be compared.
        values: means over the runs of baseline and candidate, in the metric's unit.
        runs: numbers of runs of baseline and candidate.
        change: candidate / baseline, or candidate - baseline for a threshold in the metric's unit.
        low, high: interval of the change at CONFIDENCE; None with too few runs.
        method: how the interval was computed.
        p: p value of the null hypothesis that the true change equals the threshold; None with too
            few runs.
        p_adjusted: p after Holm's correction for all checks; this one decides.
        runs_needed: runs of each system that would decide; None if the check is decided, or if no
            number up to MOST_RUNS would.
        pair: what is compared; None if the candidate lacks it.
        advice: what to do next; None if the answer says enough.
        basis: the steps or tokens that the values cover; None for the steady state of each run.
        doubts: why the check can't pass: a run of either system did not finish, or its loss is not
            a number.
    """

    model: str
    baseline: str | None
    candidate: str | None
    answer: Answer
    notes: tuple[Note, ...]
    threshold: Threshold | None = None
    values: tuple[float, float] | None = None
    runs: tuple[int, int] = (0, 0)
    change: float | None = None
    low: float | None = None
    high: float | None = None
    method: Method | None = None
    p: float | None = None
    p_adjusted: float | None = None
    runs_needed: int | None = None
    pair: Pair | None = None
    advice: Note | None = None
    basis: Note | None = None
    doubts: tuple[Note, ...] = ()

    @property
    def excess(self) -> float | None:
        """How far the change is beyond the threshold: above 0 if it is worse; None if it is
        unknown.
        """
        if self.threshold is None or self.change is None:
            return None
        return (self.change - self.threshold.limit) * (-1 if self.threshold.falls else 1)


EMPTY = Check("all results", None, None, "not comparable", (Note("baseline-empty"),), advice=CHOOSE)
FIRST = dataclasses.replace(
    EMPTY, answer="within", notes=(Note("all-finished"),), advice=Note("keep-as-first-baseline")
)
"""The only check if there is nothing to check: EMPTY with a baseline, FIRST without one."""


@dataclasses.dataclass(frozen=True)
class RegressionCheck:
    """All checks, setup by setup.

    Attributes:
        pairs: baseline first.
        notes: about the results as a whole.
        fail_on_inconclusive: whether an inconclusive check fails.
        is_partial: whether a file that was named could not be read.
    """

    checks: tuple[Check, ...]
    pairs: tuple[Pair, ...]
    notes: tuple[Note, ...]
    fail_on_inconclusive: bool = False
    is_partial: bool = False

    @property
    def status(self) -> ExitStatus:
        """The most severe status of all checks."""
        status = most_severe(_STATUS[check.answer] for check in self.checks)
        if status == ExitStatus.INCONCLUSIVE and not self.fail_on_inconclusive:
            return ExitStatus.OK
        return status

    @property
    def first_not_passed(self) -> Check | None:
        """The first check that did not pass; None if the candidate's results can be the next
        baseline, or if a file could not be read.
        """
        return next((check for check in self.checks if check.answer != "within"), None)


def check_regression(
    baseline: Sequence[Loaded],
    candidate: Sequence[Loaded],
    thresholds: Sequence[Threshold],
    *,
    model: str | None = None,
    mode: Mode = "best",
    notes: Sequence[Note] = (),
    options: Options = NOTHING_KNOWN,
    fail_on_inconclusive: bool = False,
) -> RegressionCheck:
    """Compare candidates with baselines of the same model and setup; machine and software may
    differ.

    Thresholds are those of threshold.parse(). Without a baseline the answer is whether the
    candidate can become one. See compare() for the other arguments.
    """
    remarks = list(notes)
    if all(threshold.metric.name != RATE for threshold in thresholds):
        remarks.append(Note("throughput-unchecked"))
    files = precision.fill([*baseline, *candidate], options, remarks)
    halves = files[: len(baseline)], files[len(baseline) :]
    # The user states which runs belong together: a baseline whose runs differ in speed isn't split.
    sets = [compare(half, model=model, splits=False) for half in halves]
    for kind, comparison in zip(("baseline", "candidate"), sets, strict=True):
        # The unit in which the systems of one set would be compared doesn't matter here.
        for note in comparison.notes:
            if note.code != IN_SAMPLES:
                remarks.append(about(kind, note))
    before, after = _by_title(sets)
    checks = []
    pairs = []
    checked = set()
    for title, systems in before.items():
        for system, other, reason in _matched_pairs(systems, after.get(title, [])):
            if other is None:
                checks.append(_unmatched(title, system, reason))
                continue
            own = _of_one_unit(system, other)
            cut = aligned(own)
            matched = pair(_named(cut[0], "baseline"), _named(cut[1], "candidate"), mode=mode)
            pairs.append(matched)
            if matched.ratio and matched.system.unit == "samples":
                remarks.append(Note("checked-in-samples", {"model": title}))
            checks += _checks(title, matched, thresholds, _common_steps(own, cut))
            checked.add(other)
    for title, systems in after.items():
        new = [system for system in systems if system not in checked]
        if new and baseline:
            names = tuple(system.name for system in new)
            remarks.append(Note("systems-without-baseline", {"model": title, "systems": names}))
        for system in new:
            answer, why = _of_new(system)
            if why:
                checks.append(Check(title, None, system.name, answer, why, advice=RETRY))
    remarks += _contradictions(pairs)
    if not checks:
        checks.append(EMPTY if baseline else FIRST)
    told = noted(with_texts(remark, plain) for remark in remarks)
    return RegressionCheck(tuple(_decided(checks)), tuple(pairs), told, fail_on_inconclusive)


def _by_title(sets: Sequence[Comparison]) -> list[dict[str, Sequence[SystemResult]]]:
    """Return the systems of baseline and candidate by the titles of their models."""
    # The title of a model depends on all systems of a set, so that the two sets may have different
    # titles for one model: the baseline's counts.
    titles = {}
    for comparison in reversed(sets):
        for model in comparison.models:
            titles[model.model] = model.title
    by_title = []
    for comparison in sets:
        models = comparison.models
        by_title.append({titles[model.model]: _comparable(model.systems) for model in models})
    return by_title


def _unmatched(title: str, system: SystemResult, reason: Note | None) -> Check:
    """Return the check of a baseline without a candidate."""
    why = reason or Note("candidate-absent")
    advice = CHOOSE if reason else Note("measure-candidate")
    return Check(title, system.name, None, "not comparable", (why,), advice=advice)


def _contradictions(pairs: Sequence[Pair]) -> Iterator[Note]:
    """Yield notes on the contradictions within the sources of compared systems."""
    for matched in pairs:
        for system in (matched.baseline, matched.system):
            for finding in contradictions(system):
                yield about(system.name, finding.note)


def _named(system: SystemResult, role: str) -> SystemResult:
    """Return a system with its role in its name."""
    return dataclasses.replace(system, name=f"{system.name} ({role})")


def _comparable(systems: Sequence[SystemResult]) -> Sequence[SystemResult]:
    """Return the systems; only the first if their model is unnamed: they can't be compared then,
    and its check says why.
    """
    run = systems[0].run
    return systems[:1] if is_unnamed(run) else systems


def _matched_pairs(
    systems: Sequence[SystemResult], others: Sequence[SystemResult]
) -> Iterator[tuple[SystemResult, SystemResult | None, Note | None]]:
    """Yield each baseline with its candidate, or with None and the reason if that is known.

    If each set has one system, these are compared, whatever differs. If one has several, only those
    with the same setup are, apart from software and versions.
    """
    for system in systems:
        same = [other for other in others if _key(other.run) == _key(system.run)]
        rivals = []
        for other in systems:
            if _key(other.run) == _key(system.run):
                rivals.append(other)
        if len(systems) == len(others) == 1:
            yield system, others[0], None
        elif not same:
            yield system, None, None
        elif len(same) == len(rivals) == 1:
            yield system, same[0], None
        else:
            counts = {"baselines": len(rivals), "candidates": len(same)}
            yield system, None, Note("several-match", counts)


def _key(run: Run) -> tuple[object, ...]:
    """Return the parts of a setup that must be equal. A new version of the software changes none of
    them.
    """
    return tuple(setting.of(run) for setting in IDENTITY)


def _of_one_unit(system: SystemResult, other: SystemResult) -> list[SystemResult]:
    """Return two systems with rates in tokens; in samples if their length is unknown but equal.

    The length is equal in one benchmark of MLPerf, and taken to be equal if both systems leave it
    unknown and have the same global batch.
    """
    one = system.run.training_config
    another = other.run.training_config
    lengths = one.sequence_length, another.sequence_length
    batch = one.global_batch_size
    unit: Unit = "tokens"
    if None in lengths:
        is_mlperf = all(result.run.framework == "mlperf" for result in (*system.runs, *other.runs))
        is_same_work = lengths[0] == lengths[1] and batch == another.global_batch_size
        if is_mlperf or (is_same_work and batch is not None):
            unit = "samples"
    return [in_unit(system, unit), in_unit(other, unit)]


def _common_steps(own: Sequence[SystemResult], cut: Sequence[SystemResult]) -> Note | None:
    """Return a note on the common steps that the speeds of systems are computed from; None if the
    steady states were the same without cutting.
    """
    before = _steady_steps(own)
    after = _steady_steps(cut)
    first = max((steps[0] or 0 for steps in after), default=0)
    if first and before != after:
        last = min(steps[1] or 0 for steps in after)
        return Note("steps-in-common", {"first": first, "last": last})
    return None


def _steady_steps(systems: Sequence[SystemResult]) -> list[tuple[int | None, int | None]]:
    """Return the first and the last step of the steady state of each run that counts."""
    steps = []
    for system in systems:
        for result in system.valid_runs:
            steady = result.summary.steady
            steps.append((steady.first_step, steady.last_step))
    return steps


def _checks(
    title: str, matched: Pair, thresholds: Sequence[Threshold], steps: Note | None
) -> list[Check]:
    check = Check(
        title, matched.baseline.name, matched.system.name, "not comparable", (), pair=matched
    )
    before: set[tuple[object, ...] | None] = set()
    for result in matched.baseline.valid_runs:
        before |= {measurement(result.run), occasion(result.run)}
    before.discard(None)
    for result in matched.system.valid_runs:
        if before.isdisjoint((measurement(result.run), occasion(result.run))):
            continue
        code = "same-run-otherwise"
        if measurement(result.run) in before:
            code = "same-run"
        same = Note(code, {"file": result.file})
        advice = Note("choose-other-candidate")
        return [dataclasses.replace(check, notes=(same,), advice=advice)]
    sides = {"baseline": matched.baseline, "candidate": matched.system}
    for kind, system in sides.items():
        # The steps before a failure have a speed, but a program that fails passes no check.
        if system.has_failed:
            return [dataclasses.replace(check, notes=(_failed(kind, system),))]
    in_doubt: list[Note] = []
    for kind, system in sides.items():
        in_doubt += told_of(kind, doubts(system))
    check = dataclasses.replace(check, doubts=tuple(in_doubt))
    if matched.ratio is None:
        exclusions = []
        for system in sides.values():
            if system.exclusion:
                exclusions.append(system.exclusion)
        why = matched.reasons or (Note("no-values"),)
        is_of_times = all(threshold.metric.unit == "s" for threshold in thresholds)
        if is_of_times and not exclusions and None in map(_batch, sides.values()):
            why = (Note("batch-unknown"),)
        if any(exclusion.severity == "error" for exclusion in exclusions):
            return [dataclasses.replace(check, answer="implausible", notes=why)]
        return [dataclasses.replace(check, notes=why)]
    return [_check(check, matched, threshold, steps) for threshold in thresholds]


def _batch(system: SystemResult) -> int | None:
    return system.run.training_config.global_batch_size


def _of_new(system: SystemResult) -> tuple[Answer, tuple[Note, ...]]:
    """Return the answer on a candidate without a baseline, and why it can't become the next
    baseline; without notes if it can.
    """
    if system.has_failed:
        return "not comparable", (_failed("candidate", system),)
    return "inconclusive", doubts(system)


def _failed(side: str, system: SystemResult) -> Note:
    fields: dict[str, NoteValue] = {"side": side}
    if system.cause:
        fields["cause"] = system.cause
    return Note("side-failed", fields)


def _check(check: Check, matched: Pair, threshold: Threshold, steps: Note | None) -> Check:
    """Return a check with its interval and p value; its answer is decided once all checks are
    known.
    """
    systems = (matched.baseline, matched.system)
    metric = threshold.metric.name
    if metric == RATE and matched.system.unit == "samples":
        threshold = dataclasses.replace(threshold, metric=_SAMPLES)
    advice = Note("leave-out-threshold", {"metric": metric})
    check = dataclasses.replace(check, threshold=threshold, advice=advice)
    batches = [_batch(system) for system in systems]
    if threshold.metric.unit == "s" and (batches[0] is None or batches[0] != batches[1]):
        first, second = ("unknown" if batch is None else batch for batch in batches)
        fields: dict[str, NoteValue] = {"metric": metric, "first": first, "second": second}
        return dataclasses.replace(check, notes=(Note("steps-differ-in-work", fields),))
    transform = math.log if threshold.percent else float
    if metric == LOSS:
        measured = _losses(check, matched, transform)
    else:
        measured = _values(check, matched, threshold, transform)
    if isinstance(measured, Check):
        return measured
    check = _with_change(check, threshold, measured)
    if metric not in (LOSS, *MemoryMetrics.__struct_fields__):
        check = dataclasses.replace(check, basis=steps)
        if unsettled := [system.name for system in systems if system.is_unsettled]:
            short = Note("too-short", {"systems": tuple(unsettled)})
            return dataclasses.replace(check, notes=(short,), advice=MORE_STEPS)
    if measured.difference is not None:
        low, high = measured.difference.interval()
        if threshold.percent:
            low, high = math.exp(low), math.exp(high)
        p = measured.difference.p(transform(threshold.limit))
        method = measured.difference.method
        check = dataclasses.replace(check, low=low, high=high, method=method, p=p, p_adjusted=p)
    elif min(check.runs) > 1 or metric == LOSS:
        # If neither system varies the change is exact: memory is often the same in every run.
        exact = check.change
        check = dataclasses.replace(check, low=exact, high=exact, p=0.0, p_adjusted=0.0)
    if metric == LOSS:
        return check
    return dataclasses.replace(check, runs_needed=_runs_needed(check, measured))


class _Measured(NamedTuple):
    """The values of a check's metric in each run, their difference (None if unknown), and the steps
    or tokens that they cover (None for each run's steady state).
    """

    baseline: Sequence[float]
    candidate: Sequence[float]
    difference: Difference | None
    basis: Note | None = None


def _losses(check: Check, matched: Pair, transform: Callable[[float], float]) -> Check | _Measured:
    """Return the losses of both systems after the same tokens, or the check that says why there are
    none.
    """
    found = losses(matched, transform)
    if found.means is None:
        advice = check.advice
        if found.answer == "inconclusive":
            advice = LONGER
        return dataclasses.replace(check, answer=found.answer, notes=(found.note,), advice=advice)
    before, after = found.means
    return _Measured(
        [before] * len(matched.baseline.valid_runs),
        [after] * len(matched.system.valid_runs),
        found.difference,
        found.note,
    )


def _values(
    check: Check, matched: Pair, threshold: Threshold, transform: Callable[[float], float]
) -> Check | _Measured:
    """Return a metric of the runs of both systems, or the check that says why it can't be
    compared.
    """
    metric = threshold.metric.name
    if metric == SAMPLES_RATE:
        metric = RATE
    before = matched.baseline.valid_runs
    after = matched.system.valid_runs
    baseline = speedup.values(before, metric)
    candidate = speedup.values(after, metric)
    both = {"the baseline": baseline, "the candidate": candidate}
    if missing := [name for name, values in both.items() if not values]:
        unknown = Note("metric-unknown", {"metric": metric, "sides": tuple(missing)})
        return dataclasses.replace(check, notes=(unknown,))
    if threshold.percent and min(baseline + candidate) <= 0:
        advice = Note("threshold-in-unit", {"metric": metric, "unit": threshold.metric.unit})
        zero = Note("metric-is-zero", {"metric": metric})
        return dataclasses.replace(check, notes=(zero,), advice=advice)
    return _Measured(baseline, candidate, speedup.difference(after, before, metric, transform))


def _with_change(check: Check, threshold: Threshold, measured: _Measured) -> Check:
    """Return a check, not yet decided, with the means of both systems and the change from baseline
    to candidate.
    """
    average = statistics.fmean
    if threshold.percent:
        average = statistics.geometric_mean
    before = average(measured.baseline)
    after = average(measured.candidate)
    return dataclasses.replace(
        check,
        answer="inconclusive",
        values=(before, after),
        runs=(len(measured.baseline), len(measured.candidate)),
        change=after / before if threshold.percent else after - before,
        basis=measured.basis,
    )


def _decided(checks: Sequence[Check]) -> list[Check]:
    """Return the checks with their answers. Holm's correction keeps the probability of any false
    alarm at 5 % for all checks together.
    """
    tested = [check for check in checks if check.p is not None]
    corrected = iter(intervals.holm([check.p or 0.0 for check in tested]))
    decided = []
    for check in checks:
        adjusted = None if check.p is None else next(corrected)
        check = dataclasses.replace(check, p_adjusted=adjusted)
        excess = check.excess
        decided.append(check if excess is None else _answered(check, excess, len(tested)))
    return decided


def _answered(check: Check, excess: float, tests: int) -> Check:
    assert check.threshold is not None
    p = check.p_adjusted
    answer: Answer = "inconclusive"
    # Rounding must not make a change that equals the threshold exceed it.
    if p is not None and abs(excess) <= 1e-9 * max(1.0, abs(check.threshold.limit)):
        answer = "inconclusive"
        if check.low == check.high:
            answer = "within"
    elif p is not None and p < 1 - intervals.CONFIDENCE:
        answer = "worse" if excess > 0 else "within"
    if answer == "inconclusive":
        return _undecided(check, excess, tests)
    if answer == "within" and check.doubts:
        return dataclasses.replace(
            check, answer="inconclusive", notes=check.doubts, runs_needed=None, advice=RETRY
        )
    why = Note("beyond-threshold" if answer == "worse" else "within-threshold")
    if check.low == check.high:
        why = Note(f"change-{why.code}")
    else:
        why = Note(why.code, {"level": intervals.level()})
    return dataclasses.replace(check, answer=answer, notes=(why,), runs_needed=None, advice=None)


def _runs_needed(check: Check, measured: _Measured) -> int | None:
    """Return the number of runs of each system, more than there are, that would distinguish this
    change from the threshold; None if it is above MOST_RUNS.
    """
    threshold = check.threshold
    change = check.change
    assert threshold is not None
    assert change is not None
    spreads = []
    for values in (measured.baseline, measured.candidate):
        if len(values) > 1:
            spreads.append(statistics.stdev(values) / abs(statistics.fmean(values)))
    spread = max(spreads, default=ASSUMED_SPREAD)
    unit = 1.0
    if threshold.percent:
        distance = change / threshold.limit - 1
    elif mean := statistics.fmean(measured.baseline):
        distance = (change - threshold.limit) / mean
        unit = abs(mean)
    else:
        distance = math.inf
    if measured.difference is not None:
        # This spread includes what else widens the error, such as rounded values; for paired runs
        # it is that of the differences.
        effective = measured.difference.spread(*check.runs) / unit
        if measured.difference.method == "paired":
            spread = effective
        else:
            spread = max(spread, effective)
    needed = intervals.runs_needed(abs(distance), spread, most=MOST_RUNS)
    if needed is None:
        return None
    return max(needed, min(check.runs) + 1)


def _undecided(check: Check, excess: float, tests: int) -> Check:
    """Return an inconclusive check with the reason, and with what would decide it."""
    assert check.threshold is not None
    if check.notes:
        return check
    fields: dict[str, NoteValue] = {}
    if excess > 0:
        fields["threshold"] = str(check.threshold)
    code = "not-significant"
    if check.low is None or check.high is None:
        code = "variation-unknown"
        if check.runs[0] != check.runs[1]:
            code = "variation-of-sides-unknown"
        fields |= {"baseline": check.runs[0], "candidate": check.runs[1]}
    elif check.low <= check.threshold.limit <= check.high:
        code = "interval-includes-threshold"
        fields["level"] = intervals.level()
    else:
        fields["checks"] = tests
    return dataclasses.replace(check, notes=(Note(code, fields),), advice=_deciding(check))


def _deciding(check: Check) -> Note:
    """Return what would decide an inconclusive check."""
    assert check.threshold is not None
    if check.threshold.metric.name == LOSS:
        return LONGER
    if check.runs_needed is None:
        if check.threshold.amount == 0:
            return Note("set-threshold")
        return Note("vary-less", {"most": MOST_RUNS})
    code = "measure-runs"
    if check.runs_needed <= max(check.runs):
        code = MORE_OF_BASELINE
        if check.runs_needed <= check.runs[0]:
            code = MORE_OF_CANDIDATE
    fields: dict[str, NoteValue] = {"runs": check.runs_needed}
    if max(check.runs) == 1:
        fields["spread"] = ASSUMED_SPREAD
    return Note(code, fields)


MORE_OF_BASELINE, MORE_OF_CANDIDATE = "measure-baseline-runs", "measure-candidate-runs"
"""Codes of the advice to measure more runs of the baseline only, or of the candidate only."""
