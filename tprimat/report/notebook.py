"""Comparison -> a fragment of HTML that a notebook shows below a cell. Every text is escaped."""

from __future__ import annotations

from collections.abc import Sequence

from tprimat import units
from tprimat.compare import Comparison
from tprimat.notes.catalogue import safe_sentences
from tprimat.report import screen
from tprimat.report.blocks import Block, Table, notes
from tprimat.report.page.markup import Writer
from tprimat.report.rates import STEP_TIME, rate_of, rate_unit
from tprimat.report.verdict import Report
from tprimat.text import counted

MOST_SYSTEMS = 20
MOST_NOTES = 4


def verdicts(report: Report) -> str:
    """Return each answer with the table of its systems and its caveats."""
    return Writer().text(
        [
            *screen.blocks(report.shortened(MOST_SYSTEMS)),
            *_remarks(safe_sentences(report.comparison.notes)),
        ]
    )


def systems(comparison: Comparison) -> str:
    """Return one table of the systems of all models."""
    header = ["model", "system", "runs", "steps", rate_unit(comparison.systems), "step time, mean"]
    rows = []
    for model in comparison.models:
        for system in model.systems:
            steps = 0
            for result in system.runs:
                steps += result.summary.performance.total_steps or 0
            rows.append(
                [
                    model.title,
                    system.name,
                    str(len(system.runs)),
                    f"{steps:,}",
                    rate_of(system),
                    units.seconds(system.value(STEP_TIME)),
                ]
            )
    texts = safe_sentences(comparison.notes)
    if len(rows) > MOST_SYSTEMS:
        texts.insert(0, counted(len(rows) - MOST_SYSTEMS, "more system"))
    return Writer().text([Table(header, rows[:MOST_SYSTEMS], right_from=2), *_remarks(texts)])


def _remarks(texts: Sequence[str]) -> list[Block]:
    if len(texts) <= MOST_NOTES:
        return notes(texts)
    return notes([*texts[:MOST_NOTES], counted(len(texts) - MOST_NOTES, "more note")])
