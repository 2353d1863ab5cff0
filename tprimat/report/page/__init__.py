"""Comparison -> comparison_report.html: one file that opens by double click and needs nothing beside it.

The verdict comes first, in words; then tables and charts; then where every figure comes from. What
is in the page but doesn't change (texts, tables) is HTML; what a reader changes (the charts' view,
the window, the prices) is page.js over data that Python computed. Results are hostile: every text
passes escape(), data is JSON in which no tag can end, and the page's own policy allows the two
scripts that it carries, by their hashes, and nothing from elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from tprimat.compare import Comparison, ModelComparison
from tprimat.report import Picture, Provenance, document
from tprimat.report.blocks import Footnotes, Heading, Image
from tprimat.report.page import charts, evidence, library, money, sections, windows
from tprimat.report.page.markup import Part, Writer, escape
from tprimat.report.page.view import DARK, View, wall_times
from tprimat.report.plot.items import COLORS
from tprimat.text import plain

_HERE = Path(__file__).parent

LARGE = 400_000
"""Characters of data that stay readable in the page's source; more are compressed."""

_PER_MODEL = (
    ("figures", "Figures", lambda view, model, chart: sections.figures(view, model)),
    ("throughput", "Throughput", sections.throughput),
    ("steps", "Steps over time", sections.steps),
    ("loss", "Loss", sections.loss),
    ("memory", "Memory", sections.memory),
    ("time", "Where the time goes", sections.breakdown),
)
"""Sections of which each model has its part: anchor, title, and what writes it."""


def render(comparison: Comparison, provenance: Provenance, picture: Picture | None) -> bytes:
    """The report as a file. See report.Form for the arguments.

    Without the package that carries the charts' script the page shows the plot's picture instead, with a
    line on how to get it.
    """
    return render_with(comparison, provenance, picture, library.load())


def render_with(
    comparison: Comparison, provenance: Provenance, picture: Picture | None, found: library.Library | None
) -> bytes:
    """The page as a file, with a chart library or None."""
    view = View(comparison)
    body = "\n".join(_body(view, provenance, picture, found))
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
    title = escape(f"Comparison: {', '.join(plain(model.title) for model in comparison.models)}")
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
<header><h1>{title}</h1></header>
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
    """All that page.js draws, looks up and computes with; golden files of the tests hold it."""
    comparison = view.comparison
    grids = [windows.grid(group) for model in comparison.models for group in model.groups]
    found: dict[str, Any] = {
        "palettes": {"light": COLORS, "dark": DARK},
        "sides": [
            {"name": placed.name, "model": plain(placed.model.title), "color": placed.color, "dash": placed.dash}
            for placed in view.sides
        ],
        "runs": [
            {
                "side": run.side,
                "number": run.number,
                "of": len(view.sides[run.side].runs),
                "tokens": (run.result.run.tokens_per_step or 0) / 1e6 or None,
                "wall": wall_times(run.result.run),
                "steady": [run.result.summary.steady.first_step, run.result.summary.steady.last_step],
                "levels": [[level.first_step, level.last_step] for level in run.result.summary.segments],
            }
            for run in view.runs
        ],
        "charts": [
            chart for number, model in enumerate(comparison.models) for chart in charts.charts(view, model, number)
        ],
        "windows": [windows.values(grid) if grid else None for grid in grids],
        "cost": money.values(view),
    }
    return msgspec.to_builtins(found)  # type: ignore[no-any-return]


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


def _body(view: View, provenance: Provenance, picture: Picture | None, found: library.Library | None) -> Iterator[str]:
    comparison, writer = view.comparison, Writer(picture)
    every: list[tuple[str, str, Iterable[Part]]] = [
        ("verdict", "Verdict", sections.verdict(view)),
        *((anchor, title, _per_model(view, parts, found is not None)) for anchor, title, parts in _PER_MODEL),
        ("cost", "Cost", money.section(view)),
        ("ledger", "Ledger of differences", sections.ledger(view)),
        ("evidence", "Evidence", evidence.section(view)),
        ("hardware", "Hardware", document.hardware(comparison)),
        ("files", "What this rests on", document.files(comparison)),
        ("repeat", "How to repeat it", document.repeat(comparison, provenance)),
    ]
    texts = [(anchor, title, text) for anchor, title, parts in every if (text := writer.text(parts))]
    written = [f'<section id="{anchor}"><h2>{escape(title)}</h2>\n{text}</section>' for anchor, title, text in texts]
    entries = "".join(f'<li><a href="#{anchor}">{escape(title)}</a></li>' for anchor, title, _ in texts)
    yield written[0]
    yield f'<nav aria-label="Sections"><ul>{entries}</ul></nav>'
    if found is None:
        yield (
            '<p class="hint">Without charts: the plotly package, which carries them, is not installed '
            f"(<code>{escape(library.HOW_TO_GET)}</code>, then make the report again). The tables hold the same "
            "figures.</p>"
        )
        yield writer.text([Image(document.PICTURE)])
    else:
        yield (
            "<noscript><p>Charts, the window and the price fields need JavaScript, which is off here. The tables hold "
            "the same figures.</p></noscript>"
        )
        if len(view.sides) > 1:
            yield _switches(view)
        yield '<p id="point" class="hint" role="status" aria-live="polite"></p>'
    yield from written[1:]
    notes = view.footnotes.entries()
    if notes:
        yield f'<section id="notes">{writer.text([Footnotes(notes)])}</section>'


def _switches(view: View) -> str:
    boxes = "".join(
        f'<label><input type="checkbox" data-side="{placed.index}" checked><span class="swatch" '
        f'data-color="{placed.color}"></span>{escape(view.title(placed))}</label>'
        for placed in view.sides
    )
    return f'<fieldset id="switches"><legend>Sides in the charts</legend>{boxes}</fieldset>'


def _per_model(
    view: View, section: Callable[[View, ModelComparison, sections.Chart], Iterator[Part]], has_charts: bool
) -> Iterator[Part]:
    """What there is to say of each model, with a heading where there are several."""
    for number, model in enumerate(view.comparison.models):

        def chart(kind: str, text: str, number: int = number) -> str:
            name = f"{kind}-{number}"
            figure = f'<div class="chart" id="{name}" role="img" aria-label="{escape(text)}"></div>'
            return f'<figure>{figure}<figcaption id="{name}-note"></figcaption></figure>' if has_charts else ""

        parts = list(section(view, model, chart))
        if parts:
            yield from [Heading(3, model.title), *parts] if view.several_models else parts
