"""Comparison -> the blocks of its first screen: which system is faster, by how much, how certain
that is, and what to do next.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from tprimat import units
from tprimat.analysis.intervals import level
from tprimat.checks import training
from tprimat.compare import Caveat, Comparison, Group, ModelComparison, SystemResult
from tprimat.compare.caveats import CODES
from tprimat.compare.speedup import kind_of_device
from tprimat.compare.systems import device_name
from tprimat.notes import Note
from tprimat.notes.catalogue import sentence, words
from tprimat.report import explain, rates, tables, target, verdict
from tprimat.report.blocks import (
    DETAIL,
    Blocks,
    Distinct,
    Document,
    Heading,
    Headline,
    NextSteps,
    Paragraph,
    Table,
    notes,
)
from tprimat.report.breakdown import breakdowns
from tprimat.report.rates import RATE, Systems, rate_of, rate_unit
from tprimat.report.verdict import Answer, Report, speedup_text
from tprimat.text import counted, join_names, plain, shortened

_IN_PARENTHESES = re.compile(r" [(][^()]{1,200}[)]$")

MOST_EXCLUDED = 3
MOST_CAVEATS = 4
MOST_ROWS = 20
"""Most systems or models in a table; --verbose and the report have all."""

FEW_ROWS, FEW_CAVEATS, FEW_EXCLUDED, MOST_OTHERS, FEW_ANSWERS = 4, 2, 2, 3, 2
"""Most systems in the table, caveats, reasons for systems that aren't compared, and other results
on a screen with several answers. FEW_ANSWERS: if no model has an answer, each is shown with its
reasons up to this number of models.
"""

COLUMN, LONGEST_RATIO = 16, 20
"""Most characters of a name that shares a line with many columns, and of two names above a
ratio.
"""


def blocks(report: Report) -> Blocks:
    """Yield the first answer and a row for each other one; one answer if two systems trained
    several models.
    """
    comparison = report.comparison
    answers = report.answers
    if report.headline:
        context = [f"{len(comparison.models)} models", tables.shared(comparison)]
        yield Headline(report.headline, context=", ".join(filter(None, context)))
        yield from tables.explained(_models_table(answers))
        yield from _costs(comparison, answers)
        yield from _closing(answers)
        return
    if all(answer.group.leaders is None for answer in answers) and len(answers) <= FEW_ANSWERS:
        for answer in answers:
            yield from _answer(comparison, answer)
        return
    first, *more = answers
    yield from _answer(comparison, first, is_first=bool(more))
    texts = []
    marks = []
    for answer in sorted(more, key=lambda answer: answer.group.leaders is None):
        texts.append(f"{answer.group.title}: {_brief(answer)}")
        is_doubtful = answer.verdict.standing in ("unknown", "unsettled")
        if is_doubtful or "!" in map(mark, answer.verdict.caveats):
            marks.append("!")
        else:
            marks.append("-")
    yield from notes(texts, "Other results", marks, MOST_OTHERS)


def _brief(answer: Answer) -> str:
    """Return an answer in one line, or why there is none."""
    group = answer.group
    leaders = group.leaders
    if leaders is not None:
        short = _short_names(group.systems)
        certainty = answer.verdict.certainty
        if answer.verdict.standing == "unknown" and leaders.ratio is not None:
            certainty = verdict.measured(leaders, leaders.ratio)
        text = f"{short[leaders.system.name]} vs {short[leaders.baseline.name]} {certainty}"
        for finding in (*leaders.system.findings, *leaders.baseline.findings):
            if finding.rule == "synthetic-data" and training.is_mock(finding.note):
                return f"{text}; probably mock data"
        return text
    if len(group.systems) > 1:
        reasons = sentence(map(verdict.in_brief, group.pairs[0].reasons))
        # A row has no room for what stands in parentheses at the end.
        return f"{len(group.systems)} systems: {_IN_PARENTHESES.sub('', reasons)}"
    (system,) = group.systems
    text = f"only {system.name}"
    if system.exclusion:
        return f"{text}; {words(system.exclusion.note)}"
    if system.is_untimed:
        return f"{text}, which {rates.why_untimed(system)}"
    if system.value(RATE):
        return f"{text}, {rate_of(system)} {rate_unit([system])}"
    return text


def others(report: Report) -> Blocks:
    """Yield in full the answers that have only a row on the first screen."""
    for answer in () if report.headline else report.answers[1:]:
        yield Heading(3, answer.group.title)
        untitled = dataclasses.replace(answer, group=dataclasses.replace(answer.group, title=""))
        yield from _answer(report.comparison, untitled)


def _answer(comparison: Comparison, answer: Answer, *, is_first: bool = False) -> Blocks:
    """Yield an answer; the title says that others follow below the first one."""
    group = answer.group
    text = answer.verdict.headline
    about = [group.title, tables.shared(comparison, group.systems)]
    if count := _shared_count(group):
        about.append(f"{counted(count, kind_of_device(group.systems))} each")
    context = ", ".join(filter(None, about))
    if is_first:
        context += " (other results below)"
    alone = f"{group.title}: {text}" if is_first else ""
    yield Headline(text, answer.verdict.certainty, context, alone)
    if is_first:
        yield from _group_table(comparison, group, FEW_ROWS)
    else:
        yield from _group_table(comparison, group, MOST_ROWS)
    yield from _costs(comparison, [answer], is_brief=True)
    yield from target.line(group)
    yield from _where_time_goes(answer)
    if is_first:
        yield from _closing([answer], FEW_EXCLUDED, FEW_CAVEATS)
    else:
        yield from _closing([answer])


def verdicts(report: Report) -> Blocks:
    """Yield each answer in a sentence or two, and what it costs."""
    for answer in report.answers:
        text = answer.verdict.headline
        if len(report.answers) > 1:
            text = f"{answer.group.title}: {text}"
        yield Headline(text, answer.verdict.certainty)
        yield from _costs(report.comparison, [answer])


def _models_table(answers: Sequence[Answer]) -> Table:
    """Return a row for each model of two systems."""
    names = sorted(system.name for system in answers[0].group.systems)
    every: list[SystemResult] = []
    for answer in answers:
        every += answer.group.systems
    short = _short_names(every)
    rows = []
    for answer in answers:
        rates = {system.name: rate_of(system) for system in answer.group.systems}
        leaders = answer.group.leaders
        assert leaders is not None
        faster = short[leaders.faster.name]
        if leaders.speedup is not None and leaders.speedup.is_significant is False:
            faster = units.UNKNOWN
        rows.append(
            [
                shortened(answer.model.short_title, 24),
                *(rates.get(name, units.UNKNOWN) for name in names),
                faster,
                tables.versus(dataclasses.replace(leaders, ratio=leaders.speedup)),
            ]
        )
    header = [rate_unit(every), *names, "faster", f"speedup [{level()} CI]"]
    return Table(header, rows, most=MOST_ROWS)


def _short_names(systems: Systems) -> dict[str, str]:
    """Return a short name for each system: the first word of its GPU if no other system has the
    same one, else its own name.
    """
    words = {}
    for system in systems:
        words[system.name] = device_name(system.gpu).split()[0] if system.gpu else system.name
    every = list(words.values())
    for name, word in words.items():
        if every.count(word) > 1:
            words[name] = name
    return words


def _group_table(comparison: Comparison, group: Group, most: int) -> Blocks:
    """Yield the table of a group: two systems as columns; more as rows, at most `most` and the
    baseline's.
    """
    rows = _screen_rows(comparison, group)
    mismatches = tables.mismatch_rows(group)
    is_empty = all(cell.text == units.UNKNOWN for row in rows for cell in row.cells)
    if is_empty and (len(group.systems) != 2 or not mismatches):
        return
    if len(group.systems) > 2:
        yield from tables.explained(_ranking(group, rows, most))
        return
    header = ["", *_names_in_table(group)]
    if group.leaders is None:
        rows += mismatches
    lines = [[row.title, *(cell.text for cell in row.cells)] for row in rows]
    if group.leaders is not None:
        short = _short_names(group.systems)
        versus = f"{short[group.leaders.system.name]} / {short[group.leaders.baseline.name]}"
        header.append(versus if len(versus) <= LONGEST_RATIO else "ratio")
        for line in lines:
            line.append("")
        lines[0][-1] = speedup_text(group.leaders.ratio).partition(" ")[0]
    yield Table(header, lines)


def _screen_rows(comparison: Comparison, group: Group) -> list[tables.Row]:
    """Return the rows of a group that a screen has room for, without uninformative ones."""
    batches = {system.run.training_config.global_batch_size for system in group.systems}
    untold = set()
    if comparison.prices:
        # With prices, the row of the cost takes the place of the row of MFU.
        untold.add("MFU")
    if len(group.systems) > 2 and len(batches) > 1:
        # Times of steps that differ in work aren't compared.
        untold.add("step time")
    return [row for row in tables.screen_rows(comparison, group) if row.short not in untold]


def _names_in_table(group: Group) -> list[str]:
    """Return the names of the systems, without the number of GPUs if it is above the table."""
    count = _shared_count(group)
    return [plain(system.name).removeprefix(f"{count}×") for system in group.systems]


def _ranking(group: Group, rows: Sequence[tables.Row], most: int) -> Table:
    """Return a row for each of `most` systems, with its rate divided by the baseline's."""
    kept = _shown(group, most)
    first, *more = rows
    ratios = {}
    has_interval = False
    every = 1
    for pair in group.pairs:
        text = tables.versus(pair)
        # The baseline's rate is on the clock of the headline: on another one a ratio isn't that of
        # two rates beside it.
        if pair.ratio and group.leaders and pair.clocks != group.leaders.clocks:
            text += f" ({' vs '.join(pair.clocks)})"
        ratios[pair.system] = text
        has_interval |= pair.ratio is not None and pair.ratio.low is not None
        every += not group.leaders or pair.ratio is not None
    names = _names_in_table(group)
    lines = []
    for index, system in enumerate(group.systems):
        if index in kept:
            texts = [row.cells[index].text for row in more]
            ratio = ratios.get(system, "baseline")
            lines.append([names[index], first.cells[index].text, ratio, *texts])
    of = f"{len(kept)} of {every} systems" if every > len(kept) else ""
    name = _short_names(group.systems)[group.baseline.name]
    # The row of the baseline says which one it is.
    versus = f"vs {name}" if len(name) <= COLUMN else "vs baseline"
    if has_interval:
        versus += f" [{level()} CI]"
    return Table([of, first.short, versus, *(row.short for row in more)], lines)


def _shared_count(group: Group) -> int | None:
    """Return the common number of GPUs if all names begin with it; else None."""
    count = group.systems[0].count
    for system in group.systems:
        if system.count != count or not system.name.startswith(f"{count}×"):
            return None
    if len(group.systems) > 1:
        return count
    return None


def _shown(group: Group, most: int) -> set[int]:
    """Return the places of the systems that the table of a screen shows: only those that are
    compared, if any are.
    """
    shown = set(group.compared if group.leaders else group.systems)
    places = [index for index, system in enumerate(group.systems) if system in shown]
    if len(places) <= most + 1:
        return set(places)
    baseline = group.systems.index(group.baseline)
    others = [index for index in places if index != baseline]
    return {*others[: most - 1], baseline}


def _costs(comparison: Comparison, answers: Sequence[Answer], *, is_brief: bool = False) -> Blocks:
    """Yield which system costs least per token, if there are prices; in brief form below a table
    that has the prices.
    """
    if comparison.prices:
        texts = verdict.cost_texts(comparison, answers, is_brief=is_brief)
        yield from (Paragraph(text if is_brief else f"Cost: {text}.", DETAIL) for text in texts)


def timed(report: Report) -> Document:
    """Return what --time shows; with prices, also what each system costs."""
    times = target.document(report)
    answers = iter(report.answers)
    screen = []
    for part in times.screen:
        screen.append(part)
        if isinstance(part, Headline):
            answer = next(answers)
        if isinstance(part, Table) and report.comparison.prices:
            screen += _priced(report.comparison, answer.group)
            screen += _costs(report.comparison, [answer], is_brief=True)
    return dataclasses.replace(times, screen=screen)


def _priced(comparison: Comparison, group: Group) -> Blocks:
    """Yield a sentence for each kind of cost, with the systems whose prices are known."""
    rows = [row for row in tables.screen_rows(comparison, group) if row.short[:3] == "USD"]
    price, *costs = rows
    for row in costs:
        texts = []
        for system, cost, at in zip(group.systems, row.cells, price.cells, strict=True):
            if "$" in at.text:
                texts.append(f"{system.name} {cost.text} at {at.text}")
        yield Paragraph(f"{row.title}: {', '.join(texts)}", DETAIL)


def _where_time_goes(answer: Answer) -> Blocks:
    """Yield a sentence on why the slower system is slower; if there is no answer, all that is known
    about the time.
    """
    if answer.group.leaders is not None:
        yield from profile(answer)
        return
    explanation = explain.of_model(answer.model)
    if explanation is not None:
        yield from explain.document(explanation).screen
    yield from time_tables(answer.model, kernels=False)


def profile(answer: Answer) -> Blocks:
    """Yield a sentence on why the slower system is slower; nothing if that is unknown."""
    explanation = explain.of_model(answer.model)
    if explanation is not None:
        yield Paragraph(f"Profile: {explain.brief(explanation)}.", DETAIL)


def time_tables(model: ModelComparison, *, kernels: bool) -> Blocks:
    """Yield tables of what the time of a step is spent on, for runs that have a breakdown, with or
    without single kernels.
    """
    for table, note in breakdowns(model):
        header = ["Where the time goes", *table.header[1:]]
        rows = [row for row in table.rows if kernels or not str(row[0]).startswith("kernel")]
        shown = Table(header, rows)
        if not kernels and len(header) > 3:
            # Only the parts of the whole, a system per row.
            header, *parts = map(list, zip(header, *rows[:5], strict=True))
            shown = Table(header, parts, hidden=[4], most=FEW_ROWS)
        yield from (shown, Paragraph(note))


def _closing(
    answers: Sequence[Answer], most_excluded: int = MOST_EXCLUDED, most_caveats: int = MOST_CAVEATS
) -> Blocks:
    """Yield excluded systems, explanations, caveats, and the next step."""
    for answer in answers:
        yield from notes(answer.verdict.excluded, marks="", most=most_excluded)
        if answer.verdict.standing == "excluded":
            yield from explanations(answer.group)
    texts = caveats(answers)
    marks = list(map(mark, texts.values()))
    yield from notes(texts, "Caveats", marks, most_caveats, least=FEW_CAVEATS)
    if steps := next_steps(answers):
        yield NextSteps(steps)


def next_steps(answers: Sequence[Answer]) -> list[str]:
    """Return the next steps of all answers, without duplicates."""
    steps: Distinct = {}
    for answer in answers:
        steps |= dict.fromkeys(answer.verdict.next_steps)
    return list(steps)


def explanations(group: Group) -> Blocks:
    """Yield what may explain why systems are excluded."""
    excluded = [(system.name, system.exclusion) for system in group.systems if system.exclusion]
    for name, exclusion in excluded[:MOST_EXCLUDED]:
        texts = []
        marks = []
        for number, note in enumerate(exclusion.explanations[:3], 1):
            # The report has the sources.
            texts.append(words(Note(note.code, {**note.fields, "source": None})))
            marks.append(f"{number}.")
        yield from notes(texts, f"Possible explanations for {name}, most likely first", marks)


def caveats(answers: Sequence[Answer]) -> dict[str, Caveat]:
    """Return the caveats by their texts, those with the greatest effect first; a text names the
    models if the caveat doesn't apply to all.
    """
    titles: dict[tuple[str, str], list[str]] = {}
    of_keys: dict[tuple[str, str], Caveat] = {}
    for answer in answers:
        for caveat in answer.verdict.caveats:
            key = (caveat.code, sentence(caveat.notes))
            of_keys.setdefault(key, caveat)
            titles.setdefault(key, []).append(answer.group.title)
    ordered = list(of_keys)
    if len(answers) > 1:
        ordered.sort(key=lambda key: (of_keys[key].severity != "warning", CODES.index(key[0])))
    # One caveat of each code comes before a second one of any code.
    first = {code: (code, text) for code, text in reversed(ordered)}.values()
    texts = {}
    for key in sorted(ordered, key=lambda key: key not in first):
        text = key[1]
        if len(titles[key]) < len(answers):
            text += f" ({join_names(list(dict.fromkeys(titles[key])))})"
        texts[text] = of_keys[key]
    return texts


def mark(caveat: Caveat) -> str:
    """Return the mark before a caveat on a screen."""
    if caveat.severity == "warning":
        return "!"
    return "i"
