"""The speedup in other windows of steps: a grid, computed here and looked up by the page's sliders.

It decides nothing. It shows how much a speedup depends on the choice of the window.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from tprimat import units
from tprimat.compare import Group, RunResult, SystemResult
from tprimat.compare.result import share_of_step
from tprimat.report.blocks import Content, Heading, Output, Paragraph, Table
from tprimat.report.page.markup import Control, Parts
from tprimat.report.page.view import MOST_RUNS, View
from tprimat.report.rates import RATE, rate, rate_of
from tprimat.report.tables import versus
from tprimat.results.fields import JsonObject

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]
    """Values by the stop at which a window begins, and the stop at which it ends."""

STOPS = 26
"""Most first and last steps that the slider offers."""

LEAST = 5
"""Fewest steps of a window."""


@dataclasses.dataclass(frozen=True)
class Grid:
    """Rates of the systems and their ratios to the baseline's, by window; in the order of the
    systems.

    Rates are in the unit of the systems, such as tokens/s/GPU.
    A window has the steps after one stop up to another. A value is NaN if a run has too few steps
    there.
    """

    stops: tuple[int, ...]
    rates: list[Values]
    ratios: list[Values]


def grid(group: Group) -> Grid | None:
    """Return the grid of a group; None if no two are compared by records, and for more runs than
    the page holds.
    """
    import numpy as np

    if (
        not any(pair.ratio for pair in group.pairs)
        or sum(len(system.runs) for system in group.systems) > MOST_RUNS
    ):
        return None
    usable = [
        system
        for system in group.systems
        if system.exclusion is None and system.value(RATE) is not None and system.valid_runs
    ]
    results = [(system, result) for system in usable for result in system.valid_runs]
    if any(result.summary.clock == "blocks" for _, result in results):
        # The speeds aren't computed from records.
        return None
    if any(share_of_step(result.run, system.unit) is None for system, result in results):
        # The steps have different numbers of tokens.
        return None
    # No window is longer than the shortest run.
    stops = stops_to(min(result.run.steps[-1] for _, result in results))
    unknown = np.full((len(stops), len(stops)), np.nan)
    windows = dict.fromkeys(group.systems, unknown)
    for system in usable:
        windows[system] = _rates(system, stops)
    compared = {pair.system for pair in group.pairs if pair.ratio}
    ratios = []
    for system in group.systems:
        is_compared = system in compared
        ratios.append(windows[system] / windows[group.baseline] if is_compared else unknown)
    return Grid(stops, list(windows.values()), ratios)


def stops_to(last: int) -> tuple[int, ...]:
    """Return round step numbers from 0 to the last step, dense at the beginning, where warm-up
    is.
    """
    if last <= STOPS - 1:
        return tuple(range(last + 1))
    steps = {0, 1, 2, 3, 5, 10, 20}
    rest = STOPS - len(steps) - 1
    # With 10,000 steps, 18 stops are 555 steps apart: they are rounded to tens, to 560, 1110, …
    round_to = 10 ** max(0, len(str(last // rest)) - 2)
    for index in range(1, rest + 1):
        steps.add(round(last * index / rest / round_to) * round_to)
    return (*sorted(step for step in steps if step < last), last)


def values(grid: Grid) -> JsonObject:
    """Return the grid for the page: texts by begin and end, for windows that have enough steps."""
    return {
        "stops": list(grid.stops),
        "rates": [_texts(rates, rate) for rates in grid.rates],
        "ratios": [_texts(ratios, _speedup) for ratios in grid.ratios],
    }


def _texts(values: Values, form: Callable[[float], str]) -> list[list[str | None]]:
    rows = []
    for row in values.tolist():
        rows.append([None if math.isnan(value) else form(value) for value in row])
    return rows


def _speedup(value: float) -> str:
    """Return the ratio of a speed and the baseline's as text, inverted if it is below 1."""
    if value >= 1:
        return units.times(value)
    return f"slower, {units.times(1 / value)}"


def section(view: View, group: Group) -> Parts:
    """Yield the sliders, and the table that they fill."""
    window_grid = grid(group)
    if window_grid is None:
        return
    number = [answer.group for answer in view.answers].index(group)
    # All steps but the first one.
    begin = 1 if len(window_grid.stops) > 2 else 0
    end = len(window_grid.stops) - 1
    texts = values(window_grid)
    pairs = {pair.system: pair for pair in group.pairs}
    rows: list[list[Content]] = []
    for index, system in enumerate(group.systems):
        now = texts["rates"][index][begin][end] or units.UNKNOWN
        ratio_now: Content = "1.00× (baseline)"
        reported = "1.00× (baseline)"
        if system in pairs:
            text = texts["ratios"][index][begin][end] or units.UNKNOWN
            ratio_now = Output(text, f"window-{number}-ratio-{index}")
            reported = versus(pairs[system])
        rate_now = Output(now, f"window-{number}-rate-{index}")
        rows.append([view.of(system).name, rate_now, ratio_now, rate_of(system), reported])
    yield Heading(3, "Try another step window")
    yield Paragraph("This does not change the result above.")
    yield Control(
        "sliders", {"number": number, "stops": window_grid.stops, "begin": begin, "end": end}
    )
    baseline = view.of(group.baseline).name
    header = ["System", "This window", f"Speedup vs {baseline}", "Reported", "Reported speedup"]
    yield Table(header, rows, caption="Throughput in this step window")


def _rates(system: SystemResult, stops: tuple[int, ...]) -> Values:
    """Return the geometric mean of the runs' rates, as the verdict uses it."""
    import numpy as np

    logarithms = [np.log(_run_rates(result, stops)) for result in system.valid_runs]
    means: Values = np.mean(logarithms, axis=0)
    return np.exp(means)


def _run_rates(result: RunResult, stops: tuple[int, ...]) -> Values:
    """Return the rate of the records of a run whose steps are all after one stop and up to another,
    per s and GPU.

    NaN if these are fewer than LEAST steps, or if the run doesn't extend to the end of the window:
    a window that one run only half fills isn't the same window.
    """
    import numpy as np

    run = result.run
    times = np.array(run.step_times, dtype=float)
    is_timed = ~np.isnan(times)
    ends = np.array(run.steps)[is_timed]
    lengths = np.array(run.window_steps)[is_timed]
    # Sums up to each record, so that a window costs two look-ups.
    steps = np.append(0, np.cumsum(lengths))
    seconds = np.append(0.0, np.cumsum(times[is_timed] * lengths))
    firsts = np.searchsorted(ends - lengths, stops)
    lasts = np.searchsorted(ends, stops, side="right")
    counts = steps[lasts] - steps[firsts, np.newaxis]
    durations = seconds[lasts] - seconds[firsts, np.newaxis]
    is_held = (counts >= LEAST) & (np.array(stops) <= ends[-1])
    rates = np.full(counts.shape, np.nan)
    work = share_of_step(run, result.unit) or 0.0
    rates[is_held] = work * counts[is_held] / durations[is_held]
    return rates
