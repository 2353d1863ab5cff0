"""The sections of the page, from the verdict to the ledger, as HTML."""

from __future__ import annotations

from tprimat import units
from tprimat.compare import Group, ModelComparison, RunResult
from tprimat.report import document, published, tables
from tprimat.report import verdict as words
from tprimat.report.breakdown import breakdowns
from tprimat.report.html_blocks import block_text, escape
from tprimat.report.page import charts, evidence, facts, library, sliders
from tprimat.report.page.markup import BESIDE, bullets, cell, details, evidence_link, paragraph, table
from tprimat.report.page.view import View, first_steady
from tprimat.report.rates import rate, rate_unit, untimed


def verdict(view: View) -> str:
    """Who, how much, how sure, whether it is fair and possible; why; what to do next."""
    parts = []
    for model in view.comparison.models:
        if view.several_models:
            parts.append(f"<h3>{escape(model.title)}</h3>")
        for group, answer in zip(model.groups, words.answers(model), strict=True):
            anchor = view.pair_anchor(group.pairs[0]) if group.pairs else f"s{view.of(group.sides[0]).index}"
            link = f' <a class="why" href="#{anchor}">evidence</a>'
            parts.append(f'<p class="headline">{escape(answer.headline)}{link}</p>')
            parts.append(paragraph(" ".join(answer.brief)))
            entries = "".join(
                f"<dt>{escape(title)}</dt>{''.join(f'<dd>{escape(text)}.</dd>' for text in texts)}"
                for title, texts in facts.facts(view.comparison, group)
            )
            parts.append(f"<dl>{entries}</dl>" if entries else "")
            for title, texts in (("Why", answer.why), ("What to do next", answer.next)):
                if texts:
                    parts.append(f"<h4>{title}</h4>{bullets(texts)}")
    if view.comparison.notes:
        parts.append(f"<h4>Notes</h4>{bullets(view.comparison.notes)}")
    return "\n".join(parts)


def figures(view: View, model: ModelComparison) -> str:
    """The table of all sides, each figure with a link to its evidence."""
    parts = []
    for group in model.groups:
        found = [
            *tables.speed_rows(group, view.footnotes),
            *tables.worth_rows(view.comparison, group),
            *tables.memory_rows(group),
        ]
        parts.append(_grid(view, group, found, f"Figures of {model.title}"))
    said = published.beside(model)
    if said:
        parts.append(
            f"<p>Beside published figures of the same GPU, model, precision and sequence length:</p>{bullets(said)}"
        )
    return "\n".join(parts)


def _grid(view: View, group: Group, rows: list[tables.Row], caption: str) -> str:
    """Sides beside each other, or below each other where there are many; each figure leads to its evidence."""
    placed = [view.of(side) for side in group.sides]
    ratios = {id(pair.side): view.pair_anchor(pair) for pair in group.pairs}

    def text(row: tables.Row, index: int) -> str:
        anchor = evidence.title_anchor(placed[index], row.title)
        if row.title == "Against the reference":
            anchor = ratios.get(id(group.sides[index]), anchor)
        missing = row.cells[index].text in (units.UNKNOWN, untimed(group.sides[index]))
        return cell(view, row.cells[index], "" if missing else anchor)

    if len(placed) <= BESIDE:
        body = [[escape(row.title), *(text(row, index) for index in range(len(placed)))] for row in rows]
        return table(["", *(escape(each.name) for each in placed)], body, caption=caption)
    body = [[escape(each.name), *(text(row, index) for row in rows)] for index, each in enumerate(placed)]
    return table(["", *(escape(row.title) for row in rows)], body, caption=caption, many=True)


def _chart(found: library.Library | None, kind: str, model: ModelComparison, view: View, text: str) -> str:
    """The place of a chart, with what it shows in words."""
    number = next(index for index, each in enumerate(view.comparison.models) if each is model)
    if found is None:
        return ""
    return (
        f'<figure><div class="chart" id="{kind}-{number}" role="img" aria-label="{escape(text)}"></div>'
        f'<figcaption id="{kind}-{number}-note"></figcaption></figure>'
    )


def throughput(view: View, model: ModelComparison, found: library.Library | None) -> str:
    """The chart of rates with their intervals, and its table."""
    placed = view.of_model(model)
    unit = rate_unit([each.side for each in placed])
    rows = []
    for each in placed:
        for title, value, low, high, what in charts.throughput_rows(each):
            name = f"{each.name}, {title}" if title else each.name
            bounds = units.UNKNOWN if low is None or high is None else f"{rate(low)}–{rate(high)}"
            figure = evidence_link(rate(value), f"s{each.index}") if value is not None else untimed(each.side)
            rows.append([escape(name), figure, escape(bounds), escape(what)])
    text = table(["Side", escape(unit), "Bounds", "What they are"], rows, caption=f"Throughput of {model.title}")
    return _chart(found, "throughput", model, view, "Bars of throughput; the table below holds them") + details(
        "Table: throughput", text
    )


def steps(view: View, model: ModelComparison, found: library.Library | None) -> str:
    """The chart of step times, its table, and the sliders for another window."""
    rows: list[list[str]] = []
    for each in view.of_model(model):
        for index in each.runs:
            result = view.runs[index].result
            name = each.name if len(each.runs) == 1 else f"{each.name}, run {view.runs[index].number}"
            emulated = result.run.environment.emulated
            warm = untimed(each.side) if emulated else units.duration(_before(result))
            rows += [
                [
                    f'<a class="figure" href="#r{index}">{escape(name)}</a>',
                    f"{level.first_step}–{level.last_step}",
                    units.seconds(level.mean),
                    units.seconds(level.median),
                    f"{level.outliers} ({level.outlier_share:.1%})",
                    units.UNKNOWN if level.drift is None else f"{level.drift:.1%}",
                    warm,
                ]
                for level in result.summary.segments
            ]
            if not result.summary.segments:
                timed = sum(time is not None for time in result.run.step_times)
                said = "a single record" if timed == 1 else "no steady state was found"
                said = "an emulated device" if emulated else said
                said = said if result.run.steps else f"no steps: {result.run.status}"
                time = result.summary.performance.avg_step_time_seconds
                step = untimed(each.side) if time is None else units.seconds(time)
                rows.append([escape(name), said, step, *[units.UNKNOWN] * 3, warm])
    header = ["Run", "Level: steps", "Mean", "Median", "Spikes (share of time)", "Drift", "Before the steady steps"]
    parts = [_chart(found, "steps", model, view, "Lines of step time over the steps; the tables below hold them")]
    parts.append(details("Table: levels of the runs", table(header, rows, caption=f"Levels of {model.title}")))
    parts += [sliders.section(view, group) for group in model.groups]
    return "\n".join(filter(None, parts))


def _before(result: RunResult) -> float | None:
    """Seconds of the steps before all that the figures are of; before the first level, where there are several."""
    cut = first_steady(result)
    times = zip(result.run.step_times[:cut], result.run.window_steps[:cut], strict=True)
    return sum(time * window for time, window in times if time is not None) if result.run.steps else None


def loss(view: View, model: ModelComparison, found: library.Library | None) -> str:
    """The charts of loss over tokens and over time, and their table."""
    rows = []
    for each in view.of_model(model):
        values = [
            value for index in each.runs for value in view.runs[index].result.run.loss_values if value is not None
        ]
        if not values:
            continue
        final, floor = each.side.value("final_loss"), each.side.run.data.entropy
        rows.append(
            [
                escape(each.name),
                f"{values[0]:.4g}",
                evidence_link(
                    units.UNKNOWN if final is None else f"{final:.4g}",
                    evidence.title_anchor(each, "Loss, last ten steps"),
                ),
                units.UNKNOWN if floor is None else f"{floor:.4g}",
                escape(each.side.run.data.kind or "not stated"),
            ]
        )
    if not rows:
        return "<p>No run recorded its loss.</p>"
    header = ["Side", "First", "Mean of the last ten", "Entropy of the data", "Data"]
    text = table(header, rows, caption=f"Loss of {model.title}, nats/token")
    said = (
        "<p>Loss is shown and not compared: which training is the better one depends on data, learning rates and seeds "
        "too.</p>"
    )
    return "".join(
        [
            said,
            _chart(found, "loss-tokens", model, view, "Lines of loss over tokens; the table below holds their ends"),
            _chart(found, "loss-wall", model, view, "Lines of loss over time; the table below holds their ends"),
            details("Table: loss", text),
        ]
    )


def memory(view: View, model: ModelComparison, found: library.Library | None) -> str:
    """The chart of each kind of memory, and its table."""
    parts = []
    for group in model.groups:
        rows = tables.memory_rows(group)
        if rows:
            parts.append(_grid(view, group, rows, f"Memory of {model.title}"))
    if not parts:
        return "<p>No side states any memory.</p>"
    return "".join(
        [
            "<p>Allocated and reserved are counted by torch's allocator, in use on the device by the driver, other "
            "processes included: three different things, which can't be set against each other.</p>",
            _chart(found, "memory", model, view, "Bars of memory by kind; the table below holds them"),
            details("Table: memory", "\n".join(parts)),
        ]
    )


def breakdown(view: View, model: ModelComparison, found: library.Library | None) -> str:
    """Where the time goes; nothing where no two runs say it."""
    parts = []
    for each in breakdowns(model):
        rows = [[escape(title), *map(escape, cells)] for title, cells in each.rows]
        parts.append(table(["", *map(escape, each.names)], rows, caption=f"Parts of the time of {model.title}"))
        parts.append(paragraph(each.note))
    if parts and charts.breakdown(view, model) is not None:
        parts.insert(
            0, _chart(found, "breakdown", model, view, "Bars of shares of the time; the table below holds them")
        )
    return "\n".join(parts)


_STANDINGS = {
    "disqualifying": "✕ forbids it",
    "different": "≠ different",
    "unknown": "? unknown",
    "equal": "= equal",
}


def ledger(view: View) -> str:
    """Every setting of each pair side by side, and what the judge found."""
    if not view.pairs:
        return "<p>There is nothing to set a single side against.</p>"
    parts = []
    for number, pair in enumerate(view.pairs):
        one, other = view.of(pair.reference), view.of(pair.side)
        rows = [
            [
                escape(entry.title),
                f'<span class="state">{_STANDINGS[entry.standing]}</span>',
                *(escape(text or "not stated") for text in entry.values),
            ]
            for entry in pair.ledger.entries
        ]
        caption = f"{other.name} against {one.name}: {pair.ledger.verdict}"
        body = table(["Setting", "", escape(one.name), escape(other.name)], rows, caption=caption, right_from=99)
        answer = {True: "The same training", False: "Not the same training", None: "Same training or not: not decided"}
        if pair.training.reasons:
            body += paragraph(f"{answer[pair.training.same]}: {'; '.join(pair.training.reasons)}.")
        parts.append(details(caption, body, open_=number == 0))
    findings = "\n".join(
        block_text(block, None, view.referred)
        for model in view.comparison.models
        for block in document.judgements(model)
    )
    return "\n".join(parts) + findings
