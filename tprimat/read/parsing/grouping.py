"""Records of lines that are not one step each: micro-batches, intervals, and lines of several
ranks.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Sequence

from tprimat.read.parsing.records import LogContext, Record

Rows = list[tuple[Record, LogContext]]
"""Records in the order of a file, each with the context before it."""

LEAST_RANKED = 3
"""Fewest steps by which lines of several ranks are distinguished from a repeated step."""


def number_ranks(records: Sequence[Record]) -> None:
    """Set the origin of records if each rank prints a line: most steps are printed several times in
    a row.

    In steps 0 0 1 1 2 2 every second line is that of another rank; in 0 1 2 2 3 one step is
    repeated.
    """
    groups = []
    for _, lines in itertools.groupby(records, lambda record: record.step):
        groups.append([*lines])
    repeated = sum(len(group) > 1 for group in groups)
    if len(groups) < LEAST_RANKED or 2 * repeated <= len(groups):
        return
    for group in groups:
        for place, record in enumerate(group):
            record.origin = str(place)


def set_interval_times(records: Sequence[Record]) -> None:
    """Set windows, and step times by the native value interval_seconds, the time of all steps since
    the record before.

    The first record has as many steps as the next one: records at steps 10 and 20 have 10 steps
    each. A single record has an unknown number, unless it is at step 1.
    """
    apart = records[1].step - records[0].step if len(records) > 1 else 1
    step = max(records[0].step - apart, 0)
    for record in records:
        record.window = max(record.step - step, 1)
        step = record.step
        seconds = record.native.get("interval_seconds")
        if seconds is not None and (len(records) > 1 or record.step <= 1):
            record.put("seconds", round(seconds / record.window, 9))


def optimizer_steps(rows: Rows) -> Rows:
    """Return a row for each optimizer step, of rows that have the native value micro_step.

    Its time is the sum of those of its micro-batches, if all are logged; the other values are those
    of the last one. There are two forms:

        iter 1 step 0, iter 2 step 1, iter 3 step 1, iter 4 step 2    the line on which the step
                                                                      rises ends it: 1–2, 3–4
        micro 0 step 0, micro 1 step 0, micro 0 step 1, micro 1 …     lines with the same step
    """
    groups = list(_groups(rows))
    usual = statistics.mode(len(group) for group in groups) if groups else 0
    steps = Rows()
    before = None
    for group, following in itertools.zip_longest(groups, groups[1:]):
        numbers = [_micro_step(row) for row in group]
        last = numbers[-1]
        after = _micro_step(following[0]) if following else 0
        is_gapless = numbers == [*range(numbers[0], last + 1)]
        begins = numbers[0] in (0, 1) or (before is not None and numbers[0] == before + 1)
        # If the counter begins again, or the file ends, only the number of lines shows whether the
        # step is complete.
        ends = after == last + 1 if after > last else len(group) >= usual
        before = last
        steps.append(_summed(group, is_whole=is_gapless and begins and ends))
    return steps


def _micro_step(row: tuple[Record, LogContext]) -> int:
    return int(row[0].native["micro_step"])


def _groups(rows: Rows) -> Iterator[Rows]:
    """Yield the rows of each optimizer step."""
    on_rise = _ends_on_rise(rows)
    group = Rows()
    before = None
    for row in rows:
        place = (row[0].step, _micro_step(row))
        if place == before:
            # Another rank.
            continue
        is_new = before is not None and place[0] != before[0]
        falls = before is not None and place[1] < before[1]
        if group and (falls if on_rise else is_new):
            # A restart loses the step that had begun.
            yield from () if on_rise else (group,)
            group = Rows()
        group.append(row)
        if on_rise and is_new and not falls:
            yield group
            group = Rows()
        before = place
    if group and not on_rise:
        yield group


def _ends_on_rise(rows: Rows) -> bool:
    """Return whether the line on which the step rises ends it: micro-batches count from 1, and the
    step rises at multiples of their number per step, as at 2, 4 and 6.
    """
    rises = []
    for row, later in itertools.pairwise(rows):
        if later[0].step > row[0].step and _micro_step(later) > _micro_step(row):
            rises.append(_micro_step(later))
    if len(rises) < 2 or any(_micro_step(row) == 0 for row in rows):
        return False
    apart = statistics.mode(later - number for number, later in itertools.pairwise(rises))
    return apart > 1 and 2 * sum(number % apart == 0 for number in rises) > len(rises)


def _summed(group: Rows, *, is_whole: bool) -> tuple[Record, LogContext]:
    """Return the row of a step from those of its micro-batches."""
    record = group[-1][0]
    around = LogContext()
    times = []
    for each, before in group:
        around.absorb(before)
        times.append(each.seconds)
    del record.native["micro_step"]
    record.seconds = None
    if is_whole and None not in times:
        record.put("seconds", round(sum(time or 0.0 for time in times), 9))
        record.put("iterations", len(group))
    return record, around
