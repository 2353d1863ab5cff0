"""Comparison -> the HTML report: one file that needs nothing beside it.

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

from tprimat.compare import Comparison, ModelComparison
from tprimat.report import Picture, Provenance, document
from tprimat.report.blocks import Block, Image
from tprimat.report.blocks import Footnotes as FootnoteBlock
from tprimat.report.html_blocks import block_text, escape
from tprimat.report.page import charts, evidence, library, money, sections, windows
from tprimat.report.page.view import DARK, View, json_ready, wall_times
from tprimat.report.plot.items import COLORS
from tprimat.text import plain

_HERE = Path(__file__).parent

LARGE = 400_000
"""Characters of data that stay readable in the page's source; more are compressed."""

_PICTURE = Image("Throughput, step times, loss and memory of all sides")


def render(
    comparison: Comparison, provenance: Provenance, picture: Picture | None, found: library.Library | None
) -> bytes:
    """The page as a file.

    Args:
        comparison: what to report.
        provenance: what is said of the report's own making.
        picture: stands in the place of the charts where there is no library.
        found: the chart library; None where there is none.
    """
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
    blocks = [_data("data", data(view)), _data("results", evidence.results(view), readable=LARGE)]
    if found is not None:
        # Not a script to the browser: page.js unpacks it and runs it under its hash.
        blocks.append(f'<script type="application/gzip" id="library">{found.packed}</script>')
    title = f"Comparison: {', '.join(plain(model.title) for model in comparison.models)}"
    text = "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{escape(title)}</title>",
            f"<style>{style}</style>",
            "</head>",
            "<body>",
            f"<header><h1>{escape(title)}</h1></header>",
            "<main>",
            body,
            "</main>",
            *blocks,
            f"<script>{script}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )
    return text.encode()


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
    return json_ready(found)  # type: ignore[no-any-return]


def _data(name: str, value: Any, *, readable: int | None = None) -> str:
    """Data in the page: JSON in which no tag begins or ends, and that no script engine reads otherwise.

    Args:
        name: of the block.
        value: what JSON can hold.
        readable: characters up to which it is left as it is; None for any length.
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    if readable is not None and len(text) > readable:
        return f'<script type="application/gzip" id="{name}">{library.packed(text.encode())}</script>'
    return f'<script type="application/json" id="{name}">{text}</script>'


def _body(view: View, provenance: Provenance, picture: Picture | None, found: library.Library | None) -> Iterator[str]:
    comparison = view.comparison
    every = [
        ("verdict", "Verdict", sections.verdict(view)),
        ("figures", "Figures", _per_model(view, lambda model: sections.figures(view, model))),
        ("throughput", "Throughput", _per_model(view, lambda model: sections.throughput(view, model, found))),
        ("steps", "Steps over time", _per_model(view, lambda model: sections.steps(view, model, found))),
        ("loss", "Loss", _per_model(view, lambda model: sections.loss(view, model, found))),
        ("memory", "Memory", _per_model(view, lambda model: sections.memory(view, model, found))),
        ("time", "Where the time goes", _per_model(view, lambda model: sections.breakdown(view, model, found))),
        ("cost", "Cost", money.section(view)),
        ("ledger", "Ledger of differences", sections.ledger(view)),
        ("evidence", "Evidence", evidence.section(view)),
        ("hardware", "Hardware", _blocks(view, document.hardware(comparison))),
        ("files", "What this rests on", _blocks(view, document.files(comparison))),
        ("repeat", "How to repeat it", _blocks(view, document.repeat(comparison, provenance))),
    ]
    there = [(name, title, content) for name, title, content in every if content]
    entries = "".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title, _ in there)
    name, title, content = there[0]
    yield f'<section id="{name}"><h2>{escape(title)}</h2>\n{content}</section>'
    yield f'<nav aria-label="Sections"><ul>{entries}</ul></nav>'
    if found is None:
        yield (
            '<p class="hint">Without charts: the plotly package, which carries them, is not installed '
            f"(<code>{escape(library.HOW_TO_GET)}</code>, then make the report again). The tables hold the same "
            "figures.</p>"
        )
        yield block_text(_PICTURE, picture, view.referred)
    else:
        yield (
            "<noscript><p>Charts, the window and the price fields need JavaScript, which is off here. The tables hold "
            "the same figures.</p></noscript>"
        )
        if len(view.sides) > 1:
            yield _switches(view)
        yield '<p id="point" class="hint" role="status" aria-live="polite"></p>'
    for name, title, content in there[1:]:
        yield f'<section id="{name}"><h2>{escape(title)}</h2>\n{content}</section>'
    notes = view.footnotes.entries()
    if notes:
        yield f'<section id="notes">{block_text(FootnoteBlock(notes), None, view.referred)}</section>'


def _switches(view: View) -> str:
    boxes = "".join(
        f'<label><input type="checkbox" data-side="{placed.index}" checked><span class="swatch" '
        f'data-color="{placed.color}"></span>{escape(placed.name)}'
        f"{escape(f', {placed.model.title}') if view.several_models else ''}</label>"
        for placed in view.sides
    )
    return f'<fieldset id="switches"><legend>Sides in the charts</legend>{boxes}</fieldset>'


def _per_model(view: View, content: Callable[[ModelComparison], str]) -> str:
    """What there is to say of each model, with a heading where there are several."""
    parts = []
    for model in view.comparison.models:
        text = content(model)
        if text:
            heading = f"<h3>{escape(model.title)}</h3>" if view.several_models else ""
            parts.append(f"{heading}{text}")
    return "\n".join(parts)


def _blocks(view: View, blocks: Iterable[Block]) -> str:
    """Blocks of the other reports but for their heading, which the section has."""
    return "\n".join(block_text(block, None, view.referred) for block in list(blocks)[1:])
