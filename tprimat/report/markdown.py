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
    return write(document.of(report, sources, plot=plot is not None), plot).encode()


def write(document: blocks.Document, plot: Plot | None = None) -> str:
    """Return a document as Markdown."""
    return (
        "\n\n".join(
            filter(None, (_block(each, plot) for each in (*document.screen, *document.details)))
        )
        + "\n"
    )


def escape(text: object) -> str:
    """Text as Markdown that shows it as it is."""
    return _MARKUP.sub(lambda match: _ENTITIES.get(match[0], "\\" + match[0]), plain(text))


def code(text: object) -> str:
    """Text as inline code that may stand in a table."""
    shown = plain(text).replace("|", "\\|")
    longest = max((len(ticks) for ticks in re.findall(r"`+", shown)), default=0)
    fence = "`" * (longest + 1)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown or ' '}{space}{fence}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, right_from: int = 1) -> str:
    """A table whose columns are aligned, from one on to the right. Cells are Markdown already."""
    lines = [list(header), *map(list, rows)]
    widths = [max(3, *(len(line[column]) for line in lines)) for column in range(len(header))]
    rule = []
    for column, width in enumerate(widths):
        rule.append("-" * width if column < right_from else "-" * (width - 1) + ":")
    padded = []
    for line in (lines[0], rule, *lines[1:]):
        padded.append(
            [
                cell.ljust(width) if column < right_from else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ]
        )
    return "\n".join(f"| {' | '.join(cells)} |" for cells in padded)


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
            lines = []
            for entry, below in block.entries:
                lines += [f"- {_line(entry)}", *(f"  - {_line(each)}" for each in below)]
            title = [f"{_line(block.title)}:"] if block.title else []
            return "\n\n".join([*title, "\n".join(lines)])
        case blocks.NextSteps():
            return _block(blocks.Notes([(text, ()) for text in block.texts], "Next steps"), plot)
        case blocks.Table():
            return table(
                [_line(cell) for cell in block.header],
                [[_line(cell) for cell in row] for row in block.rows],
                right_from=block.right_from,
            )
        case blocks.Image():
            if plot is None:
                return ""
            return f"![{escape(block.text)}]({quote(plot.link)})"
        case blocks.Script():
            return "\n".join(["````sh", plain(block.text), "````"])


def _line(content: blocks.Content) -> str:
    return "".join(map(_inline, blocks.pieces(content)))


def _inline(piece: blocks.Inline) -> str:
    match piece:
        case blocks.Code():
            return code(piece.text)
        case blocks.Strong():
            return f"**{escape(piece.text)}**"
        case blocks.Link() | blocks.Output():
            return escape(piece.text)
        case blocks.Marks():
            return ""
        case str():
            # plain() takes the spaces at the ends, which part the pieces of a line.
            shown = escape(piece)
            return (
                f"{' ' * piece.startswith(' ')}{shown}{' ' * (bool(shown) and piece.endswith(' '))}"
            )
