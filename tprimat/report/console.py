"""Comparison -> what a terminal shows: the answer, why, what to do next, a table, footnotes.

Colour only repeats what words say. All text is passed to rich as text, never as markup.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tprimat.compare import Comparison, Group, ModelComparison, SettingRow
from tprimat.compare.money import cost
from tprimat.report import published, tables, verdict
from tprimat.report.breakdown import Breakdown, breakdowns
from tprimat.report.tables import Footnotes, Row
from tprimat.text import plain, shortened

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

COLUMNS = 3
"""Sides that stand beside each other; more stand below each other."""

LONGEST_NAME = 50
"""Characters of a name in a table of many sides."""

LONGEST_FIGURE = 12

LONGEST_VALUE = 160
"""Characters of a setting; the Markdown report has the whole."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """How much is printed; the reports have all of it.

    Attributes:
        reasons, letters: reasons for an answer, and characters of one.
        values: values of a setting that are listed where many sides differ.
        parts: parts of a breakdown; kernels stand in the report.
        warnings: those about runs, in full; with more the answer would scroll away. Those about figures
            always are.
        tables: whether there is anything but the answer.
    """

    reasons: int = 6
    letters: int = 240
    values: int = 4
    parts: int = 12
    warnings: int = 12
    tables: bool = True


NORMAL = Limits()
QUIET = Limits(tables=False)
VERBOSE = Limits(reasons=1000, letters=10_000, values=1000, parts=1000, warnings=100_000)


def render(comparison: Comparison, *, width: int = 80, color: bool = False, limits: Limits = NORMAL) -> str:
    """The summary as text, each line at most `width` wide and ended by a newline.

    Args:
        comparison: what to show.
        width: columns.
        color: whether escape sequences for colour may be in it.
        limits: how much of it.
    """
    from rich.console import Console
    from rich.text import Text

    stream = io.StringIO()
    console = Console(
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
    footnotes = Footnotes(comparison)
    if comparison.shared and limits.tables:
        console.print(
            Text(f"{'All sides' if _several(comparison) else 'Side'}: {', '.join(map(plain, comparison.shared))}")
        )
        console.print()
    for model in comparison.models:
        _model(console, comparison, model, footnotes, limits)
    if limits.tables:
        _list(console, "Notes", [("-", note) for note in comparison.notes])
        _warnings(console, footnotes, limits)
    # rich pads its lines to the full width; that is noise in a file and in a diff.
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()).rstrip("\n") + "\n"


def _model(
    console: Console, comparison: Comparison, model: ModelComparison, footnotes: Footnotes, limits: Limits
) -> None:
    from rich.text import Text

    console.print(Text(plain(model.title), style="bold underline"))
    for group, answer in zip(model.groups, verdict.answers(model), strict=True):
        paragraph = Text(plain(answer.headline), style="bold")
        for sentence in answer.brief:
            paragraph.append(" " + plain(sentence), style="not bold")
        console.print(paragraph)
        if not limits.tables:
            continue
        _list(console, "Why", [("-", text) for text in _shown(answer.why, limits)], gap=False)
        _list(console, "Next", [("-", text) for text in answer.next], gap=False)
        console.print()
        worth = tables.worth_rows(comparison, group)
        if len(group.sides) <= COLUMNS:
            rows = [*tables.speed_rows(group, footnotes), *worth, *tables.memory_rows(group)]
            console.print(_beside(group, rows, tables.differing(group), console.width))
        else:
            console.print(_below(group, tables.speed_rows(group, footnotes)))
            console.print()
            for more in (worth, tables.memory_rows(group)):
                if more:
                    console.print(_below(group, more))
                    console.print()
            _differences(console, group, limits)
        equal = tables.equal(group)
        if equal and len(group.sides) > 1:
            console.print(Text(f"Equal on {_all(group)}: {plain(', '.join(equal))}."))
        unstated = tables.unstated(group)
        if unstated:
            console.print(Text(f"Unknown on {_all(group)}: {', '.join(unstated)}."))
        if comparison.prices:
            costs = [found for pair in group.pairs if (found := cost(comparison, pair)) is not None]
            _list(console, "Money", [("-", verdict.money(each, comparison.prices)) for each in costs], gap=False)
        console.print()
    if not limits.tables:
        console.print()
        return
    for table in breakdowns(model):
        _where_the_time_goes(console, table, limits)
    _list(console, "Published", [("-", text) for text in published.beside(model)])


def _where_the_time_goes(console: Console, found: Breakdown, limits: Limits) -> None:
    """The first parts of a breakdown; the report has all."""
    from rich.text import Text

    table = _table()
    table.add_column("Where the time goes", overflow="fold")
    for name in found.names:
        table.add_column(Text(shortened(name, LONGEST_NAME)), justify="right", overflow="fold")
    rows = [row for row in found.rows if not row[0].startswith("kernel")][: limits.parts]
    for title, cells in rows:
        table.add_row(Text(title), *map(Text, cells))
    console.print(table)
    console.print(Text(found.note))
    console.print()


def _shown(texts: Sequence[str], limits: Limits) -> list[str]:
    """Reasons as they are printed: the longest and the last ones stand in the report."""
    shown = [plain(text, limits.letters) for text in texts[: limits.reasons]]
    more = len(texts) - limits.reasons
    return shown if more <= 0 else [*shown, f"{more} more in the report."]


def _table(gap: int = 2) -> Table:
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, gap, 0, 0), show_edge=False)


def _beside(group: Group, rows: Sequence[Row], settings: Sequence[SettingRow], width: int) -> Table:
    from rich.cells import cell_len
    from rich.text import Text

    # A name is broken where its parts meet rather than within one.
    headings = [plain(side.side.name).replace(", ", ",\n") for side in group.sides]
    columns = [["", *(row.title for row in rows), *(f"  {plain(setting.title)}" for setting in settings)]]
    for index, heading in enumerate(headings):
        figures = [_cell(row.cells[index]) for row in rows]
        columns.append([*heading.splitlines(), *figures, *(_value(setting.values[index]) for setting in settings)])
    # Between two columns lie two spaces and one of the box. rich itself lets a table grow beyond the line.
    room = width - 3 * len(group.sides)
    widths = _fitted([max(map(cell_len, texts)) for texts in columns], room)
    table = _table()
    table.add_column("", width=widths[0], overflow="fold")
    for heading, each in zip(headings, widths[1:], strict=True):
        table.add_column(Text(heading), justify="right", width=each, overflow="fold")
    for row in rows:
        table.add_row(Text(row.title), *(Text(_cell(cell)) for cell in row.cells))
    if settings:
        table.add_section()
        table.add_row(Text("Differs in"), *(Text("") for _ in group.sides))
        for setting in settings:
            table.add_row(Text(f"  {plain(setting.title)}"), *(Text(_value(value)) for value in setting.values))
    return table


def _fitted(widths: Sequence[int], room: int) -> list[int]:
    """Widths that together fit into a line: the widest give way first."""
    fitted = list(widths)
    while sum(fitted) > max(room, len(fitted)):
        fitted[fitted.index(max(fitted))] -= 1
    return fitted


def _below(group: Group, rows: Sequence[Row]) -> Table:
    from rich.cells import cell_len
    from rich.text import Text

    table = _table(gap=1)
    table.add_column("", overflow="fold", ratio=1)
    for row in rows:
        # Figures stay in one line: the names of the sides give way.
        figures = [cell.text for cell in row.cells if len(cell.text) <= LONGEST_FIGURE]
        words = [word for text in (row.short, *map(_cell, row.cells)) for word in text.split()]
        table.add_column(Text(row.short), justify="right", width=max(map(cell_len, (*words, *figures))))
    for index, side in enumerate(group.sides):
        name = shortened(plain(side.side.name), LONGEST_NAME)
        table.add_row(Text(name), *(Text(_cell(row.cells[index])) for row in rows))
    return table


def _differences(console: Console, group: Group, limits: Limits) -> None:
    lines = []
    for setting in tables.differing(group):
        values = list(dict.fromkeys(_value(value) for value in setting.values))
        beyond = len(values) - limits.values
        more = f" and {beyond} more" if beyond > 0 else ""
        lines.append(("-", f"{plain(setting.title)}: {'; '.join(values[: limits.values])}{more}"))
    _list(console, "Differs in", lines)


def _warnings(console: Console, footnotes: Footnotes, limits: Limits) -> None:
    entries = footnotes.entries()
    shown = max(footnotes.about_figures, limits.warnings)
    rows = [(f"[{number}]", text) for number, text in entries[:shown]]
    if len(entries) > shown:
        rows.append(("", f"Warnings {shown + 1} to {len(entries)} stand in the report."))
    _list(console, "Warnings", rows)


def _list(console: Console, title: str, entries: Iterable[tuple[str, str]], *, gap: bool = True) -> None:
    from rich.table import Table
    from rich.text import Text

    entries = list(entries)
    if not entries:
        return
    console.print(Text(title, style="bold"))
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    for mark, text in entries:
        grid.add_row(Text(mark), Text(plain(text)))
    console.print(grid)
    if gap:
        console.print()


def _cell(cell: tables.Cell) -> str:
    return plain(cell.text) + (f" [{_ranges(cell.notes)}]" if cell.notes else "")


def _ranges(numbers: Sequence[int]) -> str:
    """Rising numbers in short: 1-3,7."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(",".join(map(str, part)) if len(part) < 3 else f"{part[0]}-{part[-1]}" for part in parts)


def _value(value: str | None) -> str:
    return "unknown" if value is None else plain(value, LONGEST_VALUE)


def _several(comparison: Comparison) -> bool:
    return sum(len(model.sides) for model in comparison.models) > 1


def _all(group: Group) -> str:
    return {1: "this side", 2: "both sides"}.get(len(group.sides), "all sides")
