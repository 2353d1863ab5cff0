"""The panels with lines: step time over the steps, loss over tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tprimat.report.plot import charts
from tprimat.report.plot.charts import Line, LineChart, Series
from tprimat.report.plot.items import Item, note_below, nothing
from tprimat.report.rates import first_step

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

FEW_SYSTEMS = 4
"""With up to so many systems the warm-up of each is shaded."""

MOST_RUNS = 20
"""Runs of each system that are lines."""

FEW = 40
"""Records that are drawn with a marker each; of more, some ten carry one."""


def step_times(axes: Axes, items: Sequence[Item]) -> tuple[list[Line2D], list[str]]:
    """Draw step time over the steps; return lines and their texts for a legend."""
    drawn = [item for item in items if item.system.valid_runs]
    chart = charts.step_times(_runs(drawn))
    if chart is None:
        axes.set_title("Step time over the steps")
        nothing(axes, [f"{item.label}: the run {item.system.exit_summary}" for item in items])
        return [], []
    in_ms = chart.limits is not None and chart.limits[1] < 1
    lines = _draw(axes, chart, items)
    if in_ms:
        axes.set_ylabel("ms per step")
        axes.yaxis.set_major_formatter(lambda value, _: f"{1e3 * value:g}")
    for item in drawn if len(drawn) <= FEW_SYSTEMS else ():
        _shade(axes, item)
    most = max(len(item.system.valid_runs) for item in drawn)
    many = f"the first {MOST_RUNS} of up to {most:,} runs of a system" if most > MOST_RUNS else ""
    faded = f"faded{' and shaded' if len(drawn) <= FEW_SYSTEMS else ''}: {charts.WARMUP}"
    has_warmup = any(line.is_warmup for line in chart.lines)
    note_below(axes, list(filter(None, [faded if has_warmup else "", charts.beyond_note(chart), many])))
    labels = [f"{item.label} (excluded)" if item.system.exclusion else item.label for item in drawn]
    return [lines[id(item.system)] for item in drawn], labels


def has_loss(items: Sequence[Item]) -> bool:
    """Return whether a panel of the loss shows anything."""
    return charts.loss(_runs(items), "tokens") is not None


def loss(axes: Axes, items: Sequence[Item], note: str = "") -> None:
    """Draw loss over the tokens that were trained on, with a note below it."""
    chart = charts.loss(_runs(items), "tokens")
    reasons = [(item.label, charts.why_no_loss(item.system, "tokens")) for item in items]
    missing = [f"{label}: {reason}" for label, reason in reasons if reason]
    if chart is None:
        axes.set_title("Loss over tokens")
        nothing(axes, missing)
        return
    _draw(axes, chart, items)
    notes = missing if len(missing) <= 2 else [f"{len(missing)} systems without loss over tokens"]
    for floor in chart.floors:
        axes.axhline(floor, color="0.35", linestyle=(0, (1, 2)), linewidth=1.3)
    note_below(axes, [*filter(None, [note]), *notes, *map(charts.floor_note, chart.floors)])


def _runs(items: Sequence[Item]) -> list[Series]:
    return [Series(item.system, result) for item in items for result in item.system.valid_runs[:MOST_RUNS]]


def _draw(axes: Axes, chart: LineChart, items: Sequence[Item]) -> Mapping[int, Line2D]:
    """Draw the lines of a chart with their axes; return the first run's line of each system, by its id.

    The other runs of a system are pale, so that systems stay apart.
    """
    axes.set_title(chart.title)
    axes.set_xlabel(chart.x_title)
    axes.set_ylabel(chart.y_title)
    if chart.is_log:
        _log(axes)
    if chart.limits:
        axes.set_ylim(*chart.limits)
    of_system = {id(item.system): item for item in items}
    drawn: dict[int, Line2D] = {}
    for line in chart.lines:
        xs, ys = _points(chart, line)
        looks = _looks(of_system[id(line.system)], len(line.result.run.steps))
        is_first = not line.is_warmup and id(line.system) not in drawn
        if not is_first:
            looks |= {"alpha": 0.4, "marker": None, "linewidth": 0.9}
        (curve,) = axes.plot(xs, ys, **looks)
        if is_first:
            drawn[id(line.system)] = curve
    return drawn


def _points(chart: LineChart, line: Line) -> tuple[list[float], list[float]]:
    """Return the points of a line; a step without a time is a gap, one without a loss is left out."""
    run = line.result.run
    step = (run.tokens_per_step or 0) / chart.scale if chart.xs == "tokens" else 1
    values: Sequence[float | None] = getattr(run, chart.ys)
    points = [
        (number * step, math.nan if value is None else value)
        for number, value in list(zip(run.steps, values, strict=True))[line.start : line.stop]
        if value is not None or chart.ys == "step_times"
    ]
    return [x for x, _ in points], [y for _, y in points]


def _looks(item: Item, points: int) -> dict[str, Any]:
    return {
        "color": item.color,
        "linestyle": item.line,
        "marker": item.marker,
        "markevery": 1 if points <= FEW else max(1, points // 10),
        "markersize": 4.5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.5,
        "linewidth": 1.2,
        "alpha": 0.95,
    }


def _shade(axes: Axes, item: Item) -> None:
    """Shade the warm-up of a system's first run."""
    result = item.system.valid_runs[0]
    first = first_step(result)
    if first is not None and first > result.run.steps[0]:
        axes.axvspan(result.run.steps[0] - 0.5, first - 0.5, color=item.color, alpha=0.13, linewidth=0)


def _log(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
