"""Comparison -> what the charts of the page show, as data. How they look is page.js's.

A trace names the run and the series that it draws instead of repeating them: the page holds every
measured value once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tprimat import units
from tprimat.analysis import stats
from tprimat.analysis.summary import OUTLIER_FRACTION, OUTLIER_SIGMAS, SegmentMetrics
from tprimat.compare import ModelComparison, SideResult
from tprimat.report.breakdown import shares
from tprimat.report.page.view import Placed, PlacedRun, View, broken, chart_text, wall_times
from tprimat.report.plot.items import KINDS, LOSS_LOG_FROM, time_span
from tprimat.report.rates import RATE, bounds_of, bounds_within, first_counted, rate, rate_unit
from tprimat.results.run import Run

MOST_POINTS = 2000
"""Points of a line; of longer runs the least and the largest value of each stretch are drawn."""

Chart = dict[str, Any]
Trace = dict[str, Any]


class Bar(NamedTuple):
    """A bar of the throughput chart: its name, its rate with bounds, and what the bounds are."""

    title: str
    value: float | None
    low: float | None
    high: float | None
    what: str


def charts(view: View, model: ModelComparison, number: int) -> list[Chart]:
    """The charts of a model. Each has an `id` that its place on the page has too."""
    placed = view.of_model(model)
    counted = [view.runs[index] for each in placed for index in each.runs if view.runs[index].result.counted]
    found = [
        throughput(placed),
        step_times(view, counted),
        loss(view, counted, "tokens"),
        loss(view, counted, "wall"),
        memory(placed),
        breakdown(model),
    ]
    return [{**chart, "id": f"{chart['kind']}-{number}"} for chart in found if chart is not None]


def throughput(placed: Sequence[Placed]) -> Chart | None:
    """A bar a side, or a level of it, with its interval."""
    unit = rate_unit([each.side for each in placed])
    traces: list[Trace] = []
    notes: list[str] = []
    for each in placed:
        bars = [(bar, bar.value) for bar in throughput_bars(each) if bar.value is not None]
        notes += [f"{each.name}: {bar.what}." for bar in throughput_bars(each) if bar.value is None]
        if bars:
            traces.append(
                {
                    "side": each.index,
                    "names": [_bar_name(each, bar.title) for bar, _ in bars],
                    "values": [value for _, value in bars],
                    "below": [0 if bar.low is None else value - bar.low for bar, value in bars],
                    "above": [0 if bar.high is None else bar.high - value for bar, value in bars],
                    "texts": [f"{rate(value)} {unit}<br>{chart_text(bar.what)}" for bar, value in bars],
                }
            )
    if not traces:
        return None
    order = [name for trace in traces for name in trace["names"]]
    return {
        "kind": "throughput",
        "title": f"Throughput, {unit} (more is better)",
        "x": unit,
        "order": order,
        "traces": traces,
        "height": 110 + 44 * len(order),
        "note": " ".join(notes),
    }


def throughput_bars(each: Placed) -> list[Bar]:
    """Return the bars of a side in the throughput chart and its table; one without a rate says why there is none.

    One for each level of a run that has several: such a run has no single rate.
    """
    side = each.side
    if side.refusal is not None:
        return [Bar("", None, None, None, f"left out: {side.refusal.text}")]
    if side.levels:
        return [
            _bar(f"steps {level.first_step}–{level.last_step}", side, level.tokens_per_second_per_gpu, level)
            for level in side.levels
        ]
    value = side.value(RATE)
    if value is None:
        why = f"no step times: the run {side.ended}" if not side.counted else "tokens/s/GPU unknown"
        return [Bar("", None, None, None, next((doubt for doubt in side.doubts if "throughput" in doubt), why))]
    return [_bar("", side, value)]


def _bar(title: str, side: SideResult, value: float | None, level: SegmentMetrics | None = None) -> Bar:
    bounds = bounds_within(level, value) if level else bounds_of(side)
    if bounds is None:
        few = level or side.counted[0].summary.segments
        why = "too few steps for an interval of the mean" if few else "no steady state: no interval"
        return Bar(title, value, None, None, f"one run, {why}")
    what = {
        "between": f"95 % interval of the mean of {len(side.counted)} runs",
        "range": f"range of {len(side.counted)} runs",
        "within": f"{bounds.coverage:.0%} interval within one run; other runs may lie outside",
    }
    return Bar(title, value, bounds.low, bounds.high, what[bounds.kind])


def step_times(view: View, runs: Sequence[PlacedRun]) -> Chart | None:
    """Step time over the steps: pale before the steady ones, a line a level, spikes as open circles."""
    timed = [each for each in runs if any(time is not None for time in each.result.run.step_times)]
    if not timed:
        return None
    traces: list[Trace] = []
    for each in timed:
        run, levels, cut = each.result.run, each.result.summary.segments, first_counted(each.result)
        base = {"run": each.index, "side": each.side, "x": "steps", "y": "step_times"}
        if cut:
            traces.append({**base, "part": "warm-up", "index": _thinned(run.step_times, 0, cut + 1)})
        traces.append({**base, **_line(view, each, run.step_times, cut, traces)})
        for level in levels:
            steps = [step for step in run.steps if level.first_step <= step <= level.last_step]
            text = f"level of steps {level.first_step}–{level.last_step}: median {units.seconds(level.median)}"
            ends = {"ends": [steps[0], steps[-1]], "value": level.median, "text": text}
            traces.append({"side": each.side, "run": each.index, "part": "level", **ends})
        found = [index for level in levels for index in _spikes(run, level)]
        if found:
            traces.append({**base, "part": "spikes", "index": found})
    span = time_span([each.result for each in timed], beyond=1.5)
    low, high = (span.low / 1.15, span.high * 1.15) if span.is_wide else span.widened(0.06, 0.08)
    beyond = sum(time > high for time in span.times)
    note = "Pale: not in the figures. Thick: the median of a level. Circles: spikes."
    if beyond:
        lie = "1 step lies" if beyond == 1 else f"{beyond} steps lie"
        note += f" {lie} above the scale: a double click on the chart shows all."
    return {
        "kind": "steps",
        "title": "Step time over the steps",
        "x": "optimizer step",
        "y": "s per step",
        "range": [round(low, 6), round(high, 6)],
        "log": span.is_wide,
        "traces": traces,
        "height": 420 + 11 * len({each.side for each in timed}),
        "note": note,
    }


def _line(
    view: View, each: PlacedRun, values: Sequence[float | None], start: int, drawn: Sequence[Trace]
) -> dict[str, Any]:
    """The line of a run; the legend names the first line of a side."""
    return {
        "part": "steps",
        "index": _thinned(values, start, len(values)),
        "legend": all(trace["side"] != each.side or trace["part"] == "warm-up" for trace in drawn),
        "pale": len(view.sides[each.side].runs) > 1,
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
            base = {"run": each.index, "side": each.side, "x": over, "y": "loss_values"}
            traces.append({**base, **_line(view, each, run.loss_values, 0, traces)})
    if not traces:
        return None
    entropies = (view.runs[trace["run"]].result.run.data.entropy for trace in traces)
    floors = sorted({floor for floor in entropies if floor})
    dotted = "Dotted: {:.3g} nats/token, the entropy of the data, which no loss can stay below."
    return {
        "kind": f"loss-{over}",
        "title": "Loss over tokens" if over == "tokens" else "Loss over the time of the recorded steps",
        "x": "10⁶ tokens" if over == "tokens" else "s of recorded steps",
        "y": "loss, nats/token",
        "log": min(values) > 0 and max(values) / min(values) > LOSS_LOG_FROM,
        "traces": traces,
        "floors": floors,
        "height": 380 + 11 * len({trace["side"] for trace in traces}),
        "note": " ".join(map(dotted.format, floors)) or "No run states the entropy of its data, so no floor is drawn.",
    }


def memory(placed: Sequence[Placed]) -> Chart | None:
    """Bars of each kind of memory, to the average and to the peak."""
    kinds: list[dict[str, Any]] = []
    for kind in KINDS:
        for word, name in (("average", kind.average), ("peak", kind.peak)):
            known = [(each, value) for each in placed if name and (value := each.side.value(name)) is not None]
            if known:
                kinds.append(
                    {
                        "title": f"{kind.title}, {word}",
                        "pattern": kind.hatch[:1],
                        "pale": word == "peak",
                        "sides": [each.index for each, _ in known],
                        "names": [_bar_name(each) for each, _ in known],
                        "values": [value for _, value in known],
                    }
                )
    if not kinds:
        return None
    order = [_bar_name(each) for each in placed if any(each.index in kind["sides"] for kind in kinds)]
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


def _bar_name(each: Placed, title: str = "") -> str:
    # Two sides may have one name once they are cut: a zero-width space tells the axis that they are two.
    name = broken(each.name) + "\u200b" * each.index
    return f"{name}<br>{chart_text(title)}" if title else name


def _spikes(run: Run, level: SegmentMetrics) -> list[int]:
    """Indices of the records that lie far above their level, by the rule that counts them."""
    timed = [
        (index, time)
        for index, (step, time) in enumerate(zip(run.steps, run.step_times, strict=True))
        if time is not None and level.first_step <= step <= level.last_step
    ]
    sigma = stats.robust_sigma([time for _, time in timed])
    limit = level.median + max(OUTLIER_FRACTION * level.median, OUTLIER_SIGMAS * sigma)
    return [index for index, time in timed if time > limit]


def _thinned(values: Sequence[float | None], start: int, stop: int) -> dict[str, int] | list[int]:
    """Which records of a stretch are drawn: all of them, or the extremes of each of many short stretches."""
    if stop - start <= MOST_POINTS:
        return {"from": start, "to": stop}
    kept = {start, stop - 1}
    stretch = math.ceil((stop - start) / (MOST_POINTS / 2))
    for begin in range(start, stop, stretch):
        known = [
            (value, index) for index in range(begin, min(begin + stretch, stop)) if (value := values[index]) is not None
        ]
        if known:
            kept |= {min(known)[1], max(known)[1]}
    return sorted(kept)
