"""Documents and their blocks, from which screens, Markdown and the HTML page are written.

Texts in blocks are plain; the code that writes a format escapes them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence


@dataclasses.dataclass(frozen=True)
class _Text:
    text: str


class Code(_Text):
    """Text that must be shown exactly: a path, a digest, a command."""


class Strong(_Text):
    """Emphasized text."""


@dataclasses.dataclass(frozen=True)
class Link(_Text):
    """Text that links to an anchor on the HTML page, if that exists; only the text in other
    formats.
    """

    anchor: str
    style: str = "figure"


@dataclasses.dataclass(frozen=True)
class Target(_Text):
    """The title of a row that links lead to; only the text in other formats than HTML."""

    anchor: str


@dataclasses.dataclass(frozen=True)
class Output(_Text):
    """Text that the HTML page's script replaces; only the text in other formats."""

    name: str


@dataclasses.dataclass(frozen=True)
class Marks:
    """Numbers of footnotes, only on the HTML page."""

    numbers: tuple[int, ...]


Inline = str | Code | Strong | Marks | Link | Target | Output
Content = Inline | Sequence[Inline]
"""The content of a line: a text, or several pieces in their order."""

Cells = list[Content]
"""A row of a table."""


@dataclasses.dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the title."""

    level: int
    text: str


@dataclasses.dataclass(frozen=True)
class Headline:
    """An answer: one sentence without its period.

    Attributes:
        certainty: how certain it is, and what it is based on.
        context: its subject, shown above it on a screen.
        alone: the sentence for places without the context; empty if it is the same.
    """

    text: str
    certainty: str = ""
    context: str = ""
    alone: str = ""


DETAIL = "detail"
"""The style of a paragraph that explains what is above it; a screen indents it."""


@dataclasses.dataclass(frozen=True)
class Paragraph:
    """Running text, in a style of the page or DETAIL."""

    content: Content
    style: str = ""


@dataclasses.dataclass(frozen=True)
class Notes:
    """A list, each entry with the entries below it.

    Attributes:
        title: without a colon.
        marks: the mark before each entry on a screen: one for all entries, or one for each.
        most: the number of entries on the first screen; None for all.
        least: the number that remains if the first screen would be too long otherwise; None for
            all.
    """

    entries: Sequence[tuple[Content, Sequence[Content]]]
    title: Content = ""
    marks: str | Sequence[str] = "-"
    most: int | None = None
    least: int | None = None


@dataclasses.dataclass(frozen=True)
class NextSteps:
    """What would make the answer more certain, the most useful step first; the first screen has
    only that one.
    """

    texts: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        header: titles of the columns.
        rows: cells, as many as titles.
        right_from: index of the first column that is aligned to the right.
        caption: what the table is, on the page, for readers without the surrounding text (screen
            readers).
        many: whether each row is a system, whose name may be long.
        hidden: indices of columns that the first screen leaves out.
        most: number of rows on the first screen; None for all.
        is_cut: whether the last column gets the width that the others leave on a screen, and its
            texts are cut to it.
    """

    header: Sequence[Content]
    rows: Sequence[Sequence[Content]]
    right_from: int = 1
    caption: str = ""
    many: bool = False
    hidden: Sequence[int] = ()
    most: int | None = None
    is_cut: bool = False


class Image(_Text):
    """The place of the plot, with a text on what it shows for readers who can't see it."""


class Script(_Text):
    """A command line."""


@dataclasses.dataclass(frozen=True)
class Footnotes:
    """Footnotes with their numbers, only on the HTML page."""

    entries: Sequence[tuple[int, str]]


Distinct = dict[str, None]
"""Texts in their order, without duplicates."""

Block = Heading | Headline | Paragraph | Notes | NextSteps | Table | Image | Script
Blocks = Iterator[Block]


@dataclasses.dataclass(frozen=True)
class Document:
    """The report on a comparison, a scaling, an explanation or a check, made once for all formats.

    Attributes:
        screen: the blocks of the first screen, the answer first.
        details: what follows with --verbose, and in files.
        answer: what is shown with --quiet; if empty, the headlines of the first screen.
        all_with: the option that makes the first screen show all entries and rows.
    """

    screen: Sequence[Block]
    details: Sequence[Block] = ()
    answer: Sequence[Block] = ()
    all_with: str = "--verbose"


def pieces(content: Content) -> tuple[Inline, ...]:
    """Return the pieces of a line."""
    if isinstance(content, Inline):
        return (content,)
    return tuple(content)


def text_of(content: Content) -> str:
    """Return a line without its markup, and without the numbers of footnotes, which only the page
    has.
    """
    texts = (piece for piece in pieces(content) if not isinstance(piece, Marks))
    return "".join(piece if isinstance(piece, str) else piece.text for piece in texts)


def notes(
    texts: Iterable[Content],
    title: Content = "",
    marks: str | Sequence[str] = "-",
    most: int | None = None,
    *,
    least: int | None = None,
) -> list[Block]:
    """Return a list whose entries have no entries below them; empty without entries."""
    entries = [(text, ()) for text in texts]
    if entries:
        return [Notes(entries, title, marks, most, least)]
    return []
