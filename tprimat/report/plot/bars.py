"""The panels with bars: step time, throughput and memory. A bar for each system, in small groups by model."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tprimat.analysis.intervals import between_run_interval
from tprimat.analysis.summary import WITHHELD
from tprimat.compare import SystemResult
from tprimat.report.plot.items import KINDS, NOT_MEASURED, Item, Kind, note_below, nothing
from tprimat.report.rates import RATE, rate, rate_unit
from tprimat.text import counted, plain, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEP_TIME = "avg_step_time_seconds"

BAR: dict[str, Any] = {"height": 0.62, "edgecolor": "black", "linewidth": 0.6}

LABEL_WIDTH = 30
LABEL_LINES = 2
"""Characters of a line of a bar's name, and how many lines it has."""

AXIS_POINTS = 330.0
LETTER_POINTS = 5.0
"""Width of a panel and of a letter beside a bar, roughly: bars end where their text still fits."""

LONGEST_INTERVAL = 1.5
"""An interval ends in an arrow at so many times the longest bar: two runs may give one that dwarfs all bars."""

WIDE = 0.2
"""From this half width on an interval is written as its bounds."""

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
    unit = rate_unit([item.system for item in items])
    axes.set_title(f"Throughput, {unit} (higher is better)")
    _bars(axes, items, RATE, unit, rate)


def average_step_times(axes: Axes, items: Sequence[Item]) -> None:
    """Draw the average step time with its interval."""
    times = [time for item in items if (time := item.system.value(STEP_TIME)) is not None]
    in_ms = max(times, default=1.0) < 1
    axes.set_title(f"Average step time, {'ms' if in_ms else 's'} (lower is better)")

    def text(time: float) -> str:
        return f"{1e3 * time:.{1 if time < 0.1 else 0}f} ms" if in_ms else f"{time:.3f} s"

    _bars(axes, items, STEP_TIME, "ms per step" if in_ms else "s per step", text, 1e3 if in_ms else 1.0)
    configs = [(item.system.run.training_config, item.system.run.num_gpus) for item in items]
    if times and len({(each.global_batch_size, each.sequence_length, gpus) for each, gpus in configs}) > 1:
        note_below(axes, ["steps differ in batch, sequence length or GPUs: compare throughput, not step time"])


def _bars(
    axes: Axes,
    items: Sequence[Item],
    metric: str,
    unit: str,
    text: Callable[[float], str],
    scale: float = 1.0,
) -> None:
    """Draw a bar for each system with a value; for the others write why there is none.

    `text` gives a value with its unit; `scale` makes it what the axis shows.
    """
    values = {id(item): value * scale for item in items if (value := item.system.value(metric)) is not None}
    if not values:
        nothing(axes, [f"{item.label}: {_why_no_rate(item.system)}" for item in items])
        return
    places = _places(items)
    ends = []
    longest = LONGEST_INTERVAL * max(values.values())
    for place in places:
        if place.item is None:
            continue
        system = place.item.system
        if id(place.item) not in values or system.exclusion:
            _beside(axes, 0, place.y, _why_no_rate(system), style="italic")
            continue
        value = end = values[id(place.item)]
        shown = text(value / scale)
        axes.barh(place.y, value, color=place.item.color, **BAR)
        known = system.speeds if metric == RATE else [run.value(metric) for run in system.valid_runs]
        interval = between_run_interval([each for each in known if each])
        if interval is not None:
            end = min(interval.high * scale, longest)
            error = [[value - interval.low * scale], [end - value]]
            axes.errorbar(value, place.y, xerr=error, color="black", capsize=4, linewidth=1.2)
            if end == longest:
                axes.plot(end, place.y, marker=">", color="black")
            half = (interval.high / interval.low) ** 0.5 - 1
            shown += f" ± {half:.1%}" if half < WIDE else f" [{text(interval.low)}–{text(interval.high)}]"
        more = place.item.speedup if metric == RATE else ""
        runs = ", ".join(filter(None, [counted(len(system.valid_runs), "run"), more]))
        ends.append(_beside(axes, end, place.y, f"{shown}\n{runs}", size=9))
    _prepare(axes, places, max(ends, default=1.0), unit)
    if any(len(item.system.valid_runs) > 1 for item in items):
        axes.set_xlabel(f"{unit}; mean over runs with 95% CI")


def memory(axes: Axes, items: Sequence[Item]) -> None:
    """Draw each kind of memory: to the average in full colour, to the peak paler."""
    from matplotlib.patches import Patch
    from matplotlib.transforms import offset_copy

    axes.set_title("Memory per device, GB (10⁹ bytes)")
    kinds = [kind for kind in KINDS if any(_has(item.system, kind) for item in items)]
    if not kinds:
        nothing(axes, [])
        return
    places = _places(items, _memory_height)
    ends = []
    for place in places:
        if place.item is None:
            continue
        there = [kind for kind in KINDS if _has(place.item.system, kind)]
        if not there:
            _beside(axes, 0, place.y, NOT_MEASURED, style="italic")
        thickness = min(0.62, 0.8 * place.height / max(len(there), 1))
        for index, kind in enumerate(there):
            y = place.y + (index - (len(there) - 1) / 2) * thickness
            ends.append(_memory_bar(axes, place.item, kind, y, thickness * 0.9))
    _prepare(axes, places, max(ends), "GB")
    handles = [Patch(facecolor="white", edgecolor="black", hatch=kind.hatch, label=kind.title) for kind in kinds]
    handles.append(Patch(facecolor="0.4", edgecolor="black", label="average"))
    handles.append(Patch(facecolor="0.8", edgecolor="black", label="peak"))
    # Below the axis' own label, however high the panel is.
    below = offset_copy(axes.transAxes, fig=axes.get_figure(root=True), y=-40, units="points")
    corner: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.0, 0.0), "bbox_transform": below}
    axes.legend(handles=handles, ncols=3, frameon=False, borderaxespad=0.0, borderpad=0.0, **corner)


def _memory_bar(axes: Axes, item: Item, kind: Kind, y: float, height: float) -> float:
    """One bar; returns how far to the right it and its text reach."""
    average = item.system.value(kind.average) if kind.average else None
    peak = item.system.value(kind.peak)
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
        places.append(Place(y + (height(item) - 1) / 2, height(item), plain(item.system.name), item))
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
    return max(map(len, _wrapped(plain(item.system.name)).splitlines()), default=0)


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


def _why_no_rate(system: SystemResult) -> str:
    if system.value(STEP_TIME) is None:
        why = f"no step times: the run {system.exit_summary}"
    elif system.exclusion is not None:
        why = f"excluded: {system.exclusion.text}"
    else:
        why = next((text for text in system.value_warnings if WITHHELD in text), "unknown")
    return textwrap.shorten(why, 56, placeholder=" …")


def _memory_height(item: Item) -> float:
    return max(1.0, 0.5 * sum(_has(item.system, kind) for kind in KINDS))


def _has(system: SystemResult, kind: Kind) -> bool:
    return any(name and system.value(name) is not None for name in (kind.average, kind.peak))
