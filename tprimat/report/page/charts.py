"""Comparison -> what the charts of the page show, as data. How they look is page.js's.

A trace names the run and the series that it draws instead of repeating them: the page holds every
measured value once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tprimat import units
from tprimat.analysis import stats
from tprimat.analysis.summary import OUTLIER_FRACTION, OUTLIER_SIGMAS, SegmentMetrics
from tprimat.compare import ModelComparison
from tprimat.report import explain
from tprimat.report.breakdown import shares
from tprimat.report.page import telemetry
from tprimat.report.page.view import Placed, PlacedRun, View, broken, chart_text, wall_times
from tprimat.report.plot.items import KINDS, time_span
from tprimat.report.rates import first_counted
from tprimat.results.run import Run
from tprimat.text import counted

MOST_POINTS = 2000
"""Points of a line; of longer runs the extremes of each of many short ranges are drawn."""

MOST_SYSTEMS = 30
"""Systems of a model whose runs are drawn."""

LOSS_LOG_FROM = 50.0
"""From this factor between the largest and the smallest loss on, the scale is logarithmic."""

Chart = dict[str, Any]
Trace = dict[str, Any]


def charts(view: View, model: ModelComparison, number: int) -> list[Chart]:
    """Return the charts of a model. Each has an `id` that its place on the page has too."""
    placed = view.of_model(model)[:MOST_SYSTEMS]
    valid = [view.runs[index] for each in placed for index in each.runs if view.runs[index].result.is_valid]
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
    """Return the chart of step times: warm-up faded, a thick line for each segment, outliers as circles."""
    timed = [each for each in runs if any(time is not None for time in each.result.run.step_times)]
    if not timed:
        return None
    traces: list[Trace] = []
    for each in timed:
        run, segments, cut = each.result.run, each.result.summary.segments, first_counted(each.result)
        base = {"run": each.index, "system": each.system, "x": "steps", "y": "step_times"}
        if cut:
            traces.append({**base, "part": "warm-up", "index": _thinned(run.step_times, 0, cut + 1)})
        traces.append({**base, **_line(view, each, run.step_times, cut, traces)})
        for segment in segments:
            steps = [step for step in run.steps if segment.first_step <= step <= segment.last_step]
            text = f"steps {segment.first_step}–{segment.last_step}: median {units.seconds(segment.median)}"
            text += f"; {segment.cause}" if segment.cause else ""
            ends = {"ends": [steps[0], steps[-1]], "value": segment.median, "text": text}
            traces.append({"system": each.system, "run": each.index, "part": "segment", **ends})
        outliers = [index for segment in segments for index in _outliers(run, segment)]
        if outliers:
            traces.append({**base, "part": "outliers", "index": outliers})
    span = time_span([each.result for each in timed], beyond=1.5)
    low, high = (span.low / 1.15, span.high * 1.15) if span.is_wide else span.widened(0.06, 0.08)
    beyond = sum(time > high for time in span.times)
    note = "Faded: excluded (warm-up). Thick line: segment median. Circles: outliers."
    if beyond:
        note += f" {counted(beyond, 'step')} {'is' if beyond == 1 else 'are'} off scale; double-click to show all."
    below, marked = telemetry.panels(timed), telemetry.events(timed)
    note += telemetry.note([placed.name for placed in view.systems], marked)
    return {
        "kind": "steps",
        "title": "Step time over the steps",
        "x": "optimizer step",
        "y": "s per step",
        "range": [round(low, 6), round(high, 6)],
        "log": span.is_wide,
        "traces": traces,
        "height": 420 + 11 * len({each.system for each in timed}) + telemetry.PANEL_HEIGHT * len(below),
        "note": note,
        **({"panels": below} if below else {}),
        **({"events": marked} if marked else {}),
    }


def _line(
    view: View, each: PlacedRun, values: Sequence[float | None], start: int, drawn: Sequence[Trace]
) -> dict[str, Any]:
    """The line of a run; the legend names the first line of a system."""
    return {
        "part": "steps",
        "index": _thinned(values, start, len(values)),
        "legend": all(trace["system"] != each.system or trace["part"] == "warm-up" for trace in drawn),
        "pale": len(view.systems[each.system].runs) > 1,
    }


def loss(view: View, runs: Sequence[PlacedRun], over: str) -> Chart | None:
    """Loss over tokens or over wall time, with the entropy of the data where it is known."""
    traces: list[Trace] = []
    values: list[float] = []
    for each in runs:
        run = each.result.run
        known = [value for value in run.loss_values if value is not None]
        places = [run.tokens_per_step] if over == "tokens" else wall_times(run)
        if known and any(place is not None for place in places):
            values += known
            base = {"run": each.index, "system": each.system, "x": over, "y": "loss_values"}
            traces.append({**base, **_line(view, each, run.loss_values, 0, traces)})
    if not traces:
        return None
    entropies = (view.runs[trace["run"]].result.run.data.entropy for trace in traces)
    floors = sorted({floor for floor in entropies if floor})
    dotted = "Dotted: {:.3g} nats/token, data entropy (lowest achievable loss)."
    return {
        "kind": f"loss-{over}",
        "title": "Loss over tokens" if over == "tokens" else "Loss over training time",
        "x": "10⁶ tokens" if over == "tokens" else "training time (s)",
        "y": "loss, nats/token",
        "log": min(values) > 0 and max(values) / min(values) > LOSS_LOG_FROM,
        "traces": traces,
        "floors": floors,
        "height": 380 + 11 * len({trace["system"] for trace in traces}),
        "note": " ".join(map(dotted.format, floors)),
    }


def memory(placed: Sequence[Placed]) -> Chart | None:
    """Bars of each kind of memory, to the average and to the peak."""
    kinds: list[dict[str, Any]] = []
    for kind in KINDS:
        for word, name in (("average", kind.average), ("peak", kind.peak)):
            known = [(each, value) for each in placed if name and (value := each.system.value(name)) is not None]
            if known:
                kinds.append(
                    {
                        "title": f"{kind.title}, {word}",
                        "pattern": kind.hatch[:1],
                        "pale": word == "peak",
                        "systems": [each.index for each, _ in known],
                        "names": [_bar_name(each) for each, _ in known],
                        "values": [value for _, value in known],
                    }
                )
    if not kinds:
        return None
    order = [_bar_name(each) for each in placed if any(each.index in kind["systems"] for kind in kinds)]
    return {
        "kind": "memory",
        "title": "Memory of one device, GB (10⁹ bytes)",
        "x": "GB of 10⁹ bytes",
        "order": order,
        "kinds": kinds,
        "height": 130 + (22 + 16 * len(kinds)) * len(order),
    }


def breakdown(model: ModelComparison) -> Chart | None:
    """Shares of the traced time that add up to it; None where no two runs have traces."""
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
    """Bars from one step time to the other, in order of effect; None where no two systems have traces."""
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


def _bar_name(each: Placed) -> str:
    # Two systems may have one name once they are cut: a zero-width space makes them two for the axis.
    return broken(each.name) + "\u200b" * each.index


def _outliers(run: Run, segment: SegmentMetrics) -> list[int]:
    """Return the indices of the records far above the median of their segment, by the rule that counts them."""
    timed = [
        (index, time)
        for index, (step, time) in enumerate(zip(run.steps, run.step_times, strict=True))
        if time is not None and segment.first_step <= step <= segment.last_step
    ]
    sigma = stats.robust_sigma([time for _, time in timed])
    limit = segment.median + max(OUTLIER_FRACTION * segment.median, OUTLIER_SIGMAS * sigma)
    return [index for index, time in timed if time > limit]


def _thinned(values: Sequence[float | None], start: int, stop: int) -> dict[str, int] | list[int]:
    """Return which records are drawn: all of them, or the extremes of each of many short ranges."""
    if stop - start <= MOST_POINTS:
        return {"from": start, "to": stop}
    kept = {start, stop - 1}
    size = math.ceil((stop - start) / (MOST_POINTS / 2))
    for begin in range(start, stop, size):
        known = [
            (value, index) for index in range(begin, min(begin + size, stop)) if (value := values[index]) is not None
        ]
        if known:
            kept |= {min(known)[1], max(known)[1]}
    return sorted(kept)
