"""The panels with bars: throughput and memory. A bar a side, in small groups by model."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tprimat import units
from tprimat.analysis.summary import WITHHELD
from tprimat.compare import SideResult
from tprimat.report.plot.items import KINDS, NOT_MEASURED, Item, Kind, note_below, nothing
from tprimat.report.rates import RATE, bounds_of, rate_of, rate_unit
from tprimat.text import plain, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEP_TIME = "avg_step_time_seconds"

BAR: dict[str, Any] = {"height": 0.62, "edgecolor": "black", "linewidth": 0.6}

LABEL_WIDTH = 30
LABEL_LINES = 2
"""Characters of a line of a bar's name, and how many lines it has."""

AXIS_POINTS = 320.0
LETTER_POINTS = 5.2
"""Width of a panel and of a letter beside a bar, roughly: bars end where their text still fits."""

LEAST_ROWS = 4
"""With fewer bars there is air around them: a single bar that fills a panel looks like an error."""


class Place(NamedTuple):
    """Where an item's bars are; or a model's heading, where item is None."""

    y: float
    height: float
    title: str
    item: Item | None


def rows(items: Sequence[Item]) -> float:
    """Height of a panel with a bar for each side, in bars."""
    return _height(_places(items))


def memory_rows(items: Sequence[Item]) -> float:
    """Height of the memory panel, in bars of the other ones."""
    return _height(_places(items, _memory_height))


def throughput(axes: Axes, items: Sequence[Item]) -> None:
    """Bars of tokens/s/GPU, with the range over runs."""
    unit = rate_unit([item.side for item in items])
    axes.set_title(f"Throughput, {unit} (more is better)")
    if all(item.side.value(RATE) is None for item in items):
        nothing(axes, [f"{item.label}: {_why_no_rate(item.side)}" for item in items])
        return
    _bars(axes, items, RATE, _rate_bar, unit, 9)


def _bars(
    axes: Axes,
    items: Sequence[Item],
    metric: str,
    bar: Callable[[Axes, float, Item], tuple[float, str]],
    unit: str,
    size: float,
) -> None:
    """A bar for each side with a figure that may be shown; for the others why there is none.

    `bar` draws one at a height; it returns how far it reaches, and what stands beside it in `size` points.
    """
    places = _places(items)
    ends = []
    for place in places:
        if place.item is None:
            continue
        if place.item.side.value(metric) is None or place.item.side.refusal:
            _beside(axes, 0, place.y, _why_no_rate(place.item.side), style="italic")
        else:
            end, text = bar(axes, place.y, place.item)
            ends.append(_beside(axes, end, place.y, text, size=size))
    _prepare(axes, places, max(ends, default=1.0), unit)


def _rate_bar(axes: Axes, y: float, item: Item) -> tuple[float, str]:
    """A run of several levels has no single rate: its bar is full up to the lowest and pale up to the highest."""
    side = item.side
    value = side.value(RATE) or 0.0
    ratio = " (reference)" if item.is_reference else f" ({item.ratio})" if item.ratio is not None else ""
    known = [level.tokens_per_second_per_gpu for level in side.levels]
    rates = [rate for rate in known if rate is not None]
    if rates:
        axes.barh(y, max(rates), color=item.color, alpha=0.45, **BAR)
        axes.barh(y, min(rates), color=item.color, **BAR)
        return max(rates), f"{rate_of(side)} by level\nn = 1{ratio}"
    bounds = bounds_of(side)
    half, of = "", ""
    if bounds is not None:
        half = f" ±{max(bounds.high - value, value - bounds.low) / value:.1%}"
        of = {"between": "", "range": " (range)", "within": " within the run"}[bounds.kind]
    end = _bar(axes, y, item, value, (bounds.low, bounds.high) if bounds else None)
    return end, f"{rate_of(side)}{half}{of}\nn = {len(side.counted)}{ratio}"


def _bar(axes: Axes, y: float, item: Item, value: float, bounds: tuple[float, float] | None) -> float:
    """A bar with its interval; returns how far it reaches."""
    axes.barh(y, value, color=item.color, **BAR)
    if bounds is None:
        return value
    low, high = bounds
    axes.errorbar(value, y, xerr=[[value - low], [high - value]], color="black", capsize=4, linewidth=1.2)
    return max(high, value)


def average_step_times(axes: Axes, items: Sequence[Item]) -> None:
    """Bars of the average step time, with the range over runs; what is refused has none."""
    axes.set_title("Average step time, s (less is better)")
    if all(item.side.value(STEP_TIME) is None for item in items):
        nothing(axes, [f"{item.label}: the run {item.side.ended}" for item in items])
        return
    _bars(axes, items, STEP_TIME, _time_bar, "s per step", 9.5)
    configs = [(item.side.run.training_config, item.side.run.num_gpus) for item in items]
    if len({(config.global_batch_size, config.sequence_length, gpus) for config, gpus in configs}) > 1:
        note_below(axes, ["steps differ in batch, sequence or GPUs: a shorter one isn't a faster training"])


def _time_bar(axes: Axes, y: float, item: Item) -> tuple[float, str]:
    figure = item.side.figures[STEP_TIME]
    bounds = None if figure.low is None or figure.high is None else (figure.low, figure.high)
    return _bar(axes, y, item, figure.value, bounds), units.seconds(figure.value)


def memory(axes: Axes, items: Sequence[Item]) -> None:
    """Bars of each kind of memory: to the average in full colour, to the peak paler."""
    from matplotlib.patches import Patch
    from matplotlib.transforms import offset_copy

    axes.set_title("Memory of one device, GB (10⁹ bytes)")
    kinds = [kind for kind in KINDS if any(_has(item.side, kind) for item in items)]
    if not kinds:
        nothing(axes, [f"{item.label}: {NOT_MEASURED}" for item in items])
        return
    places = _places(items, _memory_height)
    ends = []
    for place in places:
        if place.item is None:
            continue
        there = [kind for kind in KINDS if _has(place.item.side, kind)]
        if not there:
            _beside(axes, 0, place.y, NOT_MEASURED, style="italic")
        thickness = min(0.62, 0.8 * place.height / max(len(there), 1))
        for index, kind in enumerate(there):
            y = place.y + (index - (len(there) - 1) / 2) * thickness
            ends.append(_memory_bar(axes, place.item, kind, y, thickness * 0.9))
    _prepare(axes, places, max(ends), "GB")
    handles = [Patch(facecolor="white", edgecolor="black", hatch=kind.hatch, label=kind.title) for kind in kinds]
    handles.append(Patch(facecolor="0.4", edgecolor="black", label="to the average"))
    handles.append(Patch(facecolor="0.8", edgecolor="black", label="to the peak"))
    # Below the axis' own label, however high the panel is.
    below = offset_copy(axes.transAxes, fig=axes.get_figure(root=True), y=-40, units="points")
    corner: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.0, 0.0), "bbox_transform": below}
    axes.legend(handles=handles, ncols=3, frameon=False, borderaxespad=0.0, borderpad=0.0, **corner)


def _memory_bar(axes: Axes, item: Item, kind: Kind, y: float, height: float) -> float:
    """One bar; returns how far to the right it and its text reach."""
    average = item.side.value(kind.average) if kind.average else None
    peak = item.side.value(kind.peak)
    parts: list[str] = []
    # Where only a peak is known the bar is pale as a whole: pale means peak.
    for value, alpha, word in ((peak, 0.35, "peak"), (average, 1.0, "average")):
        if value is None:
            continue
        axes.barh(y, value, height=height, color=item.color, alpha=alpha)
        axes.barh(y, value, height=height, fill=False, edgecolor="black", linewidth=0.6, hatch=kind.hatch)
        parts.insert(0, f"{value:.1f} {word}")
    if average is not None and peak is not None and f"{average:.1f}" == f"{peak:.1f}":
        parts = [f"{average:.1f} average and peak"]
    end = max(value for value in (average, peak) if value is not None)
    return _beside(axes, end, y, ", ".join(parts), size=8.5)


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
        places.append(Place(y + (height(item) - 1) / 2, height(item), plain(item.side.name), item))
        y += height(item)
    return places


def _height(places: Sequence[Place]) -> float:
    return sum(place.height for place in places)


def _prepare(axes: Axes, places: Sequence[Place], right: float, unit: str) -> None:
    from matplotlib.ticker import MaxNLocator

    bottom = _height(places) - 0.5
    air = max(0.0, LEAST_ROWS - _height(places)) / 2
    axes.set_ylim(bottom + air, -0.5 - air)
    axes.set_xlim(0, right)
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


def name_width(item: Item) -> int:
    """Letters of the longest line of an item's name beside its bar."""
    return max(map(len, _wrapped(plain(item.side.name)).splitlines()), default=0)


def _wrapped(name: str) -> str:
    """A name in a few lines, broken where its parts meet when it can be."""
    parts = name.split(", ")
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(part) + 2 <= LABEL_WIDTH:
            lines[-1] += f", {part}"
        else:
            lines += textwrap.wrap(part, LABEL_WIDTH) or [""]
    if len(lines) <= LABEL_LINES:
        return "\n".join(lines)
    if len(parts) == LABEL_LINES:
        return "\n".join(shortened(part, LABEL_WIDTH) for part in parts)
    return "\n".join(textwrap.wrap(shortened(name, LABEL_LINES * (LABEL_WIDTH - 4)), LABEL_WIDTH)[:LABEL_LINES])


def _beside(axes: Axes, x: float, y: float, text: str, *, size: float = 9.5, style: str = "normal") -> float:
    """Writes a text beside a bar; returns the right end of an axis that has room for it."""
    axes.annotate(text, (x, y), xytext=(5, 0), textcoords="offset points", va="center", fontsize=size, fontstyle=style)
    longest = max(map(len, text.splitlines()), default=0)
    share = min(0.8, (LETTER_POINTS * longest + 10) / AXIS_POINTS)
    return max(x, 1e-9) / (1 - share)


def _why_no_rate(side: SideResult) -> str:
    if side.value(STEP_TIME) is None:
        why = f"no step times: the run {side.ended}"
    elif side.refusal is not None:
        why = f"left out: {side.refusal.text}"
    else:
        why = next((doubt for doubt in side.doubts if WITHHELD in doubt), "unknown")
    return textwrap.shorten(why, 56, placeholder=" …")


def _memory_height(item: Item) -> float:
    return max(1.0, 0.5 * sum(_has(item.side, kind) for kind in KINDS))


def _has(side: SideResult, kind: Kind) -> bool:
    return any(name and side.value(name) is not None for name in (kind.average, kind.peak))
