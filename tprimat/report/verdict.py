"""The answer in words: who is faster, how many times, or why that isn't said. For all reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tprimat import units
from tprimat.analysis.intervals import RUNS_FOR_SIGNIFICANCE
from tprimat.catalog.prices import Price
from tprimat.compare import Group, ModelComparison, Pair, Ratio, SideResult
from tprimat.compare.money import PairCost
from tprimat.report import reasons
from tprimat.report.rates import RATE, rate, rate_of, rate_unit

NAMED = 4
"""Sides that a sentence names; beyond, the table has them."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """What is to be said of a group of sides.

    Attributes:
        headline: one sentence: who, and how much.
        brief: how sure, how fair, and what is left out, in sentences of a few words.
        why: what the answer rests on and what weakens it.
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
        values = sorted(level.value for level in ratio.levels)
        return f"{_factor(values[0])}–{units.times(values[-1])} by level"
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
    for digits in (3, 4):
        if _factor(low) != _factor(high):
            break
        low_text, high_text = f"{low:.{digits}f}", f"{high:.{digits}f}"
        if low_text != high_text:
            return f"{value:.{digits}f}", low_text, high_text
    return _factor(value), _factor(low), _factor(high)


def _answer(group: Group) -> Answer:
    unit = rate_unit(group.sides)
    why, what_next = tuple(reasons.why(group, unit)), tuple(reasons.what_next(group))
    if not group.pairs:
        headline = _alone(group.sides[0], unit)
        return Answer(headline, (), (), what_next if group.sides[0].refusal else ())
    compared = sorted((pair for pair in group.pairs if pair.ratio), key=lambda pair: -_value(pair))
    refused = [pair for pair in group.pairs if not pair.ratio]
    if not compared:
        first, *others = _refusals(refused)
        return Answer(first, tuple(others), why, what_next)
    headline = _of_two(compared[0], unit) if len(compared) == 1 else _of_many(compared, unit)
    brief = (*_sure(compared), *_unsteady(compared), *_fair(compared), *_left_out(refused))
    return Answer(headline, brief, why, what_next)


def _sure(compared: Sequence[Pair]) -> list[str]:
    """What so many runs allow to be said of other runs."""
    sides = [compared[0].reference, *(pair.side for pair in compared)]
    counts = [len(side.counted) for side in sides]
    if max(counts) == 1:
        return ["One run a side proves nothing about other runs."]
    if min(counts) < RUNS_FOR_SIGNIFICANCE:
        return [f"Fewer than {RUNS_FOR_SIGNIFICANCE} runs a side: no claim about other runs."]
    return []


def _unsteady(compared: Sequence[Pair]) -> list[str]:
    """Whose figures are of a run that never settled, which is said as soon as the figures are."""
    sides = [compared[0].reference, *(pair.side for pair in compared)]
    found = [side.side.name for side in sides if not all(each.summary.steady.found for each in side.counted)]
    return [f"No steady state was found in {listed(found)}: a rough figure."] if found else []


def _fair(compared: Sequence[Pair]) -> list[str]:
    """What kind of comparison it is, by the ledger."""
    if {pair.ledger.verdict for pair in compared} == {"identical configuration"}:
        unknown = any(pair.ledger.of("unknown") for pair in compared)
        return ["Identical configurations" + (", as far as they are stated." if unknown else ".")]
    return ["Maximum performance: each at its own configuration."]


def _left_out(refused: Sequence[Pair]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for pair in refused:
        finding = pair.side.refusal
        verb = "can't be true" if finding and finding.gravity == "impossible" else "can't be judged"
        words = f"left out, since its figures {verb}" if finding else "not compared"
        groups.setdefault(words, []).append(pair.side.side.name)
    return [f"{listed(names)}: {words}." for words, names in groups.items()]


def _value(pair: Pair) -> float:
    assert pair.ratio is not None
    return pair.ratio.value


def _alone(side: SideResult, unit: str) -> str:
    name, value, step = side.side.name, side.value(RATE), side.value("avg_step_time_seconds")
    if step is None:
        return f"There is only {name}, and it has no figures: its run {side.ended}."
    if side.refusal is not None:
        return f"There is only {name}, and its figures are left out: {side.refusal.text}."
    speed = f"{rate_of(side)} {unit}" if value is not None else f"{units.seconds(step)} per step"
    return f"There is only {name}, with {speed}: nothing to set it against."


def _of_two(pair: Pair, unit: str) -> str:
    assert pair.ratio is not None
    if pair.ratio.levels:
        return _of_levels(pair, unit)
    faster, slower = (pair.side, pair.reference) if _value(pair) >= 1 else (pair.reference, pair.side)
    factor = max(_value(pair), 1 / _value(pair))
    if pair.ratio.shown is False:
        return (
            f"No difference is shown between {pair.side.side.name} and {pair.reference.side.name}: "
            f"{ratio_text(pair.ratio).removeprefix('~ ')}{_basis(pair, unit)}."
        )
    if f"{factor:.3f}" == "1.000":
        return f"{faster.side.name} and {slower.side.name} are equally fast to three decimals{_basis(pair, unit)}."
    return (
        f"{faster.side.name} is {_factor_of(pair)} as fast{_each(pair, unit)} as {slower.side.name}"
        f"{_basis(pair, unit)}."
    )


def _each(pair: Pair, unit: str) -> str:
    """Per what the speed is, where the numbers of GPUs differ and it could be taken for the whole."""
    return f" per {unit.rpartition('/')[2]}" if pair.side.side.count != pair.reference.side.count else ""


def _factor_of(pair: Pair) -> str:
    """How many times as fast the faster of two is, with its interval."""
    ratio = pair.ratio
    assert ratio is not None
    value = max(ratio.value, 1 / ratio.value)
    if ratio.low is None or ratio.high is None:
        return fold(value)
    bounds = (ratio.low, ratio.high) if ratio.value >= 1 else (1 / ratio.high, 1 / ratio.low)
    shown, low, high = _with_bounds(value, *bounds)
    return f"{shown} times (95 %: {low} to {high})"


def _of_levels(pair: Pair, unit: str) -> str:
    """Each ratio with its steps: a run that changes its level has no single one."""
    assert pair.ratio is not None
    # The side that ends as the faster one is the subject throughout, also where it was slower before.
    turned = pair.ratio.value < 1
    subject, other = (pair.reference, pair.side) if turned else (pair.side, pair.reference)
    parts = []
    for number, level in enumerate(pair.ratio.levels):
        own, others = (level.of_reference, level.of_side) if turned else (level.of_side, level.of_reference)
        places = [f"its steps {own}" if own else "", f"steps {others} of the other" if others else ""]
        as_fast = f" as fast{_each(pair, unit)} as {other.side.name}" if number == 0 else ""
        value = 1 / level.value if turned else level.value
        parts.append(f"{fold(value)}{as_fast} in {' against '.join(place for place in places if place)}")
    return f"{subject.side.name} is {listed(parts)}: {rate_of(subject)} against {rate_of(other)} {unit}."


def _basis(pair: Pair, unit: str) -> str:
    faster, slower = (pair.side, pair.reference) if _value(pair) >= 1 else (pair.reference, pair.side)
    return f": {rate(faster.value(RATE))} against {rate(slower.value(RATE))} {unit}"


def _of_many(compared: Sequence[Pair], unit: str) -> str:
    reference = compared[0].reference
    value = rate_of(reference)
    against = f"Against {reference.side.name}" + (f" ({value} {unit})" if value != units.UNKNOWN else "")
    shown = compared if len(compared) <= NAMED else [compared[0], compared[-1]]
    parts = [_of_one(pair) for pair in shown]
    if len(compared) > NAMED:
        return f"{against}, {parts[0]} and {parts[1]}; the other {len(compared) - 2} sides lie between."
    return f"{against}, {', '.join(parts)}."


def _of_one(pair: Pair) -> str:
    assert pair.ratio is not None
    name = pair.side.side.name
    if pair.ratio.levels:
        values = sorted(level.value for level in pair.ratio.levels)
        return f"{name} is {_factor(values[0])} to {fold(values[-1])} as fast, by level"
    if pair.ratio.shown is False:
        return f"no difference is shown to {name} ({ratio_text(pair.ratio).removeprefix('~ ')})"
    return f"{name} is {fold(_value(pair))} as fast"


def _refusals(refused: Sequence[Pair]) -> list[str]:
    names: dict[tuple[str, str | None], list[str]] = {}
    for pair in refused:
        names.setdefault((pair.reference.side.name, pair.reason), []).append(pair.side.side.name)
    return [
        f"{listed(sides)} can't be compared with {reference}: {reason}." for (reference, reason), sides in names.items()
    ]


def listed(names: Sequence[str]) -> str:
    """Names as a sentence says them: a, b and c."""
    shown = list(names) if len(names) <= NAMED else [*names[: NAMED - 1], f"{len(names) - NAMED + 1} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def money(found: PairCost, prices: Mapping[str, Price]) -> str:
    """Who gives more tokens for a dollar, and from which price on it is the other."""
    side, reference = found.pair.side.side.name, found.pair.reference.side.name
    at = f"{side} breaks even with {reference} at {span(found.break_even)} times its price per GPU-hour"
    if found.per_dollar is None:
        return f"{at} (needs no price)."
    given = f"at {prices[side]} and {prices[reference]} per GPU-hour"
    if found.winner is None:
        return f"Which of {side} and {reference} gives more tokens per dollar {given} can't be told; {at}."
    low, high = found.per_dollar
    factor = (low, high) if found.winner is found.pair.side else (1 / high, 1 / low)
    below = (
        "" if found.wins_below is None else f"; {found.other.side.name} would win below {_dollars(found.wins_below)}"
    )
    other = found.other.side.name
    return (
        f"{found.winner.side.name} gives {span(factor)} times the tokens per dollar of {other}, {given}{below}; {at}."
    )


def span(bounds: tuple[float, float]) -> str:
    """Bounds of a factor as a sentence says them; once where they are equal."""
    low, high = (units.times(bound).removesuffix("×") for bound in bounds)
    return low if low == high else f"{low} to {high}"


def _dollars(bounds: tuple[float, float]) -> str:
    low, high = (f"${bound:.2f}" for bound in bounds)
    return low if low == high else f"{low} to {high}"
