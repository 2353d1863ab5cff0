"""Comparison -> comparison_report.html: one file that opens by double click, the picture in it.

Every text from a result is escaped, and the page's own policy forbids scripts and everything from
elsewhere, so that a hostile result stays text.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from html import escape as escape_entities

from tprimat.compare import Comparison
from tprimat.report import Picture, Provenance, document
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

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 0 auto; padding: 1rem 1.5rem 3rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.2rem; border-bottom: 1px solid #8886; }
h3 { font-size: 1.05rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #8884; text-align: left; vertical-align: top; }
th.right, td.right { text-align: right; }
code, pre { font: .9em ui-monospace, monospace; } pre { overflow-x: auto; padding: .6rem; background: #8882; }
td code { overflow-wrap: anywhere; }
img { max-width: 100%; height: auto; background: white; }
sup a { text-decoration: none; } .notes { font-size: .9em; }
"""


def render(comparison: Comparison, provenance: Provenance, picture: Picture | None) -> bytes:
    """The report as a file. See report.Form for the arguments."""
    titles = ", ".join(model.title for model in comparison.models)
    blocks = document.blocks(comparison, provenance, picture=picture is not None)
    return page(f"Comparison: {titles}", blocks, picture).encode()


def page(title: str, blocks: Iterable[Block], picture: Picture | None = None) -> str:
    """Blocks as a page that needs nothing beside it."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta http-equiv="Content-Security-Policy" '
            "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; "
            "form-action 'none'\">",
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            "</head>",
            "<body>",
            *_parts(blocks, picture),
            "</body>",
            "</html>",
            "",
        ]
    )


def escape(text: object) -> str:
    """Text as HTML that shows it as it is."""
    return escape_entities(plain(text), quote=True)


def _parts(blocks: Iterable[Block], picture: Picture | None) -> Iterator[str]:
    referred: set[int] = set()
    for block in blocks:
        yield _block(block, picture, referred)


def _block(block: Block, picture: Picture | None, referred: set[int]) -> str:
    match block:
        case Heading():
            return f"<h{block.level}>{escape(block.text)}</h{block.level}>"
        case Paragraph():
            return f"<p>{_line(block.content, referred)}</p>"
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
        inner = "".join(f"<li>{_line(each, referred)}</li>" for each in below)
        lines.append(f"<li>{_line(entry, referred)}{f'<ul>{inner}</ul>' if inner else ''}</li>")
    return "\n".join([*lines, "</ul>"])


def _table(block: Table, referred: set[int]) -> str:
    def cells(tag: str, row: Iterable[Content]) -> str:
        found = []
        for column, cell in enumerate(row):
            right = ' class="right"' if column >= block.right_from else ""
            name = "th" if column == 0 and tag == "td" else tag
            scope = ' scope="col"' if tag == "th" else ' scope="row"' if name == "th" else ""
            found.append(f"<{name}{scope}{right}>{_line(cell, referred)}</{name}>")
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


def _line(content: Content, referred: set[int]) -> str:
    return "".join(_inline(piece, referred) for piece in pieces(content))


def _inline(piece: Inline, referred: set[int]) -> str:
    match piece:
        case Code():
            return f"<code>{escape(piece.text)}</code>"
        case Strong():
            return f"<strong>{escape(piece.text)}</strong>"
        case Marks():
            return "".join(_mark(number, referred) for number in piece.numbers)
        case _:
            shown = escape(piece)
            return f"{' ' * piece.startswith(' ')}{shown}{' ' * (bool(shown) and piece.endswith(' '))}"


def _mark(number: int, referred: set[int]) -> str:
    # The first mark of a footnote is the one that it leads back to.
    place = "" if number in referred else f' id="mark-{number}"'
    referred.add(number)
    return f'<sup{place}><a href="#note-{number}">{number}</a></sup>'
