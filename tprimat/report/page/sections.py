"""The sections of the page, from the verdict to the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tprimat import units
from tprimat.compare import Group, ModelComparison, RunResult
from tprimat.report import document, tables
from tprimat.report import verdict as words
from tprimat.report.blocks import Block, Content, Heading, Link, Marks, Paragraph, Styled, Table, plain_bullets
from tprimat.report.breakdown import breakdowns
from tprimat.report.page import charts, evidence, facts, windows
from tprimat.report.page.markup import Fold, Part, escape
from tprimat.report.page.view import View
from tprimat.report.rates import first_counted, rate, rate_unit, untimed

Chart = Callable[[str, str], Part]
"""The place of a chart, by its kind, with what it shows in words; nothing where there are no charts."""


def verdict(view: View) -> Iterator[Part]:
    """Who, how much, how sure, whether it is fair and possible; why; what to do next."""
    for model in view.comparison.models:
        if view.several_models:
            yield Heading(3, model.title)
        for group, answer in zip(model.groups, words.answers(model), strict=True):
            anchor = view.pair_anchor(group.pairs[0]) if group.pairs else f"s{view.of(group.sides[0]).index}"
            yield Paragraph([answer.headline, " ", Link("evidence", anchor, "why")], "headline")
            yield Paragraph(" ".join(answer.brief))
            entries = "".join(
                f"<dt>{escape(title)}</dt>{''.join(f'<dd>{escape(text)}.</dd>' for text in texts)}"
                for title, texts in facts.facts(view.comparison, group)
            )
            yield entries and f"<dl>{entries}</dl>"
            yield from _list("Why", answer.why)
            yield from _list("What to do next", answer.next)
    yield from _list("Notes", view.comparison.notes)


def _list(title: str, texts: tuple[str, ...]) -> list[Block]:
    return [Heading(4, title), plain_bullets(texts)] if texts else []


def figures(view: View, model: ModelComparison) -> Iterator[Part]:
    """The table of all sides, each figure with a link to its evidence."""
    for group in model.groups:
        rows = [
            *tables.speed_rows(group, view.footnotes),
            *tables.worth_rows(view.comparison, group),
            *tables.memory_rows(group),
        ]
        yield _grid(view, group, rows, f"Figures of {model.title}")
    yield from document.beside_published(model)


def _grid(view: View, group: Group, rows: list[tables.Row], caption: str) -> Table:
    """A table in which each figure leads to its evidence."""
    ratios = {id(pair.side): view.pair_anchor(pair) for pair in group.pairs}

    def cell(row: tables.Row, index: int) -> Content:
        side, found = group.sides[index], row.cells[index]
        anchor = evidence.title_anchor(view.of(side), row.title)
        if row.title == "Against the reference":
            anchor = ratios.get(id(side), anchor)
        missing = found.text in (units.UNKNOWN, untimed(side))
        return [Link(found.text, "" if missing else anchor), Marks(found.notes)]

    return tables.grid([view.of(side).name for side in group.sides], rows, cell, caption=caption)


def throughput(view: View, model: ModelComparison, chart: Chart) -> Iterator[Part]:
    """The chart of rates with their intervals, and its table."""
    placed = view.of_model(model)
    rows: list[list[Content]] = []
    for each in placed:
        for bar in charts.throughput_bars(each):
            bounds = units.UNKNOWN if bar.low is None else f"{rate(bar.low)}–{rate(bar.high)}"
            figure = untimed(each.side) if bar.value is None else Link(rate(bar.value), f"s{each.index}")
            rows.append([f"{each.name}, {bar.title}" if bar.title else each.name, figure, bounds, bar.what])
    yield chart("throughput", "Bars of throughput; the table below holds them")
    header = ["Side", rate_unit([each.side for each in placed]), "Bounds", "What they are"]
    yield Fold("Table: throughput", [Table(header, rows, caption=f"Throughput of {model.title}")])


def steps(view: View, model: ModelComparison, chart: Chart) -> Iterator[Part]:
    """The chart of step times, its table, and the sliders for another window."""
    rows: list[list[Content]] = []
    for each in view.of_model(model):
        for index in each.runs:
            result = view.runs[index].result
            name = each.name if len(each.runs) == 1 else f"{each.name}, run {view.runs[index].number}"
            emulated = result.run.environment.emulated
            before = untimed(each.side) if emulated else units.duration(_before(result))
            rows += [
                [
                    Link(name, f"r{index}"),
                    f"{level.first_step}–{level.last_step}",
                    units.seconds(level.mean),
                    units.seconds(level.median),
                    f"{level.outliers} ({level.outlier_share:.1%})",
                    units.UNKNOWN if level.drift is None else f"{level.drift:.1%}",
                    before,
                ]
                for level in result.summary.segments
            ]
            if not result.summary.segments:
                time = result.summary.performance.avg_step_time_seconds
                step = untimed(each.side) if time is None else units.seconds(time)
                rows.append([name, _why_no_level(result), step, *[units.UNKNOWN] * 3, before])
    header = ["Run", "Level: steps", "Mean", "Median", "Spikes (share of time)", "Drift", "Before the steady steps"]
    yield chart("steps", "Lines of step time over the steps; the tables below hold them")
    yield Fold("Table: levels of the runs", [Table(header, rows, caption=f"Levels of {model.title}")])
    for group in model.groups:
        yield from windows.section(view, group)


def _why_no_level(result: RunResult) -> str:
    if not result.run.steps:
        return f"no steps: {result.run.status}"
    if result.run.environment.emulated:
        return "an emulated device"
    single = sum(time is not None for time in result.run.step_times) == 1
    return "a single record" if single else "no steady state was found"


def _before(result: RunResult) -> float | None:
    """Seconds of the steps before all that the figures are of; before the first level, where there are several."""
    cut = first_counted(result)
    times = zip(result.run.step_times[:cut], result.run.window_steps[:cut], strict=True)
    return sum(time * window for time, window in times if time is not None) if result.run.steps else None


def loss(view: View, model: ModelComparison, chart: Chart) -> Iterator[Part]:
    """The charts of loss over tokens and over time, and their table."""
    rows: list[list[Content]] = []
    for each in view.of_model(model):
        known = (value for index in each.runs for value in view.runs[index].result.run.loss_values if value is not None)
        first, final, data = next(known, None), each.side.value("final_loss"), each.side.run.data
        if first is not None:
            end = Link(_nats(final), evidence.title_anchor(each, "Loss, last ten steps"))
            rows.append([each.name, _nats(first), end, _nats(data.entropy), data.kind or "not stated"])
    if not rows:
        yield Paragraph("No run recorded its loss.")
        return
    yield Paragraph(document.LOSS)
    yield chart("loss-tokens", "Lines of loss over tokens; the table below holds their ends")
    yield chart("loss-wall", "Lines of loss over time; the table below holds their ends")
    header = ["Side", "First", "Mean of the last ten", "Entropy of the data", "Data"]
    yield Fold("Table: loss", [Table(header, rows, caption=f"Loss of {model.title}, nats/token")])


def _nats(value: float | None) -> str:
    return units.UNKNOWN if value is None else f"{value:.4g}"


def memory(view: View, model: ModelComparison, chart: Chart) -> Iterator[Part]:
    """The chart of each kind of memory, and its table."""
    found = [(group, rows) for group in model.groups if (rows := tables.memory_rows(group))]
    if not found:
        yield Paragraph(document.NO_MEMORY)
        return
    yield Paragraph(document.MEMORY)
    yield chart("memory", "Bars of memory by kind; the table below holds them")
    yield Fold("Table: memory", [_grid(view, group, rows, f"Memory of {model.title}") for group, rows in found])


def breakdown(view: View, model: ModelComparison, chart: Chart) -> Iterator[Part]:
    """Where the time goes; nothing where no two runs say it."""
    if charts.breakdown(model) is not None:
        yield chart("breakdown", "Bars of shares of the time; the table below holds them")
    for table, note in breakdowns(model, f"Parts of the time of {model.title}"):
        yield from (table, Paragraph(note))


_STANDINGS = {
    "disqualifying": "✕ forbids it",
    "different": "≠ different",
    "unknown": "? unknown",
    "equal": "= equal",
}


def ledger(view: View) -> Iterator[Part]:
    """Every setting of each pair side by side, and what the judge found."""
    if not view.pairs:
        yield Paragraph("There is nothing to set a single side against.")
        return
    for number, pair in enumerate(view.pairs):
        one, other = view.of(pair.reference).name, view.of(pair.side).name
        rows: list[list[Content]] = [
            [entry.title, Styled(_STANDINGS[entry.standing], "state"), *(text or "not stated" for text in entry.values)]
            for entry in pair.ledger.entries
        ]
        caption = f"{other} against {one}: {pair.ledger.verdict}"
        parts: list[Part] = [Table(["Setting", "", one, other], rows, caption=caption, right_from=99)]
        if pair.training.reasons:
            text = document.same_training(pair.training)
            parts.append(Paragraph(f"{text[0].upper()}{text[1:]}."))
        yield Fold(caption, parts, is_open=number == 0)
    for model in view.comparison.models:
        yield from document.judgements(model)
