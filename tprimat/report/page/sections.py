"""What is folded below the card: next steps, results, charts, configuration differences, method,
warnings.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from pathlib import PurePath

from tprimat import units
from tprimat.compare import Group, ModelComparison, Pair, RunResult
from tprimat.notes.catalogue import safe_sentences
from tprimat.report import document, explain, tables, target
from tprimat.report.blocks import (
    Cells,
    Content,
    Footnotes,
    Heading,
    Link,
    Marks,
    Paragraph,
    Table,
    notes,
)
from tprimat.report.breakdown import breakdowns
from tprimat.report.page import charts, evidence, windows
from tprimat.report.page.markup import Control, Fold, Part, Parts
from tprimat.report.page.view import Placed, PlacedRun, View
from tprimat.report.rates import final_losses, untimed
from tprimat.results.account import PARTS

Chart = Callable[[str, str], Part]
"""A function that returns the place of a chart, given its kind and a text on what it shows."""

MOST_PAIRS = 20
"""Most pairs whose configurations are listed setting by setting."""


def results(view: View) -> Parts:
    """Yield the table of each model's systems, each value with a link to its calculation."""
    for answer in view.answers:
        group = answer.group
        rows = [
            *tables.speed_rows(group, view.footnotes),
            *tables.efficiency_rows(view.comparison, group),
            *tables.memory_rows(group),
        ]
        yield from tables.explained(_grid(view, group, rows, group.title))


def _grid(view: View, group: Group, rows: list[tables.Row], caption: str) -> Table:
    placed = [view.of(system) for system in group.systems]
    ratios = {pair.system: view.pairs[pair] for pair in group.pairs}

    def cell(row: tables.Row, index: int) -> Content:
        own = placed[index]
        text = row.cells[index].text
        anchor = evidence.metric_anchor(own, row.metric)
        if row.title.startswith("Speedup"):
            anchor = ratios.get(own.system, anchor)
        if text in (units.UNKNOWN, untimed(own.system)) or not own.runs:
            anchor = ""
        return [Link(text, anchor), Marks(row.cells[index].notes)]

    return tables.grid([own.name for own in placed], rows, cell, caption=caption)


def step_times(view: View, model: ModelComparison, chart: Chart) -> Parts:
    """Yield the chart of step times and its table."""
    rows: list[Cells] = []
    for placed in view.of_model(model):
        for run in placed.runs:
            rows += _segments(placed, run)
    header = ["Run", "Steps", "Mean", "Median", "Outliers (share of time)", "Drift", "Warm-up"]
    yield chart("steps", "Step time over the steps; the table below has the values of each segment")
    table = Table(header, rows, caption=f"Segments of {model.title}")
    yield Fold("Table: segments of the runs", [table])


def _segments(placed: Placed, run: PlacedRun) -> Iterator[Cells]:
    """Yield a row for each segment of a run; without segments, a row that says why."""
    result = run.result
    name = placed.name
    if len(placed.runs) > 1:
        name += f", run {run.number}"
    before = units.duration(result.value("warmup_time_seconds"))
    if result.run.environment.emulated:
        before = untimed(placed.system)
    for segment in result.summary.segments:
        drift = units.UNKNOWN if segment.drift is None else f"{segment.drift:+.1%}"
        yield [
            Link(name, f"r{run.index}"),
            f"{segment.first_step}–{segment.last_step}",
            units.seconds(segment.mean),
            units.seconds(segment.median),
            f"{segment.outliers} ({segment.outlier_share:.1%})",
            drift,
            before,
        ]
    if not result.summary.segments:
        time = result.summary.performance.avg_step_time_seconds
        step = untimed(placed.system) if time is None else units.seconds(time)
        yield [name, _why_no_segment(result), step, *[units.UNKNOWN] * 3, before]


def _why_no_segment(result: RunResult) -> str:
    if not result.run.steps:
        return f"no steps: {result.run.status}"
    if result.run.environment.emulated:
        return "an emulated device"
    if sum(time is not None for time in result.run.step_times) == 1:
        return "a single record"
    return "no steady state"


def loss(view: View, model: ModelComparison, chart: Chart) -> Parts:
    """Yield the charts of loss over tokens and over time, and their table."""
    rows: list[Cells] = []
    for placed, final in zip(view.of_model(model), final_losses(model.systems), strict=True):
        losses = itertools.chain(*(run.result.run.loss_values for run in placed.runs))
        first = next((value for value in losses if value is not None), None)
        if first is not None:
            data = placed.system.run.data
            end = Link(final, evidence.metric_anchor(placed, "final_loss"))
            entropy = units.UNKNOWN if data.entropy is None else f"{data.entropy:.4g}"
            rows.append([placed.name, f"{first:.4g}", end, entropy, data.kind or "not reported"])
    if rows:
        has_ends = "the table below has the first and the last values"
        yield chart("loss-tokens", f"Loss over tokens; {has_ends}")
        yield chart("loss-wall", f"Loss over training time; {has_ends}")
        header = ["System", "First", "At the end", "Entropy of the data", "Data"]
        caption = f"Loss of {model.title}, nats/token"
        yield Fold("Table: loss", [Paragraph(document.LOSS), Table(header, rows, caption=caption)])


def memory(view: View, model: ModelComparison, chart: Chart) -> Parts:
    """Yield the chart of each kind of memory; the results table has its values."""
    if any(map(tables.memory_rows, model.groups)):
        yield chart("memory", "Memory by kind; the results table has the values")
        yield Paragraph(document.MEMORY, "hint")


def times(view: View, model: ModelComparison, chart: Chart) -> Parts:
    """Yield a bar for each run, of the parts of its wall time, and their tables; nothing without a
    clock.
    """
    longest = 0.0
    bars = []
    names = set[str]()
    for group in model.groups:
        for name, file, account in target.accounts(group):
            longest = max(longest, account.whole)
            bars.append((f"{name}, {PurePath(file).name}", account))
            names |= account.parts.keys()
    if not bars:
        return
    runs = []
    for name, account in bars[: charts.MOST_SYSTEMS]:
        runs.append((name, units.duration(account.whole), account.whole / longest, account.shares))
    yield Control("times", {"runs": runs, "parts": [part for part in PARTS if part in names]})
    yield Fold("Table: wall time", list(target.blocks(view.comparison, model)))


def breakdown(view: View, model: ModelComparison, chart: Chart) -> Parts:
    """Yield what the time is spent on; nothing if fewer than two runs report it."""
    explanation = explain.of_model(model)
    if explanation is not None:
        profile = explain.document(explanation)
        # The chart takes the place of the first screen's table.
        yield from (part for part in profile.screen if not isinstance(part, Table))
        yield chart(
            "waterfall", "The difference of the step times by part; the table below has the values"
        )
        title = "Parts of a step"
        for part in profile.details:
            if isinstance(part, Heading):
                title = f"Operators: {part.text}"
            elif isinstance(part, Table):
                yield Fold(title, [dataclasses.replace(part, caption=title)])
    if charts.breakdown(model) is not None:
        yield chart("breakdown", "Shares of the time; the table below has the values")
    for table, note in breakdowns(model, f"Parts of the time of {model.title}"):
        yield from (table, Paragraph(note))


def pairs(view: View) -> list[Pair]:
    """Return the pairs that the page shows in detail, those of the headlines first."""
    leaders = [answer.group.leaders for answer in view.answers if answer.group.leaders]
    return list(dict.fromkeys([*leaders, *view.pairs]))


_STATUSES = {
    "blocking": "Workload mismatch",
    "different": "Different",
    "unknown": "Not reported by both",
    "equal": "Same on both",
}


def config_diff(view: View) -> Parts:
    """Yield every setting of each pair; on paper, only those of the first headline's pair are
    shown.
    """
    every = pairs(view)
    for number, pair in enumerate(every[:MOST_PAIRS]):
        names = [view.of(system).label for system in (pair.system, pair.baseline)]
        title = f"{' vs '.join(names)}: {pair.config_diff.verdict}"
        yield Fold(title, list(_settings(pair, names)), is_open=number == 0)
    if len(every) > MOST_PAIRS:
        yield Paragraph(f"{len(every) - MOST_PAIRS} more pairs: compare fewer results at a time.")


def _settings(pair: Pair, names: list[str]) -> Parts:
    """Yield a table of the settings of a pair for each status that some of them have."""
    for status, title in _STATUSES.items():
        rows = []
        for entry in pair.config_diff.entries:
            if entry.status == status:
                values = [text or units.UNKNOWN for text in reversed(entry.values)]
                rows.append([entry.title, *values])
        if rows:
            yield Table(["Setting", *names], rows, caption=f"{title} ({len(rows)})", right_from=99)


def method(view: View) -> Parts:
    """Yield how the results were computed, and how much depends on the choice of steps."""
    yield Paragraph(document.METHOD)
    for model in view.comparison.models:
        if model.pairs:
            title = f"Comparisons, {model.title}" if view.several_models else "Comparisons"
            yield from document.comparisons(model.pairs[:MOST_PAIRS], title)
        yield from document.beside_published(model)
        yield from document.check_findings(model)
        for group in model.groups:
            yield from windows.section(view, group)


def warnings(view: View) -> Parts:
    """Yield notes on the results as a whole, and the warnings that the tables refer to."""
    yield from notes(safe_sentences(view.comparison.notes))
    if entries := view.footnotes.entries():
        yield Footnotes(entries)
