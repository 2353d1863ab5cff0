"""What the parts of the page share: the verdicts, and the systems and runs in their order, with
colors and anchors.
"""

from __future__ import annotations

import dataclasses
import html
import textwrap

from tprimat.compare import ModelComparison, RunResult, SystemResult
from tprimat.report.items import Item, items_of
from tprimat.report.tables import Footnotes
from tprimat.report.verdict import Report
from tprimat.results.run import Run
from tprimat.text import plain

DASHES = ("solid", "dash", "dot", "dashdot")

NAME_WIDTH = 30
"""Most characters of a line of a name beside a bar."""

MOST_RUNS = 200
"""Most runs whose steps and evidence the page has, so that it fits into an email; values and
verdicts are computed from all runs.
"""


@dataclasses.dataclass(frozen=True)
class PlacedRun:
    """A run with its place on the page; its anchor is r followed by its index."""

    index: int
    system: int
    number: int
    result: RunResult


@dataclasses.dataclass(frozen=True)
class Placed(Item):
    """A system with its place on the page.

    Attributes:
        index: its index among all systems; its anchor is s followed by the index.
        field: the field of its price and its color; equal names share it in all models.
        dash: the dash style of its lines, which distinguishes systems of one color.
        runs: its runs whose steps and evidence the page has.
    """

    index: int
    field: int
    dash: str
    runs: tuple[PlacedRun, ...]


class View:
    """A comparison in the order of the page: its answers, all its systems, their names (each once),
    runs and pairs.
    """

    def __init__(self, report: Report) -> None:
        self.report = report
        self.comparison = report.comparison
        # What compares comes before what could not be compared.
        self.answers = sorted(report.answers, key=lambda answer: answer.group.leaders is None)
        self.several_models = len(self.comparison.models) > 1
        self.footnotes = Footnotes(report.comparison)
        self.runs: list[PlacedRun] = []
        self._places = dict[SystemResult, Placed]()
        names = report.comparison.system_names
        items = items_of(report.comparison)
        tones = {item.system.name: item.color.tone for item in items}
        self.tones = [tones[name] for name in names]
        most = max(1, MOST_RUNS // max(1, len(items)))
        for index, item in enumerate(items):
            room = min(most, MOST_RUNS - len(self.runs))
            first = len(self.runs)
            for number, result in enumerate(item.system.runs[:room]):
                self.runs.append(PlacedRun(first + number, index, number + 1, result))
            self._places[item.system] = Placed(
                **vars(item),
                index=index,
                field=names.index(item.system.name),
                dash=DASHES[item.color.repeated % len(DASHES)],
                runs=tuple(self.runs[first:]),
            )
        self.systems = list(self._places.values())
        # All pairs, each with the anchor of the evidence of its ratio.
        self.pairs = {pair: f"p{index}" for index, pair in enumerate(report.comparison.pairs)}

    def of(self, system: SystemResult) -> Placed:
        """Return the place of a system."""
        return self._places[system]

    def of_model(self, model: ModelComparison) -> list[Placed]:
        """Return the systems of a model."""
        return [self.of(system) for system in model.systems]


def chart_text(text: str) -> str:
    """Return text for a chart, whose library reads a few HTML tags, entities and placeholders in
    texts.
    """
    return html.escape(plain(text), quote=False).replace("%{", "%\u200b{")


def broken(name: str) -> str:
    """Return a name in lines, for beside a bar."""
    return "<br>".join(map(chart_text, textwrap.wrap(plain(name), NAME_WIDTH)))


def wall_times(run: Run) -> list[float | None]:
    """Return the seconds from the start of the first recorded step to the end of each record, up to
    the first record whose time is unknown.
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
