"""Charts -> data for page.js, which decides how they look.

A trace names the run and the series that it draws, so that the page contains each measured value
only once.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from tprimat import units
from tprimat.analysis import stats
from tprimat.compare import ModelComparison
from tprimat.notes.catalogue import words
from tprimat.report import explain
from tprimat.report.breakdown import shares
from tprimat.report.page import telemetry
from tprimat.report.page.view import Placed, PlacedRun, View, broken, chart_text, wall_times
from tprimat.report.plot import charts as described
from tprimat.report.plot.charts import Line, LineChart, Series
from tprimat.text import counted

MOST_POINTS = 2000
"""Most points of a line; for longer runs, the extremes of each of many short ranges are drawn."""

MOST_SYSTEMS = 30
"""Most systems of a model whose runs are drawn."""

Chart = dict[str, Any]
Trace = dict[str, Any]


_KEYS = {
    "excluded": f"Dotted: {described.EXCLUDED}.",
    "thin": "Thin: further runs of a system.",
    "segment": "Thick line: segment median.",
    "outliers": "Circles: outliers.",
}


def charts(view: View, model: ModelComparison, number: int) -> Iterator[Chart]:
    """Yield the charts of a model. Each has the `id` of its place on the page."""
    placed = view.of_model(model)[:MOST_SYSTEMS]
    runs = []
    for system in placed:
        runs += [run for run in system.runs if run.result.is_valid]
    for chart in (
        step_times(view, runs),
        loss(view, runs, "tokens"),
        loss(view, runs, "wall"),
        memory(placed),
        waterfall(model),
        breakdown(model),
    ):
        if chart is not None:
            chart["id"] = f"{chart['kind']}-{number}"
            yield chart


def step_times(view: View, runs: Sequence[PlacedRun]) -> Chart | None:
    """Return the chart of step times: excluded steps dotted, a thick line for each segment,
    outliers as circles.
    """
    described_chart = described.step_times(_series(view, runs))
    if described_chart is None:
        return None
    traces = _traces(view, runs, described_chart)
    drawn = {trace["run"] for trace in traces}
    timed = [run for run in runs if run.index in drawn]
    for run in timed:
        traces += _segments(run)
    parts = {trace["part"] for trace in traces}
    if any(trace.get("thin") for trace in traces):
        parts.add("thin")
    note = " ".join(text for part, text in _KEYS.items() if part in parts)
    if beyond := len(described_chart.beyond):
        are = "is" if beyond == 1 else "are"
        note += f" {counted(beyond, 'step')} {are} off scale; double-click to show all."
    panels = telemetry.panels(timed)
    events = telemetry.events(timed)
    note += telemetry.note([placed.name for placed in view.systems], events)
    height = 420 + telemetry.PANEL_HEIGHT * len(panels)
    chart = _line_chart("steps", described_chart, traces, height)
    chart["note"] = note
    if panels:
        chart["panels"] = panels
    if events:
        chart["events"] = events
    return chart


def loss(view: View, runs: Sequence[PlacedRun], over: Literal["tokens", "wall"]) -> Chart | None:
    """Return the chart of loss over tokens or over wall time; None if no run has values for a
    line.
    """
    if over == "wall":
        runs = [run for run in runs if len(set(wall_times(run.result.run)) - {None}) > 1]
    described_chart = described.loss(_series(view, runs), over)
    if described_chart is None:
        return None
    chart = _line_chart(f"loss-{over}", described_chart, _traces(view, runs, described_chart), 380)
    floors = map(described.floor_note, described_chart.floors)
    chart["note"] = " ".join(f"Dotted: {floor}." for floor in floors)
    return chart


def _series(view: View, runs: Sequence[PlacedRun]) -> list[Series]:
    return [Series(view.systems[run.system].system, run.result) for run in runs]


def _line_chart(kind: str, chart: LineChart, traces: Sequence[Trace], height: int) -> Chart:
    """Return a chart of lines; the legend takes a row for each system."""
    limits = None
    if chart.limits:
        limits = [round(limit, 6) for limit in chart.limits]
    return {
        "kind": kind,
        "title": chart.title,
        "x": chart.x_title,
        "y": chart.y_title,
        "scale": chart.scale,
        "range": limits,
        "log": chart.is_log,
        "floors": list(chart.floors),
        "traces": traces,
        "height": height + 11 * len({trace["system"] for trace in traces}),
    }


def _traces(view: View, runs: Sequence[PlacedRun], chart: LineChart) -> list[Trace]:
    placed = {run.result: run for run in runs}
    traces = []
    first_runs: dict[int, int] = {}
    for line in chart.lines:
        run = placed[line.result]
        trace: Trace = {"run": run.index, "system": run.system, "x": chart.xs, "y": chart.ys}
        trace["index"] = _thinned(line, chart)
        trace["part"] = "excluded" if line.is_excluded else "steps"
        if not line.is_excluded:
            # The legend names the first line of a system.
            trace["legend"] = run.system not in first_runs
            trace["thin"] = first_runs.setdefault(run.system, run.index) != run.index
        traces.append(trace)
    return traces


def _segments(placed: PlacedRun) -> list[Trace]:
    run = placed.result.run
    last = placed.result.summary.steady.last_step or 0
    traces: list[Trace] = []
    outliers = []
    for segment in placed.result.summary.segments:
        first_index = bisect_left(run.steps, segment.first_step)
        end_index = bisect_right(run.steps, segment.last_step)
        times = run.step_times[first_index:end_index]
        measured = [time for time in times if time is not None]
        limit = segment.median + stats.outlier_distance(measured, segment.median)
        for index, time in enumerate(times, first_index):
            if time is not None and time > limit:
                outliers.append(index)
        steps = f"steps {segment.first_step}–{segment.last_step}"
        text = f"{steps}: median {units.seconds(segment.median)}"
        if segment.cause:
            text += f"; {words(segment.cause)}"
        traces.append(
            {
                "system": placed.system,
                "run": placed.index,
                "part": "segment",
                "ends": [run.steps[first_index], min(run.steps[end_index - 1], last)],
                "value": segment.median,
                "text": text,
            }
        )
    if outliers:
        trace: Trace = {"run": placed.index, "system": placed.system, "part": "outliers"}
        traces.append({**trace, "x": "steps", "y": "step_times", "index": outliers})
    return traces


def memory(placed: Sequence[Placed]) -> Chart | None:
    """Return bars of each kind of memory, to the average and to the peak; page.js groups them by
    kind.
    """
    of_system = {system.system: system for system in placed}
    bars = []
    rows = set()
    for bar in described.memory(list(of_system)):
        system = of_system[bar.system]
        kind = described.KINDS.index(bar.kind)
        # Two names may be equal after they are cut: zero-width spaces keep them distinct on the
        # axis.
        name = broken(system.name) + "\u200b" * system.index
        values = {"average": bar.average, "peak": bar.peak}
        bars.append({"kind": kind, "system": system.index, "name": name, **values})
        rows |= {(kind, word) for word, value in values.items() if value is not None}
    if not bars:
        return None
    order = list(dict.fromkeys(bar["name"] for bar in bars))
    return {
        "kind": "memory",
        "title": described.MEMORY_TITLE,
        "x": "GB",
        "order": order,
        "kinds": [{"title": kind.title, "pattern": kind.hatch[:1]} for kind in described.KINDS],
        "bars": bars,
        "height": 130 + (22 + 16 * len(rows)) * len(order),
    }


def breakdown(model: ModelComparison) -> Chart | None:
    """Return the chart of the parts that add up to the traced time; None if fewer than two runs
    have traces.
    """
    names, parts = shares(model)
    if len(names) < 2:
        return None
    return {
        "kind": "breakdown",
        "title": "Where the time goes, % of the traced time",
        "x": "% of the traced time",
        "names": [broken(name) for name in names],
        "parts": [{"title": chart_text(title), "values": values} for title, values in parts],
        "height": 150 + 44 * len(names),
    }


def waterfall(model: ModelComparison) -> Chart | None:
    """Return the chart of bars from one step time to the other, in order of effect; None unless two
    systems have traces.
    """
    explanation = explain.of_model(model)
    if explanation is None:
        return None
    bars = explain.waterfall(explanation)
    return {
        "kind": "waterfall",
        "title": chart_text(f"From {explanation.before.name} to {explanation.after.name}"),
        "x": "ms per step",
        **bars,
        "names": [chart_text(name) for name in bars["names"]],
        "notes": [chart_text(note) for note in bars["notes"]],
        "height": 130 + 34 * len(bars["names"]),
    }


def _thinned(line: Line, chart: LineChart) -> dict[str, int] | list[int]:
    """Return which records of a line are drawn: all, or the extremes of each of many short
    ranges.
    """
    if line.stop - line.start <= MOST_POINTS:
        return {"from": line.start, "to": line.stop}
    values: Sequence[float | None] = getattr(line.result.run, chart.ys)
    kept = {line.start, line.stop - 1}
    # For 10,000 records, these are the lowest and the highest of every 10.
    size = math.ceil((line.stop - line.start) / (MOST_POINTS / 2))
    for begin in range(line.start, line.stop, size):
        points = []
        for index in range(begin, min(begin + size, line.stop)):
            value = values[index]
            if value is not None:
                points.append((value, index))
        if points:
            kept |= {min(points)[1], max(points)[1]}
    return sorted(kept)
