"""Cheapest system per token, and the break-even price. The user states the prices."""

from __future__ import annotations

import dataclasses
import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tprimat.analysis import efficiency
from tprimat.analysis.efficiency import Efficiency
from tprimat.analysis.intervals import Bounds
from tprimat.catalog import gpus, prices
from tprimat.checks.physics import mfu_doubt
from tprimat.compare.result import Comparison, Pair, RunResult, SystemResult, add_name
from tprimat.compare.systems import device_name
from tprimat.errors import UsageError
from tprimat.notes import Note, NoteValue, with_texts
from tprimat.text import plain

SAME = 0.0005
"""Relative difference below which two systems are equally fast, or cost the same."""

Form = tuple[float, float, float, float]
"""A linear form of the prices of a pair: coefficients of the faster system's low and high price,
then of the slower system's low and high price.
"""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Which system of a pair costs less per token, as linear forms of the prices, so that the
    script of the HTML page needs no rule of its own.

    Attributes:
        below_zero: the outcome holds if the value of this form is below zero.
        savings: the least and the greatest share by which the cheaper system costs less; each is 1
            minus the quotient of two forms.
        break_even: the lowest and the highest price at which the other system would cost the same
            per token, USD per GPU-hour.
    """

    faster_is_cheaper: bool
    below_zero: Form
    savings: tuple[tuple[Form, Form], tuple[Form, Form]]
    break_even: tuple[Form, Form]


def outcomes(low: float, high: float) -> tuple[Outcome, Outcome]:
    """Return the two possible outcomes in money of a speedup between the bounds `low` and `high`;
    if neither holds, cost is a tie.

    Relative to the slower system, the faster one costs per token at least
    fast_low / (slow_high × high) and at most fast_high / (slow_low × low). A saving below SAME is a
    tie.
    """
    fast_low = (1.0, 0.0, 0.0, 0.0)
    fast_high = (0.0, 1.0, 0.0, 0.0)
    slow_low = (0.0, 0.0, low, 0.0)
    slow_high = (0.0, 0.0, 0.0, high)
    faster = Outcome(
        faster_is_cheaper=True,
        below_zero=(0.0, 1.0, (SAME - 1) * low, 0.0),
        savings=((fast_high, slow_low), (fast_low, slow_high)),
        break_even=((1 / high, 0.0, 0.0, 0.0), (0.0, 1 / low, 0.0, 0.0)),
    )
    slower = Outcome(
        faster_is_cheaper=False,
        below_zero=(SAME - 1, 0.0, 0.0, high),
        savings=((slow_high, fast_low), (slow_low, fast_high)),
        break_even=(slow_low, slow_high),
    )
    return faster, slower


@dataclasses.dataclass(frozen=True)
class PairCost:
    """What the speeds of a pair mean in money. All bounds follow from those of the speedup.

    Attributes:
        break_even: the quotient of the faster system's price and the slower one's at which a token
            costs the same on both; it is known without prices.
        outcome: which system costs less per token; None without prices, or if the bounds include
            both outcomes.
        saving: the share by which the cheaper system costs less per token; None without an outcome.
        break_even_price: USD per GPU-hour at which the other system would cost the same per token
            as the cheaper one at its price; None without an outcome.
    """

    pair: Pair
    break_even: Bounds
    outcome: Outcome | None = None
    saving: Bounds | None = None
    break_even_price: Bounds | None = None

    @property
    def cheaper(self) -> SystemResult | None:
        """The system that costs less per token; None without an outcome."""
        if self.outcome is None:
            return None
        if self.outcome.faster_is_cheaper:
            return self.pair.faster
        return self.pair.slower

    @property
    def dearer(self) -> SystemResult:
        """The system that costs more per token; the faster one without an outcome."""
        if self.cheaper is self.pair.faster:
            return self.pair.slower
        return self.pair.faster


class Priced(NamedTuple):
    """A comparison with its prices, and notes on what is doubtful about these; the comparison's own
    notes include them.
    """

    comparison: Comparison
    doubts: tuple[Note, ...]


def with_prices(
    comparison: Comparison,
    arguments: Sequence[str],
    *,
    source: str | None = None,
    date: str | None = None,
    ordered: bool = True,
) -> Priced:
    """Return the comparison with the prices of its systems, and a note on them.

    Args:
        comparison: prices without a name belong to its systems in the order of their files.
        arguments: see prices.parse, also for what it raises.
        source: where the prices come from; None if the user doesn't say so.
        date: the date of the prices; None if the user doesn't state it.
        ordered: whether the user gave the files in an order. The files of a directory have none:
            each of several prices then needs a name.
    """
    names = comparison.system_names
    systems = comparison.systems
    words = [word for argument in arguments for word in argument.split(",")]
    are_named = any("=" in word for word in words)
    # The name of a system omits what all systems share; the user may call it by its GPU even then.
    known: dict[str, str] = {}
    for system in systems:
        known[system.name] = f"{known.get(system.name, '')} {system.gpu or ''} {system.full_name}"
    if not ordered and not are_named and len(names) > 1 and all(map(prices.is_price, words)):
        problem = "--cost: the files of a directory have no order for prices without names"
        hint = f"give each price to its system: --cost {_named_prices(comparison, words, known)}"
        raise UsageError(problem, hint=hint, heading="wrong-cost")
    stated = {"source": source or "no source given", "date": date or "undated"}
    doubts = []
    found, absent = prices.parse(arguments, names, known)
    if not are_named and names != tuple(dict.fromkeys(system.name for system in systems)):
        given = tuple(f"{name} {found[name]}" for name in names)
        doubts.append(Note("prices-in-order-of-files", {"prices": given}))
    unnamed = []
    for system in systems:
        if system.gpu is None:
            unnamed.append(system.runs[0])
    unmatched: list[tuple[Note, list[str]]] = []
    for name in absent:
        note = Note("prices-of-no-system", {"systems": names[:5]})
        if (file := _file_of(name, unnamed)) is not None:
            note = Note("price-of-unnamed-gpu", {"gpu": shlex.quote(f"{file}={name}")})
        add_name(unmatched, note, repr(name))
    for note, absent_names in unmatched:
        are = "its price is" if len(absent_names) == 1 else "their prices are"
        fields: dict[str, NoteValue] = {"names": " or ".join(absent_names), "prices_are": are}
        doubts.append(Note(note.code, {**note.fields, **fields}))
    added = [with_texts(note, plain) for note in (Note("prices-given", stated), *doubts)]
    notes = (*comparison.notes, *added)
    return Priced(dataclasses.replace(comparison, prices=found, notes=notes), tuple(added[1:]))


def _named_prices(comparison: Comparison, words: Sequence[str], known: Mapping[str, str]) -> str:
    """Return the prices as NAME=PRICE arguments, where NAME is a system's GPU if that identifies
    the system.
    """
    names = comparison.system_names
    called = {name: name for name in names}
    for system in comparison.systems:
        short = system.name
        if system.gpu:
            short = device_name(system.gpu).split()[0]
        if prices.fitting_names(short, names, known) == [system.name]:
            called[system.name] = short
    listed = itertools.zip_longest(called.values(), words[: len(called)], fillvalue="USD")
    return " ".join(shlex.quote(f"{name}={price}") for name, price in listed)


def _file_of(name: str, unnamed: Sequence[RunResult]) -> str | None:
    """Return the file of a run whose GPU is unknown and may have this name: the first whose path or
    platform contains it, else the first that contains no GPU's name; None without either.
    """
    pattern = "|".join(re.escape(row.short_name.split()[0]) for row in gpus.gpus())
    nameless = None
    for each in unnamed:
        text = f"{each.file} {each.run.framework_config.get('submission_platform')}"
        contained = set()
        for found in re.findall(rf"(?i)(?:\b|_|\dx)({pattern})(?![a-z\d])", text):
            contained.add(found.casefold())
        if gpus.denies(name, each.run.gpu_info.software_stack):
            continue
        if name.split()[0].casefold() in contained:
            return each.file
        nameless = nameless or (None if contained else each.file)
    return nameless


def efficiencies(comparison: Comparison, system: SystemResult) -> tuple[Efficiency, ...]:
    """Return the efficiency of a system, as a tuple with one entry; empty if the system is excluded
    or has no valid run.
    """
    if system.exclusion is not None or not system.valid_runs:
        return ()
    doubt = mfu_doubt(system.findings)
    price = comparison.prices.get(system.name)
    options = dataclasses.replace(comparison.options, price=price, doubt=doubt)
    results = system.valid_runs
    runs = [result.run for result in results]
    summaries = [result.summary for result in results]
    return (
        efficiency.of_runs(
            runs,
            summaries,
            options,
            [result.rate for result in results if result.unit == "samples"],
        ),
    )


def cost(comparison: Comparison, pair: Pair) -> PairCost | None:
    """Return what the speeds of a pair mean in money; None if the speeds are unknown, or if a price
    is missing and both systems have the same number of the same GPU.
    """
    if pair.speedup is None or pair.is_unsettled:
        return None
    if pair.system.unit == "steps" and pair.system.count is None:
        # A rate in steps is that of all GPUs together, and their number is unknown.
        return None
    low, high = pair.speedup.bounds
    fast, slow = (comparison.prices.get(system.name) for system in (pair.faster, pair.slower))
    if fast is None or slow is None:
        if pair.faster.gpu == pair.slower.gpu and pair.faster.count == pair.slower.count:
            return None
        return PairCost(pair, (low, high))
    given = (fast.low, fast.high, slow.low, slow.high)

    def of_prices(form: Form) -> float:
        return sum(factor * price for factor, price in zip(form, given, strict=True))

    for outcome in outcomes(low, high):
        if of_prices(outcome.below_zero) < 0:
            least, most = (
                1 - of_prices(part) / of_prices(whole) for part, whole in outcome.savings
            )
            first, last = map(of_prices, outcome.break_even)
            return PairCost(pair, (low, high), outcome, (least, most), (first, last))
    return PairCost(pair, (low, high))
