"""Comparison -> the blocks of its first screen: who is faster, by how much, how sure that is, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tprimat import units
from tprimat.analysis.intervals import level
from tprimat.compare import Caveat, Comparison, Group, ModelComparison, SystemResult
from tprimat.compare.caveats import CODES
from tprimat.compare.systems import short_device
from tprimat.report import explain, tables, verdict
from tprimat.report.blocks import DETAIL, Block, Headline, NextSteps, Paragraph, Table, notes
from tprimat.report.breakdown import breakdowns
from tprimat.report.rates import rate_of, rate_unit
from tprimat.report.verdict import Answer, Report, speedup_text
from tprimat.text import join_names, plain, shortened

MOST_EXCLUDED = 3
MOST_CAVEATS = 4
MOST_ROWS = 20
"""Systems or models in a table; --verbose and the report have all."""

COLUMN = 16
"""Characters of a name that shares a line with many columns."""


def blocks(report: Report) -> Iterator[Block]:
    """Yield the answer of each group; one answer where two systems trained several models."""
    comparison, answers = report.comparison, report.answers
    if report.headline:
        context = [f"{len(comparison.models)} models", tables.shared(comparison)]
        yield Headline(report.headline, context=", ".join(filter(None, context)))
        yield _models_table(answers)
        yield from _costs(comparison, answers)
        yield from _closing(answers)
        return
    for answer in answers:
        text, about = answer.verdict.headline, filter(None, [answer.model.title, tables.shared(comparison)])
        alone = _titled(answer, text) if len(answers) > 1 else ""
        yield Headline(text, answer.verdict.certainty, ", ".join(about), alone)
        yield from _group_table(comparison, answer.group)
        yield from _costs(comparison, [answer])
        yield from _where_time_goes(answer)
        yield from _closing([answer])


def verdicts(report: Report) -> Iterator[Block]:
    """Yield each answer in a sentence or two, and what it costs."""
    several = len(report.comparison.models) > 1
    for answer in report.answers:
        text = answer.verdict.headline
        yield Headline(_titled(answer, text) if several else text, answer.verdict.certainty)
        yield from _costs(report.comparison, [answer])


def _titled(answer: Answer, text: str) -> str:
    return f"{answer.model.title}: {text}"


def _models_table(answers: Sequence[Answer]) -> Table:
    """Return a row for each model of two systems."""
    names = [system.name for system in sorted(answers[0].group.systems, key=lambda system: system.name)]
    every = [system for answer in answers for system in answer.group.systems]
    short = _short_names(every)
    rows = []
    for answer in answers:
        rates = {system.name: rate_of(system) for system in answer.group.systems}
        leaders = answer.group.leaders
        assert leaders is not None
        is_equal = leaders.speedup is not None and leaders.speedup.is_significant is False
        rows.append(
            [
                shortened(answer.model.short_title, 24),
                *(rates.get(name, units.UNKNOWN) for name in names),
                units.UNKNOWN if is_equal else short[leaders.faster.name],
                speedup_text(leaders.speedup),
            ]
        )
    return Table([rate_unit(every), *names, "faster", f"speedup [{level()} CI]"], rows, most=MOST_ROWS)


def _short_names(systems: Sequence[SystemResult]) -> dict[str, str]:
    """Return a name of at most a column for each system: its GPU's first word where that is enough."""
    words = {system.name: short_device(system.gpu).split()[0] if system.gpu else system.name for system in systems}
    distinct = len(set(words.values())) == len(words)
    return {name: word if distinct else shortened(name, COLUMN) for name, word in words.items()}


def _group_table(comparison: Comparison, group: Group) -> Iterator[Block]:
    """Yield the table of a group: systems as columns where there are two, else as rows."""
    rows = tables.screen_rows(comparison, group)
    mismatches = tables.mismatch_rows(group)
    is_empty = all(cell.text == units.UNKNOWN for row in rows for cell in row.cells)
    if is_empty and (len(group.systems) == 1 or not mismatches):
        return
    names = [plain(system.name) for system in group.systems]
    if len(group.systems) <= 2:
        leaders, header = group.leaders, ["", *names]
        shown = rows if leaders else [*rows, *mismatches]
        cells = [[row.title, *(cell.text for cell in row.cells)] for row in shown]
        if leaders is not None:
            short = _short_names(group.systems)
            header.append(f"{short[leaders.faster.name]} / {short[leaders.slower.name]}")
            speedup = speedup_text(leaders.speedup).partition(" ")[0]
            cells = [[*row, "" if number else speedup] for number, row in enumerate(cells)]
        yield Table(header, cells)
        return
    speedups = {id(pair.system): tables.versus(pair) for pair in group.pairs}
    cells = [
        [name, *(row.cells[index].text for row in rows), speedups.get(id(system), "baseline")]
        for index, (name, system) in enumerate(zip(names, group.systems, strict=True))
    ]
    has_interval = any(pair.ratio and pair.ratio.low is not None for pair in group.pairs)
    versus = f"vs baseline [{level()} CI]" if has_interval else "vs baseline"
    yield Table(["", *(row.short for row in rows), versus], cells, most=MOST_ROWS)


def _costs(comparison: Comparison, answers: Sequence[Answer]) -> Iterator[Block]:
    """Yield which system costs least per token, where there are prices."""
    if comparison.prices:
        yield from (Paragraph(f"Cost: {text}.", DETAIL) for text in verdict.cost_texts(comparison, answers))


def _where_time_goes(answer: Answer) -> Iterator[Block]:
    """Yield in a sentence why the slower system is slower; where there is no answer, all that is known of the time."""
    explanation = explain.of_model(answer.model)
    if answer.group.leaders is None:
        if explanation is not None:
            yield from explain.document(explanation).screen
        yield from time_tables(answer.model, kernels=False)
    elif explanation is not None:
        yield Paragraph(f"Profile: {explain.brief(explanation)}.", DETAIL)


def time_tables(model: ModelComparison, *, kernels: bool) -> Iterator[Block]:
    """Yield where the time of a step goes, of runs that have a breakdown, with or without single kernels."""
    for table, note in breakdowns(model):
        rows = [row for row in table.rows if kernels or not str(row[0]).startswith("kernel")]
        yield from (Table(["Where the time goes", *table.header[1:]], rows), Paragraph(note))


def _closing(answers: Sequence[Answer]) -> Iterator[Block]:
    """Yield excluded systems, explanations, caveats, and the next step."""
    for group, answer in ((each.group, each.verdict) for each in answers):
        yield from notes(answer.excluded, marks="", most=MOST_EXCLUDED)
        exclusions = [(system.name, system.exclusion) for system in group.systems if system.exclusion]
        for name, exclusion in exclusions[:MOST_EXCLUDED] if answer.standing == "excluded" else ():
            # The report has the sources.
            texts = [re.sub(r" \(https?://\S+\)", "", text) for text in exclusion.explanations[:3]]
            title = f"Possible explanations for {name}, most likely first"
            yield from notes(texts, title, [f"{number}." for number in range(1, len(texts) + 1)])
    found = caveats(answers)
    yield from notes(list(found), "Caveats", [mark(each) for each in found.values()], MOST_CAVEATS)
    if steps := list(dict.fromkeys(step for answer in answers for step in answer.verdict.next_steps)):
        yield NextSteps(steps)


def caveats(answers: Sequence[Answer]) -> dict[str, Caveat]:
    """Return the caveats by their texts, each with the models where it isn't of all: the first of each code first."""
    titles: dict[tuple[str, str], list[str]] = {}
    found: dict[tuple[str, str], Caveat] = {}
    for answer in answers:
        for each in answer.verdict.caveats:
            key = (each.code, each.text)
            found.setdefault(key, each)
            titles.setdefault(key, []).append(answer.model.title)
    ordered = sorted(found, key=lambda key: CODES.index(key[0]))
    first = {code: (code, text) for code, text in reversed(ordered)}.values()
    keys = sorted(ordered, key=lambda key: key not in first)
    return {_concerning(found[key], titles[key], len(answers)): found[key] for key in keys}


def _concerning(caveat: Caveat, titles: Sequence[str], answers: int) -> str:
    models = list(dict.fromkeys(titles))
    return caveat.text if len(titles) == answers else f"{caveat.text} ({join_names(models)})"


def mark(caveat: Caveat) -> str:
    """Return what stands before a caveat on a screen."""
    return "!" if caveat.severity == "warning" else "i"
