"""How each system is drawn, by the plot and on the page."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from tprimat.compare import Comparison, Group, ModelComparison, SystemResult
from tprimat.report import tables
from tprimat.report.colors import Color, colors_of
from tprimat.text import plain

LINES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
HATCHES = ("", "//", "..", "\\\\", "xx", "--", "||", "++", "oo")


@dataclasses.dataclass(frozen=True)
class Item:
    """A system of one model, as it is drawn.

    Attributes:
        title: the title of its model and work.
        name: its name, as text that is safe to show.
        label: its name, with the model if there are several.
        speedup: the text beside its bar; empty if there is none.
        color, marker, hatch: those of the system, the same for all models; marker and hatch are for
            prints in black.
        line: the line style of the model.
    """

    model: ModelComparison
    system: SystemResult
    title: str
    name: str
    label: str
    speedup: str
    color: Color
    marker: str
    hatch: str
    line: str


Items = Sequence[Item]


def items_of(comparison: Comparison) -> list[Item]:
    """Return all systems of all models in the order in which they are drawn."""
    numbers = dict[str, int]()
    colors = colors_of({system.name: system for system in reversed(comparison.systems)})
    several = len(comparison.models) > 1
    items = []
    for model, line in zip(comparison.models, itertools.cycle(LINES), strict=False):
        for group in model.groups:
            speedups = _speedups(group)
            for system in group.systems:
                number = numbers.setdefault(system.name, len(numbers))
                name = plain(system.name) or "unnamed"
                label = f"{name}, {plain(model.short_title)}" if several else name
                items.append(
                    Item(
                        model=model,
                        system=system,
                        title=group.title,
                        name=name,
                        label=label,
                        speedup=speedups.get(system, ""),
                        color=colors[system.name],
                        marker=MARKERS[number % len(MARKERS)],
                        hatch=HATCHES[number % len(HATCHES)],
                        line=line,
                    )
                )
    return items


def _speedups(group: Group) -> dict[SystemResult, str]:
    """Return the text beside the bar of each system of a group; none if nothing is compared."""
    speedups = {}
    for pair in group.pairs:
        if pair.ratio:
            # Intervals are only in the tables: beside bars they would take a third of the width.
            speedups[pair.system] = tables.versus(pair).partition(" [")[0]
    if not speedups:
        return {}
    return {group.baseline: "baseline", **speedups}
