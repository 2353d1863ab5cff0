"""The panels with bars: throughput and memory. A bar a side, in small groups by model."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tprimat import units
from tprimat.compare import SideResult
from tprimat.report.plot.items import NOT_MEASURED, Item, note_below, nothing, shown_interval
from tprimat.report.rates import RATE, rate_of, rate_unit
from tprimat.text import plain, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEP_TIME = "avg_step_time_seconds"

LABEL_WIDTH = 30
LABEL_LINES = 2
"""Characters of a line of a bar's name, and how many lines it has."""

AXIS_POINTS = 320.0
LETTER_POINTS = 5.2
"""Width of a panel and of a letter beside a bar, roughly: bars end where their text still fits."""

LEAST_ROWS = 4
"""With fewer bars there is air around them: a single bar that fills a panel looks like an error."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of memory: its title, the metrics of its average and peak, and how its bars look."""

    title: str
    average: str | None
    peak: str
    hatch: str


KINDS = (
    Kind("allocated", "avg_memory_allocated_gb", "peak_memory_allocated_gb", ""),
    Kind("reserved", "avg_memory_reserved_gb", "peak_memory_reserved_gb", "////"),
    Kind("in use on the device", None, "peak_memory_device_used_gb", "...."),
    Kind("process", "avg_memory_process_gb", "peak_memory_process_gb", "xxxx"),
)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where an item's bars are; or a model's heading, where item is None."""

    y: float
    height: float
    title: str
    item: Item | None


def throughput_rows(items: Sequence[Item]) -> float:
    """Height of the throughput panel, in bars."""
    return _height(_places(items, lambda item: 1))


def memory_rows(items: Sequence[Item]) -> float:
    """Height of the memory panel, in bars of the throughput panel."""
    return _height(_places(items, _memory_height))


def throughput(axes: Axes, items: Sequence[Item]) -> None:
    """Bars of tokens/s/GPU, with the range over runs."""
    unit = rate_unit([item.side for item in items])
    axes.set_title(f"Throughput, {unit} (more is better)")
    values = [value for item in items if (value := item.side.value(RATE)) is not None]
    if not values:
        nothing(axes, [f"{item.label}: {_why_no_rate(item.side)}" for item in items])
        return
    places = _places(items, lambda item: 1)
    ends = []
    for place in places:
        if place.item is None:
            continue
        figure = place.item.side.figures.get(RATE)
        if figure is None or place.item.side.refusal:
            _beside(axes, 0, place.y, _why_no_rate(place.item.side), style="italic")
            continue
        end, text = _rate_bar(axes, place, figure.value)
        if place.item.is_reference:
            text += " (reference)"
        elif place.item.ratio is not None:
            text += f" ({place.item.ratio})"
        _beside(axes, end, place.y, text, size=9)
        ends.append(_with_text(end, text))
    _prepare(axes, places, max(ends), unit)


def _rate_bar(axes: Axes, place: Place, value: float) -> tuple[float, str]:
    """The bar of a rate with its interval; returns how far it reaches, and what stands beside it.

    A run of several levels has no single rate: its bar is full up to the lowest level and pale up to
    the highest.
    """
    assert place.item is not None
    side = place.item.side
    looks: dict[str, Any] = {"height": 0.62, "edgecolor": "black", "linewidth": 0.6}
    known = [level.tokens_per_second_per_gpu for level in side.levels]
    rates = [rate for rate in known if rate is not None]
    if rates:
        axes.barh(place.y, max(rates), color=place.item.color, alpha=0.45, **looks)
        axes.barh(place.y, min(rates), color=place.item.color, **looks)
        return max(rates), f"{rate_of(side)} by level\nn = 1"
    axes.barh(place.y, value, color=place.item.color, **looks)
    shown = shown_interval(side)
    count = len(side.counted)
    if shown is None:
        return value, f"{rate_of(side)}\nn = {count}"
    axes.errorbar(
        value, place.y, xerr=[[value - shown.low], [shown.high - value]], color="black", capsize=4, linewidth=1.2
    )
    half = max(shown.high - value, value - shown.low) / value
    return max(shown.high, value), f"{rate_of(side)} ±{half:.1%}{shown.what}\nn = {count}"


def average_step_times(axes: Axes, items: Sequence[Item]) -> None:
    """Bars of the average step time, with the range over runs; what is refused has none."""
    axes.set_title("Average step time, s (less is better)")
    if all(item.side.value(STEP_TIME) is None for item in items):
        nothing(axes, [f"{item.label}: the run {item.side.ended}" for item in items])
        return
    places = _places(items, lambda item: 1)
    ends = []
    for place in places:
        if place.item is None:
            continue
        side = place.item.side
        figure = side.figures.get(STEP_TIME)
        if figure is None or side.refusal:
            _beside(axes, 0, place.y, _why_no_rate(side), style="italic")
            continue
        axes.barh(place.y, figure.value, height=0.62, color=place.item.color, edgecolor="black", linewidth=0.6)
        end = figure.value
        if figure.low is not None and figure.high is not None:
            spread = [[figure.value - figure.low], [figure.high - figure.value]]
            axes.errorbar(figure.value, place.y, xerr=spread, color="black", capsize=4, linewidth=1.2)
            end = figure.high
        text = units.seconds(figure.value)
        _beside(axes, end, place.y, text)
        ends.append(_with_text(end, text))
    _prepare(axes, places, max(ends, default=1.0), "s per step")
    works = {
        (run.training_config.global_batch_size, run.training_config.sequence_length, run.num_gpus)
        for item in items
        for run in [item.side.run]
    }
    if len(works) > 1:
        note_below(axes, ["steps differ in batch, sequence or GPUs: a shorter one isn't a faster training"])


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
    axes.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.0, 0.0),
        bbox_transform=below,
        ncols=3,
        frameon=False,
        borderaxespad=0.0,
        borderpad=0.0,
    )


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
    _beside(axes, end, y, ", ".join(parts), size=8.5)
    return _with_text(end, ", ".join(parts))


def _with_text(end: float, text: str) -> float:
    """Right end of an axis that has room for a text beside a bar."""
    longest = max(map(len, text.splitlines()), default=0)
    share = min(0.8, (LETTER_POINTS * longest + 10) / AXIS_POINTS)
    return max(end, 1e-9) / (1 - share)


def _places(items: Sequence[Item], height: Callable[[Item], float]) -> list[Place]:
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
        rows = height(item)
        places.append(Place(y + (rows - 1) / 2, rows, plain(item.side.side.name), item))
        y += rows
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
    return max(map(len, _wrapped(plain(item.side.side.name)).splitlines()), default=0)


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


def _beside(axes: Axes, x: float, y: float, text: str, *, size: float = 9.5, style: str = "normal") -> None:
    axes.annotate(text, (x, y), xytext=(5, 0), textcoords="offset points", va="center", fontsize=size, fontstyle=style)


def _why_no_rate(side: SideResult) -> str:
    if side.value("avg_step_time_seconds") is None:
        return textwrap.shorten(f"no step times: the run {side.ended}", 56, placeholder=" …")
    if side.refusal is not None:
        return textwrap.shorten(f"left out: {side.refusal.text}", 56, placeholder=" …")
    doubt = next((doubt for doubt in side.doubts if "no throughput" in doubt), "unknown")
    return textwrap.shorten(doubt, 56, placeholder=" …")


def _memory_height(item: Item) -> float:
    return max(1.0, 0.5 * sum(_has(item.side, kind) for kind in KINDS))


def _has(side: SideResult, kind: Kind) -> bool:
    return _most(side, kind) is not None


def _most(side: SideResult, kind: Kind) -> float | None:
    values = [side.value(name) for name in (kind.average, kind.peak) if name]
    return max((value for value in values if value is not None), default=None)
