"""The efficiency and cost of each side, or why they aren't known: sheets, and how a terminal shows them."""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Sequence

from tprimat.analysis import efficiency
from tprimat.analysis.efficiency import Efficiency, Value, rows
from tprimat.catalog.prices import Price
from tprimat.compare import Comparison
from tprimat.compare.money import efficiencies
from tprimat.compare.sides import device
from tprimat.report.terminal import Terminal
from tprimat.text import plain
from tprimat.units import UNKNOWN


@dataclasses.dataclass(frozen=True)
class Sheet:
    """The figures of one side, for each level of its run or for all its runs; or why there are none."""

    name: str
    model: str
    price: Price | None
    found: tuple[Efficiency, ...]
    why_none: str | None = None


def sheets(comparison: Comparison) -> list[Sheet]:
    """One for each side of each model, in the order of the tables."""
    found = []
    for model in comparison.models:
        for side in model.sides:
            why = None
            if side.refusal is not None:
                why = f"Left out: {side.refusal.text}."
            elif not side.counted:
                why = f"No figures: its run {side.ended}."
            price = comparison.prices.get(side.name)
            found.append(Sheet(side.name, model.title, price, efficiencies(comparison, side), why))
    return found


_setup = operator.attrgetter(
    "parallelism_config",
    *(f"training_config.{name}" for name in ("sequence_length", "num_gpus", "precision", "recomputation")),
)


def micro_batches(comparison: Comparison) -> list[str]:
    """The largest micro batch that fits, for each device on which two were measured."""
    said = []
    for model in comparison.models:
        for one, other in itertools.combinations(model.sides, 2):
            if device(one.run) != device(other.run) or _setup(one.run) != _setup(other.run):
                continue
            fits, why = efficiency.largest_micro_batch(one.run, other.run)
            if fits is not None:
                said.append(f"{model.title}, {one.name}: a micro batch of up to {fits} sequences fits ({why})")
    return said


def console(sheets: Sequence[Sheet], notes: Sequence[str], *, width: int = 80, color: bool = False) -> str:
    """The sheets as text, each line at most `width` wide."""
    out = Terminal(width=width, color=color)
    for sheet in sheets:
        price = f", {sheet.price} per GPU-hour" if sheet.price else ""
        out.line(f"{sheet.model}, {sheet.name}{price}", "bold")
        if sheet.why_none is not None:
            out.line(sheet.why_none)
        if sheet.found:
            out.table(*figures("", sheet.found))
        if any(value.low is not None for each in sheet.found for value in each.values.values()):
            within = any(each.steps.startswith("steps") for each in sheet.found)
            of = "the steps within one run; other runs may lie outside" if within else "the mean over runs, 95 %"
            out.line(f"Intervals are of {of}.")
        for text in reasons(sheet.found):
            out.line(text)
        out.line()
    for note in notes:
        out.line(f"- {plain(note)}")
    return out.text()


def brief(sheets: Sequence[Sheet]) -> list[str]:
    """A line for each set of figures, with those that are known and no reasons."""
    lines = []
    for sheet in sheets:
        name = plain(f"{sheet.model}, {sheet.name}")
        if not sheet.found:
            lines.append(plain(f"{name}: {sheet.why_none or UNKNOWN}"))
        for each in sheet.found:
            known = [
                f"{metric.title} {figure(value)} {metric.unit}"
                for metric in rows([each])
                if (value := each.values.get(metric.name)) is not None and value.value is not None
            ]
            lines.append(f"{name}, {each.steps}: {'; '.join(known) or UNKNOWN}")
    return lines


def figures(title: str, found: Sequence[Efficiency]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a table with a column for each set of figures."""
    cells = [
        [f"{metric.title}, {metric.unit}", *(figure(each.values.get(metric.name)) for each in found)]
        for metric in rows(found)
    ]
    return [title, *(each.steps for each in found)], cells


def figure(value: Value | None) -> str:
    """A figure with its interval: 23.8 (23.7–23.9)."""
    if value is None or value.value is None:
        return UNKNOWN
    text = _digits(value.value)
    if value.low is None or value.high is None:
        return text
    return f"{text} ({_digits(value.low)}–{_digits(value.high)})"


def reasons(found: Sequence[Efficiency]) -> list[str]:
    """What must be said of the figures, each text once, with the rows that it is of; then the hints."""
    said: dict[str, dict[str, None]] = {}
    for metric in rows(found):
        for each in found:
            value = each.values.get(metric.name)
            if value is not None and value.reason:
                said.setdefault(value.reason, {})[metric.title] = None
    texts = [f"{', '.join(titles)}: {reason}" for reason, titles in said.items()]
    return texts + [f"Hint: {hint}" for hint in dict.fromkeys(hint for each in found for hint in each.hints)]


def _digits(value: float) -> str:
    size = abs(value)
    return f"{value:,.0f}" if size >= 1000 else f"{value:.1f}" if size >= 10 else f"{value:.3g}"
