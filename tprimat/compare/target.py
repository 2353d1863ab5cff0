"""Time to target: the time, steps and tokens that a training needs to reach a quality, or its end,
and what explains the ratio of two systems.

For MLPerf's logs the target is the benchmark's, and the score of a set of runs follows MLPerf's
rule (docs/metrics.md; mlcommons/logging, result_summarizer.py and rcp_checker.py). For other logs
it is a training loss that the user states.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence

from tprimat.analysis import flops, intervals, records
from tprimat.analysis.efficiency.subject import Value
from tprimat.analysis.run_account import account_of
from tprimat.checks.training import MOCK_LOSSES, synthetic_data
from tprimat.compare.result import Pair, RunResult, SystemResult
from tprimat.compare.speedup import within
from tprimat.notes import Note, about
from tprimat.results.account import PARTS
from tprimat.results.run import Run

RUNS = {"llama2_70b_lora": 10, "llama31_8b": 10, "gpt3": 3, "llama31_405b": 3}
"""Runs of a submission to MLPerf, by benchmark."""

LEAST_RUNS = 3
"""Fewest runs of which the fastest and the slowest are omitted: of fewer, none would remain."""

AVERAGED = 10
"""Consecutive records whose mean loss must reach the target: a single loss may be lower by
chance.
"""

UNTIMED = 0.1
"""Share by which the number of steps in a run's wall time may differ from the number that its
records cover. Beyond it, speed and samples don't explain a ratio of times.
"""

Need = Mapping[str, float]
"""What a run needs to reach the target, by name; unknown values are missing.

    seconds: wall time
    steps, samples, tokens: their numbers
    training: seconds of training, warm-up included
    other names of PARTS: seconds of that part of the wall time
"""

_PARTS = {
    "time": ("seconds", None),
    "speed": ("training", "samples"),
    "samples": ("samples", None),
    "rest": ("seconds", "training"),
}
_LOSS_PARTS = {"time": ("seconds", None), "steps": ("steps", None), "tokens": ("tokens", None)}
"""Factors of a ratio, by name: the baseline's value divided by the system's. A value is the need of
the first name, divided by the need of the second name if there is one.
"""


@dataclasses.dataclass(frozen=True)
class Target:
    """What the runs of a system need to reach the target.

    Attributes:
        loss: the training loss that the user states, nats/token; None for MLPerf's target.
        runs: the needs of all runs, in their order; None for a run that doesn't reach the target.
        counted: the needs that the mean is taken over.
        mean: their mean; a value is missing if it is unknown for one of them.
        scaling: the factor in scaling.json next to MLPerf's logs; None without one.
        official_minutes: MLPerf's score; None if the runs aren't a complete submission.
        notes: limits of these values.
        is_to_target: whether the needs are those to MLPerf's target or to the user's loss; if
            False, they are those of whole runs.
    """

    loss: float | None
    runs: tuple[Need | None, ...]
    counted: tuple[Need, ...]
    mean: Need
    scaling: float | None = None
    official_minutes: float | None = None
    notes: tuple[Note, ...] = ()
    is_to_target: bool = True


@dataclasses.dataclass(frozen=True)
class TargetRatio:
    """How many times as fast as the baseline a system reaches the target, and what explains it.

    Attributes:
        factors: by name, above 1 if the system needs less, with 95 % intervals where they can be
            computed. `time` is the product of `speed`, `samples` and `rest`; `official` is the
            product of `time` and `normalisation`.
        reasons: why there are no factors, or only that of the time; empty otherwise.
        notes: limits of the factors.
    """

    factors: Mapping[str, Value]
    reasons: tuple[Note, ...] = ()
    notes: tuple[Note, ...] = ()


def target(system: SystemResult, loss: float | None = None) -> Target | None:
    """Return what a system's runs need to reach a training loss (nats/token), or MLPerf's target if
    `loss` is None; None if there is no target or no run reaches it.
    """
    name = benchmark(system.run)
    if loss is None and name is None:
        return None
    results = system.runs if loss is None else system.valid_runs
    needs = []
    for result in results:
        needs.append(_official(result) if loss is None else _to_loss(result, loss))
    reached = sorted(
        filter(None, needs), key=lambda need: need["seconds"] if loss is None else need["steps"]
    )
    if not reached:
        return None
    failed = len(needs) - len(reached)
    notes = []
    if failed:
        notes.append(Note("target-missed", {"failed": failed, "runs": len(needs)}))
    if loss is not None:
        return Target(loss, tuple(needs), tuple(reached), _mean(reached), notes=tuple(notes))
    expected = RUNS.get(name or "", 0)
    # MLPerf leaves out the fastest and the slowest run. A run that failed counts as the slowest.
    is_trimmed = len(needs) >= LEAST_RUNS and failed <= 1
    is_official = is_trimmed and len(needs) == expected
    if not is_official:
        if expected:
            notes.append(Note("score-of-other-runs", {"needed": expected, "runs": len(needs)}))
        else:
            notes.append(Note("score-of-unknown-runs", {"runs": len(needs)}))
    scalings = set()
    for result in results:
        scalings.add(result.run.native_metrics.get("scaling_factor"))
    known = scalings.pop() if len(scalings) == 1 else None
    scaling = known if isinstance(known, float) else None
    if scaling is None:
        notes.append(Note("normalization-unknown"))
    counted = tuple(reached[1 : len(needs) - 1] if is_trimmed else reached)
    mean = _mean(counted)
    official = None
    if is_official:
        official = mean["seconds"] / 60 * (scaling or 1.0)
    return Target(None, tuple(needs), counted, mean, scaling, official, tuple(notes))


def ratio(
    baseline: SystemResult, system: SystemResult, loss: float | None = None
) -> TargetRatio | None:
    """Return how many times as fast as the baseline a system reaches the target; None if there is
    no target.
    """
    one = target(baseline, loss)
    other = target(system, loss)
    if loss is not None and (reason := _unlike_losses(baseline.run, system.run)):
        return TargetRatio({}, (reason,))
    if one is None or other is None:
        if loss is None:
            return None
        return TargetRatio({}, (Note("loss-not-reached", {"loss": loss}),))
    runs = baseline.run, system.run
    names = map(benchmark, runs)
    targets = [run.native_metrics.get("target_accuracy") for run in runs]
    if loss is None and (len(set(names)) > 1 or (None not in targets and targets[0] != targets[1])):
        return TargetRatio({}, (Note("targets-differ"),))
    error = within(baseline.valid_runs, system.valid_runs)
    factors = _factors(one, other, _PARTS if loss is None else _LOSS_PARTS, error)
    if loss is None:
        factors["normalisation"] = Value((one.scaling or 1.0) / (other.scaling or 1.0))
    if one.official_minutes and other.official_minutes:
        factors["official"] = Value(one.official_minutes / other.official_minutes)
    notes = []
    for owner, reached in ((system, other), (baseline, one)):
        for note in reached.notes:
            notes.append(about(owner.name, note))
    return TargetRatio(factors, notes=tuple(notes))


def spent(system: SystemResult) -> Target | None:
    """Return what a system's runs need to reach MLPerf's target; without one, what the whole runs
    took. None if no source has a clock.
    """
    needs = tuple(_spent(run) for run in system.runs)
    known = tuple(filter(None, needs))
    is_live = any(result.run.source and result.run.source.kind == "live" for result in system.runs)
    notes = (Note("recording-begins-late"),) * is_live
    return target(system) or (
        Target(None, needs, known, _mean(known), notes=notes, is_to_target=False) if known else None
    )


def times(pair: Pair, loss: float | None = None) -> TargetRatio | None:
    """Return the ratio of the times that a pair's systems need to the target; without a target, to
    their ends if both made the same number of steps. None if there is no target and a wall time is
    unknown.
    """
    found = ratio(pair.baseline, pair.system, loss)
    one = spent(pair.baseline)
    other = spent(pair.system)
    if found is not None or one is None or other is None:
        return found
    if pair.ratio is None or one.is_to_target or other.is_to_target:
        return TargetRatio({}, pair.reasons or (Note("target-of-one"),))
    if one.mean.get("steps") != other.mean.get("steps"):
        return TargetRatio({}, (Note("steps-without-target"),))
    factors = _factors(one, other, _PARTS, within(pair.baseline.valid_runs, pair.system.valid_runs))
    measured = zip((*pair.baseline.runs, *pair.system.runs), (*one.runs, *other.runs), strict=True)
    if any(_is_unclear(result.run, need or {}) for result, need in measured):
        return TargetRatio({"time": factors["time"]}, (Note("time-unexplained"),))
    return TargetRatio(factors)


def _is_unclear(run: Run, need: Need) -> bool:
    """Return whether warm-up and unknown time exceed the training time, or the wall time covers
    other steps than the records do (by more than UNTIMED).
    """
    if need.get("warm-up", 0.0) + need.get("unknown", 0.0) > parts_of(need).get("training", 0.0):
        return True
    return (
        abs(need.get("steps", 0.0) - (printed := records.recorded_steps(run)))
        > UNTIMED * printed
        > 0
    )


def parts_of(need: Need) -> dict[str, float]:
    """Return the seconds of each part of the wall time, whose sum it is; here training excludes
    warm-up, unlike in Need.
    """
    found = {name: need[name] for name in PARTS if name in need}
    if "training" in found:
        return found | {"training": found["training"] - found.get("warm-up", 0.0)}
    return found


def benchmark(run: Run) -> str | None:
    """Return MLPerf's name of a run's benchmark; None if it isn't a run of MLPerf."""
    dialect = None
    if run.source and run.framework == "mlperf":
        dialect = run.source.dialect
    return (dialect or "").removeprefix("mlperf").strip(" ()") or None


def _factors(
    one: Target, other: Target, parts: Mapping[str, tuple[str, str | None]], error: float
) -> dict[str, Value]:
    """Return the factors of a ratio, with their intervals. `error` is the one within a single run,
    see speedup.within(); it is an error of the speed, and thereby of the time.
    """
    factors = {}
    for name, quotient in parts.items():
        needed = [_per(each.mean, *quotient) for each in (one, other)]
        if needed[0] and needed[1]:
            logs = []
            for each in (one, other):
                logs.append(
                    [math.log(per) for need in each.runs if need and (per := _per(need, *quotient))]
                )
            difference = intervals.difference(
                *logs, within=error if name in ("time", "speed") else 0.0
            )
            low, high = (None, None) if difference is None else map(math.exp, difference.interval())
            factors[name] = Value(needed[0] / needed[1], low, high)
    return factors


def _mean(needs: Sequence[Need]) -> Need:
    """Return the means over runs. A part of the wall time that a run lacks counts as zero; other
    values are omitted unless they are known for all runs.
    """
    names = dict.fromkeys(name for need in needs for name in need)
    known = []
    for name in names:
        if name in PARTS or all(name in need for need in needs):
            known.append(name)
    return {name: statistics.fmean(need.get(name, 0.0) for need in needs) for name in known}


def _per(need: Need, name: str, other: str | None) -> float | None:
    value = need.get(name)
    divisor = 1.0 if other is None else need.get(other)
    if value and divisor:
        return value / divisor
    return None


def _known(**values: float | None) -> Need:
    return {name: value for name, value in values.items() if value is not None and value > 0}


def _spent(result: RunResult) -> Need | None:
    """Return what a whole run took; None if its source has no clock."""
    found = account_of(result.run, result.summary)
    if found is None or not found.is_whole or found.whole <= 0:
        return None
    timeline = result.run.timeline
    steps = max(entry.last_step or 0 for entry in timeline)
    steps -= min((entry.first_step for entry in timeline if entry.first_step), default=1) - 1
    training = found.parts.get("training", 0.0) + found.parts.get("warm-up", 0.0)
    samples = steps * (result.run.training_config.global_batch_size or 0)
    values = {"seconds": found.whole, "training": training, "steps": steps, "samples": samples}
    return _known(**{**found.parts, **values})


def _official(result: RunResult) -> Need | None:
    """Return what a run of MLPerf needs to reach its target; None if it doesn't reach it."""
    minutes = result.run.native_metrics.get("time_to_train_minutes")
    if result.run.status != "complete" or not isinstance(minutes, float) or minutes <= 0:
        return None
    return {**(_spent(result) or {}), "seconds": minutes * 60}


def _to_loss(result: RunResult, loss: float) -> Need | None:
    """Return what a run needs until the mean loss of AVERAGED consecutive records is at most
    `loss`; None if that never happens.
    """
    run = result.run
    last = list[float]()
    for step, value in zip(run.steps, run.loss_values, strict=True):
        if value is not None:
            last = [*last[1 - AVERAGED :], value]
            if len(last) == AVERAGED and statistics.fmean(last) <= loss:
                seconds = result.summary.performance.avg_step_time_seconds
                return _known(
                    steps=step,
                    tokens=step * (run.tokens_per_step or 0),
                    seconds=step * (seconds or 0.0),
                )
    return None


def _unlike_losses(one: Run, other: Run) -> Note | None:
    """Return why an equal loss of two runs doesn't mean equal quality; None if their data and
    vocabularies agree, or both are runs of one MLPerf benchmark.
    """
    if (name := benchmark(one)) and name == benchmark(other):
        return None
    for run in (one, other):
        synthetic = synthetic_data(run)
        if synthetic is not None and synthetic.code in MOCK_LOSSES:
            return synthetic
    digests = (one.data.digest, other.data.digest)
    kinds = (one.data.kind, other.data.kind)
    if None not in digests and digests[0] != digests[1]:
        return Note("data-differs")
    if None in digests and (None in kinds or kinds[0] != kinds[1]):
        known = {"first": kinds[0] or "unknown", "second": kinds[1] or "unknown"}
        return Note("data-of-kinds", known)
    sizes = []
    for run in (one, other):
        sizes.append(shape.vocab_size if (shape := flops.model_shape(run)[0]) else None)
    if sizes[0] != sizes[1] or (None in sizes and None in digests):
        first, second = (size or "an unknown number of" for size in sizes)
        return Note("vocabularies-differ", {"first": first, "second": second})
    return None
