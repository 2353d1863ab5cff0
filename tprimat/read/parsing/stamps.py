"""Whether the printed times of steps and the time stamps of their records can both be true.

Steps that together last longer than the time between their stamps are impossible, however the
stamps were written. Steps that last shorter leave time that something else took: if nothing in the
log explains it, the stamps, which stand at the end of every step, are the better clock.
"""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tprimat.read.parsing.placing import TimedRow

CONTRADICT, TOO_LONG, OWN_CLOCK = "stamps-contradict", "steps-beyond-stamps", "stamps-are-clock"
"""Codes of notes: too few records or too few of them alike to tell which one is right; steps last
longer than their stamps allow; the step times are those by the stamps.
"""

GROUP = 4.0
"""Least printed time of a group of records, in resolutions of the stamps: of 1 s steps with stamps
in whole seconds some lie 0 s apart and some 2 s, groups of four of them 3 to 5 s.
"""

LEAST_GROUPS = 3
"""Groups that tell something: of two one may be an artefact."""

DECISIVE = 15
"""Records that decide. In shorter logs the start weighs too much."""

LEFT_OUT = 0.1
"""Share of the groups, and at least one, that are left out as exceptions: a first line that was
written late, a pause that the log is silent about, such as an evaluation every ten records.
"""

AT_ONCE = 0.05
"""Share of its printed time, and of the mean time between groups, within which the lines of a group
were written at once: such stamps say nothing. Milliseconds that are read as seconds are far from
their stamps, but evenly.
"""

MOSTLY = 0.5
"""Share of a difference that most stretches of a log have at least if it is one of all steps; what
pauses make up may be missing in most, or, where half of them hold one, be a multiple.
"""

LONGER, SHORTER = 0.01, 0.02
"""Shares of the printed time that are no contradiction: rates are rounded; printing and barriers
take time.
"""

LATE = 0.05
"""s by which a line may be written late."""


TWICE = 2.0
"""How many times as long as its stamps allow, and with their resolutions, a single step is
impossible: 41 s where 5 s passed.
"""


def can_be_made_of(series: Mapping[str, Sequence[Any]], resolution: float) -> bool:
    """Return whether all step times can be differences of a clock of so many s: 0.287 s are none of
    whole seconds.
    """
    if not resolution:
        return False
    pairs = zip(series["step_times"], series["window_steps"], strict=True)
    ticks = [time * steps / resolution for time, steps in pairs if time is not None]
    return all(math.isclose(count, round(count), abs_tol=1e-3) for count in ticks)


def impossible(
    rows: Sequence[TimedRow], times: Mapping[int, tuple[float | None, int]], apart: Sequence[int]
) -> tuple[int, ...]:
    """Return the few steps whose printed time can't have passed since the record before. Args as of
    contradiction().

    That record may have been written late: then it lies as much further from the one before it. Of
        lines that were
    written several at once, many are impossible, and say nothing.
    """
    bounds = sorted(apart)
    found = []
    for (former, *_), (before, clock, _), (row, same, resolution) in zip(
        rows, rows[1:], rows[2:], strict=False
    ):
        (earlier, length), (time, window) = (
            times.get(before.step, (None, 0)),
            times.get(row.step, (None, 0)),
        )
        late = max(before.at - former.at - (earlier or 0.0) * length, 0.0)
        is_cut = bisect.bisect_right(bounds, former.line) < bisect.bisect_right(bounds, row.line)
        if (
            is_cut
            or clock is None
            or clock is not same
            or not time
            or row.step - before.step != window
        ):
            continue
        if time * window > TWICE * (max(row.at - before.at, 0.0) + late + 2 * resolution) + LATE:
            found.append(row.step)
    if len(found) <= LEFT_OUT * len(rows):
        return tuple(found)
    return ()


def contradiction(
    rows: Sequence[TimedRow], times: Mapping[int, tuple[float | None, int]], apart: Sequence[int]
) -> tuple[str, float] | None:
    """Return what stamps of records have against their printed times, a code and the quotient; None
    if nothing.

    Args:
        rows: records in the order of the log, each with the clock of its time and the resolution of
            that, s.
        times: the printed mean time of a step, s, and the number of steps of each record, by its
            step.
        apart: lines between two records whose distance isn't that of steps: starts, evaluations,
            checkpoints.
    """
    stamped = [place for place, (_, clock, _) in enumerate(rows) if clock is not None]
    if len(stamped) <= LEAST_GROUPS:
        return None
    bounds = sorted(apart)
    resolution = statistics.median(rows[place][2] for place in stamped)
    groups = []
    records = steps = stretches = 0
    begin = rows[stamped[0]][0].at
    printed = 0.0
    is_new = True
    # Records without a stamp, such as every other one, lie between two that have one.
    for first, last in itertools.pairwise(stamped):
        (before, clock, _), (row, same, _) = rows[first], rows[last]
        between = [times.get(each.step, (None, 0)) for each, _, _ in rows[first + 1 : last + 1]]
        window, seconds = (
            sum(window for _, window in between),
            [time * window for time, window in between if time],
        )
        is_cut = bisect.bisect_right(bounds, before.line) < bisect.bisect_right(bounds, row.line)
        is_cut = is_cut or clock is not same or row.at < before.at
        if is_cut or len(seconds) < len(between) or row.step - before.step != window:
            begin = row.at
            printed = 0.0
            is_new = True
            continue
        printed = printed + math.fsum(seconds)
        records = records + 1
        steps = steps + window
        if printed >= GROUP * resolution:
            groups.append((printed, row.at - begin))
            stretches += is_new
            begin = row.at
            printed = 0.0
            is_new = False
    if len(groups) < LEAST_GROUPS:
        return None
    moment = max(LATE, AT_ONCE * statistics.fmean(passed for _, passed in groups))
    at_once = sum(passed < min(moment, AT_ONCE * printed) for printed, passed in groups)
    # A time since the start is taken by who writes it, not by who receives it.
    if at_once > LEFT_OUT * len(groups) and rows[stamped[0]][1] != "elapsed":
        return None
    in_order = list(groups)
    groups.sort(key=lambda each: each[0] - each[1])
    exceptions = max(1, int(LEFT_OUT * len(groups)))
    total = sum(printed for printed, _ in groups)
    # A printed time of 1.003 s is one from 1.0025 to 1.0035 s, and may be so at every step.
    digits = max(
        len(f"{seconds:.9f}".rstrip("0").partition(".")[2])
        for seconds, _ in times.values()
        if seconds
    )
    # The error of both ends of a stretch; those of several stretches are independent of each other.
    unsettled = 2 * resolution * math.sqrt(stretches) + steps * 0.5 * 10.0**-digits + LATE
    for code, sign, share, kept in (
        (TOO_LONG, 1, LONGER, groups[:-exceptions]),
        (OWN_CLOCK, -1, SHORTER, groups[exceptions:]),
    ):
        printed, passed = (math.fsum(each) for each in zip(*kept, strict=True))
        if sign * (printed - passed) <= unsettled + share * total:
            continue
        is_alike = _is_alike(in_order, (printed - passed) / printed, resolution)
        if is_alike and records >= DECISIVE:
            # What rounding takes from one group it gives to the next: only exceptions are left out.
            usual = statistics.median(passed / printed for printed, passed in groups)
            kept = []
            for each in groups:
                if abs(each[1] - usual * each[0]) < 2 * resolution + LEFT_OUT * each[1]:
                    kept.append(each)
            if kept:
                printed, passed = (math.fsum(each) for each in zip(*kept, strict=True))
                return code, round(passed / printed, 6)
        # Of a few records two may be exceptions; of many, so many exceptions contradict, but don't
        # scale the rest.
        if is_alike or records >= DECISIVE:
            return CONTRADICT, round(passed / printed, 6)
    return None


def _is_alike(groups: Sequence[tuple[float, float]], share: float, resolution: float) -> bool:
    """Return whether most stretches of groups differ by a share, not a few of them by much and the
    rest by nothing.

    A twelfth of 4 s is lost in whole seconds, so that half of such groups would differ in either
    direction; of twelve groups in a row, 4 s are missing.
    """
    mean = math.fsum(printed for printed, _ in groups) / len(groups)
    length = max(
        min(math.ceil(GROUP * resolution / (abs(share) * mean)), len(groups) // LEAST_GROUPS), 1
    )
    stretches = (
        groups[place : place + length] for place in range(0, len(groups) - length + 1, length)
    )
    sums = ([math.fsum(each) for each in zip(*stretch, strict=True)] for stretch in stretches)
    typical = statistics.median((printed - passed) / printed / share for printed, passed in sums)
    return MOSTLY < typical < 1 / MOSTLY
