"""The blocks of a report, from which Markdown and the HTML page are written.

Texts in here are plain: whoever renders a block escapes them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class _Text:
    text: str


class Code(_Text):
    """A text that is to be read letter by letter: a path, a digest, a command."""


class Strong(_Text):
    """A text that a reader is to see first."""


@dataclasses.dataclass(frozen=True)
class Link(_Text):
    """A text that leads to an anchor of the page, if there is one; elsewhere the text alone."""

    anchor: str
    style: str = "figure"


@dataclasses.dataclass(frozen=True)
class Output(_Text):
    """A text that the page's script replaces; elsewhere the text alone."""

    name: str


@dataclasses.dataclass(frozen=True)
class Marks:
    """Numbers of footnotes."""

    numbers: tuple[int, ...]


Inline = str | Code | Strong | Marks | Link | Output
Content = Inline | Sequence[Inline]
"""What stands in a line: a text, or several pieces that follow each other."""


@dataclasses.dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the title."""

    level: int
    text: str


@dataclasses.dataclass(frozen=True)
class Paragraph:
    """Running text, in a style of the page."""

    content: Content
    style: str = ""


@dataclasses.dataclass(frozen=True)
class Bullets:
    """A list, each entry with the entries below it."""

    entries: Sequence[tuple[Content, Sequence[Content]]]


@dataclasses.dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        header: titles of the columns.
        rows: cells, as many as titles.
        right_from: index of the first column that is aligned to the right.
        caption: what the table is, on the page, for those who come to it without what stands around it.
        ids: anchors of the rows on the page; empty for a row without one.
        many: whether each row is a system, with a name that may be long.
    """

    header: Sequence[Content]
    rows: Sequence[Sequence[Content]]
    right_from: int = 1
    caption: str = ""
    ids: Sequence[str] = ()
    many: bool = False


class Image(_Text):
    """The place of the picture, with what it shows for those who don't see it."""


class Script(_Text):
    """A command line."""


@dataclasses.dataclass(frozen=True)
class Footnotes:
    """Footnotes with their numbers."""

    entries: Sequence[tuple[int, str]]


Block = Heading | Paragraph | Bullets | Table | Image | Script | Footnotes


def pieces(content: Content) -> tuple[Inline, ...]:
    """The pieces of a line."""
    return (content,) if isinstance(content, Inline) else tuple(content)


def plain_bullets(texts: Sequence[Content]) -> Bullets:
    """A list of which no entry has others below it."""
    return Bullets([(text, ()) for text in texts])


def titled_bullets(title: Content, texts: Sequence[Content]) -> list[Block]:
    """A list below a line that says what it is; nothing without entries."""
    return [Paragraph(title), plain_bullets(texts)] if texts else []
