"""Charts -> what page.js draws, as data; how it looks is page.js's.

A trace names the run and the series that it draws: the page holds every measured value once.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, Literal

from tprimat import units
from tprimat.analysis import stats
from tprimat.analysis.summary import OUTLIER_FRACTION, OUTLIER_SIGMAS
from tprimat.compare import ModelComparison
from tprimat.report import explain
from tprimat.report.breakdown import shares
from tprimat.report.page import telemetry
from tprimat.report.page.view import Placed, PlacedRun, View, broken, chart_text, wall_times
from tprimat.report.plot import charts as described
from tprimat.report.plot.charts import Line, LineChart, Series
from tprimat.text import counted

MOST_POINTS = 2000
"""Points of a line; of longer runs the extremes of each of many short ranges are drawn."""

MOST_SYSTEMS = 30
"""Systems of a model whose runs are drawn."""

Chart = dict[str, Any]
Trace = dict[str, Any]


def charts(view: View, model: ModelComparison, number: int) -> list[Chart]:
    """Return the charts of a model. Each has an `id` that its place on the page has too."""
    placed = view.of_model(model)[:MOST_SYSTEMS]
    valid = []
    for each in placed:
        for index in each.runs:
            if view.runs[index].result.is_valid:
                valid.append(view.runs[index])
    found = [
        step_times(view, valid),
        loss(view, valid, "tokens"),
        loss(view, valid, "wall"),
        memory(placed),
        waterfall(model),
        breakdown(model),
    ]
    return [{**chart, "id": f"{chart['kind']}-{number}"} for chart in found if chart is not None]


def step_times(view: View, runs: Sequence[PlacedRun]) -> Chart | None:
    """Return the chart of step times: excluded steps dotted, a thick line for each segment,
    outliers as circles.
    """
    chart = described.step_times(_series(view, runs))
    if chart is None:
        return None
    traces = _traces(view, runs, chart)
    timed = [run for run in runs if any(trace["run"] == run.index for trace in traces)]
    for each in timed:
        traces += _segments(each)
    drawn = {trace["part"] for trace in traces} | {"thin" for trace in traces if trace.get("thin")}
    keys = {"excluded": f"Dotted: {described.EXCLUDED}.", "thin": "Thin: further runs of a system."}
    keys |= {"segment": "Thick line: segment median.", "outliers": "Circles: outliers."}
    note = " ".join(text for part, text in keys.items() if part in drawn)
    if beyond := len(chart.beyond):
        note += (
            f" {counted(beyond, 'step')} {'is' if beyond == 1 else 'are'} off scale; double-click"
            " to show all."
        )
    below = telemetry.panels(timed)
    marked = telemetry.events(timed)
    note += telemetry.note([placed.name for placed in view.systems], marked)
    return {
        **_line_chart("steps", chart, traces, 420 + telemetry.PANEL_HEIGHT * len(below)),
        "note": note,
        **({"panels": below} if below else {}),
        **({"events": marked} if marked else {}),
    }


def loss(view: View, runs: Sequence[PlacedRun], over: Literal["tokens", "wall"]) -> Chart | None:
    """Return the chart of loss over tokens or over wall time; None if no run has values for a
    line.
    """
    if over == "wall":
        runs = [run for run in runs if len(set(wall_times(run.result.run)) - {None}) > 1]
    chart = described.loss(_series(view, runs), over)
    if chart is None:
        return None
    notes = [f"Dotted: {described.floor_note(floor)}." for floor in chart.floors]
    return {
        **_line_chart(f"loss-{over}", chart, _traces(view, runs, chart), 380),
        "note": " ".join(notes),
    }


def _series(view: View, runs: Sequence[PlacedRun]) -> list[Series]:
    return [Series(view.systems[run.system].system, run.result) for run in runs]


def _line_chart(kind: str, chart: LineChart, traces: Sequence[Trace], height: int) -> Chart:
    """Return a chart of lines; the legend takes a row for each system."""
    return {
        "kind": kind,
        "title": chart.title,
        "x": chart.x_title,
        "y": chart.y_title,
        "scale": chart.scale,
        "range": [round(limit, 6) for limit in chart.limits] if chart.limits else None,
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
        each = placed[line.result]
        trace = {
            "run": each.index,
            "system": each.system,
            "x": chart.xs,
            "y": chart.ys,
            "index": _thinned(line, chart),
        }
        if line.is_excluded:
            traces.append({**trace, "part": "excluded"})
            continue
        # The legend names the first line of a system.
        is_first = each.system not in first_runs
        is_further = first_runs.setdefault(each.system, each.index) != each.index
        traces.append({**trace, "part": "steps", "legend": is_first, "thin": is_further})
    return traces


def _segments(each: PlacedRun) -> list[Trace]:
    run = each.result.run
    last = each.result.summary.steady.last_step or 0
    traces = []
    outliers = []
    for segment in each.result.summary.segments:
        within = range(
            bisect_left(run.steps, segment.first_step), bisect_right(run.steps, segment.last_step)
        )
        times = {index: time for index in within if (time := run.step_times[index]) is not None}
        # The rule that counts outliers in analysis/summary.py.
        sigma = stats.robust_sigma(list(times.values()))
        limit = segment.median + max(OUTLIER_FRACTION * segment.median, OUTLIER_SIGMAS * sigma)
        outliers += [index for index, time in times.items() if time > limit]
        text = (
            f"steps {segment.first_step}–{segment.last_step}: median"
            f" {units.seconds(segment.median)}"
        )
        text += f"; {segment.cause}" if segment.cause else ""
        ends = {
            "ends": [run.steps[within[0]], min(run.steps[within[-1]], last)],
            "value": segment.median,
            "text": text,
        }
        traces.append({"system": each.system, "run": each.index, "part": "segment", **ends})
    if outliers:
        series = {"x": "steps", "y": "step_times", "index": outliers}
        traces.append({"run": each.index, "system": each.system, "part": "outliers", **series})
    return traces


def memory(placed: Sequence[Placed]) -> Chart | None:
    """Return bars of each kind of memory, to the average and to the peak; page.js puts those of a
    kind together.
    """
    of_system = {each.system: each for each in placed}
    # Two systems may have one name once they are cut: a zero-width space makes them two for the
    # axis.
    bars = [
        {
            "kind": described.KINDS.index(bar.kind),
            "system": (each := of_system[bar.system]).index,
            "name": broken(each.name) + "\u200b" * each.index,
            "average": bar.average,
            "peak": bar.peak,
        }
        for bar in described.memory([each.system for each in placed])
    ]
    if not bars:
        return None
    order = list(dict.fromkeys(bar["name"] for bar in bars))
    rows = set()
    for bar in bars:
        for word in ("average", "peak"):
            if bar[word] is not None:
                rows.add((bar["kind"], word))
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
    """Shares of the traced time that add up to it; None if no two runs have traces."""
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
    """Bars from one step time to the other, in order of effect; None if no two systems have
    traces.
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
    size = math.ceil((line.stop - line.start) / (MOST_POINTS / 2))
    for begin in range(line.start, line.stop, size):
        end = min(begin + size, line.stop)
        known = [
            (value, index) for index in range(begin, end) if (value := values[index]) is not None
        ]
        if known:
            kept |= {min(known)[1], max(known)[1]}
    return sorted(kept)
