"""Comparison -> a document: the answer first, then the values behind it. The page shows some of its
sections.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from tprimat import units
from tprimat.analysis import metrics
from tprimat.analysis.intervals import level
from tprimat.checks import Finding
from tprimat.checks.settings import joined
from tprimat.compare import Comparison, Group, ModelComparison, Pair, SystemResult
from tprimat.compare.cost import cost, efficiencies
from tprimat.report import (
    Sources,
    efficiency,
    explain,
    published,
    rates,
    scaling,
    tables,
    target,
    verdict,
)
from tprimat.report import screen as first_screen
from tprimat.report.blocks import (
    Block,
    Code,
    Content,
    Document,
    Heading,
    Image,
    Notes,
    Paragraph,
    Script,
    Table,
    notes,
)
from tprimat.report.costs import cost_sentence
from tprimat.report.tables import Cell, Row
from tprimat.report.verdict import Report
from tprimat.results.run import Run
from tprimat.text import by_reason, each_once, join_names, plain
from tprimat.units import UNKNOWN

LOSS = "Loss is informational; runs with different data or learning rates cannot be ranked by loss."
MEMORY = (
    "Allocated and reserved memory are counted by PyTorch's allocator; memory in use on the device"
    " is counted by the driver and includes other processes. Compare only values of the same kind."
)
PLOT = "Average step time, throughput, memory and step time over the steps"

_OTHER_METRICS = (
    "min_step_time_seconds",
    "max_step_time_seconds",
    "std_step_time_seconds",
    "warmup_time_seconds",
    "tokens_per_second",
    "steps_per_second",
    "final_loss",
)


METHOD = (
    "Warm-up is excluded if it can be detected. Throughput is the work of a step divided by the"
    " mean step time and the number of GPUs; of several runs it is the geometric mean, with its"
    f" {level()} confidence interval. {LOSS}"
)
MOST_SYSTEMS = 100
"""Systems of a group that the tables have; nobody reads more, and --json has all."""

EFFICIENCY = (
    f"Values in brackets are {level()} confidence intervals, unless another level is given. Missing"
    " values are explained below the table."
)


def of(report: Report, sources: Sources, *, plot: bool) -> Document:
    """Return all that a file says of a report, with the place of its plot: the answer, then the
    values behind it.
    """
    report = report.shortened(MOST_SYSTEMS)
    titles = ", ".join(model.title for model in report.comparison.models)
    screen: list[Block] = [Heading(1, f"Comparison: {titles} · {report.systems}")]
    if report.scaling is not None:
        found = scaling.document(report)
        pictured = [part for part in found.screen if plot or not isinstance(part, Image)]
        screen += [Heading(2, "Scaling"), *pictured, *found.details]
    picture = [Image(PLOT)] if plot and report.scaling is None else []
    summary = [
        Heading(2, "Executive summary"),
        *first_screen.blocks(report),
        *picture,
        *first_screen.others(report),
    ]
    if report.headline:
        summary += first_screen.verdicts(report)
    reproduce = [Heading(2, "Reproduce"), *repeat(report.comparison, sources)]
    return Document([*screen, *summary], [*sections(report), *reproduce])


def on_screen(report: Report, *, verbose: bool = True) -> Document:
    """Return what a terminal shows of a report: the answer on one screen; with --verbose all
    values.
    """
    if report.scaling is not None:
        return scaling.document(report)
    details = [*first_screen.others(report), *sections(report)] if verbose else []
    return Document([*first_screen.blocks(report)], details, [*first_screen.verdicts(report)])


def sections(report: Report) -> Iterator[Block]:
    """Yield the values behind an answer, section by section."""
    comparison = report.comparison

    def each_model(section: Callable[[ModelComparison], Iterable[Block]]) -> Iterator[Block]:
        for model in comparison.models:
            if len(comparison.models) > 1:
                yield Heading(3, model.title)
            yield from section(model)

    if report.scaling:
        targets = []
    else:
        targets = [
            block for model in comparison.models for block in target.blocks(comparison, model)
        ]
    for title, opening, section in (
        ("Performance metrics", METHOD, each_model(lambda model: _performance(comparison, model))),
        *(((*target.heading(comparison), targets),) if targets else ()),
        ("Configuration diff", "", each_model(_config_diff)),
        (
            "Efficiency and cost",
            EFFICIENCY,
            each_model(lambda model: _efficiency(comparison, model)),
        ),
        (
            "Memory usage",
            f"{MEMORY} 1 GB is 10⁹ bytes; values are per GPU, or of the CPU.",
            each_model(_memory),
        ),
        ("Hardware configuration", "", hardware(comparison)),
        ("Detailed analysis", "", each_model(_details)),
        ("Sources", "", (*files(comparison), *notes(by_reason(comparison.notes), "Notes"))),
    ):
        yield Heading(2, title)
        if opening:
            yield Paragraph(opening)
        yield from section


def _performance(comparison: Comparison, model: ModelComparison) -> Iterator[Block]:
    footnotes = tables.Footnotes(comparison)
    others = [metrics.by_name(name) for name in _OTHER_METRICS]
    for group in model.groups:
        more = [
            Row(tables.titled(other), tuple(map(Cell, _others(group, other.name))))
            for other in others
            # Of one device each, the throughput of all is that of one, which stands above.
            if other.name != "tokens_per_second"
            or any(system.count != 1 for system in group.systems)
        ]
        yield from tables.explained(
            _grid(group, [*tables.speed_rows(group, footnotes), *_known(more)])
        )
    yield from notes(_by_text(model, lambda system: system.value_warnings))
    # Without prices, a break-even is a speedup in other words, so only the leaders have one.
    pairs = list(model.pairs)
    if not comparison.prices:
        pairs = [group.leaders for group in model.groups if group.leaders]
    costs = [each for pair in pairs if (each := cost(comparison, pair)) is not None]
    yield from notes([cost_sentence(cost, comparison.prices) for cost in costs], "Cost")


def _config_diff(model: ModelComparison) -> Iterator[Block]:
    for group in model.groups:
        names = [system.name for system in group.systems]
        if differing := [row for row in group.settings if row.differs]:
            cells = []
            for row in differing:
                cells.append(Row(row.title, tuple(Cell(value or UNKNOWN) for value in row.values)))
            yield tables.texts(names, cells)
        elif len(group.systems) > 1:
            yield Paragraph("No settings differ.")
        shared = []
        for row in group.settings:
            if not row.differs and not row.unknown:
                shared.append(f"{row.title} {row.values[0]}")
        unstated = [row.title for row in group.settings if row.unknown and row.essential]
        for title, texts in (
            ("Same on all systems", shared),
            ("Not reported by any system", unstated),
        ):
            if texts:
                yield Paragraph(f"{title}: {', '.join(texts)}.")


def _efficiency(comparison: Comparison, model: ModelComparison) -> Iterator[Block]:
    """Yield share of the peak, money and time to train; and why something is missing."""
    found = {system: efficiencies(comparison, system) for system in model.systems}
    known = {}
    for system in model.systems:
        price = comparison.prices.get(system.name)
        for values in found[system]:
            known[f"{system.name}, {price} per GPU-hour" if price else system.name] = values
    if known:
        _, rows = efficiency.figures(list(known.values()))
        if cells := _known([Row(title, tuple(map(Cell, texts))) for title, *texts in rows]):
            yield tables.grid(list(known), cells)

    def missing(system: SystemResult) -> list[str]:
        if found[system]:
            return efficiency.reasons(found[system])
        return ["excluded" if system.exclusion else "no step times"]

    yield from notes(_by_text(model, missing))
    yield from beside_published(model)


def _by_text(model: ModelComparison, read: Callable[[SystemResult], Iterable[str]]) -> list[str]:
    return each_once(
        ((system.name, text) for system in model.systems for text in read(system)),
        len(model.systems),
    )


def beside_published(model: ModelComparison) -> list[Block]:
    """Return the speeds beside those that are published of the same."""
    return notes(
        published.beside(model),
        "Published results for the same GPU, model, task, precision and sequence length",
    )


def _memory(model: ModelComparison) -> Iterator[Block]:
    for group in model.groups:
        rows = tables.memory_rows(group)
        yield _grid(group, rows) if rows else Paragraph("No memory was measured.")


_HARDWARE: tuple[tuple[str, Callable[[Run], object]], ...] = (
    ("GPU", lambda run: run.gpu_info.device_name),
    ("Count", lambda run: run.num_gpus),
    ("Memory per GPU", lambda run: units.gigabytes(run.gpu_info.total_memory_gb)),
    ("Cores per GPU", lambda run: run.gpu_info.gpu_cores),
    ("Architecture", lambda run: run.gpu_info.architecture),
    (
        "Software stack",
        lambda run: joined(run.gpu_info.software_stack, run.gpu_info.software_version, by=" "),
    ),
    ("PyTorch", lambda run: run.gpu_info.pytorch_version),
    ("Framework", lambda run: run.framework),
    ("Host", lambda run: run.environment.hostname),
    ("CPU", lambda run: run.environment.cpu),
    ("Operating system", lambda run: run.environment.os),
    ("Container", lambda run: run.environment.container),
    (
        "GPU memory of other processes",
        lambda run: units.gigabytes(run.environment.memory_held_by_others_gb),
    ),
)


def hardware(comparison: Comparison) -> Iterator[Block]:
    """Yield what trained, system by system."""
    runs: dict[str, list[Run]] = {}
    for system in comparison.systems:
        runs.setdefault(system.name, []).extend(result.run for result in system.runs)
    every = []
    for title, read in _HARDWARE:
        every.append(Row(title, tuple(Cell(_values(map(read, group))) for group in runs.values())))
    yield tables.texts(list(runs), _known(every))


def _values(values: Iterable[object]) -> str:
    return (
        ", ".join(dict.fromkeys(plain(value) for value in values if value not in (None, UNKNOWN)))
        or UNKNOWN
    )


def _details(model: ModelComparison) -> Iterator[Block]:
    yield from judgements(model)
    for group in model.groups:
        if group.pairs:
            second = [group.runner_up] if group.runner_up else []
            yield from _comparisons((*second, *group.pairs))
        yield from _runs(group)
    yield from notes(_by_text(model, lambda system: system.run_warnings), "Warnings")
    if (explanation := explain.of_model(model)) is not None:
        found = explain.document(explanation)
        # If nothing else is compared, the first screen has the explanation already.
        is_new = any(group.leaders for group in model.groups)
        yield from (*(found.screen if is_new else ()), *found.details)
    yield from first_screen.time_tables(model, kernels=True)


def evidence(comparison: Comparison) -> Iterator[Block]:
    """Yield what a comparison rests on: files with their digests, and what the checks and readers
    say of the runs.
    """
    yield from files(comparison)
    for model in comparison.models:
        used = []
        for each in model.systems:
            used.append(f"{each.full_name}: {len(each.valid_runs)} of {len(each.runs)} runs used")
        yield from notes(used, f"Systems, {model.title}")
        yield from judgements(model)
        yield from notes(
            _by_text(model, lambda each: [*each.value_warnings, *each.run_warnings]), "Warnings"
        )


def judgements(model: ModelComparison) -> Iterator[Block]:
    """Yield what the checks found, each once with the systems that it is about; docs/metrics.md
    explains the rules.
    """
    found: dict[Finding, list[str]] = {}
    for system in model.systems:
        for finding in system.findings:
            found.setdefault(finding, []).append(system.name)
    if found:
        yield Notes(
            [
                (
                    f"{finding.severity} ({finding.rule}), {join_names(names)}: {finding.text}",
                    [
                        f"possible explanation: {explanation}"
                        for explanation in finding.explanations
                    ],
                )
                for finding, names in found.items()
            ],
            "Checks (docs/metrics.md explains each rule)",
        )


_TRAININGS = {True: "same training", False: "different training", None: "same training? unknown"}
_CONFIGURATIONS = {
    "same configuration": "same configuration, as far as both report it",
    "best configuration": "settings differ; each system runs its own configuration",
    "not comparable": "the configurations cannot be compared",
}


def _comparisons(pairs: Iterable[Pair]) -> Iterator[Block]:
    """Yield the pairs with the lines of each; a line that most of them share is yielded once,
    below.
    """
    found = [compared(pair) for pair in pairs]
    often = Counter(line for _, lines in found for line in lines)
    shared = [line for line, count in often.items() if count > max(1, len(found) / 2)]
    yield Notes(
        [(name, [line for line in lines if line not in shared]) for name, lines in found],
        "Comparisons",
    )
    for line in shared:
        others = [name.rpartition(": ")[0] for name, lines in found if line not in lines]
        yield from notes([f"all{' but ' if others else ''}{'; '.join(others)}: {line}"])


def compared(pair: Pair) -> tuple[str, list[str]]:
    """Return the ratio of a pair, and below it how it was computed and what it depends on."""
    ratio = pair.ratio
    names = f"{pair.system.name} vs {pair.baseline.name}"
    if ratio is None:
        return f"{names}: not compared", [pair.reason or ""]
    lines = [_CONFIGURATIONS[pair.config_diff.verdict]]
    if ratio.method:
        lines.append(verdict.METHODS[ratio.method])
    for segment in ratio.segments:
        places = ((pair.system, segment.system_steps), (pair.baseline, segment.baseline_steps))
        where = ", ".join(f"steps {steps} of {system.name}" for system, steps in places if steps)
        lines.append(f"{units.times(segment.value)} in {where}")
    if (effect := ratio.minimum_detectable_effect) is not None:
        runs = ratio.runs_needed
        if runs is None:
            needed = ""
        else:
            needed = f"; about {runs} runs each would confirm the observed difference"
        lines.append(
            f"smallest difference that these runs can detect with 80% power: {effect:.1%}{needed}"
        )
    if pair.training.reasons:
        lines.append(f"{_TRAININGS[pair.training.same]} ({'; '.join(pair.training.reasons)})")
    if pair.sensitivity:
        values = dict(pair.sensitivity)
        shown = ", ".join(f"{name} {value:.2f}×" for name, value in values.items())
        low = min(values.values())
        high = max(values.values())
        lines.append(f"sensitivity: with other common step windows {low:.2f}–{high:.2f}× ({shown})")
    return f"{names}: {verdict.speedup_text(ratio)}", lines


def _runs(group: Group) -> Iterator[Block]:
    """Yield a table of the runs; values that are the same in all runs are above it, not in
    columns.
    """
    rows = []
    for system in group.systems:
        untimed = [rates.untimed(system)] * 3
        for result in system.runs:
            values = result.summary.performance
            start = re.sub(r"\.\d+", "", result.run.timestamp or "unknown")
            steps = [
                result.run.status,
                units.number(values.total_steps, 0),
                tables.steady_steps(result),
            ]
            times = untimed
            if (mean := values.avg_step_time_seconds) is not None:
                times = [
                    units.duration(values.warmup_time_seconds),
                    units.seconds(mean),
                    rates.rate(result.rate),
                ]
            name = "" if result is not system.runs[0] else system.name
            rows.append([name, Code(result.file), start, *steps, *times])
    unit = rates.rate_unit(group.systems)
    header = [
        "System",
        "File",
        "Start",
        "Status",
        "Steps",
        "Steady state",
        "Warm-up",
        "Mean step",
        unit,
    ]
    columns = list(zip(header, *rows, strict=True))
    same = []
    for title, *texts in columns[2:]:
        if len(texts) > 2 and len(set(texts)) == 1:
            same.append((title, texts[0]))
    common = ", ".join(f"{title.lower()} {text}" for title, text in same if text != UNKNOWN)
    yield Paragraph(f"Runs (same in all: {common}):" if common else "Runs:")
    first, *lines = zip(*(column for column in columns if column[:2] not in same), strict=True)
    yield Table(first, lines, right_from=sum(title in first for title in header[:4]))


def files(comparison: Comparison) -> Iterator[Block]:
    """Yield the files that the report rests on, with their digests."""
    rows: list[list[Content]] = [
        [Code(file.name), str(len(file.runs)), Code(file.sha256)] for file in comparison.files
    ]
    yield Table(["Result file", "Runs", "sha256"], rows, right_from=99)
    logs = {
        (source.path, source.sha256 or "unknown")
        for file in comparison.files
        for run in file.runs
        if run.source is not None and run.source.kind == "log"
        for source in run.source.files
    } - {(file.name, file.sha256) for file in comparison.files}
    if logs:
        yield Paragraph("The results were imported from these logs:")
        yield Table(
            ["Log", "sha256"],
            [[Code(path), Code(digest)] for path, digest in sorted(logs)],
            right_from=99,
        )


def repeat(comparison: Comparison, sources: Sources) -> Iterator[Block]:
    """Yield the commands that make the report, and the runs, again."""
    yield Paragraph(f"Made with TensorPrimat {sources.version}:")
    yield Script(sources.command)
    commands = {}
    for system in comparison.systems:
        if system.run.source is not None and system.run.source.command:
            commands[system.name] = " ".join(map(plain, system.run.source.command))
    entries: list[Content] = [[f"{name}: ", Code(command)] for name, command in commands.items()]
    yield from notes(entries, "The runs were started with")


def _grid(group: Group, rows: Sequence[Row]) -> Table:
    return tables.grid([system.name for system in group.systems], rows)


def _others(group: Group, name: str) -> list[str]:
    if name == "final_loss":
        return rates.final_losses(group.systems)
    values = [system.value(name) for system in group.systems]
    texts = (
        "" if value is None else units.number(value, 0) if value >= 1000 else f"{value:.4g}"
        for value in values
    )
    return [
        text or rates.untimed(system) for text, system in zip(texts, group.systems, strict=True)
    ]


def _known(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if any(cell.text != UNKNOWN for cell in row.cells)]
