"""What the parts of the page share: the verdicts, and the systems and runs in their order, with
colors and anchors.
"""

from __future__ import annotations

import dataclasses
import html
import textwrap

from tprimat.compare import ModelComparison, RunResult, SystemResult
from tprimat.report.plot.colors import colors_of
from tprimat.report.tables import Footnotes
from tprimat.report.verdict import Report
from tprimat.results.run import Run
from tprimat.text import plain

DASHES = ("solid", "dash", "dot", "dashdot")

NAME_WIDTH = 30
"""Characters of a line of a name beside a bar."""

MOST_RUNS = 200
"""Runs whose steps and evidence the page has, so that it fits into an e-mail; values and verdict
are of all runs.
"""


@dataclasses.dataclass(frozen=True)
class Placed:
    """A system with its place on the page.

    Attributes:
        index: among all systems; its anchor is s and this.
        field: of its price and its color: the same name has the same one in every model.
        dash: of its lines, which distinguishes systems of one color.
        runs: indices in View.runs of its runs that the page holds.
    """

    model: ModelComparison
    system: SystemResult
    index: int
    field: int
    dash: str
    name: str
    runs: range


@dataclasses.dataclass(frozen=True)
class PlacedRun:
    """A run with its place: its anchor is r and its index."""

    index: int
    system: int
    number: int
    result: RunResult


class View:
    """A comparison in the order of the page: its answers, all its systems, their names (each once),
    runs and pairs.
    """

    def __init__(self, report: Report) -> None:
        self.report = report
        self.comparison = report.comparison
        # What compares comes before what could not be compared.
        self.answers = sorted(report.answers, key=lambda answer: answer.group.leaders is None)
        self.footnotes = Footnotes(report.comparison)
        self.runs: list[PlacedRun] = []
        names = report.comparison.system_names
        self._places = dict[SystemResult, Placed]()
        every = report.comparison.systems
        colors = colors_of({system.name: system for system in reversed(every)})
        self.tones = [colors[name].tone for name in names]
        most = max(1, MOST_RUNS // max(1, len(every)))
        for model in report.comparison.models:
            for system in model.systems:
                first = len(self.runs)
                placed = Placed(
                    model=model,
                    system=system,
                    index=len(self._places),
                    field=names.index(system.name),
                    dash=DASHES[colors[system.name].repeated % len(DASHES)],
                    name=plain(system.name) or "unnamed",
                    runs=range(first, min(first + min(most, len(system.runs)), MOST_RUNS)),
                )
                self._places[system] = placed
                for number, (index, result) in enumerate(
                    zip(placed.runs, system.runs, strict=False), start=1
                ):
                    self.runs.append(PlacedRun(index, placed.index, number, result))
        self.systems = list(self._places.values())
        # All pairs, each with the anchor of the evidence of its ratio.
        self.pairs = {pair: f"p{index}" for index, pair in enumerate(report.comparison.pairs)}

    def of(self, system: SystemResult) -> Placed:
        """Return the place of a system."""
        return self._places[system]

    def of_model(self, model: ModelComparison) -> list[Placed]:
        """Return the systems of a model."""
        return [self.of(system) for system in model.systems]

    def runs_of(self, placed: Placed) -> list[PlacedRun]:
        """Return the runs of a system that the page holds."""
        return [self.runs[index] for index in placed.runs]

    def title(self, placed: Placed) -> str:
        """Return the name of a system, with its model if there are several."""
        if self.several_models:
            return f"{placed.name}, {plain(placed.model.short_title)}"
        return placed.name

    @property
    def several_models(self) -> bool:
        """Whether a heading must name the model."""
        return len(self.comparison.models) > 1


def chart_text(text: str) -> str:
    """Return text for a chart, whose library reads a few HTML tags, entities and placeholders in
    texts.
    """
    return html.escape(plain(text), quote=False).replace("%{", "%\u200b{")


def broken(name: str) -> str:
    """Return a name in lines, for beside a bar."""
    return "<br>".join(map(chart_text, textwrap.wrap(plain(name), NAME_WIDTH)))


def wall_times(run: Run) -> list[float | None]:
    """Return seconds from the first recorded step's start to each record's end, while all before it
    are known.
    """
    passed: float | None = 0.0
    times: list[float | None] = []
    before: int | None = None
    for step, window, time in zip(run.steps, run.window_steps, run.step_times, strict=True):
        has_gap = before is not None and step - before != window
        before = step
        if passed is None or time is None or has_gap:
            passed = None
            times.append(None)
        else:
            passed += time * window
            times.append(round(passed, 3))
    return times
