"""Comparison -> a piece of HTML, as a notebook shows it below a cell. Every text is escaped."""

from __future__ import annotations

from collections.abc import Sequence

from tprimat import units
from tprimat.compare import Comparison
from tprimat.report import screen
from tprimat.report.blocks import Block, Table, notes
from tprimat.report.page.markup import Writer
from tprimat.report.rates import rate_of, rate_unit
from tprimat.report.verdict import Report
from tprimat.text import counted

MOST_SYSTEMS = 20
MOST_NOTES = 4


def verdicts(report: Report) -> str:
    """Return each answer with the table of its systems and its caveats."""
    return Writer().text(
        [*screen.blocks(report.shortened(MOST_SYSTEMS)), *_remarks(report.comparison.notes)]
    )


def systems(comparison: Comparison) -> str:
    """Return one table of the systems of all models."""
    every = [(model.title, system) for model in comparison.models for system in model.systems]
    header = ["model", "system", "runs", "steps", rate_unit(comparison.systems), "step time, mean"]
    rows = []
    for title, system in every[:MOST_SYSTEMS]:
        rows.append(
            [
                title,
                system.name,
                str(len(system.runs)),
                f"{sum(result.summary.performance.total_steps or 0 for result in system.runs):,}",
                rate_of(system),
                units.seconds(system.value("avg_step_time_seconds")),
            ]
        )
    left = len(every) - len(rows)
    more = [f"{counted(left, 'more system')}"] if left else []
    return Writer().text([Table(header, rows, right_from=2), *_remarks([*more, *comparison.notes])])


def _remarks(texts: Sequence[str]) -> list[Block]:
    left = len(texts) - MOST_NOTES
    return notes([*texts[:MOST_NOTES], *([counted(left, "more note")] if left > 0 else [])])
