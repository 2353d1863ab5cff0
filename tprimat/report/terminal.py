"""Lines, lists and tables for a terminal. Colour only repeats what words say; rich gets texts, never markup."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Literal

from tprimat.text import plain


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

    def verbatim(self, text: str) -> None:
        """Add lines as they are, such as a table whose columns are already aligned."""
        from rich.text import Text

        self._console.print(Text(text), no_wrap=True)

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
    ) -> None:
        """Add a table, of which all but the first column are aligned to the right.

        Args:
            header: titles of the columns; one may have several lines.
            sections: rows, with a line between one section and the next.
            widths: of the columns; None for those that share what there is.
            gap: columns between two cells, beside the one of the border.
            fold: whether a word that is too long goes on in the next line; else it is cut.
        """
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, gap, 0, 0), show_edge=False)
        for index, title in enumerate(header):
            width = widths[index] if widths else None
            overflow: Literal["fold", "ellipsis"] = "fold" if fold or index == 0 else "ellipsis"
            table.add_column(Text(title), justify="right" if index else "left", width=width, overflow=overflow)
        for rows in sections:
            for row in rows:
                table.add_row(*map(Text, row))
            table.add_section()
        self._console.print(table)

    def text(self) -> str:
        """All of it, ended by a newline."""
        # rich pads its lines to the full width; that is noise in a file and in a diff.
        return "\n".join(line.rstrip() for line in self._stream.getvalue().splitlines()).rstrip("\n") + "\n"
