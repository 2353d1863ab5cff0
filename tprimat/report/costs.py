"""What a pair costs, in words: as text, and as pieces that the page's script completes with the reader's prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

from tprimat.catalog.prices import Price
from tprimat.compare.cost import Outcome, PairCost, outcomes
from tprimat.report.rates import work_of

_UNKNOWN = "{first} is cheaper per {noun} {below}{above}"
_TIE = (
    "cost per {noun} is a tie within the uncertainty: {faster} at {faster_price} and {slower} at {slower_price} per "
    "GPU-hour"
)
_CHEAPER = (
    "{cheaper} at {cheaper_price} is {saving}% cheaper per {noun} than {dearer} at {dearer_price}; break-even price of "
    "{dearer}: {even} per GPU-hour"
)


_BRIEF = "{cheaper} is {saving}% cheaper per {noun} than {dearer}, which breaks even at {even}"
_BRIEF_TIE = "no significant difference in cost per {noun} between {faster} and {slower}"
"""Below a table that has the prices."""


def cost_sentence(found: PairCost, prices: Mapping[str, Price], beside: Sequence[str] = ()) -> str:
    """Return which system costs less per token, and the break-even price.

    A sentence beside a table of these systems has no prices, and names as short as tell the systems apart.
    """
    values = _names(found, prices)
    faster, slower = found.pair.faster.name, found.pair.slower.name
    if faster not in prices or slower not in prices:
        return _UNKNOWN.format(**values)
    values |= {"faster_price": str(prices[faster]), "slower_price": str(prices[slower])}
    bare = [name.partition(" (")[0] for name in beside]
    for name in ("faster", "slower"):
        short = values[name].partition(" (")[0]
        values[name] = short if bare.count(short) == 1 else values[name]
    if found.outcome is None or found.saving is None or found.break_even_price is None:
        return (_BRIEF_TIE if beside else _TIE).format(**values)
    saving = span([percent(each) for each in found.saving])
    even = span([_dollars(each) for each in found.break_even_price])
    return _text(found.outcome, _BRIEF if beside else _CHEAPER).format(**values, saving=saving, even=even)


def forms(found: PairCost) -> dict[str, Any]:
    """Return the sentences in pieces, each with the linear form of the prices that it holds below zero.

    A piece is a text or the slot of a value; see Outcome for the forms. The first sentence that holds is the answer.
    """
    names = _names(found, {})
    low, high = found.break_even
    held = [
        {
            "below_zero": each.below_zero,
            "saving": each.savings,
            "even": each.break_even,
            "text": _pieces(_text(each), names),
        }
        for each in outcomes(low, high)
    ]
    tie = {"below_zero": None, "saving": [], "even": [], "text": _pieces(_TIE, names)}
    return {"unknown": _UNKNOWN.format(**names), "outcomes": [*held, tie]}


def _names(found: PairCost, prices: Mapping[str, Price]) -> dict[str, str]:
    """Return the values of sentences; a break-even is in USD if one of the two has a price."""
    faster, slower = first, second = found.pair.faster.name, found.pair.slower.name
    low, high = found.break_even
    bounds = [f"{low:.2f}×", f"{high:.2f}×"]
    if price := prices.get(slower):
        bounds = [_dollars(price.low * low), _dollars(price.high * high)]
    elif price := prices.get(faster):
        first, second, bounds = slower, faster, [_dollars(price.low / high), _dollars(price.high / low)]
    below = f"than {second} at {price} below {bounds[0]}" if price else f"below {bounds[0]} the price of {second}"
    above = f", more expensive above {bounds[1]}" if bounds[1] != bounds[0] else ""
    noun = work_of([found.pair.faster, found.pair.slower]).noun
    return {"faster": faster, "slower": slower, "noun": noun, "first": first, "below": below, "above": above}


def _text(outcome: Outcome, form: str = _CHEAPER) -> str:
    """Return the sentence of an outcome in this form, with the faster and the slower system in their places."""
    cheaper, dearer = ("faster", "slower") if outcome.faster_is_cheaper else ("slower", "faster")
    return form.replace("{cheaper", f"{{{cheaper}").replace("{dearer", f"{{{dearer}")


def _pieces(sentence: str, known: Mapping[str, str]) -> list[str | dict[str, str]]:
    """Return a sentence with the known values in their slots; the other slots are pieces of their own."""
    pieces: list[str | dict[str, str]] = []
    text = ""
    for before, slot, _, _ in Formatter().parse(sentence):
        text += before
        if slot is None:
            continue
        if slot in known:
            text += known[slot]
        else:
            pieces += [text, {"slot": slot}]
            text = ""
    return [*pieces, text]


def _dollars(price: float) -> str:
    return f"${price:.2f}" if price >= 0.1 else f"${price:.3g}"


def percent(share: float) -> str:
    """Return a share that is neither nothing nor all as one that isn't 0 or 100."""
    return f"{100 * share:.0f}" if 0.01 <= share < 0.995 else f"{100 * share:.1g}" if share < 0.01 else ">99"


def span(bounds: Sequence[str]) -> str:
    """Return two bounds as text; once if they are equal."""
    return "–".join(dict.fromkeys(bounds))
