"""What a ratio would be in another window of steps: a grid, computed here and looked up by the page's sliders.

It decides nothing. A reader sees how much of a ratio is the choice of the window, and that the
verdict, which rests on the steady steps, doesn't move with it.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import statistics
from collections.abc import Callable, Iterator
from typing import Any

from tprimat import units
from tprimat.compare import Group, Pair, SideResult
from tprimat.report.blocks import Content, Heading, Output, Paragraph, Table
from tprimat.report.page.markup import Fold, Part
from tprimat.report.page.view import View
from tprimat.report.rates import RATE, rate, rate_of
from tprimat.report.verdict import ratio_text
from tprimat.results.run import Run

STOPS = 26
"""First and last steps that the slider offers, at most."""

LEAST = 5
"""Steps of a window, at least."""

Values = tuple[tuple[float | None, ...], ...]
"""By the stop at which a window begins, and the one at which it ends."""


@dataclasses.dataclass(frozen=True)
class Grid:
    """Rates of the sides (tokens/s/GPU) and ratios of the pairs of a group, by window.

    A window holds the steps after one stop up to another. None where a run holds too little there.
    """

    stops: tuple[int, ...]
    rates: tuple[Values, ...]
    ratios: tuple[Values, ...]


def grid(group: Group) -> Grid | None:
    """The grid of a group; None where fewer than two sides have figures that may be shown."""
    if not any(pair.ratio for pair in group.pairs):
        return None
    usable = [side for side in group.sides if side.refusal is None and side.value(RATE) is not None and side.counted]
    # No window reaches beyond the shortest run: a ratio is of what all of them did.
    found = stops(min(result.run.steps[-1] for side in usable for result in side.counted))
    windows = {id(side): _rates(side, found) for side in usable}
    nothing: Values = ((None,) * len(found),) * len(found)
    ratios = [
        _quotients(windows[id(pair.side)], windows[id(pair.reference)]) if pair.ratio else nothing
        for pair in group.pairs
    ]
    return Grid(found, tuple(windows.get(id(side), nothing) for side in group.sides), tuple(ratios))


def _quotients(values: Values, others: Values) -> Values:
    return tuple(
        tuple(value / other if value and other else None for value, other in zip(*rows, strict=True))
        for rows in zip(values, others, strict=True)
    )


def stops(last: int) -> tuple[int, ...]:
    """Round step numbers from 0 to the last step, dense at the beginning, where warm-up is."""
    if last <= STOPS - 1:
        return tuple(range(last + 1))
    early = [0, 1, 2, 3, 5, 10, 20]
    rest = STOPS - len(early) - 1
    round_to = 10 ** max(0, len(str(last // rest)) - 2)
    even = {round(last * index / rest / round_to) * round_to for index in range(1, rest + 1)}
    return tuple(sorted({step for step in {*early, *even} if step < last} | {last}))


def values(found: Grid) -> dict[str, Any]:
    """The grid as the page looks it up: texts by begin and end, for windows that hold enough steps."""

    def texts(tables: tuple[Values, ...], form: Callable[[float], str]) -> list[list[list[str | None]]]:
        return [[[None if value is None else form(value) for value in row] for row in table] for table in tables]

    return {"stops": list(found.stops), "rates": texts(found.rates, rate), "ratios": texts(found.ratios, units.times)}


def section(view: View, group: Group) -> Iterator[Part]:
    """The sliders, and the table that they fill; as it stands before anybody moves them."""
    found = grid(group)
    if found is None:
        return
    groups = [each for model in view.comparison.models for each in model.groups]
    number = next(index for index, each in enumerate(groups) if each is group)
    # All steps but the first one.
    begin, end = 1 if len(found.stops) > 2 else 0, len(found.stops) - 1
    pairs = {id(pair.side): index for index, pair in enumerate(group.pairs)}
    rows: list[list[Content]] = []
    for index, side in enumerate(group.sides):
        value, own = found.rates[index][begin][end], pairs.get(id(side))
        ratios: list[Content] = ["reference", "reference"]
        if own is not None:
            ratio = found.ratios[own][begin][end]
            text = units.UNKNOWN if ratio is None else units.times(ratio)
            ratios = [Output(text, f"window-{number}-ratio-{index}"), ratio_text(group.pairs[own].ratio)]
        now = Output(rate(value), f"window-{number}-rate-{index}")
        rows.append([view.of(side).name, now, ratios[0], rate_of(side), ratios[1]])
    sliders = "".join(
        f'<label for="window-{number}-{which}">{title}<input type="range" id="window-{number}-{which}" min="0" '
        f'max="{len(found.stops) - 1}" step="1" value="{at}" data-window="{number}">'
        f'<output id="window-{number}-{which}-text">{found.stops[at]}</output></label>'
        for which, title, at in (("begin", "After step", begin), ("end", "Up to step", end))
    )
    yield Heading(4, "Another window of steps")
    yield Paragraph(
        "What the ratio would be if other steps were measured. The verdict stays: it rests on the steady steps, which "
        "are found from the step times alone."
    )
    yield f'<fieldset class="window" data-window="{number}"><legend>Steps that count</legend>{sliders}</fieldset>'
    header = ["", "In this window", "Ratio in this window", "By the verdict", "Ratio by the verdict"]
    yield Table(header, rows, caption="Throughput in the window of the sliders, beside the verdict's")
    yield from _other_windows(view, [pair for pair in group.pairs if pair.sensitivity])


def _other_windows(view: View, pairs: list[Pair]) -> Iterator[Part]:
    names = list(dict.fromkeys(name for pair in pairs for name, _ in pair.sensitivity))
    rows = []
    for pair in pairs:
        ratios = dict(pair.sensitivity)
        cells = [units.times(ratios[name]) if name in ratios else units.UNKNOWN for name in names]
        rows.append([view.of(pair.side).name, *cells])
    if rows:
        table = Table(["", *names], rows, caption="The ratio by the windows that other tools use")
        yield Fold("Table: windows that other tools use", [table])


def _rates(side: SideResult, found: tuple[int, ...]) -> Values:
    """The mean over the runs of their rates, as the verdict takes it."""
    rates = [_rate_between(result.run) for result in side.counted]

    def mean(begin: int, end: int) -> float | None:
        known = [each for rate in rates if (each := rate(begin, end)) is not None]
        return statistics.fmean(known) if len(known) == len(rates) else None

    return tuple(tuple(mean(begin, end) for end in found) for begin in found)


def _rate_between(run: Run) -> Callable[[int, int], float | None]:
    """Tokens/s/GPU of the records of a run whose steps all lie after one stop and up to another.

    None where these are fewer than LEAST steps, or where the run holds no step up to the last: a
    window that one run fills to a half isn't the same window.
    """
    series = zip(run.steps, run.window_steps, run.step_times, strict=True)
    records = [(step, window, time) for step, window, time in series if time is not None]
    work = (run.tokens_per_step or 0) / (run.num_gpus or 1)
    ends, begins = [step for step, *_ in records], [step - window for step, window, _ in records]
    # Sums up to each record, so that a window costs two look-ups.
    times = [0.0, *itertools.accumulate(time * window for _, window, time in records)]
    steps = [0, *itertools.accumulate(window for _, window, _ in records)]

    def rate(begin: int, end: int) -> float | None:
        first, last = bisect.bisect_left(begins, begin), bisect.bisect_right(ends, end)
        if last <= first or ends[-1] < end or steps[last] - steps[first] < LEAST:
            return None
        return work * (steps[last] - steps[first]) / (times[last] - times[first])

    return rate
