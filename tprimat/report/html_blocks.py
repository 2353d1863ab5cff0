"""Blocks -> HTML. Every text passes escape(), so that a hostile result stays text."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from html import escape as escape_entities

from tprimat.report import Picture
from tprimat.report.blocks import (
    Block,
    Bullets,
    Code,
    Content,
    Footnotes,
    Heading,
    Image,
    Inline,
    Marks,
    Paragraph,
    Script,
    Strong,
    Table,
    pieces,
)
from tprimat.text import plain

_MEDIA = {"png": "image/png", "svg": "image/svg+xml"}
"""What browsers show as an image; another kind is linked."""


def escape(text: object) -> str:
    """Text as HTML that shows it as it is."""
    return escape_entities(plain(text), quote=True)


def block_text(block: Block, picture: Picture | None, referred: set[int]) -> str:
    """A block as HTML.

    Args:
        block: what to show.
        picture: what an Image block shows; None leaves it out.
        referred: numbers of footnotes that were referred to already; added to.
    """
    match block:
        case Heading():
            return f"<h{block.level}>{escape(block.text)}</h{block.level}>"
        case Paragraph():
            return f"<p>{line(block.content, referred)}</p>"
        case Bullets():
            return _bullets(block, referred)
        case Table():
            return _table(block, referred)
        case Image():
            return _image(block, picture)
        case Script():
            return f"<pre><code>{escape(block.text)}</code></pre>"
        case Footnotes():
            return _footnotes(block, referred)


def _bullets(block: Bullets, referred: set[int]) -> str:
    lines = ["<ul>"]
    for entry, below in block.entries:
        inner = "".join(f"<li>{line(each, referred)}</li>" for each in below)
        lines.append(f"<li>{line(entry, referred)}{f'<ul>{inner}</ul>' if inner else ''}</li>")
    return "\n".join([*lines, "</ul>"])


def _table(block: Table, referred: set[int]) -> str:
    def cells(tag: str, row: Iterable[Content]) -> str:
        found = []
        for column, cell in enumerate(row):
            right = ' class="right"' if column >= block.right_from else ""
            name = "th" if column == 0 and tag == "td" else tag
            scope = ' scope="col"' if tag == "th" else ' scope="row"' if name == "th" else ""
            found.append(f"<{name}{scope}{right}>{line(cell, referred)}</{name}>")
        return f"<tr>{''.join(found)}</tr>"

    rows = "\n".join(cells("td", row) for row in block.rows)
    head = cells("th", block.header)
    return f'<div class="wide"><table>\n<thead>{head}</thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>'


def _image(block: Image, picture: Picture | None) -> str:
    if picture is None:
        return ""
    kind = _MEDIA.get(picture.kind)
    if kind is None:
        return f"<p>{escape(block.text)}: <code>{escape(picture.link)}</code></p>"
    data = base64.b64encode(picture.content).decode("ascii")
    return f'<p><img alt="{escape(block.text)}" src="data:{kind};base64,{data}"></p>'


def _footnotes(block: Footnotes, referred: set[int]) -> str:
    lines = ["<h2>Footnotes</h2>", '<ol class="notes">']
    for number, text in block.entries:
        back = f' <a href="#mark-{number}" aria-label="back to the table">↩</a>' if number in referred else ""
        lines.append(f'<li id="note-{number}" value="{number}">{escape(text)}{back}</li>')
    return "\n".join([*lines, "</ol>"])


def line(content: Content, referred: set[int]) -> str:
    """A line as HTML; see block_text for `referred`."""
    return "".join(_inline(piece, referred) for piece in pieces(content))


def _inline(piece: Inline, referred: set[int]) -> str:
    match piece:
        case Code():
            return f"<code>{escape(piece.text)}</code>"
        case Strong():
            return f"<strong>{escape(piece.text)}</strong>"
        case Marks():
            # With a space between them a line can be broken there.
            return f'<span class="marks">{" ".join(_mark(number, referred) for number in piece.numbers)}</span>'
        case _:
            shown = escape(piece)
            return f"{' ' * piece.startswith(' ')}{shown}{' ' * (bool(shown) and piece.endswith(' '))}"


def _mark(number: int, referred: set[int]) -> str:
    # The first mark of a footnote is the one that it leads back to.
    place = "" if number in referred else f' id="mark-{number}"'
    referred.add(number)
    return f'<sup{place}><a href="#note-{number}">{number}</a></sup>'
