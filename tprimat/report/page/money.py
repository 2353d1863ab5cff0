"""What the price fields of the page compute with: figures at one dollar per GPU-hour, and the speed ratios."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from tprimat.catalog.prices import Price
from tprimat.compare.money import cost, efficiencies
from tprimat.report.blocks import Content, Output, Paragraph, Table
from tprimat.report.page.markup import Part, escape
from tprimat.report.page.view import View
from tprimat.report.verdict import span

AT_ONE_DOLLAR = Price(1.0, 1.0)


def values(view: View) -> dict[str, Any]:
    """Sides with their tokens per dollar at one dollar per GPU-hour, and pairs with the bounds of their ratio.

    The page divides the first by a price; nothing else is needed, since a token's cost is linear in
    the price.
    """
    comparison = view.comparison
    at_one = dataclasses.replace(comparison, prices={placed.side.name: AT_ONE_DOLLAR for placed in view.sides})
    sides = []
    for placed in view.sides:
        levels = []
        for each in efficiencies(at_one, placed.side):
            rate = each.values.get("tokens_per_dollar")
            if rate is not None and rate.value is not None:
                bounds = {"low": rate.low or rate.value, "high": rate.high or rate.value}
                levels.append({"steps": each.steps, "value": rate.value, **bounds})
        name = placed.side.name
        # Sides of one name share a field.
        sides.append({"field": view.names.index(name), "levels": levels, "price": _typed(comparison.prices.get(name))})
    pairs = []
    for pair in view.pairs:
        found = cost(comparison, pair)
        if found is not None:
            low, high = found.break_even
            places = {"reference": view.of(pair.reference).index, "side": view.of(pair.side).index}
            pairs.append({**places, "low": low, "high": high})
    return {"sides": sides, "pairs": pairs}


def _typed(price: Price | None) -> str | None:
    """A price as the fields take it: 2.95 or 2.20:3.10."""
    if price is None:
        return None
    return f"{price.low:g}" if price.low == price.high else f"{price.low:g}:{price.high:g}"


def section(view: View) -> Iterator[Part]:
    """The fields and the tables that they fill."""
    found = values(view)
    if not any(side["levels"] for side in found["sides"]):
        yield Paragraph("No side has a throughput, so nothing can be said of its cost.")
        return
    yield Paragraph(
        "There is no built-in price: offers for one GPU differ by three to four times. Type what you pay; a range "
        "such as 2.20:3.10 widens the figures. Nothing leaves this page."
    )
    fields = "".join(_field(number, name, view) for number, name in enumerate(view.names))
    yield f'<div class="fields" id="prices" role="group" aria-label="Prices">{fields}</div>'
    yield '<p id="price-help" role="status" aria-live="polite"></p>'
    rows: list[list[Content]] = []
    for placed, side in zip(view.sides, found["sides"], strict=True):
        for number, level in enumerate(side["levels"]):
            rows.append(
                [view.title(placed), level["steps"], *_outputs(f"cost-{placed.index}-{number}", "rate", "price")]
            )
    header = ["Side", "Of", "Tokens per dollar", "Dollars for 10¹² tokens"]
    yield Table(header, rows, caption="Cost of tokens at these prices", right_from=2)
    if not found["pairs"]:
        return
    rows = []
    for number, pair in enumerate(found["pairs"]):
        names = " against ".join(view.sides[pair[key]].name for key in ("side", "reference"))
        factor = span((pair["low"], pair["high"]))
        rows.append([names, factor, *_outputs(f"pair-{number}", "even", "times", "winner", "below")])
    header = [
        "Pair",
        "Breaks even at × the reference's price",
        "Breaks even at",
        "Tokens per dollar, × the reference",
        "More for the money",
        "The other would win below",
    ]
    caption = "Break-even: a side may cost as many times the reference's price as it is times as fast"
    yield Table(header, rows, caption=caption)


def _field(number: int, name: str, view: View) -> str:
    price = _typed(view.comparison.prices.get(name))
    value = f' value="{price}"' if price else ""
    return (
        f'<label for="price-{number}">{escape(name)}, USD per GPU-hour'
        f'<input id="price-{number}" data-price="{number}" inputmode="decimal" autocomplete="off" '
        f'placeholder="2.95 or 2.20:3.10" aria-describedby="price-help"{value}></label>'
    )


def _outputs(name: str, *kinds: str) -> list[Output]:
    return [Output("–", f"{name}-{kind}") for kind in kinds]
