"""Writes documents for a terminal. Color only repeats what words say; rich gets texts, never
markup.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterable, Sequence
from typing import Literal

from tprimat.console import Verbosity
from tprimat.report import blocks
from tprimat.report.blocks import text_of
from tprimat.text import ELLIPSIS, ended, plain, runnable

NARROWEST = 40
"""Least width of a terminal, in columns."""

GAPS = (3, 2, 1)
"""Gaps between two columns of a table, in characters: the first with which it fits a line is used,
or else the last one.
"""

MOST_BESIDE = 4
"""Most columns of a table whose texts may take several lines; if there are more, those that don't
fit follow in a table below.
"""

LEAST_NAME = 16
"""Width in characters to which the first column shrinks, with its names in several lines, before a
table is divided.
"""

SCREEN = 22
"""Most lines of a first screen: a terminal has 24, and the names of the reports follow below a
blank line.
"""

LONGEST_NOTE, LONGEST_CAVEAT = 180, 140
"""Most characters of an entry on the first screen, and of an entry of a list that is shortened (two
lines).
"""

LEAST_ROOM = 9
"""Width in characters below which the texts of a last column that is cut are omitted."""


def write(
    document: blocks.Document,
    *,
    width: int = 80,
    color: bool = False,
    verbosity: Verbosity = Verbosity.NORMAL,
) -> str:
    """Return a document as text, each line at most `width` wide and ended by a newline."""
    parts = [*document.screen]
    if verbosity is Verbosity.VERBOSE:
        parts += document.details
    elif verbosity is Verbosity.QUIET:
        headlines = [part for part in parts if isinstance(part, blocks.Headline)]
        parts = [*(document.answer or headlines)]
    out = _Terminal(width, color, verbosity, document.all_with)
    out.add(parts)
    over = out.text().count("\n") - SCREEN
    if verbosity is Verbosity.NORMAL and over > 0:
        out = _Terminal(width, color, verbosity, document.all_with)
        out.add([_shorter(part, over) for part in parts])
    return out.text()


def _shorter(part: blocks.Block, over: int) -> blocks.Block:
    """Return a list that may be shortened with `over` entries less, but not fewer than its least;
    any other block unchanged.
    """
    if not isinstance(part, blocks.Notes) or part.most is None or part.least is None:
        return part
    return dataclasses.replace(part, most=max(min(part.most, len(part.entries)) - over, part.least))


class _Terminal:
    """Collects what is to be printed, with lines of at most `width` characters, and with escape
    sequences only if `color`.
    """

    def __init__(self, width: int, color: bool, verbosity: Verbosity, all_with: str) -> None:
        from rich.console import Console

        self._all_with = all_with

        self._stream = io.StringIO()
        self._width = max(width, NARROWEST)
        self._is_quiet = verbosity is Verbosity.QUIET
        self._is_whole = verbosity is Verbosity.VERBOSE
        self._console = Console(
            file=self._stream,
            width=self._width,
            color_system="standard" if color else None,
            force_terminal=color,
            no_color=not color,
            markup=False,
            highlight=False,
            emoji=False,
            legacy_windows=False,
        )

    def text(self) -> str:
        """Return all of it, ended by a newline."""
        # rich pads its lines to the full width; that is noise in a file and in a diff.
        lines = [line.rstrip() for line in self._stream.getvalue().splitlines()]
        return "\n".join(lines).rstrip("\n") + "\n"

    def add(self, parts: Sequence[blocks.Block]) -> None:
        """Add blocks, with a blank line before each one that doesn't continue the block before
        it.
        """
        shown = [part for part in parts if not isinstance(part, blocks.Image)]
        for number, part in enumerate(shown):
            if number and not self._is_quiet and not _goes_on(shown[number - 1], part):
                self._console.print()
            self._add(part)

    def _add(self, part: blocks.Block) -> None:
        match part:
            case blocks.Heading():
                self._heading(part)
            case blocks.Headline():
                self._headline(part)
            case blocks.Paragraph():
                self._line(text_of(part.content), indent=2 if part.style == blocks.DETAIL else 0)
            case blocks.Notes():
                self._notes(part)
            case blocks.NextSteps() if self._is_whole:
                self._notes(
                    blocks.Notes([(runnable(text), ()) for text in part.texts], "Next steps")
                )
            case blocks.NextSteps():
                self._line(f"Next: {part.texts[0]}")
            case blocks.Table():
                self._table(part)
            case blocks.Script():
                self._line(part.text, indent=2)

    def _line(self, text: str, style: str = "", *, indent: int = 0) -> None:
        """Add a paragraph, indented by this many characters."""
        from rich.padding import Padding
        from rich.text import Text

        self._console.print(Padding(Text(plain(runnable(text)), style=style), (0, 0, 0, indent)))

    def _heading(self, part: blocks.Heading) -> None:
        """Add a heading: the title between two rules, that of a section above one rule, a smaller
        one without rules.
        """
        if part.level == 1:
            self._line("=" * self._width)
        self._line(part.text, "bold")
        if part.level == 1:
            self._line("=" * self._width)
        elif part.level == 2:
            self._line("-" * min(len(plain(part.text)), self._width))

    def _headline(self, part: blocks.Headline) -> None:
        if self._is_quiet:
            self._line(part.alone or part.text, "bold")
            if part.certainty:
                self._line(part.certainty)
            return
        indent = 0
        if part.context:
            self._line(part.context)
            self._console.print()
            indent = 2
        self._line(part.text, "bold", indent=indent)
        if part.certainty:
            self._line(part.certainty, indent=2)

    def _notes(self, part: blocks.Notes) -> None:
        most = len(part.entries)
        if not self._is_whole and part.most is not None:
            most = part.most
        more = ""
        if most < len(part.entries):
            more = f"{len(part.entries) - most} more with {self._all_with}"
        if title := text_of(part.title):
            self._line(f"{title} ({more})" if more else title, "bold")
        longest = LONGEST_NOTE if part.least is None else LONGEST_CAVEAT
        marks = part.marks
        if isinstance(marks, str):
            marks = [marks] * len(part.entries)
        entries = []
        for mark, (entry, below) in list(zip(marks, part.entries, strict=True))[:most]:
            text = text_of(entry)
            # An entry without a mark is a reason, which the answer needs in full.
            if mark and not self._is_whole:
                text = ended(text, longest)
            entries.append((mark, text))
            for line in below:
                entries.append(("", f"- {text_of(line)}"))
        if more and not title:
            entries.append(("", more))
        self._entries(entries)

    def _entries(self, entries: Iterable[tuple[str, str]]) -> None:
        """Add texts that are indented, with their marks before them."""
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1))
        grid.add_column(justify="right", no_wrap=True)
        grid.add_column(overflow="fold")
        for mark, text in entries:
            grid.add_row(Text(mark or " "), Text(plain(text)))
        self._console.print(grid)

    def _table(self, part: blocks.Table) -> None:
        """Add a table. If it has many columns, those that don't fit a line follow in further tables
        with the same first column.
        """
        from rich.cells import cell_len

        kept = [*range(len(part.header))]
        if not self._is_whole:
            kept = [index for index in kept if index not in part.hidden]
        rows = []
        for row in (part.header, *part.rows):
            rows.append([plain(text_of(row[index])) for index in kept])
        if not self._is_whole:
            rows = list(_some(rows, part.most))
        last = len(kept) - 1
        rights = [1 <= index >= part.right_from for index in range(len(kept))]
        if part.is_cut:
            rights[last] = False
            rest = self._width - GAPS[-1] * last
            for column in list(zip(*rows, strict=True))[:-1]:
                rest -= max(map(cell_len, column))
            rows = [[*row[:-1], _cut(row[-1], rest)] for row in rows]
        first = 1
        while first <= last:
            end = last + 1
            least = self._least(rows, narrow=True)
            if len(kept) > MOST_BESIDE:
                while end > first + 1 and not self._fits(least[:1] + least[first:end]):
                    end -= 1
            if first > 1:
                self._console.print()
            columns = [0, *range(first, end)]
            lines = [[row[index] for index in columns] for row in rows]
            self._columns(lines, [rights[index] for index in columns])
            first = end
        if not self._is_whole and part.most is not None and len(part.rows) > part.most:
            self._line(f"{len(part.rows) - part.most} more with {self._all_with}", indent=2)

    def _least(self, rows: Sequence[Sequence[str]], *, narrow: bool = False) -> list[int]:
        """Return the least widths of columns. Titles may take several lines; so may the texts of
        the first column, if `narrow` or if the table doesn't fit otherwise.
        """
        from rich.cells import cell_len

        least = []
        for title, *cells in zip(*rows, strict=True):
            least.append(max(1, *map(cell_len, (*title.split(), *cells))))
        if narrow or not self._fits(least):
            word = max(map(cell_len, " ".join(row[0] for row in rows).split()), default=1)
            least[0] = min(least[0], max(word, LEAST_NAME), self._width // 2)
        return least

    def _fits(self, widths: Sequence[int]) -> bool:
        return sum(widths) + GAPS[-1] * (len(widths) - 1) <= self._width

    def _columns(self, rows: Sequence[Sequence[str]], rights: Sequence[bool]) -> None:
        """Add the columns of a table, the first row above a rule; the widest ones shrink if there
        is no room.
        """
        from rich import box
        from rich.table import Table
        from rich.text import Text

        widths, gap = self._widths(rows)
        # A column of the box's own stands between two columns.
        padding = (0, gap - 1, 0, 0)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=padding, show_edge=False)
        for title, width, right in zip(rows[0], widths, rights, strict=True):
            justify: Literal["right", "left"] = "right" if right else "left"
            table.add_column(Text(title), justify=justify, width=width, overflow="fold")
        for row in rows[1:]:
            table.add_row(*map(Text, row))
        self._console.print(table)

    def _widths(self, rows: Sequence[Sequence[str]]) -> tuple[list[int], int]:
        """Return the widths of columns with which they fit a line, and the gap between two."""
        from rich.cells import cell_len

        widths = [max(1, *map(cell_len, column)) for column in zip(*rows, strict=True)]
        least = self._least(rows)
        between = len(widths) - 1
        # A title in two lines is easier to read than columns that touch.
        gap = GAPS[-1]
        for wider in reversed(GAPS[:-1]):
            if sum(least) + wider * between <= self._width:
                gap = wider
        for wider in GAPS:
            if wider > gap and sum(widths) + wider * between <= self._width:
                gap = wider
                break
        room = max(self._width - gap * between, len(widths))
        while sum(widths) > room:
            # rich itself lets a table grow beyond the line. The widest give way first, titles
            # before figures.
            spare = []
            for width, floor in zip(widths, least, strict=True):
                spare.append(width if width > floor else 0)
            widest = spare if any(spare) else widths
            widths[widest.index(max(widest))] -= 1
        return widths, gap


def _goes_on(before: blocks.Block, part: blocks.Block) -> bool:
    if isinstance(before, blocks.Heading):
        return before.level > 1
    if isinstance(part, blocks.Paragraph):
        if isinstance(before, blocks.Paragraph):
            return part.style == before.style
        if isinstance(before, blocks.Table):
            return part.style == blocks.DETAIL
        return (
            isinstance(before, blocks.Headline)
            and not before.context
            and part.style == blocks.DETAIL
        )
    if isinstance(part, blocks.Notes) and not part.title:
        return isinstance(before, blocks.Paragraph | blocks.Headline | blocks.Notes)
    return False


def _some(rows: Sequence[list[str]], most: int | None) -> Sequence[list[str]]:
    """Return the header and at most `most` rows (None: all): the first and the last ones, with a
    mark if others are omitted.
    """
    if most is None or len(rows) - 1 <= most:
        return rows
    half = most // 2
    return [*rows[: 1 + most - half], [ELLIPSIS, *[""] * (len(rows[0]) - 1)], *rows[-half:]]


def _cut(text: str, room: int) -> str:
    """Return a text, or a pair of names with “vs”, cut at the ends of the names, since their
    beginnings tell most.
    """
    if room < LEAST_ROOM:
        return ""
    first, versus, second = text.partition(" vs ")
    if len(text) <= room or not versus:
        return ended(text, room)
    room -= len(versus)
    # A short second name leaves its room to the first one.
    first = ended(first, max(room // 2, room - len(second)))
    return f"{first}{versus}{ended(second, room - len(first))}"
