"""Blocks -> HTML. Every text passes escape(), so that a hostile result stays text."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Iterable, Sequence
from html import escape as escape_entities

from tprimat.report import Plot, blocks
from tprimat.text import plain

WIDE = 3
"""Columns that fit a phone."""

_MEDIA = {"png": "image/png", "svg": "image/svg+xml"}
"""What browsers show as an image; another kind is linked."""


@dataclasses.dataclass(frozen=True)
class Fold:
    """Parts that open on a click or a key."""

    summary: str
    parts: Sequence[Part]
    is_open: bool = False
    anchor: str = ""


Part = blocks.Block | Fold | str
"""A block; or HTML as it is, for what the page's script works on."""


def escape(text: object) -> str:
    """Return text as HTML that shows it as it is."""
    return escape_entities(plain(text), quote=True)


class Writer:
    """Writes parts as HTML.

    Args:
        plot: what an Image block shows; None leaves it out.
    """

    def __init__(self, plot: Plot | None = None) -> None:
        self._plot = plot
        self._referred: set[int] = set()

    def text(self, parts: Iterable[Part]) -> str:
        """Return parts as HTML, in their order on the page: a footnote leads back to its first mark."""
        return "\n".join(filter(None, map(self._part, parts)))

    def _part(self, part: Part) -> str:
        match part:
            case blocks.Heading():
                return f"<h{part.level}>{escape(part.text)}</h{part.level}>"
            case blocks.Paragraph():
                line = self._line(part.content)
                return f"<p{_attribute('class', part.style)}>{line}</p>" if line else ""
            case blocks.Bullets():
                return self._bullets(part)
            case blocks.Table():
                return self._table(part)
            case blocks.Image():
                return self._image(part)
            case blocks.Script():
                return f"<pre><code>{escape(part.text)}</code></pre>"
            case blocks.Footnotes():
                return self._footnotes(part)
            case Fold():
                attributes = _attribute("id", part.anchor) + " open" * part.is_open
                summary = f"<summary>{escape(part.summary)}</summary>"
                return f"<details{attributes}>{summary}{self.text(part.parts)}</details>"
            case str():
                return part

    def _bullets(self, block: blocks.Bullets) -> str:
        lines = ["<ul>"]
        for entry, below in block.entries:
            inner = "".join(f"<li>{self._line(each)}</li>" for each in below)
            lines.append(f"<li>{self._line(entry)}{f'<ul>{inner}</ul>' if inner else ''}</li>")
        return "\n".join([*lines, "</ul>"])

    def _table(self, table: blocks.Table) -> str:
        """Return a table; one of more than three columns has, on a phone, a card for each row."""
        is_wide = len(table.header) > WIDE

        def cells(tag: str, row: Sequence[blocks.Content], anchor: str = "") -> str:
            shown = []
            for column, cell in enumerate(row):
                name = "th" if column == 0 else tag
                scope = "col" if tag == "th" else "row" if name == "th" else ""
                attributes = _attribute("scope", scope) + _attribute("class", "right" * (column >= table.right_from))
                if is_wide and name == "td":
                    attributes += f' data-label="{self._line(table.header[column])}"'
                shown.append(f"<{name}{attributes}>{self._line(cell)}</{name}>")
            return f"<tr{_attribute('id', anchor)}>{''.join(shown)}</tr>"

        head = cells("th", table.header)
        anchors = [*table.ids, *[""] * (len(table.rows) - len(table.ids))]
        rows = "\n".join(cells("td", row, anchor) for row, anchor in zip(table.rows, anchors, strict=True))
        caption = escape(table.caption)
        region = f' tabindex="0" role="region" aria-label="{caption}"' if caption else ""
        style = f"wide{' cards' * is_wide}{' many' * table.many}"
        return (
            f'<div class="{style}"{region}><table>{caption and f"<caption>{caption}</caption>"}\n'
            f"<thead>{head}</thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>"
        )

    def _image(self, block: blocks.Image) -> str:
        if self._plot is None:
            return ""
        kind = _MEDIA.get(self._plot.kind)
        if kind is None:
            return f"<p>{escape(block.text)}: <code>{escape(self._plot.link)}</code></p>"
        data = base64.b64encode(self._plot.content).decode("ascii")
        return f'<p><img alt="{escape(block.text)}" src="data:{kind};base64,{data}"></p>'

    def _footnotes(self, block: blocks.Footnotes) -> str:
        lines = ['<ol class="notes">']
        for number, text in block.entries:
            back = f' <a href="#mark-{number}" aria-label="back to the table">↩</a>' if number in self._referred else ""
            lines.append(f'<li id="note-{number}" value="{number}">{escape(text)}{back}</li>')
        return "\n".join([*lines, "</ol>"])

    def _line(self, content: blocks.Content) -> str:
        return "".join(map(self._inline, blocks.pieces(content)))

    def _inline(self, piece: blocks.Inline) -> str:
        match piece:
            case blocks.Code():
                return f"<code>{escape(piece.text)}</code>"
            case blocks.Strong():
                return f"<strong>{escape(piece.text)}</strong>"
            case blocks.Marks():
                # With a space between them a line can be broken there.
                marks = " ".join(map(self._mark, piece.numbers))
                return f'<span class="marks">{marks}</span>' if marks else ""
            case blocks.Link():
                text = escape(piece.text)
                attributes = f'{_attribute("class", piece.style)} href="#{piece.anchor}"'
                return f"<a{attributes}>{text}</a>" if piece.anchor else text
            case blocks.Output():
                return f'<output id="{piece.name}">{escape(piece.text)}</output>'
            case str():
                # plain() takes the spaces at the ends, which part the pieces of a line.
                shown = escape(piece)
                return f"{' ' * piece.startswith(' ')}{shown}{' ' * (bool(shown) and piece.endswith(' '))}"

    def _mark(self, number: int) -> str:
        place = "" if number in self._referred else _attribute("id", f"mark-{number}")
        self._referred.add(number)
        return f'<sup{place}><a href="#note-{number}">{number}</a></sup>'


def _attribute(name: str, value: str) -> str:
    return f' {name}="{value}"' if value else ""
