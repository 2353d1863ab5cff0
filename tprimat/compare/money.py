"""Who gives more tokens for a dollar, and from which price on it is the other. Prices are the user's."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tprimat.analysis import efficiency
from tprimat.analysis.efficiency import Efficiency
from tprimat.catalog import prices
from tprimat.compare.result import Comparison, Pair, SideResult


@dataclasses.dataclass(frozen=True)
class PairCost:
    """What a pair's speeds mean in money. Bounds are those of the speed ratio, by interval or by level.

    Attributes:
        break_even: the side's price over the reference's at which a token costs the same on both;
            it needs no price.
        per_dollar: tokens per dollar of the side over the reference's; None without prices.
        winner: who gives more tokens per dollar; None without prices, or where the bounds hold both.
        wins_below: USD per GPU-hour below which the other one would win, at the winner's price; None
            without a winner.
    """

    pair: Pair
    break_even: tuple[float, float]
    per_dollar: tuple[float, float] | None
    winner: SideResult | None
    wins_below: tuple[float, float] | None

    @property
    def other(self) -> SideResult:
        """Who isn't the winner."""
        return self.pair.reference if self.winner is self.pair.side else self.pair.side


def with_prices(
    comparison: Comparison, arguments: Sequence[str], *, source: str | None = None, date: str | None = None
) -> Comparison:
    """The comparison with what its sides cost.

    Its sides are priced in the order in which its tables show them. See prices.parse for the
    arguments and what it raises; `source` and `date` are of the prices.
    """
    note = (
        f"prices per GPU-hour as given on the command line ({source or 'no source given'}, {date or 'no date given'})"
    )
    # A side whose name leaves out what all share can still be called by its GPU.
    known = {side.name: f"{side.gpu or ''} {side.full_name}" for side in comparison.sides}
    found = prices.parse(arguments, comparison.side_names, known)
    return dataclasses.replace(comparison, prices=found, notes=(*comparison.notes, note))


def efficiencies(comparison: Comparison, side: SideResult) -> tuple[Efficiency, ...]:
    """What the speed of a side is worth; nothing for a side without figures or whose figures can't be believed."""
    if side.refusal is not None or not side.counted:
        return ()
    options = dataclasses.replace(comparison.options, price=comparison.prices.get(side.name))
    results = side.counted
    return efficiency.of_runs([each.run for each in results], [each.summary for each in results], options)


def cost(comparison: Comparison, pair: Pair) -> PairCost | None:
    """What the speeds of a pair mean in money; None where they aren't compared."""
    if pair.ratio is None:
        return None
    low, high = pair.ratio.bounds
    of_reference = comparison.prices.get(pair.reference.name)
    of_side = comparison.prices.get(pair.side.name)
    if of_reference is None or of_side is None:
        return PairCost(pair, (low, high), None, None, None)
    per_dollar = low * of_reference.low / of_side.high, high * of_reference.high / of_side.low
    if per_dollar[0] > 1:
        return PairCost(pair, (low, high), per_dollar, pair.side, (of_side.low / high, of_side.high / low))
    if per_dollar[1] < 1:
        return PairCost(
            pair, (low, high), per_dollar, pair.reference, (of_reference.low * low, of_reference.high * high)
        )
    return PairCost(pair, (low, high), per_dollar, None, None)
