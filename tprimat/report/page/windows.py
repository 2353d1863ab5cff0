"""The speedup in another window of steps: a grid, computed here and looked up by the page's
sliders.

It decides nothing. A reader sees how much of a speedup is the choice of the window.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import statistics
from collections.abc import Callable

from tprimat import units
from tprimat.compare import Group, RunResult, SystemResult
from tprimat.compare.result import share_of_step
from tprimat.report.blocks import Content, Heading, Output, Paragraph, Table
from tprimat.report.page.markup import Control, Parts
from tprimat.report.page.view import MOST_RUNS, View
from tprimat.report.rates import RATE, rate, rate_of
from tprimat.report.tables import versus
from tprimat.results.fields import JsonObject

STOPS = 26
"""Most first and last steps that the slider offers."""

LEAST = 5
"""Fewest steps of a window."""

Values = tuple[tuple[float | None, ...], ...]
"""By the stop at which a window begins, and the one at which it ends."""


@dataclasses.dataclass(frozen=True)
class Grid:
    """Rates of the systems and their ratios to the baseline's, by window; in the order of the
    systems.

    Rates are in the unit of the systems, such as tokens/s/GPU.
    A window holds the steps after one stop up to another. None if a run holds too little there.
    """

    stops: tuple[int, ...]
    rates: tuple[Values, ...]
    ratios: tuple[Values, ...]


def grid(group: Group) -> Grid | None:
    """Return the grid of a group; None if no two are compared by records, and for more runs than
    the page holds.
    """
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
        # Records aren't what the speeds are of.
        return None
    if any(share_of_step(result.run, system.unit) is None for system, result in results):
        # Steps differ in their tokens.
        return None
    # No window is longer than the shortest run.
    found = stops(min(result.run.steps[-1] for _, result in results))
    windows = {system: _rates(system, found) for system in usable}
    compared = {pair.system for pair in group.pairs if pair.ratio}
    nothing = ((None,) * len(found),) * len(found)
    rates = []
    ratios = []
    for system in group.systems:
        rates.append(windows.get(system, nothing))
        if system in compared:
            ratios.append(_quotients(windows[system], windows[group.baseline]))
        else:
            ratios.append(nothing)
    return Grid(found, tuple(rates), tuple(ratios))


def _quotients(rates: Values, others: Values) -> Values:
    """Return the ratios of two systems' rates, None where one has none."""
    rows = []
    for row, other_row in zip(rates, others, strict=True):
        cells = []
        for own, other in zip(row, other_row, strict=True):
            cells.append(own / other if own and other else None)
        rows.append(tuple(cells))
    return tuple(rows)


def stops(last: int) -> tuple[int, ...]:
    """Return round step numbers from 0 to the last step, dense at the beginning, where warm-up
    is.
    """
    if last <= STOPS - 1:
        return tuple(range(last + 1))
    steps = {0, 1, 2, 3, 5, 10, 20}
    rest = STOPS - len(steps) - 1
    # Of 10,000 steps, 18 stops are 555 steps apart: they are rounded to 10, to 560, 1110, …
    round_to = 10 ** max(0, len(str(last // rest)) - 2)
    for index in range(1, rest + 1):
        steps.add(round(last * index / rest / round_to) * round_to)
    return (*sorted(step for step in steps if step < last), last)


def values(found: Grid) -> JsonObject:
    """Return the grid as the page looks it up: texts by begin and end, for windows that hold enough
    steps.
    """
    return {
        "stops": list(found.stops),
        "rates": [_texts(rates, rate) for rates in found.rates],
        "ratios": [_texts(ratios, _speedup) for ratios in found.ratios],
    }


def _texts(values: Values, form: Callable[[float], str]) -> list[list[str | None]]:
    rows = []
    for row in values:
        rows.append([None if value is None else form(value) for value in row])
    return rows


def _speedup(value: float) -> str:
    """Return a speed as a factor of the baseline's, 1 or more."""
    if value >= 1:
        return units.times(value)
    return f"slower, {units.times(1 / value)}"


def section(view: View, group: Group) -> Parts:
    """Yield the sliders, and the table that they fill."""
    found = grid(group)
    if found is None:
        return
    number = [answer.group for answer in view.answers].index(group)
    # All steps but the first one.
    begin = 1 if len(found.stops) > 2 else 0
    end = len(found.stops) - 1
    pairs = {pair.system: pair for pair in group.pairs}
    rows: list[list[Content]] = []
    for index, system in enumerate(group.systems):
        now = Output(rate(found.rates[index][begin][end]), f"window-{number}-rate-{index}")
        ratio_now: Content = "1.00× (baseline)"
        reported = "1.00× (baseline)"
        if system in pairs:
            ratio = found.ratios[index][begin][end]
            text = units.UNKNOWN if ratio is None else _speedup(ratio)
            ratio_now = Output(text, f"window-{number}-ratio-{index}")
            reported = versus(pairs[system])
        rows.append([view.of(system).name, now, ratio_now, rate_of(system), reported])
    yield Heading(3, "Try another step window")
    yield Paragraph("This does not change the result above.")
    yield Control("sliders", {"number": number, "stops": found.stops, "begin": begin, "end": end})
    baseline = view.of(group.baseline).name
    header = ["System", "This window", f"Speedup vs {baseline}", "Reported", "Reported speedup"]
    yield Table(header, rows, caption="Throughput in this step window")


def _rates(system: SystemResult, found: tuple[int, ...]) -> Values:
    """Return the geometric mean of the runs' rates, as the verdict uses it."""
    rates = [_rate_between(result) for result in system.valid_runs]

    def mean(begin: int, end: int) -> float | None:
        known = [each for rate in rates if (each := rate(begin, end)) is not None]
        if len(known) == len(rates):
            return statistics.geometric_mean(known)
        return None

    return tuple(tuple(mean(begin, end) for end in found) for begin in found)


def _rate_between(result: RunResult) -> Callable[[int, int], float | None]:
    """Return the rate of the records of a run whose steps are all after one stop and up to another,
    per s and GPU.

    None if these are fewer than LEAST steps, or if the run holds no step up to the last: a
    window that one run fills to a half isn't the same window.
    """
    run = result.run
    series = zip(run.steps, run.window_steps, run.step_times, strict=True)
    records = [(step, window, time) for step, window, time in series if time is not None]
    work = share_of_step(run, result.unit) or 0.0
    ends = [step for step, *_ in records]
    begins = [step - window for step, window, _ in records]
    # Sums up to each record, so that a window costs two look-ups.
    times = [0.0, *itertools.accumulate(time * window for _, window, time in records)]
    steps = [0, *itertools.accumulate(window for _, window, _ in records)]

    def rate(begin: int, end: int) -> float | None:
        first = bisect.bisect_left(begins, begin)
        last = bisect.bisect_right(ends, end)
        if last <= first or ends[-1] < end or steps[last] - steps[first] < LEAST:
            return None
        return work * (steps[last] - steps[first]) / (times[last] - times[first])

    return rate
