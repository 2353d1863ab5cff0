"""Is a candidate worse than a baseline by more than a threshold? For CI.

Each metric of each setup is worse, within its threshold, or inconclusive. The intervals are those of the comparison:
each run counts once, two-sided 95 %, with Holm's correction over all metrics and setups.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Literal

from tprimat.analysis import intervals
from tprimat.analysis.efficiency import Options
from tprimat.analysis.intervals import Difference, Method
from tprimat.checks.compute import Mode
from tprimat.compare import NOTHING_KNOWN, WORKLOADS, Loaded, Pair, SystemResult, compare, precision, speedup
from tprimat.compare.caveats import contradictions
from tprimat.compare.figures import aligned
from tprimat.compare.pairs import pair
from tprimat.compare.systems import measurement
from tprimat.compare.threshold import Threshold
from tprimat.errors import ExitStatus, most_severe
from tprimat.results.run import MemoryMetrics, Run
from tprimat.settings.rows import IDENTITY
from tprimat.text import counted, plain

Answer = Literal["worse", "within", "inconclusive", "not comparable", "implausible"]

_STATUS: dict[Answer, ExitStatus] = {
    "worse": ExitStatus.SLOWER,
    "within": ExitStatus.OK,
    "inconclusive": ExitStatus.INCONCLUSIVE,
    "not comparable": ExitStatus.NOT_COMPARABLE,
    "implausible": ExitStatus.IMPLAUSIBLE,
}

ASSUMED_SPREAD = 0.01
"""Relative spread of run means where there are too few runs to estimate it."""

MOST_RUNS = 100


@dataclasses.dataclass(frozen=True)
class Check:
    """A metric of one setup.

    Attributes:
        baseline, candidate: names of the systems; None where there is none.
        text: why the answer is what it is, without a period.
        threshold: None where nothing could be compared.
        values: means over the runs of baseline and candidate, in the metric's unit.
        change: candidate over baseline, or minus it for a threshold in the metric's unit.
        low, high: its 95 % interval, by this method; None with too few runs.
        p: of a true change exactly as large as the threshold; None with too few runs.
        p_adjusted: the same after Holm's correction for all checks, which decides.
        runs_needed: runs of each that would decide; None where it is decided, or where none up to a hundred would.
    """

    model: str
    baseline: str | None
    candidate: str | None
    answer: Answer
    text: str
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

    @property
    def excess(self) -> float | None:
        """How far the change is beyond the threshold: 0 or more where it is worse; None where it is unknown."""
        if self.threshold is None or self.change is None:
            return None
        return (self.change - self.threshold.limit) * (-1 if self.threshold.falls else 1)


@dataclasses.dataclass(frozen=True)
class RegressionCheck:
    """All checks, setup by setup.

    Attributes:
        pairs: baseline first.
        notes: about the results as a whole.
        fail_on_inconclusive: whether an inconclusive check fails.
    """

    checks: tuple[Check, ...]
    pairs: tuple[Pair, ...]
    notes: tuple[str, ...]
    fail_on_inconclusive: bool = False

    @property
    def status(self) -> ExitStatus:
        """The most severe status of all checks."""
        status = most_severe(_STATUS[check.answer] for check in self.checks)
        inconclusive = status == ExitStatus.INCONCLUSIVE and not self.fail_on_inconclusive
        return ExitStatus.OK if inconclusive else status


def check_regression(
    baseline: Sequence[Loaded],
    candidate: Sequence[Loaded],
    thresholds: Sequence[Threshold],
    *,
    model: str | None = None,
    mode: Mode = "best",
    notes: Sequence[str] = (),
    options: Options = NOTHING_KNOWN,
    fail_on_inconclusive: bool = False,
) -> RegressionCheck:
    """Compare candidates with baselines of the same model and setup; machine and software may differ.

    Args:
        baseline: results of before.
        candidate: results of now.
        thresholds: see threshold.parse.
        model: look at this model alone.
        mode: "same" rejects every difference of configuration.
        notes: about the files.
        options: what the user knows and the results don't say.
        fail_on_inconclusive: whether an inconclusive check fails.
    """
    remarks = list(notes)
    files = precision.fill([*baseline, *candidate], options, remarks)
    options = dataclasses.replace(options, precision=None, precisions={})
    halves = files[: len(baseline)], files[len(baseline) :]
    sets = [compare(half, model=model, options=options, per_sample=False) for half in halves]
    for kind, each in zip(("baseline", "candidate"), sets, strict=True):
        # How each set alone would be ordered says nothing here.
        remarks += [f"{kind}: {note}" for note in each.notes if WORKLOADS.partition("}")[2] not in note]
    # The title of a model is of all systems of a set, so that those of one model may differ.
    titles = {model.model: model.title for each in reversed(sets) for model in each.models}
    before, after = ({titles[model.model]: model.systems for model in each.models} for each in sets)
    checks: list[Check] = []
    pairs: list[Pair] = []
    checked: set[int] = set()
    for title, systems in before.items():
        for system, other, reason in _matched_pairs(systems, after.get(title, [])):
            if other is None:
                text = reason or "the candidate has no result with this setup"
                checks.append(Check(title, system.name, None, "not comparable", text))
                continue
            matched = pair(*_disambiguated_names(*aligned([system, other])), mode=mode)
            pairs.append(matched)
            checks += _checks(title, matched, thresholds)
            checked.add(id(other))
    for title, systems in after.items():
        new = ", ".join(system.name for system in systems if id(system) not in checked)
        if new:
            remarks.append(f"{title}: no baseline for {new}; skipped")
    compared = {system.name: system for each in pairs for system in (each.baseline, each.system)}
    remarks += [f"{name}: {found.text}" for name, system in compared.items() for found in contradictions(system)]
    if not checks:
        checks.append(Check("all results", None, None, "not comparable", "the baseline holds no result"))
    return RegressionCheck(
        tuple(_decided(checks)), tuple(pairs), tuple(dict.fromkeys(map(plain, remarks))), fail_on_inconclusive
    )


def _matched_pairs(
    systems: Sequence[SystemResult], others: Sequence[SystemResult]
) -> Iterator[tuple[SystemResult, SystemResult | None, str | None]]:
    """For each system of the baseline its candidate, or why there is none.

    Where each has one system, these are compared, whatever differs. Where there are several, only those with the
    same setup are, software and versions aside.
    """
    for system in systems:
        same = [other for other in others if _key(other.run) == _key(system.run)]
        rivals = [other for other in systems if _key(other.run) == _key(system.run)]
        if len(systems) == len(others) == 1:
            yield system, others[0], None
        elif not same:
            yield system, None, None
        elif len(same) == len(rivals) == 1:
            yield system, same[0], None
        else:
            names = ", ".join(each.name for each in (*rivals, *same))
            yield system, None, f"several systems have this setup ({names}); name the files of one"


def _key(run: Run) -> tuple[object, ...]:
    """Return the parts of a setup that must be equal. A new version of the software changes none of them."""
    return tuple(setting.of(run) for setting in IDENTITY)


def _disambiguated_names(system: SystemResult, other: SystemResult) -> list[SystemResult]:
    """Return the two with different names."""
    titles = f"{system.name} (baseline)", f"{other.name} (candidate)"
    return [dataclasses.replace(each, name=title) for each, title in zip((system, other), titles, strict=True)]


def _checks(title: str, matched: Pair, thresholds: Sequence[Threshold]) -> list[Check]:
    names = matched.baseline.name, matched.system.name
    before = {measurement(result.run) for result in matched.baseline.valid_runs}
    shared = next((result.file for result in matched.system.valid_runs if measurement(result.run) in before), None)
    if shared:
        return [Check(title, *names, "not comparable", f"baseline and candidate hold the same run ({shared})")]
    if matched.ratio is None:
        exclusions = [system.exclusion for system in (matched.baseline, matched.system) if system.exclusion is not None]
        implausible = any(exclusion.severity == "error" for exclusion in exclusions)
        answer: Answer = "implausible" if implausible else "not comparable"
        return [Check(title, *names, answer, matched.reason or "no values")]
    return [_check(title, matched, each) for each in thresholds]


def _check(title: str, matched: Pair, threshold: Threshold) -> Check:
    """Return a check with its interval and p value, which are decided on when all checks are known."""
    systems, metric = (matched.baseline, matched.system), threshold.metric.name
    names = matched.baseline.name, matched.system.name
    baseline, candidate = (
        [value for result in system.valid_runs if (value := result.value(metric)) is not None] for system in systems
    )
    missing = [name for name, values in zip(names, (baseline, candidate), strict=True) if not values]
    if missing:
        return Check(title, *names, "not comparable", f"{metric} of {' and '.join(missing)} is unknown", threshold)
    if threshold.percent and min(baseline + candidate) <= 0:
        text = f"{metric} is 0, so it has no relative change; give the threshold in {threshold.metric.unit}"
        return Check(title, *names, "not comparable", text, threshold)
    average = statistics.geometric_mean if threshold.percent else statistics.fmean
    means = average(baseline), average(candidate)
    change = means[1] / means[0] if threshold.percent else means[1] - means[0]
    transform, inverse = (math.log, math.exp) if threshold.percent else (float, float)
    difference = speedup.difference(matched.system.valid_runs, matched.baseline.valid_runs, metric, transform)
    low, high, p = None, None, None
    if difference is not None:
        low, high = map(inverse, difference.interval())
        p = difference.p(transform(threshold.limit))
    elif min(len(baseline), len(candidate)) > 1:
        # Where neither system varies the change is exact: memory is often the same in every run.
        low, high, p = change, change, 0.0
    runs = len(baseline), len(candidate)
    needed = _runs_needed(threshold, baseline, candidate, change, difference)
    method = difference.method if difference else None
    unsettled = [system.name for system in systems if system.is_unsettled]
    if unsettled and metric not in MemoryMetrics.__struct_fields__:
        text = f"too short to compare: {' and '.join(unsettled)} did not reach a steady speed by the middle of a run"
        return Check(title, *names, "inconclusive", text, threshold, means, runs, change)
    return Check(title, *names, "inconclusive", "", threshold, means, runs, change, low, high, method, p, p, needed)


def _decided(checks: Sequence[Check]) -> list[Check]:
    """Return the checks with their answers. With several, Holm's correction keeps one false alarm in twenty for all."""
    tested = [check for check in checks if check.p is not None]
    corrected = dict(zip(map(id, tested), intervals.holm([check.p or 0.0 for check in tested]), strict=True))
    return [
        check
        if check.excess is None
        else _answered(dataclasses.replace(check, p_adjusted=corrected.get(id(check))), check.excess, len(tested))
        for check in checks
    ]


def _answered(check: Check, excess: float, tests: int) -> Check:
    assert check.threshold is not None
    p = check.p_adjusted
    answer: Answer = "inconclusive"
    # Rounding must not make a change that equals the threshold exceed it.
    if p is not None and abs(excess) <= 1e-9 * max(1.0, abs(check.threshold.limit)):
        answer = "within" if check.low == check.high else "inconclusive"
    elif p is not None and p < 1 - intervals.CONFIDENCE:
        answer = "worse" if excess > 0 else "within"
    if answer == "inconclusive":
        return dataclasses.replace(check, text=_why_inconclusive(check, excess, tests))
    interval = "the change" if check.low == check.high else f"the {intervals.level()} CI"
    where = "beyond" if answer == "worse" else "within"
    return dataclasses.replace(check, answer=answer, text=f"{interval} is {where} the threshold", runs_needed=None)


def _runs_needed(
    threshold: Threshold,
    baseline: Sequence[float],
    candidate: Sequence[float],
    change: float,
    difference: Difference | None,
) -> int | None:
    """Return the runs of each, more than there are, that would distinguish a change like this from the threshold."""
    mean, counts = statistics.fmean(baseline), (len(baseline), len(candidate))
    spreads = [statistics.stdev(each) / abs(statistics.fmean(each)) for each in (baseline, candidate) if len(each) > 1]
    spread = max(spreads, default=ASSUMED_SPREAD)
    distance = change / threshold.limit - 1 if threshold.percent else change - threshold.limit
    if not threshold.percent:
        distance = distance / mean if mean else math.inf
    if difference is not None:
        # What widens its error, such as rounded values, counts too; and of pairs, how much these vary.
        known = difference.spread(*counts) / (1.0 if threshold.percent or not mean else abs(mean))
        spread = known if difference.method == "paired" else max(spread, known)
    needed = intervals.runs_needed(abs(distance), spread, most=MOST_RUNS)
    return None if needed is None else max(needed, min(counts) + 1)


def _why_inconclusive(check: Check, excess: float, tests: int) -> str:
    """Return why a check is inconclusive, and how many runs of each would decide it."""
    assert check.threshold is not None
    if check.text:
        return check.text
    start = f"beyond the threshold of {check.threshold}, but " if excess > 0 else ""
    if check.low is None or check.high is None:
        start += f"with {runs_text(check)}, run-to-run variation is unknown"
    elif check.low <= check.threshold.limit <= check.high:
        start += f"the {intervals.level()} CI includes the threshold"
    else:
        start += f"not significant after Holm's correction for {tests} checks"
    if check.runs_needed is None:
        return f"{start}; more than {MOST_RUNS} runs each would be needed: set a larger threshold"
    spread = f" if runs vary by {ASSUMED_SPREAD:.0%}" if max(check.runs) == 1 else ""
    whose = "candidate runs" if check.runs_needed <= check.runs[0] else "baseline runs"
    if check.runs_needed > max(check.runs):
        whose = "runs each"
    return f"{start}; about {check.runs_needed} {whose} would decide{spread}"


def runs_text(check: Check) -> str:
    """Return how many runs a check rests on."""
    first, second = check.runs
    if first == second:
        return f"{counted(first, 'run')} each"
    return f"{first} baseline and {second} candidate runs"
