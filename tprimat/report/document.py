"""Comparison -> the blocks of a report; markdown.py and html.py give them their form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from tprimat import units
from tprimat.analysis import metrics
from tprimat.analysis.efficiency import rows
from tprimat.checks.finding import Finding
from tprimat.compare import Comparison, Group, ModelComparison, Pair, SideResult
from tprimat.compare.money import cost, efficiencies
from tprimat.report import Provenance, published, rates, tables, verdict
from tprimat.report.blocks import (
    Block,
    Bullets,
    Code,
    Content,
    Heading,
    Image,
    Inline,
    Marks,
    Paragraph,
    Script,
    Strong,
    Table,
    plain_bullets,
)
from tprimat.report.blocks import Footnotes as FootnoteBlock
from tprimat.report.breakdown import breakdowns
from tprimat.report.efficiency import figure, reasons
from tprimat.report.tables import Footnotes, Row
from tprimat.results.run import Run
from tprimat.text import plain
from tprimat.units import UNKNOWN

BESIDE = 4
"""Sides that stand beside each other; more stand below each other."""

_OTHER_FIGURES = (
    "min_step_time_seconds",
    "max_step_time_seconds",
    "std_step_time_seconds",
    "warmup_time_seconds",
    "tokens_per_second",
    "steps_per_second",
    "final_loss",
)


def blocks(comparison: Comparison, provenance: Provenance, *, picture: bool) -> Iterator[Block]:
    """The report, block by block.

    Args:
        comparison: what to report.
        provenance: what is said of the report's own making.
        picture: whether there is one to be shown.
    """
    footnotes = Footnotes(comparison)
    yield Heading(1, f"Comparison: {', '.join(model.title for model in comparison.models)}")
    yield from _summary(comparison, picture)
    yield from hardware(comparison)
    yield from _performance(comparison, footnotes)
    yield from _memory(comparison)
    yield from _worth(comparison)
    yield from _details(comparison)
    yield from files(comparison)
    yield from repeat(comparison, provenance)
    entries = footnotes.entries()
    if entries:
        yield FootnoteBlock(entries)


def _summary(comparison: Comparison, picture: bool) -> Iterator[Block]:
    yield Heading(2, "Executive summary")
    for model in comparison.models:
        for answer in verdict.answers(model):
            opening: list[Inline] = [Strong(f"{model.title}:"), " ", Strong(answer.headline)]
            opening += [f" {sentence}" for sentence in answer.brief]
            yield Paragraph(opening)
            for title, texts in (("Why:", answer.why), ("Next:", answer.next)):
                if texts:
                    yield Paragraph(title)
                    yield plain_bullets(texts)
    if comparison.notes:
        yield Paragraph("Notes:")
        yield plain_bullets(comparison.notes)
    if picture:
        yield Image("Throughput, step times, loss and memory of all sides")


_HARDWARE: tuple[tuple[str, Callable[[Run], object]], ...] = (
    ("GPU", lambda run: run.gpu_info.device_name),
    ("Count", lambda run: run.num_gpus),
    ("Memory of one", lambda run: _gigabytes(run.gpu_info.total_memory_gb)),
    ("Cores of one", lambda run: run.gpu_info.gpu_cores),
    ("Architecture", lambda run: run.gpu_info.architecture),
    ("Software stack", lambda run: _joined(run.gpu_info.software_stack, run.gpu_info.software_version)),
    ("torch", lambda run: run.gpu_info.pytorch_version),
    ("Framework", lambda run: run.framework),
    ("Host", lambda run: run.environment.hostname),
    ("Processor", lambda run: run.environment.cpu),
    ("Operating system", lambda run: run.environment.os),
    ("Container", lambda run: run.environment.container),
    ("Memory held by others", lambda run: _gigabytes(run.environment.memory_held_by_others_gb)),
)


def hardware(comparison: Comparison) -> Iterator[Block]:
    """What trained, side by side."""
    runs: dict[str, list[Run]] = {}
    for model in comparison.models:
        for side in model.sides:
            runs.setdefault(side.side.name, []).extend(result.run for result in side.runs)
    names = list(runs)
    found = [(title, [_values(map(read, group)) for group in runs.values()]) for title, read in _HARDWARE]
    found = [(title, cells) for title, cells in found if any(cell != UNKNOWN for cell in cells)]
    yield Heading(2, "Hardware configuration")
    if len(names) > BESIDE:
        below = [[name, *(cells[index] for _, cells in found)] for index, name in enumerate(names)]
        yield Table(["", *(title for title, _ in found)], below, right_from=99)
    else:
        yield Table(["", *names], [[title, *cells] for title, cells in found], right_from=99)


def _values(values: Iterable[object]) -> str:
    """What the runs of a side say, each once."""
    return ", ".join(dict.fromkeys(plain(value) for value in values if value is not None)) or UNKNOWN


def _performance(comparison: Comparison, footnotes: Footnotes) -> Iterator[Block]:
    yield Heading(2, "Performance metrics")
    yield Paragraph(
        "Figures are of the steady steps. Throughput is tokens of one step over the mean step time and the number "
        "of GPUs; with several runs a side, the mean of the runs' means, ± its 95 % interval from three runs on. Loss "
        "is shown and not compared: which training is the better one depends on data, learning rates and seeds too."
    )
    for model in comparison.models:
        yield Heading(3, model.title)
        for group in model.groups:
            found = tables.speed_rows(group, footnotes)
            others = [metrics.by_name(name) for name in _OTHER_FIGURES]
            extra = [
                Row(
                    _titled(each),
                    _titled(each),
                    tuple(tables.Cell(_other(side, each.name)) for side in group.sides),
                )
                for each in others
            ]
            yield _grid(group, [*found, *(row for row in extra if _has_figures(row))])


def _memory(comparison: Comparison) -> Iterator[Block]:
    yield Heading(2, "Memory usage")
    yield Paragraph(
        "Allocated and reserved are counted by torch's allocator, in use on the device by the driver, other processes "
        "included: three different things, which can't be set against each other. GB are 10⁹ bytes, of one device."
    )
    for model in comparison.models:
        yield Heading(3, model.title)
        for group in model.groups:
            found = tables.memory_rows(group)
            yield _grid(group, found) if found else Paragraph("No side states any memory.")


def _worth(comparison: Comparison) -> Iterator[Block]:
    """What the speeds are worth: share of the peak, money, time to train."""
    yield Heading(2, "What the speed is worth")
    yield Paragraph(
        "In brackets the interval: of the steps within the run for a single run (95 %; some 92 % below 500 steps), "
        "between runs from three runs on (95 %). "
        "A figure that is missing has its reason below the table."
    )
    for model in comparison.models:
        yield Heading(3, model.title)
        for side in model.sides:
            found = efficiencies(comparison, side)
            if not found:
                why = "its figures are refused" if side.refusal else "it has no figures"
                yield Paragraph(f"{side.side.name}: {why}.")
                continue
            price = comparison.prices.get(side.side.name)
            title = f"{side.side.name}, {price} per GPU-hour" if price else side.side.name
            cells: list[list[Content]] = [
                [f"{metric.title}, {metric.unit}", *(figure(each.values.get(metric.name)) for each in found)]
                for metric in rows(found)
            ]
            yield Table([title, *(each.steps for each in found)], cells)
            said = [text.strip() for text in reasons(found)]
            if said:
                yield plain_bullets(said)
        found_published = published.beside(model)
        if found_published:
            yield Paragraph("Beside published figures of the same GPU, model, precision and sequence length:")
            yield plain_bullets(found_published)
        costs = [each for pair in model.pairs if (each := cost(comparison, pair)) is not None]
        if costs:
            yield Paragraph("In money:")
            yield plain_bullets([verdict.money(each, comparison.prices) for each in costs])


def _details(comparison: Comparison) -> Iterator[Block]:
    yield Heading(2, "Detailed analysis")
    for model in comparison.models:
        yield Heading(3, model.title)
        yield from judgements(model)
        for group in model.groups:
            yield from _details_of(group)
        for found in breakdowns(model):
            yield Paragraph("Where the time goes:")
            yield Table(["", *found.names], [[title, *cells] for title, cells in found.rows])
            yield Paragraph(found.note)


def judgements(model: ModelComparison) -> Iterator[Block]:
    """What the judge found, each once with the sides that it is about; docs/metrics.md explains the rules."""
    found: dict[Finding, list[str]] = {}
    for side in model.sides:
        for finding in side.findings:
            found.setdefault(finding, []).append(side.side.name)
    if found:
        yield Paragraph("What was found (the rules are explained in docs/metrics.md):")
        yield Bullets(
            [
                (
                    f"{finding.gravity} ({finding.rule}), {', '.join(names)}: {finding.text}",
                    [f"it would fit with {explanation}" for explanation in finding.explanations],
                )
                for finding, names in found.items()
            ]
        )


def _details_of(group: Group) -> Iterator[Block]:
    names = [side.side.name for side in group.sides]
    differing = tables.differing(group)
    if len(group.sides) > 1:
        yield Paragraph("The sides differ in:" if differing else "Beyond their names the sides state no difference.")
    if differing:
        table = [[row.title, *(UNKNOWN if value is None else value for value in row.values)] for row in differing]
        yield Table(["Setting", *names], table, right_from=99)
    shared = [row for row in group.settings if not row.differs and not row.unknown]
    if shared:
        yield Paragraph(f"The same: {'; '.join(f'{row.title} {row.values[0]}' for row in shared)}.")
    unstated = tables.unstated(group)
    if unstated:
        yield Paragraph(f"Stated by no side: {', '.join(unstated)}.")
    if group.pairs:
        yield Paragraph(f"Against {names[0]}:")
        yield Bullets([_pair(pair) for pair in group.pairs])
    yield Paragraph("Where the steady steps begin, run by run:")
    yield _runs(group)


def _pair(pair: Pair) -> tuple[str, list[Content]]:
    name = pair.side.side.name
    kind = f"by the ledger: {pair.ledger.verdict}"
    if pair.ratio is None:
        return f"{name}: not compared: {pair.reason} ({kind})", []
    lines: list[Content] = list(pair.caveats)
    for level in pair.ratio.levels:
        places = [("its", level.of_side), ("the reference's", level.of_reference)]
        where = " against ".join(f"{whose} steps {steps}" for whose, steps in places if steps)
        lines.append(f"{units.times(level.value)} in {where}")
    if pair.ratio.smallest is not None:
        needed = (
            "" if pair.ratio.needed is None else f"; the one that was seen would take {pair.ratio.needed} runs a side"
        )
        lines.append(f"so many runs find a difference of {pair.ratio.smallest:.1%} in four of five cases{needed}")
    if pair.training.reasons:
        answer = {True: "the same training", False: "not the same training", None: "same training or not: not decided"}
        lines.append(f"{answer[pair.training.same]}: {'; '.join(pair.training.reasons)}")
    if pair.sensitivity:
        # Told of the side that the headline is about: the one that is faster.
        turned = pair.ratio.value < 1
        faster = pair.reference.side.name if turned else name
        values = [1 / value if turned else value for _, value in pair.sensitivity]
        windows = zip((window for window, _ in pair.sensitivity), values, strict=True)
        shown = "; ".join(f"{window} {value:.2f}" for window, value in windows)
        lines.append(
            f"under the windows that other tools use, {faster} would be {min(values):.2f} to {max(values):.2f} "
            f"times as fast ({shown}); this decides nothing"
        )
    return f"{name}: {verdict.ratio_text(pair.ratio)} as fast ({kind})", lines


def _runs(group: Group) -> Table:
    cells: list[list[Content]] = []
    for side in group.sides:
        for result in side.runs:
            figures, steady = result.summary.performance, result.summary.steady
            untimed = figures.avg_step_time_seconds is None
            of_time = [
                units.duration(figures.warmup_time_seconds),
                units.seconds(figures.avg_step_time_seconds),
                rates.rate(figures.tokens_per_second_per_gpu),
            ]
            cells.append(
                [
                    side.side.name,
                    Code(result.file),
                    result.run.timestamp or "unknown",
                    result.run.status,
                    units.number(figures.total_steps, 0),
                    tables.steady_steps(result),
                    _why_there(steady.method, single=steady.first_step == steady.last_step),
                    *([rates.untimed(side)] * 3 if untimed else of_time),
                ]
            )
    unit = rates.rate_unit(group.sides)
    header = ["Side", "File", "Start", "Status", "Steps", "Steady", "Cut by", "Before it", "Mean step", unit]
    return Table(header, cells, right_from=4)


def _why_there(method: str | None, *, single: bool) -> str:
    if single and method == "all_after_first":
        return "one record: nothing to cut"
    return {
        "tail_reference": "level of the second half",
        "last_level": "last level of several",
        "all_levels": "all levels of several",
        "all_after_first": "no steady state; first step left out",
    }.get(method or "", method or UNKNOWN)


def files(comparison: Comparison) -> Iterator[Block]:
    """The files that it rests on, with their digests."""
    yield Heading(2, "What this rests on")
    files: list[list[Content]] = [
        [Code(file.name), str(len(file.runs)), Code(file.sha256)] for file in comparison.files
    ]
    yield Table(["Result file", "Runs", "sha256"], files, right_from=99)
    sources = {
        (source.path, source.sha256 or "unknown")
        for file in comparison.files
        for run in file.runs
        if run.source is not None and run.source.kind == "log"
        for source in run.source.files
    }
    if sources:
        yield Paragraph("The results were read from these logs:")
        yield Table(["Log", "sha256"], [[Code(path), Code(digest)] for path, digest in sorted(sources)], right_from=99)


def repeat(comparison: Comparison, provenance: Provenance) -> Iterator[Block]:
    """The commands that make the report, and the trainings, again."""
    yield Heading(2, "How to repeat it")
    yield Paragraph(f"Made with TensorPrimat {provenance.version}:")
    yield Script(provenance.command)
    commands = {
        side.side.name: " ".join(map(plain, side.run.source.command))
        for model in comparison.models
        for side in model.sides
        if side.run.source is not None and side.run.source.command
    }
    if commands:
        yield Paragraph("The trainings were started with:")
        yield plain_bullets([[f"{name}: ", Code(command)] for name, command in commands.items()])


def _grid(group: Group, found: Sequence[Row]) -> Table:
    """Sides beside each other, or below each other where there are many."""
    names = [side.side.name for side in group.sides]
    if len(names) <= BESIDE:
        return Table(["", *names], [[row.title, *map(_cell, row.cells)] for row in found])
    below = [[name, *(_cell(row.cells[index]) for row in found)] for index, name in enumerate(names)]
    return Table(["", *(row.title for row in found)], below)


def _cell(cell: tables.Cell) -> Content:
    return [cell.text, Marks(cell.notes)] if cell.notes else cell.text


def _titled(metric: metrics.Metric) -> str:
    return f"{metric.title}, {metric.unit}"


def _other(side: SideResult, name: str) -> str:
    value = side.value(name)
    return rates.untimed(side) if value is None and "loss" not in name else _figure(value)


def _figure(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return units.number(value, 0) if value >= 1000 else f"{value:.4g}"


def _has_figures(row: Row) -> bool:
    return any(cell.text != UNKNOWN for cell in row.cells)


def _gigabytes(value: float | None) -> str | None:
    return None if value is None else units.gigabytes(value)


def _joined(*parts: str | None) -> str | None:
    return " ".join(part for part in parts if part) or None
