"""The efficiency and cost of each system, or why they are unknown, as a document."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from tprimat.analysis import efficiency
from tprimat.analysis.efficiency import Efficiency, Value, rows
from tprimat.analysis.intervals import level
from tprimat.catalog.prices import Price
from tprimat.checks.settings import agree
from tprimat.compare import Comparison
from tprimat.compare.cost import efficiencies
from tprimat.compare.systems import device
from tprimat.notes.catalogue import words
from tprimat.report.blocks import Block, Distinct, Document, Headline, Paragraph, Table, notes
from tprimat.settings.rows import LEDGER
from tprimat.units import UNKNOWN


@dataclasses.dataclass(frozen=True)
class EfficiencyTable:
    """The efficiency of one system; if it is excluded or has no step times, only the reason."""

    name: str
    model: str
    price: Price | None
    columns: tuple[Efficiency, ...]
    reason: str | None = None


def efficiency_tables(comparison: Comparison) -> list[EfficiencyTable]:
    """Return the table of each system of each model, in the order in which they are shown."""
    tables = []
    for model in comparison.models:
        for system in model.systems:
            reason = None
            if system.exclusion is not None:
                reason = f"excluded: {words(system.exclusion.note)}"
            elif not system.valid_runs:
                reason = words(system.why_untimed)
            price = comparison.prices.get(system.name)
            columns = efficiencies(comparison, system)
            tables.append(EfficiencyTable(system.name, model.title, price, columns, reason))
    return tables


_VARIED = ("micro_batch_size", "global_batch_size")
_KEPT = tuple(
    row
    for row in LEDGER
    if row.key not in _VARIED
    and row.role != "harmless"
    and not row.field.startswith(("gpu_info.", "environment.", "energy_metrics."))
)
"""Settings (the work and how it is done) that two runs must share if the memory of a micro-batch is
computed from the difference of their memory.
"""


def micro_batches(comparison: Comparison) -> list[str]:
    """Return the largest micro-batch that fits, for each device on which two were measured."""
    notes = []
    for model in comparison.models:
        for one, other in itertools.combinations(model.systems, 2):
            alike = (agree(setting, one.run, other.run) for setting in _KEPT)
            if device(one.run) != device(other.run) or not all(alike):
                continue
            fits, why = efficiency.largest_micro_batch(one.run, other.run)
            if fits is not None:
                notes.append(
                    f"{model.title}, {one.name}: a micro-batch of up to {fits} sequences fits"
                    f" ({why})"
                )
    return notes


def document(tables: Sequence[EfficiencyTable], remarks: Sequence[str]) -> Document:
    """Return a table for each system with an explanation of its ranges, or why there is none."""
    screen: list[Block] = []
    answer: list[Block] = []
    for table in tables:
        name = f"{table.model}, {table.name}"
        price = f", {table.price} per GPU-hour" if table.price else ""
        screen.append(Headline(f"{name}{price}"))
        if table.columns:
            screen.append(Table(*figures(table.columns)))
        texts = [table.reason, _ranges(table), *reasons(table.columns)]
        screen += [Paragraph(text) for text in texts if text]
        if not table.columns:
            answer.append(Paragraph(f"{name}: {table.reason or UNKNOWN}"))
        for column in table.columns:
            answer.append(Paragraph(f"{name}, {column.steps}: {_brief(column)}"))
    return Document([*screen, *notes(remarks)], answer=answer)


def _ranges(table: EfficiencyTable) -> str:
    """Return an explanation of the ranges in a table; empty if no value has one."""
    values = itertools.chain(*(column.values.values() for column in table.columns))
    if all(value.low is None for value in values):
        return ""
    text = f"Intervals: {level()} CI of the mean over runs"
    if any(column.steps.startswith("steps") for column in table.columns):
        text = "Intervals: within-run intervals: run-to-run variation is unknown"
    if table.price is not None and table.price.low < table.price.high:
        return f"{text}; of costs, with the range of the price."
    return f"{text}."


def _brief(column: Efficiency) -> str:
    texts = []
    for metric in rows([column]):
        value = column.values.get(metric.name)
        if value is not None and value.value is not None:
            texts.append(f"{metric.title} {figure(value)} {metric.unit}")
    return "; ".join(texts) or UNKNOWN


def figures(found: Sequence[Efficiency]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of a table with a column for each system."""
    cells = []
    for metric in rows(found):
        texts = [figure(column.values.get(metric.name)) for column in found]
        cells.append([f"{metric.title}, {metric.unit}", *texts])
    return ["", *(column.steps for column in found)], cells


def figure(value: Value | None) -> str:
    """Return a value with its interval: 23.8 (23.7–23.9)."""
    if value is None or value.value is None:
        return UNKNOWN
    text = _digits(value.value)
    if value.low is None or value.high is None:
        return text
    return f"{text} ({_digits(value.low)}–{_digits(value.high)})"


def reasons(found: Sequence[Efficiency]) -> list[str]:
    """Return the reasons why values are unknown, without duplicates and with their rows; then the
    hints.
    """
    titles_of: dict[str, Distinct] = {}
    for metric in rows(found):
        for column in found:
            value = column.values.get(metric.name)
            if value is not None and value.reason:
                titles_of.setdefault(value.reason, {})[metric.title] = None
    texts = [f"{', '.join(titles)}: {reason}" for reason, titles in titles_of.items()]
    hints = dict.fromkeys(hint for column in found for hint in column.hints)
    return [*texts, *(f"Hint: {hint}" for hint in hints)]


def _digits(value: float) -> str:
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.3g}"
