"""Comparison -> what a terminal shows: the answer, why, what to do next, a table, footnotes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from tprimat.compare import Comparison, Group, SettingRow, SideResult
from tprimat.compare.money import cost
from tprimat.report import published, tables, verdict
from tprimat.report.breakdown import breakdowns
from tprimat.report.tables import Footnotes, Row
from tprimat.report.terminal import Terminal
from tprimat.text import counted, plain, shortened

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
        values: of a setting, where many sides differ.
        parts: of a breakdown; the report has the kernels.
        warnings: about runs; with more the answer would scroll away. Those about figures are always printed.
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
    """The summary as text, each line at most `width` wide and ended by a newline."""
    out = Terminal(width=width, color=color)
    footnotes = Footnotes(comparison)
    if comparison.shared and limits.tables:
        out.line(f"{'All sides' if len(comparison.sides) > 1 else 'Side'}: {', '.join(map(plain, comparison.shared))}")
        out.line()
    for model in comparison.models:
        out.line(model.title, "bold underline")
        for group, answer in zip(model.groups, verdict.answers(model), strict=True):
            out.line(answer.headline, "bold", answer.brief)
            if limits.tables:
                _reasons(out, answer, limits)
                _group(out, comparison, group, footnotes, limits)
        if limits.tables:
            for table, note in breakdowns(model):
                names = [shortened(str(name), LONGEST_NAME) for name in table.header[1:]]
                # The first parts of it; the report has all.
                rows = [list(map(str, row)) for row in table.rows if not str(row[0]).startswith("kernel")]
                out.table(["Where the time goes", *names], rows[: limits.parts])
                out.line(note)
                out.line()
            out.entries("Published", _dashed(published.beside(model)))
        else:
            out.line()
    if limits.tables:
        out.entries("Notes", _dashed(comparison.notes))
        entries, rest = footnotes.first(limits.warnings)
        if rest:
            entries.append(("", f"Warnings {len(entries) + 1} to {len(entries) + rest} stand in the report."))
        out.entries("Warnings", entries)
    return out.text()


def _dashed(texts: Iterable[str]) -> list[tuple[str, str]]:
    return [("-", text) for text in texts]


def _reasons(out: Terminal, answer: verdict.Answer, limits: Limits) -> None:
    """The longest and the last reasons are left to the report."""
    shown = [plain(text, limits.letters) for text in answer.why[: limits.reasons]]
    if len(answer.why) > limits.reasons:
        shown.append(f"{len(answer.why) - limits.reasons} more in the report.")
    out.entries("Why", _dashed(shown), gap=False)
    out.entries("Next", _dashed(answer.next), gap=False)
    out.line()


def _group(out: Terminal, comparison: Comparison, group: Group, footnotes: Footnotes, limits: Limits) -> None:
    speed, worth = tables.speed_rows(group, footnotes), tables.worth_rows(comparison, group)
    memory = tables.memory_rows(group)
    if len(group.sides) <= COLUMNS:
        _beside(out, group, [*speed, *worth, *memory], tables.differing(group))
    else:
        for rows in filter(None, (speed, worth, memory)):
            _below(out, group, rows)
            out.line()
        out.entries("Differs in", _dashed(_differences(group, limits)))
    all_of_them = {1: "this side", 2: "both sides"}.get(len(group.sides), "all sides")
    equal, unstated = tables.equal(group), tables.unstated(group)
    if equal and len(group.sides) > 1:
        out.line(f"Equal on {all_of_them}: {', '.join(equal)}.")
    if unstated:
        out.line(f"Unknown on {all_of_them}: {', '.join(unstated)}.")
    if comparison.prices:
        costs = [found for pair in group.pairs if (found := cost(comparison, pair)) is not None]
        out.entries("Money", _dashed(verdict.money(each, comparison.prices) for each in costs), gap=False)
    out.line()


def _beside(out: Terminal, group: Group, rows: Sequence[Row], settings: Sequence[SettingRow]) -> None:
    from rich.cells import cell_len

    # A name is broken where its parts meet rather than within one.
    header = ["", *(plain(side.name).replace(", ", ",\n") for side in group.sides)]
    figures = [[row.title, *map(_cell, row.cells)] for row in rows]
    differing = [[f"  {plain(setting.title)}", *map(_value, setting.values)] for setting in settings]
    texts = zip(*figures, *differing, strict=True)
    widths = [max(map(cell_len, [*title.splitlines(), *column])) for title, column in zip(header, texts, strict=True)]
    # Between two columns lie two spaces and one of the box. rich itself lets a table grow beyond the line.
    room = max(out.width - 3 * len(group.sides), len(widths))
    while sum(widths) > room:
        # The widest give way first.
        widths[widths.index(max(widths))] -= 1
    sections = [figures, [["Differs in", *("" for _ in group.sides)], *differing]] if differing else [figures]
    out.table(header, *sections, widths=widths)


def _below(out: Terminal, group: Group, rows: Sequence[Row]) -> None:
    from rich.cells import cell_len

    # Figures stay in one line: the names of the sides give way.
    widths: list[int | None] = [None]
    for row in rows:
        figures = [cell.text for cell in row.cells if len(cell.text) <= LONGEST_FIGURE]
        words = [word for text in (row.short, *map(_cell, row.cells)) for word in text.split()]
        widths.append(max(map(cell_len, (*words, *figures))))
    names = [shortened(plain(side.name), LONGEST_NAME) for side in group.sides]
    cells = [[name, *(_cell(row.cells[index]) for row in rows)] for index, name in enumerate(names)]
    out.table(["", *(row.short for row in rows)], cells, widths=widths, gap=1, fold=False)


def _differences(group: Group, limits: Limits) -> Iterable[str]:
    for setting in tables.differing(group):
        values = list(dict.fromkeys(map(_value, setting.values)))
        beyond = len(values) - limits.values
        more = f" and {beyond} more" if beyond > 0 else ""
        yield f"{plain(setting.title)}: {'; '.join(values[: limits.values])}{more}"


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


def evidence(comparison: Comparison) -> str:
    """All that the figures rest on: the files with their digests, and each side with what is to be known of it."""
    lines = ["", "Files"]
    for file in comparison.files:
        digest = f", sha256 {file.sha256}" if file.sha256 else ""
        lines.append(f"  {plain(file.name)}: {counted(len(file.runs), 'run')}{digest}")
    lines += ["", "Sides"]
    for model in comparison.models:
        for side in model.sides:
            runs = f"{len(side.counted)} of {len(side.runs)} runs counted"
            lines.append(f"  {plain(model.title)}, {plain(side.full_name)}: {runs}")
            lines += [f"    - {plain(text)}" for text in _remarks(side)]
    return "\n".join(lines)


def _remarks(side: SideResult) -> Iterable[str]:
    refused = [] if side.refusal is None else [f"refused: {side.refusal.text}"]
    findings = (f"{finding.gravity}: {finding.text}" for finding in side.findings)
    return dict.fromkeys([*refused, *findings, *side.doubts, *side.warnings])
