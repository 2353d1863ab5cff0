"""Comparison -> the blocks of its first screen: who is faster, by how much, how sure that is, and
what to do next.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

from tprimat import units
from tprimat.analysis.intervals import level
from tprimat.compare import Caveat, Comparison, Group, ModelComparison, SystemResult
from tprimat.compare.caveats import CODES
from tprimat.compare.speedup import kind_of_device
from tprimat.compare.systems import device_name
from tprimat.report import explain, tables, target, verdict
from tprimat.report.blocks import (
    DETAIL,
    Block,
    Document,
    Heading,
    Headline,
    NextSteps,
    Paragraph,
    Table,
    notes,
)
from tprimat.report.breakdown import breakdowns
from tprimat.report.rates import RATE, rate_of, rate_unit
from tprimat.report.verdict import Answer, Report, speedup_text
from tprimat.text import counted, join_names, plain, shortened

MOST_EXCLUDED = 3
MOST_CAVEATS = 4
MOST_ROWS = 20
"""Systems or models in a table; --verbose and the report have all."""

FEW_ROWS, FEW_CAVEATS, FEW_EXCLUDED, MOST_OTHERS, FEW_ANSWERS = 4, 2, 2, 3, 2
"""Of a screen with several answers: systems in its table, caveats, reasons for systems that aren't
compared, and other results. Models of which none has an answer, up to which each is shown with its
reasons.
"""

COLUMN, LONGEST_RATIO = 16, 20
"""Characters of a name that shares a line with many columns, and of two names above a ratio."""


def blocks(report: Report) -> Iterator[Block]:
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
    more.sort(key=lambda answer: answer.group.leaders is None)
    doubts = (
        each.verdict.standing in ("unknown", "unsettled") or "!" in map(mark, each.verdict.caveats)
        for each in more
    )
    texts = [f"{answer.group.title}: {_brief(answer)}" for answer in more]
    yield from notes(
        texts, "Other results", ["!" if doubt else "-" for doubt in doubts], MOST_OTHERS
    )


def _brief(answer: Answer) -> str:
    """Return in a line an answer, or why there is none."""
    group = answer.group
    leaders = answer.group.leaders
    if leaders is not None:
        short = _short_names(group.systems)
        findings = (*leaders.system.findings, *leaders.baseline.findings)
        is_mock = any(
            finding.rule == "synthetic-data" and "mock" in finding.text for finding in findings
        )
        data = "; probably mock data" if is_mock else ""
        certainty = answer.verdict.certainty.removesuffix(": run-to-run variation unknown")
        return f"{short[leaders.system.name]} vs {short[leaders.baseline.name]} {certainty}{data}"
    if len(group.systems) > 1:
        return (
            f"{len(group.systems)} systems:"
            f" {re.sub(r' [(][^()]{1,200}[)]$', '', group.pairs[0].reason or '')}"
        )
    (system,) = group.systems
    if system.exclusion or system.value("avg_step_time_seconds") is None:
        why = f"; {system.exclusion.text}" if system.exclusion else f", which {system.why_untimed}"
        return f"only {system.name}{why}"
    return f"only {system.name}" + (
        f", {rate_of(system)} {rate_unit([system])}" if system.value(RATE) else ""
    )


def others(report: Report) -> Iterator[Block]:
    """Yield in full the answers of which the first screen has a row each."""
    for answer in () if report.headline else report.answers[1:]:
        yield Heading(3, answer.group.title)
        untitled = dataclasses.replace(answer, group=dataclasses.replace(answer.group, title=""))
        yield from _answer(report.comparison, untitled)


def _answer(comparison: Comparison, answer: Answer, *, is_first: bool = False) -> Iterator[Block]:
    """Yield an answer; the title says that others follow below the first one."""
    count = _shared_count(answer.group)
    common = tables.shared(comparison, answer.group.systems)
    each = f"{counted(count, kind_of_device(answer.group.systems))} each" if count else ""
    about = filter(None, [answer.group.title, common, each])
    text = answer.verdict.headline
    below = " (other results below)" if is_first else ""
    alone = f"{answer.group.title}: {text}" if is_first else ""
    yield Headline(text, answer.verdict.certainty, ", ".join(about) + below, alone)
    yield from _group_table(comparison, answer.group, FEW_ROWS if is_first else MOST_ROWS)
    yield from _costs(comparison, [answer], is_brief=True)
    yield from target.line(answer.group)
    yield from _where_time_goes(answer)
    yield from _closing([answer], *((FEW_EXCLUDED, FEW_CAVEATS) if is_first else ()))


def verdicts(report: Report) -> Iterator[Block]:
    """Yield each answer in a sentence or two, and what it costs."""
    several = len(report.answers) > 1
    for answer in report.answers:
        text = answer.verdict.headline
        yield Headline(
            f"{answer.group.title}: {text}" if several else text, answer.verdict.certainty
        )
        yield from _costs(report.comparison, [answer])


def _models_table(answers: Sequence[Answer]) -> Table:
    """Return a row for each model of two systems."""
    names = [
        system.name for system in sorted(answers[0].group.systems, key=lambda system: system.name)
    ]
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
                tables.versus(dataclasses.replace(leaders, ratio=leaders.speedup)),
            ]
        )
    return Table(
        [rate_unit(every), *names, "faster", f"speedup [{level()} CI]"], rows, most=MOST_ROWS
    )


def _short_names(systems: Sequence[SystemResult]) -> dict[str, str]:
    """Return a name for each system: its GPU's first word if no other system's is the same, else
    its own.
    """
    words = {}
    for system in systems:
        words[system.name] = device_name(system.gpu).split()[0] if system.gpu else system.name
    every = list(words.values())
    return {name: word if every.count(word) == 1 else name for name, word in words.items()}


def _group_table(comparison: Comparison, group: Group, most: int) -> Iterator[Block]:
    """Yield the table of a group: two systems as columns, else as rows of so many systems, with the
    baseline's.
    """
    # What money buys takes the room of what the peak would allow.
    rows = []
    for row in tables.screen_rows(comparison, group):
        if row.short != "MFU" or not comparison.prices:
            rows.append(row)
    if (
        len(group.systems) > 2
        and len({system.run.training_config.global_batch_size for system in group.systems}) > 1
    ):
        # Steps of unlike work aren't compared.
        rows = [row for row in rows if row.short != "step time"]
    mismatches = tables.mismatch_rows(group)
    is_empty = all(cell.text == units.UNKNOWN for row in rows for cell in row.cells)
    if is_empty and (len(group.systems) != 2 or not mismatches):
        return
    count = _shared_count(group)
    names = [plain(system.name).removeprefix(f"{count}×") for system in group.systems]
    if len(group.systems) <= 2:
        leaders = group.leaders
        header = ["", *names]
        shown = rows if leaders else [*rows, *mismatches]
        cells = [[row.title, *(cell.text for cell in row.cells)] for row in shown]
        if leaders is not None:
            short = _short_names(group.systems)
            versus = f"{short[leaders.system.name]} / {short[leaders.baseline.name]}"
            header.append(versus if len(versus) <= LONGEST_RATIO else "ratio")
            ratio = speedup_text(leaders.ratio).partition(" ")[0]
            cells = [[*row, "" if number else ratio] for number, row in enumerate(cells)]
        yield Table(header, cells)
        return
    kept = _shown(group, most)
    first, *more = rows
    ratios = {pair.system: tables.versus(pair) for pair in group.pairs}
    for pair in group.pairs:
        # The baseline's rate is on the clock of the headline: on another one a ratio isn't that of
        # two rates beside it.
        if pair.ratio and group.leaders and pair.clocks != group.leaders.clocks:
            ratios[pair.system] += f" ({' vs '.join(pair.clocks)})"
    cells = [
        [
            name,
            first.cells[index].text,
            ratios.get(system, "baseline"),
            *(row.cells[index].text for row in more),
        ]
        for index, (name, system) in enumerate(zip(names, group.systems, strict=True))
        if index in kept
    ]
    every = sum(not group.leaders or pair.ratio is not None for pair in group.pairs) + 1
    of = f"{len(kept)} of {every} systems" if every > len(kept) else ""
    has_interval = any(pair.ratio and pair.ratio.low is not None for pair in group.pairs)
    name = _short_names(group.systems)[group.baseline.name]
    # The row of the baseline says which one it is.
    name = name if len(name) <= COLUMN else "baseline"
    versus = f"vs {name} [{level()} CI]" if has_interval else f"vs {name}"
    yield from tables.explained(
        Table([of, first.short, versus, *(row.short for row in more)], cells)
    )


def _shared_count(group: Group) -> int | None:
    """Return the number of GPUs of each system, if it is one that all names begin with."""
    counts = {system.count for system in group.systems}
    count = counts.pop() if len(counts) == 1 < len(group.systems) else None
    if count and all(system.name.startswith(f"{count}×") for system in group.systems):
        return count
    return None


def _shown(group: Group, most: int) -> set[int]:
    """Return the places of the systems in the table of a screen: those that are compared, if any
    are.
    """
    compared = set(group.compared)
    places = []
    for index, system in enumerate(group.systems):
        if not group.leaders or system in compared:
            places.append(index)
    if len(places) <= most + 1:
        return set(places)
    baseline = next(index for index, system in enumerate(group.systems) if system is group.baseline)
    return {*[index for index in places if index != baseline][: most - 1], baseline}


def _costs(
    comparison: Comparison, answers: Sequence[Answer], *, is_brief: bool = False
) -> Iterator[Block]:
    """Yield which system costs least per token, if there are prices; in brief below a table that
    has them.
    """
    if comparison.prices:
        texts = verdict.cost_texts(comparison, answers, is_brief=is_brief)
        yield from (Paragraph(text if is_brief else f"Cost: {text}.", DETAIL) for text in texts)


def timed(report: Report) -> Document:
    """Return what --time shows; with prices, also what each system costs."""
    found = target.document(report)
    answers = iter(report.answers)
    screen = []
    for part in found.screen:
        screen.append(part)
        if isinstance(part, Headline):
            group = (answer := next(answers)).group
        if isinstance(part, Table) and report.comparison.prices:
            price, *costs = (
                row
                for row in tables.screen_rows(report.comparison, group)
                if row.short[:3] == "USD"
            )
            for row in costs:
                cells = zip(group.systems, row.cells, price.cells, strict=True)
                known = (
                    f"{each.name} {cost.text} at {at.text}"
                    for each, cost, at in cells
                    if "$" in at.text
                )
                screen.append(Paragraph(f"{row.title}: {', '.join(known)}", DETAIL))
            screen += _costs(report.comparison, [answer], is_brief=True)
    return dataclasses.replace(found, screen=screen)


def _where_time_goes(answer: Answer) -> Iterator[Block]:
    """Yield in a sentence why the slower system is slower; if there is no answer, all that is known
    of the time.
    """
    explanation = explain.of_model(answer.model)
    if answer.group.leaders is None:
        if explanation is not None:
            yield from explain.document(explanation).screen
        yield from time_tables(answer.model, kernels=False)
    elif explanation is not None:
        yield Paragraph(f"Profile: {explain.brief(explanation)}.", DETAIL)


def time_tables(model: ModelComparison, *, kernels: bool) -> Iterator[Block]:
    """Yield where the time of a step goes, of runs that have a breakdown, with or without single
    kernels.
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
) -> Iterator[Block]:
    """Yield excluded systems, explanations, caveats, and the next step."""
    for group, answer in ((answer.group, answer.verdict) for answer in answers):
        yield from notes(answer.excluded, marks="", most=most_excluded)
        exclusions = []
        for system in group.systems:
            if system.exclusion:
                exclusions.append((system.name, system.exclusion))
        for name, exclusion in exclusions[:MOST_EXCLUDED] if answer.standing == "excluded" else ():
            # The report has the sources.
            texts = [re.sub(r" \(https?://\S+\)", "", text) for text in exclusion.explanations[:3]]
            title = f"Possible explanations for {name}, most likely first"
            yield from notes(texts, title, [f"{number}." for number in range(1, len(texts) + 1)])
    found = caveats(answers)
    yield from notes(
        list(found),
        "Caveats",
        [mark(each) for each in found.values()],
        most_caveats,
        least=FEW_CAVEATS,
    )
    if steps := list(
        dict.fromkeys(step for answer in answers for step in answer.verdict.next_steps)
    ):
        yield NextSteps(steps)


def caveats(answers: Sequence[Answer]) -> dict[str, Caveat]:
    """Return the caveats by their texts, each with the models if it isn't of all, the weightiest
    first.
    """
    titles: dict[tuple[str, str], list[str]] = {}
    found: dict[tuple[str, str], Caveat] = {}
    for answer in answers:
        for caveat in answer.verdict.caveats:
            key = (caveat.code, caveat.text)
            found.setdefault(key, caveat)
            titles.setdefault(key, []).append(answer.group.title)
    ordered = list(found)
    if len(answers) > 1:
        ordered.sort(key=lambda key: (found[key].severity != "warning", CODES.index(key[0])))
    first = {code: (code, text) for code, text in reversed(ordered)}.values()
    texts = {}
    for key in sorted(ordered, key=lambda key: key not in first):
        if len(titles[key]) == len(answers):
            models = ""
        else:
            models = f" ({join_names(list(dict.fromkeys(titles[key])))})"
        texts[f"{key[1]}{models}"] = found[key]
    return texts


def mark(caveat: Caveat) -> str:
    """Return what stands before a caveat on a screen."""
    if caveat.severity == "warning":
        return "!"
    return "i"
