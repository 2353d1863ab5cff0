"""What the panels share: how each system is drawn, and the text in place of what was not measured."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tprimat.compare import Comparison, Group, ModelComparison, SystemResult
from tprimat.report import tables
from tprimat.report.plot.charts import NOT_MEASURED, shown_reasons
from tprimat.report.plot.colors import colors_of
from tprimat.report.verdict import speedup_text
from tprimat.text import plain, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABEL_LENGTH = 48
NOTE_WIDTH = 84
"""Characters."""

REASONS = 8
"""That many systems are named in a panel without data."""

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
    shown = shown_reasons(reasons, REASONS)
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
