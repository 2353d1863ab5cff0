"""What the panels share: how each system is drawn."""

from __future__ import annotations

import dataclasses

from tprimat.compare import Comparison, ModelComparison, SystemResult
from tprimat.report import tables
from tprimat.report.plot.colors import colors_of
from tprimat.text import plain

LINES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
HATCHES = ("", "//", "..", "\\\\", "xx", "--", "||", "++", "oo")


@dataclasses.dataclass(frozen=True)
class Item:
    """A system of one model, as it is drawn.

    Attributes:
        title: of its model and work.
        label: what a legend calls it; the model is in it if there are several.
        speedup: beside its bar, as text; empty if there is none.
        color, marker, hatch: of the system, the same for all models; the last two for print.
        line: style of the model.
    """

    model: ModelComparison
    system: SystemResult
    title: str
    label: str
    speedup: str
    color: str
    marker: str
    hatch: str
    line: str


def items_of(comparison: Comparison) -> list[Item]:
    """Return all systems of all models in the order in which they are drawn."""
    names = dict.fromkeys(system.name for model in comparison.models for system in model.systems)
    numbers = {name: number for number, name in enumerate(names)}
    colors = colors_of({system.name: system for system in reversed(comparison.systems)})
    several = len(comparison.models) > 1
    items = []
    for index, model in enumerate(comparison.models):
        speedups: dict[SystemResult, str] = {}
        for group in model.groups:
            # Intervals are in the tables: beside bars they would take a third of them.
            compared = {}
            for pair in group.pairs:
                if pair.ratio:
                    compared[pair.system] = tables.versus(pair).partition(" [")[0]
            speedups |= {group.baseline: "baseline", **compared} if compared else {}
        for title, system in (
            (group.title, system) for group in model.groups for system in group.systems
        ):
            number = numbers[system.name]
            # matplotlib leaves labels that begin with an underscore out of legends.
            name = plain(system.name).lstrip("_") or "unnamed"
            items.append(
                Item(
                    model=model,
                    system=system,
                    title=title,
                    label=f"{name}, {plain(model.short_title)}" if several else name,
                    speedup=speedups.get(system, ""),
                    color=colors[system.name].tone.light,
                    marker=MARKERS[number % len(MARKERS)],
                    hatch=HATCHES[number % len(HATCHES)],
                    line=LINES[index % len(LINES)],
                )
            )
    return items
