"""The answer in words: who is faster, how many times, or why that isn't said. For all reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from tprimat import units
from tprimat.analysis.intervals import RUNS_FOR_SIGNIFICANCE
from tprimat.catalog.prices import Price
from tprimat.compare import Group, ModelComparison, Pair, Ratio, SideResult
from tprimat.compare.money import PairCost
from tprimat.report import reasons
from tprimat.report.rates import RATE, rate, rate_of, rate_unit
from tprimat.report.reasons import NAMED, listed


@dataclasses.dataclass(frozen=True)
class Answer:
    """What is to be said of a group of sides.

    Attributes:
        headline: one sentence: who, and how much.
        brief: how sure, how fair, and what is left out, in short sentences.
        why: what it rests on and what weakens it.
        next: what would make it better, the most useful first.
    """

    headline: str
    brief: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    next: tuple[str, ...] = ()


def ratio_text(ratio: Ratio | None) -> str:
    """A ratio as a table shows it: with its interval, by level, or ~ where no difference is shown."""
    if ratio is None:
        return units.UNKNOWN
    if ratio.levels:
        return f"{_factor(ratio.bounds[0])}–{units.times(ratio.bounds[1])} by level"
    if ratio.low is None or ratio.high is None:
        return units.times(ratio.value)
    value, low, high = _with_bounds(ratio.value, ratio.low, ratio.high)
    return f"{'' if ratio.shown else '~ '}{value}× [{low}–{high}]"


def answers(model: ModelComparison) -> tuple[Answer, ...]:
    """One answer for each group of sides of a model."""
    return tuple(_answer(group) for group in model.groups)


def fold(ratio: float) -> str:
    """How many times, as a sentence says it."""
    return f"{_factor(ratio)} times"


def _factor(ratio: float) -> str:
    return units.times(ratio).removesuffix("×")


def _with_bounds(value: float, low: float, high: float) -> tuple[str, str, str]:
    """A ratio and its bounds as text, with as many digits as it takes to tell the bounds apart."""
    if _factor(low) == _factor(high):
        for digits in (3, 4):
            if f"{low:.{digits}f}" != f"{high:.{digits}f}":
                return f"{value:.{digits}f}", f"{low:.{digits}f}", f"{high:.{digits}f}"
    return _factor(value), _factor(low), _factor(high)


def _answer(group: Group) -> Answer:
    unit = rate_unit(group.sides)
    what_next = reasons.what_next(group)
    if not group.pairs:
        return Answer(_alone(group.sides[0], unit), next=what_next if group.sides[0].refusal else ())
    why = tuple(reasons.why(group, unit))
    compared = [(pair, pair.ratio) for pair in group.pairs if pair.ratio]
    compared.sort(key=lambda each: -each[1].value)
    refused = [pair for pair in group.pairs if not pair.ratio]
    if not compared:
        first, *others = _refusals(refused)
        return Answer(first, tuple(others), why, what_next)
    headline = _of_two(*compared[0], unit) if len(compared) == 1 else _of_many(compared, unit)
    sides = [compared[0][0].reference, *(pair.side for pair, _ in compared)]
    brief = (*_sure(sides), *_fair([pair for pair, _ in compared]), *_left_out(refused))
    return Answer(headline, brief, why, what_next)


def _sure(sides: Sequence[SideResult]) -> Iterator[str]:
    """Say where there are too few runs for a claim about other runs, and which sides have no steady state."""
    counts = [len(side.counted) for side in sides]
    if max(counts) == 1:
        yield "One run a side proves nothing about other runs."
    elif min(counts) < RUNS_FOR_SIGNIFICANCE:
        yield f"Fewer than {RUNS_FOR_SIGNIFICANCE} runs a side: no claim about other runs."
    found = [side.name for side in sides if not all(each.summary.steady.found for each in side.counted)]
    if found:
        yield f"No steady state was found in {listed(found)}: a rough figure."


def _fair(compared: Sequence[Pair]) -> Iterator[str]:
    """Say whether the configurations are identical."""
    if {pair.ledger.verdict for pair in compared} == {"identical configuration"}:
        unknown = any(pair.ledger.of("unknown") for pair in compared)
        yield "Identical configurations" + (", as far as they are stated." if unknown else ".")
    else:
        yield "Maximum performance: each at its own configuration."


def _left_out(refused: Sequence[Pair]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for pair in refused:
        finding = pair.side.refusal
        verb = "can't be true" if finding and finding.gravity == "impossible" else "can't be judged"
        words = f"left out, since its figures {verb}" if finding else "not compared"
        groups.setdefault(words, []).append(pair.side.name)
    return [f"{listed(names)}: {words}." for words, names in groups.items()]


def _alone(side: SideResult, unit: str) -> str:
    name, value, step = side.name, side.value(RATE), side.value("avg_step_time_seconds")
    if step is None:
        return f"There is only {name}, and it has no figures: its run {side.ended}."
    if side.refusal is not None:
        return f"There is only {name}, and its figures are left out: {side.refusal.text}."
    speed = f"{rate_of(side)} {unit}" if value is not None else f"{units.seconds(step)} per step"
    return f"There is only {name}, with {speed}: nothing to set it against."


def _of_two(pair: Pair, ratio: Ratio, unit: str) -> str:
    faster, slower = pair.ordered
    names = faster.name, slower.name
    # “per GPU” where the numbers of GPUs differ: the speed could be taken for that of all GPUs.
    each = f" per {unit.rpartition('/')[2]}" if faster.count != slower.count else ""
    if ratio.levels:
        speeds = f"{rate_of(faster)} against {rate_of(slower)} {unit}"
        return f"{names[0]} is {_by_level(pair, ratio, f' as fast{each} as {names[1]}')}: {speeds}."
    speeds = f"{rate(faster.value(RATE))} against {rate(slower.value(RATE))} {unit}"
    if ratio.shown is False:
        both = f"{pair.side.name} and {pair.reference.name}"
        return f"No difference is shown between {both}: {ratio_text(ratio).removeprefix('~ ')}: {speeds}."
    factor = max(ratio.value, 1 / ratio.value)
    if f"{factor:.3f}" == "1.000":
        return f"{names[0]} and {names[1]} are equally fast to three decimals: {speeds}."
    times = fold(factor)
    if ratio.low is not None and ratio.high is not None:
        bounds = (ratio.low, ratio.high) if ratio.value >= 1 else (1 / ratio.high, 1 / ratio.low)
        shown, low, high = _with_bounds(factor, *bounds)
        times = f"{shown} times (95 %: {low} to {high})"
    return f"{names[0]} is {times} as fast{each} as {names[1]}: {speeds}."


def _by_level(pair: Pair, ratio: Ratio, as_fast: str) -> str:
    """Each ratio with its steps: a run that changes its level has no single one.

    The side that ends as the faster one is the subject throughout, also where it was slower before.
    """
    turned = pair.ordered[0] is pair.reference
    parts = []
    for number, level in enumerate(ratio.levels):
        own, others = (level.of_reference, level.of_side) if turned else (level.of_side, level.of_reference)
        places = [f"its steps {own}" if own else "", f"steps {others} of the other" if others else ""]
        times = fold(1 / level.value if turned else level.value)
        parts.append(f"{times}{'' if number else as_fast} in {' against '.join(filter(None, places))}")
    return listed(parts)


def _of_many(compared: Sequence[tuple[Pair, Ratio]], unit: str) -> str:
    reference = compared[0][0].reference
    value = rate_of(reference)
    against = f"Against {reference.name}" + (f" ({value} {unit})" if value != units.UNKNOWN else "")
    if len(compared) <= NAMED:
        return f"{against}, {', '.join(_of_one(*each) for each in compared)}."
    first, last = _of_one(*compared[0]), _of_one(*compared[-1])
    return f"{against}, {first} and {last}; the other {len(compared) - 2} sides lie between."


def _of_one(pair: Pair, ratio: Ratio) -> str:
    name = pair.side.name
    if ratio.levels:
        return f"{name} is {_factor(ratio.bounds[0])} to {fold(ratio.bounds[1])} as fast, by level"
    if ratio.shown is False:
        return f"no difference is shown to {name} ({ratio_text(ratio).removeprefix('~ ')})"
    return f"{name} is {fold(ratio.value)} as fast"


def _refusals(refused: Sequence[Pair]) -> list[str]:
    names: dict[tuple[str, str | None], list[str]] = {}
    for pair in refused:
        names.setdefault((pair.reference.name, pair.reason), []).append(pair.side.name)
    return [
        f"{listed(sides)} can't be compared with {reference}: {reason}." for (reference, reason), sides in names.items()
    ]


def money(found: PairCost, prices: Mapping[str, Price]) -> str:
    """Who gives more tokens for a dollar, and from which price on it is the other."""
    side, reference = found.pair.side.name, found.pair.reference.name
    at = f"{side} breaks even with {reference} at {span(found.break_even)} times its price per GPU-hour"
    if found.per_dollar is None:
        return f"{at} (needs no price)."
    given = f"at {prices[side]} and {prices[reference]} per GPU-hour"
    if found.winner is None:
        return f"Which of {side} and {reference} gives more tokens per dollar {given} can't be told; {at}."
    low, high = found.per_dollar
    factor = (low, high) if found.winner is found.pair.side else (1 / high, 1 / low)
    other = found.other.name
    below = ""
    if found.wins_below is not None:
        dollars = dict.fromkeys(f"${bound:.2f}" for bound in found.wins_below)
        below = f"; {other} would win below {' to '.join(dollars)}"
    return f"{found.winner.name} gives {span(factor)} times the tokens per dollar of {other}, {given}{below}; {at}."


def span(bounds: tuple[float, float]) -> str:
    """Bounds of a factor as a sentence says them; once where they are equal."""
    return " to ".join(dict.fromkeys(map(_factor, bounds)))
