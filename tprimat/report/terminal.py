"""Lines, lists and tables for a terminal. Colour only repeats what words say; rich gets texts, never markup."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from tprimat.text import plain

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.measure import Measurement
    from rich.text import Text


Fit = Callable[[str, int], str]
"""Returns what stands for a text in so many columns."""


class _Fitting:
    """A cell that shows what fits in the columns that the table gives it."""

    def __init__(self, text: str, fit: Fit) -> None:
        self._text, self._fit = text, fit

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        from rich.measure import Measurement

        return Measurement(1, max(1, len(self._text))).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        from rich.text import Text

        yield Text(self._fit(self._text, options.max_width))


class Terminal:
    """Collects what is to be printed.

    Args:
        width: columns that a line has at most.
        color: whether escape sequences for colour may be in it.
    """

    def __init__(self, *, width: int, color: bool) -> None:
        from rich.console import Console

        self._stream = io.StringIO()
        self.width = max(width, 40)
        self._console = Console(
            file=self._stream,
            width=self.width,
            color_system="standard" if color else None,
            force_terminal=color,
            no_color=not color,
            markup=False,
            highlight=False,
            emoji=False,
            legacy_windows=False,
        )

    def line(self, text: object = "", style: str = "", *, indent: int = 0) -> None:
        """Add a paragraph, so many columns from the left."""
        from rich.padding import Padding
        from rich.text import Text

        self._console.print(Padding(Text(plain(text), style=style), (0, 0, 0, indent)))

    def entries(self, title: str, entries: Iterable[tuple[str, str]], *, gap: bool = True) -> None:
        """Add a list of marks and texts, which are indented, below a title; nothing without entries."""
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1))
        grid.add_column(justify="right", no_wrap=True)
        grid.add_column(overflow="fold")
        for mark, text in entries:
            grid.add_row(Text(mark), Text(plain(text)))
        if grid.row_count:
            if title:
                self.line(title, "bold")
            self._console.print(grid)
            if gap:
                self.line()

    def table(
        self,
        header: Sequence[str],
        *sections: Iterable[Sequence[str]],
        widths: Sequence[int | None] | None = None,
        gap: int = 2,
        fold: bool = True,
        fit: Fit | None = None,
        rule: bool = True,
        indent: int = 0,
    ) -> None:
        """Add a table, of which all but the first column are aligned to the right.

        Args:
            header: titles of the columns; one may have several lines.
            sections: rows, with a line between one section and the next.
            widths: of the columns; None for those that share what there is.
            gap: columns between two cells, beside the one of the border.
            fold: whether a word that is too long goes on in the next line; else it is cut.
            fit: of a table whose last column is aligned to the left and has what the others leave.
            rule: whether a line stands below the header.
            indent: columns before the first cell.
        """
        from rich import box
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        rows = [list(map(list, section)) for section in sections]
        last = len(header) - 1
        if fit is not None:
            texts = zip(header, *(row for section in rows for row in section), strict=True)
            widths = [None if index == last else max(map(len, column)) for index, column in enumerate(texts)]

        def cells(row: Sequence[str]) -> list[Text | _Fitting]:
            return [
                Text(cell) if fit is None or index < last else _Fitting(cell, fit) for index, cell in enumerate(row)
            ]

        # Without a rule there is no box, whose border is one of the columns between two cells.
        table = Table(
            box=box.SIMPLE_HEAD if rule else None,
            pad_edge=False,
            padding=(0, gap if rule else gap + 1, 0, 0),
            show_edge=False,
            header_style="table.header" if rule else "",
        )
        for index, title in enumerate(cells(header)):
            left = index == 0 or (fit is not None and index == last)
            overflow: Literal["fold", "ellipsis"] = "fold" if fold or index == 0 else "ellipsis"
            table.add_column(
                title, justify="left" if left else "right", width=widths[index] if widths else None, overflow=overflow
            )
        for section in rows:
            for row in section:
                table.add_row(*cells(row))
            table.add_section()
        self._console.print(Padding(table, (0, 0, 0, indent)))

    def text(self) -> str:
        """All of it, ended by a newline."""
        # rich pads its lines to the full width; that is noise in a file and in a diff.
        return "\n".join(line.rstrip() for line in self._stream.getvalue().splitlines()).rstrip("\n") + "\n"
