"""What is folded below the card: next steps, results, charts, configuration differences, method,
warnings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath

from tprimat import units
from tprimat.compare import Group, ModelComparison, Pair, RunResult
from tprimat.report import document, explain, tables, target
from tprimat.report.blocks import Content, Footnotes, Link, Marks, Notes, Paragraph, Table, notes
from tprimat.report.breakdown import breakdowns
from tprimat.report.page import charts, evidence, windows
from tprimat.report.page.markup import Control, Fold, Part
from tprimat.report.page.view import View
from tprimat.report.rates import final_losses, untimed
from tprimat.results.account import PARTS
from tprimat.text import plain

Chart = Callable[[str, str], Part]
"""The place of a chart, by its kind, with what it shows in words; nothing if there are no charts.
"""

MOST_PAIRS = 20
"""Pairs whose configurations are listed setting by setting."""


def results(view: View) -> Iterator[Part]:
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
    ratios = {pair.system: view.pair_anchors[pair] for pair in group.pairs}

    def cell(row: tables.Row, index: int) -> Content:
        system = group.systems[index]
        found = row.cells[index]
        placed = view.of(system)
        anchor = evidence.title_anchor(placed, row.title)
        if row.title.startswith("Speedup"):
            anchor = ratios.get(system, anchor)
        missing = found.text in (units.UNKNOWN, untimed(system)) or not placed.runs
        return [Link(found.text, "" if missing else anchor), Marks(found.notes)]

    return tables.grid(
        [view.of(system).name for system in group.systems], rows, cell, caption=caption
    )


def step_times(view: View, model: ModelComparison, chart: Chart) -> Iterator[Part]:
    """Yield the chart of step times and its table."""
    rows: list[list[Content]] = []
    for each in view.of_model(model):
        for index in each.runs:
            result = view.runs[index].result
            if len(each.runs) == 1:
                name = each.name
            else:
                name = f"{each.name}, run {view.runs[index].number}"
            emulated = result.run.environment.emulated
            if emulated:
                before = untimed(each.system)
            else:
                before = units.duration(result.value("warmup_time_seconds"))
            rows += [
                [
                    Link(name, f"r{index}"),
                    f"{segment.first_step}–{segment.last_step}",
                    units.seconds(segment.mean),
                    units.seconds(segment.median),
                    f"{segment.outliers} ({segment.outlier_share:.1%})",
                    units.UNKNOWN if segment.drift is None else f"{segment.drift:+.1%}",
                    before,
                ]
                for segment in result.summary.segments
            ]
            if not result.summary.segments:
                time = result.summary.performance.avg_step_time_seconds
                step = untimed(each.system) if time is None else units.seconds(time)
                rows.append([name, _why_no_segment(result), step, *[units.UNKNOWN] * 3, before])
    header = ["Run", "Steps", "Mean", "Median", "Outliers (share of time)", "Drift", "Warm-up"]
    yield chart("steps", "Step time over the steps; the table below has the values of each segment")
    yield Fold(
        "Table: segments of the runs", [Table(header, rows, caption=f"Segments of {model.title}")]
    )


def _why_no_segment(result: RunResult) -> str:
    if not result.run.steps:
        return f"no steps: {result.run.status}"
    if result.run.environment.emulated:
        return "an emulated device"
    single = sum(time is not None for time in result.run.step_times) == 1
    if single:
        return "a single record"
    return "no steady state"


def loss(view: View, model: ModelComparison, chart: Chart) -> Iterator[Part]:
    """Yield the charts of loss over tokens and over time, and their table."""
    rows: list[list[Content]] = []
    ends = final_losses([each.system for each in view.of_model(model)])
    for each, final in zip(view.of_model(model), ends, strict=True):
        known = (
            value
            for index in each.runs
            for value in view.runs[index].result.run.loss_values
            if value is not None
        )
        first = next(known, None)
        data = each.system.run.data
        if first is not None:
            end = Link(final, evidence.title_anchor(each, "Loss at the end"))
            entropy = units.UNKNOWN if data.entropy is None else f"{data.entropy:.4g}"
            rows.append([each.name, f"{first:.4g}", end, entropy, data.kind or "not reported"])
    if rows:
        yield chart(
            "loss-tokens", "Loss over tokens; the table below has the first and the last values"
        )
        yield chart(
            "loss-wall",
            "Loss over training time; the table below has the first and the last values",
        )
        header = ["System", "First", "At the end", "Entropy of the data", "Data"]
        caption = f"Loss of {model.title}, nats/token"
        yield Fold("Table: loss", [Paragraph(document.LOSS), Table(header, rows, caption=caption)])


def memory(view: View, model: ModelComparison, chart: Chart) -> Iterator[Part]:
    """Yield the chart of each kind of memory; the results table has its values."""
    if any(tables.memory_rows(group) for group in model.groups):
        yield chart("memory", "Memory by kind; the results table has the values")
        yield Paragraph(document.MEMORY, "hint")


def times(view: View, model: ModelComparison, chart: Chart) -> Iterator[Part]:
    """Yield a bar for each run, of the parts of its wall time, and their tables; nothing without a
    clock.
    """
    found = [account for group in model.groups for account in target.accounts(group)]
    if not found:
        return
    longest = max(account.whole for _, _, account in found)
    bars = []
    for name, file, each in found[: charts.MOST_SYSTEMS]:
        bars.append(
            (
                f"{plain(name)}, {plain(PurePath(file).name)}",
                units.duration(each.whole),
                each.whole / longest,
                each.shares,
            )
        )
    parts = [part for part in PARTS if any(part in each.parts for _, _, each in found)]
    yield Control("times", {"runs": bars, "parts": parts})
    yield Fold("Table: wall time", list(target.blocks(view.comparison, model)))


def breakdown(view: View, model: ModelComparison, chart: Chart) -> Iterator[Part]:
    """Yield where the time goes; nothing if no two runs report it."""
    explanation = explain.of_model(model)
    if explanation is not None:
        look = explain.look_first(explanation)
        yield Paragraph(
            f"{explain.headline(explanation)}. {f'Start with: {look}.' if look else ''}".strip()
        )
        yield from notes([*explain.reasons(explanation), *explain.caveats(explanation)])
        yield chart(
            "waterfall", "The difference of the step times by part; the table below has the values"
        )
        yield Fold(
            "Table: parts of a step",
            [explain.table(explanation, f"Parts of a step of {model.title}")],
        )
        for table, title in explain.details(explanation):
            yield Fold(f"Operators: {title}", [table])
    if charts.breakdown(model) is not None:
        yield chart("breakdown", "Shares of the time; the table below has the values")
    for table, note in breakdowns(model, f"Parts of the time of {model.title}"):
        yield from (table, Paragraph(note))


def pairs(view: View) -> list[Pair]:
    """Return the pairs that the page shows in detail, those of the headlines first."""
    leaders = [answer.group.leaders for answer in view.answers if answer.group.leaders is not None]
    first = set(leaders)
    return [*leaders, *(pair for pair in view.pairs if pair not in first)]


_STATUSES = {
    "blocking": "Workload mismatch",
    "different": "Different",
    "unknown": "Not reported by both",
    "equal": "Same on both",
}


def config_diff(view: View) -> Iterator[Part]:
    """Yield every setting of each pair; that of the first headline is printed."""
    every = pairs(view)
    for number, pair in enumerate(every[:MOST_PAIRS]):
        names = [view.title(view.of(system)) for system in (pair.system, pair.baseline)]
        parts = []
        for status, title in _STATUSES.items():
            rows = []
            for entry in pair.config_diff.entries:
                if entry.status == status:
                    rows.append(
                        [entry.title, *(text or units.UNKNOWN for text in reversed(entry.values))]
                    )
            if rows:
                parts.append(
                    Table(
                        ["Setting", *names], rows, caption=f"{title} ({len(rows)})", right_from=99
                    )
                )
        title = f"{' vs '.join(names)}: {pair.config_diff.verdict}"
        yield Fold(title, parts, is_open=number == 0)
    if len(every) > MOST_PAIRS:
        yield Paragraph(f"{len(every) - MOST_PAIRS} more pairs: compare fewer results at a time.")


def method(view: View) -> Iterator[Part]:
    """Yield how the results were computed, and how much depends on the choice of steps."""
    yield Paragraph(
        "Throughput is the work of a step divided by the mean step time and the number of GPUs,"
        " over all steps after the warm-up; of several runs, the geometric mean. Warm-up is"
        " detected only from the step times."
    )
    for model in view.comparison.models:
        if model.pairs:
            title = f"Comparisons, {model.title}" if view.several_models else "Comparisons"
            yield Notes([document.compared(pair) for pair in model.pairs[:MOST_PAIRS]], title)
        yield from document.beside_published(model)
        yield from document.judgements(model)
        for group in model.groups:
            yield from windows.section(view, group)


def warnings(view: View) -> Iterator[Part]:
    """Yield notes on the results as a whole, and the warnings that the tables refer to."""
    yield from notes(view.comparison.notes)
    if entries := view.footnotes.entries():
        yield Footnotes(entries)
