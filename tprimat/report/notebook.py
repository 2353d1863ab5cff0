"""Comparison -> a piece of HTML, as a notebook shows it below a cell."""

from __future__ import annotations

from collections.abc import Iterator

from tprimat.report import tables
from tprimat.report.blocks import Block, Paragraph, Strong, Table, plain_bullets
from tprimat.report.page.markup import Writer
from tprimat.report.verdict import Report
from tprimat.text import counted

MOST_SYSTEMS = 20


def render(report: Report, *, verdict: bool) -> str:
    """Return a table of each group's systems, each text escaped; with the verdict and its caveats where asked for."""
    return Writer().text(_blocks(report.shortened(MOST_SYSTEMS), verdict))


def _blocks(report: Report, verdict: bool) -> Iterator[Block]:
    for answer in report.answers:
        yield Paragraph([Strong(answer.model.title)])
        if verdict:
            yield Paragraph(answer.verdict.headline)
            yield Paragraph(answer.verdict.certainty)
        rows = tables.screen_rows(report.comparison, answer.group)
        lines = [
            [system.name, counted(len(system.runs), "run"), *(row.cells[index].text for row in rows)]
            for index, system in enumerate(answer.group.systems)
        ]
        yield Table(["system", "runs", *(row.title for row in rows)], lines)
        if verdict and answer.verdict.caveats:
            yield plain_bullets([caveat.text for caveat in answer.verdict.caveats])
    if report.comparison.notes:
        yield plain_bullets(report.comparison.notes)
