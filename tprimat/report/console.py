"""Comparison -> what a terminal shows: the answer on one screen; all the rest with --verbose."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Sequence

from tprimat import units
from tprimat.analysis.intervals import level
from tprimat.compare import Caveat, Comparison, Group, ModelComparison, SettingRow, SystemResult
from tprimat.compare.caveats import CODES
from tprimat.compare.systems import short_device
from tprimat.report import explain, published, tables, verdict
from tprimat.report.breakdown import breakdowns
from tprimat.report.rates import rate_of, rate_unit
from tprimat.report.tables import Footnotes, Row
from tprimat.report.terminal import Terminal
from tprimat.report.verdict import Answer, Report, speedup_text
from tprimat.text import counted, plain, shortened

MOST_EXCLUDED = 3
MOST_CAVEATS = 4
MOST_ROWS = 20
"""Systems or models in a table; --verbose and the report have all."""

LONGEST_NAME = 38
COLUMN = 16
"""Characters of a name that shares a line with many columns."""
COLUMNS = 3
"""Systems that are columns of a table; more are rows."""

LONGEST_FIGURE = 12
LONGEST_VALUE = 160
"""Characters of a setting; the Markdown report has the whole."""


class Verbosity(enum.Enum):
    """How much is printed; the reports have all of it."""

    QUIET = enum.auto()
    NORMAL = enum.auto()
    VERBOSE = enum.auto()


def render(report: Report, *, width: int = 80, color: bool = False, verbosity: Verbosity = Verbosity.NORMAL) -> str:
    """Return the summary as text, each line at most `width` wide and ended by a newline."""
    out = Terminal(width=width, color=color)
    comparison, answers = report.comparison, report.answers
    if verbosity is Verbosity.QUIET:
        for answer in answers:
            title = f"{answer.model.title}: " if len(comparison.models) > 1 else ""
            out.line(f"{title}{answer.verdict.headline}", "bold")
            out.line(answer.verdict.certainty)
            _cost(out, comparison, [answer])
        return out.text()
    if report.headline:
        if shared := tables.shared(comparison):
            out.line(shared)
            out.line()
        out.line(report.headline, "bold", indent=2)
        out.line()
        _models_table(out, answers)
        _cost(out, comparison, answers)
        _closing(out, answers, verbosity)
    else:
        for answer in answers:
            out.line(", ".join(filter(None, [answer.model.title, tables.shared(comparison)])))
            out.line()
            out.line(answer.verdict.headline, "bold", indent=2)
            if answer.verdict.certainty:
                out.line(answer.verdict.certainty, indent=2)
            out.line()
            _group_table(out, comparison, answer.group)
            _cost(out, comparison, [answer])
            if verbosity is Verbosity.NORMAL:
                _where_time_goes(out, answer)
            _closing(out, [answer], verbosity)
    if verbosity is Verbosity.VERBOSE:
        _details(out, comparison)
    return out.text()


def _models_table(out: Terminal, answers: Sequence[Answer]) -> None:
    """Add a table with a row for each model of two systems."""
    names = [system.name for system in sorted(answers[0].group.systems, key=lambda system: system.name)]
    unit = rate_unit(system for answer in answers for system in answer.group.systems)
    short = _short_names([system for answer in answers for system in answer.group.systems])
    rows = []
    for answer in answers[:MOST_ROWS]:
        rates = {system.name: rate_of(system) for system in answer.group.systems}
        leaders = answer.group.leaders
        assert leaders is not None
        rows.append(
            [
                shortened(answer.model.short_title, 24),
                *(rates.get(name, units.UNKNOWN) for name in names),
                units.UNKNOWN
                if leaders.speedup and leaders.speedup.is_significant is False
                else short[leaders.faster.name],
                speedup_text(leaders.speedup),
            ]
        )
    out.table(
        [unit, *(shortened(name, 2 * COLUMN) for name in names), "faster", f"speedup [{level()} CI]"], rows, fold=False
    )
    out.line()


def _short_names(systems: Sequence[SystemResult]) -> dict[str, str]:
    """Return a name of at most a column for each system: its GPU's first word where that is enough."""
    words = {system.name: short_device(system.gpu).split()[0] if system.gpu else system.name for system in systems}
    distinct = len(set(words.values())) == len(words)
    return {name: word if distinct else shortened(name, COLUMN) for name, word in words.items()}


def _group_table(out: Terminal, comparison: Comparison, group: Group) -> None:
    """Add the table of a group: systems as columns where there are two, else as rows."""
    rows = tables.screen_rows(comparison, group)
    is_empty = all(cell.text == units.UNKNOWN for row in rows for cell in row.cells)
    if is_empty and (len(group.systems) == 1 or not tables.mismatch_rows(group)):
        return
    longest = LONGEST_NAME if len(group.systems) <= 2 else 24
    names = [shortened(plain(system.name), longest) for system in group.systems]
    if len(group.systems) <= 2:
        leaders, header = group.leaders, ["", *names]
        cells = [[row.title, *(cell.text for cell in row.cells)] for row in rows]
        if leaders is None:
            cells += [[row.title, *(cell.text for cell in row.cells)] for row in tables.mismatch_rows(group)]
        else:
            short = _short_names(group.systems)
            header.append(f"{short[leaders.faster.name]} / {short[leaders.slower.name]}")
            for row in cells:
                row.append("")
            cells[0][-1] = speedup_text(leaders.speedup).partition(" ")[0]
        out.table(header, cells)
    else:
        speedups = {id(pair.system): pair for pair in group.pairs}
        cells = []
        for index, system in enumerate(group.systems[:MOST_ROWS]):
            pair = speedups.get(id(system))
            text = "baseline" if pair is None else tables.versus(pair)
            cells.append([names[index], *(row.cells[index].text for row in rows), text])
        has_interval = any(pair.ratio and pair.ratio.low is not None for pair in group.pairs)
        versus = f"vs baseline [{level()} CI]" if has_interval else "vs baseline"
        out.table(["", *(row.short for row in rows), versus], cells, gap=1)
        if len(group.systems) > MOST_ROWS:
            out.line(f"{len(group.systems) - MOST_ROWS} more systems: --verbose", indent=2)
    out.line()


def _cost(out: Terminal, comparison: Comparison, answers: Sequence[Answer]) -> None:
    """Add which system costs least per token, where there are prices."""
    if comparison.prices:
        for text in verdict.cost_texts(comparison, answers):
            out.line(f"Cost: {text}.", indent=2)
        out.line()


def _closing(out: Terminal, answers: Sequence[Answer], verbosity: Verbosity) -> None:
    """Add excluded systems, explanations, caveats with counts, and the next step."""
    for group, answer in ((each.group, each.verdict) for each in answers):
        shown = len(answer.excluded) if verbosity is Verbosity.VERBOSE else MOST_EXCLUDED
        for text in answer.excluded[:shown]:
            out.line(text, indent=2)
        if len(answer.excluded) > shown:
            out.line(f"{len(answer.excluded) - shown} more not compared: --verbose", indent=2)
        if answer.excluded:
            out.line()
        exclusions = [(system.name, system.exclusion) for system in group.systems if system.exclusion]
        for name, exclusion in exclusions[:MOST_EXCLUDED] if answer.standing == "excluded" else ():
            if exclusion.explanations:
                out.line(f"Possible explanations for {name}, most likely first", "bold")
                # The report has the sources.
                texts = (re.sub(r" \(https?://\S+\)", "", text) for text in exclusion.explanations[:3])
                out.entries("", [(f"{number}.", text) for number, text in enumerate(texts, 1)])
    caveats = _counted_caveats(answers)
    most = len(caveats) if verbosity is Verbosity.VERBOSE else MOST_CAVEATS
    if caveats:
        more = f" ({len(caveats) - most} more: --verbose)" if len(caveats) > most else ""
        marked = [("!" if caveat.severity == "warning" else "i", text) for caveat, text in caveats[:most]]
        out.entries(f"Caveats{more}", marked)
    steps = list(dict.fromkeys(step for answer in answers for step in answer.verdict.next_steps))
    if verbosity is Verbosity.VERBOSE:
        out.entries("Next steps", _dashed(steps))
    elif steps:
        out.line(f"Next: {steps[0]}")
        out.line()


def _counted_caveats(answers: Sequence[Answer]) -> list[tuple[Caveat, str]]:
    """Return each code's first caveat; of several models, with whose it is or how many of them it concerns."""
    found: dict[str, list[tuple[str, Caveat]]] = {}
    for answer in answers:
        for caveat in answer.verdict.caveats:
            found.setdefault(caveat.code, []).append((answer.model.title, caveat))
    counted_caveats = []
    for each in sorted(found.values(), key=lambda each: CODES.index(each[0][1].code)):
        (title, caveat), count = each[0], len(each)
        text = plain(caveat.text, 180)
        if count > 1 and len({other.text for _, other in each}) == 1:
            text += f" ({count} of {len(answers)} models)"
        elif len(answers) > 1:
            text = f"{title}: {text}" + (f" (and {count - 1} more: --verbose)" if count > 1 else "")
        counted_caveats.append((caveat, text))
    return counted_caveats


def _details(out: Terminal, comparison: Comparison) -> None:
    """Add what --verbose shows: all values, settings, warnings and notes."""
    footnotes = Footnotes(comparison)
    for model in comparison.models:
        out.line(model.title, "bold underline")
        for group in model.groups:
            _group(out, comparison, group, footnotes)
        _breakdowns(out, model)
        out.entries("Published results", _dashed(published.beside(model)))
    out.entries("Files", _dashed(f"{plain(file.name)}: {counted(len(file.runs), 'run')}" for file in comparison.files))
    out.entries("Notes", _dashed(comparison.notes))
    out.entries("Warnings", [(f"[{number}]", text) for number, text in footnotes.entries()])


def _where_time_goes(out: Terminal, answer: Answer) -> None:
    """Add in a sentence why the slower system is slower; where there is no answer, all that is known of the time."""
    explanation = explain.of_model(answer.model)
    if answer.group.leaders is None:
        _breakdowns(out, answer.model)
    elif explanation is not None:
        out.line(f"Profile: {explain.brief(explanation)}.", indent=2)
        out.line()


def _breakdowns(out: Terminal, model: ModelComparison) -> None:
    """Add where the time of a step goes, of runs that have a breakdown."""
    explanation = explain.of_model(model)
    if explanation is not None:
        explain.add(out, explanation)
        out.line()
    for table, note in breakdowns(model):
        names = [shortened(str(name), LONGEST_NAME) for name in table.header[1:]]
        # The first parts of it; the report has the kernels.
        rows = [list(map(str, row)) for row in table.rows if not str(row[0]).startswith("kernel")]
        out.table(["Where the time goes", *names], rows)
        out.line(note)
        out.line()


def _dashed(texts: Iterable[str]) -> list[tuple[str, str]]:
    return [("-", text) for text in texts]


def _group(out: Terminal, comparison: Comparison, group: Group, footnotes: Footnotes) -> None:
    speed, worth = tables.speed_rows(group, footnotes), tables.efficiency_rows(comparison, group)
    memory = tables.memory_rows(group)
    if len(group.systems) <= COLUMNS:
        _beside(out, group, [*speed, *worth, *memory], tables.differing(group))
    else:
        for rows in filter(None, (speed, worth, memory)):
            _below(out, group, rows)
            out.line()
        out.entries("Configuration differences", _dashed(_differences(group)))
    all_of_them = {1: "this system", 2: "both systems"}.get(len(group.systems), "all systems")
    equal, unstated = tables.equal(group), tables.unstated(group)
    if equal and len(group.systems) > 1:
        out.line(f"Same on {all_of_them}: {', '.join(equal)}.")
    if unstated:
        out.line(f"Not reported by {all_of_them}: {', '.join(unstated)}.")
    out.line()


def _beside(out: Terminal, group: Group, rows: Sequence[Row], settings: Sequence[SettingRow]) -> None:
    from rich.cells import cell_len

    # A name is broken where its parts meet rather than within one.
    header = ["", *(plain(system.name).replace(", ", ",\n") for system in group.systems)]
    figures = [[row.title, *map(_cell, row.cells)] for row in rows]
    differing = [[f"  {plain(setting.title)}", *map(_value, setting.values)] for setting in settings]
    texts = zip(*figures, *differing, strict=True)
    widths = [max(map(cell_len, [*title.splitlines(), *column])) for title, column in zip(header, texts, strict=True)]
    # Between two columns lie two spaces and one of the box. rich itself lets a table grow beyond the line.
    room = max(out.width - 3 * len(group.systems), len(widths))
    while sum(widths) > room:
        # The widest give way first.
        widths[widths.index(max(widths))] -= 1
    sections = (
        [figures, [["Configuration differences", *("" for _ in group.systems)], *differing]] if differing else [figures]
    )
    out.table(header, *sections, widths=widths)


def _below(out: Terminal, group: Group, rows: Sequence[Row]) -> None:
    from rich.cells import cell_len

    # Figures stay in one line: the names of the systems give way.
    widths: list[int | None] = [None]
    for row in rows:
        figures = [cell.text for cell in row.cells if len(cell.text) <= LONGEST_FIGURE]
        words = [word for text in (row.short, *map(_cell, row.cells)) for word in text.split()]
        widths.append(max(map(cell_len, (*words, *figures))))
    names = [shortened(plain(system.name), LONGEST_NAME) for system in group.systems]
    cells = [[name, *(_cell(row.cells[index]) for row in rows)] for index, name in enumerate(names)]
    out.table(["", *(row.short for row in rows)], cells, widths=widths, gap=1, fold=False)


def _differences(group: Group) -> Iterator[str]:
    for setting in tables.differing(group):
        yield f"{plain(setting.title)}: {'; '.join(dict.fromkeys(map(_value, setting.values)))}"


def _cell(cell: tables.Cell) -> str:
    return plain(cell.text) + (f" [{_ranges(cell.notes)}]" if cell.notes else "")


def _ranges(numbers: Sequence[int]) -> str:
    """Rising numbers in short: 1-3,7."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(",".join(map(str, part)) if len(part) < 3 else f"{part[0]}-{part[-1]}" for part in parts)


def _value(value: str | None) -> str:
    return "unknown" if value is None else plain(value, LONGEST_VALUE)


def evidence(comparison: Comparison) -> str:
    """Return what a comparison rests on: files with their digests, systems with their findings and warnings."""
    lines = ["", "Files"]
    for file in comparison.files:
        digest = f", sha256 {file.sha256}" if file.sha256 else ""
        lines.append(f"  {plain(file.name)}: {counted(len(file.runs), 'run')}{digest}")
    lines += ["", "Systems"]
    for model in comparison.models:
        for system in model.systems:
            runs = f"{len(system.valid_runs)} of {len(system.runs)} runs used"
            lines.append(f"  {plain(model.title)}, {plain(system.full_name)}: {runs}")
            lines += [f"    - {plain(text)}" for text in _remarks(system)]
    return "\n".join(lines)


def _remarks(system: SystemResult) -> Iterable[str]:
    refused = [] if system.exclusion is None else [f"excluded: {system.exclusion.text}"]
    findings = (f"{finding.severity}: {finding.text}" for finding in system.findings)
    return dict.fromkeys([*refused, *findings, *system.value_warnings, *system.run_warnings])
