"""Efficiency -> what a terminal shows: a table for each side, the reasons below it."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Sequence

from tprimat.analysis.efficiency import Efficiency, Value, rows
from tprimat.catalog.prices import Price
from tprimat.text import plain
from tprimat.units import UNKNOWN


@dataclasses.dataclass(frozen=True)
class Sheet:
    """The figures of one side.

    Attributes:
        name, model: as the comparison calls them.
        price: what the user said that it costs; None where nothing was said.
        found: one for each level of its run, or one for all its runs; none where there are no figures.
        why_none: why there are none; None where there are.
    """

    name: str
    model: str
    price: Price | None
    found: tuple[Efficiency, ...]
    why_none: str | None = None


def console(sheets: Sequence[Sheet], notes: Sequence[str], *, width: int = 80, color: bool = False) -> str:
    """The sheets as text, each line at most `width` wide."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    stream = io.StringIO()
    out = Console(
        file=stream,
        width=max(width, 40),
        color_system="standard" if color else None,
        force_terminal=color,
        no_color=not color,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    for sheet in sheets:
        price = f", {sheet.price} per GPU-hour" if sheet.price else ""
        out.print(Text(plain(f"{sheet.model}, {sheet.name}{price}"), style="bold"))
        if sheet.why_none is not None:
            out.print(Text(plain(sheet.why_none)))
        if sheet.found:
            table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
            table.add_column("")
            for each in sheet.found:
                table.add_column(each.steps, justify="right")
            for metric in rows(sheet.found):
                cells = [figure(each.values.get(metric.name)) for each in sheet.found]
                table.add_row(Text(f"{metric.title}, {metric.unit}"), *(Text(cell) for cell in cells))
            out.print(table)
        if any(value.low is not None for each in sheet.found for value in each.values.values()):
            within = any(each.steps.startswith("steps") for each in sheet.found)
            of = "the steps within one run; other runs may lie outside" if within else "the mean over runs, 95 %"
            out.print(Text(f"Intervals are of {of}."))
        for text in reasons(sheet.found):
            out.print(Text(plain(text)))
        out.print()
    for note in notes:
        out.print(Text(f"- {plain(note)}"))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()).rstrip("\n") + "\n"


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
    said: dict[str, list[str]] = {}
    for metric in rows(found):
        for each in found:
            value = each.values.get(metric.name)
            if value is not None and value.reason:
                titles = said.setdefault(value.reason, [])
                if metric.title not in titles:
                    titles.append(metric.title)
    texts = [f"  {', '.join(titles)}: {reason}" for reason, titles in said.items()]
    return texts + [f"  Hint: {hint}" for hint in dict.fromkeys(hint for each in found for hint in each.hints)]


def _digits(value: float) -> str:
    size = abs(value)
    return f"{value:,.0f}" if size >= 1000 else f"{value:.1f}" if size >= 10 else f"{value:.3g}"
