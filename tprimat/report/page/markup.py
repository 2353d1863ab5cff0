"""Small pieces of HTML that the parts of the page share. Cells are HTML already; texts pass escape()."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tprimat.report.blocks import Marks
from tprimat.report.html_blocks import escape, line
from tprimat.report.page.view import View
from tprimat.report.tables import Cell

BESIDE = 4
"""Sides that stand beside each other in a table; more stand below each other."""


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    caption: str,
    right_from: int = 1,
    ids: Sequence[str] = (),
    many: bool = False,
) -> str:
    """A table that scrolls sideways where it is too wide.

    Args:
        header: titles of the columns, as HTML.
        rows: cells, as HTML, as many as titles.
        caption: what the table is, for those who come to it without what stands around it.
        right_from: index of the first column that is aligned to the right.
        ids: anchors of the rows, where they have any.
        many: each row is a side, with a name that may be long.
    """

    def cells(tag: str, row: Sequence[str], anchor: str = "") -> str:
        found = []
        for column, cell in enumerate(row):
            right = ' class="right"' if column >= right_from else ""
            name = "th" if column == 0 else tag
            scope = ' scope="col"' if tag == "th" else ' scope="row"' if name == "th" else ""
            found.append(f"<{name}{scope}{right}>{cell}</{name}>")
        return f"<tr{anchor}>{''.join(found)}</tr>"

    body = "\n".join(
        cells("td", row, f' id="{ids[number]}"' if number < len(ids) and ids[number] else "")
        for number, row in enumerate(rows)
    )
    return (
        f'<div class="wide{" many" if many else ""}" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption>\n"
        f"<thead>{cells('th', header)}</thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def bullets(entries: Iterable[str]) -> str:
    """A list of texts."""
    found = "".join(f"<li>{escape(entry)}</li>" for entry in entries)
    return f"<ul>{found}</ul>" if found else ""


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of text."""
    classed = f' class="{kind}"' if kind else ""
    return f"<p{classed}>{escape(text)}</p>" if text else ""


def details(summary: str, content: str, *, open_: bool = False, anchor: str = "", kind: str = "") -> str:
    """What opens on a click or a key; its summary is text."""
    named = f' id="{anchor}"' if anchor else ""
    classed = f' class="{kind}"' if kind else ""
    return f"<details{named}{classed}{' open' if open_ else ''}><summary>{escape(summary)}</summary>{content}</details>"


def evidence_link(text: str, anchor: str) -> str:
    """A figure that leads to where it comes from."""
    return f'<a class="figure" href="#{anchor}">{escape(text)}</a>' if anchor else escape(text)


def cell(view: View, found: Cell, anchor: str) -> str:
    """A figure of a table with its footnotes."""
    marks = line(Marks(found.notes), view.referred) if found.notes else ""
    return evidence_link(found.text, anchor) + marks
