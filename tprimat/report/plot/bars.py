"""The panels with bars: step time, throughput and memory. A bar for each system, in small groups by model."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tprimat.analysis.intervals import level
from tprimat.report.plot import charts
from tprimat.report.plot.charts import KINDS, NOT_MEASURED, BarChart, MemoryBar
from tprimat.report.plot.items import Item, note_below, nothing
from tprimat.text import counted, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

BAR: dict[str, Any] = {"height": 0.62, "edgecolor": "black", "linewidth": 0.6}
INTERVAL: dict[str, Any] = {"color": "black", "capsize": 4, "linewidth": 1.2}

LABEL_LINES = 2
"""Lines of a bar's name."""

LONGEST_REASON = 56
"""Characters of the text that replaces a bar."""

AXIS_POINTS = 330.0
LETTER_POINTS = 5.0
"""Width of a panel and of a letter beside a bar, roughly: bars end where their text still fits."""

LONGEST_INTERVAL = 1.5
"""An interval ends in an arrow at so many times the longest bar: two runs may give one that dwarfs all bars."""

LEAST_ROWS = 4
"""With fewer bars there is air around them: a single bar that fills a panel looks like an error."""


class Place(NamedTuple):
    """Where an item's bars are; or a model's heading, where item is None."""

    y: float
    height: float
    title: str
    item: Item | None


def rows(items: Sequence[Item]) -> float:
    """Height of a panel with a bar for each system, in bars."""
    return _height(_places(items))


def memory_rows(items: Sequence[Item]) -> float:
    """Height of the memory panel, in bars of the other ones."""
    return _height(_places(items, _memory_height))


def throughput(axes: Axes, items: Sequence[Item]) -> None:
    """Draw tokens/s/GPU with its interval, and the speedup over the baseline."""
    chart = charts.throughput([item.system for item in items])
    _bars(axes, items, chart, [item.speedup for item in items])


def average_step_times(axes: Axes, items: Sequence[Item]) -> None:
    """Draw the average step time with its interval."""
    chart = charts.average_step_times([item.system for item in items])
    _bars(axes, items, chart, [""] * len(items))


def _bars(axes: Axes, items: Sequence[Item], chart: BarChart, more: Sequence[str]) -> None:
    """Draw the bar of each system, with a text beside it; for a system without a value write why there is none."""
    axes.set_title(chart.title)
    if all(bar.value is None and bar.system.exclusion is None for bar in chart.bars):
        reasons = zip(items, chart.bars, strict=True)
        nothing(axes, [f"{item.label}: {_short(bar.text)}" for item, bar in reasons])
        return
    places = _places(items)
    longest = LONGEST_INTERVAL * max((bar.value or 0 for bar in chart.bars), default=0)
    at = {id(place.item): place.y for place in places if place.item}
    texts: list[Annotation] = []
    # Said once below the axis, the number of runs leaves the bars more of it.
    counts = {len(bar.system.valid_runs) for bar in chart.bars if bar.value is not None} or {0}
    is_shared = len(counts) == 1 and max(counts) > 1
    for item, bar, speedup in zip(items, chart.bars, more, strict=True):
        y = at[id(item)]
        if bar.value is None:
            _beside(axes, 0, y, _short(bar.text), style="italic")
            continue
        axes.barh(y, bar.value, color=item.color, **BAR)
        end = bar.value
        if bar.bounds is not None and bar.bounds.kind == "between":
            end = min(bar.bounds.high, longest)
            axes.errorbar(bar.value, y, xerr=[[bar.value - bar.bounds.low], [end - bar.value]], **INTERVAL)
            if end == longest:
                axes.plot(end, y, marker=">", color="black")
        runs = "" if is_shared else counted(len(item.system.valid_runs), "run")
        below = ", ".join(filter(None, [runs, speedup]))
        texts.append(_beside(axes, end, y, "\n".join(filter(None, [bar.text, below])), size=9))
    _prepare(axes, places, texts, chart.unit)
    if max(counts) > 1:
        which = f"of {max(counts)} runs" if is_shared else "over runs"
        axes.set_xlabel(f"{chart.unit}; mean {which} with {level()} CI")
    if chart.note:
        note_below(axes, [chart.note])


def memory(axes: Axes, items: Sequence[Item]) -> None:
    """Draw each kind of memory: to the average in full colour, to the peak paler."""
    from matplotlib.patches import Patch
    from matplotlib.transforms import offset_copy

    axes.set_title(charts.MEMORY_TITLE)
    bars = charts.memory([item.system for item in items])
    if not bars:
        nothing(axes, [])
        return
    places = _places(items, _memory_height)
    texts: list[Annotation] = []
    for place in places:
        if place.item is None:
            continue
        own = [bar for bar in bars if bar.system is place.item.system]
        if not own:
            _beside(axes, 0, place.y, NOT_MEASURED, style="italic")
        thickness = min(0.62, 0.8 * place.height / max(len(own), 1))
        for index, bar in enumerate(own):
            y = place.y + (index - (len(own) - 1) / 2) * thickness
            texts.append(_memory_bar(axes, bar, place.item.color, y, thickness * 0.9))
    _prepare(axes, places, texts, "GB")
    handles = [
        Patch(facecolor="white", edgecolor="black", hatch=kind.hatch, label=kind.title)
        for kind in KINDS
        if any(bar.kind is kind for bar in bars)
    ]
    handles.append(Patch(facecolor="0.4", edgecolor="black", label="average"))
    handles.append(Patch(facecolor="0.8", edgecolor="black", label="peak"))
    # Below the axis' own label, however high the panel is.
    below = offset_copy(axes.transAxes, fig=axes.get_figure(root=True), y=-40, units="points")
    corner: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.0, 0.0), "bbox_transform": below}
    axes.legend(handles=handles, ncols=3, frameon=False, borderaxespad=0.0, borderpad=0.0, **corner)


def _memory_bar(axes: Axes, bar: MemoryBar, color: str, y: float, height: float) -> Annotation:
    """Draw one bar; return the text beside it."""
    parts: list[str] = []
    # Where only a peak is known the bar is pale as a whole: pale means peak.
    for value, alpha, word in ((bar.peak, 0.35, "peak"), (bar.average, 1.0, "average")):
        if value is None:
            continue
        axes.barh(y, value, height=height, color=color, alpha=alpha)
        axes.barh(y, value, height=height, fill=False, edgecolor="black", linewidth=0.6, hatch=bar.kind.hatch)
        parts.insert(0, f"{value:.1f} {word}")
    known = [value for value in (bar.average, bar.peak) if value is not None]
    if len(known) == 2 and f"{known[0]:.1f}" == f"{known[1]:.1f}":
        parts = [f"{known[0]:.1f} average and peak"]
    return _beside(axes, max(known), y, ", ".join(parts), size=8.5)


def _places(items: Sequence[Item], height: Callable[[Item], float] = lambda item: 1) -> list[Place]:
    """From top to bottom, a heading before each model where there are several."""
    several = len({id(item.model) for item in items}) > 1
    places: list[Place] = []
    y = 0.0
    last = None
    for item in items:
        if several and item.model is not last:
            places.append(Place(y + 0.1, 0.8, plain(item.model.title, 40), None))
            y += 0.8
            last = item.model
        places.append(Place(y + (height(item) - 1) / 2, height(item), plain(item.system.name), item))
        y += height(item)
    return places


def _height(places: Sequence[Place]) -> float:
    return sum(place.height for place in places)


def _prepare(axes: Axes, places: Sequence[Place], texts: Sequence[Annotation], unit: str) -> None:
    """Set the axes of a panel: names beside the bars, and an axis that ends where the texts beside the bars do."""
    from matplotlib.ticker import MaxNLocator

    bottom = _height(places) - 0.5
    air = max(0.0, LEAST_ROWS - _height(places)) / 2
    axes.set_ylim(bottom + air, -0.5 - air)
    axes.set_xlim(0, max(map(_right_end, texts), default=1.0))
    axes.set_xlabel(unit)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.grid(axis="y", visible=False)
    axes.set_yticks([place.y for place in places], [_wrapped(place.title) for place in places])
    axes.tick_params(axis="y", length=0)
    for label, place in zip(axes.get_yticklabels(), places, strict=True):
        label.set_fontsize(9.5)
        if place.item is None:
            label.set_fontweight("bold")


def _right_end(text: Annotation) -> float:
    """Return the right end of an axis that has room for a text beside its bar."""
    longest = max(map(len, text.get_text().splitlines()), default=0)
    share = min(0.8, (LETTER_POINTS * longest + 10) / AXIS_POINTS)
    return max(text.xy[0], 1e-9) / (1 - share)


def name_width(item: Item) -> int:
    """Letters of the longest line of an item's name beside its bar."""
    return max(map(len, _wrapped(plain(item.system.name)).splitlines()), default=0)


def _wrapped(name: str) -> str:
    return "\n".join(charts.name_lines(name, LABEL_LINES))


def _beside(axes: Axes, x: float, y: float, text: str, *, size: float = 9.5, style: str = "normal") -> Annotation:
    """Write a text beside a bar that ends at x."""
    place: dict[str, Any] = {"xytext": (5, 0), "textcoords": "offset points", "va": "center"}
    return axes.annotate(text, (x, y), fontsize=size, fontstyle=style, **place)


def _short(reason: str) -> str:
    return textwrap.shorten(reason, LONGEST_REASON, placeholder=" …")


def _memory_height(item: Item) -> float:
    return max(1.0, 0.5 * len(charts.memory([item.system])))
