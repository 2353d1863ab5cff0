"""Comparison -> a document: the answer first, then the values that it is based on. The HTML page
shows some of its sections.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from tprimat import units
from tprimat.analysis import metrics
from tprimat.analysis.intervals import level
from tprimat.checks.settings import joined
from tprimat.compare import Comparison, Group, ModelComparison, Pair, RunResult, SystemResult
from tprimat.compare.cost import cost, efficiencies
from tprimat.notes import by_reason
from tprimat.notes.catalogue import safe_sentences, sentence, words
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
    Blocks,
    Cells,
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
from tprimat.report.json_values import fields
from tprimat.report.tables import Row
from tprimat.report.verdict import Report
from tprimat.results.run import Run
from tprimat.text import each_once, join_names, plain
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
"""Most systems of a group in the tables; --json has all."""

EFFICIENCY = (
    f"Values in brackets are {level()} confidence intervals, unless another level is given. Missing"
    " values are explained below the table."
)


def in_full(report: Report, sources: Sources, *, plot: bool) -> Document:
    """Return the whole report for a file, with the place of its plot: the answer, then the values
    that it is based on.
    """
    report = report.shortened(MOST_SYSTEMS)
    titles = ", ".join(model.title for model in report.comparison.models)
    screen: list[Block] = [Heading(1, f"Comparison: {titles} · {report.systems}")]
    if report.scaling is not None:
        sizes = scaling.document(report)
        screen.append(Heading(2, "Scaling"))
        screen += [part for part in sizes.screen if plot or not isinstance(part, Image)]
        screen += sizes.details
    screen.append(Heading(2, "Executive summary"))
    screen += first_screen.blocks(report)
    if plot and report.scaling is None:
        screen.append(Image(PLOT))
    screen += first_screen.others(report)
    if report.headline:
        screen += first_screen.verdicts(report)
    reproduce = [Heading(2, "Reproduce"), *repeat(report.comparison, sources)]
    return Document(screen, [*sections(report), *reproduce])


def on_screen(report: Report, *, verbose: bool = True) -> Document:
    """Return what a terminal shows of a report: the answer on one screen; if verbose, all
    values.
    """
    if report.scaling is not None:
        return scaling.document(report)
    details = [*first_screen.others(report), *sections(report)] if verbose else []
    return Document([*first_screen.blocks(report)], details, [*first_screen.verdicts(report)])


def sections(report: Report) -> Blocks:
    """Yield the values that the answers are based on, section by section."""
    comparison = report.comparison

    def of_models(section: Callable[[ModelComparison], Iterable[Block]]) -> Blocks:
        for model in comparison.models:
            if len(comparison.models) > 1:
                yield Heading(3, model.title)
            yield from section(model)

    yield from (Heading(2, "Performance metrics"), Paragraph(METHOD))
    yield from of_models(lambda model: _performance(comparison, model))
    times: list[Block] = []
    if not report.scaling:
        for model in comparison.models:
            times += target.blocks(comparison, model)
    if times:
        title, opening = target.heading(comparison)
        yield from (Heading(2, title), Paragraph(opening), *times)
    yield Heading(2, "Configuration diff")
    yield from of_models(_config_diff)
    yield from (Heading(2, "Efficiency and cost"), Paragraph(EFFICIENCY))
    yield from of_models(lambda model: _efficiency(comparison, model))
    yield Heading(2, "Memory usage")
    yield Paragraph(f"{MEMORY} 1 GB is 10⁹ bytes; values are per GPU, or of the CPU.")
    yield from of_models(_memory)
    yield Heading(2, "Hardware configuration")
    yield from hardware(comparison)
    yield Heading(2, "Detailed analysis")
    yield from of_models(_details)
    yield Heading(2, "Sources")
    yield from files(comparison)
    yield from notes(safe_sentences(by_reason(comparison.notes)), "Notes")


def _performance(comparison: Comparison, model: ModelComparison) -> Blocks:
    footnotes = tables.Footnotes(comparison)
    for group in model.groups:
        rows = tables.speed_rows(group, footnotes)
        more = []
        for name in _OTHER_METRICS:
            # With one device each, the total throughput is that per device, which is above.
            is_repeated = all(system.count == 1 for system in group.systems)
            if name != "tokens_per_second" or not is_repeated:
                metric = metrics.by_name(name)
                more.append(tables.row_of(tables.titled(metric), _others(group, name)))
        yield from tables.explained(_grid(group, [*rows, *_known(more)]))
    yield from notes(_by_text(model, rates.value_warnings))
    # Without prices, a break-even only restates a speedup, so only the leaders have one.
    pairs = list(model.pairs)
    if not comparison.prices:
        pairs = [group.leaders for group in model.groups if group.leaders]
    sentences = []
    for pair in pairs:
        pair_cost = cost(comparison, pair)
        if pair_cost is not None:
            sentences.append(cost_sentence(pair_cost, comparison.prices))
    yield from notes(sentences, "Cost")


def _config_diff(model: ModelComparison) -> Blocks:
    for group in model.groups:
        differing = []
        shared = []
        unstated = []
        for row in group.settings:
            if row.differs:
                texts = [value or UNKNOWN for value in row.values]
                differing.append(tables.row_of(row.title, texts))
            elif not row.unknown:
                shared.append(f"{row.title} {row.values[0]}")
            if row.unknown and row.essential:
                unstated.append(row.title)
        if differing:
            yield tables.texts([system.name for system in group.systems], differing)
        elif len(group.systems) > 1:
            yield Paragraph("No settings differ.")
        if shared:
            yield Paragraph(f"Same on all systems: {', '.join(shared)}.")
        if unstated:
            yield Paragraph(f"Not reported by any system: {', '.join(unstated)}.")


def _efficiency(comparison: Comparison, model: ModelComparison) -> Blocks:
    """Yield the share of the peak, cost and time to train; and why a value is missing."""
    columns = {}
    missing = {}
    for system in model.systems:
        price = comparison.prices.get(system.name)
        measured = efficiencies(comparison, system)
        for values in measured:
            columns[f"{system.name}, {price} per GPU-hour" if price else system.name] = values
        missing[system] = ["excluded" if system.exclusion else "no step times"]
        if measured:
            missing[system] = efficiency.reasons(measured)
    if columns:
        _, table = efficiency.figures(list(columns.values()))
        rows = _known(tables.row_of(title, texts) for title, *texts in table)
        if rows:
            yield tables.grid(list(columns), rows)
    yield from notes(_by_text(model, lambda system: missing[system]))
    yield from beside_published(model)


def _by_text(model: ModelComparison, read: Callable[[SystemResult], Iterable[str]]) -> list[str]:
    texts = []
    for system in model.systems:
        for text in read(system):
            texts.append((system.name, text))
    return each_once(texts, len(model.systems))


def beside_published(model: ModelComparison) -> list[Block]:
    """Return a comparison of the speeds with published ones of the same GPU and model."""
    return notes(
        published.beside(model),
        "Published results for the same GPU, model, task, precision and sequence length",
    )


def _memory(model: ModelComparison) -> Blocks:
    for group in model.groups:
        rows = tables.memory_rows(group)
        if rows:
            yield _grid(group, rows)
        else:
            yield Paragraph("No memory was measured.")


_HARDWARE = {
    "GPU": "gpu_info.device_name",
    "Count": "num_gpus",
    "Memory per GPU": "gpu_info.total_memory_gb",
    "Cores per GPU": "gpu_info.gpu_cores",
    "Architecture": "gpu_info.architecture",
    "Software stack": "gpu_info.software_stack",
    "PyTorch": "gpu_info.pytorch_version",
    "Framework": "framework",
    "Host": "environment.hostname",
    "CPU": "environment.cpu",
    "Operating system": "environment.os",
    "Container": "environment.container",
    "GPU memory of other processes": "environment.memory_held_by_others_gb",
}
"""The field of a run for each row of the table of hardware."""


def hardware(comparison: Comparison) -> Blocks:
    """Yield the hardware and software of each system."""
    runs: dict[str, list[Run]] = {}
    for system in comparison.systems:
        runs.setdefault(system.name, []).extend(result.run for result in system.runs)
    rows = []
    for title, path in _HARDWARE.items():
        texts = []
        for own in runs.values():
            values = dict.fromkeys(_stated(run, path) for run in own)
            texts.append(", ".join(filter(None, values)) or UNKNOWN)
        rows.append(tables.row_of(title, texts))
    yield tables.texts(list(runs), _known(rows))


def _stated(run: Run, path: str) -> str:
    """Return a run's value of the field at this path, memory with its unit and the software stack
    with its version; empty if unknown.
    """
    value = fields(run, path)[path]
    if path == "gpu_info.software_stack":
        value = joined(value, run.gpu_info.software_version, by=" ")
    if value is None:
        return ""
    if path.endswith("_gb"):
        return units.gigabytes(value)
    return plain(value)


def _details(model: ModelComparison) -> Blocks:
    yield from check_findings(model)
    for group in model.groups:
        if group.runner_up:
            yield from comparisons((group.runner_up, *group.pairs))
        elif group.pairs:
            yield from comparisons(group.pairs)
        yield from _runs(group)
    yield from notes(_by_text(model, rates.run_warnings), "Warnings")
    explanation = explain.of_model(model)
    if explanation is not None:
        profile = explain.document(explanation)
        # If nothing else is compared, the first screen has the explanation already.
        if any(group.leaders for group in model.groups):
            yield from profile.screen
        yield from profile.details
    yield from first_screen.time_tables(model, kernels=True)


def evidence(comparison: Comparison) -> Blocks:
    """Yield the evidence of a comparison: files with their digests, and the remarks of checks and
    readers on the runs.
    """
    yield from files(comparison)
    for model in comparison.models:
        used = []
        for system in model.systems:
            runs = f"{len(system.valid_runs)} of {len(system.runs)} runs used"
            used.append(f"{system.full_name}: {runs}")
        yield from notes(used, f"Systems, {model.title}")
        yield from check_findings(model)
        warnings = _by_text(
            model, lambda system: [*rates.value_warnings(system), *rates.run_warnings(system)]
        )
        yield from notes(warnings, "Warnings")


def check_findings(model: ModelComparison) -> Blocks:
    """Yield each finding of the checks once, with the systems that it is about; docs/metrics.md
    explains the rules.
    """
    names_of: dict[tuple[str, str, str, tuple[str, ...]], list[str]] = {}
    for system in model.systems:
        for finding in system.findings:
            why = tuple(map(words, finding.explanations))
            key = (finding.severity, finding.rule, words(finding.note), why)
            names_of.setdefault(key, []).append(system.name)
    entries = []
    for (severity, rule, sentence_of, explanations), names in names_of.items():
        text = f"{severity} ({rule}), {join_names(names)}: {sentence_of}"
        entries.append((text, [f"possible explanation: {why}" for why in explanations]))
    if entries:
        yield Notes(entries, "Checks (docs/metrics.md explains each rule)")


_TRAININGS = {True: "same training", False: "different training", None: "same training? unknown"}
_CONFIGURATIONS = {
    "same configuration": "same configuration, as far as both report it",
    "best configuration": "settings differ; each system runs its own configuration",
    "not comparable": "the configurations cannot be compared",
}


def comparisons(pairs: Iterable[Pair], title: str = "Comparisons") -> Blocks:
    """Yield the pairs, each with its lines; a line that most pairs share is yielded only once,
    below them.
    """
    compared_pairs = list(map(_compared, pairs))
    often = Counter(line for _, lines in compared_pairs for line in lines)
    shared = [line for line, count in often.items() if count > max(1, len(compared_pairs) / 2)]
    entries = []
    for name, lines in compared_pairs:
        entries.append((name, [line for line in lines if line not in shared]))
    yield Notes(entries, title)
    for line in shared:
        others = [name.rpartition(": ")[0] for name, lines in compared_pairs if line not in lines]
        whose = f"all but {'; '.join(others)}" if others else "all"
        yield from notes([f"{whose}: {line}"])


def _compared(pair: Pair) -> tuple[str, list[str]]:
    """Return the ratio of a pair, and below it how it was computed and what it depends on."""
    ratio = pair.ratio
    names = f"{pair.system.name} vs {pair.baseline.name}"
    if ratio is None:
        return f"{names}: not compared", [sentence(pair.reasons)]
    lines = [_CONFIGURATIONS[pair.config_diff.verdict]]
    if ratio.method:
        lines.append(verdict.METHODS[ratio.method])
    for segment in ratio.segments:
        places = []
        if segment.system_steps:
            places.append(f"steps {segment.system_steps} of {pair.system.name}")
        if segment.baseline_steps:
            places.append(f"steps {segment.baseline_steps} of {pair.baseline.name}")
        lines.append(f"{units.times(segment.value)} in {', '.join(places)}")
    effect = ratio.minimum_detectable_effect
    if effect is not None:
        text = f"smallest difference that these runs can detect with 80% power: {effect:.1%}"
        if ratio.runs_needed is not None:
            needed = f"about {ratio.runs_needed} runs each would confirm the observed difference"
            text += f"; {needed}"
        lines.append(text)
    if pair.training.reasons:
        reasons = "; ".join(map(words, pair.training.reasons))
        lines.append(f"{_TRAININGS[pair.training.same]} ({reasons})")
    if pair.sensitivity:
        values = dict(pair.sensitivity)
        shown = ", ".join(f"{name} {value:.2f}×" for name, value in values.items())
        low = min(values.values())
        high = max(values.values())
        lines.append(f"sensitivity: with other common step windows {low:.2f}–{high:.2f}× ({shown})")
    return f"{names}: {verdict.speedup_text(ratio)}", lines


_RUNS = ("System", "File", "Start", "Status", "Steps", "Steady state", "Warm-up", "Mean step")


def _runs(group: Group) -> Blocks:
    """Yield a table of the runs; values that are the same in all runs are above it, not in
    columns.
    """
    rows: list[Sequence[Content]] = [(*_RUNS, rates.rate_unit(group.systems))]
    for system in group.systems:
        for result in system.runs:
            name = system.name if result is system.runs[0] else ""
            rows.append([name, Code(result.file), *_run(system, result)])
    same = []
    kept = []
    for title, *cells in zip(*rows, strict=True):
        is_same = len(cells) > 2 and len(set(cells)) == 1
        if title in ("System", "File") or not is_same:
            kept.append([title, *cells])
        elif cells[0] != UNKNOWN:
            same.append(f"{str(title).lower()} {cells[0]}")
    yield Paragraph(f"Runs (same in all: {', '.join(same)}):" if same else "Runs:")
    header, *lines = zip(*kept, strict=True)
    yield Table(header, lines, right_from=sum(title in header for title in _RUNS[:4]))


def _run(system: SystemResult, result: RunResult) -> list[str]:
    """Return the row of one run in the table of runs: its start, status, steps and times."""
    values = result.summary.performance
    texts = [
        # Without fractions of a second.
        re.sub(r"\.\d+", "", result.run.timestamp or "unknown"),
        result.run.status,
        units.number(values.total_steps, 0),
        tables.steady_steps(result),
    ]
    if not result.summary.has_speed:
        return [*texts, *[rates.untimed(system)] * 3]
    return [
        *texts,
        units.duration(values.warmup_time_seconds),
        units.seconds(values.avg_step_time_seconds),
        rates.rate(result.rate),
    ]


def files(comparison: Comparison) -> Blocks:
    """Yield the files that were compared, with their digests."""
    rows: list[Cells] = []
    results = set()
    logs = set()
    for file in comparison.files:
        rows.append([Code(file.name), str(len(file.runs)), Code(file.sha256)])
        results.add((file.name, file.sha256))
        for run in file.runs:
            if run.source is not None and run.source.kind == "log":
                logs |= {(source.path, source.sha256 or "unknown") for source in run.source.files}
    yield Table(["Result file", "Runs", "sha256"], rows, right_from=99)
    logs -= results
    if logs:
        yield Paragraph("The results were imported from these logs:")
        lines = [[Code(path), Code(digest)] for path, digest in sorted(logs)]
        yield Table(["Log", "sha256"], lines, right_from=99)


def repeat(comparison: Comparison, sources: Sources) -> Blocks:
    """Yield the commands that repeat the report and the runs."""
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
    texts = []
    for system in group.systems:
        value = system.value(name)
        if value is None:
            texts.append(rates.untimed(system))
        elif value >= 1000:
            texts.append(units.number(value, 0))
        else:
            texts.append(f"{value:.4g}")
    return texts


def _known(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if any(cell.text != UNKNOWN for cell in row.cells)]
