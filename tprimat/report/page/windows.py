"""What a ratio would be in another window of steps: a grid, computed here and looked up by the page.

It decides nothing. A reader sees how much of a ratio is the choice of the window, and that the
verdict, which rests on the steady steps, doesn't move with it.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import statistics
from collections.abc import Sequence
from typing import Any

from tprimat import units
from tprimat.compare import Group, SideResult
from tprimat.report.rates import RATE, rate
from tprimat.results.run import Run

STOPS = 26
"""First and last steps that the slider offers, at most."""

LEAST = 5
"""Steps of a window, at least."""


Table = tuple[tuple[float | None, ...], ...]
"""Values by the stop at which a window begins, and the one at which it ends."""


@dataclasses.dataclass(frozen=True)
class Grid:
    """Rates and ratios by window.

    Attributes:
        stops: step numbers at which a window may begin or end; it holds the steps after the first
            stop up to the last one.
        sides: in the order of the group.
        rates: tokens/s/GPU of each side, by begin and end; None where a run holds too little there.
        ratios: of each pair of the group, above 1 where the side is faster.
    """

    stops: tuple[int, ...]
    sides: tuple[SideResult, ...]
    rates: tuple[Table, ...]
    ratios: tuple[Table, ...]


def grid(group: Group) -> Grid | None:
    """The grid of a group; None where fewer than two sides have figures that may be shown."""
    usable = [side for side in group.sides if _usable(side)]
    compared = [pair for pair in group.pairs if pair.ratio]
    if not compared:
        return None
    # No window reaches beyond the shortest run: a ratio is of what all of them did.
    last = min(result.run.steps[-1] for side in usable for result in side.counted)
    found = stops(last)
    windows = {id(side): _rates(side, found) for side in usable}
    nothing: Table = tuple(tuple(None for _ in found) for _ in found)
    rates = tuple(windows.get(id(side), nothing) for side in group.sides)
    ratios: list[Table] = []
    for pair in group.pairs:
        if pair.ratio is None:
            ratios.append(nothing)
            continue
        one, other = windows[id(pair.side)], windows[id(pair.reference)]
        ratios.append(
            tuple(
                tuple(a / b if a and b else None for a, b in zip(row, below, strict=True))
                for row, below in zip(one, other, strict=True)
            )
        )
    return Grid(found, group.sides, rates, tuple(ratios))


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

    def texts(table: Sequence[Sequence[float | None]], form: Any) -> list[list[str | None]]:
        return [[None if value is None else form(value) for value in row] for row in table]

    return {
        "stops": list(found.stops),
        "rates": [texts(table, rate) for table in found.rates],
        "ratios": [texts(table, units.times) for table in found.ratios],
    }


def start_of(found: Grid) -> tuple[int, int]:
    """Where the sliders stand first: all steps but the first one."""
    return (1 if len(found.stops) > 2 else 0, len(found.stops) - 1)


def _usable(side: SideResult) -> bool:
    return side.refusal is None and side.value(RATE) is not None and bool(side.counted)


def _rates(side: SideResult, found: Sequence[int]) -> Table:
    """The mean over the runs of their rates, as the verdict takes it."""
    runs = [_Sums(result.run) for result in side.counted]
    rows = []
    for begin in found:
        row: list[float | None] = []
        for end in found:
            each = [run.rate(begin, end) for run in runs] if end - begin >= LEAST else [None]
            known = [value for value in each if value is not None]
            row.append(statistics.fmean(known) if len(known) == len(each) else None)
        rows.append(tuple(row))
    return tuple(rows)


class _Sums:
    """Sums of a run's times and steps up to each record, so that a window costs two look-ups."""

    def __init__(self, run: Run) -> None:
        records = [
            (step, window, time)
            for step, window, time in zip(run.steps, run.window_steps, run.step_times, strict=True)
            if time is not None
        ]
        self._work = (run.tokens_per_step or 0) / (run.num_gpus or 1)
        self._ends = [step for step, _, _ in records]
        self._begins = [step - window for step, window, _ in records]
        self._times = [0.0, *itertools.accumulate(time * window for _, window, time in records)]
        self._steps = [0, *itertools.accumulate(window for _, window, _ in records)]

    def rate(self, begin: int, end: int) -> float | None:
        """Tokens/s/GPU of the records whose steps all lie after `begin` and up to `end`.

        None where these are fewer than LEAST steps, or where the run holds no step up to `end`: a
        window that one run fills to a half isn't the same window.
        """
        if not self._ends or self._ends[-1] < end:
            return None
        first, last = bisect.bisect_left(self._begins, begin), bisect.bisect_right(self._ends, end)
        steps = self._steps[last] - self._steps[first] if last > first else 0
        if steps < LEAST:
            return None
        return self._work * steps / (self._times[last] - self._times[first])
