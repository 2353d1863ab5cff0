"""The plot of scaling: throughput of all GPUs beside its ideal, and the efficiency, over the number
of GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tprimat.analysis.intervals import level
from tprimat.compare.curves import BREAK, Curve, Scaling
from tprimat.report.colors import colors_of
from tprimat.report.items import LINES, MARKERS
from tprimat.report.plot.layout import Look, Panel, Sheet
from tprimat.report.plot.lines import DOTTED, log_axis
from tprimat.report.rates import Bounds, bounds_of
from tprimat.report.scaling import headline, kind_text, processes, rate_title
from tprimat.text import join_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_CURVES, TITLES = 8, 3
"""Most curves that are drawn, and most that the title names."""

IDEAL: Look = {"linestyle": (0, (4, 3)), "linewidth": 1.0}


def figure(found: Scaling) -> Figure:
    """Return the plot as matplotlib's object."""
    from matplotlib.lines import Line2D

    sheet = Sheet()
    curves = found.curves[:MOST_CURVES]
    titles = [f"{curve.model.short_title}, {headline(curve)}" for curve in curves[:TITLES]]
    if len(found.curves) > TITLES:
        titles.append(f"{len(found.curves) - TITLES} more in the report")
    sheet.write(titles, 12, "bold", "black")
    looks = _looks(curves)
    sheet.add([_throughput(sheet, curves, looks), _efficiency(sheet, curves, looks)])
    labels = [f"{curve.model.short_title}, {curve.name}: {kind_text(curve)}" for curve in curves]
    sheet.legend([Line2D([], [], **look) for look in looks], labels)
    sheet.finish()
    return sheet.figure


def _throughput(sheet: Sheet, curves: Sequence[Curve], looks: Sequence[Look]) -> Panel:
    """Return the panel of the throughput of all GPUs; with several models or units, relative to the
    smallest size of each curve.
    """
    titles = {(curve.model.title, rate_title(curve)) for curve in curves}
    title = "relative to the smallest GPU count"
    if len(titles) == 1:
        title = rate_title(curves[0])

    def draw(axes: Axes, width: float) -> None:
        for curve, look in zip(curves, looks, strict=True):
            first = curve.sizes[0]
            unit = 1.0 if len(titles) == 1 else first.rate * first.gpus
            points = []
            ideal = []
            for size in curve.sizes:
                bounds = bounds_of(size.system) or Bounds(size.rate, size.rate)
                scale = size.gpus / unit
                points.append((scale * size.rate, scale * bounds.low, scale * bounds.high))
                ideal.append(first.rate * size.gpus / unit)
            _points(axes, curve, points, look)
            gpus = [size.gpus for size in curve.sizes]
            axes.plot(gpus, ideal, color=look["color"], alpha=0.7, **IDEAL)
        axes.set_ylabel(title)
        _sizes(sheet, axes, curves, width)
        log_axis(axes)

    detail = f"with {level()} CI; dashed: ideal"
    return Panel("Throughput of all GPUs", detail, draw, 3.8, left=1.15)


def _efficiency(sheet: Sheet, curves: Sequence[Curve], looks: Sequence[Look]) -> Panel:
    def draw(axes: Axes, width: float) -> None:
        for curve, look in zip(curves, looks, strict=True):
            points = []
            for size in curve.sizes:
                ratio = size.efficiency
                if ratio is None:
                    points.append((1.0, 1.0, 1.0))
                else:
                    value = ratio.value
                    points.append((value, ratio.low or value, ratio.high or value))
            _points(axes, curve, points, look)
        axes.axhline(1.0, color="0.35", **IDEAL)
        axes.axhline(BREAK, **DOTTED)
        low_end, high_end = axes.get_ylim()
        axes.set_ylim(min(low_end, 0.8), max(high_end, 1.05))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        _sizes(sheet, axes, curves, width)

    detail = f"with {level()} CI; smallest GPU count: 100%; dotted: {BREAK:.0%}"
    return Panel("Scaling efficiency", detail, draw, 3.8, left=0.5)


def _points(
    axes: Axes, curve: Curve, points: Sequence[tuple[float, float, float]], look: Look
) -> None:
    """Draw the value of each size with the low and the high end of its interval."""
    gpus = [size.gpus for size in curve.sizes]
    values = []
    below = []
    above = []
    for value, low, high in points:
        values.append(value)
        below.append(max(0.0, value - low))
        above.append(max(0.0, high - value))
    axes.errorbar(gpus, values, yerr=[below, above], capsize=4, **look)


def _sizes(sheet: Sheet, axes: Axes, curves: Sequence[Curve], width: float) -> None:
    """Scale the axis of sizes logarithmically, and write below it those that were measured, as far
    as there is room.
    """
    title = join_names(sorted(set(map(processes, curves))))
    texts = {size.gpus: f"{size.gpus:,}" for curve in curves for size in curve.sizes}
    if len(curves) == 1 and curves[0].kind != "strong":
        for size in curves[0].sizes:
            if size.batch:
                texts[size.gpus] = f"{size.gpus:,}\n{size.batch:,}"
                title = f"{processes(curves[0])}, and below them the global batch"
    axes.set_xscale("log", base=2)
    places = sorted(texts)
    # Matplotlib leaves a twentieth of the range free at either end.
    scale = width / 1.1 / math.log(places[-1] / places[0])
    wide = max(map(sheet.width, "\n".join(texts.values()).splitlines())) + 0.08
    kept: list[int] = []
    for place in reversed(places):
        if not kept or scale * math.log(kept[-1] / place) > wide:
            kept.append(place)
    axes.set_xticks(kept, [texts[place] for place in kept])
    axes.minorticks_off()
    axes.set_xlabel(title)


def _looks(curves: Sequence[Curve]) -> list[Look]:
    names = [f"{curve.name}, {curve.model.title}, {curve.kind}" for curve in curves]
    systems = {}
    for name, curve in zip(names, curves, strict=True):
        systems[name] = curve.sizes[0].system
    colors = colors_of(systems)
    looks = []
    for number, name in enumerate(names):
        looks.append(
            {
                "color": colors[name].tone.light,
                "markersize": 6,
                "linewidth": 1.6,
                "marker": MARKERS[number % len(MARKERS)],
                "linestyle": LINES[colors[name].repeated % len(LINES)],
            }
        )
    return looks
