"""What the panels share: how each system is drawn, and the text in place of what was not measured."""

from __future__ import annotations

import dataclasses
import math
import statistics
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tprimat.compare import Comparison, Group, ModelComparison, RunResult, SystemResult
from tprimat.report import tables
from tprimat.report.plot.colors import colors_of
from tprimat.report.rates import first_counted
from tprimat.report.verdict import speedup_text
from tprimat.text import plain, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOT_MEASURED = "not measured"
LABEL_LENGTH = 48
NOTE_WIDTH = 84
"""Characters."""

REASONS = 8
"""That many systems are named in a panel without data."""

LOG_FROM = 4.0
"""From this factor between the slowest and the fastest system on, steps are drawn on a log scale."""

LEAST_SPAN = 0.2
"""Share of the slowest system's step time that the axis shows at least."""

SHOWN_SHARE = 0.995
"""Share of the steady steps that must fit the scale when outliers would flatten the rest."""

LINES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")


@dataclasses.dataclass(frozen=True)
class Item:
    """A system of one model, as it is drawn.

    Attributes:
        label: what a legend calls it; the model is in it where there are several.
        speedup: beside its bar, as text; empty where there is none.
        color, marker: of the system, the same for all models.
        line: style of the model.
    """

    model: ModelComparison
    system: SystemResult
    label: str
    speedup: str
    color: str
    marker: str
    line: str


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
class TimeSpan:
    """Step times, in s, and the part of them that an axis shows: the steady ones without outliers that flatten others.

    It is wide, and logarithmic, where some run is so much slower than another.
    """

    low: float
    high: float
    times: Sequence[float]
    is_wide: bool

    def widened(self, foot: float, head: float) -> tuple[float, float]:
        """Ends of a linear axis, with so much air as a share of it: noise of one percent must not fill the panel."""
        missing = max(0.0, LEAST_SPAN * self.high - (self.high - self.low)) / 2
        low, high = self.low - missing, self.high + missing
        return max(0.0, low - foot * (high - low)), high + head * (high - low)


def time_span(results: Sequence[RunResult], *, beyond: float) -> TimeSpan:
    """The step times of runs that have some; the axis is cut where one is so many times the slowest run's median."""
    times: list[float] = []
    steady: list[float] = []
    medians: list[float] = []
    for result in results:
        times += [time for time in result.run.step_times if time is not None]
        own = [time for time in result.run.step_times[first_counted(result) :] if time is not None]
        if own:
            steady += own
            medians.append(statistics.median(own))
    ranked = sorted(steady or times)
    low, high = ranked[0], ranked[-1]
    slowest = max(medians, default=high)
    if high > beyond * slowest:
        high = max(ranked[math.ceil(SHOWN_SHARE * len(ranked)) - 1], 1.1 * slowest)
    return TimeSpan(low, high, times, bool(medians) and slowest / min(medians) >= LOG_FROM)


def items_of(comparison: Comparison) -> list[Item]:
    """Return all systems of all models in the order in which they are drawn."""
    names = comparison.system_names
    colors = colors_of({system.name: system for system in reversed(comparison.systems)})
    several = len(comparison.models) > 1
    items = []
    for index, model in enumerate(comparison.models):
        speedups = {key: text for group in model.groups for key, text in _speedups(group).items()}
        for system in model.systems:
            number = names.index(system.name)
            # matplotlib leaves labels that begin with an underscore out of legends.
            name = shortened(plain(system.name).lstrip("_") or "unnamed", LABEL_LENGTH)
            items.append(
                Item(
                    model=model,
                    system=system,
                    label=f"{name}, {plain(model.short_title, 24)}" if several else name,
                    speedup=speedups.get(id(system), ""),
                    color=colors[system.name].tone.light,
                    marker=MARKERS[number % len(MARKERS)],
                    line=LINES[index % len(LINES)],
                )
            )
    return items


def _speedups(group: Group) -> dict[int, str]:
    """Return what is beside the bars of systems: of two the faster one's speedup, of more that over the baseline."""
    compared = [pair for pair in group.pairs if pair.ratio]
    if len(compared) == 1:
        return {id(compared[0].faster): speedup_text(compared[0].speedup)}
    speedups = {id(pair.system): tables.versus(pair) for pair in compared}
    return {id(group.baseline): "baseline", **speedups} if compared else {}


def nothing(axes: Axes, reasons: Sequence[str]) -> None:
    """Write the reasons into a panel without data."""
    axes.set_axis_off()
    shown = [plain(reason, 78) for reason in reasons[:REASONS]]
    if len(reasons) > REASONS:
        shown.append(f"and {len(reasons) - REASONS} more")
    text = "\n".join([NOT_MEASURED, *(["", *shown] if shown else [])])
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes, color="0.3")


def note_below(axes: Axes, notes: Sequence[str]) -> None:
    """Write small text below a panel's axis, where it hides no data."""
    lines = [line for note in notes for line in textwrap.wrap(plain(note), NOTE_WIDTH)]
    axes.annotate(
        "\n".join(lines),
        (0.0, 0.0),
        xycoords="axes fraction",
        xytext=(0, -40),
        textcoords="offset points",
        va="top",
        fontsize=9,
        color="0.25",
        annotation_clip=False,
    )
