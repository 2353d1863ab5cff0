"""Prices per GPU-hour, as the user states them. There is no default: prices of one GPU differ
by three to four times between offers, more than any two platforms do in speed.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

from tprimat.errors import UsageError
from tprimat.text import counted

_WRONG = "wrong-cost"

LEAST, MOST = 1e-4, 1e6
"""USD per GPU-hour, or kWh, that can be prices."""


@dataclasses.dataclass(frozen=True)
class Price:
    """USD per GPU and hour; low and high are equal for a single price."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The price that a single value is computed from."""
        return (self.low + self.high) / 2

    def cost(self, hours: float, price: float | None = None) -> float:
        """Return the cost of a number of GPU-hours, USD, at one of its prices or the middle one."""
        return hours * (self.middle if price is None else price)

    def __str__(self) -> str:
        low, high = (
            f"${bound:.2f}" if round(bound, 2) == bound else f"${bound:g}"
            for bound in (self.low, self.high)
        )
        if low == high:
            return low
        return f"{low} to {high}"


def parse(
    arguments: Sequence[str], names: Sequence[str], known: Mapping[str, str] | None = None
) -> tuple[dict[str, Price], list[str]]:
    """Return the prices of systems by name, from the words after --cost, and the names that match
    no system.

    Args:
        arguments: one price for each name, in their order; or NAME=PRICE for all systems that a
            part of a name fits. A price is 2.95, or a range 2.20:3.10. Commas separate too, where
            they don't belong to a name.
        names: systems, in the order of their files.
        known: by name, all known names of a system, by which a user may mean it if no name fits.

    Raises UsageError.
    """
    words = [word for argument in arguments for word in _parted(argument)]
    named = [word for word in words if "=" in word]
    if named and len(named) != len(words):
        raise UsageError(
            "--cost takes either prices in order or NAME=PRICE, not both", heading=_WRONG
        )
    if not named:
        # A word that is not a price is named as one before prices are counted.
        in_order = [_price(word) for word in words]
        if len(in_order) != len(names):
            hint = f"give one price per system, in this order: {'; '.join(names)}"
            count = f"{counted(len(in_order), 'price')} for {counted(len(names), 'system')}"
            raise UsageError(f"--cost: {count}", hint=hint, heading=_WRONG)
        return dict(zip(names, in_order, strict=True)), []
    prices = {}
    absent = []
    whole = set()
    # Several systems of one GPU cost the same, whatever a model's table calls them.
    texts = {name: f"{name} {(known or {}).get(name, '')}" for name in names}
    for word in named:
        name, _, text = word.rpartition("=")
        price = _price(text)
        fitting = _fitting(name, texts)
        if not fitting:
            absent.append(name.strip())
        for system in fitting:
            # A price for a whole name wins over one for a part of it.
            is_whole = _letters(system) == _letters(name)
            if system in prices and is_whole == (system in whole):
                raise UsageError(
                    f"--cost: {system} has two prices",
                    hint="use a longer part of its name",
                    heading=_WRONG,
                )
            if is_whole or system not in prices:
                prices[system] = price
            if is_whole:
                whole.add(system)
    return prices, absent


def _parted(argument: str) -> Iterator[str]:
    """Yield the words of an argument: `micro-batch 8, eager=2` is one, `H100=2,B200=3` and `2,3`
    are two each.
    """
    word = ""
    for part in argument.split(","):
        word += f",{part}" if word else part
        if "=" in part or is_price(word):
            yield word
            word = ""
    if word.strip():
        yield word


def is_price(word: str) -> bool:
    """Return whether a word alone is a price, a range of prices or NAME=PRICE."""
    try:
        _price(word.rpartition("=")[2])
    except UsageError:
        return False
    return True


def fitting_names(
    name: str, names: Sequence[str], known: Mapping[str, str] | None = None
) -> list[str]:
    """Return the systems that a part of a name means: whole names, else names, else by all that is
    known of them.
    """
    whole = [system for system in names if _letters(system) == _letters(name)]
    return whole or _fitting(name, {name: name for name in names}) or _fitting(name, known or {})


def _fitting(name: str, texts: Mapping[str, str]) -> list[str]:
    """Return the systems whose text has a name. Words win over their beginnings.

    B200 is not GB200 and H20 is not H200; MI300 is MI300X, and H100PCIe is H100 PCIe.
    """
    words = _words(name)
    if not words.strip():
        return []
    fitting = [system for system, text in texts.items() if words in _words(text)]
    if fitting:
        return fitting
    spelled = " ?".join(map(re.escape, _letters(name)))
    if words.strip()[-1:].isdigit():
        spelled += "(?![0-9])"
    begin = re.compile(rf"(?<=\s){spelled}")
    return [system for system, text in texts.items() if begin.search(_words(text))]


def _words(text: str) -> str:
    """Return lower-case words with a space on either side; 8×H100 is two, micro-batch 2 is
    micro2.
    """
    parted = re.sub(r"\b([0-9]+)[x×](?=\w)", r"\1 ", text.casefold()).replace(
        "micro-batch ", "micro"
    )
    return f" {' '.join(re.sub(r'[,()_-]', ' ', parted).split())} "


def _letters(name: str) -> str:
    return _words(name).replace(" ", "")


def _price(text: str) -> Price:
    try:
        bounds = [float(part.strip().removeprefix("$")) for part in text.split(":")]
    except ValueError:
        bounds = []
    if len(bounds) in (1, 2) and LEAST <= bounds[0] <= bounds[-1] <= MOST:
        return Price(bounds[0], bounds[-1])
    raise UsageError(
        f"--cost: {text.strip()!r} is not a price",
        hint="use e.g. H100=2.95, or a range H100=2.20:3.10",
        heading=_WRONG,
    )
