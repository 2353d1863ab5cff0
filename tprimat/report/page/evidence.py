"""Where every figure comes from: formula with its numbers, steps, file, lines of the log, and the raw data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tprimat import units
from tprimat.analysis import efficiency, metrics
from tprimat.compare import Pair, RunResult, over_runs
from tprimat.compare.money import efficiencies
from tprimat.report.blocks import Content, Inline, Link, Paragraph, Table
from tprimat.report.efficiency import figure as efficiency_figure
from tprimat.report.page.markup import Fold, Part
from tprimat.report.page.view import Placed, PlacedRun, View
from tprimat.report.rates import RATE, rate, rate_unit
from tprimat.report.tables import steady_steps, titled
from tprimat.report.verdict import ratio_text
from tprimat.results.run import PerformanceMetrics, Run
from tprimat.text import plain

OPEN = 2
"""Sides whose evidence is unfolded from the start; of more sides all are folded."""

_OF_ALL_STEPS = {"warmup_time_seconds", "final_loss"}
"""Figures that have one value also where a run has several levels."""

_DOWNLOADS = (
    '<p class="buttons"><button type="button" id="download-json">Download the results as JSON</button> '
    '<button type="button" id="download-csv">Download the steps as CSV</button></p>'
)


def results(view: View) -> list[dict[str, Any]]:
    """The runs as they were read, each with the file that holds it: what can be downloaded."""
    digests = {file.name: file.sha256 for file in view.comparison.files}
    return [
        {
            "side": view.sides[placed.side].name,
            "model": plain(view.sides[placed.side].model.title),
            "file": plain(placed.result.file),
            "sha256": digests.get(placed.result.file),
            "counted": placed.result.counted,
            "run": msgspec.to_builtins(placed.result.run, str_keys=True),
        }
        for placed in view.runs
    ]


def anchor(placed: Placed, metric: str) -> str:
    """Where the evidence of a side's figure stands."""
    return f"s{placed.index}-{metric}"


def title_anchor(placed: Placed, title: str) -> str:
    """Where the evidence of a row of a table stands, by the row's title; the side's, where no figure has it."""
    for metric in (*metrics.METRICS, *efficiency.METRICS):
        if title in (metric.title, titled(metric)) and _has(placed, metric.name):
            return anchor(placed, metric.name)
    if title.startswith(("Throughput", "Within the run", "range")) and _has(placed, RATE):
        return anchor(placed, RATE)
    return f"s{placed.index}"


def _has(placed: Placed, name: str) -> bool:
    if name in placed.side.figures:
        return True
    return any(metric.name == name for metric in efficiency.METRICS) and bool(placed.side.counted)


class _Rows:
    """Figures with how they come about, as the rows of a table, each with its anchor."""

    def __init__(self) -> None:
        self._rows: list[list[Content]] = []
        self._ids: list[str] = []

    def add(self, anchor: str, *cells: Content) -> None:
        self._ids.append(anchor)
        self._rows.append(list(cells))

    def table(self, caption: str, *more: str, first: str = "Figure") -> list[Part]:
        """The table, with columns beyond the first three; nothing without rows."""
        header = [first, "Value", "How", *more]
        return [Table(header, self._rows, 99, caption, self._ids)] if self._rows else []


def section(view: View) -> Iterator[Part]:
    """The evidence of all ratios and sides, and the downloads."""
    yield Paragraph("Every figure of this page leads here. The whole of the results is in this file:")
    yield _DOWNLOADS
    ratios = _Rows()
    for number, pair in enumerate(view.pairs):
        ratios.add(f"p{number}", *_pair(view, pair))
    yield from ratios.table("Ratios", first="Ratio")
    unfolded = len(view.sides) <= OPEN
    for placed in view.sides:
        yield Fold(view.title(placed), list(_side(view, placed)), unfolded, f"s{placed.index}", "evidence")


def _pair(view: View, pair: Pair) -> list[Content]:
    side, reference = view.of(pair.side), view.of(pair.reference)
    name = f"{side.name} against {reference.name}"
    places = [anchor(each, RATE) if RATE in each.side.figures else f"s{each.index}" for each in (side, reference)]
    links: list[Inline] = [
        " (figures of ",
        Link(side.name, places[0], ""),
        " and ",
        Link(reference.name, places[1], ""),
    ]
    if pair.ratio is None:
        return [name, units.UNKNOWN, [pair.reason or "", *links, ")"]]
    if pair.ratio.levels:
        how = "; ".join(
            f"{units.times(level.value)} = rate of the side in {_stretch(level.of_side)} / rate of the reference in "
            f"{_stretch(level.of_reference)}"
            for level in pair.ratio.levels
        )
    else:
        rates = " / ".join(rate(each.value(RATE)) for each in (pair.side, pair.reference))
        how = f"{rates} {rate_unit([pair.side, pair.reference])}"
        if pair.ratio.low is not None:
            how = (
                f"ratio of the geometric means of the runs' rates, about {how}; interval: Welch's t on their logarithms"
            )
    return [name, ratio_text(pair.ratio), [how, *links, ")"]]


def _stretch(steps: str | None) -> str:
    return f"steps {steps}" if steps else "all steady steps"


def _side(view: View, placed: Placed) -> Iterator[Part]:
    side = placed.side
    yield Paragraph(f"All that is known of what it is: {side.full_name or 'nothing'}.")
    for finding in side.findings:
        texts = [f"{finding.gravity} ({finding.rule}): {finding.text}", *finding.explanations]
        yield Paragraph(" Would fit with ".join(texts))
    several = len(side.counted) > 1
    if several:
        rows = _Rows()
        for metric in metrics.METRICS:
            found = side.figures.get(metric.name)
            if found is not None:
                how = f"{over_runs(metric.name)} of {found.runs} runs, whose figures stand below"
                rows.add(anchor(placed, metric.name), titled(metric), _digits(found.value), how)
        yield from rows.table(f"Figures of {placed.name}")
    yield from _worth(view, placed)
    for index in placed.runs:
        run = view.runs[index]
        title = f"Run {run.number} of {len(placed.runs)}: {plain(run.result.file)}"
        used = "" if run.result.counted else f", {run.result.run.status}: left out of the figures"
        yield Fold(title + used, list(_run(placed, run, own_anchors=not several)), not several, f"r{run.index}")


def _worth(view: View, placed: Placed) -> list[Part]:
    found = efficiencies(view.comparison, placed.side)
    rows = _Rows()
    for metric in efficiency.rows(found):
        for number, each in enumerate(found):
            got = each.values.get(metric.name)
            if got is not None:
                how = "; ".join(filter(None, [metric.how, metric.reference, got.reason]))
                own = anchor(placed, metric.name) if number == 0 else ""
                rows.add(own, titled(metric), efficiency_figure(got), how, each.steps)
    return rows.table("What the speed is worth", "Of")


def _run(placed: Placed, run: PlacedRun, *, own_anchors: bool) -> Iterator[Part]:
    result = run.result
    yield Paragraph(_where(result))
    rows = _Rows()
    own_anchors = own_anchors and bool(placed.side.counted) and result is placed.side.counted[0]
    for metric in metrics.METRICS:
        found = result.value(metric.name)
        if found is None:
            continue
        if not (placed.side.levels and _of_a_level(metric.name)):
            own = anchor(placed, metric.name) if own_anchors else ""
            source = _from(metric.name, result)
            rows.add(own, titled(metric), _digits(float(found)), _formula(metric, result), source)
        elif metric.name == RATE:
            _add_levels(rows, placed, result)
    yield from rows.table(f"Figures of run {run.number} of {placed.name}", "From")
    if result.run.steps:
        yield (
            f'<details class="steps" data-run="{run.index}"><summary>All {len(result.run.steps)} records of this run, '
            "with their steps and lines</summary></details>"
        )


def _of_a_level(name: str) -> bool:
    return name in PerformanceMetrics.__struct_fields__ and name not in _OF_ALL_STEPS


def _add_levels(rows: _Rows, placed: Placed, result: RunResult) -> None:
    for number, level in enumerate(result.summary.segments):
        where = f"steps {level.first_step}–{level.last_step}"
        source = _lines(result, level.first_step, level.last_step)
        speed, how = rate(level.tokens_per_second_per_gpu), _rate_formula(result.run, level.mean)
        for name, title, text, formula in (
            (RATE, "Throughput per GPU", speed, how),
            ("avg_step_time_seconds", "Step time, mean,", units.seconds(level.mean), "mean of step_times"),
            ("median_step_time_seconds", "Step time, median,", units.seconds(level.median), "median of step_times"),
        ):
            rows.add(anchor(placed, name) if number == 0 else "", f"{title} in {where}", text, formula, source)


def _formula(metric: metrics.Metric, result: RunResult) -> str:
    step = result.summary.performance.avg_step_time_seconds
    if metric.name == RATE and step is not None:
        return _rate_formula(result.run, step)
    return "; ".join(filter(None, [metric.how, metric.reference]))


def _rate_formula(run: Run, step: float) -> str:
    config = run.training_config
    return (
        f"global_batch_size × sequence_length / avg_step_time_seconds / num_gpus = {config.global_batch_size} × "
        f"{config.sequence_length} / {step:.6g} s / {run.num_gpus}"
    )


def _from(name: str, result: RunResult) -> str:
    if name in _OF_ALL_STEPS:
        return f"the series in {plain(result.file)}"
    if not _of_a_level(name):
        return f"memory_metrics.{name} in {plain(result.file)}"
    steady = result.summary.steady
    return _lines(result, steady.first_step, steady.last_step)


def _lines(result: RunResult, first: int | None, last: int | None) -> str:
    """Steps and, where they are known, lines of the log."""
    run = result.run
    if first is None or last is None:
        return plain(result.file)
    text = f"steps {first}–{last} of {plain(result.file)}"
    numbers = [
        line for step, line in zip(run.steps, run.lines, strict=True) if line is not None and first <= step <= last
    ]
    if numbers and run.source is not None and run.source.files:
        text += f"; lines {min(numbers)}–{max(numbers)} of {plain(run.source.files[0].path)}"
    return text


def _where(result: RunResult) -> str:
    """File, source and state of a run."""
    run = result.run
    said = [f"{plain(result.file)}; started {run.timestamp or 'at an unknown time'}; {run.status}"]
    if run.status_reason:
        said.append(run.status_reason)
    said.append(f"steady steps {steady_steps(result)}")
    if run.source is not None:
        kinds = {"live": "measured", "log": "read from a log", "result": "read from an older result"}
        files = [f"{plain(file.path)} (sha256 {file.sha256 or 'unknown'})" for file in run.source.files]
        said.append(f"{kinds[run.source.kind]}{': ' + ', '.join(files) if files else ''}")
        said += [f"{name} = {text}, as given by hand" for name, text in run.source.overrides.items()]
    return "; ".join(said) + "."


def _digits(number: float) -> str:
    return f"{number:,.1f}" if abs(number) >= 1000 else f"{number:.6g}"
