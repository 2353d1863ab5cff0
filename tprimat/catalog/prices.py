"""Prices per GPU-hour, as the user states them. There is no default: prices of one GPU differ
by three to four times between offers, more than any two platforms do in speed.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence

from tprimat.errors import UsageError
from tprimat.text import counted

_WRONG = "wrong-cost"


@dataclasses.dataclass(frozen=True)
class Price:
    """USD per GPU and hour; low and high are equal for a single price."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The price that a single figure is computed from."""
        return (self.low + self.high) / 2

    def __str__(self) -> str:
        low, high = (f"${bound:.2f}" if round(bound, 2) == bound else f"${bound:g}" for bound in (self.low, self.high))
        return low if low == high else f"{low} to {high}"


def parse(arguments: Sequence[str], names: Sequence[str], known: Mapping[str, str] | None = None) -> dict[str, Price]:
    """Return the prices of sides by name, from what was typed after --cost; raise UsageError for what makes no sense.

    Args:
        arguments: either one price for each name, in their order; or NAME=PRICE, where a part of
            the name is enough, and is meant for all sides that it fits. A price is 2.95, or a range
            2.20:3.10. Commas separate too.
        names: sides, in the order of the printed table.
        known: by name, all that is known of a side; what a user may call it by where no name fits.
    """
    words = [word for argument in arguments for word in argument.split(",") if word.strip()]
    named = [word for word in words if "=" in word]
    if named and len(named) != len(words):
        raise UsageError("--cost takes either prices in order or NAME=PRICE, not both", heading=_WRONG)
    if not named:
        # A word that is no price is named as one before prices are counted.
        in_order = [_price(word) for word in words]
        if len(in_order) != len(names):
            count = f"{counted(len(in_order), 'price')} for {counted(len(names), 'side')}"
            raise UsageError(
                f"--cost has {count}: give one for each, in this order: {'; '.join(names)}", heading=_WRONG
            )
        return dict(zip(names, in_order, strict=True))
    prices: dict[str, Price] = {}
    for word in named:
        name, _, text = word.rpartition("=")
        fitting = _fitting(name, names)
        if not fitting and known:
            fitting_texts = _fitting(name, list(dict.fromkeys(known.values())))
            fitting = [each for each in names if known.get(each) in fitting_texts]
        if not fitting:
            raise UsageError(f"--cost: {name.strip()!r} is none of the sides: {'; '.join(names)}", heading=_WRONG)
        doubled = next((each for each in fitting if each in prices), None)
        if doubled is not None:
            raise UsageError(f"--cost: {doubled} has two prices: name it more exactly", heading=_WRONG)
        prices.update(dict.fromkeys(fitting, _price(text)))
    return prices


def is_price(word: str) -> bool:
    """Return whether a word alone is a price, a range of prices or NAME=PRICE."""
    try:
        _price(word.rpartition("=")[2])
    except UsageError:
        return False
    return True


def _fitting(name: str, sides: Sequence[str]) -> list[str]:
    """Return the systems that a name means: whole names win over words, words over parts: H200
    is not GH200. Several sides of one GPU cost the same.
    """
    words = _words(name)
    tests = (
        [side for side in sides if _words(side) == words],
        [side for side in sides if words in _words(side)],
        [side for side in sides if words.strip() in _words(side)],
    )
    return next((matches for matches in tests if matches), []) if words.strip() else []


def _words(text: str) -> str:
    """Return words with a space on either side; 8×H100 is two."""
    parted = re.sub(r"\b([0-9]+)[x×](?=\w)", r"\1 ", text.casefold())
    return f" {' '.join(parted.replace(',', ' ').split())} "


def _price(text: str) -> Price:
    try:
        bounds = [float(part.strip().removeprefix("$")) for part in text.split(":")]
    except ValueError:
        bounds = []
    if len(bounds) not in (1, 2) or not all(0 < bound < math.inf for bound in bounds) or bounds != sorted(bounds):
        raise UsageError(
            f"--cost: {text.strip()!r} is no price: write USD per GPU-hour as 2.95 or as a range 2.20:3.10",
            heading=_WRONG,
        )
    return Price(bounds[0], bounds[-1])
