"""Comparison -> comparison_report.html: one file that opens by a double click and needs no other
files.

What doesn't change (texts, tables) is HTML, written by templates/; what a reader changes (the
charts' view, the step window, prices) is page.js over data that Python computed. Results are
untrusted: docs/report.md has the page's policy.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Container, Iterable, Iterator
from hashlib import sha256
from pathlib import Path

import msgspec

from tprimat.report import Plot, Sources, document, scaling, screen, tables
from tprimat.report.blocks import Paragraph, notes
from tprimat.report.colors import PARTS
from tprimat.report.page import card, charts, evidence, sections, windows
from tprimat.report.page.markup import Control, Fold, Part, Parts, Writer, json_text
from tprimat.report.page.view import PlacedRun, View, wall_times
from tprimat.report.verdict import Report
from tprimat.results.fields import JsonObject
from tprimat.text import counted, plain

_HERE = Path(__file__).parent

PLOTLY = gzip.decompress((_HERE / "plotly-basic.min.js.gz").read_bytes())
"""The basic bundle of plotly.js (npm's plotly.js-basic-dist-min 4.1.1), as a browser runs it."""

_CHARTS = (sections.times, sections.step_times, sections.loss, sections.memory, sections.breakdown)
"""Functions that each write one kind of chart of a model."""

_Fold = tuple[str, str, str, Iterable[Part]]
"""The anchor of a fold, its title, the rest of the title, and its parts."""


def render(report: Report, sources: Sources, plot: Plot | None) -> bytes:
    """Return the report as a file. See report.FORMATS for the arguments."""
    view = View(report.shortened(document.MOST_SYSTEMS))
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    drawn = data(view)
    values = {
        "title": _title(view),
        "shared": tables.shared(view.comparison),
        "style": (_HERE / "page.css").read_text(encoding="utf-8"),
        "colors": view.tones,
        "hashes": [_digest(script.encode()), _digest(PLOTLY)],
        "scaling": _scaling(view.report),
        "card": card.values(view),
        "folds": _folds(view, sources, {chart["id"] for chart in drawn["charts"]}),
        "data": json_text(drawn),
        "results": _packed(json_text(list(evidence.results(view))).encode()),
        "library": _packed(PLOTLY),
        "script": script,
    }
    return Writer(plot).page(values).encode()


def _digest(content: bytes) -> str:
    """Return the digest of a script that allows it in the page's content security policy."""
    return base64.b64encode(sha256(content).digest()).decode("ascii")


def _packed(content: bytes) -> str:
    """Return content as the page includes it: compressed with gzip, in base64."""
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode("ascii")


def data(view: View) -> JsonObject:
    """Return all data that page.js draws, looks up and computes with; the tests have golden files
    of it.
    """
    systems = []
    for placed in view.systems:
        systems.append(
            {
                "name": placed.name,
                "model": plain(placed.model.title),
                "color": placed.field,
                "dash": placed.dash,
                "cost": card.cost_of_work(placed.system),
            }
        )
    drawn: list[charts.Chart] = []
    for number, model in enumerate(view.comparison.models):
        drawn += charts.charts(view, model, number)
    grids = []
    for answer in view.answers:
        grid = windows.grid(answer.group)
        grids.append(windows.values(grid) if grid else None)
    values = {
        "palettes": {"systems": view.tones, "parts": PARTS},
        "systems": systems,
        "runs": [_run(view, run) for run in view.runs],
        "charts": drawn,
        "windows": grids,
        "costs": card.cost_values(view),
    }
    return msgspec.to_builtins(values)  # type: ignore[no-any-return]


def _run(view: View, placed: PlacedRun) -> JsonObject:
    run = placed.result.run
    summary = placed.result.summary
    return {
        "system": placed.system,
        "number": placed.number,
        "runs": len(view.systems[placed.system].runs),
        "tokens": run.tokens_per_step,
        "wall": wall_times(run),
        "steady": [summary.steady.first_step, summary.steady.last_step],
        "segments": [[segment.first_step, segment.last_step] for segment in summary.segments],
    }


def _scaling(report: Report) -> list[Part]:
    """Return the part above the card, if a system was measured at several sizes."""
    if report.scaling is None:
        return []
    sizes = Fold("Sizes", list(scaling.sizes(report)), is_open=len(report.scaling.curves) == 1)
    return [*scaling.document(report).screen, sizes]


def _folds(view: View, sources: Sources, drawn: Container[str]) -> Iterator[_Fold]:
    """Yield what is folded below the card."""
    steps = screen.next_steps(view.answers)
    yield "next", f"Next steps ({len(steps)})", "", notes(steps)
    yield "tables", "Results", "table", sections.results(view)
    counts = ""
    if pairs := sections.pairs(view):
        diff = pairs[0].config_diff
        counts = f"({len(diff.of('different'))} differ, {len(diff.of('unknown'))} not reported)"
    yield "config_diff", "Configuration", f"differences {counts}", sections.config_diff(view)
    yield "method", "Method", "and statistics", sections.method(view)
    yield "charts", "Charts", "of step time, loss and memory", _charts(view, drawn)
    yield "evidence", "Evidence", "runs, files, log lines", _evidence(view)
    warnings = len(view.comparison.notes) + len(view.footnotes.entries())
    yield "warnings", f"Warnings ({warnings})", "", sections.warnings(view)
    yield "reproduce", "Reproduce", "", document.repeat(view.comparison, sources)


def _evidence(view: View) -> Parts:
    """Yield the evidence of all values, then the hardware, and the files."""
    yield from evidence.section(view)
    yield Fold("Hardware and software", list(document.hardware(view.comparison)))
    files = counted(len(view.comparison.files), "file")
    yield Fold(f"Sources ({files})", list(document.files(view.comparison)))


def _title(view: View) -> str:
    models = list(dict.fromkeys(plain(answer.model.short_title) for answer in view.answers))
    if not view.several_models:
        models = [plain(view.comparison.models[0].title)]
    if len(models) > 4:
        models[3:] = [counted(len(models) - 3, "more model")]
    return f"{' · '.join(models)} · {view.report.systems}"


def _charts(view: View, drawn: Container[str]) -> Parts:
    """Yield the charts of each model; of several models, each in its own fold, since a chart is
    drawn only when it is visible.
    """
    yield Control("chart_status", {"systems": view.systems})
    for number, model in enumerate(view.comparison.models):

        def chart(kind: str, text: str, number: int = number) -> Part:
            name = f"{kind}-{number}"
            if name in drawn:
                return Control("chart", {"name": name, "text": text})
            return Paragraph("")

        parts: list[Part] = []
        for write in _CHARTS:
            parts += write(view, model, chart)
        if view.several_models:
            yield Fold(model.title, parts)
        else:
            yield from parts
