"""Comparison -> comparison_report.html: one file that opens by double click and needs nothing beside it.

It opens on a card that fits one screen: the answer, its certainty, throughput, cost and caveats. The rest is folded.
What is in the page but doesn't change (texts, tables) is HTML, written by templates/; what a reader changes (the
charts' view, the step window, prices) is page.js over data that Python computed. Results are untrusted: the templates
escape every text, data is JSON in which no tag can end, and the page's own policy allows the two scripts that it
carries, by their hashes, and nothing from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from tprimat.compare import Comparison
from tprimat.report import Plot, Sources, document, scaling, tables
from tprimat.report.blocks import Code, Heading, Image, Inline, Paragraph, notes
from tprimat.report.page import card, charts, evidence, library, sections, windows
from tprimat.report.page.markup import Control, Fold, Part, Writer, json_text
from tprimat.report.page.view import View, wall_times
from tprimat.report.plot.colors import PARTS
from tprimat.report.verdict import Report
from tprimat.text import counted, plain

_HERE = Path(__file__).parent

LARGE = 400_000
"""Characters of data that stay readable in the page's source; more are compressed."""

_CHARTS = (sections.step_times, sections.loss, sections.memory, sections.breakdown)
"""Each writes a model's part of the charts."""


def render(report: Report, sources: Sources, plot: Plot | None) -> bytes:
    """Return the report as a file. See report.OutputFormat for the arguments.

    Without the package that carries the charts' script the page shows the plot instead, with a line on how to get it.
    """
    return render_with(report, sources, plot, library.load())


def render_with(report: Report, sources: Sources, plot: Plot | None, found: library.Library | None) -> bytes:
    """Return the page as a file, with a chart library or None."""
    view = View(report.shortened(document.MOST_SYSTEMS))
    comparison = view.comparison
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    results = json_text(evidence.results(view))
    values = {
        "title": _title(comparison),
        "shared": tables.shared(comparison),
        "style": (_HERE / "page.css").read_text(encoding="utf-8"),
        "colors": view.tones,
        "hashes": [library.digest(script.encode()), *([found.digest] if found else [])],
        "scaling": _scaling(view.report),
        "card": card.values(view),
        "folds": _folds(view, sources, found),
        "data": json_text(data(view)),
        "results": results,
        "packed_results": library.packed(results.encode()) if len(results) > LARGE else "",
        "library": found,
        "script": script,
    }
    return Writer(plot).page(values).encode()


def data(view: View) -> dict[str, Any]:
    """Return all that page.js draws, looks up and computes with; golden files of the tests hold it."""
    comparison = view.comparison
    grids = [windows.grid(answer.group) for answer in view.answers]
    values: dict[str, Any] = {
        "palettes": {"systems": view.tones, "parts": PARTS},
        "systems": [
            {"name": placed.name, "model": plain(placed.model.title), "color": placed.field, "dash": placed.dash}
            for placed in view.systems
        ],
        "runs": [
            {
                "system": run.system,
                "number": run.number,
                "runs": len(view.systems[run.system].runs),
                "tokens": run.result.run.tokens_per_step,
                "wall": wall_times(run.result.run),
                "steady": [run.result.summary.steady.first_step, run.result.summary.steady.last_step],
                "segments": [[segment.first_step, segment.last_step] for segment in run.result.summary.segments],
            }
            for run in view.runs
        ],
        "charts": [
            chart for number, model in enumerate(comparison.models) for chart in charts.charts(view, model, number)
        ],
        "windows": [windows.values(grid) if grid else None for grid in grids],
        "cost": card.cost_values(view),
    }
    return msgspec.to_builtins(values)  # type: ignore[no-any-return]


def _scaling(report: Report) -> list[Part]:
    """Return what stands above the card where a system was measured at several sizes."""
    if report.scaling is None:
        return []
    sizes = Fold("Sizes", list(scaling.sizes(report)), is_open=len(report.scaling.curves) == 1)
    return [*scaling.document(report).screen, sizes]


def _folds(view: View, sources: Sources, found: library.Library | None) -> list[tuple[str, str, str, Iterable[Part]]]:
    """Return what is folded below the card: anchor, title, the rest of the title, and the parts."""
    steps, every = sections.next_steps(view), sections.pairs(view)
    diff = every[0].config_diff if every else None
    counts = f"({len(diff.of('different'))} differ, {len(diff.of('unknown'))} not reported)" if diff else ""
    warnings = len(view.comparison.notes) + len(view.footnotes.entries())
    return [
        ("next", f"Next steps ({len(steps)})", "", notes(steps)),
        ("tables", "Results", "table", sections.results(view)),
        ("config_diff", "Configuration", f"differences {counts}", sections.config_diff(view)),
        ("method", "Method", "and statistics", sections.method(view)),
        ("charts", "Charts", "of step time, loss and memory", _charts(view, found)),
        ("evidence", "Evidence", "runs, files, log lines", _evidence(view)),
        ("warnings", f"Warnings ({warnings})", "", sections.warnings(view)),
        ("reproduce", "Reproduce", "", document.repeat(view.comparison, sources)),
    ]


def _title(comparison: Comparison) -> str:
    several = len(comparison.models) > 1
    models = " · ".join(plain(each.short_title if several else each.title) for each in comparison.models[:3])
    # In the order of the answer: the fastest first.
    names = list(dict.fromkeys(system.name for model in comparison.models[:1] for system in model.systems))
    every = comparison.system_names
    shown = " vs ".join(names) if len(names) == len(every) <= 2 else counted(len(every), "system")
    return f"{models} · {plain(shown)}"


def _evidence(view: View) -> Iterator[Part]:
    yield from document.hardware(view.comparison)
    yield from evidence.section(view)
    yield Heading(3, "Sources")
    yield from document.files(view.comparison)


def _charts(view: View, found: library.Library | None) -> Iterator[Part]:
    if found is None:
        how: list[Inline] = [
            "Charts need the plotly package: ",
            Code(library.HOW_TO_GET),
            ", then create the report again.",
        ]
        yield Paragraph(how, "hint")
        yield Image(document.PLOT if view.report.scaling is None else scaling.PLOT)
    else:
        yield Control("chart_status", {"view": view})
    for number, model in enumerate(view.comparison.models):

        def chart(kind: str, text: str, number: int = number) -> Part:
            return Control("chart", {"name": f"{kind}-{number}", "text": text}) if found else Paragraph("")

        if view.several_models:
            yield Heading(3, model.title)
        for write in _CHARTS:
            yield from write(view, model, chart)
