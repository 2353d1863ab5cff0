"""The panels with bars: throughput, step time and memory. A bar for each system, in small groups by
model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tprimat.analysis.intervals import level
from tprimat.compare import ModelComparison, SystemResult
from tprimat.report.items import Item, Items
from tprimat.report.plot import charts
from tprimat.report.plot.charts import NOT_MEASURED, Bar, BarChart, MemoryBar
from tprimat.report.plot.layout import NAMES, SMALL, TEXT_LINE, Look, Panel, Sheet
from tprimat.text import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

INTERVAL: Look = {"color": "black", "capsize": 3, "linewidth": 1.2}

OPEN: Look = {
    "color": "black",
    "linewidth": 1.2,
    "linestyle": ":",
    "marker": ">",
    "markevery": [1],
}
OPEN_END = 1.08
"""The end of the line that is drawn for an unknown interval, as a multiple of the longest bar."""

LEAST_ROW, AIR = 0.42, 0.1
"""Least distance from one bar to the next, and space around the text of a row, in inches."""

THICKNESS, KIND = 0.26, 0.2
"""Thickness of a bar, and of a bar for one of several kinds of memory, in inches."""

REASON = 2.3
"""Greatest width of a text in place of a bar, in inches."""

MOST_UNMEASURED = 6
"""Most systems with which those without a value also have a row in the memory panel."""

FAR = 10.0
"""If the longest bars of models differ by more than this factor, each model has its own scale."""

LONGEST_INTERVAL = 1.5
"""Multiple of the longest bar at which an interval ends in an arrow: that of two runs may be much
longer than all bars.
"""


class Row(NamedTuple):
    """The place of an item's bars, or of a model's heading if item is None."""

    y: float
    height: float
    name: list[str]
    item: Item | None


def speeds(sheet: Sheet, items: Items, *, side_by_side: bool) -> list[Panel | None]:
    """Return the panels of throughput and of the average step time; None for one without any value.

    Side by side the second one has no names, since its rows are those of the first.
    """
    systems = [item.system for item in items]
    described = charts.throughput(systems), charts.average_step_times(systems)
    reasons = {}
    for chart in described:
        for bar in chart.bars:
            if bar.value is None:
                reasons[bar.system] = sheet.wrapped(bar.text, REASON)
    rows = _rows(sheet, items, lambda item: TEXT_LINE * len(reasons.get(item.system, ())))
    panels: list[Panel | None] = []
    for chart in described:
        if all(bar.value is None for bar in chart.bars):
            panels.append(None)
            continue
        panels.append(_speed(sheet, rows, chart, reasons))
        if side_by_side:
            rows = [row._replace(name=[]) for row in rows]
    return panels


def _speed(
    sheet: Sheet,
    rows: Sequence[Row],
    chart: BarChart,
    reasons: Mapping[SystemResult, Sequence[str]],
) -> Panel:
    bars = {bar.system: bar for bar in chart.bars}
    counts = {len(bar.system.valid_runs) for bar in chart.bars if bar.value is not None}
    has_several = max(counts) > 1
    units = dict[ModelComparison, float]()
    for row in rows:
        if row.item and (value := bars[row.item.system].value):
            units[row.item.model] = max(value, units.get(row.item.model, 0.0))
    longest = max(units.values())
    is_relative = longest > FAR * min(units.values())
    if is_relative:
        longest = 1.0
    else:
        units = dict.fromkeys(units, 1.0)

    def draw(axes: Axes, width: float) -> None:
        labels = []
        for row in rows:
            if row.item is None:
                continue
            bar = bars[row.item.system]
            if bar.value is None:
                _beside(axes, 0, row.y, "\n".join(reasons[bar.system]), "italic")
                continue
            unit = units[row.item.model]
            _bar(axes, row.item, row.y, bar.value / unit, THICKNESS)
            end = bar.value / unit
            if bar.bounds is not None or has_several:
                end = _interval(axes, row.y, bar, unit, longest)
            texts = [row.item.speedup] if chart.is_rate else []
            if len(counts) > 1:
                runs = counted(len(bar.system.valid_runs), "run")
                texts.append("1 run: no CI" if runs == "1 run" else runs)
            texts = [bar.text, ", ".join(filter(None, texts))]
            labels.append(_beside(axes, end, row.y, "\n".join(filter(None, texts))))
        _prepare(sheet, axes, rows, width, labels)
        if is_relative:
            axes.set_xticks([0, 0.5, 1], ["0", "50%", "100%"])

    title, _, detail = chart.title.rstrip(")").partition(" (")
    if has_several:
        detail += f"; mean of {max(counts) if len(counts) == 1 else 'the'} runs"
        if any(bar.bounds for bar in chart.bars):
            detail += f" with {level()} CI"
        if any(bar.value and not bar.bounds for bar in chart.bars):
            detail += "; dotted: unknown"
    if is_relative:
        detail += "; axis: share of each model's longest bar"
    return Panel(title, detail, draw, _height(rows), left=_left(sheet, rows))


def _interval(axes: Axes, y: float, bar: Bar, unit: float, longest: float) -> float:
    """Draw the interval of a bar of this unit, and return where it ends; `longest` is the longest
    bar of all.
    """
    if bar.bounds is None:
        # By how much other runs would differ is unknown: the line goes from nothing beyond the
        # longest bar.
        end = OPEN_END * longest
        axes.plot([0, end], [y, y], **OPEN)
        return end
    value = (bar.value or 0.0) / unit
    most = LONGEST_INTERVAL * longest
    end = min(bar.bounds.high / unit, most)
    axes.errorbar(value, y, xerr=[[value - bar.bounds.low / unit], [end - value]], **INTERVAL)
    if end == most:
        axes.plot(end, y, marker=">", color="black")
    return end


def memory(sheet: Sheet, items: Items) -> Panel | None:
    """Return the panel of each kind of memory: to the average in full color, to the peak paler;
    None without any.
    """
    bars = dict[SystemResult, list[MemoryBar]]()
    values = set()
    kinds = {}
    for bar in charts.memory([item.system for item in items]):
        bars.setdefault(bar.system, []).append(bar)
        kinds[bar.kind.title] = bar.kind
        values |= {bar.peak, bar.average}
    if not bars:
        return None
    notes = []
    if len(items) > MOST_UNMEASURED:
        measured = [item for item in items if item.system in bars]
        if len(measured) < len(items):
            notes = [f"{counted(len(items) - len(measured), 'system')}: {NOT_MEASURED}"]
        items = measured
    rows = _rows(sheet, items, lambda item: KIND * len(bars.get(item.system, ())))
    several = len(kinds) > 1
    values.discard(None)
    # Bars of different lengths must have different numbers.
    digits = 1 if len({f"{value:.1f}" for value in values}) == len(values) else 2
    thickness = KIND if several else THICKNESS

    def draw(axes: Axes, width: float) -> None:
        labels = []
        for row in rows:
            if row.item is None:
                continue
            of_item = bars.get(row.item.system, ())
            if not of_item:
                _beside(axes, 0, row.y, NOT_MEASURED, "italic")
            for index, bar in enumerate(of_item):
                y = row.y + (index - (len(of_item) - 1) / 2) * thickness
                end, text = _memory_bar(axes, row.item, y, bar, thickness, digits)
                kind = f"{bar.kind.title}: " if several else ""
                labels.append(_beside(axes, end, y, f"{kind}{text}"))
        _prepare(sheet, axes, rows, width, labels)

    title, _, unit = charts.MEMORY_TITLE.rstrip(")").partition(" (")
    kind = "" if several else f"{next(iter(kinds))}; "
    detail = f"{kind}solid: average, pale: peak; GB: {unit}"
    return Panel(title, detail, draw, _height(rows), notes, left=_left(sheet, rows))


def _memory_bar(
    axes: Axes, item: Item, y: float, bar: MemoryBar, thickness: float, digits: int
) -> tuple[float, str]:
    """Draw the average of a kind of memory over its peak; return the longer one, and both as text.

    If only a peak is known, the whole bar is pale, since pale means peak.
    """
    end = 0.0
    texts: list[str] = []
    for word, value, alpha in (("peak", bar.peak, 0.4), ("average", bar.average, 1.0)):
        if value is not None:
            _bar(axes, item, y, value, 0.88 * thickness, alpha)
            end = max(end, value)
            texts.insert(0, f"{value:.{digits}f} {word}")
    return end, ", ".join(texts)


def _rows(sheet: Sheet, items: Items, least: Callable[[Item], float]) -> list[Row]:
    """Return the rows from top to bottom, a heading before each model if there are several."""
    several = len({(item.model, item.title) for item in items}) > 1
    rows = []
    y = 0.0
    last = ""
    for item in items:
        if several and item.title != last:
            last = item.title
            heading = sheet.wrapped(last, NAMES, SMALL, "bold")
            y += AIR
            height = TEXT_LINE * len(heading)
            rows.append(Row(y + height / 2, 0, heading, None))
            y += height
        name = sheet.wrapped(item.system.name, NAMES) or ["unnamed"]
        height = max(LEAST_ROW, TEXT_LINE * len(name) + AIR, least(item) + AIR)
        rows.append(Row(y + height / 2, height, name, item))
        y += height
    return rows


def _height(rows: Sequence[Row]) -> float:
    return rows[-1].y + rows[-1].height / 2


def _left(sheet: Sheet, rows: Sequence[Row]) -> float:
    widths = []
    for row in rows:
        for line in row.name:
            widths.append(sheet.width(line, SMALL, "normal" if row.item else "bold"))
    return max(widths, default=-0.1) + 0.1


def _prepare(
    sheet: Sheet, axes: Axes, rows: Sequence[Row], width: float, labels: Sequence[Annotation]
) -> None:
    """Set the axes of a panel of this width; the longest bar and the text beside it fill them."""
    from matplotlib.ticker import MaxNLocator

    axes.set_ylim(_height(rows), 0)
    # The number of axis units per inch, such that each text ends inside the panel.
    unit = 0.0
    longest = 0.0
    for label in labels:
        end = label.xy[0]
        longest = max(longest, end)
        room = width - 0.1 - max(map(sheet.width, label.get_text().splitlines()))
        unit = max(unit, end / room)
    axes.set_xlim(0, width * unit or 1)
    axes.set_xticks([tick for tick in MaxNLocator(4).tick_values(0, longest) if tick <= longest])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.12g}")
    axes.grid(axis="y", visible=False)
    axes.set_yticks([row.y for row in rows], ["\n".join(row.name) for row in rows])
    axes.tick_params(axis="y", length=0)
    for name, row in zip(axes.get_yticklabels(), rows, strict=True):
        name.set_linespacing(1.1)
        if row.item is None:
            name.set_fontweight("bold")


def _bar(axes: Axes, item: Item, y: float, value: float, height: float, alpha: float = 1.0) -> None:
    """Draw a bar whose pattern tells systems apart in print."""
    axes.barh(
        y,
        value,
        height,
        color=item.color.tone.light,
        edgecolor="white",
        hatch=item.hatch,
        linewidth=0,
        alpha=alpha,
    )


def _beside(axes: Axes, x: float, y: float, text: str, style: str = "normal") -> Annotation:
    place: Look = {
        "xytext": (5, 0),
        "textcoords": "offset points",
        "va": "center",
        "linespacing": 1.1,
    }
    return axes.annotate(text, (x, y), fontsize=SMALL, fontstyle=style, **place)
