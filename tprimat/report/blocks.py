"""Documents and their blocks, from which screens, Markdown and the HTML page are written.

Texts in here are plain: whoever writes a block escapes them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence


@dataclasses.dataclass(frozen=True)
class _Text:
    text: str


class Code(_Text):
    """A text that is to be read letter by letter: a path, a digest, a command."""


class Strong(_Text):
    """Emphasized text."""


@dataclasses.dataclass(frozen=True)
class Link(_Text):
    """A text that leads to an anchor of the page, if there is one; elsewhere the text alone."""

    anchor: str
    style: str = "figure"


@dataclasses.dataclass(frozen=True)
class Target(_Text):
    """The title of a row to which links lead; elsewhere the text alone."""

    anchor: str


@dataclasses.dataclass(frozen=True)
class Output(_Text):
    """A text that the page's script replaces; elsewhere the text alone."""

    name: str


@dataclasses.dataclass(frozen=True)
class Marks:
    """Numbers of footnotes, on the page alone."""

    numbers: tuple[int, ...]


Inline = str | Code | Strong | Marks | Link | Target | Output
Content = Inline | Sequence[Inline]
"""What stands in a line: a text, or several pieces that follow each other."""

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
        certainty: how sure it is, and on what it rests.
        context: what it is about, above it on a screen.
        alone: the sentence for where nothing above it says what it is about; empty if it is the
            same.
    """

    text: str
    certainty: str = ""
    context: str = ""
    alone: str = ""


DETAIL = "detail"
"""The style of a paragraph that explains what stands above it; a screen indents it."""


@dataclasses.dataclass(frozen=True)
class Paragraph:
    """Running text, in a style of the page or DETAIL."""

    content: Content
    style: str = ""


@dataclasses.dataclass(frozen=True)
class Notes:
    """A list, each entry with the entries below it.

    Attributes:
        title: what they are, without a colon.
        marks: what stands before each entry on a screen; one for all, or one each.
        most: how many entries belong to the first screen; None for all.
        least: how many of those stay on a first screen that is too long otherwise; None for all.
    """

    entries: Sequence[tuple[Content, Sequence[Content]]]
    title: Content = ""
    marks: str | Sequence[str] = "-"
    most: int | None = None
    least: int | None = None


@dataclasses.dataclass(frozen=True)
class NextSteps:
    """What makes the answer better, the most useful step first; the first screen has that one
    alone.
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
        many: whether each row is a system, with a name that may be long.
        hidden: indices of columns that the first screen leaves out.
        most: how many rows the first screen has; None for all.
        is_cut: whether the last column gets the room that the others leave on a screen, and its
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
    """The place of the picture, with what it shows for those who don't see it."""


class Script(_Text):
    """A command line."""


@dataclasses.dataclass(frozen=True)
class Footnotes:
    """Footnotes with their numbers, on the page alone."""

    entries: Sequence[tuple[int, str]]


Distinct = dict[str, None]
"""Texts in their order, each once."""

Block = Heading | Headline | Paragraph | Notes | NextSteps | Table | Image | Script
Blocks = Iterator[Block]


@dataclasses.dataclass(frozen=True)
class Document:
    """What is said about a comparison, a scaling, an explanation or a check, made once for every
    way of writing it.

    Attributes:
        screen: the blocks of the first screen, the answer first.
        details: what follows with --verbose, and in files.
        answer: what --quiet leaves; by default the headlines of the first screen.
        all_with: the option with which the first screen has all entries and rows.
    """

    screen: Sequence[Block]
    details: Sequence[Block] = ()
    answer: Sequence[Block] = ()
    all_with: str = "--verbose"


def pieces(content: Content) -> tuple[Inline, ...]:
    """The pieces of a line."""
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
    """Return a list of which no entry has others below it; nothing without entries."""
    entries = [(text, ()) for text in texts]
    if entries:
        return [Notes(entries, title, marks, most, least)]
    return []
