"""What the price fields of the page compute with: figures at one dollar per GPU-hour, and the speed ratios."""

from __future__ import annotations

import dataclasses
from typing import Any

from tprimat import units
from tprimat.catalog.prices import Price
from tprimat.compare.money import cost, efficiencies
from tprimat.report.html_blocks import escape
from tprimat.report.page.markup import table
from tprimat.report.page.view import Placed, View

AT_ONE_DOLLAR = Price(1.0, 1.0)


def values(view: View) -> dict[str, Any]:
    """Sides with their tokens per dollar at one dollar per GPU-hour, and pairs with the bounds of their ratio.

    The page divides the first by a price; nothing else is needed, since a token's cost is linear in
    the price.
    """
    comparison = view.comparison
    at_one = dataclasses.replace(comparison, prices={placed.side.side.name: AT_ONE_DOLLAR for placed in view.sides})
    sides = []
    for placed in view.sides:
        price = comparison.prices.get(placed.side.side.name)
        levels = []
        for each in efficiencies(at_one, placed.side):
            rate = each.values.get("tokens_per_dollar")
            if rate is not None and rate.value is not None:
                bounds = (rate.low or rate.value, rate.high or rate.value)
                levels.append({"steps": each.steps, "value": rate.value, "low": bounds[0], "high": bounds[1]})
        sides.append(
            {"field": _field(view, placed), "levels": levels, "price": None if price is None else str_of(price)}
        )
    pairs = []
    for pair in view.pairs:
        found = cost(comparison, pair)
        if found is not None:
            low, high = found.break_even
            pairs.append(
                {"reference": view.of(pair.reference).index, "side": view.of(pair.side).index, "low": low, "high": high}
            )
    return {"sides": sides, "pairs": pairs}


def str_of(price: Price) -> str:
    """A price as the fields take it: 2.95 or 2.20:3.10."""
    return f"{price.low:g}" if price.low == price.high else f"{price.low:g}:{price.high:g}"


def section(view: View) -> str:
    """The fields and the tables that they fill."""
    found = values(view)
    if not any(side["levels"] for side in found["sides"]):
        return "<p>No side has a throughput, so nothing can be said of its cost.</p>"
    names = list(dict.fromkeys(placed.side.side.name for placed in view.sides))
    fields = []
    for number, name in enumerate(names):
        price = view.comparison.prices.get(name)
        value = f' value="{str_of(price)}"' if price else ""
        fields.append(
            f'<label for="price-{number}">{escape(name)}, USD per GPU-hour'
            f'<input id="price-{number}" data-price="{number}" inputmode="decimal" autocomplete="off" '
            f'placeholder="2.95 or 2.20:3.10" aria-describedby="price-help"{value}></label>'
        )
    rows = []
    for placed, side in zip(view.sides, found["sides"], strict=True):
        title = f"{placed.name}, {placed.model.title}" if view.several_models else placed.name
        for number, level in enumerate(side["levels"]):
            cells = [f'<output id="cost-{placed.index}-{number}-{kind}">–</output>' for kind in ("rate", "price")]
            rows.append([escape(title), escape(level["steps"]), *cells])
    parts = [
        "<p>There is no built-in price: offers for one GPU differ by three to four times. Type what you pay; a range "
        "such as 2.20:3.10 widens the figures. Nothing leaves this page.</p>",
        f'<div class="fields" id="prices" role="group" aria-label="Prices">{"".join(fields)}</div>',
        '<p id="price-help" role="status" aria-live="polite"></p>',
        table(
            ["Side", "Of", "Tokens per dollar", "Dollars for 10¹² tokens"],
            rows,
            caption="Cost of tokens at these prices",
            right_from=2,
        ),
    ]
    if found["pairs"]:
        rows = []
        for number, pair in enumerate(found["pairs"]):
            side, reference = (view.sides[pair[key]] for key in ("side", "reference"))
            cells = [f'<output id="pair-{number}-{kind}">–</output>' for kind in ("even", "times", "winner", "below")]
            factor = _span(pair["low"], pair["high"])
            rows.append([f"{escape(side.name)} against {escape(reference.name)}", factor, *cells])
        parts.append(
            table(
                [
                    "Pair",
                    "Breaks even at × the reference's price",
                    "Breaks even at",
                    "Tokens per dollar, × the reference",
                    "More for the money",
                    "The other would win below",
                ],
                rows,
                caption="Break-even: a side may cost as many times the reference's price as it is times as fast",
            )
        )
    return "\n".join(parts)


def _field(view: View, placed: Placed) -> int:
    """The number of the field that holds the price of a side: sides of one name share one."""
    names = list(dict.fromkeys(each.side.side.name for each in view.sides))
    return names.index(placed.side.side.name)


def _span(low: float, high: float) -> str:
    texts = [units.times(bound).removesuffix("×") for bound in (low, high)]
    return texts[0] if texts[0] == texts[1] else f"{texts[0]} to {texts[1]}"
