"""Comparison -> comparison_report.html: one file that opens by double click and needs nothing beside it.

It opens on a card that fits one screen: the answer, its certainty, throughput, cost and caveats. The rest is folded.
What is in the page but doesn't change (texts, tables) is HTML; what a reader changes (the charts' view, the step
window, prices) is page.js over data that Python computed. Results are hostile: every text passes escape(), data is
JSON in which no tag can end, and the page's own policy allows the two scripts that it carries, by their hashes, and
nothing from elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from tprimat.compare import Comparison
from tprimat.report import Plot, Sources, document, scaling, tables
from tprimat.report.blocks import Heading, Image, plain_bullets
from tprimat.report.page import card, charts, evidence, library, sections, windows
from tprimat.report.page.markup import Fold, Part, Writer, escape
from tprimat.report.page.view import DARK, View, wall_times
from tprimat.report.plot.items import COLORS
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
    body = "\n".join(_body(view, sources, plot, found))
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    style = (_HERE / "page.css").read_text(encoding="utf-8")
    hashes = [library.digest(script.encode())] + ([found.digest] if found else [])
    scripts = " ".join(f"'sha256-{each}'" for each in hashes)
    policy = (
        f"default-src 'none'; script-src {scripts}; img-src data: blob:; "
        "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )
    # The library is no script to the browser: page.js unpacks it and runs it under its hash.
    packed = f'<script type="application/gzip" id="library">{found.packed}</script>\n' if found else ""
    title = escape(_title(comparison))
    shared = f" <span>· {escape(text)}</span>" if (text := tables.shared(comparison)) else ""
    colors = "".join(f"--c{number}:{color};" for number, color in enumerate(COLORS))
    dark = "".join(f"--c{number}:{color};" for number, color in enumerate(DARK))
    style += f":root{{{colors}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{title}{shared}</h1></header>
<main>
{body}
</main>
{_data("data", data(view))}
{_data("results", evidence.results(view), readable=LARGE)}
{packed}<script>{script}</script>
</body>
</html>
""".encode()


def data(view: View) -> dict[str, Any]:
    """Return all that page.js draws, looks up and computes with; golden files of the tests hold it."""
    comparison = view.comparison
    grids = [windows.grid(answer.group) for answer in view.answers]
    values: dict[str, Any] = {
        "palettes": {"light": COLORS, "dark": DARK},
        "systems": [
            {"name": placed.name, "model": plain(placed.model.title), "color": placed.color, "dash": placed.dash}
            for placed in view.systems
        ],
        "runs": [
            {
                "system": run.system,
                "number": run.number,
                "runs": len(view.systems[run.system].runs),
                "tokens": (run.result.run.tokens_per_step or 0) / 1e6 or None,
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


def _data(name: str, value: Any, *, readable: int | None = None) -> str:
    """Data in the page: JSON in which no tag begins or ends, and that no script engine reads otherwise.

    What has more characters than are `readable` is compressed.
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    if readable is not None and len(text) > readable:
        return f'<script type="application/gzip" id="{name}">{library.packed(text.encode())}</script>'
    return f'<script type="application/json" id="{name}">{text}</script>'


def _body(view: View, sources: Sources, plot: Plot | None, found: library.Library | None) -> Iterator[str]:
    comparison, writer = view.comparison, Writer(plot)
    steps, every = sections.next_steps(view), sections.pairs(view)
    diff = every[0].config_diff if every else None
    counts = f"({len(diff.of('different'))} differ, {len(diff.of('unknown'))} not reported)" if diff else ""
    warnings = len(comparison.notes) + len(view.footnotes.entries())
    folds: list[tuple[str, str, str, Iterable[Part]]] = [
        ("next", f"Next steps ({len(steps)})", "", [plain_bullets(steps)] if steps else []),
        ("tables", "Results", "table", sections.results(view)),
        ("config_diff", "Configuration", f"differences {counts}", sections.config_diff(view)),
        ("method", "Method", "and statistics", sections.method(view)),
        ("charts", "Charts", "of step time, loss and memory", _charts(view, found)),
        ("evidence", "Evidence", "runs, files, log lines", _evidence(view)),
        ("warnings", f"Warnings ({warnings})", "", sections.warnings(view)),
        ("reproduce", "Reproduce", "", document.repeat(comparison, sources)),
    ]
    if view.report.scaling is not None:
        sizes = Fold("Sizes", list(scaling.sizes(view.report)), is_open=len(view.report.scaling.curves) == 1)
        yield f'<section id="scaling">{writer.text([*scaling.answer(view.report, plot=True), sizes])}</section>'
    yield card.section(view)
    yield '<div id="folds">'
    for anchor, title, more, parts in folds:
        if text := writer.text(parts):
            heading = f"{escape(title)} <span>{escape(more)}</span>" if more else escape(title)
            yield f'<details id="{anchor}"><summary>{heading}</summary>\n{text}</details>'
    yield "</div>"


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
        yield (
            '<p class="hint">Charts need the plotly package: '
            f"<code>{escape(library.HOW_TO_GET)}</code>, then create the report again.</p>"
        )
        yield Image(document.PLOT if view.report.scaling is None else scaling.PLOT)
    else:
        yield '<noscript><p class="hint">Charts need JavaScript; the tables have the same values.</p></noscript>'
        if len(view.systems) > 1:
            yield _switches(view)
        yield '<p id="point" class="hint" role="status" aria-live="polite"></p>'
    for number, model in enumerate(view.comparison.models):

        def chart(kind: str, text: str, number: int = number) -> str:
            name = f"{kind}-{number}"
            figure = f'<div class="chart" id="{name}" role="img" aria-label="{escape(text)}"></div>'
            return f'<figure>{figure}<figcaption id="{name}-note"></figcaption></figure>' if found else ""

        if view.several_models:
            yield Heading(3, model.title)
        for write in _CHARTS:
            yield from write(view, model, chart)


def _switches(view: View) -> str:
    boxes = "".join(
        f'<label><input type="checkbox" data-system="{placed.index}" checked><span class="swatch" '
        f'style="background:var(--c{placed.color})"></span>{escape(view.title(placed))}</label>'
        for placed in view.systems
        if placed.runs
    )
    return f'<fieldset id="switches"><legend>Show in charts</legend>{boxes}</fieldset>'
