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

from tprimat.read.parsing.placing import Row, TimedRow

Times = Mapping[int, tuple[float | None, int]]
"""The printed mean time of a step, s, and the number of steps of each record, by its step."""

Group = tuple[float, float]
"""For each two neighboring records: the printed time, and the time between their stamps, s."""

Groups = Sequence[Group]

UNTIMED = None, 0
"""What there is of a record whose time isn't printed."""

CONTRADICT, TOO_LONG, OWN_CLOCK = "stamps-contradict", "steps-beyond-stamps", "stamps-are-clock"
"""Codes of notes: too few records, or too few that agree, to decide which one is right; steps last
longer than their stamps allow; the step times are those by the stamps.
"""

GROUP = 4.0
"""Least printed time of a group of records, in resolutions of the stamps: of 1 s steps with stamps
in whole seconds some lie 0 s apart and some 2 s, groups of four of them 3 to 5 s.
"""

LEAST_GROUPS = 3
"""Fewest groups that are evidence: one of two may be an artifact."""

DECISIVE = 15
"""Records that decide. In shorter logs the start weighs too much."""

LEFT_OUT = 0.1
"""Share of the groups, and at least one, that are left out as exceptions: a first line that was
written late, a pause that the log is silent about, such as an evaluation every ten records.
"""

AT_ONCE = 0.05
"""Share of its printed time, and of the mean time between groups, within which the lines of a group
were written at once: such stamps are no evidence. Milliseconds that are read as seconds are far
from their stamps, but evenly.
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
    """Return whether all step times can be differences on a clock with this resolution, s: 0.287 s
    can't be one of whole seconds.
    """
    if not resolution:
        return False
    pairs = zip(series["step_times"], series["window_steps"], strict=True)
    ticks = [time * steps / resolution for time, steps in pairs if time is not None]
    return all(math.isclose(count, round(count), abs_tol=1e-3) for count in ticks)


def impossible(rows: Sequence[TimedRow], times: Times, apart: Sequence[int]) -> tuple[int, ...]:
    """Return the few steps whose printed time can't have passed since the record before. Args as of
    contradiction().

    That record may have been written late: then it lies as much further from the one before it. If
    several lines at a time were written at once, many of these times are impossible, and no
    evidence.
    """
    bounds = sorted(apart)
    steps = []
    triples = zip(rows, rows[1:], rows[2:], strict=False)
    for (former, *_), (before, clock, _), (row, same, resolution) in triples:
        time, window = times.get(row.step, UNTIMED)
        if clock is None or clock is not same or not time or row.step - before.step != window:
            continue
        if _is_cut(bounds, former, row):
            continue
        earlier, length = times.get(before.step, UNTIMED)
        late = max(before.at - former.at - (earlier or 0.0) * length, 0.0)
        passed = max(row.at - before.at, 0.0)
        if time * window > TWICE * (passed + late + 2 * resolution) + LATE:
            steps.append(row.step)
    if len(steps) <= LEFT_OUT * len(rows):
        return tuple(steps)
    return ()


def _is_cut(bounds: Sequence[int], before: Row, row: Row) -> bool:
    """Return whether one of the lines in `bounds`, which are sorted, lies between two records."""
    return bisect.bisect_right(bounds, before.line) < bisect.bisect_right(bounds, row.line)


def contradiction(
    rows: Sequence[TimedRow], times: Times, apart: Sequence[int]
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
    stamped = [index for index, (_, clock, _) in enumerate(rows) if clock is not None]
    if len(stamped) <= LEAST_GROUPS:
        return None
    resolution = statistics.median(rows[index][2] for index in stamped)
    groups, records, unsettled = _grouped(rows, stamped, times, sorted(apart), resolution)
    if len(groups) < LEAST_GROUPS:
        return None
    # A time since the start is taken by who writes it, not by who receives it.
    if _are_at_once(groups) and rows[stamped[0]][1] != "elapsed":
        return None
    by_excess = sorted(groups, key=lambda group: group[0] - group[1])
    exceptions = max(1, int(LEFT_OUT * len(groups)))
    total = sum(printed for printed, _ in groups)
    is_decisive = records >= DECISIVE
    for code, sign, share, kept in (
        (TOO_LONG, 1, LONGER, by_excess[:-exceptions]),
        (OWN_CLOCK, -1, SHORTER, by_excess[exceptions:]),
    ):
        printed, passed = _sums(kept)
        if sign * (printed - passed) <= unsettled + share * total:
            continue
        is_alike = _is_alike(groups, (printed - passed) / printed, resolution)
        if is_alike and is_decisive and (usual := _usual(groups, resolution)):
            printed, passed = _sums(usual)
            return code, round(passed / printed, 6)
        # Among a few records two may be exceptions. Among many, more exceptions contradict the
        # times, but don't scale the rest.
        if is_alike or is_decisive:
            return CONTRADICT, round(passed / printed, 6)
    return None


def _grouped(
    rows: Sequence[TimedRow],
    stamped: Sequence[int],
    times: Times,
    bounds: Sequence[int],
    resolution: float,
) -> tuple[list[Group], int, float]:
    """Return groups of neighboring records, each of GROUP resolutions at least, in the order of the
    log; the number of records in them; and by how much, s, their sums may differ unsettled.

    `stamped` has the places of the rows with a time, `bounds` the lines over which no group goes.
    """
    groups = []
    records = steps = stretches = 0
    begin = rows[stamped[0]][0].at
    printed = 0.0
    is_new = True
    # Records without a stamp, such as every other one, lie between two that have one.
    for first, last in itertools.pairwise(stamped):
        (before, clock, _), (row, same, _) = rows[first], rows[last]
        between = [times.get(record.step, UNTIMED) for record, _, _ in rows[first + 1 : last + 1]]
        window = sum(count for _, count in between)
        seconds = [time * count for time, count in between if time]
        is_cut = clock is not same or row.at < before.at or _is_cut(bounds, before, row)
        if is_cut or len(seconds) < len(between) or row.step - before.step != window:
            begin = row.at
            printed = 0.0
            is_new = True
            continue
        printed += math.fsum(seconds)
        records += 1
        steps += window
        if printed >= GROUP * resolution:
            groups.append((printed, row.at - begin))
            stretches += is_new
            begin = row.at
            printed = 0.0
            is_new = False
    # The error of both ends of a stretch; those of several stretches are independent of each other.
    unsettled = 2 * resolution * math.sqrt(stretches) + steps * _rounding(times) + LATE
    return groups, records, unsettled


def _rounding(times: Times) -> float:
    """Return by how much a printed time may be rounded, s: 1.003 s is from 1.0025 to 1.0035 s, and
    may be so at every step.
    """
    digits = 0
    for seconds, _ in times.values():
        if seconds:
            digits = max(digits, len(f"{seconds:.9f}".rstrip("0").partition(".")[2]))
    return 0.5 * 10.0**-digits


def _are_at_once(groups: Groups) -> bool:
    """Return whether the lines of more groups than exceptions were written at once."""
    moment = max(LATE, AT_ONCE * statistics.fmean(passed for _, passed in groups))
    at_once = sum(passed < min(moment, AT_ONCE * printed) for printed, passed in groups)
    return at_once > LEFT_OUT * len(groups)


def _usual(groups: Groups, resolution: float) -> list[Group]:
    """Return the groups whose quotient is nearly the median one: of 4 s in stamps of 1 s, those
    within 2.4 s of it.

    What rounding takes from one group it gives to the next: only exceptions are left out.
    """
    quotient = statistics.median(passed / printed for printed, passed in groups)
    usual = []
    for printed, passed in groups:
        if abs(passed - quotient * printed) < 2 * resolution + LEFT_OUT * passed:
            usual.append((printed, passed))
    return usual


def _sums(groups: Groups) -> tuple[float, float]:
    """Return the printed time of groups, and that between their stamps, s."""
    printed, passed = zip(*groups, strict=True)
    return math.fsum(printed), math.fsum(passed)


def _is_alike(groups: Groups, share: float, resolution: float) -> bool:
    """Return whether most stretches of groups differ by a share, not a few of them by much and the
    rest by nothing.

    A twelfth of 4 s is lost in whole seconds, so that half of such groups would differ in either
    direction; of twelve groups in a row, 4 s are missing.
    """
    mean = math.fsum(printed for printed, _ in groups) / len(groups)
    long_enough = math.ceil(GROUP * resolution / (abs(share) * mean))
    length = max(min(long_enough, len(groups) // LEAST_GROUPS), 1)
    shares = []
    for begin in range(0, len(groups) - length + 1, length):
        printed, passed = _sums(groups[begin : begin + length])
        shares.append((printed - passed) / printed / share)
    return MOSTLY < statistics.median(shares) < 1 / MOSTLY
