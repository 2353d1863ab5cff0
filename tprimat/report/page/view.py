"""What the parts of the page share: the sides and runs in their order, with colours and anchors."""

from __future__ import annotations

import dataclasses
import html
import textwrap

from tprimat.compare import Comparison, ModelComparison, Pair, RunResult, SideResult
from tprimat.report.plot.items import COLORS
from tprimat.report.tables import Footnotes
from tprimat.results.run import Run
from tprimat.text import plain, shortened

DARK = ("#56B4E9", "#F28E4E", "#2FBF94", "#E39BC4", "#9AD3F5", "#F0C24B", "#F2F2F2")
"""The colours of Okabe and Ito in their order, light enough for a dark ground."""

DASHES = ("solid", "dash", "dot", "dashdot")

NAME_WIDTH, NAME_LINES = 30, 3
"""Characters of a line of a name beside a bar, and how many lines it has."""


@dataclasses.dataclass(frozen=True)
class Placed:
    """A side with its place on the page.

    Attributes:
        index: among all sides; its anchor is s and this.
        color: index into the palettes; the same name has the same one in every model.
        dash: of its lines, which tells sides of one colour apart.
        runs: indices of its runs in View.runs.
    """

    model: ModelComparison
    side: SideResult
    index: int
    color: int
    dash: str
    name: str
    runs: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class PlacedRun:
    """A run with its place: its anchor is r and its index; its evidence is side.index's."""

    index: int
    side: int
    number: int
    result: RunResult


class View:
    """A comparison in the order of the page: all its sides, their names (each once), runs and pairs."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.footnotes = Footnotes(comparison)
        self.sides: list[Placed] = []
        self.runs: list[PlacedRun] = []
        self.pairs: list[Pair] = comparison.pairs
        self.names = comparison.side_names
        for model in comparison.models:
            for side in model.sides:
                index, first = len(self.sides), len(self.runs)
                for number, result in enumerate(side.runs, start=1):
                    self.runs.append(PlacedRun(len(self.runs), index, number, result))
                style = self.names.index(side.name)
                self.sides.append(
                    Placed(
                        model=model,
                        side=side,
                        index=index,
                        color=style % len(COLORS),
                        dash=DASHES[style // len(COLORS) % len(DASHES)],
                        name=plain(side.name) or "unnamed",
                        runs=tuple(range(first, len(self.runs))),
                    )
                )

    def of(self, side: SideResult) -> Placed:
        """The place of a side."""
        return next(placed for placed in self.sides if placed.side is side)

    def of_model(self, model: ModelComparison) -> list[Placed]:
        """The sides of a model."""
        return [placed for placed in self.sides if placed.model is model]

    def pair_anchor(self, pair: Pair) -> str:
        """Where the evidence of a ratio stands: p and its index."""
        return f"p{next(index for index, each in enumerate(self.pairs) if each is pair)}"

    def title(self, placed: Placed) -> str:
        """The name of a side, with its model where there are several."""
        return f"{placed.name}, {plain(placed.model.title)}" if self.several_models else placed.name

    @property
    def several_models(self) -> bool:
        """Whether a heading must say of which model something is."""
        return len(self.comparison.models) > 1


def chart_text(text: str) -> str:
    """Text for a chart, whose library reads a few HTML tags, entities and placeholders in texts."""
    return html.escape(plain(text), quote=False).replace("%{", "%\u200b{")


def broken(name: str) -> str:
    """A name in lines, for beside a bar; its middle is left out where it is too long."""
    short = shortened(plain(name), NAME_WIDTH * NAME_LINES - 8)
    lines = [line for part in short.split(", ") for line in textwrap.wrap(part, NAME_WIDTH)] or ["unnamed"]
    if len(lines) > NAME_LINES:
        lines = textwrap.wrap(short, NAME_WIDTH)[:NAME_LINES]
    return "<br>".join(map(chart_text, lines))


def wall_times(run: Run) -> list[float | None]:
    """Seconds from the first recorded step's start to the end of each record, as far as all before it are known."""
    passed: float | None = 0.0
    found: list[float | None] = []
    before = 0
    for step, window, time in zip(run.steps, run.window_steps, run.step_times, strict=True):
        gap = bool(found) and step - before != window
        before = step
        passed = None if passed is None or time is None or gap else passed + time * window
        found.append(None if passed is None else round(passed, 3))
    return found
