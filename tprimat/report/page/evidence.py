"""How every value was computed: formula with its numbers, steps, file, lines of the log, and the
raw data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tprimat import units
from tprimat.analysis import efficiency, metrics
from tprimat.compare import Pair, RunResult
from tprimat.compare.cost import efficiencies
from tprimat.compare.figures import is_of_blocks, over_runs
from tprimat.notes.catalogue import sentence
from tprimat.report.blocks import Cells, Inline, Link, Paragraph, Table, Target
from tprimat.report.efficiency import figure as efficiency_figure
from tprimat.report.page.markup import Control, Fold, Part, Parts
from tprimat.report.page.view import Placed, PlacedRun, View
from tprimat.report.rates import RATE, rate, rate_unit
from tprimat.report.tables import steady_steps, titled
from tprimat.report.verdict import METHODS, speedup_text
from tprimat.results.fields import JsonObject
from tprimat.results.run import PerformanceMetrics
from tprimat.text import plain

_HEADER = ("Metric", "Value", "How")


def results(view: View) -> Iterator[JsonObject]:
    """Yield the downloads: the runs as they were read, each with the name of its file."""
    digests = {file.name: file.sha256 for file in view.comparison.files}
    for run in view.runs:
        placed = view.systems[run.system]
        own = msgspec.to_builtins(run.result.run, str_keys=True, enc_hook=list)
        yield {
            "system": placed.name,
            "model": plain(placed.model.title),
            "file": plain(run.result.file),
            "sha256": digests.get(run.result.file),
            "valid": run.result.is_valid,
            "run": {**own, "warnings": run.result.run.warnings},
        }


def metric_anchor(placed: Placed, name: str) -> str:
    """Return the anchor of the evidence of a metric; that of the system if it has no value of
    it.
    """
    is_efficiency = any(metric.name == name for metric in efficiency.METRICS)
    if name in placed.system.values or (is_efficiency and placed.system.valid_runs):
        return f"s{placed.index}-{name}"
    return f"s{placed.index}"


def _table(rows: Iterable[Cells], caption: str, *header: str) -> list[Part]:
    """Return a table of values; nothing without rows."""
    cells = list(rows)
    if cells:
        return [Table(header, cells, 99, caption)]
    return []


def section(view: View) -> Parts:
    """Yield the downloads, and the evidence of all ratios and systems."""
    yield Control("downloads")
    every = sum(len(placed.system.runs) for placed in view.systems)
    if len(view.runs) < every:
        yield Paragraph(
            f"Shown: {len(view.runs)} of {every} runs. The others are in the result files."
        )
    ratios = []
    for pair, name in view.pairs.items():
        if view.of(pair.system).runs:
            ratios.append(_pair(view, pair, name))
    if ratios:
        table = _table(ratios, "Ratios", "Pair", "Value", "How")
        yield Fold(f"Ratios ({len(ratios)})", table, len(ratios) == 1)
    for placed in view.systems:
        if placed.runs:
            yield Fold(placed.label, list(_system(view, placed)), anchor=f"s{placed.index}")


def _pair(view: View, pair: Pair, anchor: str) -> Cells:
    system = view.of(pair.system)
    baseline = view.of(pair.baseline)
    links: list[Inline] = [
        *(" (", Link(system.name, metric_anchor(system, RATE), "")),
        *(" / ", Link(baseline.name, metric_anchor(baseline, RATE), ""), ")"),
    ]
    name = Target(f"{system.name} vs {baseline.name}", anchor)
    if pair.ratio is None:
        return [name, units.UNKNOWN, [sentence(pair.reasons), *links]]
    how = (
        f"{rate(pair.system.value(RATE))} / {rate(pair.baseline.value(RATE))}"
        f" {rate_unit([pair.system, pair.baseline])}"
    )
    if pair.ratio.method is not None:
        mean = over_runs(RATE, of_blocks=is_of_blocks(pair.system.valid_runs))
        how = f"{how}, {mean} of the runs; {METHODS[pair.ratio.method]}"
    return [name, speedup_text(pair.ratio), [how, *links]]


def _system(view: View, placed: Placed) -> Parts:
    system = placed.system
    yield Paragraph(f"System: {system.full_name or units.UNKNOWN}.")
    several = len(system.valid_runs) > 1
    if several:
        yield from _table(_values(placed), f"Values of {placed.name}", *_HEADER)
    yield from _table(_efficiency(view, placed), "Efficiency and cost", *_HEADER)
    for run in placed.runs:
        title = f"Run {run.number} of {len(system.runs)}: {run.result.file}"
        if not run.result.is_valid:
            title += f", {run.result.run.status}: excluded"
        # With a single run, its values are those of the system.
        parts = list(_run(placed, run, own_anchors=not several and run.result in system.valid_runs))
        yield Fold(title, parts, not several, f"r{run.index}")


def _values(placed: Placed) -> Iterator[Cells]:
    """Yield the values of a system of several runs."""
    for metric in metrics.METRICS:
        value = placed.system.values.get(metric.name)
        if value is not None:
            mean = over_runs(metric.name, of_blocks=is_of_blocks(placed.system.valid_runs))
            how = f"{mean} of {value.runs} runs, listed below"
            yield [_title(placed, metric), _digits(value.value), how]


def _title(placed: Placed, metric: metrics.Metric) -> Target:
    """Return the title of a row with the evidence of a system's value; the value links to it."""
    return Target(titled(metric), f"s{placed.index}-{metric.name}")


def _efficiency(view: View, placed: Placed) -> Iterator[Cells]:
    columns = efficiencies(view.comparison, placed.system)
    for metric in efficiency.rows(columns):
        value = columns[0].values.get(metric.name)
        if value is not None:
            how = "; ".join(filter(None, [metric.how, metric.reference, value.reason]))
            yield [_title(placed, metric), efficiency_figure(value), how]


def _run(placed: Placed, run: PlacedRun, *, own_anchors: bool) -> Parts:
    result = run.result
    yield Paragraph(_where(result))
    rows: list[Cells] = []
    for metric in metrics.METRICS:
        value = result.value(metric.name)
        if value is not None:
            title = _title(placed, metric) if own_anchors else titled(metric)
            texts = (_digits(float(value)), _formula(metric, result), _from(metric.name, result))
            rows.append([title, *texts])
    yield from _table(rows, f"Values of run {run.number} of {placed.name}", *_HEADER, "Source")
    if result.run.steps:
        yield Control("records", {"run": run.index, "count": len(result.run.steps)})


_SOURCES = {
    "live": "measured",
    "log": "imported from a log",
    "result": "converted from an older result",
}


def _formula(metric: metrics.Metric, result: RunResult) -> str:
    step = result.summary.performance.avg_step_time_seconds
    config = result.run.training_config
    if metric.name == RATE and result.summary.is_printed:
        return "printed by the source; time-weighted mean of the steady-state steps"
    if metric.name != RATE or step is None:
        return "; ".join(filter(None, [metric.how, metric.reference]))
    return (
        "global_batch_size × sequence_length / avg_step_time_seconds / num_gpus ="
        f" {config.global_batch_size} × {config.sequence_length} / {step:.6g} s /"
        f" {result.run.num_gpus}"
    )


def _from(name: str, result: RunResult) -> str:
    """Return where a value comes from; for steps, with the lines of the log if they are known."""
    if name in ("warmup_time_seconds", "final_loss"):
        return f"the series in {result.file}"
    if name not in PerformanceMetrics.__struct_fields__:
        return f"memory_metrics.{name} in {result.file}"
    run = result.run
    first = result.summary.steady.first_step
    last = result.summary.steady.last_step
    if first is None or last is None:
        return result.file
    text = f"steps {first}–{last} of {result.file}"
    numbers = []
    for step, line in zip(run.steps, run.lines, strict=True):
        if line is not None and first <= step <= last:
            numbers.append(line)
    if numbers and run.source is not None and run.source.files:
        text += f"; lines {min(numbers)}–{max(numbers)} of {run.source.files[0].path}"
    return text


def _where(result: RunResult) -> str:
    run = result.run
    parts = [f"{result.file}; started {run.timestamp or 'at an unknown time'}; {run.status}"]
    if run.status_reason:
        parts.append(run.status_reason)
    parts.append(f"steady-state steps {steady_steps(result)}")
    if run.source is not None:
        files = []
        for file in run.source.files:
            files.append(f"{file.path} (sha256 {file.sha256 or 'unknown'})")
        kind = _SOURCES[run.source.kind]
        parts.append(f"{kind}: {', '.join(files)}" if files else kind)
        for name, text in run.source.overrides.items():
            parts.append(f"{name} = {text}, set by the user")
    return "; ".join(parts) + "."


def _digits(number: float) -> str:
    if abs(number) >= 1000:
        return f"{number:,.1f}"
    return f"{number:.6g}"
