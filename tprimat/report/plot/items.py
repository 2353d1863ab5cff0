"""What the panels share: how each side is drawn, and what stands where nothing was measured."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tprimat.analysis import intervals
from tprimat.compare import Comparison, ModelComparison, SideResult
from tprimat.report.verdict import ratio_text
from tprimat.text import plain, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOT_MEASURED = "not measured"
LABEL_LENGTH = 48
NOTE_WIDTH = 84
"""Characters."""

REASONS = 8
"""That many sides are named in a panel without data."""

# https://jfly.uni-koeln.de/color/ without yellow, which is too pale for lines on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
LINES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")


@dataclasses.dataclass(frozen=True)
class Item:
    """A side of one model, as it is drawn.

    Attributes:
        label: what a legend calls it; the model is in it where there are several.
        ratio: against the reference, as text; None for the reference and where there is none.
        is_reference: whether others are set against it.
        color, marker: of the side, the same for all models.
        line: style of the model.
    """

    model: ModelComparison
    side: SideResult
    label: str
    ratio: str | None
    is_reference: bool
    color: str
    marker: str
    line: str


@dataclasses.dataclass(frozen=True)
class Shown:
    """The interval of a side's rate that a picture shows, tokens/s/GPU.

    Attributes:
        what: which one it is, in the words that follow it; empty for the 95 % one between runs.
    """

    low: float
    high: float
    what: str


def shown_interval(side: SideResult) -> Shown | None:
    """Between runs from three runs on, else their range; of a single run that within it; None without any."""
    rates = [rate for result in side.counted if (rate := result.summary.performance.tokens_per_second_per_gpu)]
    one_level = all(len(result.summary.segments) <= 1 for result in side.counted)
    if len(rates) > 1:
        between = intervals.between_run_interval(rates) if one_level else None
        if between is not None:
            return Shown(between.low, between.high, "")
        return Shown(min(rates), max(rates), " (range)")
    levels = side.counted[0].summary.segments if side.counted else ()
    interval = levels[0].interval if len(levels) == 1 else None
    if not rates or interval is None or interval.about != "mean":
        return None
    mean = levels[0].mean
    return Shown(rates[0] * mean / interval.high, rates[0] * mean / interval.low, " within the run")


def items_of(comparison: Comparison) -> list[Item]:
    """All sides of all models in the order in which they are drawn."""
    names = list(dict.fromkeys(side.side.name for model in comparison.models for side in model.sides))
    several = len(comparison.models) > 1
    items = []
    for index, model in enumerate(comparison.models):
        ratios = {id(pair.side): ratio_text(pair.ratio) for pair in model.pairs if pair.ratio}
        for side in model.sides:
            number = names.index(side.side.name)
            # matplotlib leaves labels that begin with an underscore out of legends.
            name = shortened(plain(side.side.name).lstrip("_") or "unnamed", LABEL_LENGTH)
            items.append(
                Item(
                    model=model,
                    side=side,
                    label=f"{name}, {plain(model.title, 24)}" if several else name,
                    ratio=ratios.get(id(side)),
                    is_reference=any(pair.reference is side and pair.ratio for pair in model.pairs),
                    color=COLORS[number % len(COLORS)],
                    marker=MARKERS[number % len(MARKERS)],
                    line=LINES[index % len(LINES)],
                )
            )
    return items


def nothing(axes: Axes, reasons: Sequence[str]) -> None:
    """What stands in a panel without data: why."""
    axes.set_axis_off()
    shown = [plain(reason, 78) for reason in reasons[:REASONS]]
    if len(reasons) > REASONS:
        shown.append(f"and {len(reasons) - REASONS} more")
    text = "\n".join([NOT_MEASURED, "", *shown])
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes, color="0.3")


def note_below(axes: Axes, notes: Sequence[str]) -> None:
    """Small text under a panel's axis, where it hides no data."""
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
