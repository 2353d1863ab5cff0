"""The panels with lines: step time over the steps, loss over tokens."""

from __future__ import annotations

import math
import statistics
from array import array
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tprimat.analysis import stats
from tprimat.report.items import Item, Items
from tprimat.report.plot import charts
from tprimat.report.plot.charts import Line, LineChart, Series
from tprimat.report.plot.layout import Look, Panel
from tprimat.report.rates import counted_records

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

BAND_FROM = 4
"""Number of runs from which on a system has its median and range instead of a line for each run."""

PLACES = 150
"""Most places of a band's median and range; with more steps, each place covers several steps."""

FEW = 40
"""Most records that each have a marker; if there are more, about ten of them have one."""

LEAST_TICKS = 3
"""Fewest numbers on a logarithmic axis."""

FURTHER = {"marker": None, "linewidth": 0.6}
EXCLUDED: Look = {
    "marker": None,
    "linewidth": 0.9,
    "linestyle": (0, (1, 1.5)),
    "alpha": 0.6,
}
"""Line styles of a system's further runs and of excluded records, which differ without color, too.
"""

DOTTED: Look = {"color": "0.35", "linestyle": (0, (1, 2)), "linewidth": 1.3}


def step_times(items: Items) -> Panel | None:
    """Return the panel of step time over the steps; None without any."""
    chart = charts.step_times(_runs(items))
    if chart is None:
        return None
    in_ms = chart.limits is not None and chart.limits[1] < 1

    def draw(axes: Axes, width: float) -> None:
        _draw(axes, chart, items)
        if in_ms:
            axes.set_ylabel("ms per step")
            axes.yaxis.set_major_formatter(lambda value, _: f"{1e3 * value:g}")

    return Panel(chart.title, _detail(items), draw, notes=[charts.beyond_note(chart)])


def loss(items: Items) -> Panel | None:
    """Return the panel of loss over the tokens that were trained on; None without any."""
    chart = charts.loss(_runs(items), "tokens")
    if chart is None:
        return None

    def draw(axes: Axes, width: float) -> None:
        _draw(axes, chart, items)
        for floor in chart.floors:
            axes.axhline(floor, **DOTTED)

    missing = []
    for item in items:
        if reason := charts.why_no_loss(item.system, "tokens"):
            missing.append(f"{item.label}: {reason}")
    if len(missing) > 2:
        missing = [f"{len(missing)} systems without loss over tokens"]
    return Panel(chart.title, _detail(items), draw, notes=missing)


def handle(item: Item) -> Line2D:
    """Return a system's line for the legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **_looks(item, 1))


def keys(items: Items, *, has_steps: bool, has_loss: bool) -> dict[str, Line2D | Patch]:
    """Return the legend's entries other than systems, by text: bands, excluded steps, and the
    lowest loss.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    gray = DOTTED["color"]
    entries = dict[str, Line2D | Patch]()
    if any(len(item.system.valid_runs) >= BAND_FROM for item in items):
        entries["range of the runs around their median"] = Patch(color=gray, alpha=0.3, linewidth=0)
    if has_steps and not all(all(counted_records(run.result)) for run in _runs(items)):
        entries[charts.EXCLUDED] = Line2D([], [], color="black", **EXCLUDED)
    chart = charts.loss(_runs(items), "tokens") if has_loss else None
    if chart is not None:
        for floor in chart.floors:
            entries[charts.floor_note(floor)] = Line2D([], [], **DOTTED)
    return entries


def _runs(items: Items) -> list[Series]:
    return [Series(item.system, result) for item in items for result in item.system.valid_runs]


def _detail(items: Items) -> str:
    runs = [len(item.system.valid_runs) for item in items if item.system.valid_runs]
    text = "a line per run"
    if any(number >= BAND_FROM for number in runs):
        text = "line: median of the runs; band: range; points: outliers"
        if min(runs) < BAND_FROM:
            text += f" ({BAND_FROM} runs or more)"
    if any(1 < number < BAND_FROM for number in runs):
        text += "; thin: second and third run of a system"
    return text


def _draw(axes: Axes, chart: LineChart, items: Items) -> None:
    """Draw the lines of a chart with their axes.

    If a system has two or three runs, all but the first are thin, so that systems stay distinct;
    more are a band.
    """
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel(chart.x_title)
    axes.set_ylabel(chart.y_title)
    if chart.is_log:
        log_axis(axes)
    else:
        axes.yaxis.set_major_locator(MaxNLocator(6))
    if chart.limits:
        axes.set_ylim(*chart.limits)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=chart.xs == "steps"))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.12g}")
    for item in items:
        own = [line for line in chart.lines if line.system is item.system]
        if len({line.result for line in own}) >= BAND_FROM:
            _band(axes, chart, [line for line in own if not line.is_excluded], item)
            own = [line for line in own if line.is_excluded and line.result is own[0].result]
        for line in own:
            looks = _looks(item, len(line.result.run.steps))
            if line.is_excluded:
                looks |= EXCLUDED
            elif line.result is not own[0].result:
                looks |= FURTHER
            axes.plot(*_points(chart, line), **looks)


def _band(axes: Axes, chart: LineChart, lines: Sequence[Line], item: Item) -> None:
    """Draw the median of a system's runs and their range, and values far from the median as
    points.
    """
    # Thousands of runs have millions of values, which take less memory in arrays.
    values: dict[float, array[float]] = defaultdict(lambda: array("d"))
    for line in lines:
        for x, y in zip(*_points(chart, line), strict=True):
            if not math.isnan(y):
                values[x].append(y)
    every = sorted(values)
    # With 400 steps and 150 places, each place covers 3 steps.
    count = -(-len(every) // PLACES)
    xs = []
    lows = []
    medians = []
    highs = []
    for start in range(0, len(every), count or 1):
        steps = every[start : start + count]
        own = array("d")
        for x in steps:
            own.extend(values[x])
        median = statistics.median(own)
        limit = stats.outlier_distance(own, median)
        inside = [y for y in own if abs(y - median) <= limit]
        xs.append(statistics.median(steps))
        medians.append(median)
        lows.append(min(inside))
        highs.append(max(inside))
        far_xs = []
        far_ys = []
        for x in steps:
            for y in values[x]:
                if abs(y - median) > limit:
                    far_xs.append(x)
                    far_ys.append(y)
        if far_xs:
            axes.plot(far_xs, far_ys, ".", color=item.color.tone.light, markersize=3)
    axes.fill_between(xs, lows, highs, color=item.color.tone.light, alpha=0.3, linewidth=0)
    axes.plot(xs, medians, **_looks(item, len(xs)))


def _points(chart: LineChart, line: Line) -> tuple[list[float], list[float]]:
    """Return the points of a line. A step without a time leaves a gap; a step without a loss is
    omitted.
    """
    run = line.result.run
    unit = 1.0
    if chart.xs == "tokens":
        unit = (run.tokens_per_step or 0) / chart.scale
    values: Sequence[float | None] = getattr(run, chart.ys)
    xs = []
    ys = []
    for index in range(line.start, line.stop):
        value = values[index]
        if value is None and chart.ys == "step_times":
            value = math.nan
        if value is not None:
            xs.append(run.steps[index] * unit)
            ys.append(value)
    return xs, ys


def _looks(item: Item, points: int) -> Look:
    return {
        "color": item.color.tone.light,
        "linestyle": item.line,
        "marker": item.marker,
        "markevery": 1 if points <= FEW else max(1, points // 10),
        "markersize": 4.5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.5,
        "linewidth": 1.2,
        "alpha": 0.95,
    }


def log_axis(axes: Axes) -> None:
    """Make the vertical axis logarithmic, with the numbers 1, 2, 5, 10, …, or more of them if it
    covers a short range.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    class Locator(LogLocator):
        def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
            ticks = super().tick_values(vmin, vmax)
            if sum(vmin <= tick <= vmax for tick in ticks) >= LEAST_TICKS:
                return ticks
            return [tick for tick in MaxNLocator(4).tick_values(vmin, vmax) if tick > 0]

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(Locator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.12g}")
    axes.yaxis.set_minor_locator(NullLocator())
