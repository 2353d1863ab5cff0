"""The plot of scaling: throughput of all GPUs beside its ideal, and the efficiency, over the number of GPUs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tprimat.analysis.intervals import level
from tprimat.compare.curves import BREAK, Curve, Scaling
from tprimat.report.plot.colors import colors_of
from tprimat.report.plot.items import MARKERS
from tprimat.report.rates import bounds_of
from tprimat.report.scaling import NOTHING, headline, kind_text, processes, rate_title
from tprimat.text import join_names, plain, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_CURVES = 8
TITLE_LETTERS, TITLES = 112, 3
"""Letters of a line of the title, and curves that are named in it."""


def figure(found: Scaling) -> Figure:
    """Return the plot as matplotlib's object."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(12.0, 6.0), layout="constrained")
    shown = found.curves[:MOST_CURVES]
    titles = [line for curve in shown[:TITLES] for line in textwrap.wrap(_title(curve), TITLE_LETTERS)]
    if len(found.curves) > TITLES:
        titles.append(f"{len(found.curves) - TITLES} more: see the report")
    drawn.suptitle("\n".join(titles or [NOTHING]), x=0.01, ha="left", fontsize=12, fontweight="bold")
    left, right = drawn.subplots(1, 2)
    _throughput(left, shown)
    _efficiency(right, shown)
    handles, labels = left.get_legend_handles_labels()
    if handles:
        drawn.legend(handles, labels, loc="outside lower left", ncols=1, frameon=False)
    return drawn


def _title(curve: Curve) -> str:
    return plain(f"{curve.model.short_title}, {headline(curve)}")


def _throughput(axes: Axes, curves: Sequence[Curve]) -> None:
    """Draw the throughput of all GPUs; of several models or units relative to each smallest size."""
    from matplotlib.ticker import LogLocator, NullFormatter

    titles = {(curve.model.title, rate_title(curve)) for curve in curves}
    is_relative = len(titles) > 1
    axes.set_title("Throughput of all GPUs")
    for curve, looks in zip(curves, _looks(curves), strict=True):
        gpus = [size.gpus for size in curve.sizes]
        unit = curve.sizes[0].rate * gpus[0] if is_relative else 1.0
        totals = [size.rate * size.gpus / unit for size in curve.sizes]
        errors = []
        for size, total in zip(curve.sizes, totals, strict=True):
            bounds = bounds_of(size.system)
            ends = (bounds.low, bounds.high) if bounds and bounds.kind == "between" else (size.rate, size.rate)
            low, high = (each * size.gpus / unit for each in ends)
            errors.append((max(0.0, total - low), max(0.0, high - total)))
        label = shortened(plain(f"{curve.model.short_title}, {curve.name}: {kind_text(curve)}").lstrip("_"), 100)
        axes.errorbar(gpus, totals, yerr=list(zip(*errors, strict=True)), label=label, **looks)
        ideal = [totals[0] * count / gpus[0] for count in gpus]
        axes.plot(gpus, ideal, linestyle=(0, (4, 3)), linewidth=1.0, color=looks["color"], alpha=0.7)
    axes.set_ylabel("relative to the smallest size" if is_relative else next(iter(titles))[1] if titles else "")
    if curves:
        _sizes(axes, curves)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.12g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.annotate("dashed: ideal", (0.98, 0.03), xycoords="axes fraction", ha="right", fontsize=9, color="0.25")


def _efficiency(axes: Axes, curves: Sequence[Curve]) -> None:
    axes.set_title(f"Efficiency, relative to the smallest size [{level()} CI]")
    batches = len(curves) == 1 and curves[0].kind != "strong"
    for curve, looks in zip(curves, _looks(curves), strict=True):
        gpus = [size.gpus for size in curve.sizes]
        ratios = [size.efficiency for size in curve.sizes]
        values = [1.0 if ratio is None else ratio.value for ratio in ratios]
        low = [each.value - each.low if each and each.low is not None else 0.0 for each in ratios]
        high = [each.high - each.value if each and each.high is not None else 0.0 for each in ratios]
        axes.errorbar(gpus, values, yerr=[low, high], **looks)
        for size, value in zip(curve.sizes, values, strict=True) if batches else ():
            text = "" if size.batch is None else f"batch {size.batch:,}"
            axes.annotate(text, (size.gpus, value), xytext=(7, 7), textcoords="offset points", ha="left", fontsize=9)
    axes.axhline(1.0, color="0.35", linestyle=(0, (4, 3)), linewidth=1.0)
    axes.axhline(BREAK, color="0.35", linestyle=(0, (1, 2)), linewidth=1.3)
    axes.annotate(f"dotted: {BREAK:.0%}", (0.02, 0.03), xycoords="axes fraction", fontsize=9, color="0.25")
    low_end, high_end = axes.get_ylim()
    axes.set_ylim(min(low_end, 0.8), max(high_end, 1.05) + 0.02)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    if curves:
        _sizes(axes, curves)


def _sizes(axes: Axes, curves: Sequence[Curve]) -> None:
    """Scale the axis of sizes logarithmically, and name the sizes that were measured, as far as there is room."""
    places = sorted({size.gpus for curve in curves for size in curve.sizes})
    axes.set_xscale("log", base=2)
    kept: list[int] = []
    for place in reversed(places):
        if not kept or kept[-1] / place > (places[-1] / places[0]) ** 0.1:
            kept.append(place)
    axes.set_xticks(kept, [f"{place:,}" for place in kept])
    axes.minorticks_off()
    # Room for the text beside the last point.
    axes.set_xlim(right=places[-1] * (places[-1] / places[0]) ** 0.17)
    axes.set_xlabel(join_names(sorted({processes(curve) for curve in curves})))


def _looks(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    names = [f"{curve.name}, {curve.model.title}" for curve in curves]
    colors = colors_of({name: curve.sizes[0].system for name, curve in zip(names, curves, strict=True)})
    shared = {"markersize": 6, "linewidth": 1.6, "capsize": 4}
    return [
        {"color": colors[name].tone.light, "marker": MARKERS[number % len(MARKERS)], **shared}
        for number, name in enumerate(names)
    ]
