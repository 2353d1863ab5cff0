"""Comparison -> comparison_report.md, in GitHub's Markdown.

Every text from a result passes escape() or code(): none can become markup, a link or a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from tprimat.report import Plot, Sources, blocks, document
from tprimat.report.verdict import Report
from tprimat.text import plain

_MARKUP = re.compile(r"[\\`*\[\]<>&|~#$@!]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.")
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;", ":": "&#58;", ".": "&#46;"}


def render(report: Report, sources: Sources, plot: Plot | None) -> bytes:
    """Return the report as a file. See report.FORMATS for the arguments."""
    return write(document.in_full(report, sources, plot=plot is not None), plot).encode()


def write(document: blocks.Document, plot: Plot | None = None) -> str:
    """Return a document as Markdown."""
    texts = [_block(block, plot) for block in (*document.screen, *document.details)]
    return "\n\n".join(filter(None, texts)) + "\n"


def escape(text: object) -> str:
    """Return Markdown that shows a text literally."""
    return _MARKUP.sub(lambda match: _ENTITIES.get(match[0], "\\" + match[0]), plain(text))


def code(text: object) -> str:
    """Return a text as inline code that is safe within a table."""
    shown = plain(text).replace("|", "\\|")
    fence = "`" * (max(map(len, re.findall(r"`+", shown)), default=0) + 1)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown or ' '}{space}{fence}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, right_from: int = 1) -> str:
    """Return a table whose columns are aligned in the text, from `right_from` on to the right.
    Cells must be Markdown.
    """
    padded = []
    for number, (title, *cells) in enumerate(zip(header, *rows, strict=True)):
        width = max(3, *map(len, (title, *cells)))
        if number < right_from:
            column = [title.ljust(width), "-" * width]
            column += [cell.ljust(width) for cell in cells]
        else:
            column = [title.rjust(width), "-" * (width - 1) + ":"]
            column += [cell.rjust(width) for cell in cells]
        padded.append(column)
    return "\n".join(f"| {' | '.join(line)} |" for line in zip(*padded, strict=True))


def _block(block: blocks.Block, plot: Plot | None) -> str:
    match block:
        case blocks.Heading():
            return f"{'#' * block.level} {escape(block.text)}"
        case blocks.Headline():
            texts = (_line(blocks.Strong(block.alone or block.text)), escape(block.certainty))
            return "\n\n".join(filter(None, texts))
        case blocks.Paragraph():
            return _line(block.content)
        case blocks.Notes():
            return _notes(block)
        case blocks.NextSteps():
            return _notes(blocks.Notes([(text, ()) for text in block.texts], "Next steps"))
        case blocks.Table():
            header, *rows = ([_line(cell) for cell in row] for row in (block.header, *block.rows))
            return table(header, rows, right_from=block.right_from)
        case blocks.Image():
            if plot is None:
                return ""
            return f"![{escape(block.text)}]({quote(plot.link)})"
        case blocks.Script():
            return "\n".join(["````sh", plain(block.text), "````"])


def _notes(block: blocks.Notes) -> str:
    lines = [f"{_line(block.title)}:", ""] if block.title else []
    for entry, below in block.entries:
        lines.append(f"- {_line(entry)}")
        for line in below:
            lines.append(f"  - {_line(line)}")
    return "\n".join(lines)


def _line(content: blocks.Content) -> str:
    return "".join(map(_inline, blocks.pieces(content)))


def _inline(piece: blocks.Inline) -> str:
    match piece:
        case blocks.Code():
            return code(piece.text)
        case blocks.Strong():
            return f"**{escape(piece.text)}**"
        case blocks.Link() | blocks.Target() | blocks.Output():
            return escape(piece.text)
        case blocks.Marks():
            return ""
        case str():
            # plain() removes the spaces at the ends, which separate the pieces of a line.
            shown = escape(piece)
            before = " " if piece.startswith(" ") else ""
            after = " " if shown and piece.endswith(" ") else ""
            return f"{before}{shown}{after}"
