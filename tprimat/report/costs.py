"""The cost of a pair in words: as text, and as pieces that the HTML page's script completes with
the reader's prices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tprimat.catalog.prices import Price
from tprimat.compare.cost import Outcome, PairCost, outcomes
from tprimat.report.rates import work_of
from tprimat.results.fields import JsonObject

_NO_PRICE = "{faster} is cheaper per {noun} below {low} the price of {slower}"
_ONE_PRICE = {
    "faster": "compared with {faster} at {price}, {slower} is cheaper per {noun} below {low}",
    "slower": "compared with {slower} at {price}, {faster} is cheaper per {noun} below {low}",
}
_ABOVE = ", more expensive above {high}"
_TIE = (
    "no significant difference in cost per {noun} between {faster} at {faster_price} and {slower}"
    " at {slower_price} per GPU-hour"
)
_CHEAPER = (
    "{cheaper} at {cheaper_price} is {saving}% cheaper per {noun} than {dearer} at {dearer_price};"
    " break-even price of {dearer}: {even} per GPU-hour"
)


_BRIEF = "{cheaper} is {saving}% cheaper per {noun} than {dearer}, which breaks even at {even}"
_BRIEF_TIE = "no significant difference in cost per {noun} between {faster} and {slower}"
"""The sentence below a table that already has the prices."""


def cost_sentence(
    pair_cost: PairCost, prices: Mapping[str, Price], beside: Sequence[str] = ()
) -> str:
    """Return which system costs less per token, and the break-even price.

    A sentence beside a table of these systems omits the prices, and has names that are just long
    enough to distinguish the systems.
    """
    values = _names(pair_cost)
    faster = pair_cost.pair.faster.name
    slower = pair_cost.pair.slower.name
    if faster not in prices or slower not in prices:
        return _break_even(pair_cost, prices)
    values |= {"faster_price": str(prices[faster]), "slower_price": str(prices[slower])}
    bare = [name.partition(" (")[0] for name in beside]
    for key, name in (("faster", faster), ("slower", slower)):
        short = name.partition(" (")[0]
        if bare.count(short) == 1:
            values[key] = short
    if pair_cost.outcome is None or pair_cost.saving is None or pair_cost.break_even_price is None:
        form = _BRIEF_TIE if beside else _TIE
    else:
        values["saving"] = span(list(map(percent, pair_cost.saving)))
        values["even"] = span(list(map(_dollars, pair_cost.break_even_price)))
        form = _text(pair_cost.outcome, _BRIEF if beside else _CHEAPER)
    return form.format(**values)


def forms(pair_cost: PairCost) -> JsonObject:
    """Return the possible sentences in pieces, each with a linear form of the prices: the first
    sentence whose form is below zero is the answer.

    A piece is a text or the slot of a value; see Outcome for the forms.
    """
    names = _names(pair_cost)
    sentences: list[JsonObject] = []
    for outcome in outcomes(*pair_cost.break_even):
        sentences.append(
            {
                "below_zero": outcome.below_zero,
                "saving": outcome.savings,
                "even": outcome.break_even,
                "text": _pieces(_text(outcome), names),
            }
        )
    sentences.append({"below_zero": None, "saving": (), "even": (), "text": _pieces(_TIE, names)})
    return {
        "unknown": _break_even(pair_cost, {}),
        "one": [_pieces(form, names) for form in _ONE_PRICE.values()],
        "above": _pieces(_ABOVE, {}),
        "outcomes": sentences,
    }


def _names(pair_cost: PairCost) -> dict[str, str]:
    faster = pair_cost.pair.faster
    slower = pair_cost.pair.slower
    return {"faster": faster.name, "slower": slower.name, "noun": work_of([faster, slower]).noun}


def _break_even(pair_cost: PairCost, prices: Mapping[str, Price]) -> str:
    """Return the sentence on the break-even if a price is missing; it is in USD if one of the two
    systems has a price.
    """
    names = _names(pair_cost)
    low, high = pair_cost.break_even
    form = _NO_PRICE
    bounds = [f"{low:.2f}×", f"{high:.2f}×"]
    if price := prices.get(names["slower"]):
        form = _ONE_PRICE["slower"]
        bounds = [_dollars(price.low * low), _dollars(price.high * high)]
    elif price := prices.get(names["faster"]):
        form = _ONE_PRICE["faster"]
        bounds = [_dollars(price.low / high), _dollars(price.high / low)]
    if bounds[1] != bounds[0]:
        form += _ABOVE
    return form.format(**names, price=price, low=bounds[0], high=bounds[1])


def _text(outcome: Outcome, form: str = _CHEAPER) -> str:
    """Return the sentence of an outcome in this form, with the faster and the slower system in
    their places.
    """
    cheaper, dearer = ("faster", "slower") if outcome.faster_is_cheaper else ("slower", "faster")
    return form.replace("{cheaper", f"{{{cheaper}").replace("{dearer", f"{{{dearer}")


def _pieces(sentence: str, values: Mapping[str, str]) -> list[str | dict[str, str]]:
    """Return a sentence in pieces: its texts, the known values of its slots, and the other
    slots.
    """
    pieces: list[str | dict[str, str]] = []
    for number, text in enumerate(re.split(r"{(\w+)}", sentence)):
        # Every second piece is the name of a slot.
        pieces.append(values.get(text, {"slot": text}) if number % 2 else text)
    return pieces


def span(bounds: Sequence[str]) -> str:
    """Return two bounds as text; only one if they are equal."""
    return "–".join(dict.fromkeys(bounds))


def _dollars(price: float) -> str:
    if price >= 0.1:
        return f"${price:.2f}"
    return f"${price:.3g}"


def percent(share: float) -> str:
    """Return a share in percent as text: 0.4 for a small one, >99 for one that would round to
    100.
    """
    if 0.01 <= share < 0.995:
        return f"{100 * share:.0f}"
    if share < 0.01:
        return f"{100 * share:.1g}"
    return ">99"
