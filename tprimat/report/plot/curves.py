"""The plot of scaling: throughput of all GPUs beside its ideal, and the efficiency, over the number
of GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tprimat.analysis.intervals import level
from tprimat.compare.curves import BREAK, Curve, Scaling
from tprimat.report.plot.colors import colors_of
from tprimat.report.plot.items import LINES, MARKERS
from tprimat.report.plot.layout import Panel, Sheet
from tprimat.report.plot.lines import DOTTED, log_axis
from tprimat.report.rates import bounds_of
from tprimat.report.scaling import headline, kind_text, processes, rate_title
from tprimat.text import join_names, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_CURVES, TITLES = 8, 3
"""Curves that are drawn, and those of them that are named in the title."""

IDEAL: dict[str, Any] = {"linestyle": (0, (4, 3)), "linewidth": 1.0}


def figure(found: Scaling) -> Figure:
    """Return the plot as matplotlib's object."""
    from matplotlib.lines import Line2D

    sheet = Sheet()
    shown = found.curves[:MOST_CURVES]
    titles = [plain(f"{curve.model.short_title}, {headline(curve)}") for curve in shown[:TITLES]]
    if len(found.curves) > TITLES:
        titles.append(f"{len(found.curves) - TITLES} more in the report")
    sheet.write(titles, 12, "bold", "black")
    looks = _looks(shown)
    sheet.add([_throughput(sheet, shown, looks), _efficiency(sheet, shown, looks)])
    labels = [f"{curve.model.short_title}, {curve.name}: {kind_text(curve)}" for curve in shown]
    sheet.legend([Line2D([], [], **look) for look in looks], labels)
    sheet.finish()
    return sheet.figure


def _throughput(sheet: Sheet, curves: Sequence[Curve], looks: Sequence[Mapping[str, Any]]) -> Panel:
    """Return the throughput of all GPUs; of several models or units relative to each smallest
    size.
    """
    titles = {(curve.model.title, rate_title(curve)) for curve in curves}
    is_relative = len(titles) > 1
    units = [curve.sizes[0].rate * curve.sizes[0].gpus if is_relative else 1.0 for curve in curves]

    def draw(axes: Axes, width: float) -> None:
        for curve, unit, look in zip(curves, units, looks, strict=True):
            points = []
            for size in curve.sizes:
                bounds = bounds_of(size.system)
                ends = (bounds.low, bounds.high) if bounds else (size.rate, size.rate)
                points.append([size.gpus / unit * rate for rate in (size.rate, *ends)])
            _points(axes, curve, points, look)
            gpus = [size.gpus for size in curve.sizes]
            axes.plot(
                gpus,
                [points[0][0] * count / gpus[0] for count in gpus],
                color=look["color"],
                alpha=0.7,
                **IDEAL,
            )
        axes.set_ylabel(
            "relative to the smallest GPU count" if is_relative else next(iter(titles))[1]
        )
        _sizes(sheet, axes, curves, width)
        log_axis(axes)

    return Panel(
        "Throughput of all GPUs", f"with {level()} CI; dashed: ideal", draw, 3.8, left=1.15
    )


def _efficiency(sheet: Sheet, curves: Sequence[Curve], looks: Sequence[Mapping[str, Any]]) -> Panel:
    def draw(axes: Axes, width: float) -> None:
        for curve, look in zip(curves, looks, strict=True):
            ratios = [size.efficiency for size in curve.sizes]
            points = []
            for ratio in ratios:
                points.append(
                    (ratio.value, ratio.low or ratio.value, ratio.high or ratio.value)
                    if ratio
                    else (1, 1, 1)
                )
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
    axes: Axes, curve: Curve, points: Sequence[Sequence[float]], look: Mapping[str, Any]
) -> None:
    values, lows, highs = zip(*points, strict=True)
    errors = []
    for ends in ((lows, values), (values, highs)):
        errors.append([max(0.0, high - low) for low, high in zip(*ends, strict=True)])
    axes.errorbar([size.gpus for size in curve.sizes], values, yerr=errors, capsize=4, **look)


def _sizes(sheet: Sheet, axes: Axes, curves: Sequence[Curve], width: float) -> None:
    """Scale the axis of sizes logarithmically, and write below it those that were measured, as far
    as there is room.
    """
    if len(curves) == 1 and curves[0].kind != "strong":
        batches = {size.gpus: size.batch for size in curves[0].sizes}
    else:
        batches = {}
    texts = {
        size.gpus: "\n".join(
            [f"{size.gpus:,}", *([f"{batch:,}"] if (batch := batches.get(size.gpus)) else [])]
        )
        for curve in curves
        for size in curve.sizes
    }
    axes.set_xscale("log", base=2)
    places = sorted(texts)
    # Matplotlib leaves a twentieth of the range free at either end.
    scale = width / 1.1 / math.log(places[-1] / places[0])
    wide = max(sheet.width(line) for text in texts.values() for line in text.splitlines()) + 0.08
    kept: list[int] = []
    for place in reversed(places):
        if not kept or scale * math.log(kept[-1] / place) > wide:
            kept.append(place)
    axes.set_xticks(kept, [texts[place] for place in kept])
    axes.minorticks_off()
    unit = join_names(sorted({processes(curve) for curve in curves}))
    axes.set_xlabel(f"{unit}, and below them the global batch" if any(batches.values()) else unit)


def _looks(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    names = [f"{curve.name}, {curve.model.title}, {curve.kind}" for curve in curves]
    colors = colors_of(
        {name: curve.sizes[0].system for name, curve in zip(names, curves, strict=True)}
    )
    looks = []
    for number, name in enumerate(names):
        style = {
            "marker": MARKERS[number % len(MARKERS)],
            "linestyle": LINES[colors[name].repeated % len(LINES)],
        }
        looks.append({"color": colors[name].tone.light, "markersize": 6, "linewidth": 1.6, **style})
    return looks
