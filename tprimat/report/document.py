"""Comparison -> the blocks of a report; Markdown shows all of them, the page some."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from tprimat import units
from tprimat.analysis import metrics
from tprimat.checks.finding import Finding
from tprimat.checks.settings import joined
from tprimat.checks.training import TrainingMatch
from tprimat.compare import Comparison, Group, ModelComparison, Pair, SideResult
from tprimat.compare.money import cost, efficiencies
from tprimat.report import Provenance, efficiency, published, rates, tables, verdict
from tprimat.report.blocks import (
    Block,
    Bullets,
    Code,
    Content,
    Footnotes,
    Heading,
    Image,
    Inline,
    Marks,
    Paragraph,
    Script,
    Strong,
    Table,
    plain_bullets,
    titled_bullets,
)
from tprimat.report.breakdown import breakdowns
from tprimat.report.tables import Cell, Row
from tprimat.results.run import Run
from tprimat.text import plain
from tprimat.units import UNKNOWN

LOSS = "Loss is shown and not compared: which training is the better one depends on data, learning rates and seeds too."
MEMORY = (
    "Allocated and reserved are counted by torch's allocator, in use on the device by the driver, other processes "
    "included: three different things, which can't be set against each other."
)
NO_MEMORY = "No side states any memory."
PICTURE = "Throughput, step times, loss and memory of all sides"

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
    """The report, block by block, with the place of a picture where there is one."""
    footnotes = tables.Footnotes(comparison)
    yield Heading(1, f"Comparison: {', '.join(model.title for model in comparison.models)}")
    for title, section in (
        ("Executive summary", _summary(comparison, picture)),
        ("Hardware configuration", hardware(comparison)),
        ("Performance metrics", _performance(comparison, footnotes)),
        ("Memory usage", _memory(comparison)),
        ("What the speed is worth", _worth(comparison)),
        ("Detailed analysis", _details(comparison)),
        ("What this rests on", files(comparison)),
        ("How to repeat it", repeat(comparison, provenance)),
    ):
        yield Heading(2, title)
        yield from section
    entries = footnotes.entries()
    if entries:
        yield Footnotes(entries)


def _summary(comparison: Comparison, picture: bool) -> Iterator[Block]:
    for model in comparison.models:
        for answer in verdict.answers(model):
            opening: list[Inline] = [Strong(f"{model.title}:"), " ", Strong(answer.headline)]
            yield Paragraph([*opening, *(f" {sentence}" for sentence in answer.brief)])
            yield from titled_bullets("Why:", answer.why)
            yield from titled_bullets("Next:", answer.next)
    yield from titled_bullets("Notes:", comparison.notes)
    if picture:
        yield Image(PICTURE)


_HARDWARE: tuple[tuple[str, Callable[[Run], object]], ...] = (
    ("GPU", lambda run: run.gpu_info.device_name),
    ("Count", lambda run: run.num_gpus),
    ("Memory of one", lambda run: _gigabytes(run.gpu_info.total_memory_gb)),
    ("Cores of one", lambda run: run.gpu_info.gpu_cores),
    ("Architecture", lambda run: run.gpu_info.architecture),
    ("Software stack", lambda run: joined(run.gpu_info.software_stack, run.gpu_info.software_version, by=" ")),
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
    for side in comparison.sides:
        runs.setdefault(side.name, []).extend(result.run for result in side.runs)
    every = [
        Row(title, title, tuple(Cell(_values(map(read, group))) for group in runs.values()))
        for title, read in _HARDWARE
    ]
    yield tables.grid(list(runs), _known(every), lambda row, index: row.cells[index].text, right_from=99)


def _values(values: Iterable[object]) -> str:
    """What the runs of a side say, each once."""
    return ", ".join(dict.fromkeys(plain(value) for value in values if value is not None)) or UNKNOWN


def _performance(comparison: Comparison, footnotes: tables.Footnotes) -> Iterator[Block]:
    yield Paragraph(
        "Figures are of the steady steps. Throughput is tokens of one step over the mean step time and the number "
        "of GPUs; with several runs a side, the mean of the runs' means, ± its 95 % interval from three runs on. "
        f"{LOSS}"
    )
    others = [metrics.by_name(name) for name in _OTHER_FIGURES]
    for model in comparison.models:
        yield Heading(3, model.title)
        for group in model.groups:
            more = [
                Row(tables.titled(each), "", tuple(Cell(_other(side, each.name)) for side in group.sides))
                for each in others
            ]
            yield _grid(group, [*tables.speed_rows(group, footnotes), *_known(more)])


def _memory(comparison: Comparison) -> Iterator[Block]:
    yield Paragraph(f"{MEMORY} GB are 10⁹ bytes, of one device.")
    for model in comparison.models:
        yield Heading(3, model.title)
        for group in model.groups:
            rows = tables.memory_rows(group)
            yield _grid(group, rows) if rows else Paragraph(NO_MEMORY)


def _worth(comparison: Comparison) -> Iterator[Block]:
    """What the speeds are worth: share of the peak, money, time to train."""
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
                yield Paragraph(f"{side.name}: {why}.")
                continue
            price = comparison.prices.get(side.name)
            title = f"{side.name}, {price} per GPU-hour" if price else side.name
            yield Table(*efficiency.figures(title, found))
            if said := efficiency.reasons(found):
                yield plain_bullets(said)
        yield from beside_published(model)
        costs = [each for pair in model.pairs if (each := cost(comparison, pair)) is not None]
        yield from titled_bullets("In money:", [verdict.money(each, comparison.prices) for each in costs])


def beside_published(model: ModelComparison) -> list[Block]:
    """The speeds beside what is published of the same."""
    title = "Beside published figures of the same GPU, model, precision and sequence length:"
    return titled_bullets(title, published.beside(model))


def _details(comparison: Comparison) -> Iterator[Block]:
    for model in comparison.models:
        yield Heading(3, model.title)
        yield from judgements(model)
        for group in model.groups:
            yield from _details_of(group)
        for table, note in breakdowns(model):
            yield from (Paragraph("Where the time goes:"), table, Paragraph(note))


def judgements(model: ModelComparison) -> Iterator[Block]:
    """What the judge found, each once with the sides that it is about; docs/metrics.md explains the rules."""
    found: dict[Finding, list[str]] = {}
    for side in model.sides:
        for finding in side.findings:
            found.setdefault(finding, []).append(side.name)
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


def same_training(match: TrainingMatch) -> str:
    """Whether two trainings are the same, and why."""
    answer = {True: "the same training", False: "not the same training", None: "same training or not: not decided"}
    return f"{answer[match.same]}: {'; '.join(match.reasons)}"


def _details_of(group: Group) -> Iterator[Block]:
    names = [side.name for side in group.sides]
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
    name, ratio = pair.side.name, pair.ratio
    kind = f"by the ledger: {pair.ledger.verdict}"
    if ratio is None:
        return f"{name}: not compared: {pair.reason} ({kind})", []
    lines: list[Content] = list(pair.caveats)
    for level in ratio.levels:
        places = [("its", level.of_side), ("the reference's", level.of_reference)]
        where = " against ".join(f"{whose} steps {steps}" for whose, steps in places if steps)
        lines.append(f"{units.times(level.value)} in {where}")
    if ratio.smallest is not None:
        needed = "" if ratio.needed is None else f"; the one that was seen would take {ratio.needed} runs a side"
        lines.append(f"so many runs find a difference of {ratio.smallest:.1%} in four of five cases{needed}")
    if pair.training.reasons:
        lines.append(same_training(pair.training))
    if pair.sensitivity:
        # Told of the side that the headline is about: the one that is faster.
        turned = ratio.value < 1
        faster = pair.reference.name if turned else name
        values = {window: 1 / value if turned else value for window, value in pair.sensitivity}
        shown = "; ".join(f"{window} {value:.2f}" for window, value in values.items())
        lines.append(
            f"under the windows that other tools use, {faster} would be {min(values.values()):.2f} to "
            f"{max(values.values()):.2f} times as fast ({shown}); this decides nothing"
        )
    return f"{name}: {verdict.ratio_text(ratio)} as fast ({kind})", lines


_CUT_BY = {
    "tail_reference": "level of the second half",
    "last_level": "last level of several",
    "all_levels": "all levels of several",
    "all_after_first": "no steady state; first step left out",
}


def _runs(group: Group) -> Table:
    rows: list[list[Content]] = []
    for side in group.sides:
        for result in side.runs:
            figures, steady = result.summary.performance, result.summary.steady
            single = steady.method == "all_after_first" and steady.first_step == steady.last_step
            method = steady.method or UNKNOWN
            times = [rates.untimed(side)] * 3
            if figures.avg_step_time_seconds is not None:
                times = [
                    units.duration(figures.warmup_time_seconds),
                    units.seconds(figures.avg_step_time_seconds),
                    rates.rate(figures.tokens_per_second_per_gpu),
                ]
            rows.append(
                [
                    side.name,
                    Code(result.file),
                    result.run.timestamp or "unknown",
                    result.run.status,
                    units.number(figures.total_steps, 0),
                    tables.steady_steps(result),
                    "one record: nothing to cut" if single else _CUT_BY.get(method, method),
                    *times,
                ]
            )
    unit = rates.rate_unit(group.sides)
    header = ["Side", "File", "Start", "Status", "Steps", "Steady", "Cut by", "Before it", "Mean step", unit]
    return Table(header, rows, right_from=4)


def files(comparison: Comparison) -> Iterator[Block]:
    """The files that it rests on, with their digests."""
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
    yield Paragraph(f"Made with TensorPrimat {provenance.version}:")
    yield Script(provenance.command)
    commands = {
        side.name: " ".join(map(plain, side.run.source.command))
        for side in comparison.sides
        if side.run.source is not None and side.run.source.command
    }
    entries: list[Content] = [[f"{name}: ", Code(command)] for name, command in commands.items()]
    yield from titled_bullets("The trainings were started with:", entries)


def _grid(group: Group, rows: Sequence[Row]) -> Table:
    def cell(row: Row, index: int) -> Content:
        shown = row.cells[index]
        return [shown.text, Marks(shown.notes)] if shown.notes else shown.text

    return tables.grid([side.name for side in group.sides], rows, cell)


def _other(side: SideResult, name: str) -> str:
    value = side.value(name)
    if value is None:
        return UNKNOWN if "loss" in name else rates.untimed(side)
    return units.number(value, 0) if value >= 1000 else f"{value:.4g}"


def _known(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if any(cell.text != UNKNOWN for cell in row.cells)]


def _gigabytes(value: float | None) -> str | None:
    return None if value is None else units.gigabytes(value)
