"""Is a candidate worse than a baseline, by more than is allowed? For regressions in CI.

Each metric of each setup has one of three answers: worse for sure, within what is allowed for sure,
or not to be told with this many runs. Only the first fails. The interval is that of the comparison:
each run counts once, 95 %.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import statistics
from collections.abc import Iterator, Sequence
from typing import Literal

from tprimat.analysis import intervals
from tprimat.analysis.efficiency import Options
from tprimat.checks.compute import Mode
from tprimat.compare import ABOUT_REFERENCE, Loaded, Pair, SideResult, compare
from tprimat.compare.allowance import RATE, Allowance
from tprimat.compare.pairs import pair
from tprimat.compare.sides import measurement
from tprimat.errors import ExitStatus, most_severe
from tprimat.text import plain

Answer = Literal["worse", "within", "can't tell", "not comparable", "impossible"]

_STATUS: dict[Answer, ExitStatus] = {
    "worse": ExitStatus.SLOWER,
    "within": ExitStatus.WELL,
    "can't tell": ExitStatus.WELL,
    "not comparable": ExitStatus.NOT_COMPARABLE,
    "impossible": ExitStatus.IMPOSSIBLE,
}

ASSUMED_SPREAD = 0.01
"""Relative spread of run means where too few runs tell it."""

MOST_RUNS = 100

SIDES = ("the baseline", "the candidate")
"""What the two are called where their own names are the same."""


@dataclasses.dataclass(frozen=True)
class Check:
    """A metric of one setup.

    Attributes:
        baseline, candidate: names of the sides; None where there is none.
        text: why the answer is what it is, in a sentence.
        allowance: None where nothing could be compared.
        values: means over the runs of baseline and candidate, in the metric's unit.
        change: candidate over baseline, or minus it for an allowance in the metric's unit.
        low, high: its 95 % interval; None with too few runs.
        needed: runs a side that would tell; None where it is told, or where none up to a hundred would.
    """

    model: str
    baseline: str | None
    candidate: str | None
    answer: Answer
    text: str
    allowance: Allowance | None = None
    values: tuple[float, float] | None = None
    runs: tuple[int, int] = (0, 0)
    change: float | None = None
    low: float | None = None
    high: float | None = None
    needed: int | None = None


@dataclasses.dataclass(frozen=True)
class Gate:
    """All checks, setup by setup; the pairs, baseline first; notes about the results as a whole."""

    checks: tuple[Check, ...]
    pairs: tuple[Pair, ...]
    notes: tuple[str, ...]

    @property
    def status(self) -> ExitStatus:
        """SLOWER when any metric is worse than allowed for sure; graver ones where there are such."""
        return most_severe(_STATUS[check.answer] for check in self.checks)


def gate(
    baseline: Sequence[Loaded],
    candidate: Sequence[Loaded],
    allowances: Sequence[Allowance],
    *,
    model: str | None = None,
    mode: Mode = "max",
    notes: Sequence[str] = (),
    options: Options | None = None,
) -> Gate:
    """Hold candidates against baselines: the same model with the same setup, machine and software aside.

    Args:
        baseline: results of before.
        candidate: results of now.
        allowances: see allowance.parse.
        model: look at this model alone.
        mode: "identical" refuses every difference of configuration.
        notes: what was said of the files already.
        options: what the user knows and the results don't say.
    """
    said = list(notes)
    sets = [compare(files, model=model, options=options or Options()) for files in (baseline, candidate)]
    for kind, each in zip(("baseline", "candidate"), sets, strict=True):
        # How each set alone would be ordered says nothing here.
        said += [f"{kind}: {note}" for note in each.notes if not note.endswith(ABOUT_REFERENCE)]
    before, after = ({model.title: model.sides for model in each.models} for each in sets)
    checks: list[Check] = []
    pairs: list[Pair] = []
    for title, sides in before.items():
        for side, other, reason in _partners(sides, after.get(title, [])):
            if other is None:
                text = reason or "the candidate has no result of it"
                checks.append(Check(title, side.name, None, "not comparable", text))
                continue
            found = pair(*_told_apart(side, other), mode=mode)
            pairs.append(found)
            checks += _checks(title, found, allowances)
    answered = {id(each.side.runs) for each in pairs}
    for title, sides in after.items():
        new = ", ".join(side.name for side in sides if id(side.runs) not in answered)
        if new:
            why = f"no baseline answers to {new}" if title in before else f"the baseline has no result of {new}"
            said.append(f"{title}: {why}; not checked")
    if not checks:
        checks.append(Check("all results", None, None, "not comparable", "nothing could be set against each other"))
    return Gate(tuple(checks), tuple(pairs), tuple(dict.fromkeys(map(plain, said))))


def _partners(
    sides: Sequence[SideResult], others: Sequence[SideResult]
) -> Iterator[tuple[SideResult, SideResult | None, str | None]]:
    """For each side of the baseline the candidate that answers to it, or why there is none.

    Where each has one side, they answer to each other, whatever differs. Where there are several, only
    what was set up alike does, software and versions aside.
    """
    for side in sides:
        same = [other for other in others if _key(other.run) == _key(side.run)]
        rivals = [other for other in sides if _key(other.run) == _key(side.run)]
        if len(sides) == len(others) == 1:
            yield side, others[0], None
        elif not same:
            yield side, None, None
        elif len(same) == len(rivals) == 1:
            yield side, same[0], None
        else:
            names = ", ".join(each.name for each in (*rivals, *same))
            yield side, None, f"several sides have this setup ({names}): name the files of one"


_key = operator.attrgetter(
    *("scale", "label", "framework", "gpu_info.device_name", "num_gpus"),
    *(f"training_config.{name}" for name in ("precision", "global_batch_size", "sequence_length")),
)
"""The parts of a setup that must be equal. A new version of the software changes none of them."""


def _told_apart(side: SideResult, other: SideResult) -> list[SideResult]:
    """The two with names that tell which is which."""
    titles = SIDES
    if side.name != other.name:
        titles = f"{side.name} (baseline)", f"{other.name} (candidate)"
    return [dataclasses.replace(each, name=title) for each, title in zip((side, other), titles, strict=True)]


def _checks(title: str, found: Pair, allowances: Sequence[Allowance]) -> list[Check]:
    names = found.reference.name, found.side.name
    before = {measurement(result.run) for result in found.reference.counted}
    shared = next((result.file for result in found.side.counted if measurement(result.run) in before), None)
    if shared:
        text = f"baseline and candidate hold the same run ({shared}): it can't be held against itself"
        return [Check(title, *names, "not comparable", text)]
    if found.ratio is None:
        refusals = [side.refusal for side in (found.reference, found.side) if side.refusal is not None]
        impossible = any(refusal.gravity == "impossible" for refusal in refusals)
        return [Check(title, *names, "impossible" if impossible else "not comparable", found.reason or "no figures")]
    return [_check(title, found, each) for each in allowances]


Bounds = list[tuple[float, float]]
"""Lower and upper bound of each run's value; equal where the run has one value."""


def _check(title: str, found: Pair, allowance: Allowance) -> Check:
    names = found.reference.name, found.side.name
    metric = allowance.metric.name
    baseline, candidate = _bounds(found.reference, metric), _bounds(found.side, metric)
    missing = [name for name, bounds in zip(names, (baseline, candidate), strict=True) if not bounds]
    if missing:
        return Check(title, *names, "not comparable", f"{metric} is unknown of {' and '.join(missing)}", allowance)
    if allowance.percent and any(low <= 0 for low, _ in baseline + candidate):
        return Check(title, *names, "not comparable", f"{metric} is 0: no percentage of it", allowance)
    means = statistics.fmean(_middles(baseline)), statistics.fmean(_middles(candidate))
    change = _change(allowance, means[1], means[0])
    low, high = _interval(allowance, baseline, candidate)
    answer = _answer(allowance, low, high)
    text = f"{allowance} is allowed" if allowance.amount else "nothing worse is allowed"
    runs, needed = (len(baseline), len(candidate)), None
    if answer == "can't tell":
        needed = _needed(allowance, baseline, candidate, change, means[0])
        text = f"{text}; {_why_not(allowance, low, high, runs, needed)}"
    return Check(title, *names, answer, text, allowance, means, runs, change, low, high, needed)


def _bounds(side: SideResult, metric: str) -> Bounds:
    """Return the bounds of each run's value: of a rate, the lowest and the highest of the run's segments."""
    found = []
    for result in side.counted:
        rates = [each.tokens_per_second_per_gpu for each in result.summary.step_ranges] if metric == RATE else []
        single = result.value(metric)
        values = [value for value in rates if value is not None] or ([] if single is None else [single])
        if values:
            found.append((min(values), max(values)))
    return found


def _middles(bounds: Bounds) -> list[float]:
    return [(low + high) / 2 for low, high in bounds]


def _change(allowance: Allowance, candidate: float, baseline: float) -> float:
    return candidate / baseline if allowance.percent else candidate - baseline


def _limit(allowance: Allowance) -> float:
    """The largest change that is allowed, or the smallest of what falls."""
    sign = -1 if allowance.falls else 1
    return 1 + sign * allowance.amount / 100 if allowance.percent else sign * allowance.amount


def _interval(allowance: Allowance, baseline: Bounds, candidate: Bounds) -> tuple[float, float] | tuple[None, None]:
    """The interval of the change; of runs with several levels, from the least to the most that it may be."""
    if min(len(baseline), len(candidate)) < intervals.RUNS_FOR_SIGNIFICANCE:
        return None, None
    lowest = _between(allowance, [low for low, _ in candidate], [high for _, high in baseline])
    highest = _between(allowance, [high for _, high in candidate], [low for low, _ in baseline])
    return lowest[0], highest[1]


def _between(allowance: Allowance, candidate: Sequence[float], baseline: Sequence[float]) -> tuple[float, float]:
    if allowance.percent:
        ratio = intervals.log_welch(candidate, baseline)
        found = None if ratio is None else (ratio.low, ratio.high)
    else:
        found = intervals.welch_difference(candidate, baseline)
    # Where neither side varies there is no interval: memory is often the same in every run.
    return found or (_change(allowance, statistics.fmean(candidate), statistics.fmean(baseline)),) * 2


def _answer(allowance: Allowance, low: float | None, high: float | None) -> Answer:
    if low is None or high is None:
        return "can't tell"
    limit, sign = _limit(allowance), -1 if allowance.falls else 1
    # How far the interval lies beyond the limit, in the direction of worse.
    least, most = sorted((sign * (low - limit), sign * (high - limit)))
    # Rounding must not make a change of exactly what is allowed too much.
    slack = 1e-9 * max(1.0, abs(limit))
    return "worse" if least > slack else "within" if most <= slack else "can't tell"


def _needed(allowance: Allowance, baseline: Bounds, candidate: Bounds, change: float, mean: float) -> int | None:
    """Return the runs a side that would distinguish a change like this one from the limit; `mean` is the baseline's."""
    limit = _limit(allowance)
    centres = [_middles(baseline), _middles(candidate)]
    spreads = [
        statistics.stdev(each) / abs(centre) for each in centres if len(each) > 1 and (centre := statistics.fmean(each))
    ]
    enough = min(map(len, centres)) >= intervals.RUNS_FOR_SIGNIFICANCE
    spread = max(spreads, default=ASSUMED_SPREAD) if enough else max([ASSUMED_SPREAD, *spreads])
    if any(low != high for low, high in baseline + candidate):
        # More runs don't make one level of several.
        return None if enough else intervals.RUNS_FOR_SIGNIFICANCE
    if allowance.percent:
        distance = abs(math.log(change / limit)) if limit > 0 else math.inf
    else:
        distance = abs(change - limit) / abs(mean) if mean else math.inf
    return intervals.runs_needed(math.expm1(distance), spread, most=MOST_RUNS) if distance else None


def _why_not(
    allowance: Allowance, low: float | None, high: float | None, runs: tuple[int, int], needed: int | None
) -> str:
    """Return why a check is inconclusive, and how many runs would decide it."""
    if low is None or high is None:
        least = intervals.RUNS_FOR_SIGNIFICANCE
        wanted = f"it takes {needed or least} runs a side"
        if needed is not None and needed > least:
            wanted = f"it takes {least} runs a side, and some {needed} if they spread by {ASSUMED_SPREAD:.0%}"
        return f"with {runs[0]} and {runs[1]} runs nothing is known of other runs: {wanted}"
    worst, word = (low, "less") if allowance.falls else (high, "more")
    excluded = f"{abs(worst - 1):.1%}" if allowance.percent else f"{abs(worst):.4g} {allowance.metric.unit}"
    told = (
        f"some {needed} runs a side would tell"
        if needed is not None
        else f"no number of runs up to {MOST_RUNS} would tell a change like this from the limit: allow a little"
    )
    return f"more than {excluded} {word} is excluded; {told}"
