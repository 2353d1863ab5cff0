"""Time to the target: what the time of a training to a quality is made of, and what makes the ratio of two.

Of MLPerf's logs the target is the benchmark's, and the score of a set of runs follows its rule (mlcommons/logging,
result_summarizer.py and rcp_checker.py): the mean time from run_start to run_stop without the fastest and the slowest
run, where one run that doesn't converge counts as the slowest, times the factor in scaling.json. Of other logs it is a
training loss that the user names.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Sequence

from tprimat.analysis import account, flops, intervals
from tprimat.checks.training import nature_of_data
from tprimat.compare.result import RunResult, SystemResult
from tprimat.results.run import Run
from tprimat.text import counted

RUNS = {"llama2_70b_lora": 10, "llama31_8b": 10, "gpt3": 3, "llama31_405b": 3}
"""Runs of a submission."""

LEAST_RUNS = 3
"""Runs below which none is left without the fastest and the slowest."""

AVERAGED = 10
"""Records whose mean loss must reach the target: single ones are lower by chance."""


@dataclasses.dataclass(frozen=True)
class Factor:
    """A ratio, above 1 where the system is better than the baseline, with its 95 % interval where there is one."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclasses.dataclass(frozen=True)
class Score:
    """The time of a system to the target: means over the runs that count.

    Attributes:
        minutes: official time of each run, in their order; None for one that did not reach the target.
        counted: how many runs the means are over.
        olympic: mean official time, min.
        scaling: factor of scaling.json beside the logs; None without it.
        official: MLPerf's score, min; None where the runs are no submission.
        samples: to the target.
        rate: samples/s of the whole system in training; None where training and evaluation aren't told apart.
        rest: official time over the time in training; None as well.
        notes: what these don't mean.
    """

    minutes: tuple[float | None, ...]
    counted: int
    olympic: float
    scaling: float | None
    official: float | None
    samples: float | None
    rate: float | None
    rest: float | None
    notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class LossReached:
    """Where the training loss of a system reaches what the user names: means over the runs that reach it.

    Attributes:
        runs: how many of them do; the rest is None without one.
        seconds: of training, at the mean step time.
    """

    loss: float
    runs: int
    steps: float | None = None
    tokens: float | None = None
    seconds: float | None = None


@dataclasses.dataclass(frozen=True)
class TargetRatio:
    """Why a system is sooner at the target than the baseline, or later.

    Attributes:
        factors: by name; `time` is the product of `speed`, `samples` and `rest`, and `official` that of `time` and
            `normalisation`. To a loss they are `steps`, `tokens` and `time`.
        reason: why there are none; None where there are.
        notes: what they don't mean.
    """

    factors: dict[str, Factor]
    reason: str | None = None
    notes: tuple[str, ...] = ()


def benchmark(run: Run) -> str | None:
    """Return MLPerf's name of the benchmark that a run is of; None for no run of MLPerf."""
    dialect = run.source.dialect if run.source and run.framework == "mlperf" else None
    return (dialect or "").removeprefix("mlperf").strip(" ()") or None


def score(system: SystemResult) -> Score | None:
    """Return the time of a system's runs to MLPerf's target; None where they are not of MLPerf or none reached it."""
    runs, name = [result.run for result in system.runs], benchmark(system.run)
    reached = sorted((run for run in runs if _minutes(run) is not None), key=lambda run: _minutes(run) or 0.0)
    if name is None or not reached:
        return None
    notes = []
    failed = len(runs) - len(reached)
    is_olympic = len(runs) >= LEAST_RUNS and failed <= 1
    kept = reached[1 : len(runs) - 1] if is_olympic else reached
    if failed:
        notes.append(f"{failed} of {counted(len(runs), 'run')} did not reach the target")
    expected = RUNS.get(name)
    if not is_olympic or len(runs) != expected:
        takes = f"MLPerf's score is of {expected} runs" if expected else f"how many runs {name} needs isn't known here"
        notes.append(f"no official score: {takes}, with one that fails at most; these are {len(runs)}")
    factors = {value for run in runs if isinstance(value := run.native_metrics.get("scaling_factor"), float)}
    scaling = factors.pop() if len(factors) == 1 else None
    if scaling is None:
        notes.append("normalisation unknown: no scaling.json beside the logs; counted as 1")
    olympic = statistics.fmean(_minutes(run) or 0.0 for run in kept)
    samples, training = [_samples(run) for run in kept], [_training(run) for run in kept]
    total = math.fsum(filter(None, training)) if all(training) else None
    return Score(
        tuple(map(_minutes, runs)),
        len(kept),
        olympic,
        scaling,
        olympic * (scaling or 1.0) if is_olympic and len(runs) == expected else None,
        statistics.fmean(filter(None, samples)) if all(samples) else None,
        sum(filter(None, samples)) / total if total and all(samples) else None,
        olympic * 60 * len(kept) / total if total else None,
        tuple(notes),
    )


def score_ratio(baseline: SystemResult, system: SystemResult) -> TargetRatio | None:
    """Return what makes the ratio of two systems' times to MLPerf's target; None where they have no such time."""
    one, other = score(system), score(baseline)
    names = benchmark(system.run), benchmark(baseline.run)
    if one is None or other is None:
        return None
    targets = [each.run.native_metrics.get("target_accuracy") for each in (system, baseline)]
    if names[0] != names[1] or (None not in targets and targets[0] != targets[1]):
        return TargetRatio({}, "their benchmarks or targets differ")

    def factor(value: float | None, read: Callable[[Run], float | None], *, inverted: bool = True) -> Factor | None:
        values = [[read(each.run) for each in whole.runs if _minutes(each.run)] for whole in (system, baseline)]
        return _factor(value, *values, inverted=inverted)

    found = {
        "time": factor(other.olympic / one.olympic, _minutes),
        "speed": factor(one.rate and other.rate and one.rate / other.rate, _rate, inverted=False),
        "samples": factor(one.samples and other.samples and other.samples / one.samples, _samples),
        "rest": factor(one.rest and other.rest and other.rest / one.rest, _rest),
        "normalisation": Factor((other.scaling or 1.0) / (one.scaling or 1.0)),
    }
    if one.official and other.official:
        found["official"] = Factor(other.official / one.official)
    notes = [f"{each.name}: {note}" for each, of in ((system, one), (baseline, other)) for note in of.notes]
    return TargetRatio({name: value for name, value in found.items() if value}, notes=tuple(notes))


def loss_reached(system: SystemResult, loss: float) -> LossReached:
    """Return where a system's runs reach a training loss, as the mean of the last ten records."""
    found = [(result, step) for result in system.valid_runs if (step := _step_at(result.run, loss)) is not None]
    if not found:
        return LossReached(loss, 0)
    tokens, seconds = ([read(*each) for each in found] for read in (_tokens_until, _seconds_until))
    return LossReached(
        loss,
        len(found),
        statistics.fmean(step for _, step in found),
        statistics.fmean(filter(None, tokens)) if all(tokens) else None,
        statistics.fmean(filter(None, seconds)) if all(seconds) else None,
    )


def loss_ratio(baseline: SystemResult, system: SystemResult, loss: float) -> TargetRatio:
    """Return how many times the steps, tokens and seconds of a system the baseline needs to a training loss."""
    if reason := _unlike_losses(baseline.run, system.run):
        return TargetRatio({}, reason)
    late = [each.name for each in (system, baseline) if loss_reached(each, loss).runs < len(each.valid_runs)]
    if late:
        return TargetRatio({}, f"not all runs of {' and '.join(late)} reach a loss of {loss:g}")
    reads: dict[str, Callable[[RunResult, int], float | None]] = {
        "steps": lambda _, step: float(step),
        "tokens": _tokens_until,
        "time": _seconds_until,
    }
    factors = {}
    for name, read in reads.items():
        values = [
            [read(result, step) for result in each.valid_runs if (step := _step_at(result.run, loss)) is not None]
            for each in (system, baseline)
        ]
        means = [statistics.fmean(filter(None, each)) if all(each) else None for each in values]
        if found := _factor(means[0] and means[1] and means[1] / means[0], *values):
            factors[name] = found
    return TargetRatio(factors)


def _factor(
    value: float | None, system: Sequence[float | None], baseline: Sequence[float | None], *, inverted: bool = True
) -> Factor | None:
    """Return a ratio with the interval of that of the geometric means over runs, by Welch's t on logarithms."""
    if value is None:
        return None
    logs = [[math.log(each) for each in values if each] for values in (system, baseline)]
    difference = intervals.welch(*(logs[::-1] if inverted else logs))
    low, high = (None, None) if difference is None else map(math.exp, difference.interval())
    return Factor(value, low, high)


def _minutes(run: Run) -> float | None:
    minutes = run.native_metrics.get("time_to_train_minutes")
    return minutes if run.status == "complete" and isinstance(minutes, float) else None


def _samples(run: Run) -> float | None:
    last = max((entry.last_step or 0 for entry in run.timeline), default=0)
    return (
        float(last * run.training_config.global_batch_size) if last and run.training_config.global_batch_size else None
    )


def _training(run: Run) -> float | None:
    return math.fsum(block.duration for block in account.blocks(run)) or None


def _rate(run: Run) -> float | None:
    samples, training = _samples(run), _training(run)
    return samples / training if samples and training else None


def _rest(run: Run) -> float | None:
    minutes, training = _minutes(run), _training(run)
    return minutes * 60 / training if minutes and training else None


def _step_at(run: Run, loss: float) -> int | None:
    """Return the first step at which the mean of the last records' losses is no higher than this; None without one."""
    last: list[float] = []
    for step, value in zip(run.steps, run.loss_values, strict=True):
        if value is not None:
            last = [*last[1 - AVERAGED :], value]
            if len(last) == AVERAGED and statistics.fmean(last) <= loss:
                return step
    return None


def _tokens_until(result: RunResult, step: int) -> float | None:
    tokens = result.run.tokens_per_step
    return float(step * tokens) if tokens else None


def _seconds_until(result: RunResult, step: int) -> float | None:
    seconds = result.summary.performance.avg_step_time_seconds
    return step * seconds if seconds else None


def _unlike_losses(one: Run, other: Run) -> str | None:
    """Return why a loss of one run isn't the same quality as that of another; None where data and vocabulary agree."""
    if (name := benchmark(one)) and name == benchmark(other):
        return None
    for run in (one, other):
        nature, evidence = nature_of_data(run)
        if nature in ("uniform random", "predictable"):
            return f"losses aren't compared: {evidence}"
    digests, kinds = (one.data.digest, other.data.digest), (one.data.kind, other.data.kind)
    if None not in digests and digests[0] != digests[1]:
        return "losses aren't compared: different data (checksums differ)"
    if None in digests and (None in kinds or kinds[0] != kinds[1]):
        return f"losses aren't compared: the data is {kinds[0] or 'unknown'} and {kinds[1] or 'unknown'}"
    sizes = [shape.vocab_size if (shape := flops.model_shape(run)[0]) else None for run in (one, other)]
    if sizes[0] != sizes[1] or (None in sizes and None in digests):
        return f"losses aren't compared: the vocabulary has {sizes[0] or 'unknown'} and {sizes[1] or 'unknown'} tokens"
    return None
